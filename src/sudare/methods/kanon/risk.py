"""How easily persons are found in a table, what its generalisation costs, and the lattice as data for a picture.

All of it is computed from the true table and stays with the steward.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sudare.counts import Counts
from sudare.counts.relabelling import SUPPRESSED
from sudare.errors import ParameterError
from sudare.methods.kanon.lattice import Lattice, Node
from sudare.methods.kanon.problem import CheckedNode
from sudare.methods.kanon.recode import Pieces, RecodedTable, number_classes
from sudare.methods.kanon.tuples import Tuples
from sudare.schema.arrays import Codes
from sudare.text import Text, text

CLASS_SIZE_BINS = (1, 2, 3, 5, 10, 20, 50, 100, 1000)  # of a histogram: at least so many rows, fewer than the next


@dataclass(frozen=True, kw_only=True, slots=True)
class Risk:
    """The risk that a row is linked to its person by the quasi-identifiers. Not for publication.

    `prosecutor`: the risk of the row at greatest risk, if the attacker knows that the person is in the table
    (1 / smallest class). `journalist`: the same if the attacker knows only a register of the population; without a
    register it equals the prosecutor's. `marketer`: the mean over all rows (classes / rows), the share of right links
    of an attacker who links everybody. `uniques`: the share of rows whose combination nobody else has.
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
        """Give plain values for a report or a program of the steward."""
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


def measure_risk(sizes: Codes, population: Codes | None = None) -> Risk:
    """Measure the risk of classes by their sizes; `population` gives how many of a register look like each class.

    Source: Dankar, El Emam 2010 (prosecutor, journalist, marketer)

    >>> risk = measure_risk(np.array([1, 4, 5]))
    >>> risk.prosecutor, risk.marketer, risk.uniques
    (1.0, 0.3, 0.1)
    """
    is_occupied = sizes > 0
    sizes = sizes[is_occupied]
    rows, classes = int(sizes.sum()), int(sizes.size)
    if not rows:
        return Risk(rows=0, classes=0, smallest=0, prosecutor=0, journalist=0, marketer=0, uniques=0, average=0)
    people = sizes if population is None else np.maximum(population[is_occupied], sizes)
    bin_of = np.searchsorted(CLASS_SIZE_BINS, sizes, side="right") - 1
    counts = np.bincount(bin_of, minlength=len(CLASS_SIZE_BINS)).tolist()
    return Risk(
        rows=rows,
        classes=classes,
        smallest=int(sizes.min()),
        prosecutor=1 / int(sizes.min()),
        journalist=float((1 / people).max()),
        marketer=float((sizes / people).sum() / rows),
        uniques=float(sizes[sizes == 1].sum() / rows),
        average=rows / classes,
        histogram=tuple(zip(CLASS_SIZE_BINS, counts, strict=True)),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class HomogeneousClasses:
    """Classes whose rows all have the same value of a sensitive attribute: who is known to be in one, is known."""

    attribute: str
    classes: int
    rows: int
    share: float

    def describe(self) -> Text:
        """Say it without a value of the table."""
        return text(
            "in {classes} classes ({share} of the rows) all rows have the same {name}: it becomes known of"
            " everyone who is known to be in such a class; to prevent that, ask for --criteria {criterion}",
            name=self.attribute,
            criterion=shlex.quote(f"l=2,{self.attribute}"),
            classes=self.classes,
            share=f"{self.share:.1%}",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class BeforeAfter:
    """A table before and after its recoding. Not for publication: it is computed from the true table.

    `loss` is, for every quasi-identifier, the mean over all rows of (values that the label stands for - 1) over
    (values of the attribute - 1); a suppressed row counts 1. `total_loss` is their geometric mean as ARX computes it.
    """

    before: Risk
    after: Risk
    suppressed_rows: int
    loss: dict[str, float]
    alike: tuple[HomogeneousClasses, ...] = field(default=())

    @property
    def total_loss(self) -> float:
        """The loss of all attributes together: (prod (1 + l))^(1/n) - 1."""
        return math.prod(1 + loss for loss in self.loss.values()) ** (1 / max(1, len(self.loss))) - 1

    @property
    def costliest(self) -> str | None:
        """Name the attribute that lost most; None if nothing is lost."""
        name = max(self.loss, key=self.loss.__getitem__, default=None)
        return name if name is not None and self.loss[name] > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """Give plain values for a report or a program of the steward."""
        return {
            "stamp": "not for publication",
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "left_out": self.suppressed_rows,
            "loss": dict(self.loss),
            "total_loss": self.total_loss,
            "costliest": self.costliest,
            "alike": [
                {"attribute": alike.attribute, "classes": alike.classes, "rows": alike.rows, "share": alike.share}
                for alike in self.alike
            ],
        }


def measure_table_risk(counts: Counts, quasi: Sequence[str], register: Counts | None = None) -> Risk:
    """Measure the risk of a table as it is.

    >>> from sudare.schema import Attribute, Schema, Values
    >>> schema = Schema(name="s", attributes=(Attribute(name="sex", domain=Values(("F", "M"))),))
    >>> measure_table_risk(Counts.from_columns(schema, [[0], [1], [1]]), ["sex"]).smallest
    1
    """
    table = counts.project(list(quasi))
    if register is None:
        return measure_risk(table.values)
    known = register.project(list(quasi))
    people = {tuple(codes): value for codes, value in zip(known.codes.tolist(), known.values.tolist(), strict=True)}
    return measure_risk(table.values, np.array([people.get(tuple(codes), 0) for codes in table.codes.tolist()]))


def compare_recoding(recoded: RecodedTable) -> BeforeAfter:
    """Measure a recoding against the table that it was made from."""
    pieces = recoded.pieces
    fine = number_classes(pieces.codes[:, : pieces.quasi])
    before = measure_risk(np.bincount(fine, weights=pieces.weights).astype(np.int64))
    return BeforeAfter(
        before=before,
        after=measure_risk(recoded.class_sizes),
        suppressed_rows=recoded.suppressed_rows,
        loss=_measure_losses(recoded),
        alike=tuple(_find_homogeneous(pieces, recoded.class_of)),
    )


def _measure_losses(recoded: RecodedTable) -> dict[str, float]:
    pieces, is_suppressed = recoded.pieces, recoded.class_of == SUPPRESSED
    losses = {}
    for axis, attribute in enumerate(pieces.attributes[: pieces.quasi]):
        lost = (recoded.label_sizes[:, axis] - 1) / max(1, attribute.size - 1)
        lost = np.where(is_suppressed, 1.0 if attribute.size > 1 else 0.0, lost)
        losses[attribute.name] = float((lost * pieces.weights).sum() / max(1, pieces.rows))
    return losses


def _find_homogeneous(pieces: Pieces, class_of: Codes) -> Iterator[HomogeneousClasses]:
    is_published = class_of != SUPPRESSED
    classes, weights = class_of[is_published], pieces.weights[is_published]
    sizes = np.bincount(classes, weights=weights).astype(np.int64)
    for axis, attribute in enumerate(pieces.attributes[pieces.quasi :], start=pieces.quasi):
        pairs = np.unique(np.column_stack([classes, pieces.codes[is_published, axis]]), axis=0)
        values = np.bincount(pairs[:, 0].astype(np.int64), minlength=sizes.size)
        are_alike = (values == 1) & (sizes > 0)
        if are_alike.any():
            rows = int(sizes[are_alike].sum())
            share = rows / max(1, int(sizes.sum()))
            count = int(are_alike.sum())
            yield HomogeneousClasses(attribute=attribute.name, classes=count, rows=rows, share=share)


# --- a small lattice as data for a picture: which nodes keep the promise, and where the search went -------------------

MAX_DRAWN_NODES = 4096


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
    is_start: bool = False  # the node that the power law predicted


@dataclass(frozen=True, kw_only=True, slots=True)
class LatticePicture:
    """Nodes by height and edges from each node to the next coarser ones. Not for publication: k is of the table."""

    names: tuple[str, ...]
    nodes: tuple[LatticeDot, ...]
    edges: tuple[tuple[Node, Node], ...]

    def to_dict(self) -> dict[str, Any]:
        """Give plain values for a drawing program."""
        return {
            "stamp": "not for publication",
            "names": list(self.names),
            "nodes": [
                {
                    "levels": list(dot.node),
                    "height": dot.height,
                    "cells": dot.cells,
                    "k": dot.k,
                    "kept": dot.is_kept,
                    "step": dot.step,
                    "chosen": dot.is_chosen,
                    "start": dot.is_start,
                }
                for dot in self.nodes
            ],
            "edges": [[list(fine), list(coarse)] for fine, coarse in self.edges],
        }


def measure_lattice(
    tuples: Tuples,
    lattice: Lattice,
    *,
    k: int,
    trace: Sequence[CheckedNode] = (),
    chosen: Node | None = None,
    start: Node | None = None,
) -> LatticePicture:
    """Measure every node of a small lattice: does each class have k rows, nothing suppressed?

    Error: ParameterError for a lattice of more than 4096 nodes.
    """
    if lattice.size > MAX_DRAWN_NODES:
        raise ParameterError(
            "a lattice of {nodes} nodes is too large to draw (at most {most})", nodes=lattice.size, most=MAX_DRAWN_NODES
        )
    first_step = {checked.node: step for step, checked in reversed(list(enumerate(trace, 1)))}
    dots = []
    for node in lattice.nodes():
        smallest = tuples.classes(node).smallest
        dots.append(
            LatticeDot(
                node=node,
                height=sum(node),
                cells=lattice.cells(node),
                k=smallest,
                is_kept=smallest >= k,
                step=first_step.get(node),
                is_chosen=node == chosen,
                is_start=node == start,
            )
        )
    edges = tuple((node, coarser) for node in lattice.nodes() for coarser in lattice.coarser(node))
    return LatticePicture(names=lattice.names, nodes=tuple(dots), edges=edges)
