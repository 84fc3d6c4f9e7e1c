"""Rows of groups: cells that are labels or quantities, and what SQL computes from them row by row and over windows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sudare.asking import quantities, vectors
from sudare.asking.evaluate import operate
from sudare.asking.functions import call_function
from sudare.asking.quantities import Quantity
from sudare.asking.syntax import (
    Call,
    CaseWhen,
    Cast,
    Expression,
    IntervalLiteral,
    Literal,
    Matching,
    Membership,
    Operation,
    Ordering,
    Slot,
    WindowFrame,
    refuse,
)
from sudare.asking.vectors import Vector
from sudare.text import text

SAME = 1e-12  # of a number: nearer ones are the same but for the rounding of sums, as 20 and 20.000000000000004
Cell = Vector | Quantity
NULL_CELL = Vector("null", np.array(0.0), np.array(True), is_constant=True)


@dataclass(frozen=True, slots=True, eq=False)
class GroupRow:
    """A row of groups, whether there surely is such a group, and whether there is by the estimate.

    `is_doubtful`: a condition picked it by its estimates, and the true numbers may decide otherwise.
    """

    cells: tuple[Cell, ...]
    is_sure: bool = True
    is_likely: bool = True
    is_doubtful: bool = False

    def extended(self, more: Iterable[Cell]) -> GroupRow:
        """The row with more cells."""
        return replace(self, cells=(*self.cells, *more))


class Decisions:
    """Remembers that the estimates, not the true numbers, decided something, and whether one was close."""

    def __init__(self, level: float) -> None:
        self.level, self.were_made, self.is_close = level, False, False


def is_null_cell(cell: Cell) -> bool:
    """Tell whether a cell is NULL."""
    return isinstance(cell, Vector) and bool(cell.null)


def number_cell(value: float, kind: str = "integer") -> Vector:
    """A known number as a cell."""
    return Vector(kind, np.array(float(value)), np.array(False), is_constant=True)


def truth_cell(value: bool) -> Vector:
    """A truth value as a cell."""
    return Vector("bool", np.array(value), np.array(False), is_constant=True)


def compute(node: Expression, cells: Sequence[Cell], decisions: Decisions) -> Cell:
    """Compute an expression of the cells of a row."""
    if isinstance(node, Slot):
        return cells[node.place]
    if isinstance(node, Literal):
        return vectors.constant(node)
    if isinstance(node, CaseWhen):
        return _choose(node, cells, decisions)
    if isinstance(node, Operation):
        return _operate(node, cells, decisions)
    if isinstance(node, Membership):
        operand = compute(node.operand, cells, decisions)
        found = [_compare("=", operand, compute(value, cells, decisions), decisions) for value in node.values]
        return vectors.connect("OR", found)
    if isinstance(node, Matching):
        operand, pattern = (compute(side, cells, decisions) for side in (node.operand, node.pattern))
        return vectors.match(_label(operand), _label(pattern), node)
    if isinstance(node, Cast):
        return _cast(node, compute(node.operand, cells, decisions))
    if isinstance(node, Call):
        return _call(node, cells, decisions)
    raise refuse(text("this use of a column"), text("it must stand in GROUP BY, or in COUNT, SUM, AVG and the like"))


def holds(node: Expression, cells: Sequence[Cell], decisions: Decisions) -> bool:
    """Tell whether a condition is true for a row."""
    found = compute(node, cells, decisions)
    return bool(vectors.as_condition(_label(found))[0])


def pick_rows(
    node: Expression, rows: Sequence[GroupRow], spare: Sequence[GroupRow], decisions: Decisions
) -> tuple[list[GroupRow], list[GroupRow]]:
    """The rows for which a condition is true by their estimates, and those that the true numbers may pick too."""
    picked, others = list[GroupRow](), list[GroupRow]()
    for place, row in enumerate([*rows, *spare]):
        decisions.is_close = False
        is_picked = holds(node, row.cells, decisions)
        if is_picked and place < len(rows):
            picked.append(replace(row, is_doubtful=True) if decisions.is_close else row)
        elif is_picked or decisions.is_close:
            others.append(row)
    return picked, others


def find_ends(cell: Cell, level: float) -> tuple[float, float]:
    """Between what a number lies: without an interval anywhere."""
    if isinstance(cell, Vector):
        return float(cell.data), float(cell.data)
    found = quantities.estimate(cell, level)
    return (found.low, found.high) if found.has_interval else (-math.inf, math.inf)


def _is_close(sign: str, left: Cell, right: Cell, level: float) -> bool:
    """Tell whether two numbers may compare in either way, by their intervals."""
    (low, high), (start, stop) = find_ends(left, level), find_ends(right, level)
    if sign in ("=", "<>"):
        return low <= stop and start <= high and not low == high == start == stop
    if sign in ("<", ">="):
        return low < stop and high >= start
    return low <= stop and high > start


def _label(cell: Cell) -> Vector:
    if isinstance(cell, Quantity):
        raise refuse(text("a text function of an estimated number"))
    return cell


def _choose(node: CaseWhen, cells: Sequence[Cell], decisions: Decisions) -> Cell:
    for condition, value in node.branches:
        if holds(condition, cells, decisions):
            return compute(value, cells, decisions)
    return compute(node.other, cells, decisions)


def _operate(node: Operation, cells: Sequence[Cell], decisions: Decisions) -> Cell:
    sign = node.sign
    if any(isinstance(operand, IntervalLiteral) for operand in node.operands):
        day, interval = node.operands
        if not isinstance(interval, IntervalLiteral):
            raise refuse("INTERVAL")
        return vectors.add_interval(_label(compute(day, cells, decisions)), interval, sign)
    operands = [compute(operand, cells, decisions) for operand in node.operands]
    if not any(isinstance(operand, Quantity) for operand in operands):
        return operate(sign, [_label(operand) for operand in operands])
    if sign in vectors.MIRRORED:
        return _compare(sign, operands[0], operands[1], decisions)
    if sign == "IS_NULL":
        return truth_cell(False)
    if any(is_null_cell(operand) for operand in operands):
        return NULL_CELL
    if sign == "NEG":
        return quantities.scale(to_quantity(operands[0]), -1.0)
    if sign not in ("+", "-", "*", "/"):
        raise refuse(text("{sign} of an estimated number", sign=sign))
    if sign == "-" and all(_is_day(operand) for operand in operands):
        return _count_days(operands[1], operands[0])
    left, right = (to_quantity(operand) for operand in operands)
    if sign in ("+", "-"):
        return quantities.add(left, right, 1.0 if sign == "+" else -1.0)
    found = quantities.multiply(left, right) if sign == "*" else quantities.divide(left, right)
    return NULL_CELL if found is None else found


def to_quantity(cell: Cell) -> Quantity:
    """A cell as a number that can be computed with."""
    if isinstance(cell, Quantity):
        return cell
    if not cell.is_number:
        raise refuse(text("an estimated number together with {kind}", kind=cell.kind))
    return quantities.plain(float(cell.data))


def _is_day(cell: Cell) -> bool:
    return cell.is_day if isinstance(cell, Quantity) else cell.kind == "date"


def _count_days(first: Cell, last: Cell) -> Quantity:
    """How many days lie between two days, of which one at least is estimated."""
    start, stop = (replace(day, is_day=False) if isinstance(day, Quantity) else quantities.plain(float(day.data))
                   for day in (first, last))  # fmt: skip
    return quantities.add(stop, start, -1.0)


def _compare(sign: str, left: Cell, right: Cell, decisions: Decisions) -> Vector:
    if isinstance(left, Vector) and isinstance(right, Vector):
        return vectors.compare(sign, left, right)
    if is_null_cell(left) or is_null_cell(right):
        return NULL_CELL
    decisions.were_made = True
    sides = [
        number_cell(cell.value, "date" if cell.is_day else "number") if isinstance(cell, Quantity) else cell
        for cell in (left, right)
    ]
    if all(side.is_number for side in sides) and math.isclose(*(float(side.data) for side in sides), rel_tol=SAME):
        sides = [sides[0], sides[0]]
    found = vectors.compare(sign, *sides)
    decisions.is_close = decisions.is_close or _is_close(sign, left, right, decisions.level)
    return found


def _cast(node: Cast, cell: Cell) -> Cell:
    if isinstance(cell, Vector):
        return vectors.cast(cell, node.kind, text("CAST to {kind}", kind=node.kind))
    if node.kind == "number":
        return cell
    if node.kind == "integer":
        return _rounded(cell, lambda value: float(np.rint(value)))
    raise refuse(text("CAST to {kind}", kind=node.kind), text("it is an estimated number"))


def _rounded(quantity: Quantity, change: Callable[[float], float]) -> Quantity:
    """A rounded number keeps the interval of what it was."""
    return replace(quantity, value=change(quantity.value))


def _call(node: Call, cells: Sequence[Cell], decisions: Decisions) -> Cell:
    if node.window is not None or node.order or node.condition is not None or node.distinct:
        raise refuse(f"{node.name}()")
    if node.name in ("IF", "IFF") and len(node.arguments) == 3:
        condition, chosen, other = node.arguments
        return _choose(CaseWhen(((condition, chosen),), other), cells, decisions)
    arguments = [compute(argument, cells, decisions) for argument in node.arguments]
    if node.name in ("COALESCE", "IFNULL"):
        return next((argument for argument in arguments if not is_null_cell(argument)), NULL_CELL)
    if not any(isinstance(argument, Quantity) for argument in arguments):
        return call_function(node.name, [_label(argument) for argument in arguments])
    if node.name == "NULLIF" and len(arguments) == 2:
        return NULL_CELL if _are_equal(arguments[0], arguments[1], decisions) else arguments[0]
    if any(is_null_cell(argument) for argument in arguments) and node.name not in ("GREATEST", "LEAST"):
        return NULL_CELL
    return _function(node.name, arguments, decisions)


def _are_equal(left: Cell, right: Cell, decisions: Decisions) -> bool:
    """Tell whether two cells are equal; where their intervals are apart, no estimate decides it."""
    before = decisions.were_made, decisions.is_close
    decisions.is_close = False
    equal = bool(vectors.as_condition(_compare("=", left, right, decisions))[0])
    if not decisions.is_close:
        decisions.were_made, decisions.is_close = before
    return equal


_ROUNDING: dict[str, Callable[[float], float]] = {
    "FLOOR": math.floor,
    "CEIL": math.ceil,
    "CEILING": math.ceil,
    "TRUNC": math.trunc,
}


def _function(name: str, arguments: list[Cell], decisions: Decisions) -> Cell:
    if name in ("DATE_DIFF", "DATEDIFF") and len(arguments) == 3 and all(_is_day(day) for day in arguments[1:]):
        unit = arguments[0]
        if isinstance(unit, Vector) and unit.kind == "text" and unit.data.item().casefold() in ("day", "days"):
            return _count_days(arguments[1], arguments[2])
        raise refuse(text("{name} of an estimated day", name=f"{name}()"), text("only 'day' is counted"))
    first = to_quantity(arguments[0])
    if name in _ROUNDING and len(arguments) == 1:
        return _rounded(first, _ROUNDING[name])
    last = arguments[-1]
    if name == "ROUND" and (len(arguments) == 1 or isinstance(last, Vector)):
        if isinstance(last, Vector) and last.kind != "integer":
            raise refuse("ROUND", text("the number of decimals must be written out"))
        places = int(float(last.data)) if isinstance(last, Vector) else 0
        factor = 10.0 ** min(max(places, -15), 15)
        return _rounded(first, lambda value: float(vectors.round_away(np.round(value * factor, 9))) / factor)
    if name in ("GREATEST", "LEAST"):
        return _find_greatest(name, [argument for argument in arguments if not is_null_cell(argument)], decisions)
    if name == "ABS" and len(arguments) == 1:
        found = first if first.value >= 0 else quantities.scale(first, -1.0)
        return replace(found, least=max(0.0, found.least))
    if name in _RISING and len(arguments) == 1:
        function, slope, least, start, stop = _RISING[name]
        if start < first.value < stop:
            if first.fixed is None:
                return quantities.apply(first, function(first.value), slope(first.value), (least, math.inf))
            ends = tuple(least if end <= start else math.inf if end >= stop else function(end) for end in first.fixed)
            return Quantity(value=function(first.value), fixed=(ends[0], ends[1]), reason=first.reason)
    raise refuse(text("{name} of an estimated number", name=f"{name}()"))


def _find_greatest(name: str, cells: Sequence[Cell], decisions: Decisions) -> Quantity:
    """The greatest or least of numbers: one of them if it surely is that, else between the ends of all."""
    pick = max if name == "GREATEST" else min
    ends = [find_ends(cell, 1.0 - (1.0 - decisions.level) / len(cells)) for cell in cells]
    numbers = [to_quantity(cell) for cell in cells]
    place = pick(range(len(cells)), key=lambda at: numbers[at].value)
    others = [end for at, end in enumerate(ends) if at != place]
    if all((low >= ends[place][1] if name == "LEAST" else high <= ends[place][0]) for low, high in others):
        return numbers[place]
    fixed = pick(low for low, _ in ends), pick(high for _, high in ends)
    if not all(map(math.isfinite, fixed)):
        reason = text("it is computed from numbers whose intervals are found one by one")
        return Quantity(value=numbers[place].value, reason=reason)
    return Quantity(value=numbers[place].value, fixed=fixed, is_day=numbers[place].is_day)


# functions that rise: with their slope, their least value, and between what numbers they are computed
_RISING: dict[str, tuple[Callable[[float], float], Callable[[float], float], float, float, float]] = {
    "SQRT": (math.sqrt, lambda value: 0.5 / math.sqrt(value), 0.0, 0.0, math.inf),
    "LN": (math.log, lambda value: 1 / value, -math.inf, 0.0, math.inf),
    "LOG": (math.log10, lambda value: 1 / (value * math.log(10)), -math.inf, 0.0, math.inf),
    "LOG10": (math.log10, lambda value: 1 / (value * math.log(10)), -math.inf, 0.0, math.inf),
    "LOG2": (math.log2, lambda value: 1 / (value * math.log(2)), -math.inf, 0.0, math.inf),
    "EXP": (math.exp, math.exp, 0.0, -math.inf, 300.0),
}


# --- order ------------------------------------------------------------------------------------------------------------


def sort_rows(
    rows: Sequence[GroupRow], keys: Sequence[Sequence[Cell]], order: Sequence[Ordering], decisions: Decisions
) -> list[int]:
    """The places of rows in the order of their keys; NULL comes last unless it is said otherwise."""
    places = list(range(len(rows)))
    for number in reversed(range(len(order))):
        how = order[number]
        if len(rows) > 1 and any(isinstance(keys[place][number], Quantity) for place in places):
            decisions.were_made = True
        known = [place for place in places if not is_null_cell(keys[place][number])]
        blank = [place for place in places if is_null_cell(keys[place][number])]
        values = {place: sort_value(keys[place][number]) for place in known}
        known.sort(key=values.__getitem__)
        if how.descending:
            known = _turn(known, values)
        places = [*blank, *known] if how.nulls_first else [*known, *blank]
    return places


def rank_by_published(
    keys: Sequence[Sequence[Cell]], order: Sequence[Ordering], shown: Sequence[int], level: float
) -> tuple[list[list[Cell]], list[Ordering]] | None:
    """Give other keys where the largest numbers are asked and some of those that would be shown may be 0.

    Where little is known of each row the largest are those with the largest noise. The figures that were published
    beside are nearer to the truth there. None where there are none, or where all that would be shown stand out.
    """
    first = [row[0] for row in keys] if order and order[0].descending else []
    numbers = [cell for cell in first if isinstance(cell, Quantity)]
    published = [quantities.find_published(number) for number in numbers]
    if len(numbers) < len(keys) or any(figure is None for figure in published):
        return None
    if not any(quantities.estimate(numbers[place], level).low <= 0 for place in shown):
        return None
    figures = [quantities.plain(round(float(figure or 0.0), 6)) for figure in published]
    return [[figure, *row] for figure, row in zip(figures, keys, strict=True)], [order[0], *order]


def _turn(known: Sequence[int], values: Mapping[int, Any]) -> list[int]:
    """Largest first; equals stay in their order."""
    groups = [list(members) for _, members in itertools.groupby(known, key=values.__getitem__)]
    return [place for members in reversed(groups) for place in members]


def sort_value(cell: Cell) -> Any:
    """What a cell is sorted by: an ordered attribute by its declared order, other texts letter by letter."""
    if isinstance(cell, Quantity):
        return cell.value
    if cell.attribute is not None and cell.codes is not None and cell.attribute.is_ordered:
        return int(cell.codes)
    return cell.data.item()


def same_value(cell: Cell) -> Any:
    """What makes two cells equal for GROUP BY, DISTINCT and joins."""
    if isinstance(cell, Quantity):
        return ("quantity", cell.value, tuple(sorted((id(part), by) for part, by in cell.parts.items())))
    if bool(cell.null):
        return None
    value = cell.data.item()
    return ("number", float(value)) if cell.is_number else (cell.kind, value)


# --- windows over groups ----------------------------------------------------------------------------------------------

RANKS = {
    "RANK",
    "DENSE_RANK",
    "ROW_NUMBER",
    "LAG",
    "LEAD",
    "FIRST_VALUE",
    "LAST_VALUE",
    "NTILE",
    "PERCENT_RANK",
    "CUME_DIST",
}


def compute_window(
    call: Call, rows: Sequence[GroupRow], aggregate: Callable[[Call, Sequence[GroupRow]], Cell], decisions: Decisions
) -> list[Cell]:
    """One cell a row: a rank, or an aggregate over the rows of its partition (up to it and its equals, if ordered)."""
    window = call.window
    if window is None:
        raise AssertionError("a window is needed")
    partitions: dict[Any, list[int]] = {}
    for place, row in enumerate(rows):
        key = tuple(same_value(compute(part, row.cells, decisions)) for part in window.partition)
        partitions.setdefault(key, []).append(place)
    found: list[Cell] = [NULL_CELL] * len(rows)
    for places in partitions.values():
        inside = [rows[place] for place in places]
        keys = [[compute(how.key, row.cells, decisions) for how in window.order] for row in inside]
        order = sort_rows(inside, keys, window.order, decisions)
        peers = _peers([[same_value(cell) for cell in keys[place]] for place in order])
        cells = _in_partition(call, [inside[place] for place in order], peers, aggregate, decisions)
        for place, cell in zip(order, cells, strict=True):
            found[places[place]] = cell
    return found


def _peers(keys: Sequence[list[Any]]) -> list[int]:
    """For every row in order the end of those that are equal to it."""
    ends = [0] * len(keys)
    end = len(keys)
    for place in reversed(range(len(keys))):
        if place + 1 < len(keys) and keys[place] != keys[place + 1]:
            end = place + 1
        ends[place] = end
    return ends


def _in_partition(
    call: Call,
    rows: Sequence[GroupRow],
    peers: Sequence[int],
    aggregate: Callable[[Call, Sequence[GroupRow]], Cell],
    decisions: Decisions,
) -> list[Cell]:
    name, size = call.name, len(rows)
    starts = [0 if place == 0 else (place if peers[place - 1] == place else -1) for place in range(size)]
    if name in ("RANK", "DENSE_RANK", "ROW_NUMBER"):
        ranks, last, dense = list[Cell](), 0, 0
        for place in range(size):
            if starts[place] >= 0:
                last, dense = place, dense + 1
            number = {"RANK": last + 1, "DENSE_RANK": dense, "ROW_NUMBER": place + 1}[name]
            ranks.append(number_cell(number))
        return ranks
    if name in ("PERCENT_RANK", "CUME_DIST", "NTILE"):
        return _share_out(call, peers)
    if name in ("LAG", "LEAD") and call.condition is None:
        return _look_beside(call, rows, decisions)
    frames = _find_frames(call.window, peers)
    if name in ("FIRST_VALUE", "LAST_VALUE") and len(call.arguments) == 1 and call.condition is None:
        values = [compute(call.arguments[0], row.cells, decisions) for row in rows]
        shown = [(stop - 1 if name == "LAST_VALUE" else start, start < stop) for start, stop in frames]
        return [values[place] if is_filled else NULL_CELL for place, is_filled in shown]
    if name in RANKS:
        raise refuse(f"{name}() OVER")
    plain = replace(call, window=None)
    if call.window is not None and call.window.rows is not None:
        known = {frame: aggregate(plain, rows[slice(*frame)]) for frame in dict.fromkeys(frames)}
        return [known[frame] for frame in frames]
    if call.window is not None and not call.window.order:
        whole = aggregate(plain, rows)
        return [whole] * size
    ends = sorted(set(peers))
    cells = {end: aggregate(plain, rows[:end]) for end in ends}
    return [cells[end] for end in peers]


def _find_frames(window: WindowFrame | None, peers: Sequence[int]) -> list[tuple[int, int]]:
    """For every row in order the rows of its window: those that ROWS names, else all up to it and its equals."""
    size = len(peers)
    if window is None or window.rows is None:
        return [(0, size if window is None or not window.order else end) for end in peers]
    first, last = window.rows
    starts = [0 if first is None else min(max(place + first, 0), size) for place in range(size)]
    stops = [size if last is None else min(max(place + last + 1, 0), size) for place in range(size)]
    return [(start, max(start, stop)) for start, stop in zip(starts, stops, strict=True)]


def _share_out(call: Call, peers: Sequence[int]) -> list[Cell]:
    """PERCENT_RANK, CUME_DIST and NTILE: the share of rows before, up to and with a row, and the part it is in."""
    size = len(peers)
    if call.name == "CUME_DIST":
        return [number_cell(end / size, "number") for end in peers]
    if call.name == "PERCENT_RANK":
        starts = [0]
        for place in range(1, size):
            starts.append(place if peers[place - 1] == place else starts[-1])
        return [number_cell(start / max(size - 1, 1), "number") for start in starts]
    parts = _read_whole(call.arguments[0]) if len(call.arguments) == 1 else 0
    if parts < 1:
        raise refuse("NTILE() OVER", text("write how many parts, as a whole number above 0"))
    whole, more = divmod(size, parts)
    edge = more * (whole + 1)  # the first parts have a row more
    return [
        number_cell(place // (whole + 1) + 1 if place < edge else more + (place - edge) // max(whole, 1) + 1)
        for place in range(size)
    ]


def _look_beside(call: Call, rows: Sequence[GroupRow], decisions: Decisions) -> list[Cell]:
    """LAG and LEAD: the value some rows before or after, and what is named for rows that have none."""
    if not 1 <= len(call.arguments) <= 3:
        raise refuse(f"{call.name}() OVER")
    step = 1 if len(call.arguments) == 1 else _read_whole(call.arguments[1])
    step = -step if call.name == "LAG" else step
    values = [compute(call.arguments[0], row.cells, decisions) for row in rows]
    others = [
        NULL_CELL if len(call.arguments) < 3 else compute(call.arguments[2], row.cells, decisions) for row in rows
    ]
    size = len(rows)
    return [values[place + step] if 0 <= place + step < size else others[place] for place in range(size)]


def _read_whole(node: Expression) -> int:
    """A whole number that is written out."""
    if not isinstance(node, Literal) or node.kind != "integer" or not isinstance(node.value, Fraction):
        raise refuse(text("a number of rows that is not written out"))
    return int(node.value)
