"""Records drawn from the tables of a tree, as coarse bins: public numbers in, public randomness."""

from __future__ import annotations

import numpy as np

from sudare.methods.view.junction_tree import Factors, reach
from sudare.noise import Rng
from sudare.noise.public import draw_columns
from sudare.schema.arrays import Codes, Reals

SamplingStep = tuple[
    Reals, list[int], list[int]
]  # table (given cells, fresh cells), attributes given, attributes drawn


def draw_bins(factors: Factors, size: int, *, rng: Rng) -> Codes:
    """Draw records from the estimate, parents first, (records, attributes).

    Uniforms are systematic: the records that share a parent cell are spread evenly over its children.
    """
    sizes = {
        attribute: int(table.shape[1 + axis])
        for clique, table in zip(factors.tree.cliques, factors.tables, strict=True)
        for axis, attribute in enumerate(clique)
    }
    widths = [sizes[attribute] for attribute in range(len(sizes))]
    bins = np.zeros((size, len(widths)), dtype=np.int64)
    for table, given, fresh in _order(factors):
        _extend(bins, table, given, fresh, widths, rng)
    return bins


def _order(factors: Factors) -> list[SamplingStep]:
    """The cliques from the roots down, each as a table of what is new in it given what is known."""
    tree, tables = factors.tree, factors.tables
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
