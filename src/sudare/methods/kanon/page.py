"""The page of a k-anonymous table: classes, levels, the lattice; before and after where the steward gave the truth."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from sudare.methods.kanon.compare import MAX_SHOWN_NODES, ClassComparison
from sudare.methods.kanon.risk import CLASS_SIZE_BINS
from sudare.releases import Coded, Release
from sudare.releases.columns import find_frame, number_combinations, read_labels
from sudare.report.frames import describe_marginals, show_label
from sudare.report.shapes import Listing, Marginal, Picture, ReportPage, Section, TruthComparison, write_number
from sudare.report.svg import draw_bars, escape, wrap_svg, write_text
from sudare.schema import Schema
from sudare.schema.arrays import Codes, Integers
from sudare.text import Text, Words, join_items, join_sentences, text

WIDTH, LAYER, MARGIN = 720, 66, 30  # of the drawing of a lattice, in units: across, from level to level, around
LETTER = 6.8  # units of a digit


def describe_page(release: Release, *, title: Text, truth: TruthComparison | None = None) -> ReportPage:
    """Describe a generalised table; with the truth, what is made of it is stamped."""
    columns = {name: read_labels(column) for name, column in find_frame(release, "records").columns.items()}
    quasi = [name for name in release.certificate.guarantee["quasi"] if name in columns]
    classes = number_combinations([columns[name] for name in quasi])
    sizes = np.bincount(classes)
    compared = truth if isinstance(truth, ClassComparison) else None
    return ReportPage(
        kind=title,
        facts=[
            ("k", str(release.certificate.guarantee["k"])),
            (text("records"), write_number(int(sizes.sum()))),
            (text("classes"), write_number(len(sizes))),
            (text("smallest class"), write_number(int(sizes.min()))),
        ],
        sections=[
            *([] if compared is None else [_describe_risk(compared.classes), _describe_losses(compared.classes)]),
            _describe_classes(sizes),
            *_describe_levels(release, compared),
            describe_marginals((_count_labels(name, columns[name]) for name in quasi), None),
        ],
        warnings=list(_warn_of_homogeneous_classes(release, columns, classes)),
    )


def _warn_of_homogeneous_classes(release: Release, columns: Mapping[str, Coded], classes: Codes) -> Iterator[Text]:
    """Name sensitive attributes that are all alike in some classes: anybody can see it in the release."""
    for attribute in Schema.from_dict(release.certificate.schema).attributes:
        if attribute.role != "sensitive" or attribute.name not in columns:
            continue
        pairs = np.unique(np.column_stack([classes, columns[attribute.name].codes]), axis=0)[:, 0]
        alike = int((np.bincount(pairs) == 1).sum())
        if alike:
            yield text(
                "In {classes} classes all rows have the same {name}: it becomes known of everyone who is"
                " known to be in such a class.",
                name=attribute.name,
                classes=alike,
            )


def _count_labels(name: str, column: Coded) -> Marginal:
    counts = np.bincount(column.codes, minlength=len(column.labels)).astype(np.float64)
    return Marginal(name=name, labels=tuple(map(show_label, column.labels.tolist())), published=counts)


# --- classes ----------------------------------------------------------------------------------------------------------


def _describe_classes(sizes: Integers) -> Section:
    """Describe class sizes and risks, which anybody can count in the release."""
    groups = np.searchsorted(CLASS_SIZE_BINS, sizes, side="right") - 1
    counts = np.bincount(groups, minlength=len(CLASS_SIZE_BINS)).astype(np.float64)
    rows = [
        (text("classes"), write_number(len(sizes))),
        (text("smallest class"), write_number(int(sizes.min()))),
        (text("rows in a class on average"), write_number(round(float(sizes.mean()), 1))),
        (text("prosecutor risk"), f"{1 / sizes.min():.4f}"),
        (text("marketer risk"), f"{len(sizes) / sizes.sum():.4f}"),
    ]
    listing = Listing(title=text("classes of the release"), head=(text("measure"), text("value")), rows=rows)
    words = (
        text("The prosecutor knows that the person is in the table; the risk is that of the smallest class."),
        text("The marketer links everybody; the risk is the share of right links."),
    )
    picture = Picture(title=text("classes by their number of rows"), draw=partial(_draw_sizes, counts))
    return Section(title=text("Classes"), words=words, parts=(picture, listing))


def _draw_sizes(counts: Any) -> str:
    """Draw how many classes have so many rows."""
    ends = [*CLASS_SIZE_BINS[1:], math.inf]
    names = [
        str(low) if high == low + 1 else f"{low:,}+" if high == math.inf else f"{low:,}–{int(high) - 1:,}"
        for low, high in zip(CLASS_SIZE_BINS, ends, strict=True)
    ]
    return draw_bars(Marginal(name=text("rows in the class"), labels=tuple(names), published=counts))


def _describe_risk(classes: Mapping[str, Any]) -> Section:
    """Describe the risk before and after, side by side."""
    before, after = classes["before"], classes["after"]
    measures = (
        ("rows", text("rows"), write_number),
        ("classes", text("classes"), write_number),
        ("smallest_class", text("smallest class"), write_number),
        ("average_class", text("rows in a class on average"), lambda rows: write_number(round(rows, 1))),
        ("uniques", text("unique rows"), "{:.2%}".format),
        ("prosecutor", text("prosecutor risk"), "{:.4f}".format),
        ("journalist", text("journalist risk"), "{:.4f}".format),
        ("marketer", text("marketer risk"), "{:.4f}".format),
    )
    rows: list[tuple[Words, ...]] = [(title, write(before[key]), write(after[key])) for key, title, write in measures]
    rows.append((text("rows left out"), "", write_number(classes["left_out"])))
    listing = Listing(
        title=text("risk before and after"), head=(text("measure"), text("before"), text("after")), rows=rows
    )
    pictures = (
        Picture(title=text("classes by their number of rows, before"), draw=partial(_draw_histogram, before)),
        Picture(title=text("classes by their number of rows, after"), draw=partial(_draw_histogram, after)),
    )
    words = (text("Without a register of the population the journalist's risk equals the prosecutor's."),)
    return Section(title=text("Risk before and after"), words=words, parts=(*pictures, listing), is_secret=True)


def _draw_histogram(risk: Mapping[str, Any]) -> str:
    counts = {int(group["from"]): float(group["classes"]) for group in risk["class_sizes"]}
    return _draw_sizes(np.array([counts.get(size, 0.0) for size in CLASS_SIZE_BINS]))


def _describe_losses(classes: Mapping[str, Any]) -> Section:
    """Describe what each attribute lost, the costliest named."""
    loss: Mapping[str, float] = classes["loss"]
    if not loss:
        none = (text("The loss is not shown: the labels of the release cannot be read back as values of the schema."),)
        return Section(title=text("What was lost"), words=none, is_secret=True)
    words: tuple[Text, ...] = (text("Loss of all attributes together: {loss}.", loss=f"{classes['total_loss']:.4f}"),)
    if classes["costliest"]:
        cost = f"{loss[classes['costliest']]:.4f}"
        words = (*words, text("Most is lost in {name}: {loss}.", name=classes["costliest"], loss=cost))
    marginal = Marginal(name=text("loss"), labels=tuple(loss), published=np.array(list(loss.values())).round(4))
    picture = Picture(
        title=text("loss by attribute"),
        draw=partial(draw_bars, marginal),
        words=text("0: every value is unchanged; 1: nothing is told. A row left out counts as 1."),
    )
    return Section(title=text("What was lost"), words=words, parts=(picture,), is_secret=True)


# --- levels and their lattice -----------------------------------------------------------------------------------------


def _describe_levels(release: Release, truth: ClassComparison | None) -> Iterator[Section]:
    """Describe the chosen levels in the lattice of all, and which nodes keep k if the steward gave the truth."""
    levels: Mapping[str, int] = release.certificate.measures.get("levels") or {}
    if not levels:
        return
    schema = Schema.from_dict(release.certificate.schema)
    heights = {name: level + schema.attribute(name).height for name, level in levels.items() if name in schema.names}
    listing = Listing(
        title=text("levels"),
        head=(text("attribute"), text("chosen level"), text("top of the hierarchy")),
        rows=[(name, str(levels[name]), str(height)) for name, height in heights.items()],
    )
    measured = None if truth is None else truth.lattice
    parts: list[Picture | Listing] = [listing]
    if math.prod(height + 1 for height in heights.values()) <= MAX_SHOWN_NODES and len(heights) > 1:
        lattice = measured or list_lattice(heights, tuple(levels[name] for name in heights))
        title = text("lattice of {names}", names=", ".join(heights))
        words = _explain_lattice(lattice, is_measured=measured is not None)
        parts.append(Picture(title=title, draw=partial(draw_lattice, lattice), words=words, is_wide=True))
    yield Section(title=text("Levels"), parts=tuple(parts), is_secret=measured is not None)


def _explain_lattice(lattice: Mapping[str, Any], *, is_measured: bool) -> Text:
    if not is_measured:
        return text("Finest at the bottom; a step up generalises one attribute by one level. Ringed: published.")
    words = [
        text(
            "Finest at the bottom; a step up generalises one attribute by one level. Filled: every class has k rows,"
            " nothing left out. Ringed: published."
        )
    ]
    if any(node.get("step") for node in lattice["nodes"]):
        words.append(text("Numbers: the order in which the search checked the nodes."))
    if any(node.get("start") for node in lattice["nodes"]):
        words.append(text("In a square: the node that the power law predicted as a start."))
    return join_sentences(words)


def list_lattice(heights: Mapping[str, int], chosen: Sequence[int]) -> dict[str, Any]:
    """List the nodes and edges of a lattice as public facts know them: the structure, and what was chosen.

    >>> len(list_lattice({"sex": 1, "age": 2}, (0, 1))["edges"])
    7
    """
    nodes = list(itertools.product(*(range(height + 1) for height in heights.values())))
    edges = [
        [list(node), [*node[:axis], node[axis] + 1, *node[axis + 1 :]]]
        for node in nodes
        for axis, height in enumerate(heights.values())
        if node[axis] < height
    ]
    entries = [{"levels": list(node), "height": sum(node), "chosen": node == tuple(chosen)} for node in nodes]
    return {"names": list(heights), "nodes": entries, "edges": edges}


def draw_lattice(lattice: Mapping[str, Any]) -> str:
    """Draw a lattice: every node a dot, the finest at the bottom, the chosen one ringed.

    Nodes that know whether they keep the promise are filled if they do. Where the search is known, nodes are numbered
    in the order of the checks, and the node that a prediction began with has a square around it.
    """
    nodes, names = lattice["nodes"], ", ".join(lattice["names"])
    layers: dict[int, list[Mapping[str, Any]]] = {}
    for node in nodes:
        layers.setdefault(node["height"], []).append(node)
    tall = MARGIN * 2 + LAYER * max(layers) + 14
    place = {
        tuple(node["levels"]): (WIDTH * (at + 1) / (len(layer) + 1), tall - MARGIN - 14 - LAYER * height)
        for height, layer in layers.items()
        for at, node in enumerate(layer)
    }
    edges = "".join(
        f"M{x:.1f} {y:.1f}L{u:.1f} {v:.1f}"
        for (x, y), (u, v) in ((place[tuple(fine)], place[tuple(coarse)]) for fine, coarse in lattice["edges"])
    )
    widths = {height: WIDTH / (len(layer) + 1) - 6 for height, layer in layers.items()}  # for the words of a node
    dots = "".join(_draw_node(node, *place[tuple(node["levels"])], widths[node["height"]]) for node in nodes)
    title = text("lattice of {names}", names=names)
    return wrap_svg(WIDTH, tall, title, f'<path d="{edges}" class="edge"/>{dots}')


def _draw_node(node: Mapping[str, Any], x: float, y: float, width: float) -> str:
    levels = ",".join(map(str, node["levels"]))
    kind = "node" if "kept" not in node else "node kept" if node["kept"] else "node lost"
    full: Words = levels if "k" not in node else f"{levels}: k = {node['k']}"
    full = full if node.get("step") is None else join_items([full, text("check {number}", number=node["step"])])
    ring = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="12" class="chosen"/>' if node["chosen"] else ""
    dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6.5" class="{kind}"><title>{escape(full)}</title></circle>'
    below = [levels, *([f"k={node['k']}"] if "k" in node else [])]
    words = "".join(
        write_text(x, y + 24 + 13 * row, line, anchor="middle", kind="quiet" if row else "ink")
        for row, line in enumerate(below)
        if len(line) * LETTER <= width
    )
    return ring + _draw_check(node, x, y) + dot + words


def _draw_check(node: Mapping[str, Any], x: float, y: float) -> str:
    """Draw when the search looked at the node, and whether it began there."""
    square = f'<rect x="{x - 14:.1f}" y="{y - 14:.1f}" width="28" height="28" class="chosen" stroke-dasharray="4 3"/>'
    aside = 17 if node.get("start") else 13
    number = "" if node.get("step") is None else write_text(x + aside, y - 9, str(node["step"]), kind="quiet")
    return (square if node.get("start") else "") + number
