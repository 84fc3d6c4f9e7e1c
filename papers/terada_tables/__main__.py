"""`python -m papers.terada_tables [--quick] [--mesh FILE ...]`: this paper alone; FILE are mesh CSV files of e-Stat."""

import sys

from papers.terada_tables.reproduce import reproduce

arguments = sys.argv[1:]
files = arguments[arguments.index("--mesh") + 1 :] if "--mesh" in arguments else []
sys.exit(0 if reproduce(share=0.2 if "--quick" in arguments else 1.0, mesh_files=files) else 1)
