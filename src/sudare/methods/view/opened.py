"""Records drawn from a view, chunk by chunk: as many as wanted, since the view is public already."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from sudare.asking.answers import LEVEL, AnswerTable, Estimate
from sudare.asking.conditions import count_where
from sudare.asking.protocol import AttributeCells, Moments, ShiftedSum, WeightBox
from sudare.errors import ParameterError
from sudare.methods.view.blocks import BlockView
from sudare.methods.view.published import view_of
from sudare.methods.view.tables import TableView
from sudare.releases import Certificate, Frame, Release
from sudare.schema import Schema
from sudare.schema.arrays import Codes, Reals
from sudare.schema.schema import show_schema

if TYPE_CHECKING:  # what draws records is loaded when some are drawn: a question needs none
    from sudare.noise import Rng

CHUNK = 2**18


def sample_tables(view: TableView, size: int, *, rng: Rng, as_leaves: bool = False) -> Iterator[Codes]:
    """Draw from the cliques, parents first, then a value within each bin.

    Uniforms are systematic: the records that share a parent cell are spread evenly over its children, so that sampling
    adds little to the error of the view.
    """
    from sudare.methods.view.sampling import draw_bins
    from sudare.noise.public import draw_columns

    for chunk in _chunks(size):
        if view.records is None:
            bins = draw_bins(view.factors, chunk, rng=rng)
        else:  # systematic too: a record is taken as often as its weight says, rounded up or down
            rows = draw_columns(np.zeros(chunk, dtype=np.int64), view.records.weights[None, :], rng=rng)
            bins = view.records.bins[rows]
        yield _values(view, bins, rng, as_leaves=as_leaves)


def sample_blocks(view: BlockView, size: int, *, rng: Rng) -> Iterator[Codes]:
    """Draw blocks by their count (nothing from those below 0), then a cell of the block evenly."""
    from sudare.noise.public import draw_columns, draw_offsets

    mass = np.maximum(view.counts, 0.0)
    if not mass.sum() > 0:
        mass = np.ones(mass.size)
    widths = view.highs - view.lows + 1
    for chunk in _chunks(size):
        rows = draw_columns(np.zeros(chunk, dtype=np.int64), mass[None, :], rng=rng)
        yield view.lows[rows] + draw_offsets(widths[rows], rng=rng)


def _values(view: TableView, bins: Codes, rng: Rng, *, as_leaves: bool) -> Codes:
    """A value within the bin of every attribute, or the leaf that it lies in."""
    from sudare.noise.public import draw_columns

    out = np.empty_like(bins)
    for place, (of_value, share) in enumerate(zip(view.bins, view.shares, strict=True)):
        table = np.zeros((int(of_value.max()) + 1, of_value.size))
        table[of_value, np.arange(of_value.size)] = share[0]
        leaves = draw_columns(bins[:, place], table, rng=rng)
        out[:, place] = leaves if as_leaves else view.axes[place].codes[leaves]
    return out


def _chunks(size: int) -> Iterator[int]:
    while size > 0:
        yield min(size, CHUNK)
        size -= CHUNK


# A released view, opened: it answers counts, SQL and gives records. No private table is near.


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
    known: dict[int, AttributeCells] = field(default_factory=dict, repr=False)  # of attributes that were asked about

    @property
    def schema(self) -> Schema:
        """The attributes it can be asked about."""
        return self.stored.schema

    def count(self, *, level: float = LEVEL, **conditions: Any) -> Estimate:
        """Count records: `age=(20, 39)` is a range with both ends, `sex="F"` a value, `sex=["F", "M"]` any of some."""
        return count_where(self, conditions, level=level)

    def sql(self, statement: str, *, level: float = LEVEL, **others: OpenedView) -> AnswerTable:
        """Answer one SELECT, FROM view or the name of its schema, or from another opened view by its name here.

        What is answered, and what is refused: docs/how-to/view-queries.md
        """
        from sudare.asking.statement import ask_statement

        return ask_statement(statement, {self.schema.name: self, "view": self, **others}, level=level)

    def cells(self, attribute: int) -> AttributeCells:
        """The finest parts of an attribute that it knows; see `asking.protocol`."""
        if attribute not in self.known:
            axis = self.stored.axes[attribute]
            edges = (*axis.lows, axis.highs[-1]) if axis.lows else ()
            self.known[attribute] = AttributeCells(axis.codes, edges, axis.grain, axis.is_supposed)
        return self.known[attribute]

    def moments(self, boxes: Sequence[WeightBox]) -> Moments:
        """Estimate a weighted count over disjoint boxes; see `asking.protocol`."""
        return self.stored.moments(boxes)

    def moments_of_all(self, questions: Sequence[Sequence[WeightBox]]) -> list[Moments]:
        """Estimate many weighted counts at once; see `asking.protocol`."""
        if isinstance(self.stored, TableView):
            return self.stored.moments_of_all(questions)
        return [self.stored.moments(boxes) for boxes in questions]

    def moments_of_shifts(self, sums: Sequence[ShiftedSum]) -> list[Moments | None]:
        """Estimate sums that follow from others just asked for; see `asking.protocol`."""
        return self.stored.moments_of_shifts(sums) if isinstance(self.stored, TableView) else [None] * len(sums)

    def find_independent(self, attributes: frozenset[int]) -> Sequence[tuple[int, int]]:
        """The pairs of these attributes that the view supposes to be independent; see `asking.protocol`."""
        return self.stored.find_independent(attributes) if isinstance(self.stored, TableView) else ()

    def ranges(self, lows: Codes, highs: Codes) -> Reals:
        """Count many boxes of codes at once, both ends included, without intervals."""
        stored = self.stored.estimate() if isinstance(self.stored, TableView) else self.stored
        return stored.ranges(lows, highs)

    def marginal(self, names: Sequence[str]) -> Reals:
        """Give the table of some attributes, one axis each."""
        return self.stored.marginal(names)

    def records(self, size: int, *, rng: Rng | None = None) -> Iterator[Codes]:
        """Draw records from the view, in chunks of rows of codes."""
        from sudare.noise import system_rng

        if not 0 <= size <= 10**12:
            raise ParameterError("the number of records ({size}) must be between 0 and 1e12", size=size)
        randomness = rng or system_rng()
        if isinstance(self.stored, TableView):
            return sample_tables(self.stored, size, rng=randomness)
        return sample_blocks(self.stored, size, rng=randomness)

    def leaf_records(self, size: int, *, rng: Rng) -> Iterator[Codes]:
        """Draw records as leaves: the finest parts of attributes that the view knows."""
        if isinstance(self.stored, TableView):
            return sample_tables(self.stored, size, rng=rng, as_leaves=True)
        return sample_blocks(self.stored, size, rng=rng)

    def sample(self, size: int, *, rng: Rng | None = None) -> Frame:
        """Draw records as a table with the labels of the schema; `records` streams more than memory holds."""
        from sudare.methods.columns import coded as encode_column

        chunks = list(self.records(size, rng=rng))
        codes = np.concatenate(chunks) if chunks else np.empty((0, len(self.schema.attributes)), dtype=np.int64)
        return Frame(
            {
                attribute.name: encode_column(attribute, np.ascontiguousarray(codes[:, position]))
                for position, attribute in enumerate(self.schema.attributes)
            }
        )

    def __repr__(self) -> str:
        return f"<View of {self.schema.name}: {', '.join(self.schema.names)}>"

    def _repr_html_(self) -> str:
        """Show what the view can be asked about in a notebook."""
        return show_schema(self.schema)


def open_view(place: str | Path | Release) -> OpenedView:
    """Open a saved view (or one in memory); a release of another method is refused."""
    release = place if isinstance(place, Release) else Release.load(place)
    return OpenedView(view_of(release), release.certificate)


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
