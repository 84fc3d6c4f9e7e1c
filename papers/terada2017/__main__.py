"""`python -m papers.terada2017 [--quick]`: this paper alone; quick takes a tenth of the trials and writes nothing."""

import sys

from papers.terada2017.reproduce import reproduce

sys.exit(0 if reproduce(share=0.1 if "--quick" in sys.argv[1:] else 1.0) else 1)
