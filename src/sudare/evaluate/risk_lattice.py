"""A small lattice as data for a picture: which nodes keep the promise, and where the search went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sudare.errors import ParameterError
from sudare.methods.kanon.lattice import Lattice, Node
from sudare.methods.kanon.problem import Step
from sudare.methods.kanon.tuples import Tuples

MOST_NODES = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawn:
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
    nodes: tuple[Drawn, ...]
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
    trace: Sequence[Step] = (),
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
            Drawn(
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
