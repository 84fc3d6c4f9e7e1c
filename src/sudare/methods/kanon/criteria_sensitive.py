"""Criteria about what a class tells of a sensitive attribute: l-diversity in three forms, and t-closeness."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError, SchemaError
from sudare.methods.kanon.criteria import Criterion, Mask
from sudare.methods.kanon.grouping import grouped
from sudare.methods.kanon.tuples import Classes, Joint
from sudare.schema import Attribute

Codes = NDArray[np.int64]
Numbers = NDArray[np.float64]
Distance = Literal["equal", "ordered", "hierarchical"]

ROUNDING = 1e-12  # entropies and distances are floats: a class at the limit itself must not fail by the last bit
CHUNK = 2**22  # numbers in one dense piece of classes by values


class Entries(NamedTuple):
    """Rows of each value in each class: only those that occur, by class."""

    classes: Codes
    values: Codes
    rows: Codes


def entries(classes: Classes, name: str) -> Entries:
    """Add up a sensitive attribute by class."""
    joint = _joint(classes, name)
    size = joint.attribute.size
    key = classes.ids[joint.tuple_of] * size + joint.value
    found = grouped(key, max(1, classes.count) * size)
    places = key[found.first]
    return Entries(places // size, places % size, found.totals(joint.weight))


@dataclass(frozen=True, kw_only=True, slots=True)
class DistinctDiversity:
    """A class has l different sensitive values.       Source: Machanavajjhala et al. 2007

    >>> DistinctDiversity(attribute="disease", l=3).describe()
    'distinct l = 3 of disease'
    """

    attribute: str
    l: int  # noqa: E741  (its name)

    def __post_init__(self) -> None:
        _check_l(self.l)

    merges = property(lambda self: True)
    grows = property(lambda self: True)
    is_suppressible = property(lambda self: True)
    sensitive = property(lambda self: (self.attribute,))
    implied = property(lambda self: (self,))

    def holds(self, classes: Classes) -> Mask:
        """Tell which classes have l values."""
        values = np.bincount(entries(classes, self.attribute).classes, minlength=classes.count)
        good: Mask = (values >= self.l) | (classes.sizes == 0)
        return good

    def describe(self) -> str:
        """Write it in a few letters."""
        return f"distinct l = {self.l} of {self.attribute}"


@dataclass(frozen=True, kw_only=True, slots=True)
class EntropyDiversity:
    """The entropy of the sensitive values of a class is at least log l.     Source: Machanavajjhala et al. 2007

    Entropy is concave, so a union of good classes is good; but rows of one value added to a good class can spoil it.
    """

    attribute: str
    l: float  # noqa: E741  (its name)

    def __post_init__(self) -> None:
        _check_l(self.l)

    merges = property(lambda self: True)
    grows = property(lambda self: False)
    is_suppressible = property(lambda self: True)
    sensitive = property(lambda self: (self.attribute,))

    @property
    def implied(self) -> tuple[Criterion, ...]:
        """An entropy of log l takes l values."""
        return (DistinctDiversity(attribute=self.attribute, l=math.ceil(self.l - ROUNDING)),)

    def holds(self, classes: Classes) -> Mask:
        """Tell which classes have the entropy."""
        found = entries(classes, self.attribute)
        share = found.rows / classes.sizes[found.classes]
        entropy = -np.bincount(found.classes, weights=share * np.log(share), minlength=classes.count)
        good: Mask = (entropy >= math.log(self.l) - ROUNDING) | (classes.sizes == 0)
        return good

    def describe(self) -> str:
        """Write it in a few letters."""
        return f"entropy l = {self.l} of {self.attribute}"


@dataclass(frozen=True, kw_only=True, slots=True)
class RecursiveDiversity:
    """The commonest value of a class is rarer than c times all but the l - 1 commonest: r1 < c (r_l + ... + r_m).

    Source: Machanavajjhala et al. 2007, definition 4.3 (there proven to merge).
    """

    attribute: str
    c: float
    l: int  # noqa: E741  (its name)

    def __post_init__(self) -> None:
        _check_l(self.l)
        if not self.c > 0:
            raise ParameterError("c ({c}) must be above 0", c=self.c)

    merges = property(lambda self: True)
    grows = property(lambda self: False)
    is_suppressible = property(lambda self: True)
    sensitive = property(lambda self: (self.attribute,))

    @property
    def implied(self) -> tuple[Criterion, ...]:
        """Without an l-th value the right side is 0."""
        return (DistinctDiversity(attribute=self.attribute, l=self.l),)

    def holds(self, classes: Classes) -> Mask:
        """Tell which classes keep it."""
        found = entries(classes, self.attribute)
        order = np.lexsort((-found.rows, found.classes))
        members, rows = found.classes[order], found.rows[order]
        counts = np.bincount(members, minlength=classes.count)
        rank = np.arange(members.size) - (np.cumsum(counts) - counts)[members]
        most = np.bincount(members, weights=rows * (rank == 0), minlength=classes.count)
        tail = np.bincount(members, weights=rows * (rank >= self.l - 1), minlength=classes.count)
        good: Mask = (most < self.c * tail) | (classes.sizes == 0)
        return good

    def describe(self) -> str:
        """Write it in a few letters."""
        return f"recursive c = {self.c}, l = {self.l} of {self.attribute}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Closeness:
    """The sensitive values of a class are distributed as in the whole table, up to an earth mover's distance of t.

    "equal": any two values are 1 apart (total variation). "ordered": values i and j of m are |i-j|/(m-1) apart.
    "hierarchical": as high in the attribute's hierarchy as their first common group, over its height.
    The distance is convex, so a union of good classes is good.       Source: Li, Li, Venkatasubramanian 2007
    """

    attribute: str
    t: float
    distance: Distance = "equal"

    def __post_init__(self) -> None:
        if not 0 <= self.t <= 1:
            raise ParameterError("t ({t}) must be between 0 and 1", t=self.t)
        if self.distance not in get_args(Distance):
            raise ParameterError("distance ({distance}) must be equal, ordered or hierarchical", distance=self.distance)

    merges = property(lambda self: True)
    grows = property(lambda self: False)
    is_suppressible = property(lambda self: True)
    sensitive = property(lambda self: (self.attribute,))
    implied = property(lambda self: ())

    def holds(self, classes: Classes) -> Mask:
        """Tell which classes are near enough."""
        good: Mask = (self.distances(classes) <= self.t + ROUNDING) | (classes.sizes == 0)
        return good

    def distances(self, classes: Classes) -> Numbers:
        """Measure the distance of every class from the table."""
        joint, found = _joint(classes, self.attribute), entries(classes, self.attribute)
        _check_distance(joint.attribute, self.distance)
        far, shares = np.empty(classes.count), joint.shares
        step = max(1, CHUNK // joint.attribute.size)
        for start in range(0, classes.count, step):
            stop = min(start + step, classes.count)
            low, high = np.searchsorted(found.classes, [start, stop])
            table = np.zeros((stop - start, joint.attribute.size))
            table[found.classes[low:high] - start, found.values[low:high]] = found.rows[low:high]
            table /= np.maximum(classes.sizes[start:stop, None], 1)
            far[start:stop] = _distance(table - shares, joint.attribute, self.distance)
        return far

    def describe(self) -> str:
        """Write it in a few letters."""
        return f"t = {self.t} of {self.attribute}, {self.distance} distance"


def _distance(extra: Numbers, attribute: Attribute, distance: Distance) -> Numbers:
    """Move what is too much (extra, (classes, values)) to where it is missing."""
    if distance == "hierarchical":
        return _climb(extra, attribute)
    is_equal = distance == "equal"
    far: Numbers = np.abs(extra if is_equal else np.cumsum(extra, axis=1)).sum(axis=1)
    return far / (2 if is_equal else max(1, attribute.size - 1))


def _climb(extra: Numbers, attribute: Attribute) -> Numbers:
    """At every group, what its children have too much goes to those that miss some, as far as it reaches."""
    cost, hierarchy = np.zeros(extra.shape[0]), attribute.hierarchy
    if hierarchy is None:
        return cost
    lower, lift = extra, np.arange(attribute.size)
    for level in range(1, hierarchy.height + 1):
        upper = hierarchy.lift(np.arange(attribute.size), level)
        parent = np.empty(lower.shape[1], dtype=np.int64)
        parent[lift] = upper
        adds = np.zeros((lower.shape[1], hierarchy.size(level)))
        adds[np.arange(parent.size), parent] = 1
        spare, short = np.maximum(lower, 0) @ adds, np.maximum(-lower, 0) @ adds
        cost += np.minimum(spare, short).sum(axis=1) * (level / hierarchy.height)
        lower, lift = lower @ adds, upper
    cost += np.abs(lower).sum(axis=1) / 2  # tops of several groups are 1 apart
    return cost


def _joint(classes: Classes, name: str) -> Joint:
    if name not in classes.tuples.joints:
        raise ParameterError("the counts hold no sensitive attribute {name}; count it too", name=name)
    return classes.tuples.joints[name]


def _check_distance(attribute: Attribute, distance: Distance) -> None:
    if distance == "hierarchical" and attribute.hierarchy is None:
        raise SchemaError(
            "hierarchical distance needs a hierarchy of {name}; declare one, or use equal distance",
            name=attribute.name,
        )
    if distance == "ordered" and (not attribute.is_ordered or attribute.branches):
        raise SchemaError(
            "ordered distance needs {name} to be ordered, without missing or other values; use equal distance",
            name=attribute.name,
        )


def _check_l(least: float) -> None:
    if not 1 <= least < math.inf:
        raise ParameterError("l ({l}) must be at least 1", l=least)
