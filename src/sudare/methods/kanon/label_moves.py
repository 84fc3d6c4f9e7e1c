"""Local recoding of a small table, made better: combinations move from label to label.

A label is one group of every quasi-identifier, each at some level; a node of the lattice has one label for every
combination that is alike there. In a small table all labels can be looked at. Two things are done with them:

    recode_by_nodes    rounds of a search for one node: rows that keep the promise there leave, the others go on
    move_to_labels     open a label for the combinations that lose less under it, as long as that saves loss

A label that is opened takes in the combinations that gain, and others until it keeps the promise. A label that they
leave and that then fails gets some of them back, or it is closed and its combinations go to other open labels, whatever
loses less. Rows may be left out up to a limit; a row left out loses as much as one whose values are all hidden.
Before a move is made, all labels that it touches are checked, so every label keeps the promise after it.
Source of the rounds: Prasser, Kohlmayer, Kuhn, The importance of context, 2016 (ARX's local recoding)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sudare.methods.kanon.recode import number_classes
from sudare.methods.kanon.value_tree import ClassRule, ValueTree
from sudare.schema.arrays import Booleans, Codes, Reals

MAX_CANDIDATES = 3000  # labels that one sweep tries, those that could save most first
LEAST_GAIN = 1e-9  # loss, in attributes of one row, that is worth a move
# as ARX: so many rows of the table leave in a round at least, so that the first rounds take the rows that can stay fine
SHARE_OF_A_ROUND = 0.01
ROUNDS_WORK = 20_000_000  # codes that the rounds may look at, about half a CPU second; beyond it they are given up
WORK_OF_CRITERIA = 50_000  # what checking criteria besides k at a node costs, in such codes


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelSpace:
    """All labels of a table: `labels[node, combination]`, numbered node after node.

    The last node stands for rows left out: its only label may hold any number of rows up to `max_left_out`.
    """

    rule: ClassRule
    trees: tuple[ValueTree, ...]
    combination_of: Codes  # of every piece
    rows: Reals  # of every combination
    nodes: Codes  # (nodes, q): the level of every attribute; rows left out are at the top
    labels: Codes
    losses: tuple[Reals, ...]  # by attribute: (levels, combinations)
    max_left_out: int

    @classmethod
    def of(
        cls,
        rule: ClassRule,
        trees: tuple[ValueTree, ...],
        columns: Sequence[Codes],
        *,
        max_left_out: int,
        max_codes: int,
    ) -> LabelSpace | None:
        """List the labels of all nodes; None if these are more than `max_codes` numbers.

        `columns` are the places of values in the trees.
        """
        combination_of = number_classes(np.column_stack(columns))
        first = np.unique(combination_of, return_index=True)[1]
        heights = [tree.height for tree in trees]
        if len(first) * np.prod([height + 1.0 for height in heights]) > max_codes:
            return None
        places = [column[first] for column in columns]
        nodes = [*itertools.product(*(range(height + 1) for height in heights)), tuple(heights)]
        labels, count = np.empty((len(nodes), len(first)), dtype=np.int64), 0
        for number, node in enumerate(nodes):
            groups = [tree.groups[level][place] for tree, level, place in zip(trees, node, places, strict=True)]
            labels[number] = count + number_classes(np.column_stack(groups))
            count = int(labels[number].max()) + 1
        return cls(
            rule=rule,
            trees=trees,
            combination_of=combination_of,
            rows=np.bincount(combination_of, weights=rule.pieces.weights).astype(np.float64),
            nodes=np.array(nodes, dtype=np.int64),
            labels=labels,
            losses=tuple(tree.losses[:, place] for tree, place in zip(trees, places, strict=True)),
            max_left_out=max_left_out,
        )

    @property
    def out(self) -> int:
        """The number of the node of rows left out."""
        return len(self.nodes) - 1

    @property
    def top(self) -> int:
        """The number of the node that hides everything."""
        return len(self.nodes) - 2

    @property
    def is_k_alone(self) -> bool:
        """Tell whether rows alone decide which labels keep the promise."""
        return self.rule.check_classes is None

    @cached_property
    def everything(self) -> Codes:
        """Number the combinations."""
        return np.arange(len(self.rows))

    @cached_property
    def label_rows(self) -> Reals:
        """Count the rows that every label could hold."""
        repeated = np.tile(self.rows, len(self.nodes))
        return np.bincount(self.labels.ravel(), weights=repeated).astype(np.float64)

    @cached_property
    def _order(self) -> tuple[Codes, Codes]:
        order = np.argsort(self.labels.ravel(), kind="stable") % len(self.rows)
        return order, np.concatenate([[0], np.cumsum(np.bincount(self.labels.ravel()))])

    def members(self, label: int) -> Codes:
        """List the combinations that a label could hold."""
        order, starts = self._order
        return order[starts[label] : starts[label + 1]]

    def node_of_label(self, label: int) -> int:
        """Find the node of a label."""
        return int(np.searchsorted(self._first_labels, label, side="right")) - 1

    def find_nodes(self, levels: Codes) -> Codes:
        """Find the node of every combination from the levels of its pieces."""
        number = np.zeros(len(levels), dtype=np.int64)
        for axis, tree in enumerate(self.trees):
            number = number * (tree.height + 1) + levels[:, axis]
        node_of = np.empty(len(self.rows), dtype=np.int64)
        node_of[self.combination_of] = number
        return node_of

    def mean_losses(self, node_of: Codes) -> Reals:
        """Give the mean loss of a row in every attribute."""
        lost = [
            float((losses[self.nodes[node_of, axis], self.everything] * self.rows).sum())
            for axis, losses in enumerate(self.losses)
        ]
        return np.array(lost) / max(1.0, float(self.rows.sum()))

    def measure_loss(self, node_of: Codes) -> float:
        """Measure the loss of all rows, in the order of ARX's Loss."""
        return float(np.log1p(self.mean_losses(node_of)).sum())

    def satisfied(self, node_of: Codes, touched: Codes | None = None) -> bool:
        """Tell whether every label, or every touched one, keeps the promise, and not too many rows are left out."""
        label_of = self.labels[node_of, self.everything]
        if float(self.rows[node_of == self.out].sum()) > self.max_left_out:
            return False
        is_asked = node_of != self.out
        if touched is not None:
            is_asked &= np.isin(label_of, touched)
        return bool(self._check(np.flatnonzero(is_asked), label_of[is_asked])[1].all())

    def _check(self, chosen: Codes, label_of: Codes) -> tuple[Codes, Booleans]:
        """Number the labels of chosen combinations from 0, and tell which of them keep the promise."""
        number = np.unique(label_of, return_inverse=True)[1].reshape(-1)
        sizes = np.bincount(number, weights=self.rows[chosen]).astype(np.float64)
        if self.is_k_alone:
            return number, sizes >= self.rule.k
        class_of = np.full(len(self.rows), -1)
        class_of[chosen] = number
        classes = class_of[self.combination_of]
        pieces = np.flatnonzero(classes >= 0)
        return number, self.rule.satisfied(pieces, classes[pieces], sizes)

    def keeps(self, node: int, chosen: Codes) -> Booleans:
        """Tell which of the chosen combinations are in a class that keeps the promise at a node, among themselves."""
        number = self.labels[node, chosen] - self._first_labels[node]
        if self.is_k_alone:
            return np.asarray(np.bincount(number, weights=self.rows[chosen])[number] >= self.rule.k)
        number, satisfied = self._check(chosen, number)
        return np.asarray(satisfied[number])

    @cached_property
    def _first_labels(self) -> Codes:
        return np.asarray(self.labels.min(axis=1))


# --- rounds of a global search ----------------------------------------------------------------------------------------


def recode_by_nodes(space: LabelSpace, is_late: Callable[[], bool] = lambda: False) -> Codes | None:
    """Search a node for the rows that are left, let those go that keep the promise there, and go on with the others.

    Leaving rows to the next round costs nothing. What is left in the end is left out, or goes to the top together with
    labels that lose least by it. None if that takes too long, or nothing keeps the promise.
    """
    node_of = np.full(len(space.rows), space.out)
    left, work = space.everything, 0
    while left.size:
        work += len(left) * space.out * len(space.trees)
        work += 0 if space.is_k_alone else space.out * WORK_OF_CRITERIA
        if work > ROUNDS_WORK or is_late():
            return None
        node, is_kept = _search_node(space, left)
        if not is_kept.any():
            return _put_at_the_top(space, node_of)
        node_of[left[is_kept]] = node
        left = left[~is_kept]
    return node_of


def _search_node(space: LabelSpace, left: Codes) -> tuple[int, Booleans]:
    """Find the node that loses least over all rows that are left, those that stay counted as no loss."""
    rows = space.rows[left]
    least = min(SHARE_OF_A_ROUND * float(space.rows.sum()), float(rows.sum())) - LEAST_GAIN
    best, best_node, kept = np.inf, space.out, np.zeros(len(left), dtype=bool)
    for node in range(space.out):
        is_kept = space.keeps(node, left)
        weights = rows * is_kept
        if weights.sum() < least or not is_kept.any():
            continue
        lost = [losses[space.nodes[node, axis], left] @ weights for axis, losses in enumerate(space.losses)]
        score = float(np.log1p(np.array(lost) / rows.sum()).sum())
        if score < best:
            best, best_node, kept = score, node, is_kept
    return best_node, kept


def _put_at_the_top(space: LabelSpace, node_of: Codes) -> Codes | None:
    """Put rows that are left at the top, with labels that lose least by it, if too many of them would be left out."""
    if space.satisfied(node_of):
        return node_of
    top = space.top
    node_of = np.where(node_of == space.out, top, node_of)
    while not space.satisfied(node_of, space.labels[top, :1]):
        label_of = space.labels[node_of, space.everything]
        more = sum(
            losses[-1] - losses[space.nodes[node_of, axis], space.everything]
            for axis, losses in enumerate(space.losses)
        )
        price = np.bincount(label_of, weights=more * space.rows, minlength=space.labels.max() + 1)
        others = np.unique(label_of[node_of != top])
        if not others.size:
            return None
        node_of[label_of == others[price[others].argmin()]] = top
    return node_of


# --- moves from label to label ----------------------------------------------------------------------------------------


@dataclass(kw_only=True, eq=False)
class _Assignment:
    """Where every combination is now: its node and label, the rows of every label, and what rows lose where.

    `prices[node, combination]` is the loss of a row, attributes weighed as the logarithm of the loss does now.
    """

    space: LabelSpace
    node_of: Codes
    label_of: Codes = field(init=False)
    rows: Reals = field(init=False)
    prices: Reals = field(init=False)
    now: Reals = field(init=False)

    def __post_init__(self) -> None:
        space = self.space
        self.label_of = space.labels[self.node_of, space.everything]
        self.rows = np.bincount(self.label_of, weights=space.rows, minlength=len(space.label_rows)).astype(np.float64)
        self.weigh()

    def weigh(self) -> None:
        """Price labels anew, since what an attribute loses changes with the mean loss."""
        space = self.space
        slopes = 1 / (1 + space.mean_losses(self.node_of))
        self.prices = np.zeros(space.labels.shape)
        for axis, losses in enumerate(space.losses):
            self.prices += slopes[axis] * losses[space.nodes[:, axis]]
        self.now = self.prices[self.node_of, space.everything]


def move_to_labels(
    space: LabelSpace, node_of: Codes, tries: int, is_late: Callable[[], bool] = lambda: False
) -> tuple[Codes, int]:
    """Open labels as long as that saves loss, at most so many tries: the new nodes, and the tries that were made."""
    state, made = _Assignment(space=space, node_of=node_of.copy()), 0
    failed: dict[int, float] = {}  # what a label could have saved when it was tried in vain
    has_moved = True
    while has_moved and made < tries:
        has_moved = False
        state.weigh()
        gains = np.maximum(0.0, state.now - state.prices[: space.out]) * space.rows
        could_save = np.bincount(space.labels[: space.out].ravel(), weights=gains.ravel())
        could_save[space.label_rows[: len(could_save)] < space.rule.k] = 0.0
        order = np.argsort(-could_save, kind="stable")[:MAX_CANDIDATES]
        for label in order[could_save[order] > LEAST_GAIN].tolist():
            if failed.get(label) == (worth := round(float(could_save[label]), 9)):
                continue
            if made >= tries or is_late():
                break
            made += 1
            if _open_label(state, label):
                has_moved = True
            else:
                failed[label] = worth
    return state.node_of, made


def _open_label(state: _Assignment, label: int) -> bool:
    """Open a label, or let more combinations into an open one, if that saves loss and all labels keep the promise."""
    space, node = state.space, state.space.node_of_label(label)
    members = space.members(label)
    members = members[state.label_of[members] != label]
    saved = state.now[members] - state.prices[node, members]
    joins = _choose_joining(saved, space.rows[members], space.rule.k - state.rows[label])
    if joins is None:
        return False
    joining, saved = members[joins], saved[joins]
    moved, nodes = _settle_left_labels(state, joining, saved * space.rows[joining], node, label)
    gain = float(((state.now[moved] - state.prices[nodes, moved]) * space.rows[moved]).sum())
    return gain > LEAST_GAIN and _make_moves(state, moved, nodes)


def _choose_joining(saved: Reals, rows: Reals, missing: float) -> Booleans | None:
    """Choose who joins a label: all who gain, and where rows are missing those who lose least; None if nobody gains."""
    joins: Booleans = saved > LEAST_GAIN
    missing -= float(rows[joins].sum())
    if not joins.any() or missing <= 0:
        return joins if joins.any() else None
    others = np.flatnonzero(~joins)
    others = others[np.argsort(-saved[others], kind="stable")]
    count = int(np.searchsorted(np.cumsum(rows[others]), missing)) + 1
    if count > len(others):
        return None
    joins[others[:count]] = True
    return joins if float((saved * rows)[joins].sum()) > LEAST_GAIN else None


def _settle_left_labels(state: _Assignment, joining: Codes, saved: Reals, node: int, label: int) -> tuple[Codes, Codes]:
    """Mend labels that have too few rows after some leave: these stay, or the others leave too, whatever loses less.

    The combinations that move, and their new nodes.
    """
    space, left = state.space, np.unique(state.label_of[joining], return_inverse=True)
    number = left[1].reshape(-1)
    remaining = state.rows[left[0]] - np.bincount(number, weights=space.rows[joining])
    fails = (remaining > 0) & (remaining < space.rule.k) & (left[0] != space.labels[space.out, 0])
    goes, moved, nodes = np.ones(len(joining), dtype=bool), [], []
    is_joining = np.zeros(len(space.rows), dtype=bool)
    is_joining[joining] = True
    for which in np.flatnonzero(fails).tolist():
        here = np.flatnonzero(number == which)
        here = here[np.argsort(saved[here] / space.rows[joining[here]], kind="stable")]
        back = here[: int(np.searchsorted(np.cumsum(space.rows[joining[here]]), space.rule.k - remaining[which])) + 1]
        others = np.flatnonzero((state.label_of == left[0][which]) & ~is_joining)
        targets, price = _find_open_labels(state, others, int(left[0][which]), label)
        if price < float(saved[back].sum()):
            moved.append(others)
            nodes.append(targets)
        else:
            goes[back] = False
    stayers = joining[goes]
    return np.concatenate([stayers, *moved]), np.concatenate([np.full(len(stayers), node), *nodes])


def _find_open_labels(state: _Assignment, chosen: Codes, closed: int, opened: int) -> tuple[Codes, float]:
    """Find the best open label of combinations whose label is closed: their nodes, and what they lose in all."""
    space, labels = state.space, state.space.labels[:, chosen]
    is_open = ((state.rows[labels] > 0) & (labels != closed)) | (labels == opened)
    is_open[space.out] = space.max_left_out > 0
    prices = np.where(is_open, state.prices[:, chosen], np.inf)
    nodes = prices.argmin(axis=0)
    more = prices[nodes, np.arange(len(chosen))] - state.now[chosen]
    return nodes, float((more * space.rows[chosen]).sum())


def _make_moves(state: _Assignment, moved: Codes, nodes: Codes) -> bool:
    """Move combinations to other nodes, unless a label that is touched then breaks the promise."""
    space = state.space
    after, targets = state.node_of.copy(), space.labels[nodes, moved]
    after[moved] = nodes
    touched, place = np.unique(np.concatenate([state.label_of[moved], targets]), return_inverse=True)
    change = np.concatenate([-space.rows[moved], space.rows[moved]])
    rows = state.rows[touched] + np.bincount(place.reshape(-1), weights=change)
    if not (_are_large(space, touched, rows) and (space.is_k_alone or space.satisfied(after, touched))):
        return False
    state.rows[touched] = rows
    state.node_of, state.label_of[moved] = after, targets
    state.now[moved] = state.prices[nodes, moved]
    return True


def _are_large(space: LabelSpace, labels: Codes, rows: Reals) -> bool:
    """Tell whether labels with any rows have at least k, and the label of rows left out at most what it may have."""
    least = np.where(labels == space.labels[space.out, 0], 0, space.rule.k)
    most = np.where(labels == space.labels[space.out, 0], space.max_left_out, np.inf)
    return bool(((rows == 0) | ((rows >= least) & (rows <= most))).all())
