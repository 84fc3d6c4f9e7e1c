"""The contract of a source: every engine counts, refuses and writes alike, and lets no value slip out."""

from __future__ import annotations

import contextlib
import csv
import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sudare.counts import Counts
from sudare.counts.relabelling import Overrides, Relabelling
from sudare.errors import DomainError, SourceError, SudareError
from sudare.schema import Attribute, Schema, Values
from sudare.sources.base import RecodedRows, Source
from sudare.testing.source_cases import (
    CASES,
    CROWD,
    DAYS,
    HOSTILE,
    IMPOSSIBLE,
    LEVELS,
    MESH,
    MISSING,
    NUMBERS,
    ORDER,
    PEOPLE,
    REFUSED,
    TEXTS,
    VISITS,
    WIDE,
    Case,
    RawColumns,
    encoded,
    expected_counts,
    expected_rows,
    schema_with,
)
from sudare.testing.subject import require

__all__ = ["IDENTITY_CHECKS", "SOURCE_CHECKS", "Case", "RawColumns", "check_sentences", "check_source"]

OpenRows = Callable[[RawColumns, Schema], Source]

Beside = Callable[[Source], contextlib.AbstractContextManager[None]]
"""Keeps another scan of the rows of a source going, by somebody else, while a block runs."""

SLIPS = ("秘密", "8675")


def every_value_is_counted_as_the_schema_encodes_it(open_rows: OpenRows) -> None:
    """Texts, missing, other, numbers, days, mesh, many words: cell by cell as `Attribute.encode` has it."""
    for case in CASES:
        with _opened(open_rows, case) as source:
            found = source.count()
        require(found == expected_counts(case), f"a table is counted otherwise than encode reads it: {case.name}")


def chosen_attributes_are_counted_in_the_order_asked_for(open_rows: OpenRows) -> None:
    """`count(by)` is the projection of the whole count, also one attribute at a time."""
    for case in (TEXTS, WIDE, ORDER, MISSING):
        whole, names = expected_counts(case), case.schema.names
        with _opened(open_rows, case) as source:
            for by in (names[::-1], names[:1], names[-1:], names):
                require(source.count(by) == whole.project(by), f"count(by) is not the projection: {case.name}")


def a_table_without_rows_is_counted(open_rows: OpenRows) -> None:
    """Nobody in the table is a table like any other."""
    for case in (TEXTS, NUMBERS, DAYS, MESH, PEOPLE):
        empty = replace(case, columns={name: [] for name in case.columns})
        with _opened(open_rows, empty) as source:
            found = source.count()
        require(found.total == 0 and found.nonzero == 0, f"an empty table must count nobody: {case.name}")


def counting_twice_counts_the_same(open_rows: OpenRows) -> None:
    """A source is not used up."""
    with _opened(open_rows, MISSING) as source:
        require(source.count() == source.count(), "a second count must be the same")


def rows_that_do_not_fit_are_refused_without_telling_values(open_rows: OpenRows) -> None:
    """The error names the attribute; no value is in it, nor in the errors behind it."""
    for case in REFUSED:
        error = _refusal(open_rows, case, DomainError)
        require("suspect" in str(error), f"the error must name the attribute: {case.name}")


def rows_in_impossible_combinations_are_refused(open_rows: OpenRows) -> None:
    """What was declared impossible is not counted in silence."""
    _refusal(open_rows, IMPOSSIBLE, DomainError)


def a_column_that_is_not_there_is_named(open_rows: OpenRows) -> None:
    """One clear line before anything is counted."""
    partial = {name: values for name, values in ORDER.columns.items() if name != "A"}
    error = _refusal(open_rows, replace(ORDER, columns=partial), SourceError)
    require("A" in str(error), "the error must name the column that is not there")


def the_steward_is_told_what_does_not_fit(open_rows: OpenRows) -> None:
    """`check` finds every such row by attribute, and nothing in a table that fits."""
    for case in (*REFUSED, IMPOSSIBLE):
        with _opened(open_rows, case) as source:
            found = source.check()
        refused = [one for one in found.problems if one.is_refused]
        require(not found.fits, f"check must find that the table does not fit: {case.name}")
        require(sum(one.rows for one in refused) == 1, f"check must count the rows that do not fit: {case.name}")
        named = case is IMPOSSIBLE or refused[0].attribute == "suspect"
        require(named, f"check must name the attribute: {case.name}")
    for case in CASES:
        with _opened(open_rows, case) as source:
            require(source.check().fits, f"check must find that the table fits: {case.name}")


def a_person_keeps_at_most_the_declared_number_of_rows(open_rows: OpenRows) -> None:
    """No more, and no fewer than there are; which ones is left to chance."""
    with _opened(open_rows, PEOPLE) as source:
        found = source.count().dense().tolist()
    require(found == [1, 2, 3, 3, 3, 3], "each person must keep min(rows, max_rows) rows")
    with _opened(open_rows, CROWD) as source:
        first, second = source.count().dense().tolist()
    require(first + second == 400, "each of 400 persons must keep one row")
    # 400 fair coins: 6 standard deviations are 60
    require(abs(first - 200) <= 60, "which row of a person is kept must be random, not its place in the file")


def rows_without_a_person_are_refused(open_rows: OpenRows) -> None:
    """Nobody's rows cannot be limited, so they are not counted in silence."""
    nobody = [None, *PEOPLE.columns["person"][1:]]
    _refusal(open_rows, replace(PEOPLE, columns={**PEOPLE.columns, "person": nobody}), SourceError)


def rows_are_written_with_the_labels_of_the_schema(open_rows: OpenRows) -> None:
    """`write` gives every row back, values as the schema labels them, and no other column."""
    for case in (TEXTS, MISSING, NUMBERS, DAYS, MESH, ORDER):
        with _opened(open_rows, case) as source:
            names, written = _written(source)
        require(names == case.schema.names, f"the written columns must be those of the schema: {case.name}")
        require(written == _as_text(expected_rows(case)), f"the written rows are not those read: {case.name}")


def rows_are_recoded_to_levels_of_their_hierarchies(open_rows: OpenRows) -> None:
    """`recode` writes the labels of the chosen level, and the own labels of attributes that are not named."""
    case, levels = LEVELS, {"city": 1, "mesh": 2}
    coarse = case.schema.coarsen(levels)
    lifted = [
        tuple(_lift(one, code, levels.get(one.name, 0)) for one, code in zip(case.schema.attributes, row, strict=True))
        for row in encoded(case)
    ]
    labels = [one.labels(np.arange(one.size)).tolist() for one in coarse.attributes]
    expected = Counter(tuple(table[code] for table, code in zip(labels, row, strict=True)) for row in lifted)
    with _opened(open_rows, case) as source:
        names, written = _written(source.recode(levels))
    require(names == case.schema.names, "the recoded columns must be those of the schema")
    require(written == _as_text(expected), "the recoded rows must have the labels of the level")


def labels_of_ones_own_are_applied(open_rows: OpenRows) -> None:
    """`apply` writes one given label per code."""
    case = LEVELS
    own = np.array(["甲", "乙", "丙", None], dtype=object)
    codes = [row[0] for row in encoded(case)]
    with _opened(open_rows, case) as source:
        names, written = _written(source.apply({"city": own}))
    position = names.index("city")
    found = Counter(row[position] for row in written.elements())
    require(found == Counter(own[code] or "" for code in codes), "every code must be written with its own label")


def hostile_texts_are_only_texts(open_rows: OpenRows) -> None:
    """Quotes, marks of the engine's own formats, line breaks at the end and letters of the same look change nothing."""
    with _opened(open_rows, HOSTILE) as source:
        require(
            source.count() == expected_counts(HOSTILE), "hostile texts are counted otherwise than encode reads them"
        )
        names, written = _written(source)
    require(names == HOSTILE.schema.names, "hostile names must be written as they are")
    require(written == _as_text(expected_rows(HOSTILE)), "hostile texts must be written as they were read")


def a_row_is_the_same_row_in_every_query(open_rows: OpenRows, beside: Beside | None = None) -> None:
    """Beside another scan, too: counts and written rows are of the same rows, and no person has more than three.

    An identity that changes from query to query drops other rows than those that were chosen; one that is NULL, or that
    is spelled otherwise in another query, drops none.
    """
    with _opened(open_rows, VISITS) as source, _scanning(open_rows, VISITS, beside, source):
        counts = source.count()
        for _ in range(3):
            require(source.count() == counts, "the rows of a person must be the same in every count")
            require(source.count(["person"]).dense().tolist() == [3] * 500, "every person must keep three rows")
        _, written = _written(source)
    require(written == _cells_as_text(counts), "the written rows must be those that are counted")


def rows_of_one_combination_are_dealt_out_exactly(open_rows: OpenRows, beside: Beside | None = None) -> None:
    """Where a combination goes to several groups, each gets as many rows as was said, beside another scan too."""
    schema = schema_with(Attribute(name="visit", domain=Values(tuple(f"v{i}" for i in range(8)))))
    case = replace(VISITS, schema=schema)
    sizes = np.array([100, 250, 150], dtype=np.int64)
    overrides = Overrides(
        names=("visit",),
        codes=np.zeros((3, 1), dtype=np.int64),
        groups=np.arange(3, dtype=np.int64),
        labels={"visit": np.array(["one", "two", "three"], dtype=object)},
        sizes=sizes,
    )
    with _opened(open_rows, case) as source, _scanning(open_rows, case, beside, source):
        _, written = _written(source.relabel(Relabelling(labels={}, overrides=overrides)))
    found = [written[(name,)] for name in ("one", "two", "three", "v1")]
    require(found == [100, 250, 150, 500], "every group must get the rows that it was given")


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
    hostile_texts_are_only_texts,
)

IDENTITY_CHECKS: tuple[Callable[[OpenRows, Beside | None], None], ...] = (
    a_row_is_the_same_row_in_every_query,
    rows_of_one_combination_are_dealt_out_exactly,
)


def check_source(open_rows: OpenRows, *, beside: Beside | None = None) -> list[str]:
    """Try a source against its contract; return the sentences that hold, or fail with the first that does not.

    `open_rows(columns, schema)` puts columns of plain values (texts, whole numbers, floats, decimals, days, None)
    where the source reads from, and opens it. A source of text files writes them as texts, None as nothing.
    `beside(source)` keeps another scan of the same rows going while a block runs; without it, a second source of equal
    rows counts in another thread.

    Error: AssertionError with the sentence that does not hold and what was found instead.
    """
    held = [_checked(check, open_rows) for check in SOURCE_CHECKS]
    return held + check_sentences(open_rows, IDENTITY_CHECKS, beside=beside)


def check_sentences(
    open_rows: OpenRows, checks: Sequence[Callable[[OpenRows, Beside | None], None]], *, beside: Beside | None = None
) -> list[str]:
    """Try the sentences about the identity of rows alone."""
    return [_checked(check, open_rows, beside) for check in checks]


def _checked(check: Callable[..., None], *arguments: object) -> str:
    sentence = check.__name__.replace("_", " ")
    try:
        check(*arguments)
    except (AssertionError, SudareError) as error:
        raise AssertionError(f"it does not hold that {sentence}: {error}") from None
    return sentence


@contextlib.contextmanager
def _opened(open_rows: OpenRows, case: Case) -> Iterator[Source]:
    with contextlib.closing(open_rows(case.columns, case.schema)) as source:
        yield source


@contextlib.contextmanager
def _scanning(open_rows: OpenRows, case: Case, beside: Beside | None, source: Source) -> Iterator[None]:
    """Keep another scan going: the given one, or a second source of equal rows that counts in a thread."""
    if beside is not None:
        with beside(source):
            yield
        return
    stop = threading.Event()

    def scan() -> None:
        # what goes wrong here goes wrong in the source under test too, which is the one to be judged
        with contextlib.suppress(SudareError), _opened(open_rows, case) as other:
            while not stop.is_set():
                other.count()

    thread = threading.Thread(target=scan)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


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


def _written(source: Source | RecodedRows) -> tuple[tuple[str, ...], Counter[tuple[str, ...]]]:
    """Write the rows to a CSV file and read it back with nothing but Python."""
    with tempfile.TemporaryDirectory() as place:
        source.write(file := Path(place) / "written.csv")
        with file.open(encoding="utf-8", newline="") as stream:
            head, *lines = csv.reader(stream)
    return tuple(head), Counter(tuple(line) for line in lines)


def _cells_as_text(counts: Counts) -> Counter[tuple[str, ...]]:
    """The rows behind a table of counts, by label."""
    labels = [one.labels(np.arange(one.size)).tolist() for one in counts.schema.attributes]
    columns = [counts.schema.radix.column(counts.codes, at) for at in range(len(labels))]
    rows = zip(
        *(np.array(names, dtype=object)[codes] for names, codes in zip(labels, columns, strict=True)), strict=True
    )
    return Counter({row: int(number) for row, number in zip(rows, counts.values, strict=True)})


def _as_text(expected: Counter[tuple[str | None, ...]]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(value or "" for value in row) for row in expected.elements())


def _lift(attribute: Attribute, code: int, level: int) -> int:
    if level == 0 or attribute.hierarchy is None:
        return code
    return int(attribute.hierarchy.lift(np.array([code]), level)[0])
