"""Reading published tables for a page: numbers, codes, marginals, classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ReleaseError, SchemaError
from sudare.releases import Coded, Frame, Release
from sudare.report.shapes import Listing, Marginal, Picture, Section, TruthComparison, count, number
from sudare.report.svg import legend, marginal
from sudare.schema import Attribute
from sudare.schema.arrays import Codes, Reals
from sudare.text import say

FrameColumn = Coded | NDArray[Any]


def frame_of(release: Release, name: str) -> Frame:
    """Find a table of a release."""
    if name not in release.frames:
        known = ", ".join(release.frames)
        raise ReleaseError("the release has no table {frame}; it has {known}", frame=name, known=known)
    return release.frames[name]


def numbers(column: FrameColumn) -> Reals:
    """Read a column of numbers, which a CSV file holds as texts; nothing is NaN.

    >>> numbers(Coded(np.array([1, 0]), np.array(["2.5", None], dtype=object))).tolist()
    [nan, 2.5]
    """
    if isinstance(column, Coded):
        texts = [float(one) if one not in (None, "") else np.nan for one in column.labels.tolist()]
        return np.array(texts, dtype=np.float64)[column.codes]
    filled: Reals = np.ma.filled(np.ma.asarray(column).astype(np.float64), np.nan)
    return filled


def texts(column: FrameColumn) -> Coded:
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


def codes_of(attribute: Attribute, column: FrameColumn) -> Codes:
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


# Records by the values of each attribute, drawn and listed; beside the truth where the steward gave it.


def marginal_section(found: Iterable[Marginal], truth: TruthComparison | None) -> Section:
    """Draw every attribute; with the truth the section is secret."""
    parts: list[Picture | Listing] = []
    for one in found:
        true = None if truth is None else truth.true.get(one.name)
        whole = replace(one, true=true)
        has_interval = whole.folded().low is not None
        key = legend(truth=true is not None, interval=has_interval)
        parts.append(Picture(title=one.name, drawing=key + marginal(whole)))
        parts.append(_listing(whole))
    return Section(
        title=say("Records by attribute") if truth is None else say("Records by attribute, published and true"),
        parts=tuple(parts),
        is_secret=truth is not None,
    )


def _listing(one: Marginal) -> Listing:
    head, columns = [one.name, say("published")], [one.labels, [count(x) for x in one.published]]
    if one.low is not None and one.high is not None:
        head += [say("low (95%)"), say("high (95%)")]
        columns += [[count(x) for x in ends] for ends in (one.low, one.high)]
    if one.true is not None:
        head += [say("true"), say("difference")]
        columns.append([number(float(x)) for x in one.true])
        columns.append([count(x) for x in one.published - one.true])
    title = say("numbers of {name}", name=one.name)
    return Listing(title=title, head=tuple(head), rows=list(zip(*columns, strict=True)), is_folded=True)


def figures_section(truth: TruthComparison) -> Section:
    """List how far the release is from the truth."""
    listing = Listing(
        title=say("distance from the true table"), head=(say("measure"), say("value")), rows=truth.figures
    )
    return Section(title=say("How far from the truth"), parts=(listing,), is_secret=True)
