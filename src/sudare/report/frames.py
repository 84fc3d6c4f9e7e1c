"""Published tables on a page: the sections that records and counts of any method share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sudare.releases.columns import FrameColumn, read_codes
from sudare.releases.geo import roll_up
from sudare.report.maps import MOST_PIXELS, draw_page_map, draw_page_scale
from sudare.report.shapes import Listing, Marginal, Picture, Section, TruthComparison, write_count, write_number
from sudare.report.svg import draw_marginal, escape, write_legend
from sudare.schema import Attribute, MeshCells, Schema
from sudare.schema.arrays import Codes, Integers, Reals
from sudare.schema.raw import write_size
from sudare.text import Words, text

NamedMap = tuple[Words, Codes, Integers]

MOST_VALUES = 5000  # attributes of more values are not listed value by value
MOST_MAP_CELLS = min(2**18, MOST_PIXELS)  # a map of more cells is drawn at a coarser level of the mesh


# --- words and numbers ------------------------------------------------------------------------------------------------


def name_values(attribute: Attribute) -> tuple[Words, ...]:
    """Name every value of an attribute; a missing one by a word."""
    return tuple(map(show_label, attribute.labels(np.arange(attribute.size)).tolist()))


def show_label(label: str | None) -> Words:
    """Write a label in words; None is a missing value.

    >>> show_label("F")
    'F'
    """
    return text("(missing)") if label is None else str(label)


def read_marginal(attribute: Attribute, columns: Mapping[str, FrameColumn], weights: Reals | None = None) -> Marginal:
    """Add published records up by the values of an attribute; `weights` are the counts of cells."""
    codes = read_codes(attribute, columns[attribute.name])
    sums = np.bincount(codes, weights=weights, minlength=attribute.size).astype(np.float64)
    return Marginal(name=attribute.name, labels=name_values(attribute), published=sums, is_ordered=attribute.is_ordered)


# --- sections ---------------------------------------------------------------------------------------------------------


def describe_schema_size(schema: Schema) -> list[tuple[Words, Words]]:
    """Tell the number of attributes and of cells, for the top of a page."""
    return [
        (text("attributes"), str(len(schema.names))),
        (text("cells of the complete table"), f"{schema.size:,}" if schema.size < 10**12 else write_size(schema.size)),
    ]


def describe_records(
    schema: Schema, columns: Mapping[str, FrameColumn], weights: Reals | None, truth: TruthComparison | None
) -> Iterator[Section]:
    """Describe records, or cells with counts (`weights`): a map by the first mesh, then attribute by attribute.

    With the truth it stands beside what is published, and the distances follow.
    """
    meshes = [attribute for attribute in schema.attributes if isinstance(attribute.domain, MeshCells)]
    if meshes:
        yield _describe_map(meshes[0], read_codes(meshes[0], columns[meshes[0].name]), weights, truth)
    listed = [attribute for attribute in schema.attributes if attribute not in meshes and attribute.size <= MOST_VALUES]
    if listed:
        yield describe_marginals((read_marginal(attribute, columns, weights) for attribute in listed), truth)
    if truth is not None and truth.figures:
        yield describe_figures(truth)


def describe_marginals(marginals: Iterable[Marginal], truth: TruthComparison | None) -> Section:
    """Draw and list records by the values of each attribute; with the truth the section is secret."""
    parts: list[Picture | Listing] = []
    for published in marginals:
        marginal = published if truth is None else replace(published, true=truth.true.get(str(published.name)))
        parts.append(Picture(title=marginal.name, draw=partial(draw_with_legend, marginal)))
        parts.append(_list_marginal(marginal))
    return Section(
        title=text("Records by attribute") if truth is None else text("Records by attribute, published and true"),
        parts=tuple(parts),
        is_secret=truth is not None,
    )


def draw_with_legend(marginal: Marginal) -> str:
    """Draw one attribute, with what the shapes mean."""
    has_interval = marginal.folded().low is not None
    return write_legend(truth=marginal.true is not None, interval=has_interval) + draw_marginal(marginal)


def _list_marginal(marginal: Marginal) -> Listing:
    head: list[Words] = [marginal.name, text("published")]
    columns: list[Sequence[Words]] = [marginal.labels, [write_count(x) for x in marginal.published]]
    if marginal.low is not None and marginal.high is not None:
        head += [text("low (95%)"), text("high (95%)")]
        columns += [[write_count(x) for x in ends] for ends in (marginal.low, marginal.high)]
    if marginal.true is not None:
        head += [text("true"), text("difference")]
        columns.append([write_number(float(x)) for x in marginal.true])
        columns.append([write_count(x) for x in marginal.published - marginal.true])
    title = text("numbers of {name}", name=marginal.name)
    return Listing(title=title, head=tuple(head), rows=list(zip(*columns, strict=True)), is_folded=True)


def describe_figures(truth: TruthComparison) -> Section:
    """List how far the release is from the truth."""
    listing = Listing(
        title=text("distance from the true table"), head=(text("measure"), text("value")), rows=truth.figures
    )
    return Section(title=text("How far from the truth"), parts=(listing,), is_secret=True)


def _describe_map(attribute: Attribute, codes: Codes, weights: Reals | None, truth: TruthComparison | None) -> Section:
    """Draw a map by mesh cell; the truth beside it where it is known."""
    mesh = mesh_of(attribute)
    cells, summed, people = _sum_cells(mesh, codes, np.ones(len(codes)) if weights is None else weights)
    maps: list[NamedMap] = [(text("published"), summed, people)]
    if truth is not None and truth.places is not None:
        maps.insert(0, (text("true"), *_sum_cells(mesh, *truth.places)[1:]))
    picture = Picture(
        title=text("people by mesh cell"), draw=partial(draw_maps_side_by_side, cells, maps), is_wide=True
    )
    return Section(title=text("Map"), parts=(picture,), is_secret=len(maps) > 1)


def mesh_of(attribute: Attribute) -> MeshCells:
    """Give the cells of an attribute of kind mesh."""
    if not isinstance(attribute.domain, MeshCells):
        raise AssertionError(f"{attribute.name} is no mesh")
    return attribute.domain


def draw_maps_side_by_side(cells: MeshCells, maps: Sequence[NamedMap]) -> str:
    """Draw maps (name, codes, people) of the same cells with one scale; they stack on a narrow screen."""
    top = max(int(people.max(initial=1)) for _, _, people in maps)
    drawn = "".join(
        f'<div><p class="under">{escape(name)}</p>{draw_page_map(cells, codes, people, title=name, top=top)}</div>'
        for name, codes, people in maps
    )
    return f'<div class="maps">{drawn}</div><div class="scale">{draw_page_scale(top)}</div>'


def _sum_cells(mesh: MeshCells, codes: Codes, weights: NDArray[np.generic]) -> tuple[MeshCells, Codes, Integers]:
    """Add records up by cell, those with no place on the map left out, at a level that a picture can hold."""
    inside = codes < mesh.size
    filled, places = np.unique(codes[inside], return_inverse=True)
    people = np.bincount(places, weights=weights[inside].astype(np.float64), minlength=len(filled)).astype(np.int64)
    cells = mesh
    while cells.size > MOST_MAP_CELLS and cells.level > 1:
        cells, filled, people = roll_up(cells, filled, people, level=cells.level - 1)
    return cells, filled, people
