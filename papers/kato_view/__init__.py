"""Kato, Takahashi, Cao, Yoshikawa: counting queries on multi-dimensional data under differential privacy."""

import os

# matrices here are small: threads of OpenBLAS cost up to ten times more CPU than they save; set before NumPy is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
