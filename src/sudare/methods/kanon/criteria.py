"""What every published class must keep, and what a search may conclude from one that does not.

    MinimumSize           k rows                                   grows, merges
    DistinctDiversity     l different sensitive values             grows, merges
    EntropyDiversity      entropy of at least log l                merges
    RecursiveDiversity    r1 < c (r_l + ... + r_m)                 merges
    Closeness             within t of the whole table              merges
    Presence              share of a public register in [low, high]   merges

`is_union_closed`: the union of classes that keep it keeps it. Then, without suppression, all nodes coarser than a good node are
good. `is_monotone`: a class that keeps it still does with any rows added. Only then does the set of suppressed rows shrink
from a node to every coarser one, and a limit on suppression prunes. A criterion that does not grow prunes under
suppression by those it implies (`implied`), which do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, get_args

import numpy as np

from sudare.errors import ParameterError, SchemaError
from sudare.methods.kanon.equal_keys import group_keys
from sudare.methods.kanon.tuples import Classes, SensitiveCounts
from sudare.privacy.promise import (
    DISTINCT_VALUES,
    ENTROPY,
    EQUAL_DISTANCE,
    HIERARCHICAL_DISTANCE,
    ORDERED_DISTANCE,
    PRESENCE,
    RECURSIVE,
    ROWS_ALIKE,
)
from sudare.schema import Attribute
from sudare.schema.arrays import Booleans, Codes, Reals
from sudare.text import Text, text


class Criterion(Protocol):
    """A promise about a class of rows that look alike."""

    @property
    def is_union_closed(self) -> bool:
        """Tell whether the union of classes that keep it keeps it."""

    @property
    def is_monotone(self) -> bool:
        """Tell whether a class that keeps it still does with any rows added."""

    @property
    def is_suppressible(self) -> bool:
        """Tell whether leaving out the rows of a class that breaks it mends it."""

    @property
    def implied(self) -> tuple[Criterion, ...]:
        """Give the growing criteria that every class that keeps this one keeps."""

    @property
    def sensitive(self) -> tuple[str, ...]:
        """Name the sensitive attributes it reads."""

    def holds(self, classes: Classes) -> Booleans:
        """Tell which classes keep it."""

    def describe(self) -> Text:
        """Write it in a few words, for a certificate."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MinimumSize:
    """k-anonymity: at least k rows look alike.       Source: Sweeney 2002

    >>> str(MinimumSize(k=5).describe())
    'k = 5'
    """

    k: int

    def __post_init__(self) -> None:
        if self.k < 2:
            raise ParameterError("k ({k}) must be at least 2", k=self.k)

    is_union_closed = property(lambda self: True)
    is_monotone = property(lambda self: True)
    is_suppressible = property(lambda self: True)
    sensitive = property(lambda self: ())
    implied = property(lambda self: (self,))

    def holds(self, classes: Classes) -> Booleans:
        """Tell which classes have k rows; a class without any publishes nothing and keeps it."""
        enough: Booleans = classes.loads >= self.k
        return enough if classes.tuples.population is None else enough | (classes.loads == 0)

    def describe(self) -> Text:
        """Write it in a few words."""
        return text(ROWS_ALIKE, k=self.k)


@dataclass(frozen=True, kw_only=True, slots=True)
class Presence:
    """delta-presence: of the persons of a register who look alike, a share between low and high is in the table.

    Leaving rows out makes a class look absent, so that it is no cure if `low` is above 0.
    Source: Nergiz, Atzori, Clifton 2007
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= 1:
            raise ParameterError(
                "delta-presence needs 0 <= low ({low}) <= high ({high}) <= 1", low=self.low, high=self.high
            )

    is_union_closed = property(lambda self: True)  # the share of a union lies between those of its parts
    is_monotone = property(lambda self: False)
    is_suppressible = property(lambda self: self.low == 0)
    sensitive = property(lambda self: ())
    implied = property(lambda self: ())

    def holds(self, classes: Classes) -> Booleans:
        """Tell which classes lie between both; ParameterError without a register, or if rows are not in it."""
        people = classes.tuples.population
        if people is None:
            raise ParameterError("delta-presence needs a register of the population (`--register FILE`)")
        if bool((people < classes.tuples.weights).any()):
            raise ParameterError("the register has fewer persons than the table in some combination; check it")
        register = np.bincount(classes.ids, weights=people, minlength=classes.count)
        share = classes.sizes / np.maximum(register, 1)
        inside: Booleans = (share >= self.low) & (share <= self.high)
        return inside

    def describe(self) -> Text:
        """Write it in a few words."""
        return text(PRESENCE, low=self.low, high=self.high)


def all_satisfied(criteria: tuple[Criterion, ...], classes: Classes) -> Booleans:
    """Tell which classes keep all criteria."""
    if len(criteria) == 1:
        return criteria[0].holds(classes)
    good = np.ones(classes.count, dtype=bool)
    for read_criterion in criteria:
        good &= read_criterion.holds(classes)
    return good


# Criteria about what a class tells of a sensitive attribute: l-diversity in three forms, and t-closeness.


Distance = Literal["equal", "ordered", "hierarchical"]
_CLOSENESS: dict[Distance, str] = {
    "equal": EQUAL_DISTANCE,
    "ordered": ORDERED_DISTANCE,
    "hierarchical": HIERARCHICAL_DISTANCE,
}

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
    found = group_keys(key, max(1, classes.count) * size)
    places = key[found.first]
    return Entries(places // size, places % size, found.totals(joint.weight))


@dataclass(frozen=True, kw_only=True, slots=True)
class DistinctDiversity:
    """A class has l different sensitive values.       Source: Machanavajjhala et al. 2007

    >>> str(DistinctDiversity(attribute="disease", l=3).describe())
    'distinct l = 3 of disease'
    """

    attribute: str
    l: int  # noqa: E741  (its name)

    def __post_init__(self) -> None:
        _check_l(self.l)

    is_union_closed = property(lambda self: True)
    is_monotone = property(lambda self: True)
    is_suppressible = property(lambda self: True)
    sensitive = property(lambda self: (self.attribute,))
    implied = property(lambda self: (self,))

    def holds(self, classes: Classes) -> Booleans:
        """Tell which classes have l values."""
        values = np.bincount(entries(classes, self.attribute).classes, minlength=classes.count)
        good: Booleans = (values >= self.l) | (classes.sizes == 0)
        return good

    def describe(self) -> Text:
        """Write it in a few words."""
        return text(DISTINCT_VALUES, l=self.l, attribute=self.attribute)


@dataclass(frozen=True, kw_only=True, slots=True)
class EntropyDiversity:
    """The entropy of the sensitive values of a class is at least log l.     Source: Machanavajjhala et al. 2007

    Entropy is concave, so a union of good classes is good; but rows of one value added to a good class can spoil it.
    """

    attribute: str
    l: float  # noqa: E741  (its name)

    def __post_init__(self) -> None:
        _check_l(self.l)

    is_union_closed = property(lambda self: True)
    is_monotone = property(lambda self: False)
    is_suppressible = property(lambda self: True)
    sensitive = property(lambda self: (self.attribute,))

    @property
    def implied(self) -> tuple[Criterion, ...]:
        """An entropy of log l takes l values."""
        return (DistinctDiversity(attribute=self.attribute, l=math.ceil(self.l - ROUNDING)),)

    def holds(self, classes: Classes) -> Booleans:
        """Tell which classes have the entropy."""
        found = entries(classes, self.attribute)
        share = found.rows / classes.sizes[found.classes]
        entropy = -np.bincount(found.classes, weights=share * np.log(share), minlength=classes.count)
        good: Booleans = (entropy >= math.log(self.l) - ROUNDING) | (classes.sizes == 0)
        return good

    def describe(self) -> Text:
        """Write it in a few words."""
        return text(ENTROPY, l=self.l, attribute=self.attribute)


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

    is_union_closed = property(lambda self: True)
    is_monotone = property(lambda self: False)
    is_suppressible = property(lambda self: True)
    sensitive = property(lambda self: (self.attribute,))

    @property
    def implied(self) -> tuple[Criterion, ...]:
        """Without an l-th value the right side is 0."""
        return (DistinctDiversity(attribute=self.attribute, l=self.l),)

    def holds(self, classes: Classes) -> Booleans:
        """Tell which classes keep it."""
        found = entries(classes, self.attribute)
        order = np.lexsort((-found.rows, found.classes))
        members, rows = found.classes[order], found.rows[order]
        counts = np.bincount(members, minlength=classes.count)
        rank = np.arange(members.size) - (np.cumsum(counts) - counts)[members]
        most = np.bincount(members, weights=rows * (rank == 0), minlength=classes.count)
        tail = np.bincount(members, weights=rows * (rank >= self.l - 1), minlength=classes.count)
        good: Booleans = (most < self.c * tail) | (classes.sizes == 0)
        return good

    def describe(self) -> Text:
        """Write it in a few words."""
        return text(RECURSIVE, c=self.c, l=self.l, attribute=self.attribute)


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

    is_union_closed = property(lambda self: True)
    is_monotone = property(lambda self: False)
    is_suppressible = property(lambda self: True)
    sensitive = property(lambda self: (self.attribute,))
    implied = property(lambda self: ())

    def holds(self, classes: Classes) -> Booleans:
        """Tell which classes are near enough."""
        good: Booleans = (self.distances(classes) <= self.t + ROUNDING) | (classes.sizes == 0)
        return good

    def distances(self, classes: Classes) -> Reals:
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

    def describe(self) -> Text:
        """Write it in a few words."""
        return text(_CLOSENESS[self.distance], t=self.t, attribute=self.attribute)


def _distance(extra: Reals, attribute: Attribute, distance: Distance) -> Reals:
    """Move what is too much (extra, (classes, values)) to where it is missing."""
    if distance == "hierarchical":
        return _climb(extra, attribute)
    is_equal = distance == "equal"
    far: Reals = np.abs(extra if is_equal else np.cumsum(extra, axis=1)).sum(axis=1)
    return far / (2 if is_equal else max(1, attribute.size - 1))


def _climb(extra: Reals, attribute: Attribute) -> Reals:
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


def _joint(classes: Classes, name: str) -> SensitiveCounts:
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


# Criteria as a steward types them: "l=3,disease", "t=0.2,income,ordered".


def read_criterion(text: str) -> Criterion:
    """Read one criterion.

    l=3,disease               at least 3 different values of disease in every class
    entropy-l=2.5,disease     entropy of at least log 2.5
    recursive-l=3,c=2,disease the commonest value rarer than 2 times all but the 2 commonest
    t=0.2,income[,ordered]    distributed as in the whole table up to 0.2; equal, ordered or hierarchical distance
    presence=0.1..0.5         of the persons of a register who look alike, a share between both is in the table

    >>> str(read_criterion("l=3,disease").describe()), str(read_criterion("t=0.2,income,ordered").describe())
    ('distinct l = 3 of disease', 't = 0.2 of income, ordered distance')
    """
    parts = [part.strip() for part in text.split(",")]
    numbers = dict(part.split("=", 1) for part in parts if "=" in part)
    words = [part for part in parts if "=" not in part]
    try:
        return _made({name.strip(): value.strip() for name, value in numbers.items()}, words)
    except (ValueError, KeyError):
        raise ParameterError(
            "criterion ({text}) must be like l=3,COLUMN or entropy-l=2,COLUMN or recursive-l=3,c=2,COLUMN or"
            " t=0.2,COLUMN or presence=0..0.5",
            text=text,
        ) from None


def _made(numbers: dict[str, str], words: list[str]) -> Criterion:
    match (sorted(numbers), words):
        case ["l"], [column]:
            return DistinctDiversity(attribute=column, l=int(numbers["l"]))
        case ["entropy-l"], [column]:
            return EntropyDiversity(attribute=column, l=float(numbers["entropy-l"]))
        case ["c", "recursive-l"], [column]:
            return RecursiveDiversity(attribute=column, c=float(numbers["c"]), l=int(numbers["recursive-l"]))
        case ["t"], [column]:
            return Closeness(attribute=column, t=float(numbers["t"]))
        case ["t"], [column, ("equal" | "ordered" | "hierarchical") as distance]:
            return Closeness(attribute=column, t=float(numbers["t"]), distance=distance)
        case ["presence"], []:
            low, high = numbers["presence"].split("..")
            return Presence(low=float(low), high=float(high))
    raise ValueError


def read_criteria(given: Iterable[Criterion | str]) -> tuple[Criterion, ...]:
    """Read texts, keep criteria.

    >>> [str(one.describe()) for one in read_criteria(["l=2,disease"])]
    ['distinct l = 2 of disease']
    """
    return tuple(read_criterion(one) if isinstance(one, str) else one for one in given)
