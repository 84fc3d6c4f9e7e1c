"""The junction tree: groups of attributes whose tables make up the view, and how an edge more changes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Clique = tuple[int, ...]

MOST_CELLS = 40_000  # of one clique
MOST_TOTAL = 100_000  # of all cliques


@dataclass(frozen=True, slots=True)
class CliqueTree:
    """Cliques (sorted attributes) and links (i, j) between them; what two linked cliques share separates them.

    Every attribute has a clique, and the cliques that hold it hang together: the running intersection.

    >>> tree = CliqueTree.alone(3).joined(0, 1).joined(1, 2)
    >>> tree.cliques[3:], tree.cells([4, 5, 6])
    (((0, 1), (1, 2)), 65)
    """

    cliques: tuple[Clique, ...]
    links: tuple[tuple[int, int], ...]

    @classmethod
    def alone(cls, attributes: int) -> CliqueTree:
        """Every attribute by itself: the product."""
        return cls(tuple((one,) for one in range(attributes)), ())

    def separator(self, link: tuple[int, int]) -> Clique:
        """What two linked cliques share."""
        return tuple(sorted(set(self.cliques[link[0]]) & set(self.cliques[link[1]])))

    def cells(self, sizes: Sequence[int]) -> int:
        """How many numbers the tables hold."""
        return sum(math.prod(sizes[one] for one in clique) for clique in self.cliques)

    def neighbours(self) -> list[list[int]]:
        """The cliques linked to each."""
        near: list[list[int]] = [[] for _ in self.cliques]
        for first, second in self.links:
            near[first].append(second)
            near[second].append(first)
        return near

    def prices(self, sizes: Sequence[int]) -> dict[tuple[int, int], int]:
        """How many cells every pair (carried, reached) would add, for those whose tables stay small."""
        near, total = self.neighbours(), self.cells(sizes)
        shared = {pair: set(self.separator(pair)) for a, b in self.links for pair in ((a, b), (b, a))}
        found = {}
        for first in range(len(sizes)):
            before = _spread(near, [place for place, clique in enumerate(self.cliques) if first in clique])
            homes: dict[int, int] = {}
            for place in before:
                for one in self.cliques[place]:
                    homes.setdefault(one, place)
            for second in homes.keys() - {first}:
                added, largest = self._price(first, second, _trace(before, homes[second]), shared, sizes)
                if largest <= MOST_CELLS and total + added <= MOST_TOTAL:
                    found[first, second] = added
        return found

    def _price(
        self, first: int, second: int, path: list[int], shared: dict[tuple[int, int], set[int]], sizes: Sequence[int]
    ) -> tuple[int, int]:
        added, largest = 0, 0
        for step in range(1, len(path)):
            place = path[step]
            needed = {first} | shared[path[step - 1], place]
            needed |= shared[place, path[step + 1]] if step + 1 < len(path) else {second}
            cells = math.prod(sizes[one] for one in needed)
            is_whole = needed - {first} == set(self.cliques[place])
            added += cells - cells // sizes[first] if is_whole else cells
            largest = max(largest, cells)
        return added, largest

    def path(self, first: int, second: int) -> list[int] | None:
        """The shortest chain of cliques from one that holds `first` to one that holds `second`; None between parts."""
        starts = [place for place, clique in enumerate(self.cliques) if first in clique]
        before = _spread(self.neighbours(), starts)
        home = next((place for place in before if second in self.cliques[place]), None)
        return None if home is None else _trace(before, home)

    def joined(self, first: int, second: int) -> CliqueTree:
        """The tree that holds the pair too: a clique more between parts, else `first` is carried along the path."""
        path = self.path(first, second)
        if path is None:
            place = len(self.cliques)
            pair = (min(first, second), max(first, second))
            return CliqueTree((*self.cliques, pair), (*self.links, (first, place), (place, second)))
        if len(path) == 1:
            return self
        return self._carried(first, second, path)

    def _carried(self, first: int, second: int, path: list[int]) -> CliqueTree:
        cliques, links, actual = list(self.cliques), set(self.links), list(path)
        for step in range(1, len(path)):
            place = path[step]
            needed = {first} | set(self.separator((path[step - 1], place)))
            needed |= set(self.separator((place, path[step + 1]))) if step + 1 < len(path) else {second}
            if needed - {first} == set(self.cliques[place]):
                cliques[place] = tuple(sorted(needed))
                continue
            cliques.append(tuple(sorted(needed)))  # a slimmer clique takes the place of this one on the path
            actual[step] = len(cliques) - 1
            links |= {(actual[step], place)}
        for step in range(1, len(path)):
            links -= {(path[step - 1], path[step]), (path[step], path[step - 1])}
            links |= {(actual[step - 1], actual[step])}
        return CliqueTree(tuple(cliques), tuple(sorted(links)))


def _spread(near: list[list[int]], starts: list[int]) -> dict[int, int]:
    """Every clique within reach, nearest first, with the one before it."""
    before, queue = dict.fromkeys(starts, -1), list(starts)
    for place in queue:
        for other in near[place]:
            if other not in before:
                before[other] = place
                queue.append(other)
    return before


def _trace(before: dict[int, int], place: int) -> list[int]:
    path = [place]
    while before[path[-1]] >= 0:
        path.append(before[path[-1]])
    return path[::-1]
