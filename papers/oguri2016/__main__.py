"""`python -m papers.oguri2016`: this paper alone."""

import sys

from papers.oguri2016.reproduce import reproduce

sys.exit(0 if reproduce() else 1)
