"""The types of arrays, each named once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]  # positions in the domain of an attribute, or numbers of cells
SmallCodes = NDArray[np.int32]  # the same where many are kept
Integers = NDArray[np.int64]  # counts, sums, sizes
Reals = NDArray[np.float64]
Booleans = NDArray[np.bool_]
Labels = NDArray[np.object_]  # texts; None where there is no value
