"""A table that was published with its noisy sums, opened for questions in SQL: every sum of cells has its interval.

    SELECT SUM(count) FROM cells WHERE x >= 16 AND x < 100 AND y < 40
    SELECT municipality, SUM(count) FROM areas WHERE prefecture = 'Tokyo' GROUP BY municipality
    SELECT mesh_2, SUM(count) FROM levels GROUP BY mesh_2

The answers are the unbiased figures of least squares, with the exact variance of their noise. Where a condition cuts
through a bin, its people are taken to lie evenly in it, and what that leaves open is added to the interval.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist

import numpy as np

from sudare.asking.answers import LEVEL, AnswerTable
from sudare.asking.cut_bins import judge_cut_bins
from sudare.asking.protocol import AttributeCells, AxisWeight, Moments, WeightBox, find_step
from sudare.asking.syntax import refuse
from sudare.errors import ParameterError
from sudare.methods.table.estimates import TableFigures, read_table
from sudare.methods.table.large_measured import LargeFigures, LargeMeasured
from sudare.methods.table.linked import find_groups
from sudare.methods.table.margins import COUNT, find_margin
from sudare.releases import Release
from sudare.schema import MISSING_LABEL, Attribute, DateBins, NumberBins, Schema, Values
from sudare.schema.arrays import Codes, Reals
from sudare.text import text

CELLS, AREAS, LEVELS = "cells", "areas", "levels"
NORMAL_QUANTILE = NormalDist().inv_cdf((1 + LEVEL) / 2)
_RECORDS = "COUNT(*)"  # what SUM(count) is asked as
_TEXTS = re.compile(r"""('(?:[^']|'')*')""")  # of a statement: nothing inside them is a name
_SUM = re.compile(rf"""\bSUM\s*\(\s*(?:\w+\s*\.\s*)?(?:"{COUNT}"|{COUNT})\s*\)""", re.IGNORECASE)
_SUM_IF = re.compile(  # SUM(CASE WHEN age = '65+' THEN count ELSE 0 END): the records of a condition
    rf"""\bSUM\s*\(\s*CASE\s+WHEN\b((?:(?!\b(?:WHEN|THEN)\b).)+)\bTHEN\s+(?:"{COUNT}"|{COUNT})\s+(?:ELSE\s+0\s+)?END\s*\)""",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenedTable:
    """What a data user asks, with `SUM(count)` or `COUNT(*)` for the number of records.

    `FROM cells` knows the attributes, `FROM areas` also the levels of declared areas, `FROM levels` also the levels of
    hierarchies and of the mesh, as `mesh_1`, `mesh_2`, ... `FROM municipality` means `FROM areas`. `pieces` are what is
    summed: leaves with their codes by attribute, and the share of a leaf where areas split it. In a large table
    `lifted` leads from an added column to the attribute whose groups it holds, and the group of each of its values.
    """

    figures: TableFigures | LargeFigures
    schema: Schema
    pieces: tuple[Codes, Codes, Reals]
    lifted: Mapping[int, tuple[int, Codes]] = field(default_factory=dict)

    @classmethod
    def of_cells(cls, figures: TableFigures) -> OpenedTable:
        """The cells by their own attributes."""
        leaves, columns = figures.cells
        return cls(figures=figures, schema=figures.schema, pieces=(leaves, columns, np.ones(len(leaves))))

    @classmethod
    def of_boxes(cls, figures: LargeFigures) -> OpenedTable:
        """The cells of a large table, which are known in boxes."""
        nothing = np.zeros(0, dtype=np.int64)
        pieces = (nothing, nothing.reshape(0, len(figures.schema.names)), np.zeros(0))
        return cls(figures=figures, schema=figures.schema, pieces=pieces)

    @classmethod
    def of_box_levels(cls, figures: LargeFigures) -> OpenedTable:
        """The cells of a large table also by levels of hierarchies."""
        own, lifted = figures.schema.attributes, {}
        more: list[Attribute] = []
        for position, one in enumerate(own):
            if (hierarchy := one.hierarchy) is None:
                continue
            for level in _list_levels(one):
                lifted[len(own) + len(more)] = position, hierarchy.lift(np.arange(one.size), level)
                labels = hierarchy.labels(np.arange(hierarchy.size(level)), level)
                more.append(Attribute(name=f"{one.name}_{level}", domain=Values(tuple(map(_show, labels.tolist())))))
        opened = cls.of_boxes(figures)
        return replace(opened, schema=replace(figures.schema, attributes=(*own, *more)), lifted=lifted)

    @classmethod
    def of_groups(cls, figures: TableFigures, names: Sequence[str]) -> OpenedTable:
        """The cells also by groups: levels of areas, or of hierarchies (`mesh:1`, asked as `mesh_1`)."""
        own = figures.schema.names
        groups = find_groups(figures.schema, figures.measured.layout, (*own, *names))
        more = [
            Attribute(name=column.name.replace(":", "_"), domain=Values(tuple(map(_show, column.labels))))
            for column in groups.columns[len(own) :]
        ]
        schema = replace(figures.schema.without_areas, attributes=(*figures.schema.attributes, *more))
        shares = np.ones(len(groups.leaves)) if groups.weights is None else groups.weights
        return cls(figures=figures, schema=schema, pieces=(groups.leaves, groups.keys[groups.groups], shares))

    def sql(self, statement: str, *, level: float = LEVEL) -> AnswerTable:
        """Answer one SELECT from `cells`, `areas`, `levels`, or a level by its name."""
        from sudare.asking.statement import ask_statement
        from sudare.asking.syntax import fold_width

        statement = fold_width(statement)
        try:
            counted = self._count_records(statement)
            answer = ask_statement(counted, self._find_sources(statement), level=level)
            return answer if _RECORDS in statement.upper() else _name_as_written(answer)
        except ParameterError as error:
            if str(error.text.values.get("name", "")).casefold() == COUNT:
                raise _refuse_count() from error
            raise

    def _find_sources(self, statement: str) -> dict[str, OpenedTable]:
        """The tables that a statement may name; a level of areas or of a hierarchy stands for its table."""
        named, sources = statement.casefold(), {CELLS: self}
        for source, names in ((AREAS, self._area_names), (LEVELS, [name.replace(":", "_") for name in self._levels])):
            asked = [name for name in (source, *names) if name.casefold() in named]
            asked += [source] if CELLS not in named and source not in asked else []  # a wrong name is told all of them
            table = (self.areas if source == AREAS else self.levels) if asked else None
            sources |= {} if table is None else {name.casefold(): table for name in asked}
        return sources

    @property
    def _area_names(self) -> list[str]:
        return [level for division in self.schema.areas for level in division.levels]

    @property
    def _levels(self) -> list[str]:
        return [f"{one.name}:{level}" for one in self.schema.attributes for level in _list_levels(one)]

    @cached_property
    def areas(self) -> OpenedTable | None:
        """What is asked `FROM areas`; None where none are declared."""
        names = self._area_names
        return self.of_groups(self.figures, names) if names and isinstance(self.figures, TableFigures) else None

    @cached_property
    def levels(self) -> OpenedTable | None:
        """What is asked `FROM levels`; None without hierarchies, or where an attribute has the name of a level."""
        names = self._levels
        is_free = not {name.replace(":", "_") for name in names} & set(self.schema.names)
        if not is_free or not names:
            return None
        if isinstance(self.figures, LargeFigures):
            return self.of_box_levels(self.figures)
        return self.of_groups(self.figures, names)

    def _count_records(self, statement: str) -> str:
        """Write COUNT(*) for the sum of the column of counts, unless an attribute has its name."""
        if COUNT in {name.casefold() for name in self.schema.names}:
            return statement
        parts = _TEXTS.split(_SUM_IF.sub(r"SUM(CASE WHEN\1THEN 1 ELSE 0 END)", statement))
        return "".join(part if place % 2 else _SUM.sub(_RECORDS, part) for place, part in enumerate(parts))

    @property
    def public_total(self) -> int | None:
        """How many records there are, where everybody knows it: no figure is told to be above it."""
        measured = self.figures.measured
        return measured.total if np.isfinite(measured.public_total) else None

    def cells(self, attribute: int) -> AttributeCells:
        """The values of an attribute; bins have their edges."""
        if attribute not in self._known_cells:
            self._known_cells[attribute] = describe_cells(self.schema.attributes[attribute])
        return self._known_cells[attribute]

    @cached_property
    def _known_cells(self) -> dict[int, AttributeCells]:
        return {}

    def moments(self, boxes: Sequence[WeightBox]) -> Moments:
        """Estimate a weighted sum of records, with the variance of its noise and of what lies inside cut cells."""
        leaves, weights, squares = self._weigh(boxes)
        if not len(leaves):
            return Moments(value=0.0, noise=0.0, model=0.0)
        measured = self.figures.measured
        figure = measured.squares.answer(leaves, weights)
        factor = measured.factor_for(leaves, weights)  # at the usual level, intervals are the margins of the files
        error = np.array(figure.standard_error)
        deviation = float(find_margin(factor, error, weights=weights)) / NORMAL_QUANTILE
        varying = np.maximum(squares - weights**2, 0.0)
        is_cut = varying > 1e-12 * squares
        people = is_cut * (
            self.figures.people(leaves)
            if isinstance(self.figures, LargeFigures)
            else np.maximum(self.figures.published[leaves], 1)
        )
        inside = float((people**2.0 * varying).sum()) + self._judge_bins(boxes)
        published = None
        if isinstance(self.figures, TableFigures):
            published = float((self.figures.published[leaves] * weights).sum())
        return Moments(value=figure.estimate, noise=deviation**2, model=0.0, inside=inside, published=published)

    def _judge_bins(self, boxes: Sequence[WeightBox]) -> float:
        """The variance for what lies inside bins, by the published counts."""
        if isinstance(self.figures, LargeFigures):
            table = self.figures.table
            boxes, columns, people = list(map(self._lower, boxes)), table.columns(), table.values.astype(np.float64)
        else:
            leaves, columns, shares = self.pieces
            people = self.figures.published[leaves] * shares
        read = [{attribute: _read(weight) for attribute, weight in box.items()} for box in boxes]
        return judge_cut_bins(read, columns, people, self.cells)

    def _weigh(self, boxes: Sequence[WeightBox]) -> tuple[Codes, Reals, Reals]:
        """The leaves that weigh anything, their weights, and the means of squared weights inside them."""
        if isinstance(self.figures, LargeFigures):
            return self.figures.measured.weigh([self._lower(box) for box in boxes])
        leaves, columns, shares = self.pieces
        total, square = np.zeros(len(leaves)), np.zeros(len(leaves))
        for box in boxes:
            inside = np.arange(len(leaves))
            for attribute, weight in box.items():
                inside = inside[(_mean(weight)[columns[inside, attribute]] != 0)]
            mean, squared = np.ones(len(inside)), np.ones(len(inside))
            for attribute, weight in box.items():
                codes = columns[inside, attribute]
                mean *= _mean(weight)[codes]
                squared *= _mean(weight)[codes] ** 2  # what lies inside bins is judged bin by bin
            total[inside] += mean * shares[inside]
            square[inside] += squared * shares[inside]
        kept = np.flatnonzero((total != 0) | (square != 0))
        if bool((shares == 1).all()):
            return leaves[kept], total[kept], square[kept]
        whole, place = np.unique(leaves[kept], return_inverse=True)  # the pieces of a leaf count together
        sums = (np.bincount(place, weights=one[kept]).astype(np.float64) for one in (total, square))
        return whole, *sums  # type: ignore[return-value]

    def _lower(self, box: WeightBox) -> WeightBox:
        """Turn weights of groups into weights of the values in them."""
        found: dict[int, AxisWeight] = {}
        for column, weight in box.items():
            attribute, groups = self.lifted.get(column, (column, None))
            lowered = _read(weight)
            if groups is not None:
                lowered = AxisWeight(lowered.mean[groups], lowered.square[groups])
            if attribute in found:
                own = found[attribute]
                lowered = AxisWeight(lowered.mean * own.mean, lowered.square * own.square)
            found[attribute] = lowered
        return found


def _name_as_written(answer: AnswerTable) -> AnswerTable:
    """Columns of a statement with SUM(count), which was asked as COUNT(*), by the name that they were written with."""
    return replace(answer, columns=tuple([name.replace(_RECORDS, f"SUM({COUNT})") for name in answer.columns]))


def _refuse_count() -> ParameterError:
    """The refusal of the counts as a column: a statement is about records, and SUM(count) is how many there are."""
    return refuse(
        text("the column count outside of SUM(count)"),
        text(
            "SUM(count) is the number of records, and AVG of an attribute is a mean over records; for the mean of cells"
            " or groups divide SUM(count) by how many there are"
        ),
    )


def _show(label: str | None) -> str:
    return MISSING_LABEL if label is None else str(label)


def _list_levels(attribute: Attribute) -> range:
    """The levels of a hierarchy below the one that holds all values."""
    top = attribute.height
    is_one = attribute.hierarchy is not None and attribute.hierarchy.size(top) == 1
    return range(1, top + (not is_one))


def _read(weight: AxisWeight | Reals) -> AxisWeight:
    return weight if isinstance(weight, AxisWeight) else AxisWeight.exactly(weight)


def _mean(weight: AxisWeight | Reals) -> Reals:
    return weight.mean if isinstance(weight, AxisWeight) else weight


def describe_cells(attribute: Attribute) -> AttributeCells:
    """Describe the values of an attribute as cells that a condition may cut: bins have edges, labels have none."""
    codes = np.arange(attribute.size)
    domain = attribute.domain
    if not isinstance(domain, NumberBins | DateBins):
        return AttributeCells(codes)
    step = find_step(attribute)
    if isinstance(domain, DateBins):
        return AttributeCells(codes, tuple(Fraction(day.toordinal()) for day in domain.edges), step)
    edges = tuple(Fraction(edge) for edge in domain.edges)
    if step is not None and domain.widest > step:  # the last bin holds its end
        edges = (*edges[:-1], edges[-1] + step)
    return AttributeCells(codes, edges, step)


def open_table(release: Release) -> OpenedTable:
    """Open a published table for questions.

    Error: ReleaseError if it has no noisy sums, ParameterError if it is no table.
    """
    if release.certificate.method != "table":
        raise ParameterError("the release was made by {method}; it is not a table", method=release.certificate.method)
    table, measured = read_table(release)
    if isinstance(measured, LargeMeasured):
        return OpenedTable.of_boxes(LargeFigures(measured=measured, table=table))
    return OpenedTable.of_cells(TableFigures(measured=measured, table=table))
