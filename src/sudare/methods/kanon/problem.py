"""What a search is given, and what it hands back: criterion, search and quality are three separate things."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from sudare.methods.kanon.criteria import Criterion
from sudare.methods.kanon.lattice import Lattice, Node
from sudare.methods.kanon.quality import Quality
from sudare.methods.kanon.tuples import Tuples

SearchName = Literal["auto", "pak", "ola", "incognito", "flash", "datafly", "exhaustive"]


def watch_deadline(seconds: float | None) -> Callable[[], bool]:
    """Start a clock that tells whether so many seconds have passed; never, without any.

    >>> watch_deadline(None)(), watch_deadline(-1)()
    (False, True)
    """
    stop = None if seconds is None else time.monotonic() + seconds
    return lambda: stop is not None and time.monotonic() >= stop


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """How far a search is: checks made, the best score so far (None: nothing yet) and the proven lower bound."""

    checks: int
    best: float | None
    lower_bound: float


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Find the node of least score whose classes satisfy every criterion.

    Classes that do not are suppressed, as long as these are at most `max_suppressed` of the rows. A search that has to
    stop after `deadline_seconds` hands back the best node so far and a proven lower bound.
    """

    tuples: Tuples
    lattice: Lattice
    criteria: tuple[Criterion, ...]
    quality: Quality
    max_suppressed: Fraction = Fraction(0)
    deadline_seconds: float | None = None
    progress: Callable[[SearchProgress], None] | None = None

    @property
    def max_suppressed_rows(self) -> int:
        """Count the rows that may be suppressed: none, if a criterion is broken by leaving rows out."""
        if not all(criterion.is_suppressible for criterion in self.criteria):
            return 0
        return int(self.max_suppressed * self.tuples.rows)


@dataclass(frozen=True, slots=True)
class CheckedNode:
    """One checked node, for the history of a table and for pictures: (cells, k) is the paper's table C."""

    node: Node
    cells: int
    k: int
    suppressed_rows: int
    is_feasible: bool
    score: float


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """The best node found. `lower_bound` is proven for all nodes; the node is optimal if its score is no higher."""

    node: Node
    score: float
    suppressed_rows: int
    is_optimal: bool
    lower_bound: float
    checks: int
    cells_checked: int
    algorithm: str
    start: Node | None = None  # the node that the power law predicted, if the search began there
    trace: tuple[CheckedNode, ...] = field(default=(), repr=False)

    @property
    def gap(self) -> float:
        """Tell how much better a node could at most be: score less lower bound, 0 for an optimum."""
        return 0.0 if self.is_optimal else max(0.0, self.score - self.lower_bound)
