"""Reports are drawn exactly: floats decide only what integers would decide alike, and repeat use keeps its budget."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest

from sudare.errors import BudgetExceeded, ParameterError, ReleaseError
from sudare.methods.location.device import Device, short_identity
from sudare.methods.location.device_file import DeviceFile, RepeatUse
from sudare.methods.location.grid import PlaneGrid
from sudare.methods.location.mechanism import FULL_WEIGHT, Mechanism
from sudare.methods.location.sampler import Sampler, make_plane_sampler, make_row_sampler
from sudare.noise import SeededRng
from sudare.noise.distance import MARGIN, SLOPE, Chance, PlaneSampler

GRID = PlaneGrid(rows=15, columns=15, cell_height_metres="115.6", cell_width_metres="141.5")
EVERYWHERE = 2.0  # a margin that no float reaches: integers decide every draw


def law(beta: str = "1/100", *, grid: PlaneGrid = GRID, sea: tuple[int, ...] = (3,)) -> Mechanism:
    weights = np.random.default_rng(1).integers(1, FULL_WEIGHT, grid.size)
    weights[list(sea)] = 0
    return Mechanism(
        places=grid, beta_per_metre=Fraction(beta), weights=weights, inputs=np.ones(grid.size, dtype=np.bool_)
    )


def device_file(*, fresh: int = 2) -> DeviceFile:
    return DeviceFile(
        mechanism=law(),
        epsilon_per_metre=Fraction(1, 50),
        tight_epsilon_per_metre=0.02,
        repeat=RepeatUse(fresh_reports=fresh),
    )


# --- one exact yes or no ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [64, 128, 256])
@pytest.mark.parametrize(("square", "shift"), [("2", "0"), ("2", "7/5"), ("4", "2"), ("123456789/1000", "1/3")])
def test_bounds_enclose_the_probability_and_narrow(bits: int, square: str, shift: str) -> None:
    getcontext().prec = 120
    chance = Chance(share=Fraction(2, 3), beta=Fraction(1), square=Fraction(square), shift=Fraction(shift))
    under, over = (Decimal(part) for part in Fraction(square).as_integer_ratio())
    off = Decimal(Fraction(shift).numerator) / Decimal(Fraction(shift).denominator)
    true = Decimal(2) / 3 * (off - (under / over).sqrt()).exp() * Decimal(2) ** bits

    low, high = chance.bounds(bits)

    assert low - Decimal("1e-9") <= true <= high + Decimal("1e-9")
    assert high - low <= 3


def test_the_float_guess_is_nearer_to_the_probability_than_a_quarter_of_the_margin() -> None:
    sampler = make_plane_sampler(law(), GRID)
    steps = [(down, across) for down in range(15) for across in range(15)]
    rates = [float(axis.rate) for axis in sampler._axes()]
    furthest = 0.0
    for down, across in steps:
        reach = 0.01 * math.hypot(down * 115.6, across * 141.5)
        guess = math.exp(down * rates[0] + across * rates[1] - reach)
        chance = Chance(
            share=Fraction(1),
            beta=Fraction(1, 100),
            square=(down * Fraction("115.6")) ** 2 + (across * Fraction("141.5")) ** 2,
            shift=sum(n * axis.rate for n, axis in zip((down, across), sampler._axes(), strict=True)),
        )
        furthest = max(furthest, abs(guess - chance.bounds(64)[0] / 2**64))

    assert furthest < MARGIN / 4


def test_geometric_steps_lie_above_the_law_in_every_direction() -> None:
    assert 2 * SLOPE.numerator**2 < SLOPE.denominator**2


# --- whole reports ------------------------------------------------------------------------------------------------


def test_floats_and_integers_draw_the_same_reports_from_the_same_words() -> None:
    cells = np.arange(1500) % GRID.size

    by_floats = Sampler(mechanism=law()).draw(cells, rng=SeededRng(5))
    by_integers = Sampler(mechanism=law(), margin=EVERYWHERE).draw(cells, rng=SeededRng(5))

    assert by_floats.tolist() == by_integers.tolist()


def test_rows_by_floats_and_by_integers_draw_the_same_reports_from_the_same_words() -> None:
    by_floats = make_row_sampler(law(), 17).draw(1000, SeededRng(6))
    by_integers = make_row_sampler(law(), 17, margin=EVERYWHERE).draw(1000, SeededRng(6))

    assert by_floats.tolist() == by_integers.tolist()


@pytest.mark.parametrize("beta", ["1/1000000", "1/200", "1/10"])
def test_the_integers_of_a_row_lie_above_its_terms(beta: str) -> None:
    row = make_row_sampler(law(beta), 100)

    assert all(row._chance(place).bounds(64)[1] <= 2**64 for place in range(len(row.reports)))


def test_a_cell_of_weight_0_is_never_reported_even_from_inside_it() -> None:
    drawn = Sampler(mechanism=law()).draw(np.full(50_000, 3), rng=SeededRng(7))

    assert 3 not in drawn


def test_a_cell_with_one_island_far_away_is_drawn_by_its_row() -> None:
    grid = PlaneGrid(rows=60, columns=60, cell_height_metres=100, cell_width_metres=100)
    weights = np.zeros(grid.size, dtype=np.int64)
    weights[[0, 3599]] = FULL_WEIGHT
    mechanism = Mechanism(
        places=grid, beta_per_metre=Fraction(1, 20), weights=weights, inputs=np.ones(grid.size, dtype=np.bool_)
    )

    drawn = Sampler(mechanism=mechanism).draw(np.full(200, 30 * 60 + 5), rng=SeededRng(8))

    assert set(drawn.tolist()) == {0}


def test_a_row_too_far_from_any_report_is_refused() -> None:
    grid = PlaneGrid(rows=1, columns=3, cell_height_metres=1, cell_width_metres=10_000)
    mechanism = Mechanism(
        places=grid,
        beta_per_metre=Fraction(2),
        weights=np.array([FULL_WEIGHT, 0, 0]),
        inputs=np.ones(grid.size, dtype=np.bool_),
    )

    with pytest.raises(ParameterError, match="too far away"):
        make_row_sampler(mechanism, 2)


def test_memory_follows_the_map_and_not_its_square() -> None:
    grid = PlaneGrid(rows=1500, columns=1500, cell_height_metres=100, cell_width_metres=100)
    weights = np.full(grid.size, FULL_WEIGHT)
    sampler = PlaneSampler(
        rows=1500, columns=1500, height=Fraction(100), width=Fraction(100), beta=Fraction(1, 100), weights=weights
    )

    drawn = sampler.draw(np.arange(0, grid.size, 1000), SeededRng(9))

    assert len(drawn) == grid.size // 1000


@pytest.mark.parametrize(("cells", "reason"), [([225], "outside"), ([-1], "outside"), ([0.5], "whole numbers")])
def test_a_cell_that_is_not_on_the_map_is_refused(cells: list[float], reason: str) -> None:
    with pytest.raises(ParameterError, match=reason):
        Sampler(mechanism=law()).draw(cells)


def test_a_cell_where_nobody_can_be_is_refused() -> None:
    mechanism = Mechanism(places=GRID, beta_per_metre=Fraction(1), weights=law().weights)

    with pytest.raises(ParameterError, match="nobody can be"):
        Sampler(mechanism=mechanism).draw([3])


# --- repeat use ---------------------------------------------------------------------------------------------------


def test_the_same_cell_gives_the_same_report_all_day() -> None:
    device = Device.start(device_file())

    reports = {device.report(40, day="2026-11-16").cell for _ in range(30)}

    assert len(reports) == 1


def test_a_stored_state_keeps_the_answers() -> None:
    first = Device.start(device_file())
    report = first.report(40, day="2026-11-16")

    second = Device.start(device_file(), state=first.state.to_dict())

    assert second.report(40, day="2026-11-16") == report


def test_a_new_cell_beyond_the_budget_gives_no_report() -> None:
    device = Device.start(device_file(fresh=2))
    device.report(40, day="2026-11-16")
    device.report(41, day="2026-11-16")

    with pytest.raises(BudgetExceeded, match="2 draws"):
        device.report(42, day="2026-11-16")


def test_the_next_day_has_a_budget_of_its_own_and_an_earlier_one_has_not() -> None:
    device = Device.start(device_file(fresh=1))
    device.report(40, day="2026-11-16")

    device.report(41, day="2026-11-17")

    with pytest.raises(BudgetExceeded):
        device.report(42, day="2026-11-15")


def test_a_report_names_its_device_file() -> None:
    assert Device.start(device_file()).report(40).device_file == short_identity(device_file())


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"artefact": "x", "period": "", "answers": []},
        {"artefact": "x", "period": "", "answers": {"a": 1}},
        {"artefact": "x", "period": "", "answers": {}, "more": 1},
        {"artefact": "0123456789abcdef", "period": "", "answers": {}},
    ],
)
def test_a_state_that_is_damaged_or_of_another_device_file_is_refused(state: dict[str, object]) -> None:
    with pytest.raises(ReleaseError):
        Device.start(device_file(), state=state)
