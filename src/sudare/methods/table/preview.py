"""What a table will cost and how wrong it will be, from public facts alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sudare.mechanisms import geometric_variance
from sudare.messages import say
from sudare.methods.sensitivity import Budget
from sudare.methods.table.haar import rows_of, wavelet_scale
from sudare.methods.table.levels import table_tree
from sudare.methods.table.morton import CellOrder
from sudare.methods.table.simulation import Trial
from sudare.methods.table.tree import level_epsilons
from sudare.schema import Schema

MOST_BLOCK = 4**12
BAD_SHARE = 0.5  # of the published cells: from here on advice is given


@dataclass(frozen=True, kw_only=True, slots=True)
class TablePreview:
    """Expected error before anything is spent.

    `regions` pairs a number of cells with the standard deviation of the sum over such a region, if it lies well in the
    tree, before rows are made valid (which lowers it where counts are small). `levels` pairs the number of nodes of
    every measured level with the scale of its noise. `trials` tell what came out of made-up tables.
    """

    cells: int
    regions: tuple[tuple[int, float], ...]
    levels: tuple[tuple[int, Fraction], ...]
    total_standard_deviation: float
    trials: tuple[Trial, ...] = ()

    def advice(self, *, lang: str | None = None) -> str | None:
        """Say what to do when most published cells will be noise."""
        bad = [one for one in self.trials if one.noise_share > BAD_SHARE]
        if not bad:
            return None
        return say(
            "with {rows} records {share} of the published cells would be noise: use sums over regions, declare coarser"
            " bins or fewer attributes, or spend more",
            lang=lang,
            rows=bad[0].rows,
            share=f"{bad[0].noise_share:.0%}",
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for a certificate or a program."""
        told: dict[str, Any] = {
            "cells": self.cells,
            "region_standard_deviation": {str(size): round(error, 3) for size, error in self.regions},
            "levels": [{"nodes": str(nodes), "scale": str(scale)} for nodes, scale in self.levels],
            "bias": "empty cells are published too high and large ones too low, since no count is below 0",
            "total_standard_deviation": round(self.total_standard_deviation, 6),
        }
        if self.trials:
            told["made_up_tables"] = [one.to_dict() for one in self.trials]
        return told


def foresee(method: str, schema: Schema, budget: Budget, *, trials: tuple[Trial, ...] = ()) -> TablePreview:
    """Compute the preview of a run."""
    total = 0.0
    if budget.total_epsilon is not None:
        total = math.sqrt(geometric_variance(budget.total_sensitivity / budget.total_epsilon))
    levels = _tree_levels(schema, budget) if method == "tree" else _wavelet_levels(schema, budget)
    blocks = [4**power for power in range(13) if 4**power <= min(schema.size, MOST_BLOCK)]
    error = _tree_error if method == "tree" else _wavelet_error
    return TablePreview(
        cells=schema.possible_size,
        regions=tuple((block, error(schema.size, levels, block)) for block in blocks),
        levels=levels,
        total_standard_deviation=total,
        trials=trials,
    )


def _tree_levels(schema: Schema, budget: Budget) -> tuple[tuple[int, Fraction], ...]:
    tree = table_tree(schema)
    epsilons = level_epsilons(tree, budget)
    measured = [(tree.size(place), each) for place, each in enumerate(epsilons, start=1) if each]
    return tuple((nodes, budget.cells_sensitivity / each) for nodes, each in measured)


def _wavelet_levels(schema: Schema, budget: Budget) -> tuple[tuple[int, Fraction], ...]:
    halvings = CellOrder(schema=schema, order="morton").levels
    scale = wavelet_scale(
        halvings, epsilon=budget.cells_epsilon, neighbours=budget.guarantee.neighbours, rows=rows_of(schema)
    )
    return tuple((2 ** (level + 1), scale) for level in range(halvings))


def _tree_error(cells: int, levels: tuple[tuple[int, Fraction], ...], block: int) -> float:
    """A region is the sum of its cells, or of nodes inside it: the level that tells it best counts."""
    fitting = [(block * nodes / cells, scale) for nodes, scale in levels if cells <= block * nodes]
    return math.sqrt(min((size * geometric_variance(scale) for size, scale in fitting), default=0.0))


def _wavelet_error(cells: int, levels: tuple[tuple[int, Fraction], ...], block: int) -> float:
    """The variance of a block of 2^l of 2^k cells is (2 scale^2 / 3)(1 - 4^(l - k)) (proofs/wavelet.md)."""
    if not levels:
        return 0.0
    halved = len(levels) - block.bit_length() + 1
    return float(levels[-1][1]) * math.sqrt(2 / 3 * max(0.0, 1 - 4.0**-halved))
