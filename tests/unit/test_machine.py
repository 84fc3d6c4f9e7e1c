"""The table machine: its tables are the law, in integers; its draws are those of the definition, bit by bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from sudare.errors import ParameterError
from sudare.noise.enclosure import Enclosure
from sudare.noise.laws import (
    BernoulliExp,
    DigitDifference,
    Law,
    OneSidedGeometric,
    TruncatedGeometric,
    TwoSidedGeometric,
)
from sudare.noise.machine import CELLS, CHUNK, TOP, TableMachine, draw_exactly, table_machine
from sudare.noise.rng import LazyUniform, Rng, SeededRng

LAWS: list[Law] = [
    TwoSidedGeometric(scale=Fraction(1, 1000)),
    TwoSidedGeometric(scale=Fraction(1, 3)),
    TwoSidedGeometric(scale=Fraction(20)),
    TwoSidedGeometric(scale=Fraction(1000, 17)),
    OneSidedGeometric(scale=Fraction(7, 2)),
    OneSidedGeometric(scale=Fraction(1, 50)),
    TruncatedGeometric(scale=Fraction(3), size=2),
    TruncatedGeometric(scale=Fraction(10**9), size=256),
    DigitDifference(scale=Fraction(1, 10), size=4),
    DigitDifference(scale=Fraction(10**9), size=256),
    BernoulliExp(x=Fraction(1, 10**6)),
    BernoulliExp(x=Fraction(100)),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Even:
    """A law of rational probabilities, with dyadic ones among them: uniform on low..high."""

    low: int
    high: int
    log_ratio: None = None

    def threshold(self, k: int, bits: int) -> tuple[int, int]:
        bounds = Enclosure.of(Fraction(k + 1 - self.low, self.high + 1 - self.low), bits=bits)
        return bounds.low, bounds.high


def reading(stream: bytes, *, then: int | None = None) -> Rng:
    """A stream of given bytes; after them one byte for ever, or an error."""
    left = memoryview(stream)

    def generate(out: memoryview) -> None:
        nonlocal left
        taken = min(len(out), len(left))
        if taken < len(out) and then is None:
            raise EOFError
        out[:] = bytes(left[:taken]) + bytes([then or 0]) * (len(out) - taken)
        left = left[taken:]

    return Rng(generate, buffer_bytes=1)


# --- enumeration ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_every_table_is_its_law_cell_by_cell(law: Law) -> None:
    shown = TableMachine(law).certify()

    assert shown.problems == ()
    assert shown.passed
    assert shown.cells == CELLS


def test_a_table_of_scale_20_has_336_cut_cells() -> None:
    machine = table_machine(TwoSidedGeometric(scale=Fraction(20)))

    assert machine.table.dtype == np.int16
    assert machine.certify().cut_cells == 336


def broken(change: Callable[[TableMachine], None], law: Law | None = None) -> TableMachine:
    machine = TableMachine(law or TwoSidedGeometric(scale=Fraction(20)))
    machine.table, machine.floors = machine.table.copy(), machine.floors.copy()
    change(machine)
    return machine


def answers_one_cell_wrong(machine: TableMachine) -> None:
    machine.table[30_000 + int(np.argmin(machine.table[30_000:] == machine.cut))] += 1


def answers_a_cut_cell(machine: TableMachine) -> None:
    machine.table[np.flatnonzero(machine.table == machine.cut)[100]] = 0


def moves_a_floor(machine: TableMachine) -> None:
    machine.floors[900] += np.uint64(1)


def forgets_the_lowest_values(machine: TableMachine) -> None:
    machine.first, machine.floors = machine.first + 1, machine.floors[1:]


def forgets_the_highest_values(machine: TableMachine) -> None:
    machine.floors = machine.floors[:-1]


def starts_one_off(machine: TableMachine) -> None:
    machine.first += 1


def has_another_scale(machine: TableMachine) -> None:
    machine.law = TwoSidedGeometric(scale=Fraction(20) + Fraction(1, 10**15))


def loses_a_cell(machine: TableMachine) -> None:
    machine.table = machine.table[:-1]


@pytest.mark.parametrize(
    "change",
    [
        answers_one_cell_wrong,
        answers_a_cut_cell,
        moves_a_floor,
        forgets_the_lowest_values,
        forgets_the_highest_values,
        starts_one_off,
        has_another_scale,
        loses_a_cell,
    ],
)
def test_a_wrong_table_is_found(change: Callable[[TableMachine], None]) -> None:
    shown = broken(change).certify()

    assert not shown.passed


@pytest.mark.parametrize("change", [forgets_the_lowest_values, forgets_the_highest_values])
def test_a_missing_end_of_a_bounded_law_is_found(change: Callable[[TableMachine], None]) -> None:
    shown = broken(change, TruncatedGeometric(scale=Fraction(3), size=9)).certify()

    assert not shown.passed


@dataclass(frozen=True, kw_only=True, slots=True)
class Overpromised(TwoSidedGeometric):
    """A law that promises less loss between neighbours than it has."""

    @property
    def log_ratio(self) -> Fraction:
        return 1 / self.scale - Fraction(1, 2**60)


def test_a_ratio_beyond_the_promise_is_found() -> None:
    shown = TableMachine(Overpromised(scale=Fraction(20))).certify()

    assert any("promised ratio" in str(problem) for problem in shown.problems)


@dataclass(frozen=True, kw_only=True, slots=True)
class WithAHole(Even):
    """A law in which one value never comes."""

    def threshold(self, k: int, bits: int) -> tuple[int, int]:
        return Even.threshold(self, k - 1 if k == 3 else k, bits)


def test_a_value_without_probability_is_found() -> None:
    shown = TableMachine(WithAHole(low=0, high=9)).certify()

    assert any("is not positive" in str(problem) for problem in shown.problems)


# --- draws ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_table_gives_what_the_definition_gives_for_the_same_bits(law: Law) -> None:
    machine = TableMachine(law)
    near = [int(floor) + step for floor in machine.floors[:: len(machine.floors) // 20 + 1] for step in (-1, 0, 1)]
    words = [word for word in near if 0 <= word <= TOP] + SeededRng(3).words64(50).tolist()
    more = SeededRng(4).bytes(4096)

    for word in words:
        head, tail = word >> 48, (word & (2**48 - 1)) << 16
        rng = reading(head.to_bytes(2, "little") + tail.to_bytes(8, "little") + more)
        if machine.table[head] != machine.cut:  # the tail is not read
            rng = reading(head.to_bytes(2, "little"))
        drawn = machine.sample(1, rng)[0]

        assert drawn == draw_exactly(law, LazyUniform(reading(more), word=word, bits=64))


def test_dyadic_probabilities_come_out_exactly() -> None:
    # all 65,536 first words, then tails of zeros: 8 values, 8,192 words each
    stream = np.arange(CELLS, dtype="<u2").tobytes()

    drawn = TableMachine(Even(low=-3, high=4)).sample(CELLS, reading(stream, then=0))

    assert np.bincount(drawn + 3).tolist() == [CELLS // 8] * 8


def test_values_wide_apart_get_a_wider_table() -> None:
    law = Even(low=10**6, high=10**6 + 2)

    drawn = TableMachine(law).sample(3000, SeededRng(1))

    assert TableMachine(law).table.dtype == np.int32
    assert set(drawn.tolist()) == {10**6, 10**6 + 1, 10**6 + 2}


def test_a_law_of_one_value_gives_it() -> None:
    assert TableMachine(Even(low=10**12, high=10**12)).sample(5, SeededRng(1)).tolist() == [10**12] * 5


@pytest.mark.parametrize(("then", "sign"), [(0, -1), (255, 1)])
def test_the_tails_have_no_end(then: int, sign: int) -> None:
    # 256 bits of zeros (ones), then ones (zeros): U or 1 - U is about 2**-256
    head = bytes([then]) * 24 + bytes([then ^ 255]) * 32
    uniform = LazyUniform(reading(head, then=then), word=then // 255 * TOP, bits=64)

    drawn = draw_exactly(TwoSidedGeometric(scale=Fraction(20)), uniform)

    assert sign * drawn == pytest.approx(20 * 256 * math.log(2), rel=0.01)


def test_a_one_sided_law_has_no_end_above_and_one_below() -> None:
    law = OneSidedGeometric(scale=Fraction(2))

    high = draw_exactly(law, LazyUniform(reading(b"\xff" * 24 + b"\x00" * 32), word=TOP, bits=64))
    low = draw_exactly(law, LazyUniform(reading(b""), word=0, bits=64))

    assert low == 0
    assert high == pytest.approx(2 * 256 * math.log(2), rel=0.02)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mirrored:
    """A law without a lower end: minus a one-sided geometric, minus 5."""

    scale: Fraction
    low: None = None
    high: int = -5
    log_ratio: None = None

    def threshold(self, k: int, bits: int) -> tuple[int, int]:
        low, high = OneSidedGeometric(scale=self.scale).threshold(-6 - k, bits)
        return 2**bits - high, 2**bits - low


def test_a_law_may_end_above_only() -> None:
    machine = TableMachine(Mirrored(scale=Fraction(3)))

    drawn = machine.sample(20_000, SeededRng(2))

    assert machine.certify().passed
    assert drawn.max() == -5
    assert -5 - drawn.mean() == pytest.approx(1 / math.expm1(1 / 3), rel=0.05)


@pytest.mark.parametrize("buffer_bytes", [1, 2, 15, 64, 4096])
def test_draws_do_not_depend_on_where_the_buffer_ends(buffer_bytes: int) -> None:
    machine = table_machine(TwoSidedGeometric(scale=Fraction(20)))

    drawn = machine.sample(3000, SeededRng(9, buffer_bytes=buffer_bytes))

    assert drawn.tolist() == machine.sample(3000, SeededRng(9)).tolist()


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 3])
def test_any_number_of_draws_may_be_asked_for(size: int) -> None:
    drawn = table_machine(TwoSidedGeometric(scale=Fraction(20))).sample(size, SeededRng(9))

    assert drawn.shape == (size,)
    assert drawn.dtype == np.int64
    assert size < 1000 or abs(drawn.mean()) < 10 * 28.3 / math.sqrt(size)


def test_no_cut_cell_is_answered_by_its_mark() -> None:
    drawn = table_machine(TwoSidedGeometric(scale=Fraction(60))).sample(1_000_000, SeededRng(9))

    assert np.abs(drawn).max() < 60 * 40


def test_tables_are_kept_by_the_exact_scale_and_cannot_be_changed() -> None:
    first = table_machine(TwoSidedGeometric(scale=Fraction("0.1") * 200))

    assert first is table_machine(TwoSidedGeometric(scale=Fraction(20)))
    with pytest.raises(ValueError, match="read-only"):
        first.table[0] = 1


def test_a_law_of_too_many_values_is_refused() -> None:
    with pytest.raises(ParameterError, match="split it"):
        TableMachine(Even(low=0, high=10**9))
