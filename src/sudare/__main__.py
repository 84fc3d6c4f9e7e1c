"""`python -m sudare`."""

import sys

from sudare.cli import main

if __name__ == "__main__":
    sys.exit(main())
