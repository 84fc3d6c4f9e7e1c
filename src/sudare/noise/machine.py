"""A machine that draws from any law exactly, and fast: one word, one cell.

Inverting the cumulative probability, X = least k with U < P[X <= k], U uniform in [0, 1). The first 16 bits of U choose
one of 65,536 cells. A cell inside one outcome's interval answers at once. A cell that a threshold cuts gets 48 more
bits, which are searched in the thresholds' 64-bit floors; where even these do not decide (about once in 10**16 draws),
bits are added without end. So the law is the stated one, not an approximation of it: proofs/geometric.md

A table can be checked as a whole: all of it is gone through in integers. Nothing of the machine's own making is trusted
there: thresholds are derived again with more bits, cells are answered again one by one, without NumPy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.noise.enclosure import exp_minus
from sudare.noise.laws import Law
from sudare.noise.rng import WORD_BITS, LazyUniform, Rng
from sudare.schema.arrays import Integers
from sudare.text import Text, text

CELL_BITS = 16
CELLS = 2**CELL_BITS
SHIFT = WORD_BITS - CELL_BITS
TOP = 2**WORD_BITS - 1
CHUNK = 2**16  # draws at a time: words, cells and result stay in the cache
MOST_THRESHOLDS = 2**18  # of a table; a law with more must be split
FIRST_GUARD_BITS = 32  # beyond 64, of the first try to find a floor
TABLES_KEPT = 128


class TableMachine:
    """A sampler of one law.

    `first` and `floors`: floors[i] = floor(2**64 * P[X <= first + i]), from the last 0 to the first 2**64 - 1 or to the
    ends of the law. `table`: the answer of every cell, `cut` (the least integer of its type) where a threshold cuts it.

    >>> from fractions import Fraction
    >>> from sudare.noise.laws import TwoSidedGeometric
    >>> from sudare.noise.rng import SeededRng
    >>> TableMachine(TwoSidedGeometric(scale=Fraction(20))).sample(3, SeededRng(1)).dtype
    dtype('int64')
    """

    def __init__(self, law: Law) -> None:
        self.law = law
        self.first, floors = find_floors(law)
        self.floors: NDArray[np.uint64] = np.array(floors, dtype=np.uint64)
        self.table = _make_table(self.first, self.floors)
        self.cut = int(np.iinfo(self.table.dtype).min)
        # one floor more than any word reaches, so that a search beyond the last finds something to compare with
        self._fence = np.append(self.floors, np.uint64(TOP))
        for array in (self.floors, self.table, self._fence):
            array.setflags(write=False)

    def sample(self, size: int, rng: Rng) -> Integers:
        """Draw `size` independent values."""
        drawn = np.empty(size, dtype=np.int64)
        for start in range(0, size, CHUNK):
            self.sample_into(drawn[start : start + CHUNK], rng)
        return drawn

    def sample_into(self, out: Integers, rng: Rng) -> None:
        """Overwrite `out`, at best CHUNK long, with independent draws."""
        words = rng.words16(len(out))
        answers = np.empty(len(out), dtype=self.table.dtype)
        np.take(self.table, words, mode="clip", out=answers)  # no word is out of range; clip skips the check for it
        out[:] = answers
        undecided = np.flatnonzero(answers == self.cut)
        if len(undecided):
            out[undecided] = self._search(words[undecided], rng)

    def _search(self, words: NDArray[np.uint16], rng: Rng) -> Integers:
        """Decide draws whose first 16 bits do not, by 48 more bits each."""
        head = words.astype(np.uint64) << np.uint64(SHIFT)
        longer = head | (rng.words64(len(words)) >> np.uint64(CELL_BITS))
        places = np.searchsorted(self.floors, longer)  # how many floors are less
        values = places + self.first
        for i in np.flatnonzero(self._fence[places] == longer):
            if places[i] < len(self.floors):
                values[i] = draw_exactly(self.law, LazyUniform(rng, word=int(longer[i]), bits=WORD_BITS))
        return values

    def certify(self) -> Enumeration:
        """Go through the whole table in integers and check that it is the law."""
        return enumerate_machine(self)


@functools.lru_cache(maxsize=TABLES_KEPT)
def table_machine(law: Law) -> TableMachine:
    """Give the machine of a law, built once.

    >>> from fractions import Fraction
    >>> from sudare.noise.laws import TwoSidedGeometric
    >>> table_machine(TwoSidedGeometric(scale=Fraction(2))) is table_machine(TwoSidedGeometric(scale=Fraction(2)))
    True
    """
    return TableMachine(law)


def draw_exactly(law: Law, uniform: LazyUniform) -> int:
    """Find the least k with U < P[X <= k] by comparing U, refined as needed, with certified thresholds.

    The meaning of every draw: the table is a faster way to the same k.

    >>> from fractions import Fraction
    >>> from sudare.noise.laws import TwoSidedGeometric
    >>> from sudare.noise.rng import SeededRng
    >>> draw_exactly(TwoSidedGeometric(scale=Fraction(20)), LazyUniform(SeededRng(1), word=2**63, bits=64))
    0
    """

    def is_at_most(k: int) -> bool:
        return uniform.is_below(lambda bits: law.threshold(k, bits))

    below, at_least = _bracket(law, is_at_most)
    while at_least - below > 1:
        middle = (below + at_least) // 2
        if is_at_most(middle):
            at_least = middle
        else:
            below = middle
    return at_least


def _bracket(law: Law, is_at_most: Callable[[int], bool]) -> tuple[int, int]:
    """Find below < X <= at_least, by strides that double where the law has no end."""
    below = law.low - 1 if law.low is not None else min(0, law.high or 0) - 1
    at_least = law.high if law.high is not None else max(0, below + 1)
    stride = 1
    while law.high is None and not is_at_most(at_least):
        below, at_least, stride = at_least, at_least + stride, 2 * stride
    stride = 1
    while law.low is None and is_at_most(below):
        at_least, below, stride = below, below - stride, 2 * stride
    return below, at_least


def find_floors(law: Law) -> tuple[int, list[int]]:
    """List floor(2**64 * P[X <= k]) from k = first on, from the last 0 to the first 2**64 - 1 or to the law's ends."""
    start = next((end for end in (law.low, law.high) if end is not None), 0)
    up = _walk(law, start, 1, law.high, TOP)
    down = _walk(law, start - 1, -1, None if law.low is None else start - 1, 0)
    return start - len(down), down[::-1] + up


def _walk(law: Law, start: int, step: int, end: int | None, last: int) -> list[int]:
    """Collect floors from k = start on, before k = end; where the law has no end, until one is `last`."""
    floors: list[int] = []
    while (k := start + step * len(floors)) != end:
        floors.append(certified_floor(law, k))
        if end is None and floors[-1] == last:
            break
        if len(floors) > MOST_THRESHOLDS:
            raise ParameterError("the law has more than {most} thresholds; split it", most=MOST_THRESHOLDS)
    return floors


def certified_floor(law: Law, k: int, *, guard: int = FIRST_GUARD_BITS) -> int:
    """Compute floor(2**64 * P[X <= k]), with more bits until both bounds have the same floor.

    >>> from fractions import Fraction
    >>> from sudare.noise.laws import OneSidedGeometric
    >>> certified_floor(OneSidedGeometric(scale=Fraction(1)), 0)
    11660566172440666341
    """
    while True:
        bounds = law.threshold(k, WORD_BITS + guard)
        # a probability before the law's end is below 1, even if its upper bound is not
        floors: set[int] = {min(bound >> guard, TOP) for bound in bounds}
        if len(floors) == 1:
            return floors.pop()
        guard *= 2


def _make_table(first: int, floors: NDArray[np.uint64]) -> NDArray[np.signedinteger[Any]]:
    """Answer every cell: the number of thresholds below it, or `cut` if one lies in it."""
    cells_cut = (floors >> np.uint64(SHIFT)).astype(np.int64)
    answers = first + np.searchsorted(cells_cut, np.arange(CELLS))
    kind = _narrowest(int(answers[0]), int(answers[-1]))
    table = answers.astype(kind)
    table[cells_cut] = np.iinfo(kind).min
    return table


def _narrowest(low: int, high: int) -> type[np.signedinteger[Any]]:
    for kind in (np.int16, np.int32):
        if np.iinfo(kind).min < low and high <= np.iinfo(kind).max:
            return kind
    return np.int64


# --- the check of a table -------------------------------------------------------------------------------------------

PROOF_BITS = 256  # thresholds are derived again with as many
SLACK_BITS = 64  # a ratio is shown to keep its bound up to a factor of 1 + 2**-64


@dataclass(frozen=True, kw_only=True, slots=True)
class Enumeration:
    """What going through a table has shown; `problems` is empty if the table is the law."""

    cells: int
    cut_cells: int
    thresholds: int
    problems: tuple[Text, ...]

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


def _check_ends(law: Law, first: int, floors: list[int]) -> Iterator[Text]:
    """No value is out of reach: a word before the first or after the last floor is refined or has one answer."""
    if law.low is None and (not floors or floors[0] != 0):
        yield text("the lower tail is cut off")
    if law.low is not None and first != law.low:
        yield text("the table does not start at the least value")
    if law.high is None and (not floors or floors[-1] != TOP):
        yield text("the upper tail is cut off")
    if law.high is not None and first + len(floors) != law.high:
        yield text("the table does not end at the largest value")


def _check_floors(first: int, floors: list[int], bounds: list[tuple[int, int]]) -> Iterator[Text]:
    for k, (floor, (low, high)) in enumerate(zip(floors, bounds, strict=True), first):
        again = {min(bound >> (PROOF_BITS - WORD_BITS), TOP) for bound in (low, high)}
        if again != {floor}:
            yield text("the floor of P[X <= {k}] is not the law's", k=k)


def _check_masses(law: Law, first: int, bounds: list[tuple[int, int]]) -> Iterator[Text]:
    """Every mass is positive, and neighbours keep the promised ratio; tails beyond the floors are the law's own."""
    masses = [(after[0] - before[1], after[1] - before[0]) for before, after in pairwise(bounds)]
    for k, (least, _) in enumerate(masses, first + 1):
        if least <= 0:
            yield text("P[X = {k}] is not positive", k=k)
    yield from _check_steps(law, first, masses)
    if law.log_ratio is None:
        return
    factor = exp_minus(law.log_ratio, PROOF_BITS).low  # 2**PROOF_BITS * e^-log_ratio, rounded down
    slack = 2**SLACK_BITS
    for k, (left, right) in enumerate(pairwise(masses), first + 1):
        for least, most in ((left[0], right[1]), (right[0], left[1])):
            # least * e^-log_ratio <= most * (1 + 2**-64), the largest quotient that the bounds allow
            if least * factor * slack > (most * (slack + 1)) << PROOF_BITS:
                yield text("P[X = {k}] and P[X = {next}] differ by more than the promised ratio", k=k, next=k + 1)


def _check_steps(law: Law, first: int, masses: list[tuple[int, int]]) -> Iterator[Text]:
    """Where a law states the quotient of neighbours exactly: it lies within the bounds, up to 1 + 2**-64."""
    log_step: Callable[[int], Fraction] | None = getattr(law, "log_step", None)
    if log_step is None:
        return
    slack = 2**SLACK_BITS
    for k, (left, right) in enumerate(pairwise(masses), first + 1):
        step = log_step(k)
        (more, less) = (left, right) if step >= 0 else (right, left)
        factor = exp_minus(abs(step), PROOF_BITS)
        is_too_large = less[0] * slack << PROOF_BITS > more[1] * factor.high * (slack + 1)
        is_too_small = less[1] * (slack + 1) << PROOF_BITS < more[0] * factor.low * slack
        if is_too_large or is_too_small:
            yield text("P[X = {k}] and P[X = {next}] do not have the stated quotient", k=k, next=k + 1)


def _check_cells(first: int, floors: list[int], table: list[int], cut: int) -> Iterator[Text]:
    if len(table) != 2**CELL_BITS:
        yield text("the table does not have 65536 cells")
    below = 0  # thresholds in cells before this one
    for cell, answer in enumerate(table):
        inside = below
        while inside < len(floors) and floors[inside] >> (WORD_BITS - CELL_BITS) == cell:
            inside += 1
        expected = first + below if inside == below else cut
        if answer != expected:
            yield text("cell {cell} does not answer what the thresholds say", cell=cell)
        below = inside
