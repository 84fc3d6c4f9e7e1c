"""Values that SQL does not read: brought once as distinct values, encoded by `Attribute.encode`, looked up by a join.

No Python runs inside an engine, so an engine needs nothing but SQL, and the meaning of a text stands in one place.
Most tables hold no unread value. So a count first goes without them: an unread value has no code then, like a value
that does not fit. Only where rows without a code are found are the unread values brought, and the rows counted again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sqlglot import exp

from sudare.errors import SourceError
from sudare.schema import DateBins, Values
from sudare.sources.encode import ColumnEncoder, Join, SqlCode, encode_column
from sudare.sources.engine import Engine, Lookup
from sudare.sources.query import query_rows
from sudare.sources.sql import is_null, literal

MOST_UNREAD_VALUES = 5_000_000
"""Different unread values of one column that are brought: about a gigabyte of texts."""

_UNREAD = -1  # stands where a value is unread while such values are looked for; codes are 0 or more


class ColumnCode:
    """The code of one attribute over one column of an engine, with the lookups it needs.

    `sql_code` has no code for unread values until `complete` brought them.
    """

    def __init__(self, engine: Engine, encoder: ColumnEncoder) -> None:
        self._engine, self._encoder = engine, encoder
        self._template = encode_column(encoder)
        for join in self._template.joins:
            engine.add(join.lookup)
        self.sql_code = self._template.replace_value(encoder.unread_lookup, exp.null())
        self.is_complete = not self._template.mentions(encoder.unread_lookup)
        if self._template.reads_nothing:
            self.complete()
        elif self._may_be_looked_up:
            self._look_up_few_values(engine.dialect.lookup_limit)

    @property
    def _may_be_looked_up(self) -> bool:
        """Tell whether the column holds numbers, days or mesh codes that SQL would have to take apart in every row."""
        family, domain = self._encoder.column.family, self._encoder.attribute.domain
        is_slow_text = family == "text" and not isinstance(domain, Values)
        return is_slow_text or (family == "integer" and isinstance(domain, DateBins))

    def _look_up_few_values(self, limit: int) -> None:
        """Look all values up if they are few; else leave them to SQL."""
        if not limit:
            return
        always = self._encoder.look_up_always()
        values = list(self._list_unread(always, limit + 1))
        if len(values) <= limit:
            self._template = always
            self._use(values)

    def complete(self) -> bool:
        """Bring the unread values and look them up from now on; tell whether that gave any of them a code."""
        if self.is_complete:
            return False
        values = list(self._list_unread(self._template, MOST_UNREAD_VALUES + 1))
        if len(values) > MOST_UNREAD_VALUES:
            raise SourceError(
                "column {name} holds more than {most} different values of unusual form; write its numbers like 1234.5"
                " and its days like 2024-01-31",
                name=self._encoder.column.name,
                most=MOST_UNREAD_VALUES,
            )
        return self._use(values)

    def _list_unread(self, template: SqlCode, most: int) -> Iterator[object]:
        """List the distinct values for which the code would be looked up."""
        marked = template.replace_value(self._encoder.unread_lookup, literal(_UNREAD))
        is_unread = exp.EQ(this=marked.expression, expression=literal(_UNREAD))
        query = query_rows([marked], [self._encoder.column.column_id]).where(is_unread)
        query = query.where(exp.not_(is_null(self._encoder.value())))
        query = query.select(self._encoder.value().as_("value")).distinct().limit(most)
        return (value for (value,) in self._engine.stream(query))

    def _use(self, values: list[object]) -> bool:
        """Encode values and put them into a lookup; those that do not fit stay without a code."""
        self.is_complete = True
        pairs = [(value, code) for value in values if (code := self._encoder.encode(value)) is not None]
        if not pairs and not self._template.reads_nothing:
            return False
        lookup = self._make_lookup(pairs)
        self._engine.add(lookup)
        join = Join(lookup=lookup, key=self._encoder.value())
        self.sql_code = replace(self._template, joins=(*self._template.joins, join))
        return True

    def _make_lookup(self, pairs: list[tuple[Any, int]]) -> Lookup:
        column = self._encoder.column
        keys = np.empty(len(pairs), dtype=np.object_)
        keys[:] = [value for value, _ in pairs]
        return Lookup(
            name=self._encoder.unread_lookup,
            keys=keys.astype(float) if column.family == "float" else keys,
            values=np.array([code for _, code in pairs], dtype=np.int64),
            key_type=column.family,  # type: ignore[arg-type]  # columns of booleans and others never get here
            digits=column.digits,
            scale=column.scale,
        )
