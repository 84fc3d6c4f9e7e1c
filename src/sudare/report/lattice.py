"""The lattice of a small k-anonymity problem: every node a dot, the finest at the bottom, the chosen one ringed.

Where the search is known, nodes are numbered in the order of the checks, and the node that a prediction began with has
a square around it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from sudare.messages import say
from sudare.report.svg import drawing, text

MOST_NODES = 240
WIDE, LAYER, MARGIN = 720, 66, 30
LETTER = 6.8  # units of a digit


def plain(heights: Mapping[str, int], chosen: Sequence[int]) -> dict[str, Any]:
    """Give the nodes and edges of a lattice as public facts know them: the structure, and what was chosen.

    >>> len(plain({"sex": 1, "age": 2}, (0, 1))["edges"])
    7
    """
    nodes = list(itertools.product(*(range(height + 1) for height in heights.values())))
    edges = [
        [list(node), [*node[:axis], node[axis] + 1, *node[axis + 1 :]]]
        for node in nodes
        for axis, height in enumerate(heights.values())
        if node[axis] < height
    ]
    told = [{"levels": list(node), "height": sum(node), "chosen": node == tuple(chosen)} for node in nodes]
    return {"names": list(heights), "nodes": told, "edges": edges}


def draw(lattice: Mapping[str, Any]) -> str:
    """Draw a lattice; nodes that know whether they keep the promise are filled if they do."""
    nodes, names = lattice["nodes"], ", ".join(lattice["names"])
    layers: dict[int, list[Mapping[str, Any]]] = {}
    for node in nodes:
        layers.setdefault(node["height"], []).append(node)
    tall = MARGIN * 2 + LAYER * max(layers) + 14
    place = {
        tuple(node["levels"]): (WIDE * (at + 1) / (len(layer) + 1), tall - MARGIN - 14 - LAYER * height)
        for height, layer in layers.items()
        for at, node in enumerate(layer)
    }
    edges = "".join(
        f"M{x:.1f} {y:.1f}L{u:.1f} {v:.1f}"
        for (x, y), (u, v) in ((place[tuple(fine)], place[tuple(coarse)]) for fine, coarse in lattice["edges"])
    )
    dots = "".join(_dot(node, *place[tuple(node["levels"])], _room(layers[node["height"]])) for node in nodes)
    title = say("lattice of {names}", names=names)
    return drawing(WIDE, tall, title, f'<path d="{edges}" class="edge"/>{dots}')


def _room(layer: Sequence[Mapping[str, Any]]) -> float:
    """What a node of a layer has for its words."""
    return WIDE / (len(layer) + 1) - 6


def _dot(node: Mapping[str, Any], x: float, y: float, room: float) -> str:
    levels = ",".join(map(str, node["levels"]))
    kind = "node" if "kept" not in node else "node kept" if node["kept"] else "node lost"
    full = levels if "k" not in node else f"{levels}: k = {node['k']}"
    full = full if node.get("step") is None else f"{full}, {say('check {number}', number=node['step'])}"
    ring = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="12" class="chosen"/>' if node["chosen"] else ""
    dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6.5" class="{kind}"><title>{escape(full)}</title></circle>'
    under = [levels, *([f"k={node['k']}"] if "k" in node else [])]
    words = "".join(
        text(x, y + 24 + 13 * line, told, anchor="middle", kind="quiet" if line else "ink")
        for line, told in enumerate(under)
        if len(told) * LETTER <= room
    )
    return ring + _way(node, x, y) + dot + words


def _way(node: Mapping[str, Any], x: float, y: float) -> str:
    """When the search looked at the node, and whether it began there."""
    square = f'<rect x="{x - 14:.1f}" y="{y - 14:.1f}" width="28" height="28" class="chosen" stroke-dasharray="4 3"/>'
    aside = 17 if node.get("start") else 13
    number = "" if node.get("step") is None else text(x + aside, y - 9, str(node["step"]), kind="quiet")
    return (square if node.get("start") else "") + number
