"""What local recoding works with: the trees of values, and which classes keep the promise.

ValueTree    the hierarchy of one quasi-identifier over the values that occur
ClassRule    which classes keep the promise
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sudare.methods.kanon.recode import ClassChecker, Pieces
from sudare.schema import Attribute
from sudare.schema.arrays import Booleans, Codes, Labels, Reals
from sudare.schema.raw import TOP_LABEL


@dataclass(frozen=True, kw_only=True, eq=False)
class ValueTree:
    """The hierarchy of one quasi-identifier over the values that occur, with a common top.

    `groups[level]` and `sizes[level]` give, for every occurring value, the number of its group and how many declared
    values the group stands for; level 0 is the value itself. `ranks[level]` numbers the groups of one parent.
    """

    attribute: Attribute
    values: Codes
    groups: Codes
    sizes: Codes
    ranks: Codes
    weight: float = 1.0  # how much the detail of the attribute matters
    is_flat: bool = False  # values and the top alone

    @classmethod
    def of(cls, attribute: Attribute, codes: Codes, *, is_flat: bool = False, weight: float = 1.0) -> ValueTree:
        """Build the tree over the codes that occur; a hierarchy whose top has several groups gets one above them.

        A flat tree has the values and the top alone.

        >>> from sudare.schema import Values
        >>> tree = ValueTree.of(Attribute(name="sex", domain=Values(("F", "M"))), np.array([0, 1, 1]))
        >>> tree.height, tree.sizes.tolist()
        (1, [[1, 1], [2, 2]])
        """
        values, hierarchy = np.unique(codes), None if is_flat else attribute.hierarchy
        lifted, sizes = [values], [np.ones(len(values), dtype=np.int64)]
        for level in range(1, 0 if hierarchy is None else hierarchy.height + 1):
            lifted.append(_lift(attribute, values, level))
            sizes.append(_count_values(attribute, level, lifted[-1]))
        if attribute.size > 1 and (len(lifted) == 1 or int(sizes[-1].min(initial=attribute.size)) < attribute.size):
            lifted.append(np.zeros_like(values))
            sizes.append(np.full(len(values), attribute.size, dtype=np.int64))
        groups = np.stack([np.unique(level, return_inverse=True)[1].reshape(-1) for level in lifted])
        return cls(
            attribute=attribute,
            values=values,
            groups=groups,
            sizes=np.stack(sizes),
            ranks=_rank(groups),
            weight=weight,
            is_flat=is_flat,
        )

    @property
    def height(self) -> int:
        """Count the levels above the values."""
        return len(self.groups) - 1

    @property
    def fan(self) -> int:
        """Count the groups of the largest parent."""
        return int(self.ranks.max(initial=0)) + 1

    @cached_property
    def ranks_below(self) -> Codes:
        """Give, for every level and value, the rank of the group one level down; 0 at the values themselves."""
        return np.concatenate([np.zeros_like(self.ranks[:1]), self.ranks[:-1]])

    @cached_property
    def saved_below(self) -> Reals:
        """Give, for every level and value, the loss that the level below saves."""
        return np.concatenate([np.zeros_like(self.losses[:1]), self.losses[1:] - self.losses[:-1]])

    @cached_property
    def losses(self) -> Reals:
        """Give the loss of a row of every value at every level: the other values of its group, as a share."""
        losses: Reals = self.weight * (self.sizes - 1) / max(1, self.attribute.size - 1)
        return losses

    def labels(self, codes: Codes, levels: Codes) -> Labels:
        """Write codes by their groups, each at a level of its own."""
        labels = np.empty(len(codes), dtype=np.object_)
        for level in np.unique(levels).tolist():
            is_here = levels == level
            if level > self.attribute.height or (self.is_flat and level > 0):
                labels[is_here] = TOP_LABEL
            else:
                lifted = _lift(self.attribute, codes[is_here], level)
                labels[is_here] = self.attribute.coarsen(level).labels(lifted)
        return labels


def _lift(attribute: Attribute, codes: Codes, level: int) -> Codes:
    hierarchy = attribute.hierarchy
    return codes if level == 0 or hierarchy is None else hierarchy.lift(codes, level)


def _count_values(attribute: Attribute, level: int, lifted: Codes) -> Codes:
    """Count the declared values of the group of each occurring value; of a huge mesh all groups are alike."""
    groups = attribute.coarsen(level).size
    if attribute.size > MAX_COUNTED_VALUES:
        return np.full(len(lifted), max(1, attribute.size // groups), dtype=np.int64)
    members = np.bincount(_lift(attribute, np.arange(attribute.size), level), minlength=groups)
    return np.asarray(members[lifted], dtype=np.int64)


MAX_COUNTED_VALUES = 1 << 20  # declared values of an attribute whose groups are counted one by one


def _rank(groups: Codes) -> Codes:
    """Number the groups of every level within their parent."""
    ranks = np.zeros_like(groups)
    for level in range(len(groups) - 1):
        _, first, number = np.unique(groups[level], return_index=True, return_inverse=True)
        parents = groups[level + 1][first]
        order = np.argsort(parents, kind="stable")
        starts = np.flatnonzero(np.diff(parents[order], prepend=-1))
        rank = np.empty(len(parents), dtype=np.int64)
        rank[order] = np.arange(len(parents)) - np.repeat(starts, np.diff(starts, append=len(parents)))
        ranks[level] = rank[number.reshape(-1)]
    return ranks


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassRule:
    """Which classes keep the promise: `k` rows, and where `check_classes` is given, whatever else it asks for."""

    pieces: Pieces
    k: int
    check_classes: ClassChecker | None

    def satisfied(self, chosen: Codes, class_of: Codes, sizes: Reals) -> Booleans:
        """Tell which classes of some pieces do; `sizes` are their rows."""
        is_large: Booleans = sizes >= self.k
        if self.check_classes is None or not is_large.any():
            return is_large
        in_large = is_large[class_of]
        number = np.cumsum(is_large) - 1
        kept = self.pieces.take(chosen[in_large])
        is_large = is_large.copy()
        is_large[is_large] = self.check_classes(kept, number[class_of[in_large]], int(number[-1]) + 1)
        return is_large
