"""Pages of published records and of published counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from sudare.releases import Release
from sudare.releases.geo import roll_up
from sudare.report.frames import codes_of, figures_section, frame_of, marginal_of, marginal_section, numbers
from sudare.report.shapes import Listing, Picture, Section, TruthComparison, number
from sudare.report.svg import MOST_PIXELS, line_legend, lines, page_map, page_scale
from sudare.schema import Attribute, MeshCells, Schema
from sudare.schema.arrays import Codes
from sudare.text import say

MOST_VALUES = 5000  # attributes of more values are not listed one by one
FINE = 2**18  # cells of a map; larger ones are rolled up to the next level of the mesh


def record_sections(release: Release, truth: TruthComparison | None) -> Iterator[Section]:
    """What published records show."""
    schema = Schema.from_dict(release.certificate.schema)
    columns = frame_of(release, "records").columns
    codes = {one.name: codes_of(one, columns[one.name]) for one in schema.attributes}
    yield from _counted(schema, codes, None, truth)


def record_facts(release: Release) -> list[tuple[str, str]]:
    """What the top of the page tells of published records."""
    return [(say("records"), number(frame_of(release, "records").rows)), *_sizes(release)]


def cell_sections(release: Release, truth: TruthComparison | None) -> Iterator[Section]:
    """What published counts show: attributes, a map, sums over regions."""
    schema = Schema.from_dict(release.certificate.schema)
    columns = frame_of(release, "cells").columns
    codes = {one.name: codes_of(one, columns[one.name]) for one in schema.attributes}
    counts = numbers(columns["count"])
    yield from _counted(schema, codes, counts, truth)
    yield from _regions(release, truth)
    if "rollups" in release.frames:
        yield _rollups(release)


def cell_facts(release: Release) -> list[tuple[str, str]]:
    """What the top of the page tells of published counts."""
    cells = frame_of(release, "cells")
    people = float(numbers(cells.columns["count"]).sum())
    return [(say("records"), number(people)), (say("published cells"), number(cells.rows)), *_sizes(release)]


def _sizes(release: Release) -> list[tuple[str, str]]:
    schema = Schema.from_dict(release.certificate.schema)
    return [
        (say("attributes"), str(len(schema.names))),
        (say("cells of the complete table"), f"{schema.size:,}" if schema.size < 10**12 else f"{schema.size:.2e}"),
    ]


def _counted(
    schema: Schema, codes: dict[str, Codes], weights: NDArray[np.float64] | None, truth: TruthComparison | None
) -> Iterator[Section]:
    meshes = [one for one in schema.attributes if isinstance(one.domain, MeshCells)]
    if meshes:
        yield _map(meshes[0], codes[meshes[0].name], weights, truth)
    listed = [one for one in schema.attributes if one not in meshes and one.size <= MOST_VALUES]
    if listed:
        yield marginal_section((marginal_of(one, codes[one.name], weights) for one in listed), truth)
    if truth is not None and truth.figures:
        yield figures_section(truth)


def _map(one: Attribute, codes: Codes, weights: NDArray[np.float64] | None, truth: TruthComparison | None) -> Section:
    """A map by mesh cell; the truth beside it where it is known."""
    domain = one.domain
    if not isinstance(domain, MeshCells):
        raise AssertionError
    cells, places, people = _placed(domain, codes, np.ones(len(codes)) if weights is None else weights)
    told = [(say("published"), places, people)]
    if truth is not None and truth.places is not None:
        told.insert(0, (say("true"), *_placed(domain, *truth.places)[1:]))
    picture = Picture(title=say("people by mesh cell"), drawing=side_by_side(cells, told), is_wide=True)
    return Section(title=say("Map"), parts=(picture,), is_secret=len(told) > 1)


def side_by_side(cells: MeshCells, told: Sequence[tuple[str, Codes, Codes]]) -> str:
    """Draw maps (name, codes, people) of the same cells with one scale; they stack on a narrow screen."""
    top = max(int(people.max(initial=1)) for _, _, people in told)
    maps = "".join(
        f'<div><p class="under">{escape(name)}</p>{page_map(cells, codes, people, title=name, top=top)}</div>'
        for name, codes, people in told
    )
    return f'<div class="maps">{maps}</div><div class="scale">{page_scale(top)}</div>'


def _placed(domain: MeshCells, codes: Codes, weights: NDArray[np.generic]) -> tuple[MeshCells, Codes, Codes]:
    """Add records up by cell, those with no place on the map left out, at a level that a picture can hold."""
    inside = codes < domain.size
    found, places = np.unique(codes[inside], return_inverse=True)
    people = np.bincount(places, weights=weights[inside].astype(np.float64), minlength=len(found)).astype(np.int64)
    cells = domain
    while cells.size > min(FINE, MOST_PIXELS) and cells.level > 1:
        cells, found, people = roll_up(cells, found, people, level=cells.level - 1)
    return cells, found, people


def _regions(release: Release, truth: TruthComparison | None) -> Iterator[Section]:
    """The error of sums over so many cells: expected before, and found."""
    expected = release.certificate.expected_error.get("region_standard_deviation", {})
    series = {say("expected before the repair"): [(float(cells), float(error)) for cells, error in expected.items()]}
    if truth is not None and truth.blocks:
        series[say("found")] = [(float(cells), error) for cells, error in truth.blocks.items()]
    if not any(series.values()):
        return
    drawn = lines(series, across=say("cells in the region"), up=say("error of the sum"))
    drawn = line_legend([name for name, points in series.items() if points]) + drawn
    rows = [(name, number(cells), number(error)) for name, points in series.items() for cells, error in points]
    listing = Listing(
        title=say("numbers of {name}", name=say("error of the sum")),
        head=("", say("cells in the region"), say("error of the sum")),
        rows=rows,
        is_folded=True,
    )
    parts = (Picture(title=say("error of sums over regions"), drawing=drawn), listing)
    yield Section(title=say("Sums over regions"), parts=parts, is_secret=truth is not None and bool(truth.blocks))


def _rollups(release: Release) -> Section:
    """Sums of every declared level, as published."""
    columns = release.frames["rollups"].decode()
    counts = numbers(release.frames["rollups"].columns["count"])
    told = zip(columns["attribute"], columns["level"], columns["group"], counts, strict=True)
    rows = [(str(name), str(level), str(group), number(float(count))) for name, level, group, count in told]
    head = (say("attribute"), say("level"), say("group"), say("published"))
    listing = Listing(title=say("sums of every declared level"), head=head, rows=rows, is_folded=True)
    return Section(title=say("Sums by level"), parts=(listing,))
