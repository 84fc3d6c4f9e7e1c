"""What every published class must satisfy, and what a search may conclude from one that does not.

    MinimumSize           k rows                                      monotone, union-closed
    DistinctDiversity     l different sensitive values                monotone, union-closed
    EntropyDiversity      entropy of at least log l                   union-closed
    RecursiveDiversity    r1 < c (r_l + ... + r_m)                    union-closed
    Closeness             within t of the whole table                 union-closed
    Presence              share of a public register in [low, high]   union-closed

Union-closed: the union of classes that satisfy it satisfies it. Then, without suppression, all nodes coarser than a
feasible node are feasible. Monotone: a class that satisfies it still does with any rows added. Only then does the set
of suppressed rows shrink from a node to every coarser one, and a limit on suppression prunes. A criterion that is not
monotone prunes under suppression by those it implies (`implied`), which are. Proof: proofs/kanon.md
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast, get_args

import numpy as np

from sudare.errors import ParameterError, SchemaError
from sudare.forms.kinds import TextList, Unfit
from sudare.methods.kanon.equal_keys import group_keys
from sudare.methods.kanon.tuples import KEPT_SIZE, Classes, SensitiveCounts, ValueCounts, sum_values
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
        """Tell whether the union of classes that satisfy it satisfies it."""

    @property
    def is_monotone(self) -> bool:
        """Tell whether a class that satisfies it still does with any rows added."""

    @property
    def is_suppressible(self) -> bool:
        """Tell whether suppressing the rows of a class that breaks it is a cure."""

    @property
    def implied(self) -> tuple[Criterion, ...]:
        """Give the monotone criteria that every class that satisfies this one satisfies."""

    @property
    def sensitive(self) -> tuple[str, ...]:
        """Name the sensitive attributes it reads."""

    def satisfied(self, classes: Classes) -> Booleans:
        """Tell which classes satisfy it."""

    def describe(self) -> Text:
        """Write it in a few words, for a certificate and its readers."""


# --- how many rows ----------------------------------------------------------------------------------------------------


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

    def satisfied(self, classes: Classes) -> Booleans:
        """Tell which classes have k rows; a class without any publishes nothing and satisfies it."""
        is_large: Booleans = classes.float_sizes >= self.k
        return is_large if classes.tuples.population is None else is_large | (classes.float_sizes == 0)

    def describe(self) -> Text:
        """Write it in a few words."""
        return text(ROWS_ALIKE, k=self.k)


@dataclass(frozen=True, kw_only=True, slots=True)
class Presence:
    """delta-presence: of the persons of a register who look alike, a share between low and high is in the table.

    Suppressing rows makes a class look absent, so that it is no cure if `low` is above 0.
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

    def satisfied(self, classes: Classes) -> Booleans:
        """Tell which classes lie between both; ParameterError without a register, or if rows are not in it."""
        people = classes.tuples.population
        if people is None:
            raise ParameterError("delta-presence needs a register of the population (`--register FILE`)")
        check_register(classes.tuples.weights, people)
        register = np.bincount(classes.ids, weights=people, minlength=classes.count)
        share = classes.sizes / np.maximum(register, 1)
        is_between: Booleans = (share >= self.low) & (share <= self.high)
        return is_between

    def describe(self) -> Text:
        """Write it in a few words."""
        return text(PRESENCE, low=self.low, high=self.high)


def check_register(rows: Codes | Reals, people: Codes | Reals) -> None:
    """Refuse a register that lacks people of the table: by combination of values, before anything is generalised."""
    if bool((people < rows).any()):
        raise ParameterError(
            "the register has fewer persons than the table has rows in some combination; check the register"
        )


def all_satisfied(criteria: tuple[Criterion, ...], classes: Classes) -> Booleans:
    """Tell which classes satisfy all criteria."""
    if len(criteria) == 1:
        return criteria[0].satisfied(classes)
    satisfied = np.ones(classes.count, dtype=bool)
    for criterion in criteria:
        if isinstance(criterion, Closeness):  # distances are dear: classes that fail already need none
            satisfied &= criterion.satisfied(classes, among=satisfied)
        else:
            satisfied &= criterion.satisfied(classes)
    return satisfied


# --- what a class tells of a sensitive attribute: l-diversity in three forms, and t-closeness -------------------------

Distance = Literal["equal", "ordered", "hierarchical"]

ROUNDING = 1e-12  # entropies and distances are floats: a class at the limit itself must not fail by the last bit
DENSE_SIZE = 2**22  # numbers in one dense array of classes by values
_CLOSENESS = {"equal": EQUAL_DISTANCE, "ordered": ORDERED_DISTANCE, "hierarchical": HIERARCHICAL_DISTANCE}


def count_values(classes: Classes, name: str) -> ValueCounts:
    """Count the rows of each value of a sensitive attribute by class; kept."""
    known = classes.value_counts.get(name)
    if known is None:
        sensitive = _sensitive_counts(classes, name)
        size = sensitive.attribute.size
        key = classes.ids[sensitive.tuple_of] * size + sensitive.value
        groups = group_keys(key, max(1, classes.count) * size)
        occurring = key[groups.first]
        known = ValueCounts(occurring // size, occurring % size, groups.totals(sensitive.weight))
        classes.value_counts[name] = known
    return known


def _keep_value_table(classes: Classes, name: str) -> Reals:
    """Count the rows of each value (classes, values); kept."""
    if name not in classes.value_tables:
        classes.value_tables[name] = sum_values(_sensitive_counts(classes, name), classes.ids, classes.count)
    return classes.value_tables[name]


def _make_value_table(classes: Classes, name: str, chosen: Codes) -> Reals:
    """Count the rows of each value in some classes (classes, values)."""
    sensitive = _sensitive_counts(classes, name)
    size, place = sensitive.attribute.size, np.full(classes.count, -1)
    place[chosen] = np.arange(len(chosen))
    rows = place.take(classes.ids).take(sensitive.tuple_of)
    is_here = np.flatnonzero(rows >= 0)
    key = rows.take(is_here) * size + sensitive.value.take(is_here)
    counted = np.bincount(key, weights=sensitive.weight.take(is_here), minlength=len(chosen) * size)
    return counted.astype(np.float64).reshape(len(chosen), size)


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

    def satisfied(self, classes: Classes) -> Booleans:
        """Tell which classes have l values."""
        values = np.bincount(count_values(classes, self.attribute).classes, minlength=classes.count)
        is_diverse: Booleans = (values >= self.l) | (classes.sizes == 0)
        return is_diverse

    def describe(self) -> Text:
        """Write it in a few words."""
        return text(DISTINCT_VALUES, l=self.l, attribute=self.attribute)


@dataclass(frozen=True, kw_only=True, slots=True)
class EntropyDiversity:
    """The entropy of the sensitive values of a class is at least log l.     Source: Machanavajjhala et al. 2007

    Entropy is concave, so it is union-closed; but rows of one value added to a class that satisfies it can spoil it.
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

    def satisfied(self, classes: Classes) -> Booleans:
        """Tell which classes have the entropy."""
        counts = count_values(classes, self.attribute)
        share = counts.rows / counts.totals(classes.count)[counts.classes]
        entropy = -np.bincount(counts.classes, weights=share * np.log(share), minlength=classes.count)
        is_diverse: Booleans = (entropy >= math.log(self.l) - ROUNDING) | (classes.sizes == 0)
        return is_diverse

    def describe(self) -> Text:
        """Write it in a few words."""
        return text(ENTROPY, l=self.l, attribute=self.attribute)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecursiveDiversity:
    """The commonest value of a class is rarer than c times all but the l - 1 commonest: r1 < c (r_l + ... + r_m).

    Source: Machanavajjhala et al. 2007, definition 4.3 (there proven to be union-closed).
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

    def satisfied(self, classes: Classes) -> Booleans:
        """Tell which classes satisfy it."""
        counts = count_values(classes, self.attribute)
        order = np.lexsort((-counts.rows, counts.classes))
        members, rows = counts.classes[order], counts.rows[order]
        values = np.bincount(members, minlength=classes.count)
        rank = np.arange(members.size) - (np.cumsum(values) - values)[members]
        commonest = np.bincount(members, weights=rows * (rank == 0), minlength=classes.count)
        tail = np.bincount(members, weights=rows * (rank >= self.l - 1), minlength=classes.count)
        is_diverse: Booleans = (commonest < self.c * tail) | (classes.sizes == 0)
        return is_diverse

    def describe(self) -> Text:
        """Write it in a few words."""
        return text(RECURSIVE, c=self.c, l=self.l, attribute=self.attribute)


@dataclass(frozen=True, kw_only=True, slots=True)
class Closeness:
    """The sensitive values of a class are distributed as in the whole table, up to an earth mover's distance of t.

    "equal": any two values are 1 apart (total variation). "ordered": values i and j of m are |i-j|/(m-1) apart.
    "hierarchical": as high in the attribute's hierarchy as their first common group, over its height.
    The distance is convex, so it is union-closed.       Source: Li, Li, Venkatasubramanian 2007
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

    def satisfied(self, classes: Classes, among: Booleans | None = None) -> Booleans:
        """Tell which classes are near enough; of those that are not among the asked ones, nothing."""
        is_near: Booleans = (self.distances(classes, among) <= self.t + ROUNDING) | (classes.float_sizes == 0)
        return is_near

    def distances(self, classes: Classes, among: Booleans | None = None) -> Reals:
        """Measure the distance of every class from the table, or of some; of the others it is infinite."""
        attribute, shares = self._attribute_and_shares(classes)
        matrix, weight = self._find_sets(classes)
        distances = np.full(classes.count, np.inf)
        for chunk, table in self._value_tables(classes, among):
            totals = table.sum(axis=1, keepdims=True)
            surplus = table / np.where(totals > 0, totals, 1.0) - shares
            if self.distance == "hierarchical":
                distances[chunk] = -weight * np.minimum(surplus @ matrix, 0.0).sum(axis=1)
            else:
                distances[chunk] = _earth_movers(surplus, attribute, self.distance)
        return distances

    def most_kept(self, classes: Classes, least: int, failing: Booleans | None = None) -> Reals:
        """Bound the rows of every class that can be published at any finer node; 0 if they are fewer than `least`.

        The published rows of class C there are a union of classes within t, so within t themselves (the distance is
        convex), and s of the rows of C. With C_f rows of C in the set f of values and p_f their share in the table,
        sum_f w max(0, s p_f - C_f) <= t s. So w (s p_A - C_A) <= t s for the sum over every choice A of sets, and s is
        at most the least C_A / (p_A - t/w) with p_A > t/w. The choice that gives it is the first sets by C_f / p_f.
        Classes that are known not to fail keep all their rows.       Proof: proofs/kanon.md
        """
        if _sensitive_counts(classes, self.attribute).is_by_person:
            return classes.float_sizes  # rows are left out, persons are counted: nothing is concluded
        _, shares = self._attribute_and_shares(classes)
        matrix, weight = self._find_sets(classes)
        most = classes.float_sizes.copy()
        asked = most >= least if failing is None else failing & (most >= least)
        for chunk, table in self._value_tables(classes, asked):
            counts = table if self.distance == "equal" else table @ matrix
            most[chunk] = _largest_within(counts, classes.float_sizes[chunk], shares @ matrix, weight, self.t)
        return np.where(most < least, 0.0, most)

    def _attribute_and_shares(self, classes: Classes) -> tuple[Attribute, Reals]:
        sensitive = _sensitive_counts(classes, self.attribute)
        _check_distance(sensitive.attribute, self.distance)
        return sensitive.attribute, sensitive.shares

    def _find_sets(self, classes: Classes) -> tuple[Reals, float]:
        """Give the sets of values and their weight (`value_sets`); kept with the table."""
        sensitive = _sensitive_counts(classes, self.attribute)
        if self.distance not in sensitive.sets:
            sensitive.sets[self.distance] = value_sets(sensitive.attribute, self.distance)
        return sensitive.sets[self.distance]

    def _value_tables(self, classes: Classes, among: Booleans | None = None) -> Iterator[tuple[Codes, Reals]]:
        """Give classes, by their numbers, and the rows of each value in them (classes, values), some at a time."""
        chosen = np.arange(classes.count) if among is None else np.flatnonzero(among)
        size = _sensitive_counts(classes, self.attribute).attribute.size
        if 0 < classes.count * size <= KEPT_SIZE:
            yield chosen, _keep_value_table(classes, self.attribute).take(chosen, axis=0)
            return
        step = max(1, DENSE_SIZE // size)
        for start in range(0, len(chosen), step):
            some = chosen[start : start + step]
            yield some, _make_value_table(classes, self.attribute, some)

    def describe(self) -> Text:
        """Write it in a few words."""
        return text(_CLOSENESS[self.distance], t=self.t, attribute=self.attribute)


def value_sets(attribute: Attribute, distance: Distance) -> tuple[Reals, float]:
    """Give the sets f of values (values, sets) and their weight w, by which every distance is one sum:

    sum_f w max(0, p_f - x_f), with p_f and x_f the shares of the set in the table and in the class.
    equal: single values, w = 1. hierarchical: the groups of all levels below the top, w = 1/height (the distance of
    two values is the share of levels at which they are apart). ordered: prefixes and suffixes, w = 1/(m - 1).
    """
    size, hierarchy = attribute.size, attribute.hierarchy
    if distance == "equal":
        return np.eye(size), 1.0
    if distance == "ordered":
        prefixes = 1.0 - np.tri(size, size - 1, -1)
        return np.concatenate([prefixes, 1 - prefixes], axis=1), 1 / max(1, size - 1)
    height, codes = attribute.height, np.arange(size)
    levels = [codes if hierarchy is None or level == 0 else hierarchy.lift(codes, level) for level in range(height)]
    sets = [np.eye(int(groups.max()) + 1)[groups] for groups in levels]
    return np.concatenate(sets, axis=1), 1 / max(1, height)


def _largest_within(counts: Reals, sizes: Reals, shares: Reals, weight: float, t: float) -> Reals:
    """Bound the rows of classes (counts of sets, sizes) that can lie within t of the table's shares."""
    occurs = shares > 0
    counts, shares = counts[:, occurs], shares[occurs]
    order = np.argsort(counts / shares, axis=1)
    excess = np.cumsum(shares.take(order), axis=1) - (t + ROUNDING) / weight
    counted = np.cumsum(np.take_along_axis(counts, order, axis=1), axis=1)
    bounds = np.divide(counted, excess, out=np.full_like(counted, np.inf), where=excess > 0)
    rounded: Reals = np.minimum(np.floor(bounds.min(axis=1, initial=np.inf) + 1e-6), sizes)
    return rounded


def _earth_movers(surplus: Reals, attribute: Attribute, distance: Distance) -> Reals:
    """Find the cost of moving each surplus share (classes, values) to where it is missing (negative)."""
    is_equal = distance == "equal"
    cost: Reals = np.abs(surplus if is_equal else np.cumsum(surplus, axis=1)).sum(axis=1)
    return cost / (2 if is_equal else max(1, attribute.size - 1))


def _sensitive_counts(classes: Classes, name: str) -> SensitiveCounts:
    if name not in classes.tuples.sensitive:
        raise ParameterError("the sensitive attribute {name} was not counted; count it too", name=name)
    return classes.tuples.sensitive[name]


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


def _check_l(value: float) -> None:
    if not 1 <= value < math.inf:
        raise ParameterError("l ({l}) must be at least 1", l=value)


# --- criteria as a steward types them: "l=3,disease", "t=0.2,income,ordered" ------------------------------------------


def read_criterion(given: str) -> Criterion:
    """Read one criterion.

    l=3,disease               at least 3 different values of disease in every class
    entropy-l=2.5,disease     entropy of at least log 2.5
    recursive-l=3,c=2,disease the commonest value rarer than 2 times all but the 2 commonest
    t=0.2,income[,ordered]    distributed as in the whole table up to 0.2; equal, ordered or hierarchical distance
    presence=0.1..0.5         of the persons of a register who look alike, a share between both is in the table

    >>> str(read_criterion("l=3,disease").describe()), str(read_criterion("t=0.2,income,ordered").describe())
    ('distinct l = 3 of disease', 't = 0.2 of income, ordered distance')
    """
    parts = [part.strip() for part in given.split(",")]
    numbers = dict(part.split("=", 1) for part in parts if "=" in part)
    names = [part for part in parts if "=" not in part]
    try:
        return _make_criterion({name.strip(): value.strip() for name, value in numbers.items()}, names)
    except (ValueError, KeyError):
        raise ParameterError(
            "criterion ({text}) must be like l=3,COLUMN or entropy-l=2,COLUMN or recursive-l=3,c=2,COLUMN or"
            " t=0.2,COLUMN or presence=0..0.5",
            text=given,
        ) from None


def _make_criterion(numbers: dict[str, str], names: list[str]) -> Criterion:
    match (sorted(numbers), names):
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

    >>> [str(criterion.describe()) for criterion in read_criteria(["l=2,disease"])]
    ['distinct l = 2 of disease']
    """
    return tuple(read_criterion(entry) if isinstance(entry, str) else entry for entry in given)


@dataclass(frozen=True, kw_only=True)
class CriteriaList(TextList):
    """Criteria beyond k, as texts or as objects."""

    def read(self, value: Any) -> tuple[Any, ...]:
        """Take none, one or several."""
        entries = (value,) if isinstance(value, str) or not isinstance(value, list | tuple) else value
        return tuple(self._read_entry(entry) for entry in entries)

    def _read_entry(self, value: Any) -> Criterion:
        if isinstance(value, str):
            try:
                return read_criterion(value)
            except ParameterError:
                raise Unfit(self, value) from None
        if not hasattr(value, "satisfied"):
            raise Unfit(self, value)
        return cast(Criterion, value)

    def describe(self) -> Text:
        """Show one of every kind."""
        return text(
            "like l=3,COLUMN or entropy-l=2,COLUMN or recursive-l=3,c=2,COLUMN or t=0.2,COLUMN or presence=0..0.5"
        )
