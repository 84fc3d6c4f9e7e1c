"""Rows put into groups by the combination of some attributes: left out, or labelled as a group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from sqlglot import exp

from sudare.atomic import check_new_file, new_file
from sudare.counts.relabelling import Overrides
from sudare.errors import SourceError
from sudare.noise.uniform import draw_key
from sudare.schema import Attribute, Codes, Radix
from sudare.schema.arrays import Labels
from sudare.sources.base import whole_number
from sudare.sources.count import keys_of
from sudare.sources.encode import Join, SqlCode
from sudare.sources.engine import Column, Lookup
from sudare.sources.query import ROW
from sudare.sources.sql import Expression, call, choose, either, is_null, literal, raw

if TYPE_CHECKING:
    from sudare.sources.table import TableSource

CUT = "sudare_cut"
"""The table of rows (by `ROW`) whose combination goes to several groups, and the group of each."""


@dataclass(frozen=True, kw_only=True)
class Grouped:
    """The group of a row in SQL: NULL for rows without exception. `coding` brings the joins it needs."""

    coding: SqlCode

    @property
    def is_written(self) -> Expression:
        """Tell whether the row is written at all."""
        group = self.coding.code
        return either([is_null(group), exp.GTE(this=group.copy(), expression=literal(0))])

    def labelled(self, source: TableSource, exceptions: Overrides, name: str, own: SqlCode) -> SqlCode:
        """Put the label of the group in place of the label of the value, where there is a group."""
        if name not in exceptions.labels:
            return own
        texts = exceptions.labels[name]
        lookup = Lookup(
            name=f"sudare_{source.column(name).place}_groups",
            keys=np.arange(len(texts), dtype=np.int64),
            values=texts,
            key="integer",
            value="text",
        )
        source.engine.add(lookup)
        text = exp.column("v", table=lookup.name)
        inner = choose([(exp.not_(is_null(self.coding.code)), text)], own.inner.copy())
        return replace(own, inner=inner, joins=(*own.joins, Join(lookup=lookup, key=self.coding.code)))


def grouped(source: TableSource, exceptions: Overrides) -> Grouped:
    """Put exceptions into the engine and write the group of a row as SQL."""
    attributes = [source.schema.attribute(name) for name in exceptions.names]
    key, joins, keys = _key(source, attributes, exceptions.codes)
    unique, first, sizes = np.unique(keys, return_index=True, return_counts=True)
    whole = first[sizes == 1]
    lookup = _lookup("sudare_groups", keys[whole], exceptions.groups[whole])
    source.engine.add(lookup)
    joins = (*joins, Join(lookup=lookup, key=key))
    group: Expression = exp.column("v", table=lookup.name)
    if (sizes > 1).any():
        if source.count_column is not None:
            raise SourceError(
                "a row of an aggregated table cannot be cut into two classes; use the strict way instead of the relaxed"
            )
        _keep_cut(source, attributes, exceptions, keys, unique[sizes > 1])
        joins = (*joins, Join(lookup=_lookup(CUT, keys[:0], keys[:0]), key=raw(ROW)))
        group = call("COALESCE", exp.column("v", table=CUT), group)
    return Grouped(coding=SqlCode(inner=group, joins=joins))


def _key(source: TableSource, attributes: list[Attribute], codes: Codes) -> tuple[Expression, tuple[Join, ...], Codes]:
    """One number for the combination of a row, in SQL and for the combinations given.

    A domain of several words is folded: words become their rank among those that occur, two by two.
    """
    radix = Radix(tuple(attribute.size for attribute in attributes))
    words = keys_of([source.coding(attribute) for attribute in attributes], radix)
    columns = radix.encode(codes).T
    keys, key, names = columns[0], words[0], count()
    joins: tuple[Join, ...] = ()
    for column, word in zip(columns[1:], words[1:], strict=True):
        (left, join), (right, other) = (
            _ranked(source, one, expression, next(names)) for one, expression in ((keys, key), (column, word))
        )
        size = int(right.max(initial=0)) + 1
        keys, joins = left * size + right, (*joins, join, other)
        high = exp.Mul(this=exp.column("v", table=join.lookup.name), expression=literal(size))
        key = exp.Add(this=high, expression=exp.column("v", table=other.lookup.name))
    return key, joins, keys


def _ranked(source: TableSource, column: Codes, word: Expression, number: int) -> tuple[Codes, Join]:
    values, ranks = np.unique(column, return_inverse=True)
    lookup = _lookup(f"sudare_word{number}", values, np.arange(len(values), dtype=np.int64))
    source.engine.add(lookup)
    return ranks.astype(np.int64), Join(lookup=lookup, key=word)


def _lookup(name: str, keys: Codes, values: Codes) -> Lookup:
    return Lookup(name=name, keys=keys, values=values, key="integer")


def _keep_cut(source: TableSource, attributes: list[Attribute], exceptions: Overrides, keys: Codes, cut: Codes) -> None:
    """Deal the rows of every cut combination out to its groups, in random order, and keep who goes where.

    A row finds its combination, its place in it under a fresh key, and then the piece that holds this place.
    """
    key, joins, _ = _key(source, attributes, exceptions.codes)
    mine = np.flatnonzero(np.isin(keys, cut))
    mine = mine[np.argsort(keys[mine], kind="stable")]
    firsts = np.flatnonzero(np.diff(keys[mine], prepend=-1))
    first = _lookup("sudare_cut_first", keys[mine][firsts], firsts)
    source.engine.add(first)
    coding = SqlCode(inner=exp.column("v", table=first.name), joins=(*joins, Join(lookup=first, key=key)))
    codings = [source.coding(attribute) for attribute in attributes]
    rows = source.query([*codings, coding], source.places(attributes), is_numbered=True)
    rows = rows.select(raw(ROW).as_("k"), coding.code.as_("f")).where(exp.not_(is_null(coding.code)))
    placed = exp.select("k", "f", _place().as_("p")).from_(rows.subquery("r"))
    sizes = np.ones(len(keys), dtype=np.int64) if exceptions.sizes is None else exceptions.sizes
    piece, query = _pieces(source, placed, firsts, sizes[mine])
    group = _lookup("sudare_cut_group", np.arange(len(mine), dtype=np.int64), exceptions.groups[mine])
    source.engine.add(group)
    query = query.join(group.name, on=_equal("k", group.name, piece), join_type="left")
    source.engine.keep(CUT, query.select(exp.column("k", table="r"), exp.column("v", table=group.name)))


def _place() -> Expression:
    shuffled = call("SHA256", call("CONCAT", literal(draw_key().hex()), exp.column("k", table="r")))
    window = exp.Window(
        this=exp.RowNumber(), partition_by=[exp.column("f", table="r")], order=exp.Order(expressions=[shuffled])
    )
    return exp.Sub(this=window, expression=literal(1))


def _pieces(source: TableSource, placed: exp.Select, firsts: Codes, sizes: Codes) -> tuple[Expression, exp.Select]:
    """The number of the piece of a row: the first of its combination, and one more for every later piece begun."""
    query = exp.Select().from_(placed.subquery("r"))
    piece: Expression = exp.column("f", table="r")
    begins = np.cumsum(sizes) - sizes
    lengths = np.diff(firsts, append=len(sizes))
    for step in range(1, int(lengths.max())):
        longer = firsts[lengths > step]
        lookup = _lookup(f"sudare_cut_{step}", longer, begins[longer + step] - begins[longer])
        source.engine.add(lookup)
        begin = exp.column("v", table=lookup.name)
        query = query.join(lookup.name, on=_equal("k", lookup.name, exp.column("f", table="r")), join_type="left")
        is_begun = exp.GTE(this=exp.column("p", table="r"), expression=begin)
        piece = exp.Add(this=piece, expression=choose([(is_begun, literal(1))], literal(0)))
    return piece, query


def _equal(column: str, table: str, value: Expression) -> Expression:
    return exp.EQ(this=exp.column(column, table=table), expression=value.copy())


# The table with labels in place of its values, written by the engine as a stream.


_FORMS: Mapping[str, Literal["parquet", "csv"]] = {".parquet": "parquet", ".csv": "csv"}
_MOST_LABELS = 1 << 20  # of a larger attribute, only the codes that occur get labels


@dataclass(frozen=True, kw_only=True)
class RecodedRows:
    """Rows of a source with labels in place of values; nothing is read before `write`."""

    source: TableSource
    labels: Mapping[str, Callable[[Codes], Labels]]
    others: bool = False
    names: tuple[str, ...] | None = None
    exceptions: Overrides | None = None
    without_nobody: bool = False  # leave out rows of an aggregated table that stand for nobody

    @property
    def columns(self) -> tuple[str, ...]:
        """Name the columns that will be written: attributes, then the column of counts, then others."""
        return (*(attribute.name for attribute in self._attributes()), *self._kept())

    def _attributes(self) -> tuple[Attribute, ...]:
        schema = self.source.schema
        return schema.attributes if self.names is None else tuple(schema.attribute(name) for name in self.names)

    def _kept(self) -> list[str]:
        schema, counted = self.source.schema, self.source.count_column
        private = {*schema.names, *schema.identifiers, schema.unit.column, counted, ""}
        others = [column.name for column in self.source.engine.columns if column.name not in private]
        return [*([counted] if counted else []), *(others if self.others else [])]

    def write(self, path: str | Path, *, shuffle: bool = True) -> Path:
        """Write the rows to a new file, .parquet or .csv: beside it first, renamed when whole.

        The order of rows can tell about people (by admission, by name), so rows are shuffled under a fresh key;
        `shuffle=False` keeps the order of the data, for files that stay inside.

        Error: SourceError if the file exists or cannot be written; DomainError if rows do not fit the schema.
        """
        path = Path(path)
        form = _FORMS.get(path.suffix.lower())
        if form is None:
            raise SourceError("{file} must end in .parquet or .csv", file=path)
        check_new_file(path, error=SourceError)
        self.source.refuse_rows_that_do_not_fit()
        with new_file(path, error=SourceError) as temporary:
            self.source.engine.save(self._query(shuffle), temporary, form=form)
        return path

    def _query(self, shuffle: bool) -> exp.Select:
        source, attributes, exceptions = self.source, self._attributes(), self.exceptions
        asked = () if exceptions is None else tuple(source.schema.attribute(name) for name in exceptions.names)
        known = list(dict.fromkeys((*attributes, *asked)))
        codings = {attribute.name: source.coding(attribute) for attribute in known}
        labelled = [self._labelled(attribute, codings[attribute.name]) for attribute in attributes]
        brought, group = list(codings.values()), None if exceptions is None else grouped(source, exceptions)
        if exceptions is not None and group is not None:
            pairs = zip(attributes, labelled, strict=True)
            labelled = [group.labelled(source, exceptions, attribute.name, own) for attribute, own in pairs]
            brought.append(group.coding)
        kept = [source.columns[name] for name in self._kept()]
        places = [*source.places(known), *(column.place for column in kept)]
        written = [coding.code for coding in labelled] + [self._value(column) for column in kept]
        query = source.query([*brought, *labelled], places, is_numbered=True)
        query = query.select(*(_named(value, name) for value, name in zip(written, self.columns, strict=True)))
        query = query if group is None else query.where(group.is_written)
        if self.without_nobody and source.count_column is not None:
            people = whole_number(source.columns[source.count_column])
            query = query.where(exp.GT(this=people, expression=literal(0)))
        return query.order_by(_shuffled() if shuffle else raw(ROW))

    def _value(self, column: Column) -> Expression:
        return whole_number(column) if column.name == self.source.count_column else raw(column.place)

    def _labelled(self, attribute: Attribute, coding: SqlCode) -> SqlCode:
        """Join the labels to the codes of an attribute."""
        if attribute.size <= _MOST_LABELS:
            codes = np.arange(attribute.size, dtype=np.int64)
        else:
            codes = self.source.count([attribute.name]).codes[:, 0]
        lookup = Lookup(
            name=f"sudare_{self.source.column(attribute.name).place}_labels",
            keys=codes,
            values=self.labels[attribute.name](codes),
            key="integer",
            value="text",
        )
        self.source.engine.add(lookup)
        return SqlCode(inner=exp.column("v", table=lookup.name), joins=(Join(lookup=lookup, key=coding.code),))


def _named(value: Expression, name: str) -> Expression:
    return exp.alias_(value, name, quoted=True)


def _shuffled() -> Expression:
    return call("SHA256", call("CONCAT", literal(draw_key().hex()), raw(ROW)))
