"""The lattice of a small k-anonymity problem: every node a dot, the finest at the bottom, the chosen one ringed.

Where the search is known, nodes are numbered in the order of the checks, and the node that a prediction began with has
a square around it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.releases import Coded, Release
from sudare.report.frames import class_numbers, frame_of, marginal_section, shown, texts
from sudare.report.shapes import Listing, Marginal, Picture, Section, TruthComparison, number
from sudare.report.svg import bars, drawing, text
from sudare.schema import Schema
from sudare.text import say

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


# The page of a k-anonymous table: classes, levels, the lattice; before and after where the steward gave the truth.


SIZES = (1, 2, 3, 5, 10, 20, 50, 100, 1000)  # classes of at least so many rows, up to the next


def class_sections(release: Release, truth: TruthComparison | None) -> Iterator[Section]:
    """What a generalised table shows."""
    columns = {name: texts(column) for name, column in frame_of(release, "records").columns.items()}
    quasi = [name for name in release.certificate.guarantee["quasi"] if name in columns]
    if truth is not None and truth.classes is not None:
        yield _before_after(truth.classes)
        yield _losses(truth.classes)
    sizes = np.bincount(class_numbers([columns[name] for name in quasi]))
    yield _classes(sizes)
    yield from _lattice(release, truth)
    yield marginal_section((_marginal(name, columns[name]) for name in quasi), None)


def class_facts(release: Release) -> list[tuple[str, str]]:
    """What the top of the page tells of a generalised table."""
    columns = frame_of(release, "records").columns
    paper = release.certificate
    sizes = np.bincount(class_numbers([texts(columns[name]) for name in paper.guarantee["quasi"]]))
    return [
        ("k", str(paper.guarantee["k"])),
        (say("records"), number(int(sizes.sum()))),
        (say("classes"), number(len(sizes))),
        (say("smallest class"), number(int(sizes.min()))),
    ]


def class_warnings(release: Release) -> list[str]:
    """Name sensitive attributes that are all alike in some classes: anybody can see it in the release."""
    columns = {name: texts(column) for name, column in frame_of(release, "records").columns.items()}
    classes = class_numbers([columns[name] for name in release.certificate.guarantee["quasi"]])
    found = []
    for one in Schema.from_dict(release.certificate.schema).attributes:
        if one.role != "sensitive" or one.name not in columns:
            continue
        pairs = np.unique(np.column_stack([classes, columns[one.name].codes]), axis=0)[:, 0]
        alike = int((np.bincount(pairs) == 1).sum())
        if alike:
            found.append(
                say("{name} is all alike in {classes} classes: of whoever is known to be in one, it is known.",
                    name=one.name, classes=alike)
            )  # fmt: skip
    return found


def _marginal(name: str, column: Coded) -> Marginal:
    counts = np.bincount(column.codes, minlength=len(column.labels)).astype(np.float64)
    return Marginal(name=name, labels=tuple(map(shown, column.labels.tolist())), published=counts)


def _size_names() -> list[str]:
    ends = [*SIZES[1:], math.inf]
    return [
        str(low) if high == low + 1 else f"{low:,}+" if high == math.inf else f"{low:,}–{int(high) - 1:,}"
        for low, high in zip(SIZES, ends, strict=True)
    ]


def _classes(sizes: NDArray[np.int64]) -> Section:
    """Class sizes and risks, which anybody can count in the release."""
    places = np.searchsorted(SIZES, sizes, side="right") - 1
    counts = np.bincount(places, minlength=len(SIZES)).astype(np.float64)
    found = Marginal(name=say("rows in the class"), labels=tuple(_size_names()), published=counts)
    rows = [
        (say("classes"), number(len(sizes))),
        (say("smallest class"), number(int(sizes.min()))),
        (say("rows in a class on average"), number(round(float(sizes.mean()), 1))),
        (say("prosecutor risk"), f"{1 / sizes.min():.4f}"),
        (say("marketer risk"), f"{len(sizes) / sizes.sum():.4f}"),
    ]
    listing = Listing(title=say("classes of the release"), head=(say("measure"), say("value")), rows=rows)
    words = (
        say("The prosecutor knows that the person is in the table; the risk is that of the smallest class."),
        say("The marketer links everybody; the risk is the share of right links."),
    )
    picture = Picture(title=say("classes by their number of rows"), drawing=bars(found))
    return Section(title=say("Classes"), words=words, parts=(picture, listing))


def _lattice(release: Release, truth: TruthComparison | None) -> Iterator[Section]:
    """The chosen levels in the lattice of all, and which nodes keep k if the steward gave the truth."""
    levels: Mapping[str, int] = release.certificate.measures.get("levels") or {}
    if not levels:
        return
    schema = Schema.from_dict(release.certificate.schema)
    heights = {name: level + schema.attribute(name).height for name, level in levels.items() if name in schema.names}
    rows = [(name, str(levels[name]), str(height)) for name, height in heights.items()]
    listing = Listing(
        title=say("levels"), head=(say("attribute"), say("chosen level"), say("top of the hierarchy")), rows=rows
    )
    known = truth is not None and truth.lattice is not None
    parts: list[Picture | Listing] = [listing]
    if math.prod(height + 1 for height in heights.values()) <= MOST_NODES and len(heights) > 1:
        lattice: Mapping[str, Any] = plain(heights, tuple(levels[name] for name in heights))
        if truth is not None and truth.lattice is not None:
            lattice = truth.lattice
        parts.append(Picture(title=say("lattice of {names}", names=", ".join(heights)), drawing=draw(lattice),
                             words=_lattice_words(lattice, known), is_wide=True))  # fmt: skip
    yield Section(title=say("Levels"), parts=tuple(parts), is_secret=known)


def _lattice_words(lattice: Mapping[str, Any], known: bool) -> str:
    if not known:
        return say("Finest at the bottom; a step up generalises one attribute by one level. Ringed: published.")
    words = [
        say(
            "Finest at the bottom; a step up generalises one attribute by one level. Filled: every class has k rows,"
            " nothing left out. Ringed: published."
        )
    ]
    if any(node.get("step") for node in lattice["nodes"]):
        words.append(say("Numbers: the order in which the search looked at the nodes."))
    if any(node.get("start") for node in lattice["nodes"]):
        words.append(say("In a square: where the power law said to begin."))
    return " ".join(words)


def _before_after(told: Mapping[str, Any]) -> Section:
    """Risk before and after, side by side."""
    before, after = told["before"], told["after"]
    names = (
        ("rows", say("rows"), number),
        ("classes", say("classes"), number),
        ("smallest_class", say("smallest class"), number),
        ("average_class", say("rows in a class on average"), lambda one: number(round(one, 1))),
        ("uniques", say("unique rows"), "{:.2%}".format),
        ("prosecutor", say("prosecutor risk"), "{:.4f}".format),
        ("journalist", say("journalist risk"), "{:.4f}".format),
        ("marketer", say("marketer risk"), "{:.4f}".format),
    )
    rows = [(title, write(before[key]), write(after[key])) for key, title, write in names]
    rows.append((say("rows left out"), "", number(told["left_out"])))
    listing = Listing(title=say("risk before and after"), head=(say("measure"), say("before"), say("after")), rows=rows)
    pictures = (
        Picture(title=say("classes by their number of rows, before"), drawing=_histogram(before)),
        Picture(title=say("classes by their number of rows, after"), drawing=_histogram(after)),
    )
    words = (say("Without a register of the population the journalist's risk equals the prosecutor's."),)
    return Section(title=say("Risk before and after"), words=words, parts=(*pictures, listing), is_secret=True)


def _histogram(risk: Mapping[str, Any]) -> str:
    counts = {int(one["from"]): float(one["classes"]) for one in risk["class_sizes"]}
    published = np.array([counts.get(size, 0.0) for size in SIZES])
    return bars(Marginal(name=say("rows in the class"), labels=tuple(_size_names()), published=published))


def _losses(told: Mapping[str, Any]) -> Section:
    """What each attribute lost, the costliest named."""
    loss: Mapping[str, float] = told["loss"]
    if not loss:
        none = (say("The loss is not shown: the labels of the release cannot be read back as values of the schema."),)
        return Section(title=say("What was lost"), words=none, is_secret=True)
    words: tuple[str, ...] = (say("Loss of all attributes together: {loss}.", loss=f"{told['total_loss']:.4f}"),)
    if told["costliest"]:
        cost = f"{loss[told['costliest']]:.4f}"
        words = (*words, say("{name} costs most: {loss}.", name=told["costliest"], loss=cost))
    found = Marginal(name=say("loss"), labels=tuple(loss), published=np.array(list(loss.values())).round(4))
    picture = Picture(
        title=say("loss by attribute"),
        drawing=bars(found),
        words=say("0: every value as it was; 1: nothing is told. A row left out counts 1."),
    )
    return Section(title=say("What was lost"), words=words, parts=(picture,), is_secret=True)
