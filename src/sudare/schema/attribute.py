"""One column of the table, as declared: what it can hold and what a raw value means."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Literal, get_args

import numpy as np

from sudare.errors import DomainError, HierarchyError, ParameterError, SchemaError
from sudare.schema.arrays import Codes, Labels
from sudare.schema.bins import count_from_1970
from sudare.schema.domain import DateBins, Domain, NumberBins, Values, find_bins
from sudare.schema.hierarchy import Hierarchy, MeshHierarchy
from sudare.schema.mesh import MeshCells
from sudare.schema.office import JAPANESE, read_japanese_day, read_number_format
from sudare.schema.raw import (
    MISSING_LABEL,
    OTHER_LABEL,
    TOP_LABEL,
    check_codes,
    check_date_format,
    is_null,
    list_some,
    to_date,
    to_number,
)

__all__ = ["MISSING_LABEL", "OTHER_LABEL", "Attribute", "Outside", "Role"]

Role = Literal["quasi", "sensitive", "plain"]
Outside = Literal["refuse", "clamp", "other"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Attribute:
    """A published column. Codes: the declared values, then `other_code`, then `missing_code`, where there are such.

    A hierarchy over the declared values alone is completed: "(other)" and "(missing)" become branches of their own, or
    join a single "*" on top. A mesh has its hierarchy by itself. `from_data` tells that the values or the range were
    read off the data: a steward confirmed them, and certificates say so. `grain` declares that numbers are its
    multiples (1: whole numbers; 1000: thousands), so that nothing lies between them; 0: they lie anywhere.

    >>> age = Attribute(name="age", domain=Values(("young", "old"), is_ordered=True), missing=True)
    >>> age.size, age.encode("old"), age.encode(None), age.labels(np.array([0, 2])).tolist()
    (3, 1, 2, ['young', None])
    """

    name: str
    domain: Domain
    role: Role = "plain"
    missing: bool = False
    missing_marks: tuple[str, ...] = ()
    outside: Outside = "refuse"
    hierarchy: Hierarchy | None = None
    date_format: str | None = None
    number_format: str | None = None
    from_data: bool = False
    grain: Fraction | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "missing_marks", tuple(self.missing_marks))
        if self.grain is not None:
            object.__setattr__(self, "grain", _read_grain(self.grain, self.domain))
        _check_choices(self)
        _check_texts(self)
        object.__setattr__(self, "hierarchy", _complete_hierarchy(self))
        _check_branches(self)

    @property
    def size(self) -> int:
        """Count the codes: declared values, other, missing."""
        return self.domain.size + len(self.branches)

    @property
    def is_ordered(self) -> bool:
        """Tell whether neighbouring declared codes are neighbouring values."""
        return self.domain.is_ordered

    @property
    def other_code(self) -> int | None:
        """Give the code of everything that is not declared, if the attribute has one."""
        return self.domain.size if self.outside == "other" else None

    @property
    def missing_code(self) -> int | None:
        """Give the code of a missing value, if the attribute has one."""
        return self.size - 1 if self.missing else None

    @property
    def ticks(self) -> NumberBins | None:
        """Give the bins of days as numbers, where the data count them from 1970."""
        if not isinstance(self.domain, DateBins) or self.date_format is None:
            return None
        return count_from_1970(self.domain, self.date_format)

    @property
    def branches(self) -> tuple[str, ...]:
        """Label the codes behind the declared values."""
        return (OTHER_LABEL,) * (self.outside == "other") + (MISSING_LABEL,) * self.missing

    @property
    def height(self) -> int:
        """Count the levels of the hierarchy above the codes; 0 without one."""
        return self.hierarchy.height if self.hierarchy else 0

    def labels(self, codes: Codes) -> Labels:
        """Write codes as texts; a missing value is None."""
        codes = check_codes(codes, self.size)
        labels = np.empty(codes.shape, dtype=np.object_)
        is_declared = codes < self.domain.size
        labels[is_declared] = self.domain.labels(codes[is_declared])
        if self.other_code is not None:
            labels[codes == self.other_code] = OTHER_LABEL
        return labels

    def code(self, label: str | None) -> int:
        """Find the code of a label as `labels` writes it; None and "(missing)" mean missing.

        Error: SchemaError if the attribute has no such value.
        """
        branch = self._branch_code(label)
        if branch is not None:
            return branch
        try:
            return self.domain.code(label or "")
        except KeyError:
            raise SchemaError(
                "attribute {name} has no such value; it has {known}", name=self.name, known=self.some_labels
            ) from None

    def codes(self, label: str | None) -> range:
        """Find the codes that a label, a union of bins ("[0,15)") or a coarser mesh cell stands for.

        >>> from sudare.schema.domain import NumberBins
        >>> Attribute(name="age", domain=NumberBins.of_width(0, 100, 5)).codes("[0,15)")
        range(0, 3)
        """
        branch = self._branch_code(label)
        if branch is not None:
            return range(branch, branch + 1)
        try:
            return self.domain.codes(label or "")
        except KeyError:
            raise SchemaError(
                "attribute {name} has no such value; it has {known}", name=self.name, known=self.some_labels
            ) from None

    def _branch_code(self, label: str | None) -> int | None:
        if label is None or label == MISSING_LABEL:
            return self.missing_code
        return self.other_code if label == OTHER_LABEL else None

    @property
    def some_labels(self) -> str:
        """List the first few values, for an error line."""
        few = self.domain.labels(np.arange(min(self.domain.size, 6))).tolist()
        return list_some([*few, *self.branches] if self.domain.size < 6 else few)

    def encode(self, value: object) -> int:
        """Find the code of a raw value: this is what a value means, and sources agree with it.

        None, NaN, "" and the marks are missing. A value outside the domain (or missing where that is not declared) is
        other, is clamped to the end bins, or is refused, as declared.

        Error: DomainError, which names the attribute and never the value.
        """
        if self.means_missing(value):
            code = self.missing_code
        else:
            value = self.read_formatted(value)
            domain = self.domain if self.ticks is None or isinstance(value, date) else self.ticks
            code = domain.encode(value)
            if code is None and self.outside == "clamp" and (bins := find_bins(domain)):
                code = bins.clamp(value)
        if code is None:
            code = self.other_code
        if code is None:
            raise DomainError(
                "attribute {name} holds a value that the schema does not declare; declare it, or set "
                'outside = "other" or missing = true',
                name=self.name,
            )
        return code

    def read_formatted(self, value: object) -> object:
        """Read a text that is written by the format of the attribute; None if it is not."""
        if self.number_format is not None and isinstance(value, str):
            return read_number_format(self.number_format).read(value)
        if self.date_format == JAPANESE and isinstance(value, str):
            return read_japanese_day(value)
        if self.ticks is not None:
            return value
        if self.date_format not in (None, JAPANESE) and isinstance(value, str | int):
            return to_date(value, self.date_format)
        return value

    def means_missing(self, value: object) -> bool:
        """Tell whether a raw value stands for nothing.

        >>> Attribute(name="a", domain=Values(("x",)), missing=True, missing_marks=("?",)).means_missing("?")
        True
        """
        if is_null(value):
            return True
        text = self.domain.text(value)
        return not text or text in self.missing_marks

    def coarsen(self, level: int) -> Attribute:
        """Give the attribute as seen at a level of its hierarchy; the levels above are kept.

        Bins stay bins where the groups are labelled as bins would be; mesh cells stay mesh cells below the top.
        """
        if level == 0:
            return self
        if self.hierarchy is None or not 0 < level <= self.height:
            raise ParameterError(
                "level ({level}) of attribute {name} must be between 0 and {height}",
                level=level,
                name=self.name,
                height=self.height,
            )
        domain, kept = _coarsen_domain(self.domain, self.hierarchy, level, self.branches)
        outside: Outside = "clamp" if self.outside == "clamp" and find_bins(domain) else "refuse"
        marks = tuple(mark for mark in self.missing_marks if not _is_label(domain, mark))
        return Attribute(
            name=self.name,
            domain=domain,
            role=self.role,
            missing=MISSING_LABEL in kept,
            missing_marks=marks if MISSING_LABEL in kept else (),
            outside="other" if OTHER_LABEL in kept else outside,
            hierarchy=self.hierarchy.above(level),
            date_format=self.date_format if isinstance(domain, DateBins) else None,
            number_format=self.number_format if isinstance(domain, NumberBins) else None,
            from_data=self.from_data,
            grain=self.grain if isinstance(domain, NumberBins) else None,
        )


def _read_grain(grain: object, domain: Domain) -> Fraction:
    number = grain if isinstance(grain, Fraction) else to_number(grain)
    if not isinstance(domain, NumberBins):
        raise SchemaError("grain is for numbers only; take it out")
    if not isinstance(number, Fraction) or number < 0:
        raise SchemaError(
            "grain ({grain}) must be a number above 0, such as 1 or 0.5, or 0 for numbers that lie anywhere",
            grain=grain,
        )
    return number


def _coarsen_domain(
    domain: Domain, hierarchy: Hierarchy, level: int, branches: tuple[str, ...]
) -> tuple[Domain, tuple[str, ...]]:
    """Give the domain of a level, and which branches are still on their own there."""
    if isinstance(domain, MeshCells) and isinstance(hierarchy, MeshHierarchy):
        is_top = level == hierarchy.height
        return (Values((TOP_LABEL,)), ()) if is_top else (domain.coarse(domain.level - level), branches)
    names = hierarchy.labels(np.arange(hierarchy.size(level)), level).tolist()
    kept = tuple(branch for branch in branches if branch in names)
    names = names[: len(names) - len(kept)]
    groups = hierarchy.lift(np.arange(domain.size), level)
    is_monotone = bool(np.all(np.diff(groups) >= 0)) and int(groups[-1]) == len(names) - 1
    if is_monotone and (bins := find_bins(domain)):
        merged = bins.merged(np.searchsorted(groups, np.arange(len(names))).tolist())
        if merged.labels(np.arange(merged.size)).tolist() == names:
            return merged, kept
    return Values(tuple(names), is_ordered=domain.is_ordered and is_monotone), kept


def _is_label(domain: Domain, text: str) -> bool:
    """Tell whether a text is one of listed values. (Bins are no texts: a mark such as 999 may lie inside them.)"""
    return isinstance(domain, Values) and text in domain.values


def _check_choices(attribute: Attribute) -> None:
    name = attribute.name
    if not isinstance(name, str) or not name:
        raise SchemaError("an attribute needs a name; give it the name of its column")
    if attribute.role not in get_args(Role):
        raise SchemaError('role ({role}) must be "quasi", "sensitive" or "plain"', role=attribute.role)
    if attribute.outside not in get_args(Outside):
        raise SchemaError('outside ({outside}) must be "refuse", "clamp" or "other"', outside=attribute.outside)
    if attribute.outside == "clamp" and not find_bins(attribute.domain):
        raise SchemaError('outside = "clamp" needs bins (number or date); use "refuse" or "other"')
    if attribute.date_format is not None:
        if not isinstance(attribute.domain, DateBins):
            raise SchemaError("format is for numbers and dates only; take it out")
        if attribute.date_format != JAPANESE and attribute.ticks is None:
            check_date_format(attribute.date_format)
    if attribute.number_format is not None:
        if not isinstance(attribute.domain, NumberBins):
            raise SchemaError("format is for numbers and dates only; take it out")
        read_number_format(attribute.number_format)


def _check_texts(attribute: Attribute) -> None:
    """Every label and mark must mean one thing."""
    if attribute.missing_marks and not attribute.missing:
        raise SchemaError("marks of missing values need missing = true")
    for label in (*attribute.branches, *attribute.missing_marks):
        if _is_label(attribute.domain, label):
            raise SchemaError(
                "{label} is both a declared value and a mark for missing or other values; take one out", label=label
            )


def _complete_hierarchy(attribute: Attribute) -> Hierarchy | None:
    hierarchy, declared = attribute.hierarchy, attribute.domain.size
    if hierarchy is None:
        domain = attribute.domain
        return MeshHierarchy(domain, attribute.branches) if isinstance(domain, MeshCells) else None
    if hierarchy.size(0) == declared and attribute.branches:
        hierarchy = hierarchy.with_branches(attribute.branches)
    if hierarchy.size(0) != attribute.size:
        raise HierarchyError(
            "the hierarchy covers {covered} values, but the attribute has {size}; give every value a row",
            covered=hierarchy.size(0),
            size=attribute.size,
        )
    return hierarchy


def _check_branches(attribute: Attribute) -> None:
    """Refuse other labels on level 0, and "(other)" or "(missing)" as the name of anything but these codes."""
    hierarchy, size = attribute.hierarchy, attribute.size
    if hierarchy is None or isinstance(hierarchy, MeshHierarchy):
        return
    own = [*attribute.domain.labels(np.arange(attribute.domain.size)).tolist(), *attribute.branches]
    if hierarchy.labels(np.arange(size), 0).tolist() != own:
        raise HierarchyError("the hierarchy is of other values than the attribute; build it from the same domain")
    for level in range(1, hierarchy.height + 1):
        names = hierarchy.labels(np.arange(hierarchy.size(level)), level).tolist()
        kept = [branch for branch in attribute.branches if branch in names]
        first = len(names) - len(kept)
        members = np.bincount(hierarchy.lift(np.arange(size), level))[first:]
        if names[first:] != kept or np.any(members > 1):
            raise HierarchyError("level {level} uses {label} for other values; rename it", level=level, label=kept[0])
