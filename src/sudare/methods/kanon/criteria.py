"""What every published class must keep, and what a search may conclude from one that does not.

    MinimumSize           k rows                                   grows, merges
    DistinctDiversity     l different sensitive values             grows, merges
    EntropyDiversity      entropy of at least log l                merges
    RecursiveDiversity    r1 < c (r_l + ... + r_m)                 merges
    Closeness             within t of the whole table              merges
    Presence              share of a public register in [low, high]   merges

`merges`: the union of classes that keep it keeps it. Then, without suppression, all nodes coarser than a good node are
good. `grows`: a class that keeps it still does with any rows added. Only then does the set of suppressed rows shrink
from a node to every coarser one, and a limit on suppression prunes. A criterion that does not grow prunes under
suppression by those it implies (`implied`), which do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.methods.kanon.tuples import Classes

Mask = NDArray[np.bool_]


class Criterion(Protocol):
    """A promise about a class of rows that look alike."""

    @property
    def merges(self) -> bool:
        """Tell whether the union of classes that keep it keeps it."""

    @property
    def grows(self) -> bool:
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

    def holds(self, classes: Classes) -> Mask:
        """Tell which classes keep it."""

    def describe(self) -> str:
        """Write it in a few letters, for a certificate."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MinimumSize:
    """k-anonymity: at least k rows look alike.       Source: Sweeney 2002

    >>> MinimumSize(k=5).describe()
    'k = 5'
    """

    k: int

    def __post_init__(self) -> None:
        if self.k < 2:
            raise ParameterError("k ({k}) must be at least 2", k=self.k)

    merges = property(lambda self: True)
    grows = property(lambda self: True)
    is_suppressible = property(lambda self: True)
    sensitive = property(lambda self: ())
    implied = property(lambda self: (self,))

    def holds(self, classes: Classes) -> Mask:
        """Tell which classes have k rows; a class without any publishes nothing and keeps it."""
        enough: Mask = classes.loads >= self.k
        return enough if classes.tuples.population is None else enough | (classes.loads == 0)

    def describe(self) -> str:
        """Write it in a few letters."""
        return f"k = {self.k}"


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

    merges = property(lambda self: True)  # the share of a union lies between those of its parts
    grows = property(lambda self: False)
    is_suppressible = property(lambda self: self.low == 0)
    sensitive = property(lambda self: ())
    implied = property(lambda self: ())

    def holds(self, classes: Classes) -> Mask:
        """Tell which classes lie between both; ParameterError without a register, or if rows are not in it."""
        people = classes.tuples.population
        if people is None:
            raise ParameterError("delta-presence needs a register of the population (`--register FILE`)")
        if bool((people < classes.tuples.weights).any()):
            raise ParameterError("the register has fewer persons than the table in some combination; check it")
        register = np.bincount(classes.ids, weights=people, minlength=classes.count)
        share = classes.sizes / np.maximum(register, 1)
        inside: Mask = (share >= self.low) & (share <= self.high)
        return inside

    def describe(self) -> str:
        """Write it in a few letters."""
        return f"presence in [{self.low}, {self.high}]"


def all_hold(criteria: tuple[Criterion, ...], classes: Classes) -> Mask:
    """Tell which classes keep all criteria."""
    if len(criteria) == 1:
        return criteria[0].holds(classes)
    good = np.ones(classes.count, dtype=bool)
    for criterion in criteria:
        good &= criterion.holds(classes)
    return good
