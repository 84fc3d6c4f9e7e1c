"""From the published table to records (step 4 of section 4.1)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from sudare.counts import Countable, Counts
from sudare.errors import ParameterError
from sudare.methods.asked import attributes_asked, check_facts
from sudare.methods.budget import CountBudget, measure_total, plan
from sudare.methods.certify import certificate, named
from sudare.methods.columns import coded, drawn_inside
from sudare.methods.microdata import sparse_tree as wide
from sudare.methods.microdata import tree
from sudare.methods.microdata.expected_error import MicrodataPreview, foresee
from sudare.methods.microdata.projection import DENSE_CELLS, check_share, check_work, project
from sudare.methods.microdata.sparse_tree import wide_fits, wide_wins
from sudare.noise import Rng, system_rng
from sudare.noise.geometric import split_scale
from sudare.privacy import Guarantee, Ledger, Neighbours, Unrecorded, exact_epsilon
from sudare.privacy.promise import check_neighbours
from sudare.releases import Frame, Release
from sudare.releases.frame import check_names
from sudare.schema import Schema, Unit


def records(table: Counts, *, rng: Rng, inside: bool = False) -> Frame:
    """Write every cell out as often as it counts, rows in random order so that their place tells nothing.

    With `inside`, numbers and dates are drawn within their bins; else bins are published as labels.
    """
    rows = table.expand()[rng.permutation(table.total)]
    columns = {}
    for position, one in enumerate(table.schema.attributes):
        codes = rows[:, position]
        columns[one.name] = drawn_inside(one, codes, rng=rng) if inside else coded(one, codes)
    return Frame(columns)


# Which way a table is made: decided from public facts alone.


MicrodataAlgorithm = Literal["projection", "tree", "wide"]
MOST_RECORDS = 2**31  # they are held in memory before they are written
MOST_CELLS = 10**300  # beyond, expected errors leave the range of floats
TREE_CELLS = 2**24  # the dense tree holds a few numbers per cell: about 1 GB; beyond, the wide one follows the records


def decide(method: str, schema: Schema, epsilon: Fraction) -> MicrodataAlgorithm:
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


def plan_for(way: MicrodataAlgorithm, schema: Schema, guarantee: Guarantee) -> CountBudget:
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


def check_counts(way: MicrodataAlgorithm, counts: Counts, schema: Schema, budget: CountBudget) -> None:
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


def make_table(way: MicrodataAlgorithm, counts: Counts, budget: CountBudget, *, rng: Rng) -> Counts:
    """From private counts to the published table."""
    total = measure_total(counts, budget, rng=rng)
    make = {"tree": tree.grow, "wide": wide.grow_wide, "projection": project}[way]
    return make(counts, budget, total=total, rng=rng)


# The method's parameters, promise and order of steps.


VALUES = ("labels", "inside")
METHODS = ("auto", "tree", "projection")
NAMES: dict[MicrodataAlgorithm, str] = {
    "tree": "tree",
    "wide": "tree",
    "projection": "projection",
}  # as `method` takes them


@dataclass(frozen=True, kw_only=True, slots=True)
class Microdata:
    """Publish records with the columns of the original table.

    The table of all cells gets two-sided geometric noise, a valid table is made of it (no negative cell, whole
    numbers, the right total), and its cells are written out as records in random order. `method` says how the valid
    table is made: "projection" is the paper's nearest table; "tree" explains the noisy cells from their sums down
    and is nearer to the truth; "auto" decides from the schema and epsilon.

    Guarantee: epsilon-DP for the declared unit and neighbours. Proof: proofs/microdata.md
    Error: before the repair every cell has variance 2a/(1-a)^2, a = exp(-epsilon/sensitivity); the repair lowers it.
    Source: Terada, Yamaguchi, Hongo 2017, section 4.

    >>> Microdata(epsilon="1/2").guarantee().epsilon
    Fraction(1, 2)
    """

    epsilon: Fraction | str | int | float
    neighbours: Neighbours | None = None  # None: the ledger's, else replace-one
    method: Literal["auto", "tree", "projection"] = "auto"
    by: tuple[str, ...] | None = None  # the attributes to publish; all of them by default
    values: Literal["labels", "inside"] = "labels"  # bins as labels, or a value drawn inside the bin

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))
        if self.neighbours is not None:
            check_neighbours(self.neighbours)
        if self.method not in METHODS:
            raise ParameterError("method ({method}) must be auto, tree or projection", method=self.method)
        if self.values not in VALUES:
            raise ParameterError("values ({values}) must be labels or inside", values=self.values)
        object.__setattr__(self, "by", attributes_asked(self.by))

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Guarantee:
        """Tell the promise before any data is opened."""
        relation = self.neighbours or neighbours or "replace"
        return Guarantee(epsilon=Fraction(self.epsilon), neighbours=relation, unit=unit or Unit())

    def preview(
        self, schema: Schema, *, rows: int | tuple[int, ...] = (), neighbours: Neighbours | None = None
    ) -> MicrodataPreview:
        """Tell the expected error from public facts, before anything is spent.

        `rows` is a public estimate of the number of records, or several of them.
        """
        chosen = self._chosen(schema)
        asked = (rows,) if isinstance(rows, int) else tuple(rows)
        return foresee(chosen, self._plan(chosen, neighbours)[1], rows=asked)

    def publish(
        self, source: Countable, *, ledger: Ledger | Unrecorded | None = None, rng: Rng | None = None
    ) -> Release:
        """Count, spend, draw, and return the release; an interrupt after the spend leaves it recorded."""
        purse = ledger if ledger is not None else Unrecorded()
        randomness = rng if rng is not None else system_rng()
        schema = self._chosen(source.schema)
        schema.require_confirmed()
        way, budget = self._plan(schema, purse.neighbours)
        expected = foresee(schema, budget).to_dict()
        counts = source.count(schema.names)
        check_counts(way, counts, schema, budget)
        spends = purse.spend(budget.parts, guarantee=budget.guarantee)
        table = self.draw(counts, neighbours=budget.guarantee.neighbours, rng=randomness)
        paper = certificate(
            method="microdata",
            parameters=named(self, neighbours=budget.guarantee.neighbours, method=NAMES[way]),
            guarantee=budget.guarantee,
            spends=spends,
            ledger_head=spends[-1].head,
            schema=schema,
            expected_error=expected,
            private=randomness.is_private,
        )
        return Release({"records": records(table, rng=randomness, inside=self.values == "inside")}, paper)

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        """Turn private counts into the published table: the step that the promise is about.

        It does not spend; `publish` does so first. Audits call it many times.
        """
        way, budget = self._plan(counts.schema, neighbours)
        check_counts(way, counts, counts.schema, budget)
        return make_table(way, counts, budget, rng=rng)

    def _chosen(self, schema: Schema) -> Schema:
        chosen = schema.select(self.by) if self.by is not None else schema
        check_schema(self.method, chosen)
        return chosen

    def _plan(self, schema: Schema, neighbours: Neighbours | None) -> tuple[MicrodataAlgorithm, CountBudget]:
        promise = self.guarantee(unit=schema.unit, neighbours=neighbours)
        way = decide(self.method, schema, promise.epsilon)
        return way, plan_for(way, schema, promise)
