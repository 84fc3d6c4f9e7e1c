"""Local recoding: rows that would be left out are generalised further, among themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sudare.errors import Infeasible
from sudare.methods.kanon.criteria import Criterion
from sudare.methods.kanon.lattice import Lattice, Node
from sudare.methods.kanon.problem import Found, Problem
from sudare.methods.kanon.quality import Quality
from sudare.methods.kanon.recode import Pieces, class_numbers
from sudare.methods.kanon.recode_cut import Cut
from sudare.methods.kanon.recode_holds import Holds, part_of_table, shares_of

Codes = NDArray[np.int64]

MOST_ROUNDS = 24
HALF = Fraction(1, 2)  # of the rows of a round may wait for the next one


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Round:
    """Some pieces, generalised to one node: `pieces` by position, and the class of each, numbered from 0."""

    node: Node
    pieces: Codes
    class_of: Codes


def recode_locally(
    pieces: Pieces,
    waiting: Codes,
    *,
    lattice: Lattice,
    criteria: tuple[Criterion, ...],
    quality: Quality,
    holds: Holds,
    find: Callable[[Problem], Found],
    deadline_seconds: float | None = None,
) -> list[Round]:
    """Generalise the waiting pieces in rounds: each finds the best node that lets half of their rows go.

    Rows that wait in the end cannot be published. Every class of a round keeps the criteria by itself, so that it does
    so too where its labels are those of another class.
    """
    shares = shares_of(pieces)
    rounds: list[Round] = []
    for _ in range(MOST_ROUNDS):
        rest = pieces.take(waiting)
        problem = Problem(
            tuples=part_of_table(rest, shares),
            lattice=lattice,
            criteria=criteria,
            quality=quality,
            max_suppressed=HALF,
            deadline_seconds=deadline_seconds,
        )
        try:
            node = find(problem).node
        except Infeasible:
            return rounds
        class_of = class_numbers(node_groups(rest, node))
        is_kept = holds(rest, class_of, int(class_of.max(initial=-1)) + 1)[class_of]
        if not is_kept.any():
            return rounds
        numbers = np.unique(class_of[is_kept], return_inverse=True)[1].reshape(-1)
        rounds.append(Round(node=node, pieces=waiting[is_kept], class_of=numbers))
        waiting = waiting[~is_kept]
        if not waiting.size:
            return rounds
    return rounds


def node_groups(pieces: Pieces, node: Node) -> Codes:
    """Give the groups (pieces, q) of every quasi-identifier at a node."""
    return np.column_stack(
        [
            Cut.at(attribute, level, pieces.codes[:, axis]).groups(pieces.codes[:, axis])
            for axis, (attribute, level) in enumerate(zip(pieces.attributes[: pieces.quasi], node, strict=True))
        ]
    )
