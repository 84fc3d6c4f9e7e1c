"""From counts to a recoded table: the recodings, their labels, and the last check before anything leaves.

    recode_by_search      the levels of the best node; by value and locally refined where that is wanted
    recode_from_the_top   levels of its own for every class
    recode_by_mondrian    ranges of values that need no hierarchy
    recode_by_means       numbers as means of their class, beside one of these for the other attributes

Requests are recoded in approve.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.counts.relabelling import SUPPRESSED, Overrides, Relabelling
from sudare.errors import Infeasible
from sudare.methods.kanon.lattice import Node
from sudare.methods.kanon.local import (
    LocalRound,
    cut_at_node,
    node_groups,
    recode_locally,
    refine_from_best_node,
)
from sudare.methods.kanon.microaggregate import average_numbers, describe_means, read_piece_labels
from sudare.methods.kanon.mondrian import MondrianParts, ValueLine, partition
from sudare.methods.kanon.problem import Problem, SearchResult, watch_deadline
from sudare.methods.kanon.recode import (
    ClassChecker,
    HierarchyCut,
    Pieces,
    RecodedTable,
    find_kept_pieces,
    number_classes,
)
from sudare.methods.kanon.searches import search
from sudare.methods.kanon.top_down import Effort, TopDownParts, specialise
from sudare.methods.kanon.value_tree import ClassRule, ValueTree
from sudare.schema.arrays import Booleans, Codes, Labels


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What a run decided, for the steward: the recoding, and how the search went (None where none was needed).

    `is_late`: a recoding without a search was stopped by its deadline.
    """

    recoded: RecodedTable
    result: SearchResult | None = None
    is_late: bool = False


def recode_by_search(
    pieces: Pieces,
    check_classes: ClassChecker,
    problem: Problem,
    result: SearchResult,
    *,
    by_value: bool,
    local: bool,
) -> Outcome:
    """Recode by the node that a search found; by value from there on, and suppressed rows locally, if wanted."""
    if by_value:
        cuts, class_of, is_kept = refine_from_best_node(
            pieces,
            (result.node, problem.lattice.heights),
            check_classes,
            max_suppressed_rows=problem.max_suppressed_rows,
            deadline_seconds=problem.deadline_seconds,
        )
    else:
        cuts = cut_at_node(pieces, result.node)
        class_of = number_classes(node_groups(pieces, result.node))
        is_kept = find_kept_pieces(pieces, check_classes, problem, result.node, class_of)
    rounds = []
    if local and not is_kept.all():
        rounds = recode_locally(
            pieces,
            np.flatnonzero(~is_kept),
            lattice=problem.lattice,
            criteria=problem.criteria,
            quality=problem.quality,
            check_classes=check_classes,
            search=search,
            deadline_seconds=problem.deadline_seconds,
        )
    recoded = _label_by_cuts(pieces, cuts, class_of, is_kept, rounds, "value" if by_value else "full")
    if problem.tuples.population is None:
        check_promise(recoded, check_classes, problem.max_suppressed_rows)
    return Outcome(recoded=recoded, result=result)


def recode_from_the_top(
    rule: ClassRule,
    check_classes: ClassChecker,
    *,
    effort: Effort,
    by_ranges: bool,
    is_flat: bool = False,
    weights: Sequence[float] | None = None,
    max_suppressed_rows: int = 0,
    deadline_seconds: float | None = None,
) -> Outcome:
    """Recode along the hierarchies, each class at levels of its own.

    Where classes are labelled by groups, rows of a small table may be left out if that loses less than hiding others
    with them. With `is_flat` hierarchies are not used: single values of single rows are hidden (cell suppression).
    """
    pieces = rule.pieces
    _check_whole(pieces, check_classes)
    is_late = watch_deadline(deadline_seconds)
    max_left_out = None if by_ranges else max_suppressed_rows
    parts = specialise(
        rule, effort=effort, is_flat=is_flat, weights=weights, max_left_out=max_left_out, is_late=is_late
    )
    was_late = is_late()
    recoded = _label_by_ranges(pieces, parts) if by_ranges else _label_by_levels(pieces, parts)
    if is_flat:
        hidden = {name: {"hidden": "*"} for name in pieces.names[: pieces.quasi]}
        recoded = replace(recoded, mapping={"recoding": "cells", "attributes": hidden})
    recoded = suppress_pieces(recoded, parts.part_of == SUPPRESSED)
    check_promise(recoded, check_classes, max_suppressed_rows)
    return Outcome(recoded=recoded, is_late=was_late)


def _check_whole(pieces: Pieces, check_classes: ClassChecker) -> None:
    if not check_classes(pieces, np.zeros(len(pieces.weights), dtype=np.int64), 1).all():
        raise Infeasible("even the whole table as one class does not satisfy the criteria; relax them")


def recode_by_mondrian(
    pieces: Pieces,
    check_classes: ClassChecker,
    *,
    relaxed: bool,
    by_hierarchy: bool = False,
    deadline_seconds: float | None = None,
) -> Outcome:
    """Recode by ranges, cut at medians; `relaxed` cuts may go through equal rows.

    With `by_hierarchy` parts are cut between groups of the hierarchies, and labelled by the smallest groups that hold
    them.
    """
    _check_whole(pieces, check_classes)
    is_late = watch_deadline(deadline_seconds)
    if by_hierarchy:
        recoded = _recode_between_groups(pieces, check_classes, is_late)
    else:
        lines = [ValueLine(attribute) for attribute in pieces.attributes[: pieces.quasi]]
        places = np.column_stack([line.places(pieces.codes[:, axis]) for axis, line in enumerate(lines)])
        recoded = _label_by_parts(partition(pieces, places, check_classes, relaxed=relaxed, is_late=is_late), lines)
    was_late = is_late()
    check_promise(recoded, check_classes, 0)
    return Outcome(recoded=recoded, is_late=was_late)


def _recode_between_groups(pieces: Pieces, check_classes: ClassChecker, is_late: Callable[[], bool]) -> RecodedTable:
    """Cut parts between groups of the hierarchies, each labelled by the smallest groups that hold it."""
    trees = tuple(
        ValueTree.of(attribute, pieces.codes[:, axis])
        for axis, attribute in enumerate(pieces.attributes[: pieces.quasi])
    )
    places, bounds = [], []
    for axis, tree in enumerate(trees):
        order = np.lexsort([tree.values, *tree.groups[1:]])  # values of one group stand side by side, at every level
        place_of = np.empty(len(order), dtype=np.int64)
        place_of[order] = np.arange(len(order))
        places.append(place_of[np.searchsorted(tree.values, pieces.codes[:, axis])])
        bounds.append((np.diff(tree.groups[:, order], axis=1, prepend=-1) != 0).sum(axis=0))
    parts = partition(pieces, np.column_stack(places), check_classes, bounds=bounds, is_late=is_late)
    levels = np.zeros((len(parts.part_of), len(trees)), dtype=np.int64)
    for axis, tree in enumerate(trees):
        value = np.searchsorted(tree.values, parts.pieces.codes[:, axis])
        for level in range(tree.height):  # a part that holds two groups of a level is labelled above it
            groups = tree.groups[level][value]
            low, high = np.full(parts.count, len(tree.values)), np.full(parts.count, -1)
            np.minimum.at(low, parts.part_of, groups)
            np.maximum.at(high, parts.part_of, groups)
            levels[:, axis] += (low < high)[parts.part_of]
    recoded = _label_by_levels(parts.pieces, TopDownParts(trees=trees, part_of=parts.part_of, levels=levels))
    return replace(recoded, mapping={**recoded.mapping, "recoding": "mondrian"})


def recode_by_means(
    pieces: Pieces,
    inner: Outcome | None,
    names: Sequence[str],
    *,
    k: int,
    check_classes: ClassChecker,
    max_suppressed_rows: int,
) -> Outcome:
    """Publish numbers as means of their class: the classes of a recoding of the others, cut by microaggregation."""
    class_of, labels, label_sizes = _spread_classes(pieces, None if inner is None else inner.recoded)
    groups, means, spans = average_numbers(pieces, class_of, names, k, check_classes)
    kept = groups != SUPPRESSED
    for name in names:
        labels[name] = np.where(kept, means[name][groups], "")
        label_sizes[:, pieces.names.index(name)] = np.where(kept, spans[name][groups], 1)
    numbers = [
        np.unique(_sortable(labels[name][kept]), return_inverse=True)[1] for name in pieces.names[: pieces.quasi]
    ]
    class_of = np.full(len(groups), SUPPRESSED, dtype=np.int64)
    class_of[kept] = number_classes(np.column_stack(numbers))
    first = np.flatnonzero(kept)[np.unique(class_of[kept], return_index=True)[1]]
    class_labels = {name: labels[name][first] for name in pieces.names[: pieces.quasi]}
    mapping: Mapping[str, Any] = {"recoding": "means", "attributes": {}} if inner is None else inner.recoded.mapping
    averaged = {name: describe_means(pieces.attributes[pieces.names.index(name)]) for name in names}
    recoded = RecodedTable(
        pieces=pieces,
        class_of=class_of,
        label_sizes=label_sizes,
        relabelling=Relabelling(labels={}, overrides=_override_all_combinations(pieces, class_of, class_labels)),
        mapping={**mapping, "attributes": {**mapping["attributes"], **averaged}},
    )
    check_promise(recoded, check_classes, max_suppressed_rows)
    return Outcome(recoded=recoded, is_late=inner is not None and inner.is_late)


def _spread_classes(pieces: Pieces, inner: RecodedTable | None) -> tuple[Codes, dict[str, Labels], Codes]:
    """Give pieces over more quasi-identifiers the class, labels and label sizes of a recoding of some of them."""
    label_sizes = np.ones((len(pieces.weights), pieces.quasi), dtype=np.int64)
    if inner is None:
        return np.zeros(len(pieces.weights), dtype=np.int64), {}, label_sizes
    names = inner.pieces.names[: inner.pieces.quasi]
    axes = [pieces.names.index(name) for name in names]
    ids = number_classes(np.concatenate([inner.pieces.codes[:, : len(names)], pieces.codes[:, axes]]))
    count = len(inner.pieces.weights)
    place_of = np.empty(int(ids.max(initial=0)) + 1, dtype=np.int64)
    place_of[ids[:count]] = np.arange(count)
    place = place_of[ids[count:]]
    label_sizes[:, axes] = inner.label_sizes[place]
    return inner.class_of[place], {name: texts[place] for name, texts in read_piece_labels(inner).items()}, label_sizes


# --- labels -----------------------------------------------------------------------------------------------------------


def _label_by_cuts(
    pieces: Pieces,
    cuts: list[HierarchyCut],
    class_of: Codes,
    is_kept: Booleans,
    rounds: list[LocalRound],
    kind: str,
) -> RecodedTable:
    """Label every value by the cut of its attribute; suppress what fails, or give it the labels of its round."""
    class_of = np.where(is_kept, class_of, SUPPRESSED)
    label_sizes = np.column_stack([cut.label_sizes(pieces.codes[:, axis]) for axis, cut in enumerate(cuts)])
    labels: list[list[Labels]] = [[] for _ in cuts]
    group_of, group_count = np.full(len(class_of), SUPPRESSED, dtype=np.int64), 0
    for local in rounds:
        class_of[local.pieces] = int(class_of.max(initial=-1)) + 1 + local.class_of
        group_of[local.pieces] = group_count + local.class_of
        group_count += int(local.class_of.max()) + 1
        first = local.pieces[np.unique(local.class_of, return_index=True)[1]]
        for axis, level in enumerate(local.node):
            cut = HierarchyCut.at_level(pieces.attributes[axis], level, pieces.codes[:, axis])
            labels[axis].append(cut.labels(pieces.codes[first, axis]))
            label_sizes[local.pieces, axis] = cut.label_sizes(pieces.codes[local.pieces, axis])
    mapping = {name: cut.to_mapping() for name, cut in zip(pieces.names, cuts, strict=False)}
    # rows that were generalised further: at which levels, in which order; never which rows
    further = [{name: int(level) for name, level in zip(pieces.names, local.node, strict=False)} for local in rounds]
    group_labels = dict(zip(pieces.names, map(_concatenate, labels), strict=False)) if rounds else {}
    return RecodedTable(
        pieces=pieces,
        class_of=np.unique(class_of, return_inverse=True)[1].reshape(-1) - int((class_of == SUPPRESSED).any()),
        label_sizes=label_sizes,
        relabelling=Relabelling(
            labels={name: cut.labels for name, cut in zip(pieces.names, cuts, strict=False)},
            overrides=None if is_kept.all() else override_combinations(pieces, ~is_kept, group_of, group_labels),
        ),
        mapping={"recoding": kind, "attributes": mapping, **({"further": further} if further else {})},
    )


def _concatenate(labels: list[Labels]) -> Labels:
    return np.concatenate(labels).astype(np.object_)


def override_combinations(pieces: Pieces, chosen: Booleans, group_of: Codes, labels: Mapping[str, Labels]) -> Overrides:
    """Give the chosen pieces labels of their own, by combination of quasi-identifiers alone, which decide the class."""
    codes, first = np.unique(pieces.codes[chosen, : pieces.quasi], axis=0, return_index=True)
    return Overrides(names=pieces.names[: pieces.quasi], codes=codes, groups=group_of[chosen][first], labels=labels)


def suppress_pieces(recoded: RecodedTable, is_left_out: Booleans) -> RecodedTable:
    """Leave out more pieces of a recoded table: whole classes, and with them every row of their combinations."""
    if not is_left_out.any():
        return recoded
    pieces, known = recoded.pieces, recoded.relabelling.overrides
    out = np.unique(pieces.codes[is_left_out, : pieces.quasi], axis=0)
    codes, groups = out, np.full(len(out), SUPPRESSED, dtype=np.int64)
    if known is not None:
        ids = number_classes(np.concatenate([known.codes, out]))
        is_other = ~np.isin(ids[: len(known.codes)], ids[len(known.codes) :])
        codes = np.concatenate([known.codes[is_other], codes])
        groups = np.concatenate([known.groups[is_other], groups])
    overrides = Overrides(
        names=pieces.names[: pieces.quasi], codes=codes, groups=groups, labels={} if known is None else known.labels
    )
    class_of = np.full(len(recoded.class_of), SUPPRESSED, dtype=np.int64)
    class_of[~is_left_out] = number_classes(recoded.class_of[~is_left_out, None])
    return replace(recoded, class_of=class_of, relabelling=replace(recoded.relabelling, overrides=overrides))


def _label_by_levels(pieces: Pieces, parts: TopDownParts) -> RecodedTable:
    """Label every piece by the groups of its levels; parts with the same labels are one class."""
    columns, sizes = [], []
    for axis, tree in enumerate(parts.trees):
        place = np.searchsorted(tree.values, pieces.codes[:, axis])
        level = parts.levels[:, axis]
        columns.append(level * len(tree.values) + tree.groups[level, place])
        sizes.append(tree.sizes[level, place])
    class_of = number_classes(np.column_stack(columns))
    first = np.unique(class_of, return_index=True)[1]
    labels = {
        name: tree.labels(pieces.codes[first, axis], parts.levels[first, axis])
        for axis, (name, tree) in enumerate(zip(pieces.names, parts.trees, strict=False))
    }
    levels = {
        name: {"levels": np.unique(parts.levels[parts.part_of != SUPPRESSED, axis]).tolist()}
        for axis, name in enumerate(pieces.names[: pieces.quasi])
    }
    return RecodedTable(
        pieces=pieces,
        class_of=class_of,
        label_sizes=np.column_stack(sizes),
        relabelling=Relabelling(labels={}, overrides=_override_all_combinations(pieces, class_of, labels)),
        mapping={"recoding": "local", "labels": "hierarchy", "attributes": levels},
    )


def _label_by_ranges(pieces: Pieces, parts: TopDownParts) -> RecodedTable:
    """Label every part by the values that it spans, as Mondrian does."""
    lines = [ValueLine(attribute) for attribute in pieces.attributes[: pieces.quasi]]
    count = int(parts.part_of.max(initial=-1)) + 1
    recoded = _label_by_parts(MondrianParts(pieces=pieces, part_of=parts.part_of, count=count), lines)
    return replace(recoded, mapping={**recoded.mapping, "recoding": "local", "labels": "ranges"})


def _label_by_parts(parts: MondrianParts, lines: list[ValueLine]) -> RecodedTable:
    """Label every combination by its Mondrian part; parts with the same labels are one class."""
    pieces = parts.pieces
    by_attribute = [
        line.label_parts(line.places(pieces.codes[:, axis]), parts.part_of, parts.count)
        for axis, line in enumerate(lines)
    ]
    numbers = np.column_stack([np.unique(_sortable(labels), return_inverse=True)[1] for labels, _ in by_attribute])
    class_of_part = number_classes(numbers)
    class_of, first = class_of_part[parts.part_of], np.unique(class_of_part, return_index=True)[1]
    class_labels = {name: labels[first] for name, (labels, _) in zip(pieces.names, by_attribute, strict=False)}
    return RecodedTable(
        pieces=pieces,
        class_of=class_of,
        label_sizes=np.column_stack([sizes[parts.part_of] for _, sizes in by_attribute]),
        relabelling=Relabelling(labels={}, overrides=_override_all_combinations(pieces, class_of, class_labels)),
        mapping={"recoding": "mondrian", "attributes": {name: {"ranges": True} for name in class_labels}},
    )


def _sortable(labels: Labels) -> NDArray[np.str_]:
    """Texts that differ where labels do; None is no text."""
    return np.array(["-" if label is None else "+" + label for label in labels.tolist()], dtype=np.str_)


def _override_all_combinations(pieces: Pieces, class_of: Codes, labels: Mapping[str, Labels]) -> Overrides:
    """Give all pieces the labels of their class.

    Where quasi-identifiers do not decide the class, combinations of all attributes do, and rows of one combination are
    dealt out among its classes.
    """
    with_class = number_classes(np.column_stack([pieces.codes[:, : pieces.quasi], class_of]))
    if int(with_class.max()) == int(number_classes(pieces.codes[:, : pieces.quasi]).max()):
        return override_combinations(pieces, np.ones(len(class_of), dtype=bool), class_of, labels)
    ids = number_classes(np.column_stack([pieces.codes, class_of]))
    combinations, first = np.unique(ids, return_index=True)
    sizes = np.bincount(ids, weights=pieces.weights, minlength=len(combinations)).astype(np.int64)
    return Overrides(names=pieces.names, codes=pieces.codes[first], groups=class_of[first], sizes=sizes, labels=labels)


def check_promise(recoded: RecodedTable, check_classes: ClassChecker, max_suppressed_rows: int) -> None:
    """Refuse a recoding that does not keep the promise: the last check before anything leaves."""
    is_published = recoded.class_of != SUPPRESSED
    class_of = recoded.class_of[is_published]
    satisfied = check_classes(recoded.pieces.take(is_published), class_of, int(class_of.max(initial=-1)) + 1)
    if not satisfied.all() or recoded.suppressed_rows > max_suppressed_rows:
        raise Infeasible(
            "the recoded table would not keep the promise; nothing is published. This is an error in Sudare,"
            " please report it"
        )


def make_mapping_writer(mapping: Mapping[str, Any]) -> Callable[[Path], object]:
    """Make the writer of mapping.json."""
    content = json.dumps(mapping, ensure_ascii=False, indent=2) + "\n"
    return lambda path: Path(path).write_text(content, encoding="utf-8")


def name_levels(names: tuple[str, ...], node: Node) -> dict[str, int]:
    """Name the levels of a node.

    >>> name_levels(("age", "sex"), (2, 0))
    {'age': 2, 'sex': 0}
    """
    return dict(zip(names, node, strict=True))
