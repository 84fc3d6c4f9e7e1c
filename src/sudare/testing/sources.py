"""The contract of a source: every engine counts, refuses and writes alike, and lets no value slip out."""

from __future__ import annotations

import contextlib
import csv
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from sudare.errors import DomainError, SourceError, SudareError
from sudare.schema import Attribute, Schema
from sudare.sources.base import Rows, Source
from sudare.testing import rows
from sudare.testing.rows import Case, Columns
from sudare.testing.subject import require

OpenRows = Callable[[Columns, Schema], Source]

SLIPS = ("秘密", "8675")


def every_value_is_counted_as_the_schema_encodes_it(open_rows: OpenRows) -> None:
    """Texts, missing, other, numbers, days, mesh, many words: cell by cell as `Attribute.encode` has it."""
    for case in rows.CASES:
        with _opened(open_rows, case) as source:
            found = source.count()
        require(found == rows.expected_counts(case), f"a table is counted otherwise than encode reads it: {case.name}")


def chosen_attributes_are_counted_in_the_order_asked_for(open_rows: OpenRows) -> None:
    """`count(by)` is the projection of the whole count, also one attribute at a time."""
    for case in (rows.TEXTS, rows.WIDE, rows.ORDER, rows.MISSING):
        whole, names = rows.expected_counts(case), case.schema.names
        with _opened(open_rows, case) as source:
            for by in (names[::-1], names[:1], names[-1:], names):
                require(source.count(by) == whole.project(by), f"count(by) is not the projection: {case.name}")


def a_table_without_rows_is_counted(open_rows: OpenRows) -> None:
    """Nobody in the table is a table like any other."""
    for case in (rows.TEXTS, rows.NUMBERS, rows.DAYS, rows.MESH, rows.PEOPLE):
        empty = replace(case, columns={name: [] for name in case.columns})
        with _opened(open_rows, empty) as source:
            found = source.count()
        require(found.total == 0 and found.nonzero == 0, f"an empty table must count nobody: {case.name}")


def counting_twice_counts_the_same(open_rows: OpenRows) -> None:
    """A source is not used up."""
    with _opened(open_rows, rows.MISSING) as source:
        require(source.count() == source.count(), "a second count must be the same")


def rows_that_do_not_fit_are_refused_without_telling_values(open_rows: OpenRows) -> None:
    """The error names the attribute; no value is in it, nor in the errors behind it."""
    for case in rows.REFUSED:
        error = _refusal(open_rows, case, DomainError)
        require("suspect" in str(error), f"the error must name the attribute: {case.name}")


def rows_in_impossible_combinations_are_refused(open_rows: OpenRows) -> None:
    """What was declared impossible is not counted in silence."""
    _refusal(open_rows, rows.IMPOSSIBLE, DomainError)


def a_column_that_is_not_there_is_named(open_rows: OpenRows) -> None:
    """One clear line before anything is counted."""
    partial = {name: values for name, values in rows.ORDER.columns.items() if name != "A"}
    error = _refusal(open_rows, replace(rows.ORDER, columns=partial), SourceError)
    require("A" in str(error), "the error must name the column that is not there")


def the_steward_is_told_what_does_not_fit(open_rows: OpenRows) -> None:
    """`check` finds every such row by attribute, and nothing in a table that fits."""
    for case in (*rows.REFUSED, rows.IMPOSSIBLE):
        with _opened(open_rows, case) as source:
            found = source.check()
        refused = [one for one in found.problems if one.is_refused]
        require(not found.fits, f"check must find that the table does not fit: {case.name}")
        require(sum(one.rows for one in refused) == 1, f"check must count the rows that do not fit: {case.name}")
        named = case is rows.IMPOSSIBLE or refused[0].attribute == "suspect"
        require(named, f"check must name the attribute: {case.name}")
    for case in rows.CASES:
        with _opened(open_rows, case) as source:
            require(source.check().fits, f"check must find that the table fits: {case.name}")


def a_person_keeps_at_most_the_declared_number_of_rows(open_rows: OpenRows) -> None:
    """No more, and no fewer than there are; which ones is left to chance."""
    with _opened(open_rows, rows.PEOPLE) as source:
        found = source.count().dense().tolist()
    require(found == [1, 2, 3, 3, 3, 3], "each person must keep min(rows, max_rows) rows")
    with _opened(open_rows, rows.CROWD) as source:
        first, second = source.count().dense().tolist()
    require(first + second == 400, "each of 400 persons must keep one row")
    # 400 fair coins: 6 standard deviations are 60
    require(abs(first - 200) <= 60, "which row of a person is kept must be random, not its place in the file")


def rows_without_a_person_are_refused(open_rows: OpenRows) -> None:
    """Nobody's rows cannot be limited, so they are not counted in silence."""
    nobody = [None, *rows.PEOPLE.columns["person"][1:]]
    _refusal(open_rows, replace(rows.PEOPLE, columns={**rows.PEOPLE.columns, "person": nobody}), SourceError)


def rows_are_written_with_the_labels_of_the_schema(open_rows: OpenRows) -> None:
    """`write` gives every row back, values as the schema labels them, and no other column."""
    for case in (rows.TEXTS, rows.MISSING, rows.NUMBERS, rows.DAYS, rows.MESH, rows.ORDER):
        with _opened(open_rows, case) as source:
            names, written = _written(source)
        require(names == case.schema.names, f"the written columns must be those of the schema: {case.name}")
        require(written == _as_text(rows.expected_rows(case)), f"the written rows are not those read: {case.name}")


def rows_are_recoded_to_levels_of_their_hierarchies(open_rows: OpenRows) -> None:
    """`recode` writes the labels of the chosen level, and the own labels of attributes that are not named."""
    case, levels = rows.LEVELS, {"city": 1, "mesh": 2}
    coarse = case.schema.coarsen(levels)
    lifted = [
        tuple(_lift(one, code, levels.get(one.name, 0)) for one, code in zip(case.schema.attributes, row, strict=True))
        for row in rows.encoded(case)
    ]
    labels = [one.labels(np.arange(one.size)).tolist() for one in coarse.attributes]
    expected = Counter(tuple(table[code] for table, code in zip(labels, row, strict=True)) for row in lifted)
    with _opened(open_rows, case) as source:
        names, written = _written(source.recode(levels))
    require(names == case.schema.names, "the recoded columns must be those of the schema")
    require(written == _as_text(expected), "the recoded rows must have the labels of the level")


def labels_of_ones_own_are_applied(open_rows: OpenRows) -> None:
    """`apply` writes one given label per code."""
    case = rows.LEVELS
    own = np.array(["甲", "乙", "丙", None], dtype=object)
    codes = [row[0] for row in rows.encoded(case)]
    with _opened(open_rows, case) as source:
        names, written = _written(source.apply({"city": own}))
    position = names.index("city")
    found = Counter(row[position] for row in written.elements())
    require(found == Counter(own[code] or "" for code in codes), "every code must be written with its own label")


SOURCE_CHECKS: tuple[Callable[[OpenRows], None], ...] = (
    every_value_is_counted_as_the_schema_encodes_it,
    chosen_attributes_are_counted_in_the_order_asked_for,
    a_table_without_rows_is_counted,
    counting_twice_counts_the_same,
    rows_that_do_not_fit_are_refused_without_telling_values,
    rows_in_impossible_combinations_are_refused,
    a_column_that_is_not_there_is_named,
    the_steward_is_told_what_does_not_fit,
    a_person_keeps_at_most_the_declared_number_of_rows,
    rows_without_a_person_are_refused,
    rows_are_written_with_the_labels_of_the_schema,
    rows_are_recoded_to_levels_of_their_hierarchies,
    labels_of_ones_own_are_applied,
)


def check_source(open_rows: OpenRows) -> list[str]:
    """Try a source against its contract; return the sentences that hold, or fail with the first that does not.

    `open_rows(columns, schema)` puts columns of plain values (texts, whole numbers, floats, decimals, days, None)
    where the source reads from, and opens it. A source of text files writes them as texts, None as nothing.

    Error: AssertionError with the sentence that does not hold and what was found instead.
    """
    return [_checked(check, open_rows) for check in SOURCE_CHECKS]


def _checked(check: Callable[[OpenRows], None], open_rows: OpenRows) -> str:
    sentence = check.__name__.replace("_", " ")
    try:
        check(open_rows)
    except AssertionError as error:
        raise AssertionError(f"it does not hold that {sentence}: {error}") from None
    return sentence


@contextlib.contextmanager
def _opened(open_rows: OpenRows, case: Case) -> Iterator[Source]:
    with contextlib.closing(open_rows(case.columns, case.schema)) as source:
        yield source


def _refusal(open_rows: OpenRows, case: Case, kind: type[SudareError]) -> SudareError:
    try:
        with _opened(open_rows, case) as source:
            source.count()
    except kind as error:
        shown = "".join(traceback.TracebackException.from_exception(error, lookup_lines=False).format_exception_only())
        behind = "" if error.__suppress_context__ and not error.__cause__ else f"{error.__cause__}{error.__context__}"
        require(not any(slip in shown + behind for slip in SLIPS), f"a value of the table is in the error: {case.name}")
        require("\n" not in str(error), f"the error must be one line: {case.name}")
        return error
    raise AssertionError(f"rows that do not fit must be refused with {kind.__name__}: {case.name}")


def _written(source: Source | Rows) -> tuple[tuple[str, ...], Counter[tuple[str, ...]]]:
    """Write the rows to a CSV file and read it back with nothing but Python."""
    with tempfile.TemporaryDirectory() as place:
        source.write(file := Path(place) / "written.csv")
        with file.open(encoding="utf-8", newline="") as stream:
            head, *lines = csv.reader(stream)
    return tuple(head), Counter(tuple(line) for line in lines)


def _as_text(expected: Counter[tuple[str | None, ...]]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(value or "" for value in row) for row in expected.elements())


def _lift(attribute: Attribute, code: int, level: int) -> int:
    if level == 0 or attribute.hierarchy is None:
        return code
    return int(attribute.hierarchy.lift(np.array([code]), level)[0])
