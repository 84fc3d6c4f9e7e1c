"""The ways to generalise as a steward chooses among them: what each level would cost, and what of it is proven.

    measure_choices   for every level of every quasi-identifier the best way that has it, or the proof that none holds
    Choices           the same as lines, a page and plain values

Computed from the true table: it stays with the steward.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from sudare.compare.task import TaskAccuracy, measure_accuracy
from sudare.methods.kanon.check import NodeCheck, NodeChecker
from sudare.methods.kanon.criteria import all_satisfied
from sudare.methods.kanon.lattice import Lattice, Node
from sudare.methods.kanon.lattice_picture import (
    DrawnLevel,
    DrawnNode,
    describe_node,
    draw_levels,
    draw_nodes,
    has_cards,
)
from sudare.methods.kanon.local import node_groups
from sudare.methods.kanon.optimal import find_best_between
from sudare.methods.kanon.problem import Problem
from sudare.methods.kanon.recode import Pieces, number_classes
from sudare.methods.kanon.searches import check_problem, refuse_infeasible
from sudare.report.shapes import Listing, Picture, Section, write_number
from sudare.schema.arrays import Booleans
from sudare.text import Text, Words, join_clauses, join_items, text

MAX_DRAWN_NODES = 240  # of a lattice whose nodes are all measured and drawn
MAX_LISTED_WAYS = 12  # ways in the list, those of least loss


@dataclass(frozen=True, kw_only=True, slots=True)
class LevelChoice:
    """A level of an attribute: the best way that has it; None if there is none, or none was found in time."""

    axis: int
    level: int
    best: NodeCheck | None
    is_proven: bool


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The ways to generalise a table, for the steward alone."""

    problem: Problem
    best: NodeCheck
    is_proven: bool
    levels: tuple[LevelChoice, ...]
    nodes: tuple[NodeCheck, ...]  # all of them, if the lattice is small
    checks: int
    tasks: Mapping[Node | None, TaskAccuracy] = field(default_factory=dict)  # by way; None: the table as it is
    promise: tuple[Text, ...] = ()  # as it was asked for: of persons, where these have several rows

    @property
    def lattice(self) -> Lattice:
        """The lattice of all ways."""
        return self.problem.lattice

    def ways(self) -> list[NodeCheck]:
        """List different ways within the promise, the one of least loss first."""
        found = {choice.best.node: choice.best for choice in self.levels if choice.best is not None}
        found[self.best.node] = self.best
        return sorted(found.values(), key=lambda way: (way.score, sum(way.node), way.node))[:MAX_LISTED_WAYS]

    def share_left_out(self, way: NodeCheck) -> float:
        """Give the share of the rows that a way leaves out."""
        return way.suppressed_rows / max(1, self.problem.tuples.rows)

    def write_levels(self, node: Node) -> str:
        """Write a way as the flag of `publish kanon` that picks it."""
        return "--levels " + ",".join(f"{name}={level}" for name, level in zip(self.lattice.names, node, strict=True))

    def describe_way(self, node: Node) -> Text:
        """Say in what a way differs from the best one, and of the best one how all attributes are grouped."""
        words = describe_node(self.lattice, node)
        differs = [level != best for level, best in zip(node, self.best.node, strict=True)]
        return join_clauses([line for line, differ in zip(words, differs, strict=True) if differ] or words)

    def describe_proof(self) -> list[Text]:
        """Say how many ways there are, how many were measured, and what is proven of the others."""
        promise = join_items(self.promise or [criterion.describe() for criterion in self.problem.criteria])
        head = text(
            "{nodes} ways to generalise; {checks} of them were measured for {promise}, with at most {share} of the rows"
            " left out",
            nodes=write_number(self.lattice.size),
            checks=write_number(self.checks),
            promise=promise,
            share=f"{float(self.problem.max_suppressed):.1%}",
        )
        if self.nodes:
            return [head, text("All of them were measured: none that keeps the promise loses less.")]
        if self.is_proven:
            return [
                head,
                text("It is proven of all the others that none of them both keeps the promise and loses less."),
            ]
        return [head, text("Time was up before all ways were settled: a better one may exist.")]

    def to_dict(self) -> dict[str, Any]:
        """Give plain values for the steward's program."""
        names = self.lattice.names

        def write(way: NodeCheck) -> dict[str, Any]:
            return {
                "levels": dict(zip(names, way.node, strict=True)),
                "loss": way.score,
                "left_out": way.suppressed_rows,
                "holds": way.is_feasible,
                **({"accuracy": self.tasks[way.node].accuracy} if way.node in self.tasks else {}),
            }

        return {
            "stamp": "not for publication",
            "ways": self.lattice.size,
            "measured": self.checks,
            "proven": self.is_proven,
            "best": write(self.best),
            "levels": [
                {
                    "attribute": names[choice.axis],
                    "level": choice.level,
                    "best": None if choice.best is None else write(choice.best),
                    "proven": choice.is_proven,
                }
                for choice in self.levels
            ],
            "best_ways": [write(way) for way in self.ways()],
            **({"accuracy_before": self.tasks[None].accuracy} if self.tasks else {}),
        }

    # --- for people ---------------------------------------------------------------------------------------------------

    def lines(self) -> list[Words | Listing]:
        """Say it to the steward, line by line."""
        head = text("for the steward only, not for publication:")
        return [head, *self.describe_proof(), *self._describe_task(), *self._describe_ways()]

    def _describe_ways(self) -> Iterator[Words]:
        if len(self.ways()) > 1:
            yield text("Of the other ways, only what differs from the first is told.")
        for way in self.ways():
            words = self.describe_way(way.node)
            share: Words = f"{self.share_left_out(way):.1%}"
            loss = f"{way.score:.4f}"
            if way.node in self.tasks:
                share = text(
                    "{share}, accuracy {accuracy}", share=share, accuracy=f"{self.tasks[way.node].accuracy:.1%}"
                )
            yield text("loss {loss}, left out {share}: {words}", loss=loss, share=share, words=words)
            yield f"  {self.write_levels(way.node)}"

    def _describe_task(self) -> list[Text]:
        """Say how well the task goes with the table as it is, and what differences mean."""
        before = self.tasks.get(None)
        return [] if before is None else [before.describe()]

    def sections(self) -> list[Section]:
        """Give the chapters of a page."""
        levels = Picture(
            title=text("what each level would cost"),
            draw=partial(draw_levels, self._draw_levels()),
            words=text(
                "One column for each attribute, the finest level at the bottom. Filled: the best way. The others show"
                " the least loss, and the rows left out, if this level is insisted on; the other attributes then change"
                " as they must. Crossed out: proven to be impossible within the promise."
            ),
            is_wide=True,
        )
        sections = [Section(title=text("Levels"), parts=(levels,), is_secret=True)]
        if self.nodes:
            sections.append(Section(title=text("All ways"), parts=(self._picture_nodes(),), is_secret=True))
        how = text("To publish one of them, add its levels to `sudare publish kanon`; it is checked again.")
        words, ways = (*self._describe_task(), how), (self._list_ways(),)
        return [*sections, Section(title=text("Ways to choose from"), words=words, parts=ways, is_secret=True)]

    def _list_ways(self) -> Listing:
        tasks = self.tasks
        rows: list[tuple[Words, ...]] = [
            (
                f"{way.score:.4f}",
                f"{self.share_left_out(way):.1%}",
                *((f"{tasks[way.node].accuracy:.1%}" if way.node in tasks else "–",) if tasks else ()),
                self.describe_way(way.node),
                self.write_levels(way.node),
            )
            for way in self.ways()
        ]
        head = (
            text("loss"),
            text("rows left out"),
            *((text("accuracy"),) if tasks else ()),
            text("what changes"),
            text("to publish it"),
        )
        return Listing(title=text("ways within the promise, by loss"), head=head, rows=rows)

    def _draw_levels(self) -> list[list[DrawnLevel]]:
        columns: list[list[DrawnLevel]] = [[] for _ in self.lattice.attributes]
        for choice in self.levels:
            columns[choice.axis].append(
                DrawnLevel(
                    attribute=self.lattice.attributes[choice.axis],
                    level=choice.level,
                    words=self._describe_cost(choice.best, choice.is_proven),
                    is_chosen=self.best.node[choice.axis] == choice.level,
                    is_possible=choice.best is not None,
                    is_proven=choice.is_proven,
                )
            )
        return columns

    def _describe_cost(self, way: NodeCheck | None, is_proven: bool) -> Text:
        if way is None:
            return text("impossible") if is_proven else text("not settled in time")
        return text("loss {loss}, {share} out", loss=f"{way.score:.3f}", share=f"{self.share_left_out(way):.1%}")

    def _picture_nodes(self) -> Picture:
        drawn = [
            DrawnNode(
                node=way.node,
                words=(
                    text("loss {loss}", loss=f"{way.score:.3f}") if way.is_feasible else text("not within the promise"),
                    text("{share} left out", share=f"{self.share_left_out(way):.1%}"),
                ),
                is_kept=way.is_feasible,
                is_chosen=way.node == self.best.node,
                option=self.write_levels(way.node) if way.is_feasible else "",
            )
            for way in self.nodes
        ]
        cards = text(
            "Finest at the bottom; a step up generalises one attribute by one level. Green edge: within the promise."
            " Dashed: not within it. Ringed: the best way."
        )
        dots = text(
            "Finest at the bottom; a step up generalises one attribute by one level. Filled: within the promise. Empty:"
            " not within it. Ringed: the best way. Hold the pointer over a dot to read its levels, its loss and what to"
            " add to `sudare publish kanon` to publish it."
        )
        return Picture(
            title=text("lattice of {names}", names=", ".join(self.lattice.names)),
            draw=partial(draw_nodes, self.lattice, drawn),
            words=cards if has_cards(drawn) else dots,
            is_wide=True,
        )


def measure_choices(problem: Problem) -> Choices:
    """Find the best way for every level of every quasi-identifier.

    The deadline of the problem counts for all searches together. Infeasible if no way keeps the promise.
    """
    check_problem(problem)
    checker = NodeChecker(problem, is_exact=True)
    lattice = problem.lattice
    best, is_proven = find_best_between(checker, lattice.bottom, lattice.heights)
    if best is None:
        refuse_infeasible(checker)
    levels = tuple(_choose_levels(checker, best, is_proven))
    nodes = tuple(_measure_all(checker)) if lattice.size <= MAX_DRAWN_NODES else ()
    nodes = nodes if len(nodes) == lattice.size else ()  # time was up
    return Choices(
        problem=problem, best=best, is_proven=is_proven, levels=levels, nodes=nodes, checks=len(checker.checks)
    )


def _measure_all(checker: NodeChecker) -> Iterator[NodeCheck]:
    for node in checker.problem.lattice.nodes():
        if checker.is_past_deadline:
            return
        yield checker.check(node)


def _choose_levels(checker: NodeChecker, best: NodeCheck, is_proven: bool) -> Iterator[LevelChoice]:
    lattice = checker.problem.lattice
    for axis, height in enumerate(lattice.heights):
        for level in range(height + 1):
            if best.node[axis] == level:
                yield LevelChoice(axis=axis, level=level, best=best, is_proven=is_proven)
                continue
            low = (*lattice.bottom[:axis], level, *lattice.bottom[axis + 1 :])
            high = (*lattice.heights[:axis], level, *lattice.heights[axis + 1 :])
            found, is_settled = find_best_between(checker, low, high)
            yield LevelChoice(axis=axis, level=level, best=found, is_proven=is_settled)


# --- what the ways are good for ---------------------------------------------------------------------------------------

MAX_TASKS = 6  # ways for which a classifier is trained: a few seconds each


def measure_tasks(choices: Choices, pieces: Pieces, problem: Problem) -> Choices:
    """Train a classifier on the table as it is and on the best ways; the last column of the pieces is predicted."""
    target = np.repeat(pieces.codes[:, -1], pieces.weights)
    tasks: dict[Node | None, TaskAccuracy] = {}
    for way in (None, *(way.node for way in choices.ways()[:MAX_TASKS])):
        node = problem.lattice.bottom if way is None else way
        groups = node_groups(pieces, node)
        columns = [np.repeat(groups[:, axis], pieces.weights) for axis in range(groups.shape[1])]
        kept = None if way is None else np.repeat(_find_kept(pieces, problem, way), pieces.weights)
        tasks[way] = measure_accuracy(columns, target, is_kept=kept)
    return replace(choices, tasks=tasks)


def _find_kept(pieces: Pieces, problem: Problem, node: Node) -> Booleans:
    """Tell which pieces are published at a node."""
    classes = problem.tuples.classes(node)
    is_kept = all_satisfied(problem.criteria, classes)[classes.ids]
    table = np.concatenate([problem.tuples.codes, pieces.codes[:, : pieces.quasi]])
    ids = number_classes(table)
    kept_of = np.zeros(int(ids.max()) + 1, dtype=np.bool_)
    kept_of[ids[: len(is_kept)]] = is_kept
    return np.asarray(kept_of[ids[len(is_kept) :]], dtype=np.bool_)
