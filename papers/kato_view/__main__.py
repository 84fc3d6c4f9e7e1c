"""`python -m papers.kato_view [SEEDS]`: tables and figures on the data in ../shared/data, into results.md."""

import sys

from papers.kato_view.reproduce import SEEDS, reproduce

if __name__ == "__main__":
    sys.exit(0 if reproduce(seeds=int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS) else 1)
