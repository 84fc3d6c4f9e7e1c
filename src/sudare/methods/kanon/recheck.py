"""A stored k-anonymous release, recounted: every class of the records has its k rows and keeps its criteria."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sudare.counts import Counts
from sudare.methods.certify import read_entry
from sudare.methods.kanon.criteria import (
    Closeness,
    Criterion,
    DistinctDiversity,
    EntropyDiversity,
    RecursiveDiversity,
)
from sudare.methods.kanon.kanonymity_parameters import needs_persons
from sudare.methods.kanon.microaggregate import is_mean_of
from sudare.methods.kanon.recheck_mapping import MAPPING, read_mapping, recheck_mapping
from sudare.methods.kanon.tuples import Tuples
from sudare.methods.recheck import describe_labels, find_strangers, find_table, read_fraction, recheck_promise
from sudare.privacy.promise import (
    DISTINCT_VALUES,
    ENTROPY,
    EQUAL_DISTANCE,
    HIERARCHICAL_DISTANCE,
    ORDERED_DISTANCE,
    RECURSIVE,
    ClassGuarantee,
    recognise_criterion,
)
from sudare.releases import Certificate, Frame
from sudare.releases.claims import CheckedClaim
from sudare.releases.columns import number_combinations, read_codes, read_labels
from sudare.releases.parquet import read_groups
from sudare.schema import Attribute, Schema, Unit, Values
from sudare.text import Text, text

if TYPE_CHECKING:
    from sudare.methods.base import Method

_DISTANCES = {EQUAL_DISTANCE: "equal", ORDERED_DISTANCE: "ordered", HIERARCHICAL_DISTANCE: "hierarchical"}
CLASS = "class of the release"


def recheck_classes(kind: type[Method], certificate: Certificate, directory: Path) -> list[CheckedClaim]:
    """Recount the classes; compare promise, labels and figures with what the records show."""
    promise = read_class_promise(certificate)
    records = find_table(certificate, directory, "records")
    own = _read_own_groups(certificate, directory)
    labels = describe_labels(_find_strangers(certificate, promise, records, own))
    criteria = promise.criteria if labels.passed else ()  # labels that are unknown cannot be counted
    return [
        recheck_promise(certificate, promise.to_dict()),
        _recheck_parameters(kind, certificate, promise),
        _recount(records, promise),
        labels,
        *recheck_mapping(certificate, promise, records, directory),
        *(_recheck_criterion(records, certificate, promise, criterion) for criterion in criteria),
        _recheck_measures(certificate, promise),
    ]


def read_class_promise(certificate: Certificate) -> ClassGuarantee:
    """Read the promise of the certificate as facts; its words follow from them."""
    facts = certificate.guarantee
    return ClassGuarantee(
        k=facts["k"],
        quasi=tuple(facts["quasi"]),
        unit=Unit.from_dict(facts["unit"]),
        criteria=tuple(recognise_criterion(words) for words in facts["criteria"]),
        max_suppressed=read_fraction(facts["max_suppressed"]),
    )


def _recheck_parameters(kind: type[Method], certificate: Certificate, promise: ClassGuarantee) -> CheckedClaim:
    """Compare the parameters that the promise repeats."""
    written = {"k": str(promise.k), "max_suppressed": str(promise.max_suppressed)}
    written["criteria"] = "; ".join(criterion.render("en") for criterion in promise.criteria)
    found = {name: read_entry(certificate, kind.parameters()[name]) or "" for name in written}
    known = {name for about in kind.parameters().values() for name in (about.name, *about.old_names)}
    odd = sorted(name for name in written if found[name] != written[name]) + sorted({*certificate.parameters} - known)
    if odd:
        detail = text("these parameters are unknown, missing or changed: {names}", names=", ".join(odd))
        return CheckedClaim(name=text("parameters"), passed=False, detail=detail)
    return CheckedClaim(name=text("parameters"), passed=True, detail=text("they are those that the method takes"))


# --- the classes ------------------------------------------------------------------------------------------------------


def _recount(records: Path, promise: ClassGuarantee) -> CheckedClaim:
    """Count the rows of every class; of persons, only rows can be counted."""
    _, sizes = read_groups(records, promise.quasi)
    smallest = int(sizes.min()) if sizes.size else promise.rows  # no rows are no class
    values = {"classes": sizes.size, "smallest": smallest, "rows": promise.rows}
    if smallest < promise.rows:
        detail = text("the smallest of {classes} classes has {smallest} rows, fewer than {rows}", **values)
        return CheckedClaim(name=text("class sizes"), passed=False, detail=detail)
    detail = text("each of {classes} classes has at least {smallest} rows; {rows} are promised", **values)
    return CheckedClaim(name=text("class sizes"), passed=True, detail=detail)


def _recheck_criterion(records: Path, certificate: Certificate, promise: ClassGuarantee, words: Text) -> CheckedClaim:
    """Check a criterion on every class; what takes more than the published rows is only stated."""
    criterion = read_criterion_words(words)
    is_by_person = criterion is not None and needs_persons((criterion,), promise.unit)
    if criterion is None or is_by_person or (isinstance(criterion, Closeness) and promise.max_suppressed):
        detail = text("{criterion}: not worked out, since it takes more than the published rows", criterion=words)
        return CheckedClaim(name=text("criterion"), passed=True, detail=detail, basis="stated")
    schema = Schema.from_dict(certificate.schema)
    (attribute,) = (schema.attribute(name) for name in criterion.sensitive)
    tuples = _count_by_class(records, promise, attribute)
    broken = int((~criterion.satisfied(tuples.classes((0,)))).sum())
    if broken:
        detail = text("{criterion}: {classes} classes break it", criterion=words, classes=broken)
        return CheckedClaim(name=text("criterion"), passed=False, detail=detail)
    detail = text("{criterion}: every class keeps it", criterion=words)
    return CheckedClaim(name=text("criterion"), passed=True, detail=detail)


def read_criterion_words(words: Text) -> Criterion | None:
    """Make the criterion of its words in a certificate; None where it cannot be checked on records.

    >>> read_criterion_words(recognise_criterion("distinct l = 2 of disease"))
    DistinctDiversity(attribute='disease', l=2)
    """
    values: dict[str, Any] = dict(words.values)
    match words.template:
        case template if template == DISTINCT_VALUES:
            return DistinctDiversity(attribute=values["attribute"], l=int(values["l"]))
        case template if template == ENTROPY:
            return EntropyDiversity(attribute=values["attribute"], l=float(values["l"]))
        case template if template == RECURSIVE:
            return RecursiveDiversity(attribute=values["attribute"], c=float(values["c"]), l=int(values["l"]))
        case template if template in _DISTANCES:
            distance: Any = _DISTANCES[template]
            return Closeness(attribute=values["attribute"], t=float(values["t"]), distance=distance)
    return None


def _count_by_class(records: Path, promise: ClassGuarantee, attribute: Attribute) -> Tuples:
    """Count the values of a sensitive attribute in every class of the records."""
    frame, sizes = read_groups(records, [*promise.quasi, attribute.name])
    classes = number_combinations([read_labels(frame.columns[name]) for name in promise.quasi])
    numbers = Values(tuple(map(str, range(int(classes.max(initial=0)) + 1))))
    schema = Schema(name=CLASS, attributes=(Attribute(name=CLASS, domain=numbers), attribute))
    codes = np.column_stack([classes, read_codes(attribute, frame.columns[attribute.name])])
    return Tuples.of(Counts.from_columns(schema, codes, sizes), [CLASS], [attribute.name])


# --- labels and figures -----------------------------------------------------------------------------------------------


def _read_own_groups(certificate: Certificate, directory: Path) -> dict[str, set[str]]:
    """Read the labels of the groups that a request made of values, by attribute, from the mapping of the release.

    An attribute is left out if its groups are not parts of its values that have none in common.
    """
    if MAPPING not in certificate.payload:
        return {}
    schema, own = Schema.from_dict(certificate.schema), dict[str, set[str]]()
    try:
        mapping = read_mapping(directory)
        asked, told = mapping.get("asked", {}), mapping["attributes"]
        for name in set(asked) & set(schema.names):
            groups = asked[name]
            if not isinstance(groups, list):
                continue
            codes = sorted(code for group in groups for code in group)
            labels = [group["label"] for group in told[name]["groups"]]
            if codes == sorted(set(codes) & set(range(schema.attribute(name).size))) and len(labels) == len(groups):
                own[name] = set(labels)
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
    return own


def _find_strangers(
    certificate: Certificate, promise: ClassGuarantee, records: Path, own: Mapping[str, set[str]]
) -> Iterator[str]:
    """Name the columns that hold undeclared values. Where levels differ by value, any group of a hierarchy is declared.

    Groups of a request are those of its mapping. Ranges are read off the table and stand in no schema: for those
    columns, see recheck_mapping.py.
    """
    schema, is_full = Schema.from_dict(certificate.schema), "levels" in certificate.measures
    plain = [attribute for attribute in schema.attributes if is_full or attribute.name not in promise.quasi]
    yield from find_strangers(plain, records)
    parameters = certificate.parameters
    has_ranges = parameters.get("recoding") == "mondrian" or parameters.get("labels") == "ranges"
    if is_full:
        return
    averaged = certificate.parameters.get("microaggregate", "").split(",")
    for name in promise.quasi:
        attribute = schema.attribute(name)
        frame, _ = read_groups(records, [name])
        if name in averaged:
            if not all(is_mean_of(attribute, label) for label in _list(frame, name)):
                yield name
            continue
        if has_ranges:
            continue
        groups = _list_groups(attribute) | own.get(name, set())
        if not all(label in groups or _is_declared(attribute, label) for label in _list(frame, name)):
            yield name


def _list_groups(attribute: Attribute) -> set[str | None]:
    levels = range(1, attribute.height + 1)
    return {label for level in levels for label in attribute.coarsen(level).labels(_all(attribute.coarsen(level)))}


def _all(attribute: Attribute) -> np.ndarray[Any, Any]:
    return np.arange(attribute.size)


def _is_declared(attribute: Attribute, label: str | None) -> bool:
    from sudare.errors import SchemaError

    try:
        attribute.code(label)
    except SchemaError:
        return label == "*"
    return True


def _list(frame: Frame, name: str) -> list[str | None]:
    labels: list[str | None] = read_labels(frame.columns[name]).labels.tolist()
    return labels


def _recheck_measures(certificate: Certificate, promise: ClassGuarantee) -> CheckedClaim:
    """Check that levels and coarseness are told for every quasi-identifier; they take the unpublished hierarchies."""
    figures = certificate.measures
    shares, levels = figures.get("coarseness"), figures.get("levels", dict.fromkeys(promise.quasi, 0))
    passed = (
        set(figures) <= {"coarseness", "levels"}
        and isinstance(shares, dict)
        and isinstance(levels, dict)
        and set(shares) == set(levels) == set(promise.quasi)
        and all(isinstance(share, int | float) and 0 <= share <= 1 for share in shares.values())
        and all(isinstance(level, int) and level >= 0 for level in levels.values())
    )
    if not passed:
        detail = text("levels and coarseness of the quasi-identifiers are missing, unknown or out of range")
        return CheckedClaim(name=text("measures"), passed=False, detail=detail)
    detail = text("levels and coarseness are told for every quasi-identifier")
    return CheckedClaim(name=text("measures"), passed=True, detail=detail, basis="stated")
