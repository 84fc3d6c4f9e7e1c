"""Large maps that are no plane: sums over pairs within reach are those over all pairs, give or take their bound."""

from fractions import Fraction

import numpy as np
import pytest

from sudare.errors import ParameterError, ReleaseError
from sudare.methods.location import Location, kernel, near, nearby, tight
from sudare.methods.location.device_file import DeviceFile, certify_law, hash_facts
from sudare.methods.location.grid import ElasticGrid, Places, PlaneGrid, PointPlaces
from sudare.methods.location.kernel import DenseKernel
from sudare.methods.location.mechanism import FULL_WEIGHT, Mechanism
from sudare.methods.location.nearby import NearbyKernel, _kept_pairs, _search, find_nearby
from sudare.methods.location.posterior import measure_mechanism
from sudare.methods.location.roads import RoadGraph
from sudare.methods.location.sharp import build_sharp_mechanism
from sudare.methods.location.tight import certify_epsilon

BETA = 0.02


def make_roads(side: int = 16, seed: int = 1) -> RoadGraph:
    """Make streets in rows and columns of uneven lengths; one crossing in seven is closed."""
    numbers = np.random.default_rng(seed)
    cells = np.arange(side * side).reshape(side, side)
    along = np.stack([cells[:, :-1].ravel(), cells[:, 1:].ravel()], axis=1)
    down = np.stack([cells[:-1].ravel(), cells[1:].ravel()], axis=1)
    ends = [*along.tolist(), *down.tolist()]
    kept = [end for number, end in enumerate(ends) if number % 7 or number < side * (side - 1)]  # rows stay whole
    edges = [(int(a), int(b), int(numbers.integers(40_000, 200_000))) for a, b in kept]
    return RoadGraph(names=tuple(f"p{cell}" for cell in range(side * side)), edges=tuple(edges))


def make_points() -> PointPlaces:
    points = np.random.default_rng(2).integers(0, 2_000_000, (250, 3))
    return PointPlaces(points=points, names=tuple(map(str, range(250))))


def make_levels() -> ElasticGrid:
    levels = np.full(225, 1000)
    levels[[20, 100]] = 400
    return ElasticGrid(grid=PlaneGrid(rows=15, columns=15, cell_height_metres=90, cell_width_metres=110), levels=levels)


MAPS = {"roads": make_roads(), "points": make_points(), "levels": make_levels()}


@pytest.mark.parametrize("kind", MAPS)
def test_sums_over_pairs_within_reach_are_those_over_all(kind: str) -> None:
    places = MAPS[kind]
    values = np.random.default_rng(3).uniform(0.1, 1, places.size)
    dense, nearby = DenseKernel.of(places, BETA), NearbyKernel.of(places, BETA)

    error = np.abs(nearby.smooth(values) - dense.smooth(values)).max()

    assert error <= nearby.error_of(values) + 1e-12
    assert nearby.error_of(values) < 1e-7
    np.testing.assert_allclose(nearby.smooth_distance(values), dense.smooth_distance(values), rtol=1e-6)
    np.testing.assert_allclose(nearby.find_largest(values), (dense.decay * values).max(axis=1), rtol=1e-12)


def test_the_bound_of_what_lies_beyond_reach_holds_where_it_matters() -> None:
    """With a reach of a few hundred metres much lies beyond; the bound must still be above it."""
    roads, values = make_roads(24), np.ones(24 * 24)
    _kept_pairs.cache_clear()
    wide = find_nearby(roads, 0.2)  # a reach of 130 m at this beta, used for sums at another
    short = NearbyKernel(pairs=wide, beta=0.02)

    missed = DenseKernel.of(roads, 0.02).smooth(values) - short.smooth(values)

    assert 0.05 < missed.max() <= short.error_of(values)
    _kept_pairs.cache_clear()


@pytest.mark.parametrize("kind", MAPS)
def test_the_certificate_of_a_large_map_is_that_of_all_pairs(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    places = MAPS[kind]
    law = Mechanism(places=places, beta_per_metre=Fraction(1, 50), weights=draw_weights(places))
    by_table = certify_epsilon(law)
    treat_as_large(monkeypatch)
    law = Mechanism(places=places, beta_per_metre=Fraction(1, 50), weights=law.weights)

    by_pairs = certify_epsilon(law)

    assert isinstance(law.kernel, NearbyKernel)
    assert by_table.epsilon - 1e-12 <= by_pairs.epsilon <= by_table.epsilon * (1 + 1e-4)
    assert by_pairs.is_exact == by_table.is_exact


@pytest.mark.parametrize("kind", ["roads", "points"])
def test_a_file_of_a_large_map_is_taken_by_whoever_reads_it_first(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    treat_as_large(monkeypatch)
    for name in ("ROAD_DECAYS", "POINT_DECAYS"):
        monkeypatch.setattr(nearby, name, 16.0)  # so short that what lies beyond shows
    places = MAPS[kind]
    weights = np.random.default_rng(7).uniform(0.05, 1, places.size)
    method = Location(grid=places, epsilon_per_metre="0.05", mode="weighted", weights=weights, slack="noise")
    law = method.mechanism()  # pairs reach farther after beta was sought
    claimed = certify_law(law).epsilon
    written = DeviceFile(
        mechanism=law, epsilon_per_metre=Fraction(1, 20), tight_epsilon_per_metre=claimed, repeat=method.repeat_use
    ).to_dict()

    read = DeviceFile.from_dict(written)

    assert certify_law(read.mechanism).epsilon > claimed * (1 + 1e-9)  # by the error of a shorter reach
    forged = {name: value for name, value in written.items() if name != "id"}
    forged["tight_epsilon_per_metre"] = repr(claimed * (1 - 1e-3))
    with pytest.raises(ReleaseError, match="claims epsilon"):
        DeviceFile.from_dict({"id": hash_facts(forged)} | forged)
    _kept_pairs.cache_clear()


def test_rows_of_a_shorter_reach_leave_the_pairs_as_they_are() -> None:
    roads = make_roads()
    _kept_pairs.cache_clear()
    pairs = find_nearby(roads, BETA)
    table = np.array([roads.metres(cell) for cell in range(roads.size)])

    for metres in (300.0, pairs.reach):
        expected = np.where((table > 0) & (table <= metres), table, 0.0)
        np.testing.assert_allclose(pairs.full_rows(metres).toarray(), expected)


def test_the_slope_along_roads_is_that_of_all_pairs() -> None:
    roads = make_roads()
    levels = np.random.default_rng(5).normal(size=roads.size)
    table = np.array([roads.metres(cell) for cell in range(roads.size)]) + np.diag(np.full(roads.size, np.inf))

    assert roads.find_steepest(levels) == pytest.approx(float((np.abs(levels[:, None] - levels) / table).max()))


@pytest.mark.parametrize("mode", ["sharp", "near"])
def test_modes_on_a_large_road_map_are_as_on_a_small_one(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    roads = make_roads()
    people = np.random.default_rng(6).gamma(1, size=roads.size)
    people, everywhere = people / people.sum(), np.ones(roads.size, dtype=np.bool_)
    monkeypatch.setattr(near, "MAX_PROGRAMME_CELLS", 0)

    def build() -> float:
        if mode == "near":
            law = near.build_near_mechanism(roads, Fraction(1, 50), people=people, cells=everywhere, inputs=everywhere)
            return near.find_expected_distance(law, people)
        sharp = build_sharp_mechanism(roads, Fraction(1, 50), cells=everywhere)
        assert certify_epsilon(sharp).epsilon <= 0.02
        return measure_mechanism(sharp, prior=people).expected_distance

    by_table = build()
    treat_as_large(monkeypatch)

    assert build() == pytest.approx(by_table, rel=0.002)


def draw_weights(places: Places) -> np.ndarray:
    return np.random.default_rng(4).integers(FULL_WEIGHT // 4, FULL_WEIGHT, places.size)


def treat_as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (kernel, tight):
        monkeypatch.setattr(module, "MAX_DENSE_CELLS", 100)


def test_wide_tiles_find_the_pairs_of_narrow_ones() -> None:
    roads = make_roads(seed=9)

    wide, narrow = (_search(roads, 400.0, is_bounded=is_bounded) for is_bounded in (False, True))

    assert wide.starts.tolist() == narrow.starts.tolist()
    assert (wide.make_symmetric() != narrow.make_symmetric()).nnz == 0


def make_large(kind: str) -> Places:
    if kind == "plane":
        return PlaneGrid(rows=400, columns=251, cell_height_metres=100, cell_width_metres=100)
    if kind == "levels":
        grid = PlaneGrid(rows=150, columns=150, cell_height_metres=100, cell_width_metres=100)
        return ElasticGrid(grid=grid, levels=np.full(grid.size, 1000))
    if kind == "points":
        rows, columns = np.divmod(np.arange(40_000), 200)
        points = np.column_stack([100_000 * rows, 100_000 * columns])
        return PointPlaces(points=points, names=tuple(map(str, range(len(points)))))
    return make_roads(side=200)


@pytest.mark.parametrize(
    ("kind", "mode", "reason"),
    [
        ("plane", "near", "mode near needs a map of at most 100000 cells, not 100400"),
        ("points", "near", "more than 120 million pairs within reach"),
        ("points", "grid", "more than 300 million pairs within reach"),
        ("roads", "sharp", "more than 300 million pairs within reach"),
        ("levels", "sharp", "a map of 22500 cells with this metric must have at most 20000"),
    ],
)
def test_a_map_that_would_take_hours_is_refused_before_any_work(
    kind: str, mode: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, work in (("nearby", "_search"), ("location", "check_metric"), ("near", "build_sharp_for_inputs")):
        monkeypatch.setattr(f"sudare.methods.location.{module}.{work}", None)  # calling it would fail

    with pytest.raises(ParameterError, match=reason):
        Location(grid=make_large(kind), epsilon_per_metre="0.001", mode=mode).preview()
