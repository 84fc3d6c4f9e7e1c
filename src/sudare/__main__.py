"""`python -m sudare`."""

import sys

from sudare.cli import main

sys.exit(main())
