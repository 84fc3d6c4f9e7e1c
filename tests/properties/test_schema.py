"""Laws of the schema, against slow references: numbering, bins, hierarchies, impossible cells, storage, proposals."""

from __future__ import annotations

import itertools
import json
import tempfile
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sudare.schema import (
    Attribute,
    DateBins,
    Domain,
    Impossible,
    MeshCells,
    NumberBins,
    Radix,
    Schema,
    TableHierarchy,
    Unit,
    Values,
)
from sudare.schema.propose import ColumnFacts, propose

texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=6)
numbers = st.fractions(min_value=-1000, max_value=1000, max_denominator=1000)
days = st.dates(min_value=date(1900, 1, 1), max_value=date(2100, 1, 1))


# --- strategies ---------------------------------------------------------------------------------------------------


@st.composite
def values(draw: st.DrawFn) -> Values:
    listed = draw(st.lists(texts, min_size=1, max_size=6, unique=True))
    return Values(tuple(text for text in listed if not text.startswith("(")) or ("x",), is_ordered=draw(st.booleans()))


@st.composite
def number_bins(draw: st.DrawFn) -> NumberBins:
    return NumberBins(tuple(sorted(draw(st.sets(numbers, min_size=2, max_size=8)))))


@st.composite
def date_bins(draw: st.DrawFn) -> DateBins:
    edges = sorted(draw(st.sets(days, min_size=2, max_size=8)))
    return DateBins((*edges, edges[-1]) if draw(st.booleans()) else tuple(edges))


@st.composite
def mesh_cells(draw: st.DrawFn, most_levels: int = 2) -> MeshCells:
    level = draw(st.integers(1, most_levels))
    area = tuple(sorted(draw(st.sets(st.sampled_from(["3622", "5339", "5340", "6441"]), min_size=1, max_size=3))))
    if draw(st.booleans()):
        return MeshCells(level=level, area=area)
    whole = MeshCells(level=level, area=area)
    codes = draw(st.sets(st.integers(0, whole.size - 1), min_size=1, max_size=10))
    return MeshCells(level=level, cells=whole.numbers(np.array(sorted(codes))))


@st.composite
def hierarchies(draw: st.DrawFn, domain: Domain) -> TableHierarchy:
    """Random nested levels above a domain; names are made from the numbers of groups, so they nest by themselves."""
    groups = list(range(domain.size))
    columns: list[list[str]] = [domain.labels(np.arange(domain.size)).tolist()]
    for level in range(draw(st.integers(1, 3))):
        merge = draw(st.lists(st.integers(0, 3), min_size=max(domain.size, 4), max_size=max(domain.size, 4)))
        groups = [merge[group] for group in groups]
        columns.append([f"{level}:{group}" for group in groups])
    if draw(st.booleans()):
        columns.append(["*"] * domain.size)
    return TableHierarchy.from_paths(list(zip(*columns, strict=True)))


@st.composite
def attributes(draw: st.DrawFn, name: str) -> Attribute:
    domain: Domain = draw(st.one_of(values(), number_bins(), date_bins(), mesh_cells()))
    is_mesh = isinstance(domain, MeshCells)
    missing = draw(st.booleans())
    choices = ["refuse", "other", *(["clamp"] if isinstance(domain, NumberBins | DateBins) else [])]
    return Attribute(
        name=name,
        domain=domain,
        role=draw(st.sampled_from(["quasi", "sensitive", "plain"])),
        missing=missing,
        missing_marks=("\x00?",) if missing and draw(st.booleans()) else (),
        outside=draw(st.sampled_from(choices)),
        hierarchy=None if is_mesh else draw(st.none() | hierarchies(domain)),
        date_format="%Y/%m/%d" if isinstance(domain, DateBins) and draw(st.booleans()) else None,
    )


@st.composite
def schemas(draw: st.DrawFn, most_cells: int | None = None) -> Schema:
    made = tuple(draw(attributes(f"a{index}")) for index in range(draw(st.integers(1, 3))))
    if most_cells is not None:
        made = tuple(each for each in made if each.size <= most_cells) or (
            Attribute(name="a", domain=Values(("x", "y"))),
        )
    boxes = draw(st.lists(_boxes(made), max_size=4))
    unit = draw(st.sampled_from([Unit(), Unit(kind="person", column="id", max_rows=3)]))
    origin = draw(st.sampled_from(["declared", "inferred", "confirmed"]))
    return Schema(name=draw(texts), unit=unit, attributes=made, impossible=tuple(boxes), origin=origin)


@st.composite
def _boxes(draw: st.DrawFn, made: tuple[Attribute, ...]) -> Impossible:
    chosen = draw(st.lists(st.sampled_from(made), min_size=1, unique_by=lambda each: each.name))
    sets = st.sets
    return Impossible(
        tuple(
            (each.name, frozenset(draw(sets(st.integers(0, each.size - 1), min_size=1, max_size=20))))
            for each in chosen
        )
    )


# --- numbering ----------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([1, 2, 3, 7, 10**6, 2**31, 2**40, 2**62]), max_size=6), st.data())
def test_numbers_of_cells_come_back_and_sort_like_their_ranks(sizes: list[int], data: st.DataObject) -> None:
    radix = Radix(tuple(sizes))
    row = st.tuples(*(st.integers(0, size - 1) for size in sizes))
    rows = data.draw(st.lists(row, min_size=1, max_size=8))
    columns = np.array(rows, dtype=np.int64).reshape(len(rows), len(sizes))
    codes = radix.encode(columns)
    ranks = radix.ranks(codes)
    by_words = np.lexsort(codes.T[::-1])

    np.testing.assert_array_equal(radix.decode(codes), columns)
    np.testing.assert_array_equal(radix.from_ranks(ranks), codes)
    assert [ranks[index] for index in by_words] == sorted(ranks)
    for position in range(len(sizes)):
        np.testing.assert_array_equal(radix.column(codes, position), columns[:, position])


# --- domains ------------------------------------------------------------------------------------------------------


@given(number_bins(), numbers)
def test_a_number_lies_in_the_bin_that_a_slow_search_finds(bins: NumberBins, number: Fraction) -> None:
    found = [code for code in range(bins.size) if bins.edges[code] <= number < bins.edges[code + 1]]
    expected = found[0] if found else bins.size - 1 if number == bins.edges[-1] else None

    assert bins.encode(number) == expected


@given(date_bins(), days, st.sampled_from(["%Y-%m-%d", "%Y/%m/%d", "%Y%m%d", "%Y-%m-%d 23:59:59"]))
def test_a_day_lies_in_the_bin_that_a_slow_search_finds(bins: DateBins, day: date, form: str) -> None:
    ends = [*bins.edges[1:-1], bins.edges[-1] + timedelta(days=1)]
    found = [code for code in range(bins.size) if bins.edges[code] <= day < ends[code]]

    assert bins.encode(day.strftime(form)) == (found[0] if found else None)


@given(st.one_of(values(), number_bins(), date_bins(), mesh_cells(most_levels=4)), st.data())
def test_labels_are_all_different_and_come_back(domain: Domain, data: st.DataObject) -> None:
    codes = data.draw(st.lists(st.integers(0, domain.size - 1), max_size=20, unique=True))
    labels = domain.labels(np.array(codes, dtype=np.int64)).tolist()

    assert len(set(labels)) == len(codes)
    assert [domain.code(label) for label in labels] == codes
    assert [list(domain.codes(label)) for label in labels] == [[code] for code in codes]


@given(mesh_cells(most_levels=5), st.data())
def test_a_finer_code_lies_in_the_cell_whose_code_begins_it(cells: MeshCells, data: st.DataObject) -> None:
    code = data.draw(st.integers(0, cells.size - 1))
    label = str(cells.labels(np.array([code]))[0])
    finer = label + data.draw(st.sampled_from(["", *({4: ["00", "77"], 6: ["00", "99"]}.get(len(label), ["1", "4"]))]))

    assert cells.encode(finer) == code


@given(
    attributes("a"),
    st.one_of(st.none(), st.text(), st.integers(), st.floats(), st.decimals(), st.dates(), st.datetimes()),
)
def test_any_raw_value_has_one_code_where_other_takes_the_rest(attribute: Attribute, raw: object) -> None:
    open_to_all = Attribute(name="a", domain=attribute.domain, outside="other", missing=True)
    code = open_to_all.encode(raw)

    assert 0 <= code < open_to_all.size
    if code < attribute.domain.size:
        assert Attribute(name="a", domain=attribute.domain).encode(raw) == code


# --- hierarchies --------------------------------------------------------------------------------------------------


@given(attributes("a"))
def test_every_level_is_a_coarser_attribute_whose_codes_are_the_lifted_ones(attribute: Attribute) -> None:
    codes = np.arange(attribute.size)
    for level in range(1, attribute.height + 1):
        assert attribute.hierarchy is not None
        coarse = attribute.coarsen(level)
        lifted = attribute.hierarchy.lift(codes, level)

        assert set(lifted.tolist()) == set(range(coarse.size))
        assert coarse.height == attribute.height - level
        named = [label or "(missing)" for label in coarse.labels(lifted)]
        assert named == attribute.hierarchy.labels(lifted, level).tolist()


@given(attributes("a"))
def test_lifting_step_by_step_is_lifting_at_once(attribute: Attribute) -> None:
    stepped, current = np.arange(attribute.size), attribute
    for level in range(1, attribute.height + 1):
        assert attribute.hierarchy is not None
        assert current.hierarchy is not None
        stepped = current.hierarchy.lift(stepped, 1)
        current = current.coarsen(1)

        np.testing.assert_array_equal(stepped, attribute.hierarchy.lift(np.arange(attribute.size), level))


# --- impossible cells ---------------------------------------------------------------------------------------------


def every_cell(schema: Schema) -> np.ndarray:
    return np.array(list(itertools.product(*(range(size) for size in schema.sizes)))).reshape(-1, len(schema.sizes))


@given(schemas(most_cells=12))
def test_possible_cells_are_those_that_a_slow_count_finds(schema: Schema) -> None:
    left = int((~schema.is_impossible(every_cell(schema))).sum())

    if left:
        assert schema.possible_size == left


@given(schemas(most_cells=12), st.data())
def test_a_group_is_impossible_only_if_all_its_members_are(schema: Schema, data: st.DataObject) -> None:
    cells = every_cell(schema)
    impossible = schema.is_impossible(cells)
    if impossible.all():
        return
    levels = {each.name: data.draw(st.integers(0, each.height)) for each in schema.attributes}
    coarse = schema.coarsen(levels)
    lifted = np.column_stack([
        each.hierarchy.lift(cells[:, position], levels[each.name]) if each.hierarchy else cells[:, position]
        for position, each in enumerate(schema.attributes)
    ])  # fmt: skip

    assert np.all(impossible[coarse.is_impossible(lifted)])


@given(schemas(most_cells=12), st.data())
def test_a_selected_cell_is_impossible_only_if_all_cells_above_it_are(schema: Schema, data: st.DataObject) -> None:
    cells = every_cell(schema)
    impossible = schema.is_impossible(cells)
    if impossible.all():
        return
    names = data.draw(st.lists(st.sampled_from(schema.names), unique=True))
    selected = cells[:, [schema.names.index(name) for name in names]]

    assert np.all(impossible[schema.select(names).is_impossible(selected)])


# --- storage ------------------------------------------------------------------------------------------------------


@given(schemas())
def test_a_schema_comes_back_from_json_exactly(schema: Schema) -> None:
    stored = json.loads(json.dumps(schema.to_dict()))
    back = Schema.from_dict(stored)

    assert back == schema
    assert back.to_dict() == schema.to_dict()
    assert back.fingerprint == schema.fingerprint


# --- proposals ----------------------------------------------------------------------------------------------------

facts = st.one_of(
    st.builds(
        lambda seen, rows: ColumnFacts("x", "text", len(seen), values=tuple(seen), rows=rows),
        st.lists(st.text(st.characters(codec="utf-8"), min_size=1), unique=True, max_size=5),
        st.none() | st.integers(1, 100),
    ),
    st.builds(
        lambda ends, kind: ColumnFacts("x", kind, 500, low=min(ends), high=max(ends)),
        st.lists(st.floats(allow_nan=False), min_size=2, max_size=2),
        st.sampled_from(["integer", "number"]),
    ),
    st.builds(
        lambda ends: ColumnFacts("x", "date", 500, low=min(ends), high=max(ends)),
        st.lists(st.dates(), min_size=2, max_size=2),
    ),
)


@given(facts)
def test_every_proposal_reads_back_and_holds_what_was_seen(column: ColumnFacts) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "proposed.toml"
        path.write_text(propose([column], "x"), encoding="utf-8", newline="\n")
        schema = Schema.read(path)

    for attribute in schema.attributes:
        for raw in (*(column.values or ()), *(end for end in (column.low, column.high) if end is not None)):
            assert 0 <= attribute.encode(raw) < attribute.size
