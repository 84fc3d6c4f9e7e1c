"""Records over domains much larger than their number: a sparse tree, opened where the records are.

Most of epsilon measures the cells, the rest the sums of some levels above them. Cells that exceed all noise are
published as measured. What is left goes down the tree, as long as a node exceeds the noise of the next level, and
is then spread thinly over its cells. So big cells are right, regions are right, and what nobody can know under epsilon
is spread where it belongs, instead of being heaped up where the noise happens to be high. Proof: proofs/tree.md
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from sudare.counts import Counts
from sudare.methods.budget import CountBudget
from sudare.methods.tree import Possible, TopDownTree, ValueGroups, attribute_order, group_values, make_tree
from sudare.methods.tree.levels import Heights
from sudare.noise import CountNoise, Rng
from sudare.schema import Schema

GROWTH = 64  # levels that together split a node into fewer children are measured as one
LEAST_LAST = 256  # cells that a node of the lowest measured level has at least, in the mean
OPENING_SCALES = 3  # noise scales a node must hold to be opened by one level
SUMS_SHARE = Fraction(1, 5)  # of epsilon, for all levels of sums together
MOST_RESTRICTED = 2**22  # values of an attribute with impossible combinations: their kinds are tabulated
LEAST_POSSIBLE = 0.01  # share of possible cells in any node: below, too many proposals are refused
NOISE_SHARE = 0.1  # of the records: where all noise together is less, the projection is all but exact
USUAL_RECORDS = 10**6


def grow_sparse_tree(counts: Counts, budget: CountBudget, *, total: int, rng: Rng) -> Counts:
    """Publish a table over a huge domain: whole numbers, not negative, with the given total.

    Guarantee: DP with `budget.sums_part` + `budget.cells_part`, given a total that is public or already noisy.
    Error: a region by the noise of the levels above it; a cell that is heavy by the noise of a cell.
    Source: sparse tree of Terada (sparse tables), rows of Hay et al. 2010, heavy cells first as in Cormode et al. 2012.
    """
    return plan_sparse_tree(counts.schema, budget, total=total).publish(counts, total=total, rng=rng)


def share_of_sums(schema: Schema) -> Fraction:
    """Give the share of epsilon for sums: none where no attribute has groups to be added up.

    >>> from sudare.schema import Attribute, NumberBins
    >>> share_of_sums(Schema(name="s", attributes=(Attribute(name="a", domain=NumberBins.of_width(0, 10**5, 1)),)))
    Fraction(1, 5)
    """
    value_groups = [group_values(attribute) for attribute in schema.attributes]
    return SUMS_SHARE if _measured(attribute_order(value_groups), value_groups) else Fraction(0)


def sparse_tree_wins(schema: Schema, noise: CountNoise) -> bool:
    """Tell whether the sparse tree is nearer to the truth than the projection, from public facts alone.

    `noise` is that of a cell if all is spent on cells and a row is replaced.

    It is wherever noise matters: unless the noise of all cells together would add less than a tenth of a million
    records, so that nearly every cell survives the projection as it is. Measured in benchmarks/microdata_scaling.py.
    """
    records = float(schema.possible_size) * noise.mean_excess(0.0)  # N * E(Z; Z >= 1)
    return records > NOISE_SHARE * USUAL_RECORDS and sparse_tree_fits(schema)


def sparse_tree_fits(schema: Schema) -> bool:
    """Tell whether the impossible combinations leave enough of every node, and can be counted there."""
    if not schema.impossible:
        return True
    names = {name for box in schema.impossible for name in box.names}
    if any(schema.attribute(name).size > MOST_RESTRICTED for name in names):
        return False
    value_groups = [group_values(attribute) for attribute in schema.attributes]
    tree = make_tree(schema, attribute_order(value_groups), value_groups)
    possible = Possible(tree)
    return all(possible.least_share(tree.step(level, -1)) >= LEAST_POSSIBLE for level in range(len(tree.steps)))


def plan_sparse_tree(schema: Schema, budget: CountBudget, *, total: int) -> TopDownTree:
    """Choose the levels by schema, epsilon and total: two for each power of ten of total/scale, at least one.

    >>> from sudare.methods.budget import plan
    >>> from sudare.privacy import Guarantee
    >>> from sudare.schema import Attribute, NumberBins, Unit
    >>> day = Attribute(name="day", domain=NumberBins.of_width(0, 10_000, 1))
    >>> price = Attribute(name="price", domain=NumberBins.of_width(0, 10_000, 1))
    >>> schema = Schema(name="sales", attributes=(day, price))
    >>> budget = plan(Guarantee(epsilon=Fraction(1), neighbours="replace", unit=Unit()), sums_share=SUMS_SHARE)
    >>> top_down = plan_sparse_tree(schema, budget, total=10**6)
    >>> [top_down.tree.size(level) for level in range(len(top_down.noises) + 1)], top_down.noises[-1].scale
    ([1, 40, 625, 30000, 100000000], Fraction(5, 2))
    """
    signals = 2 * float(total / budget.cells_noise.scale)  # records times epsilon, for rows replaced one by one
    value_groups = [group_values(attribute) for attribute in schema.attributes]
    order = attribute_order(value_groups)
    most = max(1, math.floor(2 * math.log10(max(signals, 1)) - 3))
    upper = _measured(order, value_groups)[:most] if budget.sums_part is not None else []
    above = [budget.noise((budget.sums_part or 0) / Fraction(len(upper))) for _ in upper]
    tree = make_tree(schema, [order[0], *upper, order[-1]], value_groups)
    return TopDownTree(
        tree=tree,
        noises=(*above, *[budget.cells_noise] * bool(tree.steps)),  # a single cell needs no measurement
        thin_cells=True,
        opening_scales=OPENING_SCALES,
        shrink_rows=True,
    )


def _measured(order: Sequence[Heights], value_groups: Sequence[ValueGroups]) -> list[Heights]:
    """Choose the levels worth measuring: each splits well, and the cells below the last of them are many."""
    sizes = [math.prod(groups.nodes(h) for groups, h in zip(value_groups, level, strict=True)) for level in order]
    chosen: list[Heights] = []
    nodes = 1
    for number in range(1, len(order) - 1):
        if sizes[number] * LEAST_LAST > sizes[-1]:
            break
        if sizes[number + 1] > GROWTH * nodes:
            chosen.append(order[number])
            nodes = sizes[number]
    return chosen
