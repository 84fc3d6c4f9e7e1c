"""Risk and utility of a generalised table before and after, read off the release and the true table."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from sudare.counts import Counts
from sudare.errors import Infeasible, ParameterError, ReleaseError, SchemaError
from sudare.methods.kanon.criteria import MinimumSize
from sudare.methods.kanon.lattice import Lattice
from sudare.methods.kanon.page import MOST_NODES
from sudare.methods.kanon.problem import Found, Problem, SearchName, search
from sudare.methods.kanon.quality import QUALITIES
from sudare.methods.kanon.recode import HierarchyCut
from sudare.methods.kanon.risk import BeforeAfter, draw_lattice, risk_before, risk_of
from sudare.methods.kanon.tuples import Tuples
from sudare.releases import Coded, Release
from sudare.report.frames import class_numbers, frame_of, texts
from sudare.report.shapes import TruthComparison
from sudare.schema import Attribute, Schema, Unit
from sudare.sources import open as open_source

TOP = "*"
MOST_SECONDS = 10.0  # for the search that a picture shows: its lattice is small
MOST_VALUES = 100_000  # values of an attribute whose labels are read back


def compare_classes(release: Release, data: str, schema_file: Path | None, reading: dict[str, Any]) -> TruthComparison:
    """Hold a generalised table against the one it was made from."""
    if schema_file is None:
        raise ParameterError(
            "a k-anonymous release needs --schema with --truth: its hierarchies are not in the release"
        )
    schema = Schema.read(schema_file)
    quasi = tuple(release.certificate.guarantee["quasi"])
    if any(name not in schema.names for name in quasi):
        raise ReleaseError("the schema file does not declare the attributes of the release as they were published")
    with contextlib.closing(open_source(data, schema, **reading)) as source:
        counts = source.count(quasi)
    columns = {name: texts(column) for name, column in frame_of(release, "records").columns.items() if name in quasi}
    after = risk_of(np.bincount(class_numbers([columns[name] for name in quasi])))
    before = risk_before(counts, quasi)
    if before.rows < after.rows:
        raise ReleaseError("the true table has fewer rows than the release; name the table that it was made from")
    left_out = before.rows - after.rows
    levels = release.certificate.measures.get("levels") or {}
    loss = _losses(schema, columns, levels, left_out)
    told = BeforeAfter(before=before, after=after, left_out=left_out, loss=loss)
    return TruthComparison(classes=told.to_dict(), lattice=_lattice(release, counts, quasi))


def _lattice(release: Release, counts: Counts, quasi: Sequence[str]) -> dict[str, Any] | None:
    """Every node of a small lattice with its k; None where levels were not the way, or nodes are too many."""
    levels = release.certificate.measures.get("levels") or {}
    if set(levels) != set(quasi):
        return None
    lattice = Lattice.of(counts.schema, quasi)
    if lattice.size > MOST_NODES:
        return None
    k, chosen = int(release.certificate.guarantee["k"]), tuple(int(levels[name]) for name in quasi)
    tuples = Tuples.of(counts, quasi)
    found = _searched(release, tuples, lattice)
    if found is None or found.node != chosen:
        return draw_lattice(tuples, lattice, k=k, chosen=chosen).to_dict()
    return draw_lattice(tuples, lattice, k=k, trace=found.trace, chosen=chosen, start=found.start).to_dict()


def _searched(release: Release, tuples: Tuples, lattice: Lattice) -> Found | None:
    """Search once more as the certificate says, for the order of the checks; None if the counts do not do for it."""
    asked, promise = release.certificate.parameters, release.certificate.guarantee
    if (
        asked.get("criteria")
        or asked.get("quality") not in QUALITIES
        or asked.get("search") not in get_args(SearchName)
    ):
        return None
    unit = Unit.from_dict(release.certificate.unit)
    problem = Problem(
        tuples=tuples,
        lattice=lattice,
        criteria=(MinimumSize(k=int(promise["k"]) * (unit.max_rows if unit.kind == "person" else 1)),),
        quality=QUALITIES[asked["quality"]],
        max_suppressed=Fraction(asked.get("max_suppressed", "0")),
        deadline_seconds=MOST_SECONDS,
    )
    with contextlib.suppress(Infeasible):
        return search(problem, cast(SearchName, asked["search"]))
    return None


def _losses(schema: Schema, columns: dict[str, Coded], levels: dict[str, int], left_out: int) -> dict[str, float]:
    """The mean over all rows of (values that a label stands for - 1) / (values - 1); a row left out counts 1."""
    found = {}
    for name, column in columns.items():
        attribute = schema.attribute(name)
        known = _groups(attribute, levels.get(name))
        wide = [_spread(attribute, label, known) for label in column.labels.tolist()]
        if any(one is None for one in wide):
            return {}  # a label that is no group of the schema: rather no figure than a wrong one
        lost = (np.array(wide, dtype=np.float64) - 1)[column.codes] / max(1, attribute.size - 1)
        whole = 0.0 if attribute.size == 1 else float(left_out)
        found[name] = float((lost.sum() + whole) / max(1, len(column.codes) + left_out))
    return found


def spread(attribute: Attribute, label: str | None, *, level: int | None = None) -> int | None:
    """Count the declared values that a published label stands for; None if it is no label of the attribute.

    >>> from sudare.schema import NumberBins
    >>> age = Attribute(name="age", domain=NumberBins.of_width(0, 100, 5))
    >>> spread(age, "[0,15)"), spread(age, "*"), spread(age, "[0,5)|[5,15)"), spread(age, "old")
    (3, 20, 3, None)
    """
    return _spread(attribute, label, _groups(attribute, level))


def _spread(attribute: Attribute, label: str | None, known: dict[str, int]) -> int | None:
    if label is None:
        return 1
    if label in known:
        return known[label]
    if label == TOP:
        return attribute.size
    with contextlib.suppress(SchemaError):
        return len(attribute.codes(label))
    return _joined(attribute, label, known)


def _joined(attribute: Attribute, label: str, known: dict[str, int]) -> int | None:
    """Labels put together: "a..b" of an ordered attribute, "a|b" of any."""
    low, dots, high = label.partition("..")
    if dots:
        with contextlib.suppress(SchemaError):
            return abs(attribute.code(high) - attribute.code(low)) + 1
    if "|" not in label:
        return None
    parts = [_spread(attribute, part, known) for part in label.split("|")]
    return None if any(part is None for part in parts) else sum(part for part in parts if part is not None)


def _groups(attribute: Attribute, level: int | None) -> dict[str, int]:
    """Every label of the hierarchy (of one level, if it is known) with how many values it stands for."""
    if attribute.size > MOST_VALUES:
        return {}
    found: dict[str, int] = {}
    for one in range(attribute.height + 1) if level is None else (level,):
        cut = HierarchyCut.at(attribute, one, np.arange(attribute.size))
        labels = cut.labels(np.arange(attribute.size)).tolist()
        for label, wide in zip(labels, cut.spread(np.arange(attribute.size)).tolist(), strict=True):
            found[label] = max(found.get(label, 0), int(wide))
    return found
