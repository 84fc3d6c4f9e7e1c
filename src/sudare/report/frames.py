"""Reading published tables for a page: numbers, codes, marginals, classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ReleaseError, SchemaError
from sudare.messages import say
from sudare.releases import Coded, Frame, Release
from sudare.report.shapes import Marginal, Reals
from sudare.schema import Attribute

Codes = NDArray[np.int64]
Column = Coded | NDArray[Any]


def frame_of(release: Release, name: str) -> Frame:
    """Find a table of a release."""
    if name not in release.frames:
        known = ", ".join(release.frames)
        raise ReleaseError("the release has no table {frame}; it has {known}", frame=name, known=known)
    return release.frames[name]


def numbers(column: Column) -> Reals:
    """Read a column of numbers, which a CSV file holds as texts; nothing is NaN.

    >>> numbers(Coded(np.array([1, 0]), np.array(["2.5", None], dtype=object))).tolist()
    [nan, 2.5]
    """
    if isinstance(column, Coded):
        texts = [float(one) if one not in (None, "") else np.nan for one in column.labels.tolist()]
        return np.array(texts, dtype=np.float64)[column.codes]
    filled: Reals = np.ma.filled(np.ma.asarray(column).astype(np.float64), np.nan)
    return filled


def texts(column: Column) -> Coded:
    """Take any column as codes and labels.

    >>> texts(np.array([30, 20, 30])).labels.tolist()
    ['20', '30']
    """
    if isinstance(column, Coded):
        return column
    found, places = np.unique(np.ma.getdata(column), return_inverse=True)
    labels = np.array([*map(str, found.tolist()), None], dtype=object)
    codes = np.where(np.ma.getmaskarray(column), found.size, places.reshape(-1)).astype(np.int64)
    return Coded(codes, labels if np.ma.getmaskarray(column).any() else labels[:-1])


def codes_of(attribute: Attribute, column: Column) -> Codes:
    """Find the codes of a published column, be it of labels or of values drawn inside their bins."""
    found = texts(column)
    known = np.array([_code(attribute, label) for label in found.labels.tolist()], dtype=np.int64)
    return known[found.codes]


def _code(attribute: Attribute, label: str | None) -> int:
    try:
        return attribute.code(label)
    except SchemaError:
        return attribute.encode(label)


def label_texts(attribute: Attribute) -> tuple[str, ...]:
    """Name every value; a missing one by a word."""
    return tuple(map(shown, attribute.labels(np.arange(attribute.size)).tolist()))


def shown(label: str | None) -> str:
    """Give a label as words; nothing is a missing value.

    >>> shown("F")
    'F'
    """
    return say("(missing)") if label is None else str(label)


def marginal_of(attribute: Attribute, codes: Codes, weights: Reals | None = None) -> Marginal:
    """Add published records up by the values of an attribute."""
    sums = np.bincount(codes, weights=weights, minlength=attribute.size).astype(np.float64)
    return Marginal(name=attribute.name, labels=label_texts(attribute), published=sums, is_ordered=attribute.is_ordered)


def class_numbers(columns: Sequence[Coded]) -> Codes:
    """Number the combinations of some columns, row by row.

    >>> one = Coded(np.array([0, 1, 0]), np.array(["F", "M"], dtype=object))
    >>> class_numbers([one]).tolist()
    [0, 1, 0]
    """
    whole = np.column_stack([column.codes for column in columns])
    numbered: Codes = np.unique(whole, axis=0, return_inverse=True)[1].reshape(-1)
    return numbered
