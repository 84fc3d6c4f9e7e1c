"""The table with labels in place of its values, written by the engine as a stream."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from sqlglot import exp

from sudare.counts.relabelling import Exceptions
from sudare.errors import SourceError
from sudare.schema import Attribute, Codes
from sudare.sources.base import Labels
from sudare.sources.coding import Coding, Join
from sudare.sources.counted import whole_number
from sudare.sources.engine import Column, Lookup
from sudare.sources.exceptions import grouped
from sudare.sources.query import ROW
from sudare.sources.sql import Expression, call, literal, raw

if TYPE_CHECKING:
    from sudare.sources.table import TableSource

_FORMS: Mapping[str, Literal["parquet", "csv"]] = {".parquet": "parquet", ".csv": "csv"}
_MOST_LABELS = 1 << 20  # of a larger attribute, only the codes that occur get labels


@dataclass(frozen=True, kw_only=True)
class RecodedRows:
    """Rows of a source with labels in place of values; nothing is read before `write`."""

    source: TableSource
    labels: Mapping[str, Callable[[Codes], Labels]]
    others: bool = False
    names: tuple[str, ...] | None = None
    exceptions: Exceptions | None = None
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
        if path.exists():
            raise SourceError("{file} exists; choose another name or remove it", file=path)
        if not path.parent.is_dir():
            raise SourceError("there is no directory {directory}; make it first", directory=path.parent)
        self.source.refuse_rows_that_do_not_fit()
        beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            self.source.engine.save(self._query(shuffle), beside, form=form)
            os.replace(beside, path)
        finally:
            with contextlib.suppress(OSError):
                beside.unlink()
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

    def _labelled(self, attribute: Attribute, coding: Coding) -> Coding:
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
        return Coding(inner=exp.column("v", table=lookup.name), joins=(Join(lookup=lookup, key=coding.code),))


def _named(value: Expression, name: str) -> Expression:
    return exp.alias_(value, name, quoted=True)


def _shuffled() -> Expression:
    return call("SHA256", call("CONCAT", literal(secrets.token_hex(16)), raw(ROW)))
