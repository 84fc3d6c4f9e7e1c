"""The junction tree: groups of attributes whose tables make up the view, and how an edge more changes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from sudare.methods.view.products import Clique, CliqueProduct, Message, multiply_all, weigh_all
from sudare.schema.arrays import Reals

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
ASKED_TO_KEEP = (1, 1, 2, 24, 48)  # times, by the number of attributes: only then is a table of them worth its making
MOST_LAID_CELLS = 2**22  # of tables of cliques laid out for sums: 34 MB
EVERY: frozenset[int] = frozenset()
LAID: frozenset[int] = frozenset([-1])


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
    _sums: dict[int, dict[Clique, Reals]] = field(default_factory=dict)  # tables of a clique over fewer attributes
    _widths: dict[int, int] = field(default_factory=dict)
    _products: dict[tuple[int, Clique, tuple[Clique, ...], Clique], CliqueProduct] = field(default_factory=dict)
    _asked: dict[frozenset[int], int] = field(default_factory=dict)  # how often; EVERY and LAID: cells that are kept

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

    def without_nested(self) -> Factors:
        """The same model without the cliques that a linked one holds: fewer tables lie on the way of a question."""
        tree = self.tree
        near = [set(own) for own in tree.neighbours()]
        kept = set(range(len(near)))
        for place, clique in enumerate(tree.cliques):
            home = next((other for other in sorted(near[place]) if set(clique) <= set(tree.cliques[other])), None)
            if home is None:
                continue
            kept.remove(place)
            for other in near[place]:
                near[other] = (near[other] - {place}) | ({home} - {other})
            near[home] |= near[place] - {home}
        places = {old: new for new, old in enumerate(sorted(kept))}
        links = sorted((places[one], places[two]) for one in kept for two in near[one] if one < two)
        cliques = tuple(tree.cliques[place] for place in sorted(kept))
        return Factors(CliqueTree(cliques, tuple(links)), tuple(self.tables[place] for place in sorted(kept)))

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
            cells = self.versions * math.prod([self.width(attribute) for attribute in attributes])
            if cells > MOST_JOINT_CELLS or self._asked.get(EVERY, 0) + cells > MOST_KEPT_CELLS:
                return None
            self._asked[EVERY] = self._asked.get(EVERY, 0) + cells
            self._reduced[key] = self.joint(sorted(attributes))
        return self._reduced[key], tuple(sorted(attributes))

    def width(self, attribute: int) -> int:
        """How many bins an attribute has."""
        if attribute not in self._widths:
            node = next(place for place, clique in enumerate(self.tree.cliques) if attribute in clique)
            self._widths[attribute] = int(self.tables[node].shape[1 + self.tree.cliques[node].index(attribute)])
        return self._widths[attribute]

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
        return self._weigh_clique(top.node, (), factors, (attribute,))

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
            table = multiply_all([(table, axes), (other, more)], (*axes, *more))
            axes = (*axes, *more)
            table = table / np.where(totals > 0, totals, 1.0).reshape((-1,) + (1,) * len(axes))
        return multiply_all([(table, axes)], tuple(attributes))

    def _message(self, step: CliqueStep, messages: Mapping[int, Message], evidence: Mapping[int, Reals]) -> Message:
        """What a clique tells the next one: weights of attributes they share, of all of them only where needed."""
        factors = [messages[child] for child in step.below]
        factors += [(evidence[attribute], (attribute,)) for attribute in step.own]
        needed = {attribute for _, own in factors for attribute in own}
        if len(factors) == 1 and needed <= set(step.above):
            return factors[0]  # the clique's table, given what is shared, sums to 1
        return self._weigh_clique(step.node, step.above, factors, step.above), step.above

    def _weigh_clique(self, node: int, above: Clique, factors: Sequence[Message], out: Clique) -> Reals:
        """Weigh a clique's table given the separator above with factors, and sum over all attributes but `out`."""
        key = (node, above, tuple([own for _, own in factors]), out)
        product = self._products.get(key)
        if product is None:
            needed = {*out, *(attribute for _, own in factors for attribute in own)}
            product = CliqueProduct(key[2], out, self._given(node, tuple(sorted(needed)), above))
            self._asked[LAID] = self._asked.get(LAID, 0) + product.laid_cells
            if self._asked[LAID] > MOST_LAID_CELLS:
                self._products.clear()
                self._asked[LAID] = product.laid_cells
            self._products[key] = product
        return product.weigh(factors)

    def _kept(
        self, step: CliqueStep, tables: Mapping[int, Message], wanted: frozenset[int], evidence: Mapping[int, Reals]
    ) -> Message:
        below = [tables[child] for child in step.below]
        weights: list[Message] = [(evidence[own], (own,)) for own in step.own if own in evidence]
        carried = {attribute for _, axes in below for attribute in axes if attribute in wanted}
        if step.above and not carried and not wanted.intersection(step.own):
            return self._message(step, tables, evidence)
        clique = set(self.tree.cliques[step.node])
        beyond = [(table, axes) for table, axes in below if not clique.issuperset(axes)]
        factors = [*weights, *((table, axes) for table, axes in below if clique.issuperset(axes))]
        out = tuple(sorted((carried | (wanted & set(step.own))) - set(step.above)))
        if not beyond:
            return self._weigh_kept(step, factors, (*step.above, *out)), (*step.above, *out)
        shared = {attribute for _, axes in beyond for attribute in axes} | set(out) | set(step.above)
        axes = tuple(sorted(shared & clique))
        table = self._weigh_kept(step, factors, axes)
        return multiply_all([(table, axes), *beyond], (*step.above, *out)), (*step.above, *out)

    def _weigh_kept(self, step: CliqueStep, factors: Sequence[Message], out: Clique) -> Reals:
        """The clique's table given the separator above, weighed by factors; axes as in `out`, which may be all."""
        if factors:
            return self._weigh_clique(step.node, step.above, factors, out)
        axes = tuple(sorted(out))
        table = self._given(step.node, axes, step.above)
        return table if axes == out else table.transpose([0, *(1 + axes.index(attribute) for attribute in out)])

    def _given(self, node: int, axes: Clique, above: Clique) -> Reals:
        """The clique's table over some attributes, divided by that of the separator above."""
        key = (node, axes, above)
        if key not in self._reduced:
            table = self._sum_clique(node, axes)
            if above:
                sums = table.sum(
                    axis=tuple(1 + axes.index(attribute) for attribute in axes if attribute not in above), keepdims=True
                )
                table = table / np.where(sums > 0, sums, 1.0)
            self._reduced[key] = table
        return self._reduced[key]

    def _sum_clique(self, node: int, axes: Clique) -> Reals:
        """The clique's table over some attributes, from the smallest kept table that holds them.

        Attributes are summed over one by one, the largest first, and what that leaves is kept: others need it too.
        """
        clique = self.tree.cliques[node]
        kept = self._sums.setdefault(node, {clique: self.tables[node]})
        held, table = min(
            ((held, table) for held, table in kept.items() if set(axes) <= set(held)), key=lambda one: one[1].size
        )
        while len(held) > len(axes):
            sizes = dict(zip(held, table.shape[1:], strict=True))
            gone = max((attribute for attribute in held if attribute not in axes), key=sizes.__getitem__)
            table = table.sum(axis=1 + held.index(gone))
            held = tuple(attribute for attribute in held if attribute != gone)
            kept[held] = table
        return table

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
    below: dict[int, list[int]] = {place: [] for place in order}
    own: dict[int, list[int]] = {place: [] for place in order}
    for place in order:
        if before[place] >= 0:
            below[before[place]].append(place)
    for attribute in sorted(homes):
        own[homes[attribute]].append(attribute)
    for place in reversed(order):
        above = tree.separator((before[place], place)) if before[place] >= 0 else ()
        steps.append(CliqueStep(place, above, tuple(own[place]), tuple(below[place])))
    return steps
