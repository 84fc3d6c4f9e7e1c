"""Maps with the margin of error beside them: classes, colours, hatch, words in both languages."""

from __future__ import annotations

import base64
import re
import zlib
from pathlib import Path

import numpy as np
import pytest

from sudare.counts import Counts
from sudare.methods.table import Table
from sudare.noise import SeededRng
from sudare.report.error_maps import ERROR_RAMP, ClassColours, draw_error_map
from sudare.report.maps import EMPTY
from sudare.report.svg import RAMP
from sudare.schema import Attribute, MeshCells, Schema, Values
from sudare.testing import Tabled
from sudare.text import use_language

CELLS = MeshCells(level=2, area=("5339",))  # 8 x 8 cells


def read_pixels(address: str) -> np.ndarray:
    """Read an embedded picture back: (rows, columns, 3)."""
    data = base64.b64decode(address)
    width, height = (int.from_bytes(data[start : start + 4], "big") for start in (16, 20))
    start = data.index(b"IDAT")
    length = int.from_bytes(data[start - 4 : start], "big")
    rows = np.frombuffer(zlib.decompress(data[start + 4 : start + 4 + length]), dtype=np.uint8)
    return rows.reshape(height, 1 + 3 * width)[:, 1:].reshape(height, width, 3)


def images(picture: str) -> list[np.ndarray]:
    return [read_pixels(found) for found in re.findall(r'href="data:image/png;base64,([^"]+)"', picture)]


def draw(people: list[int], margins: list[float]) -> str:
    margin = np.zeros(CELLS.size)
    margin[: len(margins)] = margins
    codes = np.arange(len(people))
    return draw_error_map(CELLS, codes, np.array(people), margin, title="towns <&>")


def test_a_cell_has_the_colour_of_its_number_in_the_legend() -> None:
    published, _, _ = images(draw([0, 7, 4000], [3.0, 3.0, 3.0]))
    colours = ClassColours.choose(np.array([7, 4000]), RAMP)

    assert published[-1, 0].tolist() == list(EMPTY)
    assert published[-1, 1].tolist() == colours.colours[0].tolist()
    assert published[-1, 2].tolist() == colours.colours[-1].tolist()


def test_cells_are_hatched_where_the_error_exceeds_the_number_and_nowhere_else() -> None:
    _, mask, _ = images(draw([10, 10, 0, 10], [9.9, 10.1, 5.0, 10.0]))

    assert mask[-1, :4, 0].tolist() == [0, 255, 0, 0]
    assert not mask[:-1].any()


def test_the_error_is_told_in_per_cent_and_in_people() -> None:
    picture = draw([100, 100, 100], [4.0, 30.0, 400.0])
    _, _, errors = images(picture)
    classes = ClassColours((0, 5, 10, 25, 50, 100), ERROR_RAMP).colours

    assert [errors[-1, place].tolist() for place in range(3)] == [
        classes[0].tolist(),
        classes[3].tolist(),
        classes[5].tolist(),
    ]
    assert "Margin of error of a cell: 4 to 400 people." in picture
    assert "towns &lt;&amp;&gt;" in picture


@pytest.mark.parametrize(
    ("values", "bounds"),
    [([1], (1,)), ([4, 80], (2, 5, 10, 20, 50)), ([1, 10**12], tuple(10**n for n in range(6, 13)))],
)
def test_there_are_at_most_seven_classes_with_bounds_that_people_read(
    values: list[int], bounds: tuple[int, ...]
) -> None:
    assert ClassColours.choose(np.array(values), RAMP).bounds == bounds


@pytest.mark.parametrize("algorithm", ["squares", "wavelet"])
def test_a_release_has_its_map_in_both_languages(algorithm: str, tmp_path: Path) -> None:
    sex = Attribute(name="sex", domain=Values(values=("F", "M")))
    schema = Schema(name="towns", attributes=(Attribute(name="mesh", domain=CELLS, missing=True), sex))
    counts = Counts.from_columns(schema, [[3, 0]] * 500 + [[9, 1]] * 40 + [[CELLS.size, 1]] * 30)
    with use_language("ja"):  # whoever publishes: each file has its own language
        release = Table(epsilon=1, algorithm=algorithm).publish(Tabled(counts), rng=SeededRng(1))  # type: ignore[arg-type]
        release.save(tmp_path / "out", even_if_not_private=True)
    english, japanese = ((tmp_path / "out" / name).read_text(encoding="utf-8") for name in ("map.svg", "map.ja.svg"))

    assert "people per cell" in english
    assert "人" in japanese
    assert ("margin of error" in english) == (algorithm == "squares")


def draw_areas_of(names: list[str], people: int) -> str:
    """Two areas in the south-west of the map, each two cells wide and one high, and no area elsewhere."""
    areas = np.full(CELLS.size, 2)
    areas[[0, 1]], areas[[2, 3]] = 0, 1
    counts = np.array([people, 2 * people, 0])[areas]
    return draw_error_map(
        CELLS, np.arange(CELLS.size), counts, np.full(CELLS.size, 20.0), title="t", areas=areas, names=[*names, ""]
    )


def test_a_map_of_areas_names_them_and_ends_where_they_end() -> None:
    picture = draw_areas_of(["東区", "<west>"], 300)

    assert ">東区</text>" in picture
    assert "&lt;west&gt;</text>" in picture
    assert images(picture)[0].shape == (1, 4, 3)


def test_a_name_that_has_no_room_is_left_out() -> None:
    assert "west" not in draw_areas_of(["東区", "west of " * 20], 300)


def test_labels_of_a_legend_do_not_run_into_each_other() -> None:
    drawn = ClassColours((100_000, 200_000, 500_000, 1_000_000), RAMP).draw(0, 0)
    places = [float(x) for x in re.findall(r'<text x="([\d.]+)"', drawn)]
    labels = re.findall(r">([^<>]+)</text>", drawn)

    assert all(
        after - before >= 6 * len(label) for before, after, label in zip(places, places[1:], labels, strict=False)
    )


def test_areas_that_have_the_same_margin_are_told_in_one_number() -> None:
    assert "Margin of error of an area: 20 people." in draw_areas_of(["a", "b"], 300)


def test_a_map_ends_around_the_cells_that_exceed_their_error_and_tells_of_the_others() -> None:
    """A town of 3 x 3 cells in a corner of 80 x 80, and two far cells of fewer people than their error."""
    cells = MeshCells(level=3, area=("5339",))
    rows, columns = cells.grid(np.arange(cells.size))
    rows, columns = rows - rows.min(), columns - columns.min()
    town = np.flatnonzero((rows < 3) & (columns < 3))
    far = np.flatnonzero((rows == 70) & (columns >= 78))
    people = np.concatenate([np.full(9, 500), np.full(2, 4)])
    picture = draw_error_map(cells, np.append(town, far), people, np.full(cells.size, 30.0), title="town")

    assert images(picture)[0].shape == (7, 7, 3)
    assert "Not shown: 2 cells farther out, together 8 people" in picture


def test_a_map_is_shown_whole_where_no_cell_or_cells_all_over_exceed_their_error() -> None:
    shapes = [images(draw(people, [30.0] * 64))[0].shape for people in ([4] * 64, [500] * 64)]

    assert shapes == [(8, 8, 3), (8, 8, 3)]


def test_the_lightest_of_few_classes_is_seen_beside_the_ground() -> None:
    """Of points nearly all cells hold 1 or 2 people: the first colour of the ramp is as light as the ground."""
    one, two, many = (ClassColours.choose(np.array(values), RAMP).colours[0] for values in ([2], [1, 2], [1, 10**6]))

    assert int(one.sum()) < int(many.sum()) - 150
    assert int(two.sum()) < int(many.sum()) - 100
