"""A made-up table of the same shape, published once: how much of what comes out will be noise."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.methods.budget import CountBudget
from sudare.methods.figures import ShownPreview
from sudare.methods.table.haar import wavelet_noise
from sudare.methods.table.large import large_noises
from sudare.methods.table.levels import DensityRule, LeafLayout
from sudare.methods.table.link_plan import TableError
from sudare.methods.table.morton import CellOrder
from sudare.methods.table.squares import SquareLayout
from sudare.methods.table.tree import level_noises, table_tree
from sudare.methods.table.workload import draw_boxes, draw_cells, draw_nodes, measure_energy, standard_errors
from sudare.methods.tree.possible import KeySet
from sudare.noise import CountNoise, Rng, SeededRng
from sudare.noise.uniform import draw_below
from sudare.schema import Schema
from sudare.schema.arrays import Codes, Reals
from sudare.schema.raw import write_size
from sudare.text import Text, text

BIAS = "empty cells are published too high and large ones too low, since no count is below 0"
BIAS_BESIDE = (
    "in the counts, empty cells are published too high and large ones too low, since no count is below 0; the column"
    " unbiased has no bias, and the errors told here are its errors"
)

DrawTable = Callable[[Counts, Rng], Counts]

MOSTLY_NOISE = 0.2  # of all records, which the largest sum that is told must be off by; set by eye on four tables
MOST_ROWS = 10**12
CELLS = 20_000  # filled cells of the made-up table, at most
CENTRES = 50  # places around which the filled cells of the made-up table lie
SPREAD = 64  # a cluster is about so small a part of every attribute


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """What came out of one made-up table of `rows` records, clustered and long-tailed."""

    rows: int
    filled_cells: int
    published_cells: int
    noise_cells: int
    noise_records: int
    bias_of_large: float  # mean error of the largest hundredth of the filled cells

    @property
    def noise_share(self) -> float:
        """Share of the published cells that hold nobody in truth."""
        return self.noise_cells / max(1, self.published_cells)

    def describe(self) -> Text:
        """Tell it in a line."""
        return text(
            "in a trial with {rows} made-up records in {filled} cells, {published} cells are published, of which"
            " {noise} truly hold nobody ({records} records); large cells are off by {bias} on average",
            rows=self.rows,
            filled=self.filled_cells,
            published=self.published_cells,
            noise=self.noise_cells,
            records=self.noise_records,
            bias=f"{self.bias_of_large:+.1f}",
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a program."""
        return {
            "rows": self.rows,
            "filled_cells": self.filled_cells,
            "published_cells": self.published_cells,
            "noise_cells": self.noise_cells,
            "noise_records": self.noise_records,
            "bias_of_large": round(self.bias_of_large, 1),
        }


def simulate(schema: Schema, rows: int, draw: DrawTable) -> Trial:
    """Publish a made-up table of so many records; nothing private is in it, and its noise is the same every time."""
    if not 1 <= rows <= MOST_ROWS:
        raise ParameterError("rows ({rows}) must be between 1 and {most}", rows=rows, most=MOST_ROWS)
    rng = SeededRng(1)
    made_up = made_up_table(schema, rows, rng)
    published = draw(made_up, rng)
    is_true = KeySet(made_up.codes).holds(published.codes)
    large = np.argsort(-made_up.values)[: max(1, made_up.nonzero // 100)]
    kept = Counts.build(schema, made_up.codes[large], made_up.values[large])
    is_large = KeySet(kept.codes).holds(published.codes)
    return Trial(
        rows=rows,
        filled_cells=made_up.nonzero,
        published_cells=published.nonzero,
        noise_cells=int((~is_true).sum()),
        noise_records=int(published.values[~is_true].sum()),
        bias_of_large=(int(published.values[is_large].sum()) - kept.total) / max(1, kept.nonzero),
    )


def made_up_table(schema: Schema, rows: int, rng: Rng) -> Counts:
    """Make a table of clusters whose cells hold 1/1, 1/2, 1/3, ... of the largest.

    >>> from sudare.schema import Attribute, NumberBins
    >>> line = Schema(name="line", attributes=(Attribute(name="x", domain=NumberBins.of_width(0, 1000, 1)),))
    >>> made_up_table(line, 5000, SeededRng(1)).total
    5000
    """
    size = max(1, min(CELLS, rows, schema.possible_size // 3))
    columns = []
    centre = draw_below(CENTRES, size, rng=rng)
    for each, width in zip(schema.attributes, _widths(schema, size), strict=True):
        around = draw_below(each.size, CENTRES, rng=rng)
        columns.append((around[centre] + draw_below(width, size, rng=rng)) % each.size)
    cells = np.column_stack(columns)
    cells = cells[~schema.is_impossible(cells)]
    if not len(cells):  # clusters fell on what cannot occur
        return Counts.build(schema, np.empty((0, len(schema.radix.words))), [])
    weights = 1 / np.arange(1.0, len(cells) + 1)
    values = np.floor(rows * weights / weights.sum()).astype(np.int64)
    values[0] += rows - int(values.sum())
    return Counts.from_columns(schema, cells, values)


def _widths(schema: Schema, size: int) -> list[int]:
    """Values of every attribute that a cluster spans: wider where clusters would have no room for so many cells."""
    spread = SPREAD
    widths = [max(1, each.size // spread) for each in schema.attributes]
    while spread > 1 and CENTRES * math.prod(widths) < 2 * size:
        spread //= 2
        widths = [max(1, each.size // spread) for each in schema.attributes]
    return widths


# What a table will cost and how wrong it will be, from public facts alone.


MOST_BLOCK = 4**12
MOST_SIDE_POWER = 8  # of the squares of a map that are looked at: 256 cells
FEW_KINDS = ("fewest", "few", "few_crowded")  # by the bounds of few records, then those in few cells
BAD_SHARE = 0.5  # of the published cells: from here on advice is given


@dataclass(frozen=True, kw_only=True, slots=True)
class DensityErrors:
    """Errors of regions, as in a preview, where squares are thin and where they are dense; by records in a cell.

    `thin_map` are those of the thinnest squares of a map that holds less than `thin_map_below` on the whole, `few`
    those of a map of fewer than `few_below` records, `fewest` those of fewer still, and `few_crowded` those
    of a map of fewer than `few_below` that stand in few cells.
    """

    thin_below: float
    dense_from: float
    thin: tuple[tuple[int, float], ...]
    dense: tuple[tuple[int, float], ...]
    thin_map_below: float = 0.0
    thin_map: tuple[tuple[int, float], ...] = ()
    few_below: int = 0
    few: tuple[tuple[int, float], ...] = ()
    fewest_below: int = 0
    fewest: tuple[tuple[int, float], ...] = ()
    few_crowded: tuple[tuple[int, float], ...] = ()

    def lines(self) -> list[Text]:
        """Tell it in two lines, a third where the whole map may be thin, and more where it may have few records."""
        few = [
            text(
                "on a map of fewer than {bound} records, where large squares are measured well: {errors} (standard"
                " deviation by number of cells)",
                bound=bound,
                errors=_list_errors(errors),
            )
            for bound, errors in ((self.few_below, self.few), (self.fewest_below, self.fewest))
            if errors
        ]
        crowded = text(
            "on a map of fewer than {bound} records, many of them in few cells: {errors} (standard deviation by number"
            " of cells)",
            bound=self.few_below,
            errors=_list_errors(self.few_crowded),
        )
        thin_map = text(
            "on a map of less than {bound} records a cell on the whole, where cells are hardly measured: {errors}"
            " (standard deviation by number of cells)",
            bound=f"{self.thin_map_below:g}",
            errors=_list_errors(self.thin_map),
        )
        return [
            text(
                "where squares hold less than {bound} records a cell: {errors} (standard deviation by number of cells)",
                bound=f"{self.thin_below:g}",
                errors=_list_errors(self.thin),
            ),
            text(
                "where squares hold {bound} records a cell or more: {errors} (standard deviation by number of cells)",
                bound=f"{self.dense_from:g}",
                errors=_list_errors(self.dense),
            ),
            *([thin_map] if self.thin_map else []),
            *few,
            *([crowded] if self.few_crowded else []),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        told: dict[str, Any] = {
            "thin_below": self.thin_below,
            "dense_from": self.dense_from,
            "thin": {str(size): round(error, 3) for size, error in self.thin},
            "dense": {str(size): round(error, 3) for size, error in self.dense},
        }
        if self.thin_map:
            told["thin_map_below"] = self.thin_map_below
            told["thin_map"] = {str(size): round(error, 3) for size, error in self.thin_map}
        for name in FEW_KINDS:
            if errors := getattr(self, name):
                bound = getattr(self, f"{name}_below", 0)
                told |= {f"{name}_below": bound} if bound else {}
                told[name] = {str(size): round(error, 3) for size, error in errors}
        return told


def _list_errors(regions: tuple[tuple[int, float], ...]) -> str:
    return ", ".join(f"{cells}: {deviation:.1f}" for cells, deviation in regions)


@dataclass(frozen=True, kw_only=True, slots=True)
class TablePreview(ShownPreview):
    """Expected error before anything is spent.

    `regions` pairs a number of cells with the standard deviation of the sum over such a region, if it lies well in the
    tree, before rows are made valid (which lowers it where counts are small). `levels` pairs the number of nodes of
    every measured level with its noise. `trials` tell what came out of made-up tables.
    """

    cells: int
    regions: tuple[tuple[int, float], ...]
    levels: tuple[tuple[int, CountNoise], ...]
    total_standard_deviation: float
    trials: tuple[Trial, ...] = ()
    is_unbiased: bool = False  # figures without bias are published beside the table
    by_density: DensityErrors | None = None  # where the noise of cells follows the density of squares
    tables: tuple[TableError, ...] = ()  # errors of further tables and of areas
    notes: tuple[Text, ...] = ()  # what a run would warn of, such as outlines of areas that cross

    def lines(self) -> list[Text]:
        """Tell it in a few lines."""
        found = [
            text("possible cells: {cells}", cells=write_size(self.cells)),
            text("number of records: standard deviation {deviation}", deviation=f"{self.total_standard_deviation:.2f}"),
        ]
        for cells, deviation in self.regions:
            off = f"{deviation:.1f}"
            found.append(
                text("a single cell: standard deviation {deviation}", deviation=off)
                if cells == 1
                else text("a region of {cells} cells: standard deviation {deviation}", cells=cells, deviation=off)
            )
        densities = [] if self.by_density is None else self.by_density.lines()
        tables = [one.describe() for one in self.tables]
        notes = [text("note: {note}", note=note) for note in self.notes]
        return [*found, *densities, *tables, *(trial.describe() for trial in self.trials), *notes]

    def advice(self) -> Text | None:
        """Say what to do when most published cells will be noise."""
        bad = [one for one in self.trials if one.noise_share > BAD_SHARE]
        if not bad:
            return None
        return text(
            "with {rows} records, {share} of the published cells would be noise: use sums over regions, declare"
            " coarser bins, publish fewer attributes, or spend more",
            rows=bad[0].rows,
            share=f"{bad[0].noise_share:.0%}",
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for a certificate or a program."""
        told: dict[str, Any] = {
            "cells": self.cells,
            "region_standard_deviation": {str(size): round(error, 3) for size, error in self.regions},
            "levels": [{"nodes": str(nodes), **noise.to_dict()} for nodes, noise in self.levels],
            "bias": BIAS_BESIDE if self.is_unbiased else BIAS,
            "total_standard_deviation": round(self.total_standard_deviation, 6),
        }
        if self.by_density is not None:
            told["region_standard_deviation_by_density"] = self.by_density.to_dict()
        if self.tables:
            told["tables"] = [one.to_dict() for one in self.tables]
        if self.trials:
            told["made_up_tables"] = [one.to_dict() for one in self.trials]
        return told


def foresee(algorithm: str, schema: Schema, budget: CountBudget, *, trials: tuple[Trial, ...] = ()) -> TablePreview:
    """Compute the preview of a run."""
    total = 0.0 if budget.total_noise is None else math.sqrt(budget.total_noise.variance)
    levels = _tree_levels(schema, budget) if algorithm == "tree" else _wavelet_levels(schema, budget)
    blocks = [4**power for power in range(13) if 4**power <= min(schema.size, MOST_BLOCK)]
    error = _tree_error if algorithm == "tree" else _wavelet_error
    return TablePreview(
        cells=schema.possible_size,
        regions=tuple((block, error(schema.size, levels, block)) for block in blocks),
        levels=levels,
        total_standard_deviation=total,
        trials=trials,
    )


def foresee_large(schema: Schema, budget: CountBudget) -> TablePreview:
    """Compute the preview of a table that is opened where people are: errors of regions that are open and lie well."""
    total = 0.0 if budget.total_noise is None else math.sqrt(budget.total_noise.variance)
    levels = large_noises(schema, budget)
    blocks = [4**power for power in range(13) if 4**power <= min(schema.size, MOST_BLOCK)]
    return TablePreview(
        cells=schema.possible_size,
        regions=tuple((block, _tree_error(schema.size, levels, block)) for block in blocks),
        levels=levels,
        total_standard_deviation=total,
        is_unbiased=True,
    )


def _foresee_few(
    rule: DensityRule, cells: Codes, errors_of: Callable[[tuple[CountNoise, ...]], tuple[tuple[int, float], ...]]
) -> dict[str, Any]:
    """The errors of maps with few records; releases of an earlier version have one kind of them."""
    bounds = [math.ceil(bound * int((cells > 0).sum())) for bound in rule.few_bounds]
    errors = [errors_of(own) for own in rule.few_noises]
    if len(errors) < len(FEW_KINDS):
        return dict(zip(("few_below", "few"), (*bounds, *errors), strict=False))
    told = {f"{name}_below": bound for name, bound in zip(FEW_KINDS, bounds, strict=False)}
    return {**told, **dict(zip(FEW_KINDS, errors, strict=True))}


@lru_cache(maxsize=16)
def foresee_levels(
    layout: LeafLayout, noises: tuple[CountNoise, ...], budget: CountBudget, rule: DensityRule | None = None
) -> TablePreview:
    """Compute the preview of measured levels: errors of unbiased figures, of regions anywhere on the map.

    A table without a map is looked at by single cells, and by the groups of its levels. Where density decides on the
    noise of cells, the errors are those of squares that are neither thin nor dense, and those of the others beside.
    """
    total = 0.0 if budget.total_noise is None else math.sqrt(budget.total_noise.variance)
    held = layout.possible_cells
    levels = tuple((int((cells > 0).sum()), noise) for cells, noise in zip(held, noises, strict=True))
    sizes, energies = _look_at(layout)

    def errors_of(given: tuple[CountNoise, ...]) -> tuple[tuple[int, float], ...]:
        errors = standard_errors(energies, layout, [noise.variance for noise in given])
        return tuple(sorted(dict(zip(sizes, map(float, errors), strict=True)).items()))

    by_density = None
    if rule is not None:
        above = noises[: rule.level + 1]
        classes = len(rule.bounds) + 1
        thin, dense = (errors_of((*above, *own)) for own in (rule.noises[0], rule.noises[classes - 1]))
        by_density = DensityErrors(
            thin_below=rule.bounds[0],
            dense_from=rule.bounds[-1],
            thin=thin,
            dense=dense,
            thin_map_below=rule.thin_map,
            thin_map=errors_of((*above, *rule.noises[classes])) if rule.thin_bounds else (),
        )
        by_density = dataclasses.replace(by_density, **_foresee_few(rule, held[rule.level], errors_of))
    return TablePreview(
        cells=layout.schema.possible_size,
        regions=errors_of(noises),
        levels=levels,
        total_standard_deviation=total,
        is_unbiased=True,
        by_density=by_density,
    )


def _look_at(layout: LeafLayout) -> tuple[list[int], list[Reals]]:
    """Choose regions to tell the error of: how many cells they have, and what of them lies between the levels."""
    if isinstance(layout, SquareLayout):
        sides = [2**power for power in range(MOST_SIDE_POWER + 1) if 4**power <= len(layout.rows)]
        parts = [draw_cells(layout), *(draw_boxes(layout, side, side) for side in sides[1:])]
        return [side * side for side in sides], [measure_energy(part, layout) for part in parts]
    nodes = [draw_nodes(layout, level) for level in range(len(layout.sizes) - 1)]
    parts = [part for part in nodes if part.leaves.size]
    sizes = [1, *(round(float(np.median(np.bincount(part.numbers)))) for part in parts)]
    return sizes, [measure_energy(part, layout) for part in (draw_cells(layout), *parts)]


def _tree_levels(schema: Schema, budget: CountBudget) -> tuple[tuple[int, CountNoise], ...]:
    tree = table_tree(schema)
    noises = enumerate(level_noises(tree, budget), start=1)
    return tuple((tree.size(place), noise) for place, noise in noises if noise is not None)


def _wavelet_levels(schema: Schema, budget: CountBudget) -> tuple[tuple[int, CountNoise], ...]:
    halvings = CellOrder(schema=schema, order="morton").levels
    noise = wavelet_noise(halvings, budget)
    return tuple((2 ** (level + 1), noise) for level in range(halvings))


def _tree_error(cells: int, levels: tuple[tuple[int, CountNoise], ...], block: int) -> float:
    """A region is the sum of its cells, or of nodes inside it: the level that tells it best counts."""
    fitting = [(block * nodes / cells, noise) for nodes, noise in levels if cells <= block * nodes]
    return math.sqrt(min((size * noise.variance for size, noise in fitting), default=0.0))


def _wavelet_error(cells: int, levels: tuple[tuple[int, CountNoise], ...], block: int) -> float:
    """The variance of a block of 2^l of 2^k cells is (2 scale^2 / 3)(1 - 4^(l - k)) (proofs/wavelet.md)."""
    if not levels:
        return 0.0
    halved = len(levels) - block.bit_length() + 1
    return float(levels[-1][1].scale) * math.sqrt(2 / 3 * max(0.0, 1 - 4.0**-halved))


def warn_of_noise(error: Mapping[str, Any], records: float) -> list[Text]:
    """Say that most figures are noise, where the largest region that is told is off by a good part of all records."""
    regions = error.get("region_standard_deviation") or {}
    cells, deviation = max(((int(cells), off) for cells, off in regions.items()), default=(0, 0.0))
    if deviation <= MOSTLY_NOISE * records:
        return []
    return [
        text(
            "A sum over {cells} cells is off by {deviation} (standard deviation), of {records} records: most figures"
            " are noise. Fewer attributes, coarser bins or a view keep more.",
            cells=write_size(cells),
            deviation=f"{deviation:.0f}",
            records=f"{records:.0f}",
        )
    ]
