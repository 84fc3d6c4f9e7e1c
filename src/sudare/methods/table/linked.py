"""Further tables of one release: margins by attributes, levels of hierarchies and areas, linked to the same cells.

A further table is a list of names: attributes (`age`), levels of their hierarchies (`age:1`), levels of declared areas
(`municipality`). Each of its groups is a sum of cells, so all tables of a release agree where they share margins. A
table with a share of the promise is measured on its own, with noise for every group, and takes part in the least
squares (`postprocess.linked_squares`); one without a share is only added up. Totals that are known exactly are a table
without noise.

    municipality=1/4, municipality*age*sex=1/5, prefecture
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.methods.table.levels import LeafLayout
from sudare.methods.table.measured import MeasuredTable
from sudare.noise import CountNoise, Rng
from sudare.postprocess.least_squares import LeastSquares
from sudare.postprocess.linked_squares import LinkedSquares
from sudare.schema import Areas, Schema
from sudare.schema.arrays import Codes, Integers, Labels, Reals

AREAS_SHARE = Fraction(1, 4)  # of pure epsilon for the finest level of areas: chosen on a made-up map (proofs/areas.md)
MOST_TABLES = 50
NOT_GIVEN = -1  # of a total that others have not published
LEAST_REST = Fraction(1, 50)  # of the promise that is left to the cells and the sums above them


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """A further table: the names it is divided by, and its share of the promise (0: added up only).

    `is_exact` says that its sums are known exactly.
    """

    names: tuple[str, ...]
    share: Fraction = Fraction(0)
    is_exact: bool = False

    def __str__(self) -> str:
        written = "*".join(self.names)
        return f"{written}={self.share}" if self.share else written


def read_tables(written: Sequence[str], schema: Schema) -> tuple[TableSpec, ...]:
    """Read further tables as a steward writes them.

    >>> from sudare.schema import Attribute, Values
    >>> schema = Schema(name="people", attributes=(Attribute(name="sex", domain=Values(("F", "M"))),))
    >>> [str(table) for table in read_tables(("sex=0.25",), schema)]
    ['sex=1/4']
    """
    tables = tuple(_read_table(item, schema) for item in written)
    if len(tables) > MOST_TABLES:
        raise ParameterError("at most {most} further tables can be published", most=MOST_TABLES)
    titles = [table.names for table in tables]
    if len(set(titles)) < len(titles):
        raise ParameterError("tables ({written}) lists a table twice", written=", ".join(written))
    if sum(table.share for table in tables) > 1 - LEAST_REST:
        raise ParameterError(
            "the shares of tables must leave at least {rest} of the promise to the cells", rest=LEAST_REST
        )
    return tables


def _read_table(item: str, schema: Schema) -> TableSpec:
    written, equals, number = item.partition("=")
    names = tuple(name.strip() for name in written.split("*"))
    try:
        share = Fraction(number.strip()) if equals else Fraction(0)
    except (ValueError, ZeroDivisionError):
        share = Fraction(-1)
    if not 0 <= share < 1:
        raise ParameterError("the share of table {item} must be a number from 0 to below 1, such as 1/4", item=item)
    if len(set(names)) < len(names):
        raise ParameterError("table {item} names something twice", item=item)
    for name in names:
        find_column(schema, name)
    return TableSpec(names=names, share=share)


# --- groups -----------------------------------------------------------------------------------------------------------


class GroupColumn(NamedTuple):
    """What a name of a table stands for: its labels, and how the codes of cells lead to them."""

    name: str
    labels: Labels
    attribute: int = -1
    level: int = 0
    division: Areas | None = None


def find_column(schema: Schema, name: str) -> GroupColumn:
    """Find an attribute, a level of one, or a level of areas by its name."""
    for division in schema.areas:
        if name in division.levels:
            labels = np.empty(len(division.names[name]), dtype=object)
            labels[:] = division.names[name]
            return GroupColumn(name, labels, division=division)
    bare, _, written = name.rpartition(":") if name not in schema.names else (name, "", "")
    level = int(written) if written.isascii() and written.isdigit() and len(written) < 4 else 0
    if bare in schema.names and (not written or 1 <= level <= schema.attribute(bare).height):
        attribute = schema.attribute(bare)
        coarse = attribute.coarsen(level)
        return GroupColumn(name, coarse.labels(np.arange(coarse.size)), schema.names.index(bare), level)
    levels = [level for division in schema.areas for level in division.levels]
    raise ParameterError(
        "there is no {name} to divide a table by; there are {known}",
        name=name or '""',
        known=", ".join([*schema.names, *levels]),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class TableGroups:
    """The groups of a further table: `keys[g]` the codes of its columns; leaf `leaves[i]` lies in group `groups[i]`.

    Where areas split cells, a leaf lies in several groups, with `weights`; None where every leaf lies in one.
    """

    columns: tuple[GroupColumn, ...]
    keys: Codes
    leaves: Codes
    groups: Codes
    weights: Reals | None

    @cached_property
    def sizes(self) -> Integers:
        """How many leaves every group has."""
        return np.bincount(self.groups, minlength=len(self.keys)).astype(np.int64)


def possible_cells(layout: LeafLayout) -> tuple[Codes, Codes]:
    """All possible cells: their leaves, and their codes (m, attributes)."""
    leaves = np.flatnonzero(layout.is_possible)
    return leaves, layout.columns(leaves)


def find_groups(schema: Schema, layout: LeafLayout, names: Sequence[str], *, as_split: bool = True) -> TableGroups:
    """Find the groups of a further table; without `as_split` a cell that areas share counts where its share is largest.

    Which groups there are follows from the schema alone.
    """
    columns = tuple(find_column(schema, name) for name in names)
    leaves, codes = possible_cells(layout)
    rows, weights = np.arange(len(leaves)), np.ones(len(leaves))
    units: dict[Areas, Codes] = {}
    sizes = dict(zip(schema.names, schema.sizes, strict=True))
    for division in dict.fromkeys(column.division for column in columns if column.division is not None):
        cells = division.cells_of(codes, schema.names, sizes)
        if division.is_whole or not as_split:
            units[division] = division.unit_of[cells][rows]
            continue
        starts = np.searchsorted(division.pieces.cells, np.arange(division.size + 1))
        many = np.diff(starts)[cells[rows]]
        units = {other: np.repeat(found, many) for other, found in units.items()}
        first = np.repeat(starts[cells[rows]], many)
        piece = first + np.arange(len(first)) - np.repeat(np.cumsum(many) - many, many)
        rows, weights = np.repeat(rows, many), np.repeat(weights, many) * division.pieces.shares[piece]
        units[division] = division.pieces.units[piece]
    coded = [_code(schema, column, codes[rows], units) for column in columns]
    keys, groups = np.unique(np.column_stack(coded), axis=0, return_inverse=True)
    is_plain = bool((weights == 1).all())
    return TableGroups(
        columns=columns,
        keys=keys,
        leaves=leaves[rows],
        groups=groups.reshape(-1),
        weights=None if is_plain else weights,
    )


def _code(schema: Schema, column: GroupColumn, codes: Codes, units: dict[Areas, Codes]) -> Codes:
    if column.division is not None:
        return column.division.area_of_unit(column.name)[units[column.division]]
    own = codes[:, column.attribute]
    hierarchy = schema.attributes[column.attribute].hierarchy
    return own if not column.level or hierarchy is None else hierarchy.lift(own, column.level)


@lru_cache(maxsize=32)
def find_partition(schema: Schema, layout: LeafLayout, names: tuple[str, ...]) -> TableGroups:
    """Find the groups that are measured: every cell lies in one."""
    return find_groups(schema, layout, names, as_split=False)


# --- measuring --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredSums:
    """The sums of a further table as they are published: noisy, or exact (`noise` is None)."""

    spec: TableSpec
    noise: CountNoise | None
    noisy: Integers

    @property
    def variance(self) -> float:
        """The variance of every sum."""
        return 0.0 if self.noise is None else self.noise.variance


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkedTable(MeasuredTable):
    """Noisy sums of all levels of a layout, and of further tables over the same cells."""

    facts: Schema
    specs: tuple[TableSpec, ...] = ()
    sums: tuple[MeasuredSums, ...] = ()

    def partition(self, spec: TableSpec) -> TableGroups:
        """The groups of a further table that is measured."""
        return find_partition(self.facts, self.layout, spec.names)

    def factor_for(self, leaves: Codes, weights: Reals | None = None) -> float:
        """Standard errors that hold at least 95 of 100 sums; one that was measured has the tails of its own noise."""
        is_whole = weights is None or bool((weights == 1).all())
        is_own = is_whole and isinstance(self.squares, LinkedSquares) and self.squares.is_measured(leaves)
        return self.factor_of(1 if is_own else len(leaves))

    @cached_property
    def squares(self) -> LinkedSquares | LeastSquares:  # type: ignore[override]
        """Least squares over all levels and all further tables."""
        tree = MeasuredTable.squares.func(self)  # type: ignore[attr-defined]
        if not self.sums:
            return tree  # type: ignore[no-any-return]
        rows, leaves, noisy, variances, first = [], [], [], [], 0
        for sums in self.sums:
            groups = self.partition(sums.spec)
            kept = sums.noisy != NOT_GIVEN if sums.noise is None else np.ones(len(sums.noisy), dtype=bool)
            if sums.noise is None and self.total_variance == 0 and bool(kept.all()):
                kept[-1] = False  # it follows from the total, which is exact too
            inside = kept[groups.groups]
            rows.append((np.cumsum(kept) - 1)[groups.groups[inside]] + first)
            leaves.append(groups.leaves[inside])
            noisy.append(sums.noisy[kept].astype(np.float64))
            variances.append(np.full(int(kept.sum()), sums.variance))
            first += int(kept.sum())
        return LinkedSquares(
            tree=tree,
            rows=np.concatenate(rows).astype(np.int64),
            leaves=np.concatenate(leaves).astype(np.int64),
            noisy=np.concatenate(noisy),
            variances=np.concatenate(variances),
        )


def measure_sums(
    counts: Counts,
    layout: LeafLayout,
    facts: Schema,
    specs: Sequence[TableSpec],
    noises: Sequence[CountNoise],
    *,
    given: Integers | None,
    rng: Rng,
) -> tuple[MeasuredSums, ...]:
    """Add noise to the sums of further tables; those that are exact are taken as they are, or as they are `given`.

    Guarantee: what the noises cost together. Every cell lies in one group of a table, so that a unit changes the sums
    of a table by no more than it changes the cells. About exact sums nothing is promised. Proof: proofs/areas.md
    """
    exact = np.zeros(layout.sizes[-1], dtype=np.int64)
    exact[layout.leaves(counts.columns())] = counts.values
    found, left = [], iter(noises)
    for spec in specs:
        if not (spec.share or spec.is_exact):
            continue
        groups = find_partition(facts, layout, spec.names)
        if spec.is_exact and given is not None:
            found.append(MeasuredSums(spec=spec, noise=None, noisy=given))
            continue
        weights = exact[groups.leaves]  # floats hold these sums exactly: totals are below 2^52
        sums = np.bincount(groups.groups, weights=weights, minlength=len(groups.keys)).astype(np.int64)
        noise = None if spec.is_exact else next(left)
        found.append(MeasuredSums(spec=spec, noise=noise, noisy=sums if noise is None else noise.add(sums, rng=rng)))
    return tuple(found)


def link(
    measured: MeasuredTable, facts: Schema, specs: Sequence[TableSpec], sums: Sequence[MeasuredSums]
) -> LinkedTable:
    """Join the noisy sums of the levels with those of further tables."""
    plain = {field.name: getattr(measured, field.name) for field in dataclasses.fields(MeasuredTable)}
    return LinkedTable(**plain, facts=facts, specs=tuple(specs), sums=tuple(sums))


def measured_specs(specs: Sequence[TableSpec]) -> Iterator[TableSpec]:
    """Those that have sums of their own in the release."""
    return (spec for spec in specs if spec.share or spec.is_exact)
