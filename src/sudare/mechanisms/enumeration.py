"""A table is a proof object: go through all of it, in integers, and check that it is the law it says.

Nothing of the machine's own making is trusted: thresholds are derived again with more bits, cells are answered again
one by one, without NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from sudare.mechanisms.enclosure import exp_minus

if TYPE_CHECKING:
    from sudare.mechanisms.laws import Law
    from sudare.mechanisms.machine import TableMachine

WORD_BITS = 64
CELL_BITS = 16
PROOF_BITS = 256  # thresholds are derived again with as many
SLACK_BITS = 64  # a ratio is shown to keep its bound up to a factor of 1 + 2**-64
TOP = 2**WORD_BITS - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Enumeration:
    """What going through a table has shown; `problems` is empty if the table is the law."""

    cells: int
    cut_cells: int
    thresholds: int
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Nothing was found that contradicts the law."""
        return not self.problems


def enumerate_machine(machine: TableMachine) -> Enumeration:
    """Check ends, floors, masses, ratios and cells of a machine against its law."""
    law, first = machine.law, machine.first
    floors = [int(floor) for floor in machine.floors]
    table = [int(answer) for answer in machine.table]
    bounds = [law.threshold(first + i, PROOF_BITS) for i in range(len(floors))]
    problems = [
        *_check_ends(law, first, floors),
        *_check_floors(first, floors, bounds),
        *_check_masses(law, first, bounds),
        *_check_cells(first, floors, table, machine.cut),
    ]
    cut = sum(answer == machine.cut for answer in table)
    return Enumeration(cells=len(table), cut_cells=cut, thresholds=len(floors), problems=tuple(problems))


def _check_ends(law: Law, first: int, floors: list[int]) -> Iterator[str]:
    """No value is out of reach: a word before the first or after the last floor is refined or has one answer."""
    if law.low is None and (not floors or floors[0] != 0):
        yield "the lower tail is cut off"
    if law.low is not None and first != law.low:
        yield "the table does not start at the least value"
    if law.high is None and (not floors or floors[-1] != TOP):
        yield "the upper tail is cut off"
    if law.high is not None and first + len(floors) != law.high:
        yield "the table does not end at the largest value"


def _check_floors(first: int, floors: list[int], bounds: list[tuple[int, int]]) -> Iterator[str]:
    for k, (floor, (low, high)) in enumerate(zip(floors, bounds, strict=True), first):
        again = {min(bound >> (PROOF_BITS - WORD_BITS), TOP) for bound in (low, high)}
        if again != {floor}:
            yield f"the floor of P[X <= {k}] is not the law's"


def _check_masses(law: Law, first: int, bounds: list[tuple[int, int]]) -> Iterator[str]:
    """Every mass is positive, and neighbours keep the promised ratio; tails beyond the floors are the law's own."""
    masses = [(after[0] - before[1], after[1] - before[0]) for before, after in pairwise(bounds)]
    for k, (least, _) in enumerate(masses, first + 1):
        if least <= 0:
            yield f"P[X = {k}] is not positive"
    if law.log_ratio is None:
        return
    factor = exp_minus(law.log_ratio, PROOF_BITS).low  # 2**PROOF_BITS * e^-log_ratio, rounded down
    slack = 2**SLACK_BITS
    for k, (left, right) in enumerate(pairwise(masses), first + 1):
        for least, most in ((left[0], right[1]), (right[0], left[1])):
            # least * e^-log_ratio <= most * (1 + 2**-64), the largest quotient that the bounds allow
            if least * factor * slack > (most * (slack + 1)) << PROOF_BITS:
                yield f"P[X = {k}] and P[X = {k + 1}] differ by more than the promised ratio"


def _check_cells(first: int, floors: list[int], table: list[int], cut: int) -> Iterator[str]:
    if len(table) != 2**CELL_BITS:
        yield "the table does not have 65536 cells"
    below = 0  # thresholds in cells before this one
    for cell, answer in enumerate(table):
        inside = below
        while inside < len(floors) and floors[inside] >> (WORD_BITS - CELL_BITS) == cell:
            inside += 1
        expected = first + below if inside == below else cut
        if answer != expected:
            yield f"cell {cell} does not answer what the thresholds say"
        below = inside
