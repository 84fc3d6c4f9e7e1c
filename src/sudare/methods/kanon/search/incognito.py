"""Incognito: what fails on some of the attributes fails on all of them.

Source: LeFevre, DeWitt, Ramakrishnan 2005.

Subsets of one attribute are searched first, then of two, and so on; a combination of levels is looked at only if it
passed on all smaller subsets. An attribute outside the subset is left out: at its top, or beyond it if the top has
several groups.
"""

from __future__ import annotations

import itertools

from sudare.methods.kanon.check import Checker
from sudare.methods.kanon.lattice import Node
from sudare.methods.kanon.problem import Found
from sudare.methods.kanon.search.tags import Tags

Subset = tuple[int, ...]


def incognito(checker: Checker) -> Found | None:
    """Search all subsets of attributes, the small ones first; the survivors of the whole set are scored."""
    tags = Tags(checker, "incognito")
    passed: dict[Subset, set[Node]] = {(): {()}}
    width = len(checker.problem.lattice.heights)
    for size in range(1, width):
        smaller, passed = passed, {}
        for subset in itertools.combinations(range(width), size):
            passed[subset] = _survivors(checker, subset, smaller)
            if checker.is_late:
                return tags.found(is_late=True)
    for node in sorted(_candidates(checker, tuple(range(width)), passed), key=lambda node: (sum(node), node)):
        if checker.is_late:
            break
        tags.is_good(node)
    return tags.found(is_late=checker.is_late)


def _candidates(checker: Checker, subset: Subset, smaller: dict[Subset, set[Node]]) -> list[Node]:
    """List the nodes of a subset whose parts all passed."""
    heights = checker.problem.lattice.heights
    if len(subset) == 1:
        return [(level,) for level in range(heights[subset[0]] + 1)]
    head = smaller[subset[:-1]]
    others = [(place, smaller[(*subset[:place], *subset[place + 1 :])]) for place in range(len(subset) - 1)]
    return [
        (*node, level)
        for node in head
        for level in range(heights[subset[-1]] + 1)
        if all((*node[:place], *node[place + 1 :], level) in passed for place, passed in others)
    ]


def _survivors(checker: Checker, subset: Subset, smaller: dict[Subset, set[Node]]) -> set[Node]:
    """Find the nodes of a subset that pass, the finest first; what is coarser than one that clears passes with it."""
    passed: set[Node] = set()
    candidates = set(_candidates(checker, subset, smaller))
    heights = [checker.problem.lattice.heights[axis] for axis in subset]
    for node in sorted(candidates, key=lambda node: (sum(node), node)):
        if checker.is_late:
            break
        if node in passed:
            continue
        found = checker.probe(subset, node)
        if not found.kills:
            passed.add(node)
        if found.clears:
            above = (range(level, height + 1) for level, height in zip(node, heights, strict=True))
            passed.update(one for one in itertools.product(*above) if one in candidates)
    return passed
