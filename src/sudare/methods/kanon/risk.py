"""How easily persons are found in a table, and what its generalisation cost. Stays with the steward."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sudare.counts import Counts
from sudare.counts.relabelling import LEFT_OUT
from sudare.errors import ParameterError
from sudare.methods.kanon.lattice import Lattice, Node
from sudare.methods.kanon.problem import CheckedNode
from sudare.methods.kanon.recode import Pieces, Recoded, class_numbers
from sudare.methods.kanon.tuples import Tuples
from sudare.schema.arrays import Codes
from sudare.text import say

BINS = (1, 2, 3, 5, 10, 20, 50, 100, 1000)  # classes of at least so many rows, up to the next


@dataclass(frozen=True, kw_only=True, slots=True)
class Risk:
    """The risk that a row is linked to its person by the quasi-identifiers.

    `prosecutor`: of the row at greatest risk, by one who knows that the person is in the table (1 / smallest class).
    `journalist`: the same by one who knows only a register of the population; without one it equals the prosecutor's.
    `marketer`: the mean over all rows (classes / rows): the share that one who links everybody gets right.
    `uniques`: share of rows that nobody else looks like. Not for publication.
    """

    rows: int
    classes: int
    smallest: int
    prosecutor: float
    journalist: float
    marketer: float
    uniques: float
    average: float
    histogram: tuple[tuple[int, int], ...] = ()  # (size from, classes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a report or a program of the steward."""
        return {
            "rows": self.rows,
            "classes": self.classes,
            "smallest_class": self.smallest,
            "prosecutor": self.prosecutor,
            "journalist": self.journalist,
            "marketer": self.marketer,
            "uniques": self.uniques,
            "average_class": self.average,
            "class_sizes": [{"from": size, "classes": count} for size, count in self.histogram],
        }


def risk_of(sizes: Codes, population: Codes | None = None) -> Risk:
    """Measure the risk of classes by their sizes; `population` gives how many of a register look like each class.

    Source: Dankar, El Emam 2010 (prosecutor, journalist, marketer)

    >>> found = risk_of(np.array([1, 4, 5]))
    >>> found.prosecutor, found.marketer, found.uniques
    (1.0, 0.3, 0.1)
    """
    held = sizes > 0
    sizes = sizes[held]
    rows, classes = int(sizes.sum()), int(sizes.size)
    if not rows:
        return Risk(rows=0, classes=0, smallest=0, prosecutor=0, journalist=0, marketer=0, uniques=0, average=0)
    people = sizes if population is None else np.maximum(population[held], sizes)
    places = np.searchsorted(BINS, sizes, side="right") - 1
    counts = np.bincount(places, minlength=len(BINS)).tolist()
    return Risk(
        rows=rows,
        classes=classes,
        smallest=int(sizes.min()),
        prosecutor=1 / int(sizes.min()),
        journalist=float((1 / people).max()),
        marketer=float((sizes / people).sum() / rows),
        uniques=float(sizes[sizes == 1].sum() / rows),
        average=rows / classes,
        histogram=tuple(zip(BINS, counts, strict=True)),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Likeness:
    """A sensitive attribute that is all alike in some classes: whoever is known to be in one, is known."""

    attribute: str
    classes: int
    rows: int
    share: float

    def words(self, *, lang: str | None = None) -> str:
        """Tell it without a value."""
        return say(
            "{name} is all alike in {classes} classes ({share} of the rows): of whoever is known to be in one of them,"
            " it is known; ask for --criteria l=2,{name}",
            lang=lang,
            name=self.attribute,
            classes=self.classes,
            share=f"{self.share:.1%}",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class BeforeAfter:
    """A table before and after its recoding. Not for publication: it is computed from the true table.

    `loss` is, for every quasi-identifier, the mean over all rows of (values that the label stands for - 1) over
    (values of the attribute - 1); a row left out counts 1. `total_loss` is their geometric mean as ARX computes it.
    """

    before: Risk
    after: Risk
    left_out: int
    loss: dict[str, float]
    alike: tuple[Likeness, ...] = field(default=())

    @property
    def total_loss(self) -> float:
        """The loss of all attributes together: (prod (1 + l))^(1/n) - 1."""
        return math.prod(1 + one for one in self.loss.values()) ** (1 / max(1, len(self.loss))) - 1

    @property
    def costliest(self) -> str | None:
        """Name the attribute that lost most; None if nothing is lost."""
        name = max(self.loss, key=self.loss.__getitem__, default=None)
        return name if name is not None and self.loss[name] > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a report or a program of the steward."""
        return {
            "stamp": "not for publication",
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "left_out": self.left_out,
            "loss": dict(self.loss),
            "total_loss": self.total_loss,
            "costliest": self.costliest,
            "alike": [
                {"attribute": one.attribute, "classes": one.classes, "rows": one.rows, "share": one.share}
                for one in self.alike
            ],
        }


def risk_before(counts: Counts, quasi: Sequence[str], register: Counts | None = None) -> Risk:
    """Measure the risk of a table as it is.

    >>> from sudare.schema import Attribute, Schema, Values
    >>> schema = Schema(name="s", attributes=(Attribute(name="sex", domain=Values(("F", "M"))),))
    >>> risk_before(Counts.from_columns(schema, [[0], [1], [1]]), ["sex"]).smallest
    1
    """
    table = counts.project(list(quasi))
    if register is None:
        return risk_of(table.values)
    known = register.project(list(quasi))
    people = {tuple(codes): value for codes, value in zip(known.codes.tolist(), known.values.tolist(), strict=True)}
    return risk_of(table.values, np.array([people.get(tuple(codes), 0) for codes in table.codes.tolist()]))


def compare(recoded: Recoded) -> BeforeAfter:
    """Measure a recoding against the table that it was made from."""
    pieces = recoded.pieces
    fine = class_numbers(pieces.codes[:, : pieces.quasi])
    before = risk_of(np.bincount(fine, weights=pieces.weights).astype(np.int64))
    return BeforeAfter(
        before=before,
        after=risk_of(recoded.class_sizes),
        left_out=recoded.left_out,
        loss=_losses(recoded),
        alike=tuple(_likenesses(pieces, recoded.class_of)),
    )


def _losses(recoded: Recoded) -> dict[str, float]:
    pieces, is_out = recoded.pieces, recoded.class_of == LEFT_OUT
    found = {}
    for axis, attribute in enumerate(pieces.attributes[: pieces.quasi]):
        lost = (recoded.spread[:, axis] - 1) / max(1, attribute.size - 1)
        lost = np.where(is_out, 1.0 if attribute.size > 1 else 0.0, lost)
        found[attribute.name] = float((lost * pieces.weights).sum() / max(1, pieces.rows))
    return found


def _likenesses(pieces: Pieces, class_of: Codes) -> list[Likeness]:
    kept = class_of != LEFT_OUT
    classes, weights = class_of[kept], pieces.weights[kept]
    sizes = np.bincount(classes, weights=weights).astype(np.int64)
    found = []
    for at, attribute in enumerate(pieces.attributes[pieces.quasi :], start=pieces.quasi):
        pairs = np.unique(np.column_stack([classes, pieces.codes[kept, at]]), axis=0)
        values = np.bincount(pairs[:, 0].astype(np.int64), minlength=sizes.size)
        alike = (values == 1) & (sizes > 0)
        if alike.any():
            rows = int(sizes[alike].sum())
            share = rows / max(1, int(sizes.sum()))
            found.append(Likeness(attribute=attribute.name, classes=int(alike.sum()), rows=rows, share=share))
    return found


# A small lattice as data for a picture: which nodes keep the promise, and where the search went.


MOST_NODES = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class LatticeDot:
    """One node: its levels, the smallest class there, and when the search checked it (None: never)."""

    node: Node
    height: int
    cells: int
    k: int
    is_kept: bool
    step: int | None
    is_chosen: bool = False
    is_start: bool = False  # where the prediction said to begin


@dataclass(frozen=True, kw_only=True, slots=True)
class LatticePicture:
    """Nodes by height and edges from each node to the next coarser ones. Not for publication: k is of the table."""

    names: tuple[str, ...]
    nodes: tuple[LatticeDot, ...]
    edges: tuple[tuple[Node, Node], ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a drawing program."""
        return {
            "stamp": "not for publication",
            "names": list(self.names),
            "nodes": [
                {
                    "levels": list(one.node),
                    "height": one.height,
                    "cells": one.cells,
                    "k": one.k,
                    "kept": one.is_kept,
                    "step": one.step,
                    "chosen": one.is_chosen,
                    "start": one.is_start,
                }
                for one in self.nodes
            ],
            "edges": [[list(fine), list(coarse)] for fine, coarse in self.edges],
        }


def draw_lattice(
    tuples: Tuples,
    lattice: Lattice,
    *,
    k: int,
    trace: Sequence[CheckedNode] = (),
    chosen: Node | None = None,
    start: Node | None = None,
) -> LatticePicture:
    """Measure every node of a small lattice: does each class hold k rows, nothing left out?

    Error: ParameterError for a lattice of more than 4096 nodes.
    """
    if lattice.size > MOST_NODES:
        raise ParameterError(
            "a lattice of {nodes} nodes is too large to draw (at most {most})", nodes=lattice.size, most=MOST_NODES
        )
    steps = {step.node: place + 1 for place, step in reversed(list(enumerate(trace)))}
    nodes = []
    for node in lattice.nodes():
        smallest = tuples.classes(node).smallest
        nodes.append(
            LatticeDot(
                node=node,
                height=sum(node),
                cells=lattice.cells(node),
                k=smallest,
                is_kept=smallest >= k,
                step=steps.get(node),
                is_chosen=node == chosen,
                is_start=node == start,
            )
        )
    edges = tuple((node, above) for node in lattice.nodes() for above in lattice.coarser(node))
    return LatticePicture(names=lattice.names, nodes=tuple(nodes), edges=edges)
