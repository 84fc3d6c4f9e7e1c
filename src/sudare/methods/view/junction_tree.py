"""The junction tree: groups of attributes whose tables make up the view, and how an edge more changes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from sudare.schema.arrays import Reals

Clique = tuple[int, ...]

MOST_CELLS = 40_000  # of one clique
MOST_TOTAL = 100_000  # of all cliques


@dataclass(frozen=True, slots=True)
class CliqueTree:
    """Cliques (sorted attributes) and links (i, j) between them; what two linked cliques share separates them.

    Every attribute has a clique, and the cliques that hold it hang together: the running intersection.

    >>> tree = CliqueTree.alone(3).joined(0, 1).joined(1, 2)
    >>> tree.cliques[3:], tree.cells([4, 5, 6])
    (((0, 1), (1, 2)), 65)
    """

    cliques: tuple[Clique, ...]
    links: tuple[tuple[int, int], ...]

    @classmethod
    def alone(cls, attributes: int) -> CliqueTree:
        """Every attribute by itself: the product."""
        return cls(tuple((attribute,) for attribute in range(attributes)), ())

    def separator(self, link: tuple[int, int]) -> Clique:
        """What two linked cliques share."""
        return tuple(sorted(set(self.cliques[link[0]]) & set(self.cliques[link[1]])))

    def cells(self, sizes: Sequence[int]) -> int:
        """How many numbers the tables hold."""
        return sum(math.prod(sizes[attribute] for attribute in clique) for clique in self.cliques)

    def neighbours(self) -> list[list[int]]:
        """The cliques linked to each."""
        near: list[list[int]] = [[] for _ in self.cliques]
        for first, second in self.links:
            near[first].append(second)
            near[second].append(first)
        return near

    @property
    def parts(self) -> list[int]:
        """The part of the tree that every attribute is in: attributes of two parts are independent of each other."""
        near = self.neighbours()
        part_of: dict[int, int] = {}
        for root in range(len(self.cliques)):
            if root not in part_of:
                part_of |= dict.fromkeys(_spread(near, [root]), root)
        found = {attribute: part_of[place] for place, clique in enumerate(self.cliques) for attribute in clique}
        return [found[attribute] for attribute in range(len(found))]

    def prices(self, sizes: Sequence[int]) -> dict[tuple[int, int], int]:
        """How many cells every pair (carried, reached) would add, for those whose tables stay small."""
        near, total = self.neighbours(), self.cells(sizes)
        members = [set(clique) for clique in self.cliques]
        shared = {pair: set(self.separator(pair)) for a, b in self.links for pair in ((a, b), (b, a))}
        homes: list[list[int]] = [[] for _ in sizes]
        for place, clique in enumerate(self.cliques):
            for attribute in clique:
                homes[attribute].append(place)
        result = {}
        for first in range(len(sizes)):
            before = _spread(near, homes[first])
            roads = self._roads(first, before, members, shared, sizes)
            seen = {first}
            for place in before:  # nearest first: an attribute is reached where it is met first
                for second in members[place] - seen:
                    added, largest = roads[place]
                    if before[place] >= 0:
                        cells, more = self._widen(first, {second}, (before[place], place), members, shared, sizes)
                        added, largest = added + more, max(largest, cells)
                    if largest <= MOST_CELLS and total + added <= MOST_TOTAL:
                        result[first, second] = added
                seen |= members[place]
        return result

    def _roads(
        self,
        first: int,
        before: Mapping[int, int],
        members: Sequence[set[int]],
        shared: Mapping[tuple[int, int], set[int]],
        sizes: Sequence[int],
    ) -> dict[int, tuple[int, int]]:
        """What carrying `first` up to every clique adds on the way, and the largest table there; up to, not into it."""
        roads: dict[int, tuple[int, int]] = {}
        for place, last in before.items():
            if last < 0 or before[last] < 0:
                roads[place] = (0, 0)
                continue
            link = (before[last], last)
            cells, more = self._widen(first, shared[last, place], link, members, shared, sizes)
            roads[place] = roads[last][0] + more, max(roads[last][1], cells)
        return roads

    def _widen(
        self,
        first: int,
        onward: set[int],
        link: tuple[int, int],
        members: Sequence[set[int]],
        shared: Mapping[tuple[int, int], set[int]],
        sizes: Sequence[int],
    ) -> tuple[int, int]:
        """The cells of the table that carries `first` over a clique, from a link towards `onward`, and those added."""
        kept = shared[link] | onward
        cells = sizes[first]
        for attribute in kept:
            cells *= sizes[attribute]
        return cells, cells - cells // sizes[first] if kept == members[link[1]] else cells

    def path(self, first: int, second: int) -> list[int] | None:
        """The shortest chain of cliques from one that holds `first` to one that holds `second`; None between parts."""
        starts = [place for place, clique in enumerate(self.cliques) if first in clique]
        before = _spread(self.neighbours(), starts)
        home = next((place for place in before if second in self.cliques[place]), None)
        return None if home is None else _trace(before, home)

    def joined(self, first: int, second: int) -> CliqueTree:
        """The tree that holds the pair too: a clique more between parts, else `first` is carried along the path."""
        path = self.path(first, second)
        if path is None:
            place = len(self.cliques)
            pair = (min(first, second), max(first, second))
            return CliqueTree((*self.cliques, pair), (*self.links, (first, place), (place, second)))
        if len(path) == 1:
            return self
        return self._carried(first, second, path)

    def _carried(self, first: int, second: int, path: list[int]) -> CliqueTree:
        cliques, links, actual = list(self.cliques), set(self.links), list(path)
        for step in range(1, len(path)):
            place = path[step]
            needed = {first} | set(self.separator((path[step - 1], place)))
            needed |= set(self.separator((place, path[step + 1]))) if step + 1 < len(path) else {second}
            if needed - {first} == set(self.cliques[place]):
                cliques[place] = tuple(sorted(needed))
                continue
            cliques.append(tuple(sorted(needed)))  # a slimmer clique takes the place of this one on the path
            actual[step] = len(cliques) - 1
            links |= {(actual[step], place)}
        for step in range(1, len(path)):
            links -= {(path[step - 1], path[step]), (path[step], path[step - 1])}
            links |= {(actual[step - 1], actual[step])}
        return CliqueTree(tuple(cliques), tuple(sorted(links)))


def _spread(near: list[list[int]], starts: list[int]) -> dict[int, int]:
    """Every clique within reach, nearest first, with the one before it."""
    before, queue = dict.fromkeys(starts, -1), list(starts)
    for place in queue:
        for other in near[place]:
            if other not in before:
                before[other] = place
                queue.append(other)
    return before


def _trace(before: dict[int, int], place: int) -> list[int]:
    path = [place]
    while before[path[-1]] >= 0:
        path.append(before[path[-1]])
    return path[::-1]


# The fitted model: calibrated tables of the cliques, and what follows from them by sums and products.


MOST_JOINT_CELLS = 2**17  # of a table, all versions, over attributes that are asked about again
MOST_KEPT_CELLS = 2**22  # of all such tables together: 34 MB
ASKED_TO_KEEP = (1, 1, 2, 8, 16)  # times, by the number of attributes: only then is a table of them worth its making
EVERY: frozenset[int] = frozenset()
Message = tuple[Reals, Clique]  # weights, (versions, values, ...), of these attributes


@dataclass(frozen=True, slots=True)
class CliqueStep:
    """One clique of a plan: its table given the separator above, and the cliques below whose messages it takes."""

    node: int
    above: Clique
    own: Clique  # attributes whose evidence comes in here
    below: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """Tables of the cliques in counts, with a first axis of versions: the estimate, then replicates of it.

    The model is the product of the cliques' tables over the product of their separators'. Parts of the tree that are
    not linked are independent.
    """

    tree: CliqueTree
    tables: tuple[Reals, ...]
    _plans: dict[tuple[frozenset[int], int | None], list[list[CliqueStep]]] = field(default_factory=dict)
    _reduced: dict[Any, Reals] = field(default_factory=dict)
    _asked: dict[frozenset[int], int] = field(default_factory=dict)  # how often; for EVERY, cells that are kept

    @property
    def versions(self) -> int:
        """How many versions the tables hold."""
        return int(self.tables[0].shape[0])

    @property
    def totals(self) -> Reals:
        """The number of records, version by version."""
        if "totals" not in self._reduced:
            table = self.tables[0]
            self._reduced["totals"] = table.reshape(table.shape[0], -1).sum(axis=1)
        return self._reduced["totals"]

    def only(self, version: int) -> Factors:
        """One version by itself."""
        return Factors(self.tree, tuple(table[version : version + 1] for table in self.tables))

    def of(self, attributes: Sequence[int]) -> Reals:
        """The table of attributes that one clique holds, axes in the order asked for; (versions, ...)."""
        node = next(place for place, clique in enumerate(self.tree.cliques) if set(attributes) <= set(clique))
        return self._marginal(node, tuple(attributes))

    def answer(self, evidence: Mapping[int, Reals]) -> Reals:
        """Count records, each weighted by the product of the evidence of its bins; one number a version.

        `evidence[attribute]` holds a weight of 0 to 1 for every bin. Only cliques between the attributes are visited.
        """
        totals = self.totals
        if not evidence:
            return totals
        kept = self.keep_joint(frozenset(evidence))
        if kept is not None:
            return weigh_all(*kept, evidence)
        result = totals
        for steps in self._plan(frozenset(evidence)):
            messages: dict[int, Message] = {}
            for step in steps:
                messages[step.node] = self._message(step, messages, evidence)
            part = messages[steps[-1].node][0]
            result = result * part / np.where(totals > 0, totals, 1.0)
        return result

    def has_joint(self, attributes: frozenset[int]) -> bool:
        """Tell whether the table of these attributes is kept."""
        return ("joint", attributes) in self._reduced

    def keep_joint(self, attributes: frozenset[int]) -> Message | None:
        """The table of attributes that are asked about again: kept, since questions come back to the same ones."""
        key = ("joint", attributes)
        if key not in self._reduced:
            asked = self._asked[attributes] = self._asked.get(attributes, 0) + 1
            if asked < ASKED_TO_KEEP[min(len(attributes), len(ASKED_TO_KEEP) - 1)]:
                return None
            cells = self.versions * math.prod(self.width(attribute) for attribute in attributes)
            if cells > MOST_JOINT_CELLS or self._asked.get(EVERY, 0) + cells > MOST_KEPT_CELLS:
                return None
            self._asked[EVERY] = self._asked.get(EVERY, 0) + cells
            self._reduced[key] = self.joint(sorted(attributes))
        return self._reduced[key], tuple(sorted(attributes))

    def width(self, attribute: int) -> int:
        """How many bins an attribute has."""
        node = next(place for place, clique in enumerate(self.tree.cliques) if attribute in clique)
        return int(self.tables[node].shape[1 + self.tree.cliques[node].index(attribute)])

    def profile(self, attribute: int, evidence: Mapping[int, Reals]) -> Reals:
        """Count the records of every bin of an attribute, weighted by the evidence of others; (versions, bins)."""
        wanted = frozenset(evidence) | {attribute}
        kept = self.keep_joint(wanted)
        if kept is not None:
            return weigh_all(*kept, evidence)
        totals, result = self.totals, np.ones(1)
        for steps in self._plan(wanted, attribute):
            messages: dict[int, Message] = {}
            for step in steps[:-1]:
                messages[step.node] = self._message(step, messages, evidence)
            top = steps[-1]
            if attribute in top.own:
                result = result * self._profile_at(top, messages, evidence, attribute)
            else:
                part = self._message(top, messages, evidence)[0]
                result = result * (part / np.where(totals > 0, totals, 1.0))[:, None]
        return result

    def _profile_at(
        self, top: CliqueStep, messages: Mapping[int, Message], evidence: Mapping[int, Reals], attribute: int
    ) -> Reals:
        factors = [messages[child] for child in top.below]
        factors += [(evidence[own], (own,)) for own in top.own if own != attribute]
        axes = tuple(sorted({attribute, *(own for _, held in factors for own in held)}))
        return _contract(self._given(top.node, axes, ()), axes, factors, (attribute,))

    def joint(self, attributes: Sequence[int]) -> Reals:
        """The table of any attributes, axes in the order asked for; (versions, bins, bins, ...)."""
        return self.weigh_others(attributes, {})

    def weigh_others(self, attributes: Sequence[int], evidence: Mapping[int, Reals]) -> Reals:
        """The table of some attributes, records weighted by the evidence of others; axes in the order asked for."""
        wanted = frozenset(attributes)
        pieces: list[Message] = []
        for steps in self._plan(wanted.union(evidence)):
            tables: dict[int, Message] = {}
            for step in steps:
                tables[step.node] = self._kept(step, tables, wanted, evidence)
            pieces.append(tables[steps[-1].node])
        totals = self.totals
        table, axes = pieces[0]
        for other, more in pieces[1:]:
            table = _einsum([(table, axes), (other, more)], (*axes, *more))
            axes = (*axes, *more)
            table = table / np.where(totals > 0, totals, 1.0).reshape((-1,) + (1,) * len(axes))
        return _einsum([(table, axes)], tuple(attributes))

    def _message(self, step: CliqueStep, messages: Mapping[int, Message], evidence: Mapping[int, Reals]) -> Message:
        """What a clique tells the next one: weights of attributes they share, of all of them only where needed."""
        factors = [messages[child] for child in step.below]
        factors += [(evidence[attribute], (attribute,)) for attribute in step.own]
        needed = {attribute for _, own in factors for attribute in own}
        if len(factors) == 1 and needed <= set(step.above):
            return factors[0]  # the clique's table, given what is shared, sums to 1
        axes = tuple(sorted(needed | set(step.above)))
        return _contract(self._given(step.node, axes, step.above), axes, factors, step.above), step.above

    def _kept(
        self, step: CliqueStep, tables: Mapping[int, Message], wanted: frozenset[int], evidence: Mapping[int, Reals]
    ) -> Message:
        below = [tables[child] for child in step.below]
        weights: list[Message] = [(evidence[own], (own,)) for own in step.own if own in evidence]
        carried = {attribute for _, axes in below for attribute in axes if attribute in wanted}
        seps = {attribute for child in step.below for attribute in self.tree.separator((child, step.node))}
        axes = tuple(sorted(seps | set(step.own) | set(step.above)))
        table = self._given(step.node, axes, step.above)
        out = tuple(sorted((carried | (wanted & set(step.own))) - set(step.above)))
        return _einsum([(table, axes), *weights, *below], (*step.above, *out)), (*step.above, *out)

    def _given(self, node: int, axes: Clique, above: Clique) -> Reals:
        """The clique's table over some attributes, divided by that of the separator above."""
        key = (node, axes, above)
        if key not in self._reduced:
            table = self._marginal(node, axes)
            if above:
                sums = table.sum(
                    axis=tuple(1 + axes.index(attribute) for attribute in axes if attribute not in above), keepdims=True
                )
                table = table / np.where(sums > 0, sums, 1.0)
            self._reduced[key] = table
        return self._reduced[key]

    def _marginal(self, node: int, attributes: tuple[int, ...]) -> Reals:
        clique = self.tree.cliques[node]
        out = tuple(1 + place for place, attribute in enumerate(clique) if attribute not in attributes)
        table = self.tables[node].sum(axis=out) if out else self.tables[node]
        kept = [attribute for attribute in clique if attribute in attributes]
        order = [1 + kept.index(attribute) for attribute in attributes]
        return np.ascontiguousarray(table.transpose([0, *order]))

    def _plan(self, wanted: frozenset[int], top: int | None = None) -> list[list[CliqueStep]]:
        key = (wanted, top)
        if key not in self._plans:
            self._plans[key] = plan(self.tree, wanted, top)
        return self._plans[key]


def plan(tree: CliqueTree, wanted: frozenset[int], top: int | None = None) -> list[list[CliqueStep]]:
    """For every part of the tree that holds wanted attributes: its cliques between them, from the leaves up.

    The uppermost clique is one with many of them, and with the attribute `top`, if that is given.
    """
    rest, plans = set(wanted), []
    while rest:
        root = _choose_root(tree, rest, top)
        before, nearest = _spread_from(tree, root)
        kept, homes = {root}, dict.fromkeys(rest & set(tree.cliques[root]), root)
        for attribute in sorted(rest - set(homes)):
            home = nearest.get(attribute)
            if home is None:
                continue
            homes[attribute] = home
            while home not in kept:
                kept.add(home)
                home = before[home]
        plans.append(_steps(tree, before, kept, homes))
        rest -= set(homes)
    return plans


@lru_cache(maxsize=256)
def _spread_from(tree: CliqueTree, root: int) -> tuple[dict[int, int], dict[int, int]]:
    """Every clique that hangs together with the root, and the nearest one that holds each attribute."""
    before, nearest = reach(tree.neighbours(), root), dict[int, int]()
    for place in before:
        for attribute in tree.cliques[place]:
            nearest.setdefault(attribute, place)
    return before, nearest


@lru_cache(maxsize=16)
def _find_holders(tree: CliqueTree) -> dict[int, list[int]]:
    """The cliques that hold every attribute."""
    holders: dict[int, list[int]] = {}
    for place, clique in enumerate(tree.cliques):
        for attribute in clique:
            holders.setdefault(attribute, []).append(place)
    return holders


def _choose_root(tree: CliqueTree, rest: set[int], top: int | None) -> int:
    """The clique with most of some attributes, the smallest of such; with `top`, if that is among them."""
    holders = _find_holders(tree)
    found = holders[top] if top is not None and top in rest else sorted({p for one in rest for p in holders[one]})
    return max(found, key=lambda place: (len(rest.intersection(tree.cliques[place])), -len(tree.cliques[place])))


def reach(near: list[list[int]], root: int) -> dict[int, int]:
    """Every clique that hangs together with the root, nearest first, with the one before it."""
    before, queue = {root: -1}, [root]
    for place in queue:
        for other in near[place]:
            if other not in before:
                before[other] = place
                queue.append(other)
    return before


def _steps(tree: CliqueTree, before: dict[int, int], kept: set[int], homes: dict[int, int]) -> list[CliqueStep]:
    steps, order = [], [clique for clique in before if clique in kept]
    for place in reversed(order):
        above = tree.separator((before[place], place)) if before[place] >= 0 else ()
        below = tuple(clique for clique in order if before[clique] == place)
        own = tuple(sorted(attribute for attribute, home in homes.items() if home == place))
        steps.append(CliqueStep(place, above, own, below))
    return steps


def _einsum(operands: Sequence[tuple[Reals, Clique]], out: Clique) -> Reals:
    """Multiply and sum over attributes; the axis of versions comes first in every table.

    Tables are taken in one by one, by products of matrices; an attribute that is not needed any more is summed over.
    """
    table, axes = operands[0]
    for place, (other, more) in enumerate(operands[1:], start=2):
        needed = {*out, *(attribute for _, later in operands[place:] for attribute in later)}
        table, axes = _multiply_tables(table, axes, other, more, needed)
    table, axes = _sum_to(table, axes, set(out))
    return table if axes == out else table.transpose([0, *(1 + axes.index(attribute) for attribute in out)])


def _sum_to(table: Reals, axes: Clique, needed: set[int]) -> Message:
    gone = tuple(1 + place for place, attribute in enumerate(axes) if attribute not in needed)
    kept = tuple(attribute for attribute in axes if attribute in needed)
    return (table.sum(axis=gone) if gone else table), kept


def _multiply_tables(first: Reals, axes: Clique, second: Reals, more: Clique, needed: set[int]) -> Message:
    """The product of two tables, summed over the attributes that are not needed: one product of matrices."""
    first, axes = _sum_to(first, axes, needed | set(more))
    second, more = _sum_to(second, more, needed | set(axes))
    if len(more) == 1 and more[0] in axes:  # weights of one attribute: nothing is laid out anew
        place = axes.index(more[0])
        if more[0] not in needed:
            return _sum_out(first, 1 + place, second), (*axes[:place], *axes[place + 1 :])
        return first * second.reshape(second.shape[0], *(1,) * place, -1, *(1,) * (len(axes) - place - 1)), axes
    if more and set(more) <= set(axes):
        laid = second.transpose(
            [0, *(1 + place for place in sorted(range(len(more)), key=lambda at: axes.index(more[at])))]
        )
        sizes = [size if axis in more else 1 for axis, size in zip(axes, first.shape[1:], strict=True)]
        return _sum_to(first * laid.reshape(laid.shape[0], *sizes), axes, needed)
    shared = [attribute for attribute in axes if attribute in more]
    kept = [attribute for attribute in shared if attribute in needed]
    summed = [attribute for attribute in shared if attribute not in needed]
    left = [attribute for attribute in axes if attribute not in more]
    right = [attribute for attribute in more if attribute not in axes]
    rows = first.transpose([0, *(1 + axes.index(attribute) for attribute in (*kept, *left, *summed))])
    columns = second.transpose([0, *(1 + more.index(attribute) for attribute in (*kept, *summed, *right))])
    batch = rows.shape[: 1 + len(kept)]
    wide, high = rows.shape[1 + len(kept) : rows.ndim - len(summed)], columns.shape[columns.ndim - len(right) :]
    inner = math.prod(rows.shape[rows.ndim - len(summed) :])
    product = np.matmul(
        rows.reshape(*batch, math.prod(wide), inner),
        columns.reshape(*columns.shape[: 1 + len(kept)], inner, math.prod(high)),
    )
    return product.reshape(*product.shape[: 1 + len(kept)], *wide, *high), (*kept, *left, *right)


def _contract(table: Reals, axes: Clique, factors: Sequence[tuple[Reals, Clique]], out: Clique) -> Reals:
    """What `_einsum` gives where every factor is over attributes of the table, by matrix products: many times quicker.

    Attributes that only one factor weighs go first, each by one product; what is left is small.
    """
    left = list(axes)
    uses = [attribute for _, own in factors for attribute in own]
    rest: list[tuple[Reals, Clique]] = []
    for factor, own in factors:
        if len(own) > 1 or own[0] in out or uses.count(own[0]) > 1:
            rest.append((factor, own))
            continue
        table = _sum_out(table, 1 + left.index(own[0]), factor)
        left.remove(own[0])
    for factor, own in rest:
        shape = [1] * table.ndim
        for size, place in zip(factor.shape, (0, *(1 + left.index(attribute) for attribute in own)), strict=True):
            shape[place] = size
        table = table * factor.reshape(shape)  # attributes stand in one order in both
    gone = tuple(1 + place for place, attribute in enumerate(left) if attribute not in out)
    table = table.sum(axis=gone) if gone else table
    kept = [attribute for attribute in left if attribute in out]
    return table if tuple(kept) == out else table.transpose([0, *(1 + kept.index(attribute) for attribute in out)])


def _sum_out(table: Reals, axis: int, weights: Reals) -> Reals:
    """Weigh one axis of a table and sum over it; `weights` are (versions, values)."""
    shape = table.shape
    if axis == table.ndim - 1:
        summed = np.matmul(table.reshape(shape[0], -1, shape[axis]), weights[:, :, None])
    else:
        flat = table.reshape(shape[0], math.prod(shape[1:axis]), shape[axis], -1)
        summed = np.matmul(weights[:, None, None, :], flat)
    reshaped: Reals = summed.reshape(summed.shape[0], *shape[1:axis], *shape[axis + 1 :])
    return reshaped


def weigh_all(table: Reals, axes: Clique, weights: Mapping[int, Reals]) -> Reals:
    """Weigh attributes of a table and sum over them; the others stay."""
    for place in range(len(axes) - 1, -1, -1):
        if axes[place] in weights:
            table = _sum_out(table, 1 + place, weights[axes[place]])
    return table
