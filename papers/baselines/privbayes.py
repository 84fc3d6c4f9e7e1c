"""Which sets of parents PrivBayes may choose from, and what each tells about a child."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from papers.baselines.base import generator, tally
from papers.baselines.plain import changed_cells, either_promise, guard
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.noise import Rng, exponential, geometric
from sudare.privacy import Guarantee, Neighbours, exact_epsilon
from sudare.schema import Schema, Unit
from sudare.schema.arrays import Integers, Reals


@dataclass(frozen=True, slots=True, order=True)
class Parent:
    """An attribute cut into `cells` runs of values of about equal length; all values if they are as many.

    >>> Parent(0, 2, 5).coarse(np.arange(5)).tolist()
    [0, 0, 0, 1, 1]
    """

    attribute: int
    cells: int
    values: int

    def coarse(self, codes: Integers) -> Integers:
        """The run that a value lies in."""
        return codes if self.cells == self.values else codes * self.cells // self.values


def levels(schema: Schema, attribute: int) -> list[Parent]:
    """How an attribute can be seen, finest first: as it is and, if its values are ordered, as 2, 4, 8, ... runs.

    >>> from sudare.schema import Attribute, NumberBins
    >>> age = Attribute(name="age", domain=NumberBins.of_width(0, 10, 1))
    >>> [parent.cells for parent in levels(Schema(name="s", attributes=(age,)), 0)]
    [10, 8, 4, 2]
    """
    size = schema.sizes[attribute]
    powers = range((size - 1).bit_length() - 1, 0, -1) if schema.attributes[attribute].is_ordered else range(0)
    return [Parent(attribute, size, size), *(Parent(attribute, 1 << power, size) for power in powers)]


def parent_sets(schema: Schema, done: Sequence[int], most: int, degree: int) -> list[tuple[Parent, ...]]:
    """List the maximal sets of at most `degree` attributes of `done`, coarsened or not, of at most `most` cells.

    Maximal: nothing can be added and nothing be made finer. Depends on public facts and earlier choices only.
    """
    seen = [levels(schema, attribute) for attribute in sorted(done)]
    found = list(_maximal(seen, most, degree))
    return found or [()]


def _maximal(seen: list[list[Parent]], most: int, degree: int) -> Iterator[tuple[Parent, ...]]:
    for chosen in _within(seen, most, degree):
        cells = _cells(chosen)
        taken = {parent.attribute: parent for parent in chosen}
        if not any(
            _could_be(parent, taken.get(parent.attribute), cells, most, len(chosen) < degree)
            for options in seen
            for parent in options
        ):
            yield chosen


def _could_be(parent: Parent, taken: Parent | None, cells: int, most: int, is_room: bool) -> bool:
    if taken is None:
        return is_room and parent.values > 1 and cells * parent.cells <= most
    return parent.cells > taken.cells and cells // taken.cells * parent.cells <= most


def _within(seen: list[list[Parent]], most: int, degree: int) -> Iterator[tuple[Parent, ...]]:
    if not seen or degree == 0:
        yield ()
        return
    first, *rest = seen
    yield from _within(rest, most, degree)
    for parent in first:
        if parent.cells <= most and parent.values > 1:
            yield from ((parent, *more) for more in _within(rest, most // parent.cells, degree - 1))


def _cells(parents: tuple[Parent, ...]) -> int:
    cells = 1
    for parent in parents:
        cells *= parent.cells
    return cells


def scores(
    counts: Counts,
    columns: Integers,
    candidates: Sequence[tuple[int, tuple[Parent, ...]]],
    known: dict[tuple[int, tuple[Parent, ...]], int],
) -> None:
    """Add 2 n R of every new candidate: sum |n C(x, p) - C(x) C(p)|, a whole number, so nothing is rounded."""
    groups: dict[tuple[Parent, ...], list[int]] = {}
    for child, parents in candidates:
        if (child, parents) not in known:
            groups.setdefault(parents, []).append(child)
    for parents, children in groups.items():
        codes, cells = coded(columns, parents)
        for child in children:
            size = counts.schema.sizes[child]
            table = np.bincount(codes * size + columns[:, child], weights=counts.values, minlength=cells * size)
            known[child, parents] = dependence(table.astype(np.int64).reshape(cells, size))


def dependence(table: Integers) -> int:
    """Sum |n C(x, p) - C(x) C(p)| over a table: 2 n times how many records the product of its margins misplaces.

    >>> dependence(np.array([[1, 0], [0, 1]]))
    4
    """
    product = np.outer(table.sum(axis=1), table.sum(axis=0))
    return int(np.abs(int(table.sum()) * table - product).sum())


def coded(columns: Integers, parents: tuple[Parent, ...]) -> tuple[Integers, int]:
    """Number the combinations of the parents; with how many there are."""
    codes, cells = np.zeros(len(columns), dtype=np.int64), 1
    for parent in parents:
        codes = codes * parent.cells + parent.coarse(columns[:, parent.attribute])
        cells *= parent.cells
    return codes, cells


# PrivBayes: a Bayesian network chosen and measured in private, then records sampled from it (Zhang et al. 2014).


STRUCTURE_SHARE = Fraction(3, 10)  # the paper's beta
TOTAL_SHARE = Fraction(1, 100)  # for the number of records, where it is not public


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkNode:
    """An attribute, the (coarsened) attributes that it depends on, and the noisy table of all of them, itself last."""

    child: int
    parents: tuple[Parent, ...]
    table: Reals


@dataclass(frozen=True, kw_only=True, slots=True)
class PrivBayes:
    """Choose for one attribute after another the parents that tell most about it, measure the tables, sample records.

    choose   by the exponential mechanism on R = 1/2 sum |C(x, p) - C(x) C(p)/n| (in records), 3/10 of epsilon
    measure  each of the d tables with geometric noise of scale d s/epsilon_2, negative cells 0
    theta    parents are allowed if |x| * |parents| <= n epsilon_2/(d s theta): cells hold `theta` times their noise

    The first attribute is drawn evenly. Candidates are the maximal allowed sets; ordered attributes may be coarsened
    to 2, 4, 8, ... runs of values as parents, which are the paper's taxonomies of numbers. An attribute for which no
    parent is allowed stands alone. s is 2 for replace-one, with n public, and 1 for add/remove, where 1/100 of epsilon
    measures n.

    Guarantee: epsilon-DP. R changes by at most 3 + 2/n for one replaced record (the paper's bound) and by at most 2
    for one more or less. Scores are exact fractions, the choice and the noise are exact draws. Proof:
    proofs/baselines.md
    Error: what the network leaves out, the noise of its tables, and the sampling of records.
    Source: Zhang, Cormode, Procopiuc, Srivastava, Xiao, PrivBayes: private data release via Bayesian networks, 2014
    and 2017

    >>> PrivBayes(epsilon=1).shares("add-remove")
    (Fraction(1, 100), Fraction(297, 1000), Fraction(693, 1000))
    """

    epsilon: Fraction | str | int | float
    theta: int = 4
    degree: int = 3  # most parents

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))
        for name in ("theta", "degree"):
            if getattr(self, name) < 1:
                raise ParameterError("{name} ({value}) must be at least 1", name=name, value=getattr(self, name))

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Guarantee:
        """Tell the promise before any data is opened."""
        return either_promise(Fraction(self.epsilon), unit=unit, neighbours=neighbours)

    def shares(self, neighbours: Neighbours | None = None) -> tuple[Fraction, Fraction, Fraction]:
        """Epsilon for the number of records, for the choice of parents, and for the tables."""
        whole = Fraction(self.epsilon)
        total = TOTAL_SHARE * whole if neighbours == "add-remove" else Fraction(0)
        return total, STRUCTURE_SHARE * (whole - total), (1 - STRUCTURE_SHARE) * (whole - total)

    def network(
        self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng
    ) -> tuple[int, tuple[NetworkNode, ...]]:
        """Learn the number of records and the network: all that comes out, but for sampling."""
        guard(self.guarantee(unit=counts.schema.unit, neighbours=neighbours), counts.schema)
        for_total, for_choice, for_tables = self.shares(neighbours)
        records = counts.total
        if for_total:
            records = max(int(geometric([records], epsilon=for_total, sensitivity=1, rng=rng)[0]), 1)
        many = len(counts.schema.sizes)
        most = int(records * for_tables / (many * changed_cells(neighbours) * self.theta))
        columns = counts.columns()
        nodes = []
        for child, parents in self._structure(counts, columns, most, for_choice, neighbours, rng):
            exact = joint(counts, columns, child, parents)
            noisy = geometric(exact, epsilon=for_tables / many, sensitivity=changed_cells(neighbours), rng=rng)
            nodes.append(NetworkNode(child=child, parents=parents, table=np.maximum(noisy, 0).astype(np.float64)))
        return records, tuple(nodes)

    def records(
        self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng, size: int | None = None
    ) -> Integers:
        """Learn, then sample rows of codes; as many as there are records, or as told."""
        records, nodes = self.network(counts, neighbours=neighbours, rng=rng)
        return sample(nodes, counts.schema, size=records if size is None else size, rng=generator(rng))

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Counts:
        """Learn, sample, count."""
        return tally(counts.schema, self.records(counts, neighbours=neighbours, rng=rng))

    def _structure(
        self, counts: Counts, columns: Integers, most: int, epsilon: Fraction, neighbours: Neighbours | None, rng: Rng
    ) -> Iterator[tuple[int, tuple[Parent, ...]]]:
        """The attributes with their parents, in the order in which they are chosen."""
        schema = counts.schema
        left = list(range(len(schema.sizes)))
        yield (done := [left.pop(rng.below(len(left)))])[0], ()
        known: dict[tuple[int, tuple[Parent, ...]], int] = {}
        steps = len(left)
        while left:
            candidates = [
                (child, parents)
                for child in left
                for parents in parent_sets(schema, done, most // schema.sizes[child], self.degree)
            ]
            scores(counts, columns, candidates, known)
            chosen, parents = candidates[
                exponential(
                    [known[one] for one in candidates],
                    epsilon=epsilon / steps,
                    sensitivity=score_sensitivity(counts.total, neighbours),
                    rng=rng,
                )
            ]
            left.remove(chosen)
            done.append(chosen)
            yield chosen, parents


def score_sensitivity(records: int, neighbours: Neighbours | None) -> int:
    """By how much 2 n R changes in units of `scores`: 2n times 2 (add/remove), 2n times 3 + 2/n (replace-one).

    >>> score_sensitivity(10, "add-remove"), score_sensitivity(10, "replace")
    (40, 64)
    """
    records = max(records, 1)
    return 4 * records if neighbours == "add-remove" else 6 * records + 4


def joint(counts: Counts, columns: Integers, child: int, parents: tuple[Parent, ...]) -> Integers:
    """The exact table of the parents and the child, one row for every combination of the parents."""
    size = counts.schema.sizes[child]
    codes, cells = coded(columns, parents)
    table = np.bincount(codes * size + columns[:, child], weights=counts.values, minlength=cells * size)
    return table.astype(np.int64).reshape(cells, size)


def sample(nodes: tuple[NetworkNode, ...], schema: Schema, *, size: int, rng: np.random.Generator) -> Integers:
    """Sample rows attribute by attribute; parents that were never seen say nothing, and the child is drawn evenly."""
    rows = np.zeros((size, len(schema.sizes)), dtype=np.int64)
    for node in nodes:
        codes, _ = coded(rows, node.parents)
        table = np.where(node.table.sum(axis=1, keepdims=True) > 0, node.table, 1.0)
        ends = np.cumsum(table / table.sum(axis=1, keepdims=True), axis=1) + np.arange(len(table))[:, None]
        ends[:, -1] = np.arange(1, len(table) + 1)  # a row ends where the next begins, whatever the rounding
        found = np.searchsorted(ends.ravel(), codes + rng.random(size), side="right")
        rows[:, node.child] = np.clip(found - codes * table.shape[1], 0, table.shape[1] - 1)
    return rows
