"""A released view, opened: it answers counts, SQL and gives records. No private table is near."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.mechanisms import Rng, system_rng
from sudare.methods.view.answers import LEVEL, Answer, Moments, answer
from sudare.methods.view.artefact import view_of
from sudare.methods.view.blocks import BlockView
from sudare.methods.view.conditions import Every, Pieces, Predicate, Region
from sudare.methods.view.literals import between, equal
from sudare.methods.view.sampling import sample_blocks, sample_tables
from sudare.methods.view.tables import TableView
from sudare.releases import Certificate, Release
from sudare.schema import NumberBins, Schema
from sudare.schema.labels import shown

Reals = NDArray[np.float64]
Codes = NDArray[np.int64]

MOST_ROWS = 10_000  # of one answer


@dataclass(frozen=True, slots=True)
class Table:
    """The answer to a statement: names of columns, and rows of labels and answers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | Answer | None, ...], ...]
    level: float

    def to_dict(self, sql: str) -> dict[str, Any]:
        """The form of `sudare query --json`: rows, low and high have one shape; labels stand in all three."""
        parts = {part: [[_part(cell, part) for cell in row] for row in self.rows] for part in ("value", "low", "high")}
        return {
            "sql": sql,
            "columns": list(self.columns),
            "rows": parts["value"],
            "low": parts["low"],
            "high": parts["high"],
            "level": self.level,
        }


@dataclass(frozen=True, slots=True, eq=False)
class OpenedView:
    """What a data user works with.

    >>> from sudare.methods.view import View
    >>> from sudare.testing import Tabled
    >>> from sudare.testing.tables import even_table
    >>> from sudare.mechanisms import SeededRng
    >>> view = open_view(View(epsilon=10).publish(Tabled(even_table()), rng=SeededRng(1)))
    >>> found = view.count(a0="v0")
    >>> found.low < 320 < found.high
    True
    """

    stored: TableView | BlockView
    certificate: Certificate
    known: dict[int, Pieces] = field(default_factory=dict, repr=False)  # values of attributes that were asked about

    @property
    def schema(self) -> Schema:
        """The attributes it can be asked about."""
        return self.stored.schema

    def count(self, *, level: float = LEVEL, **conditions: Any) -> Answer:
        """Count records: `age=(20, 39)` is a range with both ends, `sex="F"` a value, `sex=["F", "M"]` any of some."""
        terms = tuple(self._test(name, wanted) for name, wanted in conditions.items())
        return self._answer(self._region(Every(terms) if terms else None), level)

    def sql(self, text: str, *, level: float = LEVEL) -> Table:
        """Answer one SELECT; see `sql.SUPPORTED`."""
        from sudare.methods.view.sql import Measure, parse

        question = parse(text, self.schema)
        region = self._region(question.where)
        sizes = [self.schema.sizes[place] for place in question.groups]
        if int(np.prod(sizes, dtype=object)) > MOST_ROWS:
            raise ParameterError("the answer would have more than {most} rows; group by less", most=MOST_ROWS)

        def cell(measure: Measure, part: Region, labels: dict[int, str | None]) -> str | Answer | None:
            if measure.kind == "group" and measure.attribute is not None:
                return labels[measure.attribute]
            return self._measured(measure.kind, measure.attribute, part, level)

        rows = [
            tuple(cell(measure, part, labels) for measure in question.measures)
            for part, labels in self._groups(region, question.groups)
        ]
        return Table(tuple(measure.name for measure in question.measures), tuple(rows), level)

    def ranges(self, lows: Codes, highs: Codes) -> Reals:
        """Count many boxes of codes at once, both ends included, without intervals."""
        stored = self.stored.estimate() if isinstance(self.stored, TableView) else self.stored
        return stored.ranges(lows, highs)

    def marginal(self, names: Sequence[str]) -> Reals:
        """Give the table of some attributes, one axis each."""
        return self.stored.marginal(names)

    def records(self, size: int, *, rng: Rng | None = None) -> Iterator[Codes]:
        """Draw records from the view, in chunks of rows of codes."""
        if not 0 <= size <= 10**12:
            raise ParameterError("the number of records ({size}) must be between 0 and 1e12", size=size)
        randomness = rng or system_rng()
        if isinstance(self.stored, TableView):
            return sample_tables(self.stored, size, rng=randomness)
        return sample_blocks(self.stored, size, rng=randomness)

    def _region(self, where: Predicate | None) -> Region:
        return Region.of(self.schema, where, known=self.known)

    def _test(self, name: str, wanted: Any) -> Predicate:
        if name not in self.schema.names:
            raise ParameterError(
                "the view has no attribute {name}; it has {known}", name=name, known=shown(self.schema.names, 20)
            )
        place = self.schema.position(name)
        if isinstance(wanted, tuple):
            if len(wanted) != 2:
                raise ParameterError("a range of {name} must be two values (low, high)", name=name)
            return between(self.schema, place, *wanted)
        return equal(self.schema, place, list(wanted) if isinstance(wanted, list | set | frozenset) else [wanted])

    def _groups(self, region: Region, groups: Sequence[int]) -> Iterator[tuple[Region, dict[int, str | None]]]:
        for codes in itertools.product(*(range(self.schema.sizes[place]) for place in groups)):
            part, labels = region, {}
            for place, code in zip(groups, codes, strict=True):
                part = part.within(place, code)
                labels[place] = self.schema.attributes[place].labels(np.array([code]))[0]
            yield part, labels

    def _answer(self, region: Region, level: float) -> Answer:
        if not 0.5 <= level < 1:
            raise ParameterError("level ({level}) must be at least 0.5 and below 1", level=level)
        return answer(self.stored.moments(region.weights()), level=level)

    def _measured(self, kind: str, attribute: int | None, region: Region, level: float) -> Answer | None:
        if attribute is None:
            return self._answer(region, level)
        if kind == "count":
            return answer(self.stored.moments(region.present(attribute)), level=level)
        domain = self.schema.attributes[attribute].domain
        edges = domain.edges if isinstance(domain, NumberBins) else (-np.inf, np.inf)
        lowest, highest = float(edges[0]), float(edges[-1])
        if kind == "sum":
            least = 0.0 if lowest >= 0 else -np.inf
            return answer(self.stored.moments(region.numbers(attribute)), level=level, least=least)
        records = self.stored.moments(region.numbered(attribute)).value
        if records <= 0:
            return None  # the mean of nobody
        mean = self.stored.moments(region.numbers(attribute)).value / records
        errors = self.stored.moments(region.numbers(attribute, shift=mean))  # the linear part of a ratio
        scaled = Moments(value=mean, noise=errors.noise / records**2, model=errors.model / records**2)
        return answer(scaled, level=level, least=lowest, most=highest)


def open_view(place: str | Path | Release) -> OpenedView:
    """Open a saved view (or one in memory); a release of another method is refused."""
    release = place if isinstance(place, Release) else Release.load(place)
    return OpenedView(view_of(release), release.certificate)


def _part(cell: str | Answer | None, part: str) -> Any:
    return round(getattr(cell, part), 6) if isinstance(cell, Answer) else cell
