"""The fitted model: calibrated tables of the cliques, and what follows from them by sums and products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.methods.view.cliques import Clique, CliqueTree

Reals = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Step:
    """One clique of a plan: its table given the separator above, and the cliques below whose messages it takes."""

    node: int
    above: Clique
    here: Clique  # attributes whose evidence comes in here
    below: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """Tables of the cliques in counts, with a first axis of versions: the estimate, then replicates of it.

    The model is the product of the cliques' tables over the product of their separators'. Parts of the tree that are
    not linked are independent.
    """

    tree: CliqueTree
    tables: tuple[Reals, ...]
    _plans: dict[frozenset[int], list[list[Step]]] = field(default_factory=dict)
    _reduced: dict[Any, Reals] = field(default_factory=dict)

    @property
    def versions(self) -> int:
        """How many versions the tables hold."""
        return int(self.tables[0].shape[0])

    @property
    def totals(self) -> Reals:
        """The number of records, version by version."""
        table = self.tables[0]
        sums: Reals = table.reshape(table.shape[0], -1).sum(axis=1)
        return sums

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
        found = totals
        for steps in self._plan(frozenset(evidence)):
            messages: dict[int, Reals] = {}
            for step in steps:
                messages[step.node] = self._message(step, messages, evidence)
            part = messages[steps[-1].node]
            found = found * part / np.where(totals > 0, totals, 1.0)
        return found

    def joint(self, attributes: Sequence[int]) -> Reals:
        """The table of any attributes, axes in the order asked for; (versions, bins, bins, ...)."""
        wanted = frozenset(attributes)
        pieces: list[tuple[Reals, Clique]] = []
        for steps in self._plan(wanted):
            tables: dict[int, tuple[Reals, Clique]] = {}
            for step in steps:
                tables[step.node] = self._kept(step, tables, wanted)
            pieces.append(tables[steps[-1].node])
        totals = self.totals
        table, axes = pieces[0]
        for other, more in pieces[1:]:
            table = _einsum([(table, axes), (other, more)], (*axes, *more))
            axes = (*axes, *more)
            table = table / np.where(totals > 0, totals, 1.0).reshape((-1,) + (1,) * len(axes))
        return _einsum([(table, axes)], tuple(attributes))

    def _message(self, step: Step, messages: Mapping[int, Reals], evidence: Mapping[int, Reals]) -> Reals:
        seps = [(messages[child], self.tree.separator((child, step.node))) for child in step.below]
        needed = {one for _, sep in seps for one in sep} | set(step.here) | set(step.above)
        axes = tuple(sorted(needed))
        table = self._given(step.node, axes, step.above)
        for one in step.here:
            seps.append((evidence[one], (one,)))
        return _einsum([(table, axes), *seps], step.above)

    def _kept(
        self, step: Step, tables: Mapping[int, tuple[Reals, Clique]], wanted: frozenset[int]
    ) -> tuple[Reals, Clique]:
        below = [tables[child] for child in step.below]
        carried = {one for _, axes in below for one in axes if one in wanted}
        seps = {one for child in step.below for one in self.tree.separator((child, step.node))}
        axes = tuple(sorted(seps | set(step.here) | set(step.above)))
        table = self._given(step.node, axes, step.above)
        out = tuple(sorted((carried | set(step.here)) - set(step.above)))
        return _einsum([(table, axes), *below], (*step.above, *out)), (*step.above, *out)

    def _given(self, node: int, axes: Clique, above: Clique) -> Reals:
        """The clique's table over some attributes, divided by that of the separator above."""
        key = (node, axes, above)
        if key not in self._reduced:
            table = self._marginal(node, axes)
            if above:
                sums = table.sum(axis=tuple(1 + axes.index(one) for one in axes if one not in above), keepdims=True)
                table = table / np.where(sums > 0, sums, 1.0)
            self._reduced[key] = table
        return self._reduced[key]

    def _marginal(self, node: int, attributes: tuple[int, ...]) -> Reals:
        clique = self.tree.cliques[node]
        out = tuple(1 + place for place, one in enumerate(clique) if one not in attributes)
        table = self.tables[node].sum(axis=out) if out else self.tables[node]
        kept = [one for one in clique if one in attributes]
        order = [1 + kept.index(one) for one in attributes]
        return np.ascontiguousarray(table.transpose([0, *order]))

    def _plan(self, wanted: frozenset[int]) -> list[list[Step]]:
        if wanted not in self._plans:
            self._plans[wanted] = plan(self.tree, wanted)
        return self._plans[wanted]


def plan(tree: CliqueTree, wanted: frozenset[int]) -> list[list[Step]]:
    """For every part of the tree that holds wanted attributes: its cliques between them, from the leaves up."""
    rest, plans = set(wanted), []
    near = tree.neighbours()
    while rest:
        sizes = [(len(rest & set(clique)), -len(clique)) for clique in tree.cliques]
        root = max(range(len(sizes)), key=lambda place: sizes[place])
        before = reach(near, root)
        kept, homes = {root}, dict.fromkeys(rest & set(tree.cliques[root]), root)
        for one in sorted(rest - set(homes)):
            home = next((place for place in before if one in tree.cliques[place]), None)
            if home is None:
                continue
            homes[one] = home
            while home not in kept:
                kept.add(home)
                home = before[home]
        plans.append(_steps(tree, before, kept, homes))
        rest -= set(homes)
    return plans


def reach(near: list[list[int]], root: int) -> dict[int, int]:
    """Every clique that hangs together with the root, nearest first, with the one before it."""
    before, queue = {root: -1}, [root]
    for place in queue:
        for other in near[place]:
            if other not in before:
                before[other] = place
                queue.append(other)
    return before


def _steps(tree: CliqueTree, before: dict[int, int], kept: set[int], homes: dict[int, int]) -> list[Step]:
    steps = []
    for place in reversed([one for one in before if one in kept]):
        above = tree.separator((before[place], place)) if before[place] >= 0 else ()
        below = tuple(one for one in before if one in kept and before[one] == place)
        here = tuple(sorted(one for one, home in homes.items() if home == place))
        steps.append(Step(place, above, here, below))
    return steps


def _einsum(operands: Sequence[tuple[Reals, Clique]], out: Clique) -> Reals:
    """Multiply and sum over attributes; the axis of versions comes first in every table."""
    label = {one: 1 + place for place, one in enumerate({one for _, axes in operands for one in axes})}
    inputs: list[Any] = []
    for table, axes in operands:
        inputs += [table, [0, *(label[one] for one in axes)]]
    found: Reals = np.einsum(*inputs, [0, *(label[one] for one in out)], optimize=len(operands) > 3)
    return found
