"""A tailor-made request: which attributes, grouped how; options in the order of preference. k is the table's, not its.

Grouping         how one attribute is requested: at a level, in own groups, or left out
RequestOption    a grouping for each attribute that is wanted
Request          the options of a file, the most wanted first
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from sudare.errors import ParameterError, SchemaError
from sudare.forms import FileForm, FilledForm, Key, TableForm, read_form, read_values
from sudare.forms.kinds import AnyText, Kind, ListOf, Unfit, WholeNumber, find_near
from sudare.methods.kanon.mondrian import ValueLine
from sudare.schema import Attribute, Schema
from sudare.schema.arrays import Booleans, Codes, Labels
from sudare.schema.file import check_names
from sudare.schema.hierarchy_rules import from_csv
from sudare.schema.raw import MISSING_LABEL, TOP_LABEL
from sudare.text import Text, Words, text

MAX_LABELS = 1 << 20  # a level with more labels is not searched for one
MAX_COMPARED = 500  # labels of a level that a misspelt one is compared with
LONGEST_GROUP_NAME = 100  # letters
LONGEST_REQUEST_NAME = 200  # letters
MAX_OPTIONS = 100  # of a request: each is judged, with what is near it, whoever wrote the file
MAX_NAMED = 3  # values that are named as missing from groups, or as standing in two of them


@dataclass(frozen=True, eq=False)
class Grouping:
    """How one attribute is requested: at a level of its hierarchy, in groups of one's own, or (level None) not at all.

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
    names: tuple[str, ...] | None = None  # of the groups, where a hierarchy file named them

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
            group_of = np.zeros(self.attribute.size, dtype=np.int64)
            for number, members in enumerate(self.groups):
                group_of[list(members)] = number
            return group_of
        if self.level is None:
            return np.zeros_like(codes)
        hierarchy = self.attribute.hierarchy
        return codes if hierarchy is None or self.level == 0 else hierarchy.lift(codes, self.level)

    def is_finer(self, other: Grouping) -> bool:
        """Tell whether every group lies inside one group of the other (or is one of them)."""
        if other.size == 1:
            return True
        if self.groups is None and other.groups is None and self.level is not None and other.level is not None:
            return self.level <= other.level or self.size == other.size  # a level may join nothing
        pairs = np.unique(np.column_stack([self.group_of, other.group_of]), axis=0)
        return len(pairs) == self.size

    def labels(self, codes: Codes) -> Labels:
        """Write codes as the labels of their groups."""
        if self.groups is None:
            level = self.attribute.height if self.level is None else self.level
            hierarchy = self.attribute.hierarchy
            lifted = codes if hierarchy is None or level == 0 else hierarchy.lift(codes, level)
            return self.attribute.coarsen(level).labels(lifted)
        line = ValueLine(self.attribute)
        labels = np.empty(len(self.groups), dtype=np.object_)
        for number, members in enumerate(self.groups):
            labels[number] = line.label_values(members) if self.names is None else self.names[number]
        return np.asarray(labels[self.group_of[codes]], dtype=np.object_)

    def describe(self) -> Text:
        """Say it in a few words."""
        name = self.attribute.name
        if self.groups is not None:
            return text("{name} in {count} groups as requested", name=name, count=len(self.groups))
        if self.level is None:
            return text("{name} left out", name=name)
        return text("{name} at level {level} ({count} values)", name=name, level=self.level, count=self.size)

    def to_value(self) -> Any:
        """Give what it says of the values as JSON-able facts: a level, groups of codes, or None. Names say nothing."""
        return self.level if self.groups is None else [list(members) for members in self.groups]

    def to_named_value(self) -> Any:
        """Give it as JSON-able facts with the names of its groups, where they have some."""
        return self.to_value() if self.names is None else {"groups": self.to_value(), "names": list(self.names)}

    @classmethod
    def from_value(cls, attribute: Attribute, value: Any) -> Grouping:
        """Read what `to_value` or `to_named_value` gave.

        Error: ParameterError for what they cannot have given: another level, values missing or twice, false names.
        """
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return cls(attribute, value if value is None else _check_level(attribute, value))
        named = value if isinstance(value, dict) else {"groups": value, "names": None}
        groups = _check_stored_groups(attribute, named.get("groups"))
        if named.get("names") is None:
            return cls(attribute, None, groups)
        names = named["names"]
        is_texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
        if not is_texts or len(names) != len(groups) or len(set(names)) != len(names):
            _refuse_stored(attribute)
        _check_group_names(attribute, groups, tuple(names), STORED)
        return cls(attribute, None, groups, tuple(names))


RequestOption = Mapping[str, Grouping]

STORED = text("stored request")  # named where a file would be named


def _check_level(attribute: Attribute, level: int) -> int:
    if not 0 <= level <= attribute.height:
        _refuse_stored(attribute)
    return level


def _check_stored_groups(attribute: Attribute, groups: Any) -> tuple[tuple[int, ...], ...]:
    """Give groups of codes, if they hold every code once."""
    is_lists = isinstance(groups, list) and all(isinstance(members, list) and members for members in groups)
    codes = [code for members in groups for code in members] if is_lists else []
    if not all(type(code) is int for code in codes) or sorted(codes) != list(range(attribute.size)):
        _refuse_stored(attribute)
    return tuple(tuple(members) for members in groups)


def _refuse_stored(attribute: Attribute) -> NoReturn:
    """Refuse a stored grouping that no request can have had."""
    raise ParameterError(
        "a stored grouping of {name} is none: it must be a level, or groups with every value once", name=attribute.name
    )


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a data user asks for. Attributes that an option does not name are left out of it.

    `k` is the table's policy and no part of a request: whoever may choose it finds out the exact size of a class by
    asking again and again. Files of the first version name it; then it is what they were written for. `first_number` is
    what the data user calls its first option, where only one of the options that were asked for is published.
    """

    name: str
    k: int | None = None
    options: tuple[RequestOption, ...]
    first_number: int = 1

    def require_k(self, k: int | None = None) -> int:
        """Give the k of the table, or without one that of the file.

        Error: ParameterError if neither is known.
        """
        known = self.k if k is None else k
        if known is None:
            raise ParameterError(
                "the k of the table is not known; say it with --k (it is the table's, not the asker's)"
            )
        return known

    def to_value(self) -> dict[str, Any]:
        """Give it as JSON-able facts, without k: levels, groups of codes with their names if any, or None."""
        options = [{name: grouping.to_named_value() for name, grouping in option.items()} for option in self.options]
        return {"name": self.name, "options": options}

    @classmethod
    def from_value(cls, value: Mapping[str, Any], schema: Schema) -> Request:
        """Read what `to_value` gave."""
        options = tuple(
            {name: Grouping.from_value(schema.attribute(name), grouping) for name, grouping in option.items()}
            for option in value["options"]
        )
        return cls(name=str(value["name"]), options=options)

    @classmethod
    def read(cls, path: str | Path, schema: Schema) -> Request:
        """Read a request file.

        Error: ParameterError in one line, with its place, for whatever is wrong in the file or not in the schema.
        """
        return _build_request(read_form(path, FORM), schema)

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any], schema: Schema) -> Request:
        """Read the facts of a request that a program has put together."""
        return _build_request(read_values(facts, FORM), schema)


# --- the file ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LabelKind(AnyText):
    """A name or a value of an attribute, as a text or as the number or day that it is."""

    may_be_empty: bool = True

    def read(self, value: Any) -> str:
        """Take a text, a number or a day."""
        if isinstance(value, bool) or not isinstance(value, str | int | Decimal | date):
            raise Unfit(self, value)
        return str(float(value)) if isinstance(value, Decimal) else str(value)


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupFile:
    """Groups of one's own as a hierarchy file (`value;level 1;...`), and the level of it that is wanted."""

    file: str
    level: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class MergedLevel:
    """A level some groups of which are joined: each list of labels becomes one group."""

    level: int
    merge: tuple[tuple[str, ...], ...]


GroupingValue = int | str | GroupFile | MergedLevel | tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class GroupingKind(Kind):
    """How an attribute is asked for: a level, a label of the level that is meant, lists of values, a hierarchy file,
    or a level with some of its groups joined.

    >>> GroupingKind().read(2), GroupingKind().read("west"), GroupingKind().read([["Tokyo", 1], ["Osaka"]])
    (2, 'west', (('Tokyo', '1'), ('Osaka',)))
    >>> GroupingKind().read({"hierarchy": "ages.csv", "level": 2})
    GroupFile(file='ages.csv', level=2)
    >>> GroupingKind().read({"level": 0, "merge": ["[80,100]"]})
    MergedLevel(level=0, merge=(('[80,100]',),))
    """

    example: str = "1"

    def read(self, value: Any) -> GroupingValue:
        """Take a whole number, a text, a list of lists of texts and numbers, or a table of a file or joined groups."""
        if isinstance(value, dict):
            return self._read_table(value)
        if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        if not isinstance(value, list) or not value:
            raise Unfit(self, value)
        return ListOf(ListOf(LabelKind())).read(value)

    def _read_table(self, value: dict[str, Any]) -> GroupFile | MergedLevel:
        level = value.get("level", 0 if "merge" in value else 1)
        is_whole = isinstance(level, int) and not isinstance(level, bool) and level >= 0
        if is_whole and set(value) <= {"merge", "level"} and isinstance(value.get("merge"), list) and value["merge"]:
            lists = [group if isinstance(group, list) else [group] for group in value["merge"]]
            return MergedLevel(level=level, merge=ListOf(ListOf(LabelKind())).read(lists))
        if is_whole and set(value) <= {"hierarchy", "level"} and isinstance(value.get("hierarchy"), str):
            return GroupFile(file=value["hierarchy"], level=level)
        raise Unfit(self, value)

    def describe(self) -> Text:
        """Name the ways."""
        return text(
            "a level (a whole number), a label of that level in quotes, lists of values, a hierarchy file"
            ' ({ hierarchy = "ages.csv", level = 1 }), or a level with some groups joined'
            ' ({ level = 0, merge = ["[80,100]"] })'
        )

    def json_schema(self) -> dict[str, Any]:
        """Describe the ways."""
        groups = {"type": "array", "items": {"type": "array", "items": {"type": ["string", "number"]}}, "minItems": 1}
        file = {
            "type": "object",
            "properties": {"hierarchy": {"type": "string"}, "level": {"type": "integer", "minimum": 0}},
            "required": ["hierarchy"],
            "additionalProperties": False,
        }
        label = {"type": ["string", "number"]}
        merged = {
            "type": "object",
            "properties": {
                "level": {"type": "integer", "minimum": 0},
                "merge": {"type": "array", "items": {"anyOf": [label, groups["items"]]}, "minItems": 1},
            },
            "required": ["merge"],
            "additionalProperties": False,
        }
        return {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}, groups, file, merged]}


FORM = FileForm(
    name="request",
    error=ParameterError,
    help=text("A request: which attributes are wanted, and how fine"),
    tables=(
        TableForm(
            name="request",
            required=True,
            help=text("The request as a whole"),
            keys={
                "name": Key(
                    kind=LabelKind(example='"commuters"'),
                    default="",
                    help=text("name of the request"),
                ),
                "k": Key(
                    kind=WholeNumber(low=2),
                    default=None,
                    help=text("leave it out: k belongs to the table (files of version 0.1 name it)"),
                ),
            },
        ),
        TableForm(
            name="option",
            many=True,
            required=True,
            old_names=("wish",),
            help=text("One option; the first that keeps the promise is published, so write the most wanted first"),
            any_key=Key(
                kind=GroupingKind(),
                help=text(
                    "attribute = level (0 is the finest), a label of that level, lists of values, a hierarchy file, or"
                    " a level with some groups joined"
                ),
            ),
        ),
    ),
)


def _build_request(filled: FilledForm, schema: Schema) -> Request:
    head, options = filled.table("request"), []
    _check_request_name(str(head["name"]))
    tables = filled.list_tables("option")
    if len(tables) > MAX_OPTIONS:
        raise ParameterError(
            "the request has {count} options, but at most {most} are allowed; keep those that are wanted most",
            count=len(tables),
            most=MAX_OPTIONS,
        )
    for table in tables:
        if not table.written:
            table.refuse(text("an option must name at least one attribute, like: {example}", example="age = 1"))
        check_names(table, schema.names)
        option = {}
        for name in table:
            with table.blame(name, error=ParameterError):
                option[name] = read_grouping(schema.attribute(name), table[name], beside=filled.file.parent)
        options.append(option)
    return Request(name=str(head["name"]), k=head["k"], options=tuple(options))


def _check_request_name(name: str) -> None:
    """Refuse a name that does not stand in one line of a list: too long, or with signs that are not printed."""
    if len(name) > LONGEST_REQUEST_NAME or not name.isprintable():
        raise ParameterError(
            "the name of a request must be one line of at most {longest} letters", longest=LONGEST_REQUEST_NAME
        )


def read_grouping(attribute: Attribute, value: Any, *, beside: Path | None = None) -> Grouping:
    """Read one grouping: a level, a label of the level that is meant, lists of values, or a level of a hierarchy file.

    The file is looked for `beside` the request.

    >>> from sudare.schema import TableHierarchy, Values
    >>> tree = TableHierarchy.from_paths([("Tokyo", "east", "*"), ("Osaka", "west", "*"), ("Kobe", "west", "*")])
    >>> place = Attribute(name="place", domain=Values(("Tokyo", "Osaka", "Kobe")), hierarchy=tree)
    >>> read_grouping(place, "west").level, read_grouping(place, [["Tokyo", "Osaka"], ["Kobe"]]).size
    (1, 2)
    """
    try:
        read = value if isinstance(value, GroupFile | MergedLevel) else _read_kind(value)
    except Unfit:
        raise ParameterError(
            "the grouping of {name} must be a level (a number), a label of that level, or lists of values",
            name=attribute.name,
        ) from None
    if isinstance(read, GroupFile):
        if Path(read.file).name != read.file:  # a request comes from outside: it names nothing elsewhere
            raise ParameterError("hierarchy ({file}) must be the name of a file beside the request", file=read.file)
        return _read_group_file(attribute, (beside or Path()) / read.file, read.level)
    if isinstance(read, MergedLevel):
        return _merge_groups(attribute, read)
    if isinstance(read, int):
        attribute.coarsen(read)  # refuses a level that there is none of
        return Grouping(attribute, read)
    if isinstance(read, str):
        return Grouping(attribute, _find_level(attribute, read))
    return Grouping(attribute, None, _read_groups(attribute, read))


def _read_kind(value: Any) -> GroupingValue:
    return GroupingKind().read([list(group) for group in value] if isinstance(value, tuple) else value)


def _read_group_file(attribute: Attribute, path: Path, level: int) -> Grouping:
    """Read groups of one's own from a hierarchy file: the groups of one of its levels."""
    if not path.is_file():
        raise ParameterError("there is no file {file} beside the request", file=path.name)
    tree = from_csv(
        path,
        attribute.domain,
        other=attribute.other_code is not None,
        missing=attribute.missing,
        missing_marks=attribute.missing_marks,
    )
    if level > tree.height:
        raise ParameterError(
            "level ({level}) of {file} must be between 0 and {height}", level=level, file=path.name, height=tree.height
        )
    group_of = tree.lift(np.arange(attribute.size), level)
    found, first = np.unique(group_of, return_index=True)
    found = found[np.argsort(first)]  # in the order of their first values
    groups = tuple(tuple(np.flatnonzero(group_of == group).tolist()) for group in found.tolist())
    names = tuple("" if label is None else str(label) for label in tree.labels(found, level).tolist())
    _check_group_names(attribute, groups, names, path.name)
    return Grouping(attribute, None, groups, names)


def _check_group_names(
    attribute: Attribute, groups: tuple[tuple[int, ...], ...], names: tuple[str, ...], file: Words
) -> None:
    """Refuse names of groups that would be read as something else: another value, or everything."""
    false = next(_list_false_names(attribute, groups, names), None)
    if false is not None:
        raise ParameterError(
            "{file}: the group {label} of {name} needs another name: one line of at most {longest} letters, which"
            " is no value that stands for something else",
            file=file,
            label=false[:LONGEST_GROUP_NAME],
            name=attribute.name,
            longest=LONGEST_GROUP_NAME,
        )


def _list_false_names(
    attribute: Attribute, groups: tuple[tuple[int, ...], ...], names: tuple[str, ...]
) -> Iterator[str]:
    declared = {str(label): code for code, label in enumerate(attribute.labels(np.arange(attribute.size)).tolist())}
    for members, name in zip(groups, names, strict=True):
        is_other_value = name in declared and members != (declared[name],)
        is_all = name == TOP_LABEL and len(groups) > 1
        if not name.strip() or len(name) > LONGEST_GROUP_NAME or not name.isprintable() or is_other_value or is_all:
            yield name


def find_names(
    attribute: Attribute, groups: tuple[tuple[int, ...], ...], labels: Sequence[str | None]
) -> tuple[str, ...] | None:
    """Give labels of levels as the names of groups; None if they do not do, and groups are named by their values."""
    names = tuple(label for label in labels if label is not None)
    is_unique = len(set(names)) == len(groups)
    return names if is_unique and not any(_list_false_names(attribute, groups, names)) else None


def _find_level(attribute: Attribute, label: str) -> int:
    """Find the finest level that has a label."""
    known: list[str] = []
    for level in range(attribute.height + 1):
        coarse = attribute.coarsen(level)
        labels = coarse.labels(np.arange(coarse.size)).tolist() if coarse.size <= MAX_LABELS else []
        if label in labels:
            return level
        known += [MISSING_LABEL if other is None else other for other in labels[:MAX_COMPARED]]
    if near := find_near(label, known):
        raise ParameterError(
            "no level of {name} has the label {label}; did you mean {near}?",
            name=attribute.name,
            label=label,
            near=near,
        )
    last = known[attribute.size - 1 : attribute.size]  # where a missing value stands, if there is one
    raise ParameterError(
        "no level of {name} has the label {label}; labels are written like: {examples}",
        name=attribute.name,
        label=label,
        examples=", ".join(dict.fromkeys([*known[:2], *last])),
    )


def _read_groups(attribute: Attribute, lists: Sequence[Sequence[str]]) -> tuple[tuple[int, ...], ...]:
    """Read groups of codes from lists of values, bins or labels of any level; together they cover each value once."""
    groups = tuple(
        tuple(sorted({code for label in members for code in _find_codes(attribute, label)})) for members in lists
    )
    times = np.bincount([code for members in groups for code in members], minlength=attribute.size)
    if (times == 0).any():
        raise ParameterError(
            "the groups of {name} must contain every value exactly once; in no group: {values}",
            name=attribute.name,
            values=_name_values(attribute, times == 0),
        )
    if (times > 1).any():
        raise ParameterError(
            "the groups of {name} must contain every value exactly once; in several groups: {values}",
            name=attribute.name,
            values=_name_values(attribute, times > 1),
        )
    return groups


def _merge_groups(attribute: Attribute, merged: MergedLevel) -> Grouping:
    """Join groups of a level; all others stay as they are, under their names.

    >>> from sudare.schema import NumberBins
    >>> age = Attribute(name="age", domain=NumberBins.of_width(0, 10, 1))
    >>> _merge_groups(age, MergedLevel(level=0, merge=(("[6,10]",),))).groups
    ((0,), (1,), (2,), (3,), (4,), (5,), (6, 7, 8, 9))
    """
    attribute.coarsen(merged.level)  # refuses a level that there is none of
    group_of = Grouping(attribute, merged.level).group_of.copy()
    whole, joined = group_of.copy(), np.zeros(attribute.size, dtype=np.int64)
    for labels in merged.merge:
        codes = sorted({code for label in labels for code in _find_codes(attribute, label)})
        joined[codes] += 1
        group_of[codes] = group_of[codes[0]]
    is_cut = (joined == 0) & np.isin(whole, whole[joined > 0])
    if is_cut.any() or (joined > 1).any():
        raise ParameterError(
            "merge of {name} must join whole groups of level {level}, each once; look at: {values}",
            name=attribute.name,
            level=merged.level,
            values=_name_values(attribute, is_cut | (joined > 1)),
        )
    firsts = np.unique(group_of, return_index=True)[1]
    groups = tuple(tuple(np.flatnonzero(group_of == group_of[first]).tolist()) for first in np.sort(firsts))
    first = np.array([members[0] for members in groups])
    values, level = Grouping(attribute, None, groups).labels(first), Grouping(attribute, merged.level).labels(first)
    names = np.where(joined[first] > 0, values, level).tolist()
    return Grouping(attribute, None, groups, find_names(attribute, groups, names))


def _name_values(attribute: Attribute, is_named: Booleans) -> str:
    """Name the first few of some values; they are of the public schema."""
    codes = np.flatnonzero(is_named)
    names = [str(label) for label in attribute.labels(codes[:MAX_NAMED]).tolist()]
    return ", ".join([*names, "..."] if len(codes) > MAX_NAMED else names)


def _find_codes(attribute: Attribute, label: str) -> Sequence[int]:
    try:
        return attribute.codes(label)
    except SchemaError:
        level = _find_level(attribute, label)
        coarse, hierarchy = attribute.coarsen(level), attribute.hierarchy
        group = coarse.labels(np.arange(coarse.size)).tolist().index(label)
        if hierarchy is None:
            raise
        codes: list[int] = np.flatnonzero(hierarchy.lift(np.arange(attribute.size), level) == group).tolist()
        return codes
