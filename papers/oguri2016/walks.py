"""What each search looks at, in cells, as the paper counts: the sum of the cells of all nodes checked."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sudare.counts import Counts
from sudare.methods.kanon.criteria import MinimumSize
from sudare.methods.kanon.lattice import Lattice, Node, is_finer
from sudare.methods.kanon.power_law import PowerLaw, fit_power_law
from sudare.methods.kanon.problem import Problem
from sudare.methods.kanon.quality import QUALITIES
from sudare.methods.kanon.searches import search
from sudare.methods.kanon.tuples import Tuples


@dataclass(frozen=True, eq=False)
class Measured:
    """The k of every node of one table."""

    lattice: Lattice
    tuples: Tuples
    k: dict[Node, int]

    @classmethod
    def of(cls, counts: Counts) -> Measured:
        lattice = Lattice.of(counts.schema)
        tuples = Tuples.of(counts, lattice.names)
        nodes = [node for node in lattice.nodes() if node != lattice.heights]
        return cls(lattice, tuples, {node: tuples.classes(node).smallest for node in nodes})

    @property
    def nodes(self) -> list[Node]:
        """All nodes, the fewest cells first; of equals the paper goes by region, age, sex."""
        return sorted(self.k, key=lambda node: (self.lattice.cells(node), node[::-1]))

    def cells(self, nodes: list[Node]) -> int:
        return sum(map(self.lattice.cells, nodes))

    def small(self, most_cells: int) -> list[Node]:
        """The nodes of the fewest cells."""
        return [node for node in self.nodes if self.lattice.cells(node) <= most_cells]

    def width(self, node: Node) -> int:
        """How many attributes a node tells apart."""
        return sum(level < top for level, top in zip(node, self.lattice.heights, strict=True))

    def points(self, most_cells: int = 10**9, width: int | None = None) -> list[tuple[int, float]]:
        """Cells and k, the mean over the nodes of as many cells: 25 different numbers of cells, see README.md."""
        by_cells: dict[int, list[int]] = {}
        for node in self.nodes:
            if self.lattice.cells(node) <= most_cells and width in (None, self.width(node)):
                by_cells.setdefault(self.lattice.cells(node), []).append(self.k[node])
        return [(cells, sum(ks) / len(ks)) for cells, ks in by_cells.items()]

    def law(self, most_cells: int = 9) -> PowerLaw:
        law = fit_power_law(self.points(most_cells))
        assert law is not None
        return law


def paper_ola(measured: Measured, k: int, below: Node | None = None) -> list[Node]:
    """The paper's OLA: from the most cells down, until one node keeps k (the "globally optimal dataset")."""
    walked = []
    for node in reversed(measured.nodes):
        if below is None or is_finer(below, node):
            walked.append(node)
            if measured.k[node] >= k:
                break
    return walked


def paper_incognito(measured: Measured, k: int, start: Node | None = None) -> list[Node]:
    """The paper's Incognito: from the fewest cells up; what is finer than a failure is never looked at."""
    walked, failed = [], []
    for node in measured.nodes:
        if start is not None and not is_finer(node, start):
            continue
        if any(is_finer(node, one) for one in failed):
            continue
        walked.append(node)
        if measured.k[node] < k:
            failed.append(node)
    return walked


def pak_start(measured: Measured, k: int) -> Node:
    """The node whose cells are nearest to those for which the law foretells k."""
    wanted = measured.law().cells_for(k)
    return min(measured.nodes, key=lambda node: (abs(measured.lattice.cells(node) - wanted), node[::-1]))


def pak(measured: Measured, k: int, *, goes_on: bool = True) -> list[Node]:
    """The paper's PAK: top-down from the predicted node if it keeps k (or done there), else bottom-up from it."""
    start = pak_start(measured, k)
    if measured.k[start] >= k:
        return paper_incognito(measured, k, start) if goes_on else [start]
    return [start, *(node for node in paper_ola(measured, k, start) if node != start)]


def best_of(measured: Measured, walked: list[Node], k: int) -> int:
    """The most cells among the nodes walked that keep k; 1 if none does."""
    return max((measured.lattice.cells(node) for node in walked if measured.k[node] >= k), default=1)


def literature(measured: Measured, k: int, method: str) -> int:
    """Cells checked by a search of this project, without the node that tells nothing."""
    problem = Problem(
        tuples=measured.tuples,
        lattice=measured.lattice,
        criteria=(MinimumSize(k=k),),
        quality=QUALITIES["loss"],
        max_suppressed=Fraction(0),
    )
    found = search(problem, method)  # type: ignore[arg-type]
    return sum(step.cells for step in found.trace if step.cells > 1)
