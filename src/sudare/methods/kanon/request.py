"""A tailor-made request: which attributes, grouped how, at which k; wishes in the order of preference."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError, SchemaError
from sudare.schema import Attribute, Schema
from sudare.schema.arrays import Codes
from sudare.text import say


@dataclass(frozen=True, eq=False)
class Grouping:
    """How one attribute is asked for: at a level of its hierarchy, in groups of one's own, or (level None) not at all.

    >>> from sudare.schema import TableHierarchy, Values
    >>> tree = TableHierarchy.from_paths([("F", "*"), ("M", "*")])
    >>> sex = Attribute(name="sex", domain=Values(("F", "M")), hierarchy=tree)
    >>> fine, out = Grouping(sex, 0), Grouping(sex, None)
    >>> fine.size, out.size, fine.is_finer(out), out.is_finer(fine)
    (2, 1, True, False)
    """

    attribute: Attribute
    level: int | None = None
    groups: tuple[tuple[int, ...], ...] | None = None

    @property
    def size(self) -> int:
        """Count the groups."""
        if self.groups is not None:
            return len(self.groups)
        if self.level is None:
            return 1
        hierarchy = self.attribute.hierarchy
        return self.attribute.size if hierarchy is None or self.level == 0 else hierarchy.size(self.level)

    @property
    def fineness(self) -> float:
        """Tell how many groups of equal size would be as fine as the smallest one; for levels, count the groups.

        Groups of one's own may be very uneven, and the smallest of them decides k; how uneven levels are, a history
        knows.
        """
        if self.groups is None:
            return self.size
        return max(1.0, self.attribute.size / min(len(members) for members in self.groups))

    @cached_property
    def group_of(self) -> Codes:
        """Find the group of every code."""
        codes = np.arange(self.attribute.size, dtype=np.int64)
        if self.groups is not None:
            found = np.zeros(self.attribute.size, dtype=np.int64)
            for number, members in enumerate(self.groups):
                found[list(members)] = number
            return found
        if self.level is None:
            return np.zeros_like(codes)
        hierarchy = self.attribute.hierarchy
        return codes if hierarchy is None or self.level == 0 else hierarchy.lift(codes, self.level)

    def is_finer(self, other: Grouping) -> bool:
        """Tell whether every group lies inside one group of the other (or is one of them)."""
        if other.size == 1:
            return True
        if self.groups is None and other.groups is None and self.level is not None and other.level is not None:
            return self.level <= other.level
        pairs = np.unique(np.column_stack([self.group_of, other.group_of]), axis=0)
        return len(pairs) == self.size

    def labels(self, codes: Codes) -> NDArray[np.object_]:
        """Write codes as the labels of their groups."""
        if self.groups is None:
            level = self.attribute.height if self.level is None else self.level
            hierarchy = self.attribute.hierarchy
            lifted = codes if hierarchy is None or level == 0 else hierarchy.lift(codes, level)
            return self.attribute.coarsen(level).labels(lifted)
        from sudare.methods.kanon.mondrian import Line

        line = Line(self.attribute)
        everything = np.arange(self.attribute.size)
        texts, _ = line.spans(line.places(everything), self.group_of, len(self.groups))
        return np.asarray(texts[self.group_of[codes]], dtype=np.object_)

    def words(self, *, lang: str | None = None) -> str:
        """Tell it in a few words."""
        name = self.attribute.name
        if self.groups is not None:
            return say("{name} in {count} groups of one's own", lang=lang, name=name, count=len(self.groups))
        if self.level is None:
            return say("{name} left out", lang=lang, name=name)
        return say("{name} at level {level} ({count} values)", lang=lang, name=name, level=self.level, count=self.size)

    def to_value(self) -> Any:
        """Give it as JSON-able facts: a level, groups of codes, or None."""
        return self.level if self.groups is None else [list(members) for members in self.groups]

    @classmethod
    def from_value(cls, attribute: Attribute, value: Any) -> Grouping:
        """Read what `to_value` gave."""
        if value is None or isinstance(value, int):
            return cls(attribute, value)
        return cls(attribute, None, tuple(tuple(int(code) for code in members) for members in value))


Wish = Mapping[str, Grouping]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a data user asks for. Attributes that a wish does not name are left out of it."""

    name: str
    k: int
    wishes: tuple[Wish, ...]

    @classmethod
    def read(cls, path: str | Path, schema: Schema) -> Request:
        """Read a request file.

        Error: ParameterError in one line for a file that is none, an unknown attribute, level or value.
        """
        try:
            facts = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError:
            raise ParameterError("the request {file} cannot be read", file=path) from None
        except (UnicodeDecodeError, tomllib.TOMLDecodeError):
            raise ParameterError("the request {file} is not valid TOML in UTF-8", file=path) from None
        return cls.from_dict(facts, schema)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any], schema: Schema) -> Request:
        """Read the facts of a request file."""
        head = facts.get("request", {})
        odd = sorted(set(facts) - {"request", "wish"}) + sorted(set(head) - {"name", "k"} if head else [])
        if odd:
            raise ParameterError("a request has [request] with name and k, and [[wish]]; {odd} is unknown", odd=odd[0])
        k, wishes = head.get("k"), facts.get("wish", [])
        if isinstance(k, bool) or not isinstance(k, int) or k < 2:
            raise ParameterError("the k of a request must be a whole number of at least 2")
        if not isinstance(wishes, list) or not wishes or not all(isinstance(one, dict) and one for one in wishes):
            raise ParameterError("a request needs at least one [[wish]] that names attributes")
        return cls(name=str(head.get("name", "")), k=k, wishes=tuple(_wish(one, schema) for one in wishes))


def _wish(facts: Mapping[str, Any], schema: Schema) -> dict[str, Grouping]:
    return {name: grouping(schema.attribute(name), asked) for name, asked in facts.items()}


def grouping(attribute: Attribute, asked: Any) -> Grouping:
    """Read one grouping: a level, a label of the level that is meant, or lists of values.

    >>> from sudare.schema import TableHierarchy, Values
    >>> tree = TableHierarchy.from_paths([("Tokyo", "east", "*"), ("Osaka", "west", "*"), ("Kobe", "west", "*")])
    >>> place = Attribute(name="place", domain=Values(("Tokyo", "Osaka", "Kobe")), hierarchy=tree)
    >>> grouping(place, "west").level, grouping(place, [["Tokyo", "Osaka"], ["Kobe"]]).size
    (1, 2)
    """
    if isinstance(asked, int) and not isinstance(asked, bool):
        attribute.coarsen(asked)  # refuses a level that there is none of
        return Grouping(attribute, asked)
    if isinstance(asked, str):
        return Grouping(attribute, _level_with(attribute, asked))
    if isinstance(asked, Sequence) and asked and all(isinstance(one, list) for one in asked):
        return Grouping(attribute, None, _groups(attribute, asked))
    raise ParameterError(
        "the grouping of {name} must be a level (a number), a label of that level, or lists of values",
        name=attribute.name,
    )


def _level_with(attribute: Attribute, label: str) -> int:
    for level in range(attribute.height + 1):
        coarse = attribute.coarsen(level)
        if coarse.size <= 1 << 20 and label in coarse.labels(np.arange(coarse.size)).tolist():
            return level
    raise ParameterError("no level of {name} has the label {label}", name=attribute.name, label=label)


def _groups(attribute: Attribute, asked: Sequence[Sequence[Any]]) -> tuple[tuple[int, ...], ...]:
    """Groups of codes from lists of values, bins or labels of any level; together they cover each value once."""
    groups = tuple(tuple(sorted({code for text in members for code in _codes(attribute, text)})) for members in asked)
    codes = sorted(code for members in groups for code in members)
    if codes != list(range(attribute.size)):
        raise ParameterError("the groups of {name} must hold every value once, and no value twice", name=attribute.name)
    return groups


def _codes(attribute: Attribute, text: Any) -> Sequence[int]:
    try:
        return attribute.codes(str(text))
    except SchemaError:
        level = _level_with(attribute, str(text))
        coarse, hierarchy = attribute.coarsen(level), attribute.hierarchy
        group = coarse.labels(np.arange(coarse.size)).tolist().index(str(text))
        if hierarchy is None:
            raise
        found: list[int] = np.flatnonzero(hierarchy.lift(np.arange(attribute.size), level) == group).tolist()
        return found
