"""Groupings in words for a data user: "age in 5-year groups instead of single years". Public facts only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from sudare.methods.kanon.request import Grouping, RequestOption
from sudare.schema import Attribute
from sudare.schema.arrays import Codes
from sudare.schema.domain import DateBins, NumberBins
from sudare.schema.raw import MISSING_LABEL
from sudare.text import Text, join_items, text

AGE_NAMES = ("age", "ages", "年齢", "年令", "歳")  # number attributes that are counted in years
MAX_LISTED = 6  # labels of groups that are named one by one
MAX_PARTLY_MERGED = 3  # groups of a level that are merged, named beside the level
DAYS = ((1, "day"), (7, "week"), (28, "month"), (89, "quarter"), (364, "year"))  # at least so many days of a bin


def describe_change(wish: Grouping, offered: Grouping) -> Text | None:
    """Say what an attribute loses where another grouping is offered; None if nothing changes."""
    if np.array_equal(wish.group_of, offered.group_of):
        return None
    name = wish.attribute.name
    if offered.size == 1:
        return text("{name} left out", name=name)
    return text("{new} instead of {old}", new=describe_grouping(offered), old=_describe_short(wish))


def describe_grouping(grouping: Grouping) -> Text:
    """Say how an attribute is grouped."""
    name = grouping.attribute.name
    if grouping.size == 1:
        return text("{name} left out", name=name)
    return text("{name} {how}", name=name, how=_describe_short(grouping, is_alone=False))


def describe_level(attribute: Attribute, level: int) -> Text:
    """Say in a few words what a level of a hierarchy publishes: "5-year groups", "8 groups such as Kanto"."""
    grouping = Grouping(attribute, level)
    if grouping.size == 1:
        return text("left out")
    has_names = _find_period(grouping) is None and _find_width(grouping) is None
    return (
        join_items(_list_labels(grouping)) if has_names and grouping.size <= MAX_LISTED else _describe_short(grouping)
    )


def describe_option(option: RequestOption) -> Text:
    """Say how all attributes are grouped."""
    return join_items(describe_grouping(grouping) for grouping in option.values())


def _describe_short(grouping: Grouping, *, is_alone: bool = True) -> Text:
    """Say the grouping without the name: "in 5-year groups", or where it stands alone "5-year groups"."""
    attribute = grouping.attribute
    period = _find_period(grouping)
    if period is not None:
        return period if is_alone else text("by {period}", period=period)
    width = _find_width(grouping)
    if width is not None:
        words = _describe_width(attribute, width)
    elif grouping.groups is None and grouping.level == 0:
        return text("all {count} values", count=grouping.size) if is_alone else text("in full")
    elif grouping.size > MAX_LISTED and (partly := _find_partly_merged(grouping)) is not None:
        level, labels = partly
        how = _describe_short(level, is_alone=is_alone)
        if len(labels) == 1:
            return text("{how}, with {label} as one group", how=how, label=labels[0])
        return text("{how}, with {labels} each as one group", how=how, labels=join_items(labels))
    elif grouping.size <= MAX_LISTED:
        words = text("the groups {labels}", labels=join_items(_list_labels(grouping)))
    else:
        example = _list_labels(grouping)[grouping.size // 2]
        words = text("{count} groups such as {example}", count=grouping.size, example=example)
    return words if is_alone else text("in {words}", words=words)


def _find_partly_merged(grouping: Grouping) -> tuple[Grouping, list[str]] | None:
    """Find the level that groups of one's own are, but for a few groups of it that are merged: with their labels."""
    attribute = grouping.attribute
    for level in range(attribute.height + 1) if grouping.groups is not None else ():
        fine = Grouping(attribute, level)
        if fine.size > grouping.size and fine.is_finer(grouping):
            pairs = np.unique(np.column_stack([grouping.group_of, fine.group_of]), axis=0)
            merged = np.flatnonzero(np.bincount(pairs[:, 0]) > 1)
            firsts = [int(np.argmax(grouping.group_of == group)) for group in merged.tolist()]
            if len(firsts) <= MAX_PARTLY_MERGED:
                return fine, [str(label) for label in grouping.labels(np.array(firsts, dtype=np.int64)).tolist()]
    return None


def _describe_width(attribute: Attribute, width: Fraction) -> Text:
    written = str(width) if width.denominator == 1 else f"{float(width):g}"
    if attribute.name.casefold() in AGE_NAMES:
        return text("single years") if width == 1 else text("{width}-year groups", width=written)
    return text("single numbers") if width == 1 else text("steps of {width}", width=written)


def _list_labels(grouping: Grouping) -> Sequence[str]:
    firsts = np.unique(grouping.group_of, return_index=True)[1]
    return [MISSING_LABEL if label is None else str(label) for label in grouping.labels(np.sort(firsts)).tolist()]


def _runs(grouping: Grouping) -> Codes | None:
    """Give where the groups of declared values begin, if each is a run of neighbours."""
    groups = grouping.group_of[: grouping.attribute.domain.size]
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    return starts if len(starts) == len(np.unique(groups)) else None


def _find_width(grouping: Grouping) -> Fraction | None:
    """Find the common width of groups of numbers; of many groups the first and the last may be cut.

    Few groups of one's own, and few of which one is cut, are named one by one instead.
    """
    if grouping.groups is not None and grouping.size <= MAX_LISTED:
        return None
    domain, starts = grouping.attribute.domain, _runs(grouping)
    if not isinstance(domain, NumberBins) or starts is None:
        return None
    ends = [domain.edges[place] for place in (*starts.tolist(), domain.size)]
    widths = [high - low for low, high in pairwise(ends)]
    inner = widths[1:-1] if len(widths) > 2 else widths[:1]
    is_even = len(set(inner)) == 1 and max(widths) == inner[0]
    is_even = is_even and (grouping.size > MAX_LISTED or len(set(widths)) == 1)
    return inner[0] if is_even else None


def _find_period(grouping: Grouping) -> Text | None:
    """Name the period of groups of days."""
    domain, starts = grouping.attribute.domain, _runs(grouping)
    if not isinstance(domain, DateBins) or starts is None or len(starts) < 2:
        return None
    edges = [domain.edges[place].toordinal() for place in starts.tolist()]
    typical = float(np.median(np.diff(edges)))
    unit = next((name for least, name in reversed(DAYS) if typical >= least), None)
    years = round(typical / 365.25)
    if unit == "year" and years > 1:
        return text("periods of {years} years", years=years)
    names = {
        "day": text("day"),
        "week": text("week"),
        "month": text("month"),
        "quarter": text("quarter"),
        "year": text("year"),
    }
    return None if unit is None else names[unit]


def describe_detail(wish: RequestOption, offered: RequestOption) -> Text:
    """Say in a word how much of the detail that was asked for is left, by declared values alone."""
    kept = measure_detail(offered) / max(1e-9, measure_detail(wish))
    if kept >= 0.995:
        return text("all of the detail asked for")
    if kept >= 0.75:
        return text("most of the detail asked for")
    return text("about half of the detail asked for") if kept >= 0.4 else text("little of the detail asked for")


def measure_detail(option: RequestOption) -> float:
    """Count the bits that the groups of declared values tell, if all values were as common."""
    return sum(math.log2(max(1, grouping.size)) for grouping in option.values())
