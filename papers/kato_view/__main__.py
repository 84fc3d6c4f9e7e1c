"""`python -m papers.kato_view [SEEDS] [--quick]`: tables and figures on the data in ../shared/data.

Single runs are kept in the temporary directory, so a second call does only what changed. Quick takes the two small
sets, one seed, and writes nothing.
"""

import sys

from papers.kato_view.data import is_here
from papers.kato_view.reproduce import SEEDS, quick, reproduce
from papers.kato_view.tables import relative_lines

if __name__ == "__main__":
    if "--quick" in sys.argv[1:]:
        print("\n".join(relative_lines(quick())) if is_here() else "the data are not beside the project")
        sys.exit(0)
    seeds = [int(one) for one in sys.argv[1:] if one.isdigit()]
    sys.exit(0 if reproduce(seeds=seeds[0] if seeds else SEEDS) else 1)
