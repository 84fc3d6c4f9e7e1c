"""The table with labels in place of its values, written by the engine as a stream.

Rows of some combinations can be overridden: left out, or labelled as a group. The rows of one combination may go to
several groups; they are dealt out in random order.
"""

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
from sudare.sources.base import read_count
from sudare.sources.count import build_keys
from sudare.sources.encode import Join, SqlCode
from sudare.sources.engine import ROW, Column, Lookup
from sudare.sources.sql import Expression, any_of, call, cast, choose, digest, is_null, literal, raw_column

if TYPE_CHECKING:
    from sudare.sources.table import TableSource

# --- rows that are overridden ---------------------------------------------------------------------------------------

SPLIT_ROWS = "sudare_split_rows"
"""The table of rows (by `ROW`) whose combination goes to several groups, and the group of each."""


@dataclass(frozen=True, kw_only=True)
class RowGroup:
    """The group of a row in SQL: NULL for rows that are not overridden. `sql_code` brings the joins it needs."""

    sql_code: SqlCode

    @property
    def is_written(self) -> Expression:
        """Tell whether the row is written at all."""
        group = self.sql_code.expression
        return any_of([is_null(group), exp.GTE(this=group.copy(), expression=literal(0))])

    def label(self, source: TableSource, overrides: Overrides, name: str, own: SqlCode) -> SqlCode:
        """Put the label of the group in place of the label of the value, where there is a group."""
        if name not in overrides.labels:
            return own
        group_labels = overrides.labels[name]
        groups = np.arange(len(group_labels), dtype=np.int64)
        lookup = _add_labels(source, f"sudare_{source.column(name).column_id}_groups", groups, group_labels)
        is_grouped = exp.not_(is_null(self.sql_code.expression))
        text = choose([(is_grouped, exp.column("v", table=lookup.name))], own.unguarded.copy())
        return replace(own, unguarded=text, joins=(*own.joins, Join(lookup=lookup, key=self.sql_code.expression)))


def group_rows(source: TableSource, overrides: Overrides) -> RowGroup:
    """Put overrides into the engine and write the group of a row as SQL."""
    attributes = [source.schema.attribute(name) for name in overrides.names]
    key, joins, keys = _build_key(source, attributes, overrides.codes)
    unique, first, sizes = np.unique(keys, return_index=True, return_counts=True)
    is_whole = first[sizes == 1]
    lookup = _add_lookup(source, "sudare_groups", keys[is_whole], overrides.groups[is_whole])
    joins = (*joins, Join(lookup=lookup, key=key))
    group: Expression = exp.column("v", table=lookup.name)
    if (sizes > 1).any():
        if source.count_column is not None:
            raise SourceError(
                "a row of an aggregated table cannot be split between two classes; use the strict search instead of"
                " the relaxed one"
            )
        _keep_split_rows(source, attributes, overrides, keys, unique[sizes > 1])
        split_rows = Lookup(name=SPLIT_ROWS, keys=keys[:0], values=keys[:0], key_type="integer")
        joins = (*joins, Join(lookup=split_rows, key=raw_column(ROW)))
        group = call("COALESCE", exp.column("v", table=SPLIT_ROWS), group)
    return RowGroup(sql_code=SqlCode(unguarded=group, joins=joins))


def _build_key(
    source: TableSource, attributes: list[Attribute], codes: Codes
) -> tuple[Expression, tuple[Join, ...], Codes]:
    """Give one number for the combination of a row, in SQL and for the given combinations.

    A domain of several words is folded: words become their rank among those that occur, two by two.
    """
    radix = Radix(tuple(attribute.size for attribute in attributes))
    words = build_keys([source.encode_attribute(attribute) for attribute in attributes], radix)
    word_codes = radix.encode(codes).T
    keys, key, numbers = word_codes[0], words[0], count()
    joins: tuple[Join, ...] = ()
    for next_codes, next_word in zip(word_codes[1:], words[1:], strict=True):
        left, left_join = _rank_words(source, keys, key, next(numbers))
        right, right_join = _rank_words(source, next_codes, next_word, next(numbers))
        size = int(right.max(initial=0)) + 1
        keys, joins = left * size + right, (*joins, left_join, right_join)
        high = exp.Mul(this=exp.column("v", table=left_join.lookup.name), expression=literal(size))
        key = exp.Add(this=high, expression=exp.column("v", table=right_join.lookup.name))
    return key, joins, keys


def _rank_words(source: TableSource, codes: Codes, word: Expression, number: int) -> tuple[Codes, Join]:
    values, ranks = np.unique(codes, return_inverse=True)
    lookup = _add_lookup(source, f"sudare_word{number}", values, np.arange(len(values), dtype=np.int64))
    return ranks.astype(np.int64), Join(lookup=lookup, key=word)


def _add_lookup(source: TableSource, name: str, keys: Codes, values: Codes) -> Lookup:
    lookup = Lookup(name=name, keys=keys, values=values, key_type="integer")
    source.engine.add(lookup)
    return lookup


def _add_labels(source: TableSource, name: str, codes: Codes, labels: Labels) -> Lookup:
    lookup = Lookup(name=name, keys=codes, values=labels, key_type="integer", value_type="text")
    source.engine.add(lookup)
    return lookup


def _keep_split_rows(
    source: TableSource, attributes: list[Attribute], overrides: Overrides, keys: Codes, split_keys: Codes
) -> None:
    """Deal the rows of every split combination out to its groups, in random order, and keep the group of each.

    A row finds its combination, its rank in it under a fresh key, and then the piece that holds this rank.
    """
    key, joins, _ = _build_key(source, attributes, overrides.codes)
    pieces = np.flatnonzero(np.isin(keys, split_keys))
    pieces = pieces[np.argsort(keys[pieces], kind="stable")]
    firsts = np.flatnonzero(np.diff(keys[pieces], prepend=-1))  # the first piece of each combination
    first = _add_lookup(source, "sudare_first_piece", keys[pieces][firsts], firsts)
    first_piece = SqlCode(unguarded=exp.column("v", table=first.name), joins=(*joins, Join(lookup=first, key=key)))
    sql_codes = [source.encode_attribute(attribute) for attribute in attributes]
    rows = source.query([*sql_codes, first_piece], source.column_ids(attributes), is_numbered=True)
    rows = rows.select(raw_column(ROW).as_("k"), first_piece.expression.as_("f"))
    rows = rows.where(exp.not_(is_null(first_piece.expression)))
    ranked = exp.select("k", "f", _draw_rank().as_("p")).from_(rows.subquery("r"))
    sizes = np.ones(len(keys), dtype=np.int64) if overrides.sizes is None else overrides.sizes
    piece, query = _find_piece(source, ranked, firsts, sizes[pieces])
    numbers = np.arange(len(pieces), dtype=np.int64)
    group = _add_lookup(source, "sudare_piece_group", numbers, overrides.groups[pieces])
    query = query.join(group.name, on=_is_equal("k", group.name, piece), join_type="left")
    source.engine.keep(SPLIT_ROWS, query.select(exp.column("k", table="r"), exp.column("v", table=group.name)))


def _draw_rank() -> Expression:
    """Number the rows of a combination from 0, in the order of a hash under a fresh key."""
    window = exp.Window(
        this=exp.RowNumber(),
        partition_by=[exp.column("f", table="r")],
        order=exp.Order(expressions=[_shuffle_by(exp.column("k", table="r"))]),
    )
    return exp.Sub(this=window, expression=literal(1))


def _find_piece(source: TableSource, ranked: exp.Select, firsts: Codes, sizes: Codes) -> tuple[Expression, exp.Select]:
    """Give the number of the piece of a row: the first of its combination, and one more for every later piece begun."""
    query = exp.Select().from_(ranked.subquery("r"))
    piece: Expression = exp.column("f", table="r")
    begins = np.cumsum(sizes) - sizes
    lengths = np.diff(firsts, append=len(sizes))
    for step in range(1, int(lengths.max())):
        longer = firsts[lengths > step]
        lookup = _add_lookup(source, f"sudare_piece_{step}", longer, begins[longer + step] - begins[longer])
        begin = exp.column("v", table=lookup.name)
        query = query.join(lookup.name, on=_is_equal("k", lookup.name, exp.column("f", table="r")), join_type="left")
        is_begun = exp.GTE(this=exp.column("p", table="r"), expression=begin)
        piece = exp.Add(this=piece, expression=choose([(is_begun, literal(1))], literal(0)))
    return piece, query


def _is_equal(column: str, table: str, value: Expression) -> Expression:
    return exp.EQ(this=exp.column(column, table=table), expression=value.copy())


# --- writing the rows -----------------------------------------------------------------------------------------------

_FORMATS: Mapping[str, Literal["parquet", "csv"]] = {".parquet": "parquet", ".csv": "csv"}
_MOST_LABELS = 1 << 20  # of a larger attribute, only the codes that occur get labels


@dataclass(frozen=True, kw_only=True)
class LabelledRows:
    """Rows of a source with labels in place of values; nothing is read before `write`."""

    source: TableSource
    labels: Mapping[str, Callable[[Codes], Labels]]
    others: bool = False  # columns that the schema does not declare are written too
    names: tuple[str, ...] | None = None
    overrides: Overrides | None = None
    drop_zero_counts: bool = False  # leave out rows of an aggregated table that stand for nobody

    @property
    def columns(self) -> tuple[str, ...]:
        """Name the columns that will be written: attributes, then the column of counts, then others."""
        return (*(attribute.name for attribute in self._attributes()), *self._kept_columns())

    def _attributes(self) -> tuple[Attribute, ...]:
        schema = self.source.schema
        return schema.attributes if self.names is None else tuple(schema.attribute(name) for name in self.names)

    def _kept_columns(self) -> list[str]:
        schema, count_column = self.source.schema, self.source.count_column
        declared = {*schema.names, *schema.identifiers, schema.unit.column, count_column, ""}
        others = [column.name for column in self.source.engine.columns if column.name not in declared]
        return [*([count_column] if count_column else []), *(others if self.others else [])]

    def write(self, path: str | Path, *, shuffle: bool = True) -> Path:
        """Write the rows to a new file, .parquet or .csv, which appears whole or not at all.

        The order of rows can tell about people (by admission, by name), so rows are shuffled under a fresh key;
        `shuffle=False` keeps the order of the data, for files that stay inside.

        Error: SourceError if the file exists or cannot be written; DomainError if rows do not fit the schema.
        """
        path = Path(path)
        file_format = _FORMATS.get(path.suffix.lower())
        if file_format is None:
            raise SourceError("{file} must end in .parquet or .csv", file=path)
        check_new_file(path, error=SourceError)
        self.source.refuse_rows_that_do_not_fit()
        with new_file(path, error=SourceError) as temporary:
            self.source.engine.save(self._query(shuffle), temporary, file_format=file_format)
        return path

    def _query(self, shuffle: bool) -> exp.Select:
        source, attributes, overrides = self.source, self._attributes(), self.overrides
        overriding = () if overrides is None else tuple(source.schema.attribute(name) for name in overrides.names)
        needed = list(dict.fromkeys((*attributes, *overriding)))
        codes = {attribute.name: source.encode_attribute(attribute) for attribute in needed}
        labelled = [self._label(attribute, codes[attribute.name]) for attribute in attributes]
        sql_codes, group = list(codes.values()), None if overrides is None else group_rows(source, overrides)
        if overrides is not None and group is not None:
            pairs = zip(attributes, labelled, strict=True)
            labelled = [group.label(source, overrides, attribute.name, own) for attribute, own in pairs]
            sql_codes.append(group.sql_code)
        kept = [source.columns[name] for name in self._kept_columns()]
        column_ids = [*source.column_ids(needed), *(column.column_id for column in kept)]
        values = [sql_code.expression for sql_code in labelled] + [self._copy_value(column) for column in kept]
        query = source.query([*sql_codes, *labelled], column_ids, is_numbered=True)
        named = zip(values, self.columns, strict=True)
        query = query.select(*(exp.alias_(value, name, quoted=True) for value, name in named))
        query = query if group is None else query.where(group.is_written)
        if self.drop_zero_counts and source.count_column is not None:
            number = read_count(source.columns[source.count_column])
            query = query.where(exp.GT(this=number, expression=literal(0)))
        return query.order_by(_shuffle_by(raw_column(ROW)) if shuffle else raw_column(ROW))

    def _copy_value(self, column: Column) -> Expression:
        return read_count(column) if column.name == self.source.count_column else raw_column(column.column_id)

    def _label(self, attribute: Attribute, sql_code: SqlCode) -> SqlCode:
        """Join the labels to the codes of an attribute."""
        if attribute.size <= _MOST_LABELS:
            codes = np.arange(attribute.size, dtype=np.int64)
        else:
            codes = self.source.count([attribute.name]).codes[:, 0]
        name = f"sudare_{self.source.column(attribute.name).column_id}_labels"
        lookup = _add_labels(self.source, name, codes, self.labels[attribute.name](codes))
        label = exp.column("v", table=lookup.name)
        return SqlCode(unguarded=label, joins=(Join(lookup=lookup, key=sql_code.expression),))


def _shuffle_by(number: Expression) -> Expression:
    """Give a sort key that orders rows at random: the hash of their identity under a fresh key."""
    return digest(call("CONCAT", literal(draw_key().hex()), cast(number, "VARCHAR")))
