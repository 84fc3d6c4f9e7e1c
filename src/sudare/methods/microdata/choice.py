"""Which way a table is made: decided from public facts alone."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.mechanisms import Rng
from sudare.mechanisms.geometric import split_scale
from sudare.methods.asked import check_facts
from sudare.methods.microdata import tree, wide
from sudare.methods.microdata.places import check_share
from sudare.methods.microdata.projection import DENSE_CELLS, project
from sudare.methods.microdata.sparse import check_work
from sudare.methods.microdata.wide import wide_fits, wide_wins
from sudare.methods.sensitivity import Budget, measure_total, plan
from sudare.privacy import Guarantee
from sudare.releases.frame import check_names
from sudare.schema import Schema

Way = Literal["projection", "tree", "wide"]
MOST_RECORDS = 2**31  # they are held in memory before they are written
MOST_CELLS = 10**300  # beyond, expected errors leave the range of floats
TREE_CELLS = 2**24  # the dense tree holds a few numbers per cell: about 1 GB; beyond, the wide one follows the records


def decide(method: str, schema: Schema, epsilon: Fraction) -> Way:
    """Choose the way: a tree wherever one can be grown and noise matters, since it was never worse.

    Measured in papers/terada2017 (dense) and benchmarks/microdata_scaling.py (wide).

    >>> from sudare.schema import Attribute, Unit, Values
    >>> sex = Attribute(name="sex", domain=Values(values=("F", "M")))
    >>> decide("auto", Schema(name="s", unit=Unit(), attributes=(sex,)), Fraction(1))
    'tree'
    """
    if method == "projection":
        return "projection"
    if schema.size <= TREE_CELLS:
        return "tree"
    return "wide" if method == "tree" or wide_wins(schema, epsilon) else "projection"


def plan_for(way: Way, schema: Schema, guarantee: Guarantee) -> Budget:
    """Split epsilon for a way: trees also measure sums."""
    share = Fraction(0)
    if way == "tree":
        share = tree.share_of_sums(schema, guarantee.epsilon)
    elif way == "wide":
        share = wide.share_of_sums(schema)
    return plan(guarantee, sums_share=share)


def check_schema(method: str, schema: Schema) -> None:
    """Refuse a domain that cannot be published, before anything is spent."""
    if schema.size > MOST_CELLS:
        raise ParameterError("the domain has more than 1e300 cells; publish fewer attributes")
    check_names(schema.names)
    possible = schema.possible_size  # refuses a domain without any
    if schema.size > DENSE_CELLS:
        check_share(possible, schema.size)
    if method == "tree" and schema.size > TREE_CELLS and not wide_fits(schema):
        raise ParameterError(
            "the declared impossible combinations leave too little of some part of {cells} cells for a tree;"
            " use method auto or projection, or coarser bins",
            cells=schema.size,
        )


def check_counts(way: Way, counts: Counts, schema: Schema, budget: Budget) -> None:
    """Refuse what could only fail after the spend: other facts than those promised for, or a table too large."""
    check_facts(counts, schema)
    if counts.total > MOST_RECORDS:
        raise ParameterError(
            "the table has more records than can be written ({most}); publish a part", most=MOST_RECORDS
        )
    for scale in budget.scales:
        split_scale(scale)  # refuses noise beyond 64 bits
    if way == "projection" and schema.size > DENSE_CELLS:
        check_work(counts, budget)


def make_table(way: Way, counts: Counts, budget: Budget, *, rng: Rng) -> Counts:
    """From private counts to the published table."""
    total = measure_total(counts, budget, rng=rng)
    make = {"tree": tree.grow, "wide": wide.grow_wide, "projection": project}[way]
    return make(counts, budget, total=total, rng=rng)
