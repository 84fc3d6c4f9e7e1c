"""A stored view, held against its schema: the labels of all values, the blocks, and the tables made of the model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sudare.methods.recheck import are_equal
from sudare.methods.view.blocks import BlockView
from sudare.methods.view.published import frames_of, leaf_columns, numbers, tell_pairs, value_columns, view_of
from sudare.methods.view.tables import TableView
from sudare.releases import Certificate, Frame, Release
from sudare.releases.claims import CheckedClaim
from sudare.releases.columns import FrameColumn, read_labels, read_numbers
from sudare.text import text

MEASURES = ("floor_variance",)
PAIR_MEASURES = {"tau_squared", "pair_variance"}  # how far pairs may be off: earlier releases, and later ones
LATER_MEASURES = (  # that only some releases have, by their version
    *PAIR_MEASURES,
    "model_factor",
    "scale_one",
    "scale_held",
    "scale_other",
    "scale_sums",
)
PAIRS = ("pairs", "independent_pairs", "measured_pairs")
SAME_VARIANCE = 1e-6  # relative: a variance is a difference of large numbers


def recheck_view(certificate: Certificate, directory: Path) -> list[CheckedClaim]:
    """Compare what is stored with what schema and model say."""
    release = Release.read(directory, certificate)
    view = view_of(release)
    if isinstance(view, BlockView):
        return [_recheck_values(release.frames, view), _recheck_blocks(view), _recheck_measures(certificate, ())]
    return [_recheck_values(release.frames, view), _recheck_sums(release.frames, view),
            _recheck_measures(certificate, MEASURES), *_recheck_pairs(certificate, view)]  # fmt: skip


def _recheck_values(frames: Mapping[str, Frame], view: TableView | BlockView) -> CheckedClaim:
    """Compare name, code, label and edges of every value: a view counts codes, and the schema says what they mean."""
    columns, expected = frames["values"].columns, frames_of(view)["values"].columns
    attributes = view.schema.attributes
    names, codes, labels = (
        value_columns(attributes) if isinstance(view, BlockView) else leaf_columns(attributes, view.axes)
    )
    passed = (
        _list(columns["attribute"]) == _list(names)
        and are_equal(read_numbers(columns["code"]), codes)
        and _list(columns["label"]) == _list(labels)
        and all(are_equal(read_numbers(columns[end]), read_numbers(expected[end])) for end in ("low", "high"))
    )
    detail = (
        text("every code has the label that the schema gives it")
        if passed
        else text("labels of values in the tables and in the schema of the certificate differ")
    )
    return CheckedClaim(name=text("labels of the view"), passed=passed, detail=detail)


def _recheck_blocks(view: BlockView) -> CheckedClaim:
    """Check that blocks lie in the domain and are as many cells as it has."""
    sizes = np.array(view.schema.sizes)
    is_inside = bool((view.lows >= 0).all() and (view.highs < sizes).all() and (view.lows <= view.highs).all())
    cells = sum(math.prod(widths) for widths in (view.highs - view.lows + 1).tolist()) if is_inside else 0
    passed = cells == view.schema.size and bool(np.isfinite(view.counts).all() and (view.variances >= 0).all())
    detail = (
        text("the blocks have as many cells as the domain")
        if passed
        else text("the blocks do not fill the domain of the schema")
    )
    return CheckedClaim(name=text("blocks"), passed=passed, detail=detail)


def _recheck_sums(found: Mapping[str, Frame], view: TableView) -> CheckedClaim:
    """Work out the counts of values and pairs again from the cells of the model."""
    expected = frames_of(view)
    passed = set(found) == set(expected)
    for name, column, tolerance in (
        ("values", "count", 0.0),
        ("values", "variance", SAME_VARIANCE),
        ("pairs", "count", 0),
    ):
        if passed and name in expected:
            first, second = numbers(found[name].columns[column]), numbers(expected[name].columns[column])
            passed = are_equal(first, second) if not tolerance else bool(np.allclose(first, second, rtol=tolerance))
    detail = (
        text("the counts of values and of pairs follow from the cells of the model")
        if passed
        else text("a count of a value or of a pair does not follow from the cells of the model")
    )
    return CheckedClaim(name=text("counts of the view"), passed=passed, detail=detail)


def _recheck_measures(certificate: Certificate, names: tuple[str, ...]) -> CheckedClaim:
    """Check that the figures are there that intervals are made of; they come of the fit, which is not repeated."""
    compared = PAIRS if names else ()  # blocks measure no pairs, and must name none
    figures = {name: figure for name, figure in certificate.measures.items() if name not in compared}
    known = {*names, *(LATER_MEASURES if names else ())}
    passed = set(names) <= set(figures) <= known and all(
        math.isfinite(figure) and figure >= 0 for figure in figures.values()
    )
    passed = passed and (not names or len(PAIR_MEASURES & set(figures)) == 1)
    if passed:
        detail = text("the figures that intervals are made of are there") if names else text("there are no figures")
        return CheckedClaim(
            name=text("measures"), passed=True, detail=detail, basis="stated" if names else "recomputed"
        )
    return CheckedClaim(
        name=text("measures"), passed=False, detail=text("figures that intervals are made of are missing or unknown")
    )


def _recheck_pairs(certificate: Certificate, view: TableView) -> list[CheckedClaim]:
    """Hold the pairs that the certificate calls measured against the tables of the view; early releases name none."""
    told = {name: certificate.measures[name] for name in PAIRS if name in certificate.measures}
    if not told:
        return []
    is_held = view.held_pairs.issuperset(view.measured)
    passed = is_held and told == tell_pairs(view)
    detail = (
        text("the tables of the view hold every pair that the certificate calls measured")
        if passed
        else text("the pairs that the certificate calls measured are not those of the tables")
    )
    return [CheckedClaim(name=text("measured pairs"), passed=passed, detail=detail)]


def _list(column: FrameColumn) -> list[object]:
    labelled = read_labels(column)
    listed: list[object] = labelled.labels[labelled.codes].tolist()
    return listed
