"""Arrays of labels, looked up by code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.schema.radix import Codes

Labels = NDArray[np.object_]

MOST_BINS = 1_000_000  # labels are kept in memory; a finer axis says nothing about people
OTHER_LABEL = "(other)"
MISSING_LABEL = "(missing)"
TOP_LABEL = "*"


def label_array(labels: Sequence[str | None]) -> Labels:
    """Put labels into a read-only array.

    >>> label_array(["a", None]).tolist()
    ['a', None]
    """
    array = np.empty(len(labels), dtype=np.object_)
    array[:] = labels
    array.flags.writeable = False
    return array


def checked_codes(codes: Any, size: int) -> Codes:
    """Refuse codes outside 0..size-1: a negative one would quietly count from the end.

    >>> checked_codes([0, 2], 3).tolist()
    [0, 2]
    """
    array: Codes = np.asarray(codes, dtype=np.int64)
    if array.size and (array.min() < 0 or array.max() >= size):
        raise ParameterError("codes must be between 0 and {top}", top=size - 1)
    return array


def take(labels: Labels, codes: Codes) -> Labels:
    """Look up the labels of codes."""
    found: Labels = labels[checked_codes(codes, len(labels))]
    return found


def shown(values: Sequence[object], most: int = 5) -> str:
    """List a few public values for an error line.

    >>> shown(["a", "b", "c"], most=2)
    'a, b, ...'
    """
    return ", ".join(str(value) for value in values[:most]) + (", ..." if len(values) > most else "")
