"""mapping.json of a stored release, checked against its records: every label explained, by declared values alone.

Which values a named group has, only the steward's hierarchy can tell; that the file is the one that was published, its
digest in the certificate. Here stands what follows from records, schema and certificate: no label is left unexplained
and none is made up, values are declared, intervals are what they say, and the groups are as coarse as is stated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sudare.errors import SchemaError
from sudare.methods.kanon.explain import STANDS_FOR, write_values
from sudare.methods.kanon.recode import MAX_KNOWN_CODES
from sudare.privacy.promise import ClassGuarantee
from sudare.releases import Certificate
from sudare.releases.claims import CheckedClaim
from sudare.releases.columns import read_labels
from sudare.releases.consistency import is_of_this_version
from sudare.releases.parquet import read_groups
from sudare.schema import Attribute, Schema
from sudare.schema.domain import find_bins
from sudare.text import text

MAPPING = "mapping.json"
ROUNDED = 6e-5  # shares in a certificate have four digits


def read_mapping(directory: Path) -> Mapping[str, Any]:
    """Read mapping.json as bad input is read; what is no mapping is an empty one."""
    try:
        mapping = json.loads((directory / MAPPING).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return mapping if isinstance(mapping, dict) else {}


def recheck_mapping(
    certificate: Certificate, promise: ClassGuarantee, records: Path, directory: Path
) -> list[CheckedClaim]:
    """Check what the mapping says of the published labels; nothing is claimed of releases without a mapping."""
    if MAPPING not in certificate.payload:
        return []
    name, explained = text("mapping"), read_mapping(directory).get(STANDS_FOR, {})
    if not explained and not is_of_this_version(certificate):
        detail = text("written by another version, which does not explain labels")
        return [CheckedClaim(name=name, passed=True, detail=detail, basis="stated")]
    told = set(explained) if isinstance(explained, dict) else set()
    odd = [column for column in promise.quasi if not _is_explained(certificate, records, column, explained)]
    if odd or told != set(promise.quasi):
        names = ", ".join(odd or sorted(told - set(promise.quasi)))
        detail = text("mapping.json does not explain the published labels of {names}", names=names)
        return [CheckedClaim(name=name, passed=False, detail=detail)]
    return [CheckedClaim(name=name, passed=True, detail=text("mapping.json explains every published label"))]


def _is_explained(certificate: Certificate, records: Path, name: str, explained: Any) -> bool:
    """Tell whether the labels of a column are explained; whatever is malformed explains nothing."""
    try:
        frame, sizes = read_groups(records, [name])
        labelled = read_labels(frame.columns[name])
        rows = dict[str | None, int]()
        for label, size in zip(labelled.decode().tolist(), sizes.tolist(), strict=True):
            rows[label] = rows.get(label, 0) + int(size)
        labels = ExplainedLabels(
            attribute=Schema.from_dict(certificate.schema).attribute(name),
            is_coarsened="levels" in certificate.measures,
            entries=explained[name],
            rows=rows,
        )
        return labels.are_all_explained(float(certificate.measures["coarseness"][name]))
    except (SchemaError, KeyError, TypeError, ValueError, AttributeError):
        return False


@dataclass(frozen=True, kw_only=True, eq=False)
class ExplainedLabels:
    """What mapping.json says of one attribute, beside the rows of every published label.

    If `is_coarsened`, the schema of the certificate has the groups and not their values, which are then only counted.
    """

    attribute: Attribute
    is_coarsened: bool
    entries: Mapping[str, Any]
    rows: Mapping[str | None, int]

    def are_all_explained(self, coarseness: float) -> bool:
        """Tell whether every published label is explained, nothing else is, and the groups are as coarse as stated."""
        declared = self.entries["declared"]
        if not isinstance(declared, int) or (not self.is_coarsened and declared != self.attribute.size):
            return False
        if "means_within" in self.entries:
            return bool(self.entries["means_within"] == write_values(self.attribute, range(self.attribute.size)))
        sizes: dict[str | None, list[int]] = {}
        for label, size in self._count_values(declared):
            sizes.setdefault(label, []).append(size)
        if not set(sizes) <= set(self.rows):
            return False
        for label in set(self.rows) - set(sizes):
            self.attribute.code(label)  # not listed, so a value: SchemaError if it is none
        return not self._has_shared_values() and self._is_as_coarse(sizes, declared, coarseness)

    def _count_values(self, declared: int) -> Iterator[tuple[str | None, int]]:
        """Count the values of every entry; ValueError or SchemaError where they are not declared ones."""
        for entry in self.entries["labels"]:
            label = entry["label"]
            if entry.get("all") is True:
                yield label, declared
            elif "values" not in entry:
                yield label, int(entry["count"])
            else:
                self._check_interval(label, entry["values"])
                count = int(entry.get("count", len(entry["values"])))
                if not self.is_coarsened and count != self._count_declared(entry["values"]):
                    raise ValueError(label)
                yield label, count

    def _count_declared(self, values: list[str]) -> int:
        """Count declared values, none twice."""
        codes = [code for value in values for code in self.attribute.codes(value)]
        if len(set(codes)) != len(codes):
            raise ValueError(values)
        return len(codes)

    def _check_interval(self, label: str | None, values: list[str]) -> None:
        """Refuse a label that is an interval of numbers or days and not the one that is listed."""
        has_bins, written = find_bins(self.attribute.domain) is not None, str(label)
        if not values or (has_bins and written.startswith("[") and "|" not in written and values != [label]):
            raise ValueError(label)

    def _has_shared_values(self) -> bool:
        """Tell whether two groups of one level have a value in common."""
        values = [value for entry in self.entries["labels"] for value in entry.get("values", [])]
        return self.is_coarsened and len(set(values)) != len(values)

    def _is_as_coarse(self, sizes: Mapping[str | None, list[int]], declared: int, coarseness: float) -> bool:
        """Compare the mean size of groups with the certificate; a name of two groups leaves it between bounds."""
        if declared > MAX_KNOWN_CODES:
            return True
        total = max(1, sum(self.rows.values()))
        low, high = (
            sum((pick(sizes.get(label, [1])) - 1) * rows for label, rows in self.rows.items())
            / (max(1, declared - 1) * total)
            for pick in (min, max)
        )
        return low - ROUNDED <= coarseness <= high + ROUNDED
