"""Before a map is made it is told how long that takes, in words."""

from pathlib import Path

import numpy as np
import pytest

from sudare.app import preview
from sudare.errors import ParameterError
from sudare.methods.location import Location, effort
from sudare.methods.location.grid import PlaneGrid, PointPlaces
from sudare.text import Text


def make_plane(rows: int, columns: int) -> PlaneGrid:
    return PlaneGrid(rows=rows, columns=columns, cell_height_metres=100, cell_width_metres=100)


def make_hexagons(side: int) -> PointPlaces:
    points = [(100_000 * j + 50_000 * (i % 2), 86_600 * i) for i in range(side) for j in range(side)]
    return PointPlaces(points=np.array(points), names=tuple(map(str, range(side * side))))


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (Location(grid=make_plane(40, 40), epsilon_per_metre="0.01", mode="sharp"), None),
        (Location(grid=make_plane(1000, 1000), epsilon_per_metre="0.01", mode="grid"), None),
        (Location(grid=make_plane(1000, 1000), epsilon_per_metre="0.01", mode="sharp"), "about a minute"),
        (Location(grid=make_plane(316, 316), epsilon_per_metre="0.01", mode="near"), "some minutes"),
        (
            Location(grid=make_plane(100, 100), epsilon_per_metre="0.01", mode="fair", prior=np.arange(10_000.0)),
            "about a minute",
        ),
        (Location(grid=make_hexagons(70), epsilon_per_metre="0.01", mode="sharp"), "about a minute"),
    ],
)
def test_long_work_is_told_in_words(method: Location, words: str | None) -> None:
    told = method.announce()

    assert (told is None) == (words is None)
    assert words is None or words in str(told)


def test_a_map_that_is_refused_is_not_announced() -> None:
    with pytest.raises(ParameterError, match="at most"):
        Location(grid=make_plane(400, 400), epsilon_per_metre="0.01", mode="near").announce()


def test_a_preview_tells_it_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "SHORT", 0.0)
    (tmp_path / "map.toml").write_text(
        '[grid]\nkind = "plane"\nrows = 3\ncolumns = 3\ncell_height_metres = 100\ncell_width_metres = 100\n'
    )
    told: list[Text] = []

    preview(Location(epsilon_per_metre="0.01"), tmp_path / "map.toml", announce=told.append)

    assert [str(words) for words in told] == ["making this map takes about a minute of one processor"]
