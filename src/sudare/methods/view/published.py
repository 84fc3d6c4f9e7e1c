"""A view as small published tables, and back. What each column means: docs/how-to/view-queries.md"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ReleaseError
from sudare.methods.view.blocks import BlockView
from sudare.methods.view.exam import CLASSES
from sudare.methods.view.junction_tree import CliqueTree, Factors
from sudare.methods.view.leaves import LeafAxis, declared_axis, find_ends, make_axis
from sudare.methods.view.tables import TableView
from sudare.methods.view.weighted import WeightedRecords
from sudare.releases import Coded, Frame, Release
from sudare.schema import Attribute, NumberBins, Schema
from sudare.schema.arrays import Codes, Reals

MOST_PAIR_CELLS = 2**20  # beyond, the convenience table of all pairs is left out


def frames_of(view: TableView | BlockView) -> dict[str, Frame]:
    """The tables of a view."""
    return _block_frames(view) if isinstance(view, BlockView) else _table_frames(view)


def view_of(release: Release) -> TableView | BlockView:
    """Read the tables of a view back; ReleaseError where they are not those of a view."""
    if release.certificate.method != "view":
        raise ReleaseError("the release was made by {method}; it is not a view", method=release.certificate.method)
    schema = Schema.from_dict(release.certificate.schema)
    try:
        if "blocks" in release.frames:
            return _blocks(release.frames["blocks"], schema)
        view = _tables(release.frames, schema, release.certificate.measures)
        return replace(view, is_gaussian="rho" in release.certificate.guarantee)
    except (KeyError, TypeError, ValueError, IndexError, StopIteration):
        raise ReleaseError("the tables of the view do not fit its schema; the release is damaged") from None


def tell_pairs(view: TableView) -> dict[str, Any]:
    """Which pairs of attributes were measured, for the certificate, and how many rest on independence."""
    names = view.schema.names
    return {
        "pairs": math.comb(len(names), 2),
        "independent_pairs": view.independent_pairs,
        "measured_pairs": [[names[first], names[second]] for first, second in view.measured],
    }


def _read_pairs(measures: Mapping[str, Any], schema: Schema) -> tuple[tuple[int, int], ...]:
    return tuple((schema.position(first), schema.position(second)) for first, second in measures["measured_pairs"])


def _table_frames(view: TableView) -> dict[str, Frame]:
    frames = {"values": _values(view), "cliques": _cliques(view), "cells": _cells(view)}
    widths = [int(bins.max()) + 1 for bins in view.bins]
    if 0 < sum(a * b for a, b in itertools.combinations(widths, 2)) <= MOST_PAIR_CELLS:
        frames["pairs"] = _pairs(view)
    if view.records is not None:
        frames["records"] = _records(view.records, view.schema)
        if view.records.left:
            frames["left"] = _left(view.records, view.schema)
    return frames


def _left(records: WeightedRecords, schema: Schema) -> Frame:
    """What the measured table of every pair says beyond the records, bin by bin; version by version."""
    names = np.array(schema.names, dtype=object)
    shapes = {ends: table.shape[1:] for ends, table in records.left.items()}
    sizes = [math.prod(shape) for shape in shapes.values()]
    bins = [np.indices(shape).reshape(2, -1) for shape in shapes.values()]
    columns: dict[str, Coded | NDArray[np.generic]] = {
        "first": Coded(np.repeat([first for first, _ in shapes], sizes), names),
        "second": Coded(np.repeat([second for _, second in shapes], sizes), names),
        "first_bin": np.concatenate([rows for rows, _ in bins]),
        "second_bin": np.concatenate([columns for _, columns in bins]),
    }
    for version in range(len(records.changes)):
        parts = [table[version].ravel() for table in records.left.values()]
        columns["change" if version == 0 else f"change_{version}"] = np.concatenate(parts)
    return Frame(columns)


def _read_left(frame: Frame, schema: Schema, widths: Sequence[int], versions: int) -> dict[tuple[int, int], Reals]:
    """Read what is left of every pair, whose rows stand together, bins in order."""
    firsts, seconds = (_read_places(frame.columns[name], schema) for name in ("first", "second"))
    bins = np.stack([numbers(frame.columns[name]) for name in ("first_bin", "second_bin")])
    changes = np.stack(
        [numbers(frame.columns["change" if version == 0 else f"change_{version}"]) for version in range(versions)]
    )
    left, start = dict[tuple[int, int], Reals](), 0
    while start < firsts.size:
        first, second = int(firsts[start]), int(seconds[start])
        shape = widths[first], widths[second]
        stop = start + math.prod(shape)
        is_whole = stop <= firsts.size and first < second and (first, second) not in left
        is_whole = is_whole and np.array_equal(bins[:, start:stop], np.indices(shape).reshape(2, -1))
        if not is_whole or np.any(firsts[start:stop] != first) or np.any(seconds[start:stop] != second):
            raise ReleaseError("the tables of the view do not fit its schema; the release is damaged")
        left[first, second] = changes[:, start:stop].reshape(versions, *shape)
        start = stop
    return left


def _read_places(column: Coded | NDArray[np.generic], schema: Schema) -> NDArray[np.int64]:
    names = column.decode() if isinstance(column, Coded) else column
    known, codes = np.unique(np.asarray(names, dtype=str), return_inverse=True)
    return np.array([schema.position(name) for name in known.tolist()], dtype=np.int64)[codes]


def _records(records: WeightedRecords, schema: Schema) -> Frame:
    """Records as coarse bins, their weights, and how much raking changed these; version by version."""
    columns: dict[str, NDArray[np.generic]] = {
        f"bin_{name}": np.ascontiguousarray(records.bins[:, place]) for place, name in enumerate(schema.names)
    }
    columns["weight"] = records.weights
    for version, change in enumerate(records.changes):
        columns["change" if version == 0 else f"change_{version}"] = change
    return Frame(columns)


def _read_records(
    frames: Mapping[str, Frame], schema: Schema, widths: Sequence[int], versions: int
) -> WeightedRecords | None:
    if "records" not in frames:
        return None
    columns = frames["records"].columns
    bins = np.column_stack([numbers(columns[f"bin_{name}"]) for name in schema.names]).astype(np.int64)
    if np.any(bins < 0) or np.any(bins >= np.array(widths)):
        raise ReleaseError("the tables of the view do not fit its schema; the release is damaged")
    changes = [numbers(columns["change" if version == 0 else f"change_{version}"]) for version in range(versions)]
    return WeightedRecords(
        bins=bins,
        weights=numbers(columns["weight"]),
        changes=np.stack(changes),
        widths=tuple(widths),
        left=_read_left(frames["left"], schema, widths, versions) if "left" in frames else {},
    )


def _values(view: TableView) -> Frame:
    attributes = view.schema.attributes
    names, codes, labels = leaf_columns(attributes, view.axes)
    totals = [view.factors.of([place]) for place in range(len(attributes))]
    counts = [
        np.take_along_axis(total, np.broadcast_to(bins, share.shape), axis=1) * share
        for total, bins, share in zip(totals, view.bins, view.shares, strict=True)
    ]
    whole = np.concatenate(counts, axis=1)
    columns: dict[str, Coded | NDArray[np.generic]] = {
        "attribute": names,
        "code": codes,
        "label": labels,
        **_leaf_edges(attributes, view.axes),
        "bin": np.concatenate(view.bins),
        "count": whole[0],
        "variance": ((whole[1:] - whole[0]) ** 2).mean(axis=0),
        "hidden_variance": np.concatenate(view.faint or tuple(np.zeros(axis.size) for axis in view.axes)),
        "group": np.concatenate(view.groups or tuple(np.full(axis.size, -1) for axis in view.axes)),
        "share": np.concatenate([share[0] for share in view.shares]),
    }
    for version in range(1, view.factors.versions):
        columns[f"share_{version}"] = np.concatenate([share[version] for share in view.shares])
    return Frame(columns)


def leaf_columns(attributes: Sequence[Attribute], axes: Sequence[LeafAxis]) -> tuple[Coded, Codes, Coded]:
    """The name, declared code and label of every leaf of every attribute."""
    names, _, labels = value_columns(attributes)
    first = np.concatenate([[0], np.cumsum([attribute.size for attribute in attributes])])[:-1]
    places = np.concatenate([axis.codes + start for axis, start in zip(axes, first, strict=True)])
    return (
        Coded(names.codes[places], names.labels),
        np.concatenate([axis.codes for axis in axes]),
        Coded(labels.codes[places], labels.labels),
    )


def _leaf_edges(attributes: Sequence[Attribute], axes: Sequence[LeafAxis]) -> dict[str, NDArray[np.generic]]:
    """Where the leaves of numbers begin and end, and those of days (counted from 0001-01-01) that cut a declared bin.

    The last leaf of numbers ends at the last declared edge, which belongs to it.
    """
    parts: dict[str, list[Reals]] = {"low": [], "high": []}
    for attribute, axis in zip(attributes, axes, strict=True):
        domain, lows, highs = attribute.domain, axis.starts, axis.stops
        if isinstance(domain, NumberBins):
            highs = np.append(highs[:-1], float(domain.edges[-1]))
        elif axis.size == attribute.size:
            lows, highs = lows[:0], highs[:0]
        rest = np.full(axis.size - lows.size, math.nan)
        parts["low"].append(np.concatenate([lows, rest]))
        parts["high"].append(np.concatenate([highs, rest]))
    return {name: np.ma.masked_invalid(np.concatenate(values)) for name, values in parts.items()}


def value_columns(attributes: Sequence[Attribute]) -> tuple[Coded, Codes, Coded]:
    """The name, code and label of every value of every attribute."""
    sizes = [attribute.size for attribute in attributes]
    names = np.array([attribute.name for attribute in attributes], dtype=object)
    codes = np.concatenate([np.arange(size, dtype=np.int64) for size in sizes])
    labels = np.concatenate([attribute.labels(np.arange(attribute.size)) for attribute in attributes])
    return (
        Coded(np.repeat(np.arange(len(sizes), dtype=np.int64), sizes), names),
        codes,
        Coded(np.arange(codes.size, dtype=np.int64), labels),
    )


def _edges(attributes: Sequence[Attribute]) -> dict[str, NDArray[np.generic]]:
    """Where the bins of numbers begin and end; nothing for other values."""
    ends: dict[str, list[float]] = {"low": [], "high": []}
    for attribute in attributes:
        domain = attribute.domain
        edges = [float(edge) for edge in domain.edges] if isinstance(domain, NumberBins) else []
        rest = [math.nan] * (attribute.size - max(0, len(edges) - 1))
        ends["low"] += [*edges[:-1], *rest]
        ends["high"] += [*edges[1:], *rest]
    return {name: np.ma.masked_invalid(np.array(values)) for name, values in ends.items()}


def _cliques(view: TableView) -> Frame:
    """One row for every attribute of every clique; `parent` is the clique it is linked to, -1 for none."""
    tree = view.factors.tree
    parents = _parents(tree)
    rows = [
        (place, parents[place], position, attribute)
        for place, clique in enumerate(tree.cliques)
        for position, attribute in enumerate(clique)
    ]
    table = np.array(rows, dtype=np.int64)
    names = np.array(view.schema.names, dtype=object)
    return Frame(
        {"clique": table[:, 0], "parent": table[:, 1], "position": table[:, 2], "attribute": Coded(table[:, 3], names)}
    )


def _parents(tree: CliqueTree) -> list[int]:
    near, parents = tree.neighbours(), [-2] * len(tree.cliques)
    for root in range(len(parents)):
        if parents[root] != -2:
            continue
        parents[root], queue = -1, [root]
        for place in queue:
            for other in near[place]:
                if parents[other] == -2:
                    parents[other] = place
                    queue.append(other)
    return parents


def _cells(view: TableView) -> Frame:
    tables = [table.reshape(table.shape[0], -1) for table in view.factors.tables]
    columns: dict[str, NDArray[np.generic]] = {
        "clique": np.repeat(np.arange(len(tables), dtype=np.int64), [table.shape[1] for table in tables]),
        "cell": np.concatenate([np.arange(table.shape[1], dtype=np.int64) for table in tables]),
        "count": np.concatenate([table[0] for table in tables]),
    }
    for version in range(1, view.factors.versions):
        columns[f"count_{version}"] = np.concatenate([table[version] for table in tables])
    return Frame(columns)


def _pairs(view: TableView) -> Frame:
    """Every two attributes over their coarse bins, ready to be joined with the values."""
    factors, names = view.factors.only(0), np.array(view.schema.names, dtype=object)
    records = None if view.records is None else view.records.only(0)
    parts = []
    for first, second in itertools.combinations(range(len(names)), 2):
        table = factors.joint([first, second])[0]
        if records is not None:
            table = np.maximum(table + records.table([first, second])[0], 0.0)
        rows, columns = np.indices(table.shape)
        size = table.size
        parts.append((np.full(size, first), np.full(size, second), rows.ravel(), columns.ravel(), table.ravel()))
    whole = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return Frame(
        {
            "first": Coded(whole[0].astype(np.int64), names),
            "second": Coded(whole[1].astype(np.int64), names),
            "first_bin": whole[2].astype(np.int64),
            "second_bin": whole[3].astype(np.int64),
            "count": whole[4],
        }
    )


def _tables(frames: Mapping[str, Frame], schema: Schema, measures: Mapping[str, Any]) -> TableView:
    values = frames["values"].columns
    axes = _read_axes(frames["values"], schema)
    cuts = np.cumsum([axis.size for axis in axes])[:-1]
    versions = 1 + sum(name.startswith("share_") for name in values)
    shares = np.stack([numbers(values["share" if v == 0 else f"share_{v}"]) for v in range(versions)])
    if shares.shape[1] != sum(axis.size for axis in axes):
        raise ReleaseError("the tables of the view do not fit its schema; the release is damaged")
    bins = tuple(np.split(numbers(values["bin"]).astype(np.int64), cuts))
    widths = [int(coarse.max()) + 1 for coarse in bins]
    tree = _tree(frames["cliques"], schema)
    cells = frames["cells"].columns
    counts = np.stack([numbers(cells["count" if v == 0 else f"count_{v}"]) for v in range(versions)])
    shapes = [[widths[attribute] for attribute in clique] for clique in tree.cliques]
    pieces = np.split(counts, np.cumsum([math.prod(shape) for shape in shapes])[:-1], axis=1)
    tables = tuple(piece.reshape([versions, *shape]) for piece, shape in zip(pieces, shapes, strict=True))
    return TableView(
        schema=schema,
        axes=axes,
        factors=Factors(tree, tables),
        bins=bins,
        shares=tuple(np.split(shares, cuts, axis=1)),
        tau_squared=_read_tau_squared(measures),
        factor=float(measures.get("model_factor", 1.0)),
        scales=tuple(float(measures.get(f"scale_{name}", 1.0)) for name in CLASSES),
        faint=tuple(np.split(numbers(values["hidden_variance"]), cuts)) if "hidden_variance" in values else (),
        groups=tuple(np.split(numbers(values["group"]).astype(np.int64), cuts)) if "group" in values else (),
        floor=float(measures["floor_variance"]),
        records=_read_records(frames, schema, widths, versions),
        measured=_read_pairs(measures, schema) if "measured_pairs" in measures else (),
    )


EARLIER_TAU = 4.0  # earlier releases tell tau^2 in units of p(1 - p), for a share p of the records that both hold


def _read_tau_squared(measures: Mapping[str, Any]) -> float:
    """How far pairs that were not measured may be off; see `uncertainty.model_error`."""
    if "pair_variance" in measures:
        return float(measures["pair_variance"])
    return EARLIER_TAU * float(measures["tau_squared"])


def _read_axes(frame: Frame, schema: Schema) -> tuple[LeafAxis, ...]:
    """Read the leaves back: rows of one attribute stand together, in the order of their declared codes."""
    column = frame.columns["attribute"]
    names = column.decode() if isinstance(column, Coded) else column
    codes = numbers(frame.columns["code"]).astype(np.int64)
    lows = read_masked(frame.columns["low"])
    axes, start = [], 0
    for attribute in schema.attributes:
        stop = start + int(np.count_nonzero(names == attribute.name))
        own = codes[start:stop]
        if set(own.tolist()) != set(range(attribute.size)) or np.any(np.diff(own) < 0):
            raise ReleaseError("the tables of the view do not fit its schema; the release is damaged")
        if own.size == attribute.size:
            axes.append(declared_axis(attribute))
        else:
            known = lows[start:stop][~np.isnan(lows[start:stop])].tolist()
            ends = [*(Fraction(repr(end)) for end in known), *(find_ends(attribute) or ())[-1:]]
            axes.append(make_axis(attribute, own, ends))
        start = stop
    return tuple(axes)


def read_masked(column: Coded | NDArray[np.generic]) -> Reals:
    """A column of numbers in which some are missing: those are NaN."""
    if isinstance(column, Coded):
        return np.array([math.nan if one in (None, "") else float(one) for one in column.decode()])
    filled: Reals = np.ma.filled(np.ma.asarray(column, dtype=np.float64), math.nan)
    return filled


def _tree(frame: Frame, schema: Schema) -> CliqueTree:
    column = frame.columns["attribute"]
    names = column.decode() if isinstance(column, Coded) else column
    cliques: dict[int, list[int]] = {}
    links = []
    rows = zip(numbers(frame.columns["clique"]), numbers(frame.columns["parent"]), names, strict=True)
    for clique, parent, name in rows:
        if int(clique) not in cliques and parent >= 0:
            links.append((int(parent), int(clique)))
        cliques.setdefault(int(clique), []).append(schema.position(str(name)))
    return CliqueTree(tuple(tuple(cliques[place]) for place in range(len(cliques))), tuple(links))


def _block_frames(view: BlockView) -> dict[str, Frame]:
    columns: dict[str, NDArray[np.generic]] = {}
    for place, name in enumerate(view.schema.names):
        columns[f"lo_{name}"] = view.lows[:, place]
        columns[f"hi_{name}"] = view.highs[:, place]
    names, codes, labels = value_columns(view.schema.attributes)
    values = Frame({"attribute": names, "code": codes, "label": labels, **_edges(view.schema.attributes)})
    return {"blocks": Frame({**columns, "count": view.counts, "variance": view.variances}), "values": values}


def _blocks(frame: Frame, schema: Schema) -> BlockView:
    def stacked(end: str) -> Codes:
        return np.column_stack([numbers(frame.columns[f"{end}_{name}"]) for name in schema.names]).astype(np.int64)

    return BlockView(
        schema=schema,
        lows=stacked("lo"),
        highs=stacked("hi"),
        counts=numbers(frame.columns["count"]),
        variances=numbers(frame.columns["variance"]),
    )


def numbers(column: Coded | NDArray[np.generic]) -> Reals:
    """A column as numbers, be it from a file that keeps them or from text."""
    return column.decode().astype(np.float64) if isinstance(column, Coded) else np.asarray(column, dtype=np.float64)
