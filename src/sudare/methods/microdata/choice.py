"""Which way a table is made: decided from public facts alone."""

from __future__ import annotations

from typing import Literal

import numpy as np

from sudare.counts import Counts
from sudare.errors import DomainError, ParameterError
from sudare.mechanisms import Rng, geometric
from sudare.methods.microdata.places import check_share
from sudare.methods.microdata.projection import DENSE_CELLS, project
from sudare.methods.microdata.sensitivity import Budget
from sudare.methods.microdata.tree import grow
from sudare.schema import Schema

Way = Literal["projection", "tree"]
TREE_CELLS = 2**24  # the tree holds a few numbers per cell: about 1 GB


def decide(method: str, schema: Schema) -> Way:
    """Choose the way: the tree wherever it fits in memory, since it was never worse (papers/terada2017).

    >>> from sudare.schema import Attribute, Unit, Values
    >>> sex = Attribute(name="sex", domain=Values(values=("F", "M")))
    >>> decide("auto", Schema(name="s", unit=Unit(), attributes=(sex,)))
    'tree'
    """
    if method == "projection" or (method == "auto" and schema.size > TREE_CELLS):
        return "projection"
    return "tree"


def check_schema(method: str, schema: Schema) -> None:
    """Refuse a domain that cannot be published, before anything is spent."""
    if decide(method, schema) == "tree" and schema.size > TREE_CELLS:
        raise ParameterError(
            "the complete table has {cells} cells, but the tree takes at most {most};"
            " use method auto or projection, or coarser bins",
            cells=schema.size,
            most=TREE_CELLS,
        )
    possible = schema.possible_size  # refuses a domain without any
    if schema.size > DENSE_CELLS:
        check_share(possible, schema.size)


def make_table(way: Way, counts: Counts, budget: Budget, *, rng: Rng) -> Counts:
    """From private counts to the published table."""
    if counts.schema.impossible and bool(counts.schema.is_impossible(counts.columns()).any()):
        raise DomainError("rows fall in combinations declared impossible; see `sudare schema check`")
    total = measure_total(counts, budget, rng=rng)
    make = grow if way == "tree" else project
    return make(counts, budget, total=total, rng=rng)


def measure_total(counts: Counts, budget: Budget, *, rng: Rng) -> int:
    """The number of records: exact where it is public, else with noise of its own."""
    if budget.total_epsilon is None:
        return counts.total
    exact = np.array([counts.total], dtype=np.int64)
    noisy = geometric(exact, epsilon=budget.total_epsilon, sensitivity=budget.total_sensitivity, rng=rng)
    return max(0, int(noisy[0]))
