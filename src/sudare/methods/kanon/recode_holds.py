"""Which classes keep all criteria, for classes that are no node of the lattice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sudare.methods.kanon.criteria import Criterion, all_hold
from sudare.methods.kanon.lattice import Node
from sudare.methods.kanon.problem import Problem
from sudare.methods.kanon.recode import Pieces
from sudare.methods.kanon.tuples import Classes, Joint, Tuples

Codes = NDArray[np.int64]
Shares = NDArray[np.float64]
Holds = Callable[[Pieces, Codes, int], NDArray[np.bool_]]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _PartOfTable(Joint):
    """Sensitive values of a part of the table; closeness is measured against the whole of it."""

    whole: Shares

    @property
    def shares(self) -> Shares:
        """Give the share of every value in the whole table."""
        return self.whole


def shares_of(pieces: Pieces) -> dict[str, Shares]:
    """Give the share of every value of each sensitive attribute."""
    joints = pieces.tuples().joints
    return {name: joint.shares for name, joint in joints.items()}


def part_of_table(pieces: Pieces, shares: Mapping[str, Shares]) -> Tuples:
    """Give pieces as tuples of a search whose criteria look at the whole table."""
    own = pieces.tuples()
    joints = {
        name: _PartOfTable(
            attribute=joint.attribute,
            tuple_of=joint.tuple_of,
            value=joint.value,
            weight=joint.weight,
            whole=shares[name],
        )
        for name, joint in own.joints.items()
    }
    return Tuples(attributes=own.attributes, codes=own.codes, weights=own.weights, joints=joints)


def holder(criteria: tuple[Criterion, ...], pieces: Pieces) -> Holds:
    """Make the check of a table: told some pieces, the class of each and their number, which classes keep all.

    >>> from sudare.methods.kanon.criteria import MinimumSize
    >>> from sudare.schema import Attribute, Values
    >>> sex = Attribute(name="sex", domain=Values(("F", "M")))
    >>> pieces = Pieces(attributes=(sex,), quasi=1, codes=np.array([[0], [1]]), weights=np.array([5, 4]))
    >>> holder((MinimumSize(k=5),), pieces)(pieces, np.array([0, 1]), 2).tolist()
    [True, False]
    """
    shares = shares_of(pieces)

    def holds(some: Pieces, class_of: Codes, count: int) -> NDArray[np.bool_]:
        loads = np.bincount(class_of, weights=some.weights, minlength=count).astype(np.float64, copy=False)
        classes = Classes((), loads, part_of_table(some, shares), np.zeros(count, dtype=np.int64))
        classes.__dict__["ids"] = class_of  # known already: there is no node to compute it from
        return all_hold(criteria, classes)

    return holds


def kept_pieces(pieces: Pieces, holds: Holds, problem: Problem, node: Node, class_of: Codes) -> NDArray[np.bool_]:
    """Tell which pieces are in classes of a node that keep the promise.

    A register of the population is known to the problem only, so it is asked where there is one.
    """
    if problem.tuples.population is None:
        good = holds(pieces, class_of, int(class_of.max(initial=-1)) + 1)
        return np.asarray(good[class_of], dtype=np.bool_)
    classes = problem.tuples.classes(node)
    good = all_hold(problem.criteria, classes)[classes.ids]
    held = {tuple(codes): bool(one) for codes, one in zip(problem.tuples.codes.tolist(), good, strict=True)}
    return np.array([held[tuple(codes)] for codes in pieces.codes[:, : pieces.quasi].tolist()], dtype=np.bool_)
