"""`python -m papers.hiraishi_location [--quick]`: this paper alone; quick takes less and writes nothing."""

import sys

from papers.hiraishi_location.reproduce import reproduce

sys.exit(0 if reproduce(share=0.1 if "--quick" in sys.argv[1:] else 1.0) else 1)
