"""Risk and utility of a generalised table before and after, read off the release and the true table."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast, get_args

import numpy as np

from sudare.counts import Countable, Counts
from sudare.errors import Infeasible, ParameterError, ReleaseError, SchemaError
from sudare.methods.kanon.criteria import MinimumSize
from sudare.methods.kanon.lattice import Lattice
from sudare.methods.kanon.problem import Problem, SearchName, SearchResult
from sudare.methods.kanon.quality import QUALITIES
from sudare.methods.kanon.recode import HierarchyCut
from sudare.methods.kanon.risk import BeforeAfter, measure_lattice, measure_risk, measure_table_risk
from sudare.methods.kanon.searches import search
from sudare.methods.kanon.tuples import Tuples
from sudare.releases import Coded, Release
from sudare.releases.columns import find_frame, number_combinations, read_labels
from sudare.report.shapes import TruthComparison
from sudare.schema import Attribute, Schema, Unit

TOP = "*"  # the label of everything
MAX_SHOWN_NODES = 240  # of a lattice that is drawn
MAX_SEARCH_SECONDS = 10.0  # for the search whose order a picture shows: its lattice is small
MAX_READ_VALUES = 100_000  # attributes of more values are not read back label by label


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassComparison(TruthComparison):
    """A generalised table beside the true one: risk and loss (`classes`), and the nodes of a small lattice."""

    classes: Mapping[str, Any]
    lattice: Mapping[str, Any] | None = None
    attributes: tuple[Attribute, ...] = ()  # the quasi-identifiers of the true table, with their hierarchies


def check_true_schema(release: Release, declared: Schema | None) -> Schema:
    """Give the schema to read the true table with: it must be the steward's, which has the hierarchies."""
    if declared is None:
        raise ParameterError(
            "a k-anonymous release needs --schema with --truth: its hierarchies are not in the release"
        )
    if any(name not in declared.names for name in release.certificate.guarantee["quasi"]):
        raise ReleaseError("the schema file does not declare the attributes of the release as they were published")
    return declared


def compare_release(release: Release, truth: Countable) -> ClassComparison:
    """Compare a generalised table with the one it was made from: for the steward alone."""
    quasi = tuple(release.certificate.guarantee["quasi"])
    counts = truth.count(quasi)
    published = find_frame(release, "records").columns
    columns = {name: read_labels(column) for name, column in published.items() if name in quasi}
    after = measure_risk(np.bincount(number_combinations([columns[name] for name in quasi])))
    before = measure_table_risk(counts, quasi)
    if before.rows < after.rows:
        raise ReleaseError("the true table has fewer rows than the release; name the table that it was made from")
    suppressed_rows = before.rows - after.rows
    averaged = release.certificate.parameters.get("microaggregate")  # a mean does not tell what it stands for
    loss = (
        {}
        if averaged
        else _measure_losses(truth.schema, columns, release.certificate.measures.get("levels") or {}, suppressed_rows)
    )
    risk = BeforeAfter(before=before, after=after, suppressed_rows=suppressed_rows, loss=loss)
    attributes = tuple(truth.schema.attribute(name) for name in quasi)
    lattice = _measure_lattice(release, counts, quasi)
    return ClassComparison(classes=risk.to_dict(), lattice=lattice, attributes=attributes)


def _measure_lattice(release: Release, counts: Counts, quasi: Sequence[str]) -> dict[str, Any] | None:
    """Every node of a small lattice with its k; None where no levels were chosen, or nodes are too many."""
    levels = release.certificate.measures.get("levels") or {}
    if set(levels) != set(quasi):
        return None
    lattice = Lattice.of(counts.schema, quasi)
    if lattice.size > MAX_SHOWN_NODES:
        return None
    k, chosen = int(release.certificate.guarantee["k"]), tuple(int(levels[name]) for name in quasi)
    tuples = Tuples.of(counts, quasi)
    result = _search_again(release, tuples, lattice)
    if result is None or result.node != chosen:
        return measure_lattice(tuples, lattice, k=k, chosen=chosen).to_dict()
    return measure_lattice(tuples, lattice, k=k, trace=result.trace, chosen=chosen, start=result.start).to_dict()


def _search_again(release: Release, tuples: Tuples, lattice: Lattice) -> SearchResult | None:
    """Search once more as the certificate says, for the order of the checks; None if the counts do not do for it."""
    parameters, promise = release.certificate.parameters, release.certificate.guarantee
    if (
        parameters.get("criteria")
        or parameters.get("quality") not in QUALITIES
        or parameters.get("search") not in get_args(SearchName)
    ):
        return None
    unit = Unit.from_dict(release.certificate.unit)
    problem = Problem(
        tuples=tuples,
        lattice=lattice,
        criteria=(MinimumSize(k=int(promise["k"]) * (unit.max_rows if unit.kind == "person" else 1)),),
        quality=QUALITIES[parameters["quality"]],
        max_suppressed=Fraction(parameters.get("max_suppressed", "0")),
        deadline_seconds=MAX_SEARCH_SECONDS,
    )
    with contextlib.suppress(Infeasible):
        return search(problem, cast(SearchName, parameters["search"]))
    return None


def _measure_losses(
    schema: Schema, columns: dict[str, Coded], levels: dict[str, int], suppressed_rows: int
) -> dict[str, float]:
    """The mean over all rows of (values that a label stands for - 1) / (values - 1); a row left out counts 1."""
    losses = {}
    for name, column in columns.items():
        attribute = schema.attribute(name)
        groups = _size_groups(attribute, levels.get(name))
        sizes = [_count_values(attribute, label, groups) for label in column.labels.tolist()]
        if any(size is None for size in sizes):
            return {}  # a label that is no group of the schema: rather no figure than a wrong one
        lost = (np.array(sizes, dtype=np.float64) - 1)[column.codes] / max(1, attribute.size - 1)
        whole = 0.0 if attribute.size == 1 else float(suppressed_rows)
        losses[name] = float((lost.sum() + whole) / max(1, len(column.codes) + suppressed_rows))
    return losses


def count_values(attribute: Attribute, label: str | None, *, level: int | None = None) -> int | None:
    """Count the declared values that a published label stands for; None if it is no label of the attribute.

    >>> from sudare.schema import NumberBins
    >>> age = Attribute(name="age", domain=NumberBins.of_width(0, 100, 5))
    >>> [count_values(age, label) for label in ("[0,15)", "*", "[0,5)|[5,15)", "old")]
    [3, 20, 3, None]
    """
    return _count_values(attribute, label, _size_groups(attribute, level))


def _count_values(attribute: Attribute, label: str | None, groups: dict[str, int]) -> int | None:
    if label is None:
        return 1
    if label in groups:
        return groups[label]
    if label == TOP:
        return attribute.size
    with contextlib.suppress(SchemaError):
        return len(attribute.codes(label))
    return _count_joined(attribute, label, groups)


def _count_joined(attribute: Attribute, label: str, groups: dict[str, int]) -> int | None:
    """Count the values of labels put together: "a..b" of an ordered attribute, "a|b" of any."""
    low, dots, high = label.partition("..")
    if dots:
        with contextlib.suppress(SchemaError):
            return abs(attribute.code(high) - attribute.code(low)) + 1
    if "|" not in label:
        return None
    sizes = [_count_values(attribute, part, groups) for part in label.split("|")]
    return None if any(size is None for size in sizes) else sum(size for size in sizes if size is not None)


def _size_groups(attribute: Attribute, level: int | None) -> dict[str, int]:
    """Every label of the hierarchy (of one level, if it is known) with how many values it stands for."""
    if attribute.size > MAX_READ_VALUES:
        return {}
    sizes: dict[str, int] = {}
    for height in range(attribute.height + 1) if level is None else (level,):
        cut = HierarchyCut.at_level(attribute, height, np.arange(attribute.size))
        labels = cut.labels(np.arange(attribute.size)).tolist()
        for label, size in zip(labels, cut.label_sizes(np.arange(attribute.size)).tolist(), strict=True):
            sizes[label] = max(sizes.get(label, 0), int(size))
    return sizes
