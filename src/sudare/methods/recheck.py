"""What can be worked out again from a stored release: the plan from the certificate, the labels from the files.

A method rechecks its own releases (`Method.recheck`); here stands what all of them share, and what a method gets that
brings nothing of its own. Nothing of a certificate is believed here: it is read as bad input is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sudare.errors import ReleaseError, SchemaError, SudareError
from sudare.forms.kinds import Flag, Kind, Seconds, WholeNumber
from sudare.methods.certify import read_entry, to_plain
from sudare.privacy import DifferentialPrivacy
from sudare.releases import Certificate, Coded
from sudare.releases.claims import CheckedClaim
from sudare.releases.columns import read_labels
from sudare.releases.consistency import is_of_this_version
from sudare.releases.parquet import read_columns, read_groups
from sudare.schema import Attribute, DateBins, NumberBins, Schema
from sudare.text import Text, text

if TYPE_CHECKING:
    from sudare.methods.base import Method, Plan

SPEND_ENTRIES = ("seq", "time", "purpose", "cost", "head", "charged_in")
MOST_DIGITS = 4000  # of an exact number in a certificate
SAME = 1e-9  # relative: figures computed on another machine may differ in their last digits
TABLE_ENDINGS = (".parquet", ".csv")


# --- the plan ---------------------------------------------------------------------------------------------------------


def rebuild(kind: type[Method], certificate: Certificate) -> tuple[Method, Plan]:
    """Make the method and its plan again from what the certificate says.

    Error: SudareError where they cannot be made of it.
    """
    method = kind(**read_parameters(kind, certificate))
    neighbours = certificate.neighbours or None
    return method, method.plan(Schema.from_dict(certificate.schema), neighbours=neighbours)  # type: ignore[arg-type]


def read_parameters(kind: type[Method], certificate: Certificate) -> dict[str, Any]:
    """Read the parameters of a certificate, which holds them as texts, by their names of this version."""
    known = [(about, read_entry(certificate, about)) for about in kind.parameters().values() if about.is_certified]
    return {about.name: _read_text(about.value, line) for about, line in known if line is not None}


def _read_text(kind: Kind | None, line: str) -> Any:
    match kind:
        case WholeNumber():
            return int(line)
        case Flag():
            return line == "true"
        case Seconds():
            return float(line)
        case _:
            return line


def recheck_plan(kind: type[Method], certificate: Certificate) -> list[CheckedClaim]:
    """Work out promise, spends and expected error again from the parameters and the schema."""
    method, plan = rebuild(kind, certificate)
    return [
        recheck_promise(certificate, plan.promise.to_dict()),
        _recheck_parameters(method, plan, certificate),
        _recheck_spends(plan, certificate),
        recheck_figures(certificate, text("expected error"), certificate.expected_error, plan.expected_error),
    ]


def recheck_promise(certificate: Certificate, expected: Mapping[str, Any]) -> CheckedClaim:
    """Compare the promise with the one that follows from parameters and facts, its words included."""
    name, found, facts = text("promise"), dict(certificate.guarantee), to_plain(expected)
    words, expected_words = found.pop("statement", None), facts.pop("statement", None)
    related = (certificate.neighbours, certificate.unit)
    is_same = found == facts and related == (found.get("neighbours", ""), found.get("unit", {}))
    if not is_same:
        return CheckedClaim(name=name, passed=False, detail=text("the promise does not follow from the parameters"))
    if words == expected_words:
        return CheckedClaim(
            name=name, passed=True, detail=text("{statement}", statement=certificate.statement), basis="recomputed"
        )
    if is_of_this_version(certificate):
        return CheckedClaim(name=name, passed=False, detail=text("the words of the promise are not what it promises"))
    return CheckedClaim(
        name=name,
        passed=True,
        detail=text("it follows from the parameters; its words are those of another version and were not compared"),
    )


def _recheck_parameters(method: Method, plan: Plan, certificate: Certificate) -> CheckedClaim:
    """Compare the parameters with those that the method writes; old names are as good as new ones."""
    new = {old: about.name for about in method.parameters().values() for old in about.old_names}
    found = {new.get(name, name): value for name, value in certificate.parameters.items()}
    odd = sorted(name for name, value in method.entries(plan).items() if found.pop(name, None) != value) + sorted(found)
    if odd and not is_of_this_version(certificate):
        detail = text("written by another version, which tells {names} otherwise", names=", ".join(odd))
        return CheckedClaim(name=text("parameters"), passed=True, detail=detail, basis="stated")
    if odd:
        detail = text("these parameters are unknown, missing or changed: {names}", names=", ".join(odd))
        return CheckedClaim(name=text("parameters"), passed=False, detail=detail)
    return CheckedClaim(name=text("parameters"), passed=True, detail=text("they are those that the method takes"))


def _recheck_spends(plan: Plan, certificate: Certificate) -> CheckedClaim:
    """Check that what was spent for every purpose is what the plan spends, and adds up to the promise."""
    currency = plan.promise.currency.name if isinstance(plan.promise, DifferentialPrivacy) else ""
    unknown = {key for spend in certificate.spends for key in spend} - {*SPEND_ENTRIES, currency}
    amounts = [(str(spend["purpose"]), read_fraction(spend[currency])) for spend in certificate.spends]
    spent, total = dict(amounts), sum((amount for _, amount in amounts), Fraction())
    is_whole = not unknown and total == sum(plan.parts.values(), Fraction()) and len(spent) == len(certificate.spends)
    passed = is_whole and (spent == dict(plan.parts) or not is_of_this_version(certificate))
    if not passed:
        return CheckedClaim(
            name=text("spends"), passed=False, detail=text("the spends are not those that the promise takes")
        )
    return CheckedClaim(
        name=text("spends"), passed=True, detail=text("the spends add up to epsilon {spent}", spent=str(total))
        if "epsilon" in certificate.guarantee
        else text("the spends add up to the promise"),
    )  # fmt: skip


def read_fraction(line: Any) -> Fraction:
    """Read an exact number as certificates hold it; what could take for ever to read is refused as damage.

    >>> read_fraction("1/2")
    Fraction(1, 2)
    """
    if not isinstance(line, str) or len(line) > MOST_DIGITS or not re.fullmatch(r"[0-9]+(/[0-9]+)?", line):
        raise ValueError
    return Fraction(line)


def recheck_figures(
    certificate: Certificate, name: Text, found: Mapping[str, Any], expected: Mapping[str, Any]
) -> CheckedClaim:
    """Compare figures with those computed now; another version may have computed them otherwise, and is told so."""
    odd = sorted(key for key in {*found, *expected} if not is_close(found.get(key), to_plain(expected.get(key))))
    if not odd:
        detail = text("the figures are those that are computed now") if found else text("there are no figures")
        return CheckedClaim(name=name, passed=True, detail=detail)
    names = ", ".join(odd)
    if is_of_this_version(certificate):
        detail = text("these figures are not those that are computed now: {names}", names=names)
        return CheckedClaim(name=name, passed=False, detail=detail)
    detail = text("another version computed these figures otherwise: {names}", names=names)
    return CheckedClaim(name=name, passed=True, detail=detail, basis="stated")


def is_close(found: Any, expected: Any) -> bool:
    """Tell whether two values of JSON are the same, numbers up to their last digits.

    >>> is_close({"a": [0.1 + 0.2, 1]}, {"a": [0.3, 1]}), is_close({"a": 1}, {}), is_close(True, 1)
    (True, False, False)
    """
    if isinstance(found, bool) or isinstance(expected, bool):
        return found is expected
    if isinstance(found, int | float) and isinstance(expected, int | float):
        return found == expected or math.isclose(found, expected, rel_tol=SAME)
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(is_close(found[key], expected[key]) for key in found)
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(is_close, found, expected))
    return bool(found == expected)


# --- labels -----------------------------------------------------------------------------------------------------------


def find_table(certificate: Certificate, directory: Path, name: str) -> Path:
    """Find a published table by its name without ending.

    Error: ReleaseError if the certificate names none.
    """
    for ending in TABLE_ENDINGS:
        if name + ending in certificate.payload:
            return directory / (name + ending)
    raise ReleaseError("the release has no table {frame}; it is damaged, get it again", frame=name)


def recheck_labels(certificate: Certificate, directory: Path) -> list[CheckedClaim]:
    """Check that every value in a column of an attribute is one that the schema declares, in every table."""
    schema = Schema.from_dict(certificate.schema)
    tables = [directory / name for name in certificate.payload if Path(name).suffix in TABLE_ENDINGS]
    holding = [table for table in tables if set(schema.names) <= set(read_columns(table))]
    if not holding:
        return []
    odd = list(dict.fromkeys(name for table in holding for name in find_strangers(schema.attributes, table)))
    return [describe_labels(odd)]


def describe_labels(odd: Iterable[str]) -> CheckedClaim:
    """Say that all labels are declared, or which columns hold others."""
    if names := ", ".join(odd):
        detail = text("columns hold values that the schema of the certificate does not declare: {names}", names=names)
        return CheckedClaim(name=text("labels"), passed=False, detail=detail)
    return CheckedClaim(
        name=text("labels"), passed=True, detail=text("every published value is one that the schema declares")
    )


def find_strangers(attributes: Iterable[Attribute], table: Path) -> Iterator[str]:
    """Name the attributes whose column holds a value that they do not declare."""
    for attribute in attributes:
        frame, _ = read_groups(table, [attribute.name])
        column = frame.columns[attribute.name]
        is_drawn = isinstance(attribute.domain, NumberBins | DateBins) and not isinstance(column, Coded)
        labelled = read_labels(column)
        labels = labelled.labels[
            np.unique(labelled.codes)
        ].tolist()  # those in use: behind a missing value anything stands
        if not (_are_within(attribute, labels) if is_drawn else all(_is_label(attribute, label) for label in labels)):
            yield attribute.name


def _is_label(attribute: Attribute, label: str | None) -> bool:
    """Tell whether a label is declared; of a CSV, a number or day drawn within its bin is one too."""
    try:
        attribute.code(label)
    except SchemaError:
        is_binned = isinstance(attribute.domain, NumberBins | DateBins)
        return label is not None and is_binned and _are_within(attribute, [label])
    return True


def _are_within(attribute: Attribute, values: Iterable[str | None]) -> bool:
    """Tell whether values that were drawn within bins lie in one; nothing stands for missing and other."""
    plain = Attribute(name=attribute.name, domain=attribute.domain)  # without the branches that would take them
    for value in values:
        if value is None:
            if not attribute.branches:
                return False
            continue
        try:
            plain.encode(value[:10] if isinstance(attribute.domain, DateBins) else value)
        except SudareError:
            return False
    return True


def are_equal(first: Any, second: Any) -> bool:
    """Compare two columns of numbers, up to their last digits; empty ones are equal to each other."""
    left, right = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    return left.shape == right.shape and bool(np.allclose(left, right, rtol=SAME, atol=SAME, equal_nan=True))
