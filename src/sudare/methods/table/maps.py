"""The picture of a published table on the map: for the public in the release, and for the steward beside the truth."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np

from sudare.counts import Countable
from sudare.errors import ParameterError
from sudare.methods.table.large_measured import LargeMeasured
from sudare.methods.table.measured import MeasuredTable
from sudare.releases import Coded, Frame, Release
from sudare.releases.geo import roll_up
from sudare.report.error_maps import draw_error_map
from sudare.report.maps import draw_public_map, draw_steward_map, write_map
from sudare.schema import MeshCells, Schema
from sudare.schema.arrays import Codes, Integers, Reals
from sudare.text import Text, text, use_language

MeshPicture = tuple[MeshCells, Codes, Integers]

PICTURES = {"map.svg": "en", "map.ja.svg": "ja"}
MOST_PIXELS = 2**22  # a larger map is drawn at a coarser level, which always fits: it must not fail after the spend
SIDES = ("80 km", "10 km", "1 km", "500 m", "250 m", "125 m")
_SMALLEST = (1, 8, 80, 160, 320, 640)  # cells of every level along the side of one of 80 km


def picture_files(
    cells: Frame, schema: Schema, measured: MeasuredTable | LargeMeasured | None = None
) -> dict[str, Callable[[Path], object]]:
    """Give the writers of the pictures of a table that has a mesh, none for any other; drawn when they are written.

    The pictures show published numbers alone, added up over all other attributes. Where the noisy sums are published
    the margin of error stands beside them. One picture for each language, as for certificates.
    """
    if _mesh(cells, schema) is None:
        return {}
    prepare = cache(partial(_prepare_picture, cells, schema, measured))  # once for all languages, when first written
    drawn = partial(_write_picture, schema=schema, prepare=prepare)
    return {name: partial(drawn, language=language) for name, language in PICTURES.items()}


PreparedPicture = tuple[MeshPicture, Reals | None]


def _prepare_picture(
    cells: Frame, schema: Schema, measured: MeasuredTable | LargeMeasured | None
) -> PreparedPicture | None:
    mesh = _mesh(cells, schema)
    if mesh is None:
        return None
    picture = _published(cells, *mesh)
    position = schema.names.index(mesh[0])
    return picture, None if measured is None else _find_margins(measured, position, mesh[1], picture[0])


def _write_picture(path: Path, *, schema: Schema, prepare: Callable[[], PreparedPicture | None], language: str) -> None:
    prepared = prepare()
    if prepared is None:
        return
    (shown, codes, people), margins = prepared
    title = _title(schema, shown)
    with use_language(language):
        if margins is None:
            picture = draw_public_map(shown, codes, people, title=title)
        else:
            picture = draw_error_map(shown, codes, people, margins, title=title)
        write_map(path, picture=picture)


def _find_margins(measured: MeasuredTable | LargeMeasured, position: int, domain: MeshCells, shown: MeshCells) -> Reals:
    """Find the margin of every cell that is shown, all other attributes added up; 0 where nobody can be."""

    def lift(codes: Codes) -> Codes:
        inside = np.minimum(codes, domain.size - 1)  # missing and other places are not on the map
        return np.where(codes < domain.size, domain.lift(inside, shown.level), shown.size)

    margins = np.zeros(shown.size + 1)
    found = measured.group_margins(position, lift).margin
    margins[: found.size] = found
    return margins[: shown.size]


def steward_map(release: Release | str | Path, source: Countable) -> str:
    """Draw the true table beside the published one, as SVG: for the steward's eyes only, and stamped so.

    `release` is a published table or the directory of one, `source` the private table that it was made of.
    """
    made = release if isinstance(release, Release) else Release.load(release)
    mesh = _mesh(made.frames["cells"], source.schema) if "cells" in made.frames else None
    if mesh is None:
        raise ParameterError("the release has no mesh to draw; publish a table by an attribute of kind mesh")
    name, domain = mesh
    cells, codes, people = _published(made.frames["cells"], name, domain)
    truth = source.count([name])
    _, true_codes, true_people = _drawn(domain, truth.columns()[:, 0], truth.values)
    title = _title(source.schema, cells)
    return draw_steward_map(cells, codes, people, true_codes=true_codes, true_people=true_people, title=title)


def _mesh(frame: Frame, schema: Schema) -> tuple[str, MeshCells] | None:
    """Find the mesh of the release that its map files show: the first."""
    for name in frame.columns:
        if name in schema.names and isinstance(domain := schema.attribute(name).domain, MeshCells):
            return name, domain
    return None


def _published(frame: Frame, name: str, domain: MeshCells) -> MeshPicture:
    column = frame.columns[name]
    places = column if isinstance(column, Coded) else Coded(*np.unique(column, return_inverse=True)[::-1])
    are_cells = np.array([label is not None and str(label).isdecimal() for label in places.labels], dtype=np.bool_)
    codes = np.full(len(places.labels), -1, dtype=np.int64)  # missing and other places are not on the map
    codes[are_cells] = domain.find(places.labels[are_cells].astype(np.int64))
    return _drawn(domain, codes[places.codes], frame.decode()["count"].astype(np.int64))


def _drawn(domain: MeshCells, codes: Codes, people: Integers) -> MeshPicture:
    """Add up what lies on the map, at the finest level that a picture holds."""
    inside = (codes >= 0) & (codes < domain.size)
    return roll_up(domain, codes[inside], people[inside], level=_level(domain))


def _level(domain: MeshCells) -> int:
    """Give the finest level of which the rectangle around the area has few enough cells: a public fact.

    >>> _level(MeshCells(level=6, area=("5339",))), _level(MeshCells(level=6, area=("3622", "6848")))
    (6, 2)
    """
    coarse = domain.coarse(1)
    rows, columns = coarse.grid(np.arange(coarse.size))
    around = int(np.ptp(rows) + 1) * int(np.ptp(columns) + 1)
    fitting = [level for level in range(1, domain.level + 1) if around * _SMALLEST[level - 1] ** 2 <= MOST_PIXELS]
    return max(fitting, default=1)


def _title(schema: Schema, cells: MeshCells) -> Text:
    return text("{name}, cells of {side}", name=schema.name, side=SIDES[cells.level - 1])
