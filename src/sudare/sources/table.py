"""A table in an engine: its rows counted, checked, recoded and written through queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
from sqlglot import exp

from sudare.counts import Counts
from sudare.counts.relabelling import ROWS_OF_PERSON, Recodable, Relabelling
from sudare.errors import DomainError, ParameterError, SourceError
from sudare.noise.uniform import draw_key
from sudare.schema import Attribute, Codes, Schema, Values
from sudare.schema.arrays import Labels
from sudare.schema.raw import list_some
from sudare.sources import sql
from sudare.sources.base import Findings, Source, read_count
from sudare.sources.check import check_rows, count_impossible_rows, refuse_impossible, refuse_misfits
from sudare.sources.count import (
    SAME_ROWS_KEY,
    build_keys,
    count_dropped_rows,
    count_over_limit,
    find_repeated_identifiers,
    make_counts,
    number_rows_of_person,
    select_dropped_rows,
)
from sudare.sources.encode import ColumnEncoder, SqlCode
from sudare.sources.engine import Column, Engine, find_nulls
from sudare.sources.query import DROPPED_ROWS, query_rows
from sudare.sources.recode import LabelledRows
from sudare.sources.unread import ColumnCode
from sudare.text import Text, text
from sudare.text.cards import card

_CHUNK = 1 << 18  # cells that are checked at a time
_MOST_NAMES = 30  # columns that an error lists


class TableSource:
    """The rows of one table, seen through a schema. Made by `sudare.open`.

    What is read is decided by `schema` alone; columns that it does not declare are never looked at. The choice of the
    rows that a person keeps (`unit`) is made once, so that all counts of one source are of the same rows.
    """

    def __init__(
        self,
        engine: Engine,
        schema: Schema,
        *,
        count_column: str | None = None,
        salt: bytes | None = None,
        same_rows: bool = False,
    ) -> None:
        if count_column is not None and schema.unit.kind == "person":
            raise ParameterError(
                "a column of counts ({column}) does not tell persons apart; leave it out, or make the unit a row",
                column=count_column,
            )
        self.schema = schema
        self.engine = engine
        self.count_column = count_column
        self.has_same_rows = same_rows  # then the choice is known to everybody, and no noise may rest on it
        self._salt = SAME_ROWS_KEY if same_rows else draw_key() if salt is None else salt
        self._codes: dict[str, ColumnCode] = {}
        self._kept_rows: int | None = None  # rows within the limit of a person, where rows are dropped
        self._has_checked_identifiers = False
        self.columns = {column.name: column for column in engine.columns}

    def __repr__(self) -> str:
        return f"<Source of {self.schema.name!r}: {self.engine.name}>"

    def _repr_html_(self) -> str:
        """Show in a notebook which columns are read; no row is shown."""
        declared = set(self.schema.names)
        return card(
            text("Source of {name}", name=self.schema.name),
            notes=[text("engine: {engine}", engine=self.engine.name)],
            columns=[text("column"), text("type"), text("declared")],
            rows=[(column.name, column.type, text("yes") if column.name in declared else text("no"))
                  for column in self.columns.values()],
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def notes(self) -> tuple[Text, ...]:
        """What in the data was not read as rows, such as titles and totals: for the steward."""
        return tuple(getattr(self.engine, "notes", ()))

    def close(self) -> None:
        """Give back memory and temporary files; the source cannot be used afterwards."""
        self.engine.close()

    # --- counting ---------------------------------------------------------------------------------------------

    def count(self, by: Sequence[str] | None = None) -> Counts:
        """Count the rows over the chosen attributes (all of them by default), in the order asked for.

        The mixed-radix key of a row is built in the engine; only the cells that hold rows come back. Only the chosen
        attributes are read and checked.

        Error: DomainError, naming attributes and nothing else, if rows hold what the schema does not declare.
        """
        return self._count_over(self.schema if by is None else self.schema.select(by))

    def count_over(self, schema: Schema) -> Counts:
        """Count the rows over a schema whose attributes cut those of the source's own finer."""
        return self._count_over(schema, finer=True)

    def count_with_persons(self, by: Sequence[str]) -> Counts:
        """Count over the chosen attributes, and over one more: how many rows the person of a row has, up to the limit.

        A person of n rows keeps min(n, limit) of them, so no second look at the kept rows is needed.
        """
        unit = self.schema.unit
        if unit.column is None:
            raise ParameterError("rows have persons only if the unit of the schema is a person; count rows instead")
        numbers = Attribute(name=ROWS_OF_PERSON, domain=Values(tuple(str(n + 1) for n in range(unit.max_rows))))
        attributes = (*self.schema.select(by).attributes, numbers)
        return self._count_over(Schema(name=self.schema.name, attributes=attributes, unit=unit))

    def _count_over(self, chosen: Schema, *, finer: bool = False) -> Counts:
        self._refuse_repeated_identifiers()
        tags = [self._tag(attribute) if finer else "" for attribute in chosen.attributes]
        declared = [attribute for attribute in chosen.attributes if attribute.name != ROWS_OF_PERSON]
        keys, totals = self._count_keys(chosen, tags)
        if _have_nulls(keys) and self._look_up_all(declared, tags[: len(declared)]):
            keys, totals = self._count_keys(chosen, tags)
        if _have_nulls(keys):
            refuse_misfits(self, [self.schema.attribute(attribute.name) for attribute in declared])
        counts = make_counts(chosen, keys, self._check_totals(totals))
        if self.count_column is None:
            self.check_row_number(counts.total)
        _refuse_impossible_cells(counts)
        return counts

    def _look_up_all(self, attributes: Sequence[Attribute], tags: Sequence[str]) -> bool:
        gained = [self.look_up_unread([one], tag=tag) for one, tag in zip(attributes, tags, strict=True)]
        return any(gained)

    def _tag(self, attribute: Attribute) -> str:
        """Keep an attribute that is cut finer apart from the declared one."""
        return "" if attribute == self.schema.attribute(attribute.name) else f"_in{attribute.size}"

    def _count_keys(self, chosen: Schema, tags: Sequence[str]) -> tuple[list[Codes], Codes]:
        """Count rows by the words of their keys; a word is NULL where a value does not fit, or is unread."""
        unit, is_by_person = self.schema.unit, ROWS_OF_PERSON in chosen.names
        declared = [attribute for attribute in chosen.attributes if attribute.name != ROWS_OF_PERSON]
        sql_codes = [
            self.encode_attribute(attribute, tag=tag, may_be_unread=True)
            for attribute, tag in zip(declared, tags, strict=False)
        ]
        column_ids = self.column_ids(declared)
        if is_by_person and unit.column is not None:
            person = self.column(unit.column)
            sql_codes.append(number_rows_of_person(person, max_rows=unit.max_rows))
            column_ids = [*column_ids, person.column_id]
        words = build_keys(sql_codes, chosen.radix)
        names = [f"w{index}" for index in range(len(words))]
        query = self.query(sql_codes, column_ids)
        result = self.engine.arrays(self._add_up(query, words, names).group_by(*names))
        return [result[name] for name in names], result["n"]

    def _refuse_repeated_identifiers(self) -> None:
        """Refuse a table of rows whose identifiers repeat: a person has several rows, and is protected too little.

        Checked once per source.
        """
        if self._has_checked_identifiers or self.schema.unit.kind == "person" or self.count_column is not None:
            return
        for name, _ in find_repeated_identifiers(self.engine, self.schema.identifiers):
            raise DomainError(
                "identifier {column} repeats, so a person may have several rows; declare the unit as"
                ' kind = "person", column = "{column}" with max_rows, or take the column out of the schema',
                column=name,
            )
        self._has_checked_identifiers = True

    def _add_up(self, query: exp.Select, keys: list[sql.Expression], names: list[str]) -> exp.Select:
        if self.count_column is None:
            number: sql.Expression = exp.Count(this=exp.Star())
        else:
            whole = read_count(self.column(self.count_column))
            is_whole = exp.not_(sql.is_null(whole))
            # A row whose number cannot be used has no key, so it is refused like any other misfit.
            keys[0] = sql.choose([(is_whole, keys[0])])
            number = sql.narrow(exp.Sum(this=whole.copy()))
        return query.select(*(key.as_(name) for key, name in zip(keys, names, strict=True)), number.as_("n"))

    def _check_totals(self, totals: Codes) -> Codes:
        if find_nulls(totals).any():
            raise SourceError(
                "the numbers of column {column} add up to more than 2**63 - 1; count in coarser units",
                column=self.count_column,
            )
        return np.asarray(totals, dtype=np.int64)

    # --- rows -------------------------------------------------------------------------------------------------

    def check(self) -> Findings:
        """Tell everything that does not fit the schema, with counts and examples: for the steward's eyes only."""
        return check_rows(self)

    def refuse_rows_that_do_not_fit(self) -> None:
        """Refuse what `count` over all attributes would refuse, without counting.

        Error: DomainError, naming attributes and nothing else.
        """
        refuse_misfits(self, self.schema.attributes)
        boxes = self.schema.impossible
        for box, rows in zip(boxes, count_impossible_rows(self, boxes), strict=True):
            if rows:
                refuse_impossible(box)

    def recode(self, levels: Mapping[str, int], *, others: bool = False) -> LabelledRows:
        """Replace the values of every attribute by the labels of a level of its hierarchy (0 where none is named).

        Identifiers and the column of persons are dropped; columns that the schema does not declare are dropped too,
        unless `others`. Rows beyond the limit of a person are left out, as in `count`.
        """
        self.schema.coarsen(levels)  # refuses unknown attributes and levels
        return LabelledRows(source=self, labels=self._level_labels(levels), others=others)

    def _level_labels(self, levels: Mapping[str, int]) -> dict[str, Callable[[Codes], Labels]]:
        return {
            attribute.name: _LevelLabels(attribute, levels.get(attribute.name, 0))
            for attribute in self.schema.attributes
        }

    def apply(self, labels: Mapping[str, Labels], *, others: bool = False) -> LabelledRows:
        """Replace the values of every attribute by given labels, one for each of its codes (None is a missing value).

        Attributes without labels keep the labels of the schema. What is dropped: as in `recode`.
        """
        given = {name: _GivenLabels(self.schema.attribute(name), texts) for name, texts in labels.items()}
        return LabelledRows(source=self, labels={**self._level_labels({}), **given}, others=others)

    def relabel(
        self, relabelling: Relabelling, *, names: Sequence[str] | None = None, others: bool = False
    ) -> LabelledRows:
        """Replace values by labels, and those of some combinations by the labels of their group or by nothing at all.

        `names` chooses the attributes that are written. What is dropped: as in `recode`, and rows of a count of 0:
        they stand for nobody, so no promise about the rows of a class covers them.
        """
        chosen = None if names is None else self.schema.select(names).names
        return LabelledRows(
            source=self,
            labels={**self._level_labels({}), **relabelling.labels},
            others=others,
            names=chosen,
            overrides=relabelling.overrides,
            drop_zero_counts=True,
        )

    def write(self, path: str | Path, *, shuffle: bool = True) -> Path:
        """Write the rows with values as the schema labels them: `recode({}).write(path)`."""
        return self.recode({}).write(path, shuffle=shuffle)

    # --- what the chapters of this room share --------------------------------------------------------------------

    def column(self, name: str) -> Column:
        """Find a column of the data.

        Error: SourceError naming it, with the columns that there are.
        """
        column = self.columns.get(name)
        if column is None:
            raise self._name_unknown(name, [known for known in self.columns if known])
        if column.family == "other":
            raise SourceError(
                "column {name} has type {type}, which cannot be read; make it text, a number or a date",
                name=name,
                type=column.type,
            )
        return column

    def _name_unknown(self, name: str, known: list[str]) -> SourceError:
        if not self.engine.has_named_columns and not set(known) & set(self.schema.names):
            # The first line may be a row instead of names, so it is not shown.
            return SourceError(
                "no declared column is in {data}; its first line must name the columns, and {name} among them",
                data=self.engine.name,
                name=name,
            )
        return SourceError(
            "there is no column {name} in {data}; it has {known}",
            name=name,
            data=self.engine.name,
            known=list_some(known, _MOST_NAMES),
        )

    def encode_attribute(self, attribute: Attribute, *, tag: str = "", may_be_unread: bool = False) -> SqlCode:
        """Write the code of an attribute as SQL; its lookups are put into the engine once.

        `tag` keeps variants of an attribute apart. `may_be_unread`: values that SQL does not read may have no code; who
        says so looks for rows without a code and calls `look_up_unread` if there are any.
        """
        code = self._find_code(attribute, tag)
        if not may_be_unread:
            code.complete()
        return code.sql_code

    def look_up_unread(self, attributes: Sequence[Attribute], *, tag: str = "") -> bool:
        """Bring the values that SQL does not read; tell whether that gave any of them a code."""
        gained = [self._find_code(attribute, tag).complete() for attribute in attributes]
        return any(gained)

    def note_all_read(self, attributes: Sequence[Attribute], *, tag: str = "") -> None:
        """Note that a look at all rows left no value of these attributes without a code."""
        for attribute in attributes:
            self._find_code(attribute, tag).is_complete = True

    def _find_code(self, attribute: Attribute, tag: str) -> ColumnCode:
        column = self.column(attribute.name)
        prefix = column.column_id + tag
        if prefix not in self._codes:
            encoder = ColumnEncoder(attribute=attribute, column=column, prefix=prefix)
            self._codes[prefix] = ColumnCode(self.engine, encoder)
        return self._codes[prefix]

    def query(
        self,
        sql_codes: Sequence[SqlCode],
        column_ids: Sequence[str],
        *,
        is_numbered: bool = False,
        all_rows: bool = False,
    ) -> exp.Select:
        """Begin a query over the rows that count, at most `max_rows` of each person; or over all rows."""
        if not all_rows:
            self._drop_rows()
        has_dropped_rows = self._kept_rows is not None and not all_rows
        return query_rows(sql_codes, column_ids, is_numbered=is_numbered, has_dropped_rows=has_dropped_rows)

    def check_row_number(self, rows: int) -> None:
        """Refuse a result over the rows that count if they are not as many as the limit of a person leaves.

        So an identity of rows that an engine does not keep cannot switch the limit off in silence.
        """
        if self._kept_rows is not None and rows != self._kept_rows:
            raise _name_lost_identity(self)

    def column_ids(self, attributes: Sequence[Attribute]) -> list[str]:
        """Give the ids of the columns of attributes, and of the column of counts."""
        names = [attribute.name for attribute in attributes]
        return [self.column(name).column_id for name in [*names, *([self.count_column] if self.count_column else [])]]

    def _drop_rows(self) -> None:
        """Choose once which rows of a person are dropped; see `count.select_dropped_rows`."""
        unit = self.schema.unit
        if unit.column is None or self._kept_rows is not None:
            return
        column = self.column(unit.column)
        limit = count_over_limit(self.engine, column, max_rows=unit.max_rows)
        if limit.unowned:
            raise DomainError(
                "column {column} must name a person in every row; run `sudare schema check`", column=unit.column
            )
        self.engine.keep(DROPPED_ROWS, select_dropped_rows(column, max_rows=unit.max_rows, salt=self._salt))
        if count_dropped_rows(self.engine) != (limit.too_many, limit.too_many):
            raise _name_lost_identity(self)
        self._kept_rows = limit.rows - limit.too_many


class _LevelLabels:
    """The labels of an attribute at a level of its hierarchy."""

    def __init__(self, attribute: Attribute, level: int) -> None:
        self._fine, self._level, self._coarse = attribute, level, attribute.coarsen(level)

    def __call__(self, codes: Codes) -> Labels:
        hierarchy = self._fine.hierarchy
        lifted = codes if hierarchy is None or self._level == 0 else hierarchy.lift(codes, self._level)
        return self._coarse.labels(lifted)


class _GivenLabels:
    """Labels that a caller gave, one for each code."""

    def __init__(self, attribute: Attribute, labels: Labels) -> None:
        self._labels = np.asarray(labels, dtype=np.object_)
        if self._labels.shape != (attribute.size,):
            raise ParameterError(
                "{name} needs {size} labels, one for each code", name=attribute.name, size=attribute.size
            )

    def __call__(self, codes: Codes) -> Labels:
        chosen: Labels = self._labels[codes]
        return chosen


def _have_nulls(keys: Sequence[Codes]) -> bool:
    return any(find_nulls(word).any() for word in keys)


def _name_lost_identity(source: TableSource) -> SourceError:
    return SourceError(
        "the engine of {data} does not know a row again from one query to the next, so the rows of a person cannot be"
        " limited; open the data as a file or a table",
        data=source.engine.name,
    )


def _refuse_impossible_cells(counts: Counts) -> None:
    """Refuse cells in combinations that are declared impossible; in chunks, so that memory stays small."""
    schema = counts.schema
    for box in schema.impossible:
        for start in range(0, counts.nonzero, _CHUNK):
            codes = counts.codes[start : start + _CHUNK]
            inside = np.ones(len(codes), dtype=np.bool_)
            for name, impossible in box.values:
                column = schema.radix.column(codes, schema.position(name))
                inside &= np.isin(column, np.fromiter(impossible, dtype=np.int64))
            if inside.any():
                refuse_impossible(box)


if TYPE_CHECKING:
    _keeps_the_protocol: type[Source] = TableSource
    _can_be_recoded: type[Recodable] = TableSource
