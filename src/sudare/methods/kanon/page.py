"""The page of a k-anonymous table: classes, levels, the lattice; before and after where the steward gave the truth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from sudare.methods.kanon.compare import ClassComparison
from sudare.methods.kanon.grouping_words import describe_level
from sudare.methods.kanon.lattice import Lattice
from sudare.methods.kanon.lattice_picture import DrawnNode, draw_nodes
from sudare.methods.kanon.risk import CLASS_SIZE_BINS
from sudare.releases import Coded, Release
from sudare.releases.columns import find_frame, number_combinations, read_labels
from sudare.report.frames import describe_marginals, show_label
from sudare.report.shapes import Listing, Marginal, Picture, ReportPage, Section, TruthComparison, write_number
from sudare.report.svg import draw_bars
from sudare.schema import Attribute, Schema
from sudare.schema.arrays import Codes, Integers
from sudare.text import Text, Words, join_sentences, text


def describe_page(release: Release, *, title: Text, truth: TruthComparison | None = None) -> ReportPage:
    """Describe a generalised table; with the truth, what is made of it is stamped."""
    columns = {name: read_labels(column) for name, column in find_frame(release, "records").columns.items()}
    quasi = [name for name in release.certificate.guarantee["quasi"] if name in columns]
    classes = number_combinations([columns[name] for name in quasi])
    sizes = np.bincount(classes)
    schema = Schema.from_dict(release.certificate.schema)
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
            describe_marginals((_count_labels(schema.attribute(name), columns[name]) for name in quasi), None),
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


def _count_labels(attribute: Attribute, column: Coded) -> Marginal:
    """Count rows by what is published of an attribute, in the order of its values, and other labels after them."""
    places = {label: place for place, label in enumerate(attribute.labels(np.arange(attribute.size)).tolist())}
    labels = column.labels.tolist()
    order = sorted(range(len(labels)), key=lambda code: places.get(labels[code], len(places)))
    counts = np.bincount(column.codes, minlength=len(labels))[order].astype(np.float64)
    return Marginal(name=attribute.name, labels=tuple(show_label(labels[code]) for code in order), published=counts)


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
    """Describe the chosen levels; where the steward gave the truth, in the lattice of all with which nodes keep k."""
    levels: Mapping[str, int] = release.certificate.measures.get("levels") or {}
    if not levels:
        return
    schema = Schema.from_dict(release.certificate.schema)
    published = {name: schema.attribute(name) for name in levels if name in schema.names}
    listing = Listing(
        title=text("levels"),
        head=(text("attribute"), text("published as"), text("chosen level"), text("top of the hierarchy")),
        rows=[
            (name, describe_level(attribute, 0), str(levels[name]), str(levels[name] + attribute.height))
            for name, attribute in published.items()
        ],
    )
    parts: list[Picture | Listing] = [listing]
    is_measured = truth is not None and truth.lattice is not None
    if truth is not None and truth.lattice is not None and len(levels) > 1:
        lattice, nodes = Lattice(truth.attributes), [_read_node(node) for node in truth.lattice["nodes"]]
        title = text("lattice of {names}", names=", ".join(lattice.names))
        words = _explain_lattice(nodes)
        parts.append(Picture(title=title, draw=partial(draw_nodes, lattice, nodes), words=words, is_wide=True))
    yield Section(title=text("Levels"), parts=tuple(parts), is_secret=is_measured)


def _read_node(node: Mapping[str, Any]) -> DrawnNode:
    return DrawnNode(
        node=tuple(node["levels"]),
        words=(f"k = {node['k']}",),
        is_kept=node["kept"],
        is_chosen=node["chosen"],
        step=node["step"],
        is_start=node["start"],
    )


def _explain_lattice(nodes: Sequence[DrawnNode]) -> Text:
    words = [
        text(
            "Finest at the bottom; a step up generalises one attribute by one level. Marked in colour: every class has"
            " k rows, nothing left out. Ringed: published."
        )
    ]
    if any(node.step for node in nodes):
        words.append(text("Numbers: the order in which the search checked the nodes."))
    if any(node.is_start for node in nodes):
        words.append(text("In a square: the node that the power law predicted as a start."))
    return join_sentences(words)
