"""Records drawn from a view, chunk by chunk: as many as wanted, since the view is public already."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.methods.columns import coded as encode_column
from sudare.methods.view.blocks import BlockView
from sudare.methods.view.conditions import BinPieces, Every, Predicate, Region
from sudare.methods.view.junction_tree import reach
from sudare.methods.view.published import view_of
from sudare.methods.view.sql import between, equal
from sudare.methods.view.tables import LEVEL, Estimate, TableView, answer
from sudare.noise import Rng, system_rng
from sudare.noise.public import draw_columns, draw_offsets
from sudare.releases import Certificate, Coded, Frame, Release
from sudare.schema import NumberBins, Schema
from sudare.schema.arrays import Codes, Reals
from sudare.schema.raw import list_some
from sudare.schema.schema import show_schema
from sudare.text import text
from sudare.text.cards import card, figure

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

CHUNK = 2**18


def sample_tables(view: TableView, size: int, *, rng: Rng) -> Iterator[Codes]:
    """Draw from the cliques, parents first, then a value within each bin.

    Uniforms are systematic: the records that share a parent cell are spread evenly over its children, so that sampling
    adds little to the error of the view.
    """
    steps, widths = _order(view), [int(bins.max()) + 1 for bins in view.bins]
    for chunk in _chunks(size):
        bins = np.zeros((chunk, len(view.schema.attributes)), dtype=np.int64)
        for table, given, fresh in steps:
            _extend(bins, table, given, fresh, widths, rng)
        yield _values(view, bins, rng)


def sample_blocks(view: BlockView, size: int, *, rng: Rng) -> Iterator[Codes]:
    """Draw blocks by their count (nothing from those below 0), then a cell of the block evenly."""
    mass = np.maximum(view.counts, 0.0)
    if not mass.sum() > 0:
        mass = np.ones(mass.size)
    widths = view.highs - view.lows + 1
    for chunk in _chunks(size):
        rows = draw_columns(np.zeros(chunk, dtype=np.int64), mass[None, :], rng=rng)
        yield view.lows[rows] + draw_offsets(widths[rows], rng=rng)


SamplingStep = tuple[
    Reals, list[int], list[int]
]  # table (given cells, fresh cells), attributes given, attributes drawn


def _order(view: TableView) -> list[SamplingStep]:
    """The cliques from the roots down, each as a table of what is new in it given what is known."""
    tree, tables = view.factors.tree, view.factors.tables
    near, seen = tree.neighbours(), set[int]()
    steps: list[SamplingStep] = []
    known: set[int] = set()
    for root in range(len(tree.cliques)):
        if root in seen:
            continue
        for place in reach(near, root):
            seen.add(place)
            clique = tree.cliques[place]
            given = [attribute for attribute in clique if attribute in known]
            fresh = [attribute for attribute in clique if attribute not in known]
            if not fresh:
                continue
            axes = [clique.index(attribute) for attribute in (*given, *fresh)]
            table = tables[place][0].transpose(axes)
            rows = int(np.prod([table.shape[axis] for axis in range(len(given))], dtype=np.int64))
            steps.append((table.reshape(rows, -1), given, fresh))
            known |= set(fresh)
    return steps


def _extend(bins: Codes, table: Reals, given: list[int], fresh: list[int], widths: list[int], rng: Rng) -> None:
    """Draw the fresh attributes of every row, given the known ones."""
    row = np.zeros(len(bins), dtype=np.int64)
    for attribute in given:
        row = row * widths[attribute] + bins[:, attribute]
    cell = draw_columns(row, table, rng=rng)
    for attribute in reversed(fresh):
        cell, bins[:, attribute] = np.divmod(cell, widths[attribute])


def _values(view: TableView, bins: Codes, rng: Rng) -> Codes:
    """A value within the bin of every attribute."""
    out = np.empty_like(bins)
    for place, (of_value, share) in enumerate(zip(view.bins, view.shares, strict=True)):
        table = np.zeros((int(of_value.max()) + 1, of_value.size))
        table[of_value, np.arange(of_value.size)] = share[0]
        out[:, place] = view.axes[place].codes[draw_columns(bins[:, place], table, rng=rng)]
    return out


def _chunks(size: int) -> Iterator[int]:
    while size > 0:
        yield min(size, CHUNK)
        size -= CHUNK


# A released view, opened: it answers counts, SQL and gives records. No private table is near.


MOST_ROWS = 10_000  # of one answer


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """The answer to a statement: names of columns, and rows of labels and answers."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | Estimate | None, ...], ...]
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

    def to_frame(self) -> Frame:
        """Give the answers as a table: a number becomes three columns, itself, its `_low` and its `_high`."""
        columns: dict[str, Coded | NDArray[Any]] = {}
        for name, cells in zip(self.columns, zip(*self.rows, strict=True), strict=True):
            if all(isinstance(cell, Estimate) or cell is None for cell in cells) and any(
                isinstance(cell, Estimate) for cell in cells
            ):
                for part, ending in (("value", ""), ("low", "_low"), ("high", "_high")):
                    numbers = [math.nan if cell is None else getattr(cell, part) for cell in cells]
                    columns[name + ending] = np.array(numbers)
            else:
                columns[name] = Coded(np.arange(len(cells)), np.array(cells, dtype=object))
        return Frame(columns)

    def to_pandas(self) -> pandas.DataFrame:
        """Give the answers as a pandas frame, with the ends of the intervals beside every number."""
        return self.to_frame().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """Give the answers as a Polars frame, with the ends of the intervals beside every number."""
        return self.to_frame().to_polars()

    def to_arrow(self) -> pyarrow.Table:
        """Give the answers as Arrow, with the ends of the intervals beside every number."""
        return self.to_frame().to_arrow()

    def _repr_html_(self) -> str:
        """Show the answers in a notebook, each number with its interval as a line."""
        ends = [abs(end) for row in self.rows for cell in row if isinstance(cell, Estimate)
                for end in (cell.low, cell.high)]  # fmt: skip
        stop = max(ends, default=1.0)
        rows = [tuple(piece for cell in row for piece in _draw_cell(cell, stop)) for row in self.rows]
        heads = [
            piece
            for place, name in enumerate(self.columns)
            for piece in ((name, "") if any(isinstance(row[place], Estimate) for row in self.rows) else (name,))
        ]
        return card(text("interval of level {level}", level=self.level), columns=heads, rows=rows)


@dataclass(frozen=True, slots=True, eq=False)
class OpenedView:
    """What a data user works with.

    >>> from sudare.methods.view import View
    >>> from sudare.testing import Tabled
    >>> from sudare.testing.subject import even_table
    >>> from sudare.noise import SeededRng
    >>> view = open_view(View(epsilon=10).publish(Tabled(even_table()), rng=SeededRng(1)))
    >>> found = view.count(a0="v0")
    >>> found.low < 320 < found.high
    True
    """

    stored: TableView | BlockView
    certificate: Certificate
    known: dict[int, BinPieces] = field(default_factory=dict, repr=False)  # values of attributes that were asked about

    @property
    def schema(self) -> Schema:
        """The attributes it can be asked about."""
        return self.stored.schema

    def count(self, *, level: float = LEVEL, **conditions: Any) -> Estimate:
        """Count records: `age=(20, 39)` is a range with both ends, `sex="F"` a value, `sex=["F", "M"]` any of some."""
        terms = tuple(self._test(name, wanted) for name, wanted in conditions.items())
        return self._answer(self._region(Every(terms) if terms else None), level)

    def sql(self, statement: str, *, level: float = LEVEL) -> AnswerTable:
        """Answer one SELECT; see `sql.SUPPORTED`."""
        from sudare.methods.view.sql import AnswerColumn, parse

        question = parse(statement, self.schema)
        region = self._region(question.where)
        sizes = [self.schema.sizes[place] for place in question.groups]
        if int(np.prod(sizes, dtype=object)) > MOST_ROWS:
            raise ParameterError(
                "the answer would have more than {most} rows; group by fewer attributes", most=MOST_ROWS
            )

        def cell(measure: AnswerColumn, part: Region, labels: dict[int, str | None]) -> str | Estimate | None:
            if measure.kind == "group" and measure.attribute is not None:
                return labels[measure.attribute]
            return self._measured(measure.kind, measure.attribute, part, level)

        rows = [
            tuple(cell(measure, part, labels) for measure in question.measures)
            for part, labels in self._groups(region, question.groups)
        ]
        return AnswerTable(tuple(measure.name for measure in question.measures), tuple(rows), level)

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

    def sample(self, size: int, *, rng: Rng | None = None) -> Frame:
        """Draw records as a table with the labels of the schema; `records` streams more than memory holds."""
        chunks = list(self.records(size, rng=rng))
        codes = np.concatenate(chunks) if chunks else np.empty((0, len(self.schema.attributes)), dtype=np.int64)
        return Frame(
            {
                attribute.name: encode_column(attribute, np.ascontiguousarray(codes[:, position]))
                for position, attribute in enumerate(self.schema.attributes)
            }
        )

    def _repr_html_(self) -> str:
        """Show what the view can be asked about in a notebook."""
        return show_schema(self.schema)

    def _region(self, where: Predicate | None) -> Region:
        return Region.of(self.schema, self.stored.axes, where, known=self.known)

    def _test(self, name: str, wanted: Any) -> Predicate:
        if name not in self.schema.names:
            raise ParameterError(
                "the view has no attribute {name}; it has {known}", name=name, known=list_some(self.schema.names, 20)
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

    def _answer(self, region: Region, level: float) -> Estimate:
        if not 0.5 <= level < 1:
            raise ParameterError("level ({level}) must be at least 0.5 and below 1", level=level)
        return answer(self.stored.moments(region.weights()), level=level)

    def _measured(self, kind: str, attribute: int | None, region: Region, level: float) -> Estimate | None:
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
        known = self.stored.moments(region.numbered(attribute))
        records = known.value
        if records <= 0:
            return None  # the mean of nobody
        mean = self.stored.moments(region.numbers(attribute)).value / records
        errors = self.stored.moments(region.numbers(attribute, shift=mean))  # the linear part of a ratio
        doubt = (known.reach(level) / records) ** 2  # Fieller: where records may be none, the mean may be anything
        if doubt >= 1:
            whole = answer(errors.scaled(mean, records), level=level, least=lowest, most=highest)
            return replace(whole, low=lowest, high=highest)
        scaled = errors.scaled(mean, records * math.sqrt(1 - doubt))
        return answer(scaled, level=level, least=lowest, most=highest)


def open_view(place: str | Path | Release) -> OpenedView:
    """Open a saved view (or one in memory); a release of another method is refused."""
    release = place if isinstance(place, Release) else Release.load(place)
    return OpenedView(view_of(release), release.certificate)


def _draw_cell(cell: str | Estimate | None, stop: float) -> tuple[object, ...]:
    if isinstance(cell, Estimate):
        return cell, figure(cell.low, cell.value, cell.high, start=min(0.0, cell.low), stop=stop)
    return ("" if cell is None else cell,)


def _part(cell: str | Estimate | None, part: str) -> Any:
    return round(getattr(cell, part), 6) if isinstance(cell, Estimate) else cell


def write_records(
    view: OpenedView, size: int, stream: TextIO, *, rng: Rng, progress: Callable[[float], None] | None = None
) -> None:
    """Draw records and write them as CSV, chunk by chunk."""
    attributes = view.schema.attributes
    fields = [
        [_write_field(label) for label in attribute.labels(np.arange(attribute.size)).tolist()]
        for attribute in attributes
    ]
    records = view.records(size, rng=rng)  # refuses a size before anything is written
    stream.write(",".join(_write_field(attribute.name) for attribute in attributes) + "\n")
    done = 0
    for codes in records:
        columns = [np.array(labels, dtype=object)[codes[:, place]].tolist() for place, labels in enumerate(fields)]
        stream.write("\n".join(map(",".join, zip(*columns, strict=True))) + "\n")
        done += len(codes)
        if progress is not None:
            progress(done / max(size, 1))


def _write_field(label: str | None) -> str:
    """Write a label as a field of CSV, quoted where it must be."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([label])
    return line.getvalue() if label is not None else ""
