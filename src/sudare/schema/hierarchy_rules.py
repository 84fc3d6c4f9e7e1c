"""Hierarchies by rule: from a CSV file, by intervals, groups, dates, masking, and the prefectures of Japan."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Literal, NoReturn

import numpy as np

from sudare.errors import HierarchyError
from sudare.forms.textfile import read_text
from sudare.schema.arrays import Codes
from sudare.schema.bins import DateBins, NumberBins, NumberLike
from sudare.schema.domain import Domain, Values, find_bins
from sudare.schema.hierarchy import TableHierarchy
from sudare.schema.raw import MISSING_LABEL, OTHER_LABEL, TOP_LABEL, list_some, to_number, write_decimal

# The 47 prefectures of Japan in the order of JIS X 0401, and the eight regions they are usually grouped in.
REGIONS = {
    "北海道": "北海道",
    "東北": "青森県 岩手県 宮城県 秋田県 山形県 福島県",
    "関東": "茨城県 栃木県 群馬県 埼玉県 千葉県 東京都 神奈川県",
    "中部": "新潟県 富山県 石川県 福井県 山梨県 長野県 岐阜県 静岡県 愛知県",
    "近畿": "三重県 滋賀県 京都府 大阪府 兵庫県 奈良県 和歌山県",
    "中国": "鳥取県 島根県 岡山県 広島県 山口県",
    "四国": "徳島県 香川県 愛媛県 高知県",
    "九州・沖縄": "福岡県 佐賀県 長崎県 熊本県 大分県 宮崎県 鹿児島県 沖縄県",
}

PREFECTURES = tuple(name for names in REGIONS.values() for name in names.split())
"""Names in JIS order: the code of a prefecture is its position, from 1, in two digits."""


def find_region(value: str) -> str | None:
    """Find the region of a prefecture written as "東京都", "東京", "13"; None if it is none.

    >>> find_region("東京"), find_region("01"), find_region("京都府"), find_region("48")
    ('関東', '北海道', '近畿', None)
    """
    return _REGION_OF.get(value)


def _list_spellings(position: int, name: str) -> set[str]:
    short = name if name == "北海道" else name[:-1]
    return {name, short, f"{position:02d}", str(position)}


_REGION = {name: region for region, names in REGIONS.items() for name in names.split()}
_REGION_OF = {
    spelling: _REGION[name]
    for position, name in enumerate(PREFECTURES, start=1)
    for spelling in _list_spellings(position, name)
}


# Hierarchies in the CSV format of ARX: `value;level 1;level 2;...;*`, one row a value, no header, `;` or `,`.


Row = tuple[str, ...]


def from_csv(
    path: str | Path,
    domain: Domain | None = None,
    *,
    other: bool = False,
    missing: bool = False,
    missing_marks: Sequence[str] = (),
) -> TableHierarchy:
    """Read a hierarchy. Without a domain, the first column (less the rows below) is the list of values.

    `other` and `missing` say which codes the attribute has behind its values. They take the path of a row called
    "(other)", "(missing)" or like one of the marks; without such a row they are branches of their own, or join a single
    "*" on top.

    Error: HierarchyError, with file, column and level, for a value without a row or a row without a value, an empty
    cell, rows of different length, a value with two paths, or levels that do not nest.
    """
    path = Path(path)
    rows = _read_rows(path)
    branches = ((OTHER_LABEL,) if other else (), (MISSING_LABEL, *missing_marks) if missing else ())
    kept = [row for row in rows if not any(row[0] in names for names in branches)]
    if domain is None:
        domain = Values(tuple(dict.fromkeys(row[0] for row in kept)))
    paths = _order_paths(kept, domain, path)
    top = {path_up[-1] for path_up in paths}
    for names in filter(None, branches):
        own = (names[0],) * (len(rows[0]) - 1)
        paths.append(_take_branch_path(rows, names, path) or (*own, TOP_LABEL if top == {TOP_LABEL} else names[0]))
    _check_nesting(paths, path)
    return TableHierarchy.from_paths(paths)


def _read_rows(path: Path) -> list[Row]:
    text = read_text(path)
    delimiter = ";" if ";" in text.partition("\n")[0] else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[Row] = []
    try:
        for row in reader:
            if row:
                rows.append(tuple(row))
                _check_row(rows, path, reader.line_num)
    except csv.Error:
        raise HierarchyError(
            "{file}, line {line}: not valid CSV; check the quotes", file=path, line=reader.line_num
        ) from None
    if not rows:
        raise HierarchyError("{file}: the file is empty; write one row a value: value;level 1;...;*", file=path)
    if len(rows[0]) < 2:
        raise HierarchyError("{file}: only one column; write one row a value: value;level 1;...;*", file=path)
    return rows


def _check_row(rows: Sequence[Row], path: Path, line: int) -> None:
    row, first = rows[-1], rows[0]
    if len(row) != len(first):
        raise HierarchyError(
            "{file}, line {line}: {found} columns, but the first row has {expected}; give every value the same levels",
            file=path,
            line=line,
            found=len(row),
            expected=len(first),
        )
    if "" in row:
        column = row.index("")
        raise HierarchyError(
            "{file}, line {line}: column {column} (level {level}) has a hole, an empty cell; fill it in",
            file=path,
            line=line,
            column=column + 1,
            level=column,
        )


def _take_branch_path(rows: Sequence[Row], names: Sequence[str], path: Path) -> Row | None:
    """Find the path of "(other)" or "(missing)", by any of its names; None if the file has no such row."""
    paths = {(names[0], *row[1:]) for row in rows if row[0] in names}
    if len(paths) > 1:
        _refuse_two_paths(names[0], path)
    return paths.pop() if paths else None


def _order_paths(rows: Sequence[Row], domain: Domain, path: Path) -> list[Row]:
    """Put the rows in the order of the codes, first cells replaced by the labels of the domain."""
    labels = domain.labels(np.arange(domain.size)).tolist()
    by_code: dict[int, Row] = {}
    unknown: list[str] = []
    for row in rows:
        try:
            code = domain.code(row[0])
        except KeyError:
            unknown.append(row[0])
            continue
        if by_code.setdefault(code, (labels[code], *row[1:]))[1:] != row[1:]:
            _refuse_two_paths(row[0], path)
    _check_complete(unknown, by_code, labels, path)
    return [by_code[code] for code in range(domain.size)]


def _check_complete(unknown: Sequence[str], by_code: Mapping[int, Row], labels: Sequence[str], path: Path) -> None:
    if unknown:
        raise HierarchyError(
            "{file}: column 1 (level 0) holds {shown}, which the attribute does not declare; "
            "declare these values or take their rows out",
            file=path,
            shown=list_some(unknown),
        )
    holes = [label for code, label in enumerate(labels) if code not in by_code]
    if holes:
        raise HierarchyError(
            "{file}: column 1 (level 0) has a hole, no row for {shown}; add a row for every value",
            file=path,
            shown=list_some(holes),
        )


def _refuse_two_paths(value: str, path: Path) -> NoReturn:
    raise HierarchyError(
        "{file}: column 1 (level 0) has two rows with different paths for {value}; keep one", file=path, value=value
    )


def _check_nesting(paths: Sequence[Row], path: Path) -> None:
    columns = list(zip(*paths, strict=True))
    for level in range(1, len(columns) - 1):
        above: dict[str, str] = {}
        pairs = zip(columns[level], columns[level + 1], strict=True)
        split = dict.fromkeys(name for name, parent in pairs if above.setdefault(name, parent) != parent)
        if split:
            raise HierarchyError(
                "{file}: column {column} (level {level}) does not nest, {shown} lies under two labels of "
                "column {above}; rename one of them",
                file=path,
                column=level + 1,
                level=level,
                shown=list_some(list(split)),
                above=level + 2,
            )


# Hierarchies by rule: intervals, groups, dates, masking, prefectures. All end in the single "*".


__all__ = ["all_in_one", "dates", "from_csv", "intervals", "masking", "ordered_groups", "prefecture_regions"]

DateUnit = Literal["week", "month", "quarter", "year", "decade"]
Level = tuple[Codes, list[str]]  # the group of every code of level 0, and the labels of the groups


def intervals(
    domain: NumberBins,
    widths: Sequence[NumberLike],
    *,
    bottom: NumberLike | None = None,
    top: NumberLike | None = None,
) -> TableHierarchy:
    """Join bins into intervals of growing width, then "*".

    With `bottom` or `top` the ends are coded: all below `bottom` is one group, all from `top` on another, at every
    level above the bins; the first such level joins nothing else.

    Intervals begin at multiples of the width (20, 30, ... for 10) and are cut at both ends of the domain; if the bins
    have no edges there, they are counted from the start of the domain instead.

    Error: HierarchyError if a width is no multiple of the one before, or cuts a bin.

    >>> tree = intervals(NumberBins.of_width(15, 45, 5), [10, 20])
    >>> tree.names[1:]
    (('[15,20)', '[20,30)', '[30,40)', '[40,45]'), ('[15,20)', '[20,40)', '[40,45]'), ('*',))
    >>> intervals(NumberBins.of_width(0, 40, 5), [10], bottom=10, top=30).names[1:3]
    (('[0,10)', '[10,15)', '[15,20)', '[20,25)', '[25,30)', '[30,40]'), ('[0,10)', '[10,20)', '[20,30)', '[30,40]'))
    """
    steps = [_read_width(width) for width in widths]
    for narrow, wide in pairwise(steps):
        if wide == narrow or wide % narrow:
            raise HierarchyError(
                "interval width {wide} must be a multiple of the width before it, {narrow}",
                wide=write_decimal(wide),
                narrow=write_decimal(narrow),
            )
    if not steps:
        raise HierarchyError("a hierarchy needs at least one step; give widths, sizes or units")
    scale = math.lcm(*(number.denominator for number in (*domain.edges, *steps)))
    edges = [int(edge * scale) for edge in domain.edges]
    whole = [int(step * scale) for step in steps]  # integers from here on: a domain may have a million bins
    origin = 0 if _fits(edges, whole[0], 0) else edges[0]
    if not _fits(edges, whole[0], origin):
        raise HierarchyError(
            "intervals of width {width} would cut a bin; use a multiple of the bins' own width",
            width=write_decimal(steps[0]),
        )
    ends = [_read_end(domain, name, end) for name, end in (("bottom", bottom), ("top", top))]
    low, high = (None if end is None else int(end * scale) for end in ends)
    steps_up = whole if low is None and high is None else [0, *whole]
    borders = [[_is_border(edge, step, origin, low, high) for edge in edges[1:-1]] for step in steps_up]
    return _stack_levels(domain, [_join_bins(domain, np.cumsum([0, *level], dtype=np.int64)) for level in borders])


def _read_end(domain: NumberBins, name: str, end: NumberLike | None) -> Fraction | None:
    """Read where the bottom or the top is coded: an edge inside the domain."""
    number = None if end is None else to_number(end)
    if number is None:
        return None
    if number not in domain.edges[1:-1]:
        raise HierarchyError(
            "{name} ({end}) must be an edge of the bins, inside {low} to {high}",
            name=name,
            end=end,
            low=write_decimal(domain.edges[0]),
            high=write_decimal(domain.edges[-1]),
        )
    return Fraction(number)


def _is_border(edge: int, step: int, origin: int, low: int | None, high: int | None) -> bool:
    """Tell whether a level of intervals of width `step` (0: of the bins) has a border here, its ends coded."""
    if edge in (low, high):
        return True
    is_between = (low is None or edge > low) and (high is None or edge < high)
    return is_between and (step == 0 or (edge - origin) % step == 0)


def _read_width(width: NumberLike) -> Fraction:
    step = to_number(width)
    if not isinstance(step, Fraction) or step <= 0:
        raise HierarchyError("interval width ({width}) must be a number above 0", width=width)
    return step


def _fits(edges: Sequence[int], step: int, origin: int) -> bool:
    """Tell whether every inner border of the intervals is an edge of the bins."""
    borders = -((origin - edges[-1]) // step) - (edges[0] - origin) // step - 1
    return borders == sum((edge - origin) % step == 0 for edge in edges[1:-1])


def ordered_groups(domain: Domain, sizes: Sequence[int]) -> TableHierarchy:
    """Join neighbours into groups of growing size, counted from the first value, then "*".

    Error: HierarchyError if the domain has no order, or a size is no multiple of the one before.

    >>> ordered_groups(Values(("XS", "S", "M", "L", "XL"), is_ordered=True), [2]).names[1]
    ('XS..S', 'M..L', 'XL')
    """
    if not domain.is_ordered:
        raise HierarchyError('groups need an order; use kind = "ordered", or a CSV file for the hierarchy')
    if not sizes:
        raise HierarchyError("a hierarchy needs at least one step; give widths, sizes or units")
    for small, large in pairwise([1, *sizes]):
        if large <= small or large % small:
            raise HierarchyError(
                "group size {large} must be a multiple of the size before it, {small}", large=large, small=small
            )
    return _stack_levels(domain, [_join_bins(domain, np.arange(domain.size) // size) for size in sizes])


def dates(domain: DateBins, units: Sequence[DateUnit]) -> TableHierarchy:
    """Join bins of days into calendar units, then "*": month, quarter, year, decade, or ISO week alone.

    Error: HierarchyError if units do not grow, a bin lies in two units, or something stands above weeks.

    >>> dates(DateBins.of_width("2023-11-01", "2024-02-29", "1 month"), ["quarter", "year"]).names[1:]
    (('2023-Q4', '2024-Q1'), ('2023', '2024'), ('*',))
    """
    order = [unit for unit in _UNITS if unit in units]
    if not units or list(units) != order or ("week" in units and len(units) > 1):
        raise HierarchyError(
            "date units ({units}) must be some of month, quarter, year, decade, in this order, or week alone",
            units=", ".join(units),
        )
    return _stack_levels(domain, [_build_date_level(domain, unit) for unit in units])


def _build_date_level(domain: DateBins, unit: str) -> Level:
    label = _UNITS[unit]
    ends = [*(edge - timedelta(days=1) for edge in domain.edges[1:-1]), domain.edges[-1]]
    labels = [label(first) for first in domain.edges[:-1]]
    if labels != [label(last) for last in ends]:
        raise HierarchyError("a bin lies in more than one {unit}; use narrower bins or leave {unit} out", unit=unit)
    names = list(dict.fromkeys(labels))
    position = {name: code for code, name in enumerate(names)}
    return np.array([position[label] for label in labels], dtype=np.int64), names


def _name_week(day: date) -> str:
    year, week, _ = day.isocalendar()
    return f"{year:04d}-W{week:02d}"


_UNITS: dict[str, Callable[[date], str]] = {
    "week": _name_week,
    "month": lambda day: f"{day.year:04d}-{day.month:02d}",
    "quarter": lambda day: f"{day.year:04d}-Q{(day.month + 2) // 3}",
    "year": lambda day: f"{day.year:04d}",
    "decade": lambda day: f"{day.year // 10 * 10:04d}s",
}


def masking(
    values: Values | Sequence[str],
    *,
    side: Literal["left", "right"] = "right",
    characters: int = 1,
    steps: int | None = None,
) -> TableHierarchy:
    """Hide `characters` more characters of a code at every step, from one side, then "*"; for postal codes and so on.

    Without `steps` the masking goes on until nothing is left to see.

    >>> masking(["1000001", "1000002", "1500001"], characters=4).names[1:]
    (('100****', '150****'), ('*',))
    """
    texts = values.values if isinstance(values, Values) else tuple(values)
    if side not in ("left", "right"):
        raise HierarchyError('masking ({side}) must be "left" or "right"', side=side)
    if characters < 1 or (steps is not None and steps < 1):
        raise HierarchyError("masking needs characters and steps of at least 1")
    longest = max((len(text) for text in texts), default=0)
    most = -(-longest // characters) - 1  # the next step would hide everything: that is the top
    hidden = [step * characters for step in range(1, min(steps or most, most) + 1)]
    return TableHierarchy.from_paths([(text, *(_mask(text, side, n) for n in hidden), TOP_LABEL) for text in texts])


def _mask(text: str, side: str, count: int) -> str:
    stars = "*" * min(count, len(text))
    return stars + text[count:] if side == "left" else text[: max(len(text) - count, 0)] + stars


def all_in_one(domain: Domain) -> TableHierarchy:
    """Join all values in "*", for values without order or kinship.

    >>> all_in_one(Values(("red", "blue"))).names
    (('red', 'blue'), ('*',))
    """
    return _stack_levels(domain, [])


def prefecture_regions(values: Values | Sequence[str] = PREFECTURES) -> TableHierarchy:
    """Join Japanese prefectures into eight regions, then "*".

    Prefectures may be written 東京都, 東京 or 13 (JIS X 0401); some of the 47 will do.

    >>> tree = prefecture_regions()
    >>> tree.size(0), tree.size(1), tree.names[1][2]
    (47, 8, '関東')
    """
    texts = values.values if isinstance(values, Values) else tuple(values)
    unknown = [text for text in texts if find_region(text) is None]
    if unknown:
        raise HierarchyError(
            "{shown} is no Japanese prefecture; write 東京都, 東京 or 13, or give a CSV file", shown=list_some(unknown)
        )
    return TableHierarchy.from_paths([(text, find_region(text) or "", TOP_LABEL) for text in texts])


def _join_bins(domain: Domain, groups: Codes) -> Level:
    """Label groups of neighbours: bins as wider bins, values as first..last."""
    starts = np.searchsorted(groups, np.arange(groups[-1] + 1))
    if bins := find_bins(domain):
        merged = bins.merged(starts.tolist())
        return groups, merged.labels(np.arange(merged.size)).tolist()
    firsts = domain.labels(starts).tolist()
    lasts = domain.labels(np.append(starts[1:], domain.size) - 1).tolist()
    return groups, [low if low == high else f"{low}..{high}" for low, high in zip(firsts, lasts, strict=True)]


def _stack_levels(domain: Domain, levels: Sequence[Level]) -> TableHierarchy:
    """Put levels of groups above a domain and "*" on top (a last level of one group becomes the top)."""
    if levels and len(levels[-1][1]) == 1:
        levels = levels[:-1]
    names = [domain.labels(np.arange(domain.size)).tolist(), *(labels for _, labels in levels), [TOP_LABEL]]
    below, parents = np.arange(domain.size), []
    for groups in (*(groups for groups, _ in levels), np.zeros(domain.size, dtype=np.int64)):
        _, first_members = np.unique(below, return_index=True)
        parents.append(groups[first_members])
        below = groups
    return TableHierarchy(parents=tuple(parents), names=tuple(tuple(level) for level in names))
