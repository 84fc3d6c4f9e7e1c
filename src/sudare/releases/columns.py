"""Published columns read back: as numbers, as labels, as codes of an attribute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ReleaseError, SchemaError
from sudare.releases.frame import Coded, Frame
from sudare.releases.release import Release
from sudare.schema import Attribute
from sudare.schema.arrays import Codes, Reals

FrameColumn = Coded | NDArray[Any]


def find_frame(release: Release, name: str) -> Frame:
    """Find a table of a release."""
    if name not in release.frames:
        known = ", ".join(release.frames)
        raise ReleaseError("the release has no table {frame}; it has {known}", frame=name, known=known)
    return release.frames[name]


def read_numbers(column: FrameColumn) -> Reals:
    """Read a column of numbers, which a CSV file holds as texts; an empty one is NaN.

    >>> read_numbers(Coded(np.array([1, 0]), np.array(["2.5", None], dtype=object))).tolist()
    [nan, 2.5]
    """
    if isinstance(column, Coded):
        values = [float(label) if label not in (None, "") else np.nan for label in column.labels.tolist()]
        return np.array(values, dtype=np.float64)[column.codes]
    filled: Reals = np.ma.filled(np.ma.asarray(column).astype(np.float64), np.nan)
    return filled


def read_labels(column: FrameColumn) -> Coded:
    """Read any column as codes and labels.

    >>> read_labels(np.array([30, 20, 30])).labels.tolist()
    ['20', '30']
    """
    if isinstance(column, Coded):
        return column
    distinct, places = np.unique(np.ma.getdata(column), return_inverse=True)
    labels = np.array([*map(str, distinct.tolist()), None], dtype=object)
    codes = np.where(np.ma.getmaskarray(column), distinct.size, places.reshape(-1)).astype(np.int64)
    return Coded(codes, labels if np.ma.getmaskarray(column).any() else labels[:-1])


def read_codes(attribute: Attribute, column: FrameColumn) -> Codes:
    """Read a published column as codes of its attribute, be it of labels or of values drawn inside their bins."""
    labelled = read_labels(column)
    codes = np.array([_find_code(attribute, label) for label in labelled.labels.tolist()], dtype=np.int64)
    return codes[labelled.codes]


def _find_code(attribute: Attribute, label: str | None) -> int:
    try:
        return attribute.code(label)
    except SchemaError:
        return attribute.encode(label)


def number_combinations(columns: Sequence[Coded]) -> Codes:
    """Number the combinations of some columns, row by row.

    >>> sex = Coded(np.array([0, 1, 0]), np.array(["F", "M"], dtype=object))
    >>> number_combinations([sex]).tolist()
    [0, 1, 0]
    """
    rows = np.column_stack([column.codes for column in columns])
    numbers: Codes = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    return numbers
