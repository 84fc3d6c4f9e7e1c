"""Records over domains much larger than their number: a sparse tree, opened where the records are.

Most of epsilon measures the cells, the rest the sums of some levels above them. Cells that stand out of all noise are
published as measured. What is left goes down the tree, as long as a node stands out of the noise of the next level, and
is then spread thinly over its cells. So big cells are right, regions are right, and what nobody can know under epsilon
is spread where it belongs, instead of being heaped up where the noise happens to be high. Proof: proofs/descent.md
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sudare.counts import Counts
from sudare.mechanisms import Rng
from sudare.methods.descent import Descent, Ladder, Possible, Tree, attribute_order, ladder, make_tree
from sudare.methods.descent.tree import Heights
from sudare.methods.microdata.projection import project
from sudare.methods.microdata.sensitivity import Budget
from sudare.schema import Schema

GROWTH = 64  # levels that together split a node into fewer children are measured as one
LEAST_LAST = 256  # cells that a node of the lowest measured level has at least, in the mean
PATIENCE = 4  # noise scales a node must hold to be opened by one level
FEW_SIGNALS = 20_000  # below, sums need more of epsilon
UPPER_SHARE = Fraction(1, 8)
UPPER_SHARE_OF_FEW = Fraction(1, 4)
MOST_RESTRICTED = 2**22  # values of an attribute with impossible combinations: their kinds are tabulated
LEAST_POSSIBLE = 0.01  # share of possible cells in any node: below, too many proposals are refused
NOISE_SHARE = 0.1  # of the records: where all noise together is less, the projection is all but exact
USUAL_RECORDS = 10**6


@dataclass(frozen=True, kw_only=True, slots=True)
class WideLevel:
    """One measured level: into how many groups each attribute is seen there (1: not at all), and its epsilon."""

    groups: tuple[tuple[str, int], ...]
    nodes: int
    epsilon: Fraction
    scale: Fraction

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a certificate."""
        seen = {name: groups for name, groups in self.groups if groups > 1}
        return {"groups": seen, "nodes": str(self.nodes), "epsilon": str(self.epsilon), "scale": str(self.scale)}


def grow_wide(counts: Counts, budget: Budget, *, total: int, rng: Rng) -> Counts:
    """Publish a table over a huge domain, non-negative whole numbers with the given total.

    Where the declared impossibilities leave too little of some node (`wide_fits`), the projection is used instead.

    Guarantee: `budget.cells_epsilon`-DP for the table, given a total that is public or already noisy.
    Error: a region by the noise of the levels above it; a cell that stands out by the noise of a cell.
    Source: sparse tree of Terada (sparse tables), rows of Hay et al. 2010, heavy cells first as in Cormode et al. 2012.
    """
    if not wide_fits(counts.schema):
        return project(counts, budget, total=total, rng=rng)
    return wide_descent(counts.schema, budget, total=total).publish(counts, total=total, rng=rng)


def wide_shares(schema: Schema, budget: Budget, *, total: int) -> tuple[WideLevel, ...]:
    """Describe the measured levels from the top down to the cells; epsilons add up to that of the cells."""
    descent = wide_descent(schema, budget, total=total)
    return tuple(
        WideLevel(
            groups=_groups(descent.tree, number + 1),
            nodes=descent.tree.size(number + 1),
            epsilon=epsilon,
            scale=descent.scale(number),
        )
        for number, epsilon in enumerate(descent.epsilons)
    )


def wide_wins(schema: Schema, budget: Budget, *, total: int | None = None) -> bool:
    """Tell whether the wide tree is nearer to the truth than the projection, from public facts alone.

    It is wherever noise matters: unless the noise of all cells together would add less than a tenth of the records
    (of a million, if their number is not public), so that nearly every cell survives the projection as it is.
    Measured in benchmarks/microdata_scaling.py.
    """
    a = math.exp(-1 / float(budget.cells_scale))
    noise = float(schema.possible_size) * a / (1 - a * a)  # N * E(Z; Z >= 1)
    return wide_fits(schema) and noise > NOISE_SHARE * (USUAL_RECORDS if total is None else total)


def wide_fits(schema: Schema) -> bool:
    """Tell whether the impossible combinations leave enough of every node, and can be counted there."""
    if not schema.impossible:
        return True
    names = {name for box in schema.impossible for name in box.names}
    if any(schema.attribute(name).size > MOST_RESTRICTED for name in names):
        return False
    ladders = [ladder(each) for each in schema.attributes]
    tree = make_tree(schema, attribute_order(ladders), ladders)
    possible = Possible(tree)
    return all(possible.least_share(tree.step(level, -1)) >= LEAST_POSSIBLE for level in range(len(tree.steps)))


def wide_descent(schema: Schema, budget: Budget, *, total: int) -> Descent:
    """Choose levels and shares by the schema, epsilon and the total: two levels for each power of ten of total/scale.

    >>> from sudare.methods.microdata.sensitivity import plan
    >>> from sudare.privacy import Guarantee
    >>> from sudare.schema import Attribute, NumberBins, Unit
    >>> day = Attribute(name="day", domain=NumberBins.of_width(0, 10_000, 1))
    >>> price = Attribute(name="price", domain=NumberBins.of_width(0, 10_000, 1))
    >>> schema = Schema(name="sales", attributes=(day, price))
    >>> budget = plan(Guarantee(epsilon=Fraction(1), neighbours="replace", unit=Unit()))
    >>> descent = wide_descent(schema, budget, total=10**6)
    >>> [descent.tree.size(level) for level in range(len(descent.epsilons) + 1)], descent.epsilons[-1]
    ([1, 40, 625, 10000, 400000, 100000000], Fraction(7, 8))
    """
    signals = 2 * float(total / budget.cells_scale)  # records times epsilon, for rows replaced one by one
    ladders = [ladder(each) for each in schema.attributes]
    order = attribute_order(ladders)
    most = max(0, math.floor(2 * math.log10(max(signals, 1)) - 3))
    upper = _measured(order, ladders)[:most]
    share = (UPPER_SHARE_OF_FEW if signals < FEW_SIGNALS else UPPER_SHARE) * bool(upper)
    above = [budget.cells_epsilon * share / len(upper)] * len(upper)
    tree = make_tree(schema, [order[0], *upper, order[-1]], ladders)
    cells = [budget.cells_epsilon * (1 - share)] * bool(tree.steps)
    return Descent(
        tree=tree,
        epsilons=(*above, *cells),
        sensitivity=budget.cells_sensitivity,
        thin_cells=True,
        patience=PATIENCE,
    )


def _measured(order: Sequence[Heights], ladders: Sequence[Ladder]) -> list[Heights]:
    """Choose the levels worth measuring: each splits well, and the cells below the last of them are many."""
    sizes = [math.prod(each.nodes(h) for each, h in zip(ladders, level, strict=True)) for level in order]
    chosen: list[Heights] = []
    nodes = 1
    for number in range(1, len(order) - 1):
        if sizes[number] * LEAST_LAST > sizes[-1]:
            break
        if sizes[number + 1] > GROWTH * nodes:
            chosen.append(order[number])
            nodes = sizes[number]
    return chosen


def _groups(tree: Tree, level: int) -> tuple[tuple[str, int], ...]:
    heights = zip(tree.schema.names, tree.ladders, tree.levels[level], strict=True)
    return tuple((name, each.nodes(height)) for name, each, height in heights)
