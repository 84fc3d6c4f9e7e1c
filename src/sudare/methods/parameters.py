"""One place for a parameter: its kind, default, help in both languages, names on the command line and in certificates.

A field of a method says it once,

    epsilon: Number = parameter(text("how much this release may tell"), kind=ExactNumber(low=..., high=...))
    algorithm: Literal["tree", "wavelet"] = parameter(text("..."), default="tree", old_names=("method",))

and flags, recipe keys, entries of certificates and forms of the studio are made of what it says.
"""

from __future__ import annotations

import dataclasses
import sys
import types
import typing
import warnings
import weakref
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any, Literal

from sudare.errors import ParameterError
from sudare.forms import Key
from sudare.forms.kinds import ChoiceOf, Flag, Kind, NameList, TextLine, Unfit, WholeNumber, show
from sudare.text import Text, text

_KEY = "sudare.parameter"
_KNOWN: weakref.WeakKeyDictionary[type[Any], Mapping[str, Parameter]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True, kw_only=True)
class Parameter(Key):
    """What the edges need to know about a field of a method. `kind` reads and checks its values.

    `old_names` are accepted for one version. `is_certified` tells whether certificates hold it; `used_with` names the
    parameters and values without which it does nothing, so that it is neither certified nor asked for.
    """

    kind: Kind
    name: str = ""
    flag: str = ""
    metavar: str | None = None
    is_certified: bool = True
    used_with: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def choices(self) -> tuple[str, ...]:
        """The values it takes, if it takes one of a few."""
        return self.kind.choices if isinstance(self.kind, ChoiceOf) else ()

    def is_used(self, method: object) -> bool:
        """Tell whether the other parameters leave something for this one to do."""
        return all(str(getattr(method, name)) in values for name, values in self.used_with.items())


@dataclass(frozen=True, kw_only=True)
class ExtraFile(Key):
    """A file that a method reads or keeps beside its input.

    `content`: "file" is read by the method, "table" is a table in any format a source reads, "notes" is the steward's
    own: it need not be there yet, and the method adds to it.
    """

    name: str = ""
    flag: str = ""
    metavar: str | None = None
    content: Literal["file", "table", "notes"] = "file"

    def __post_init__(self) -> None:
        if not self.flag:
            object.__setattr__(self, "flag", "--" + self.name.replace("_", "-"))


def parameter(
    help: Text,
    *,
    kind: Kind | None = None,
    default: Any = MISSING,
    example: str | None = None,
    flag: str | None = None,
    metavar: str | None = None,
    old_names: tuple[str, ...] = (),
    is_certified: bool = True,
    used_with: Mapping[str, tuple[str, ...]] | None = None,
) -> Any:
    """Declare a field of a method as a parameter; without a default it is required.

    Without `kind` it follows from the type: Literal gives choices, bool a switch, int a whole number, str a line of
    text, tuple[str, ...] names.
    """
    about = {
        "help": help,
        "kind": kind,
        "example": example,
        "flag": flag,
        "metavar": metavar,
        "old_names": old_names,
        "is_certified": is_certified,
        "used_with": dict(used_with or {}),
    }
    return field(default=default, metadata={_KEY: types.MappingProxyType(about)})


def parameters_of(method: type[Any]) -> Mapping[str, Parameter]:
    """Read the parameters off the fields of a method, in their order; other fields are no parameters."""
    if method not in _KNOWN:
        _KNOWN[method] = types.MappingProxyType(_read_fields(method))
    return _KNOWN[method]


def _read_fields(method: type[Any]) -> dict[str, Parameter]:
    found = {}
    for each in dataclasses.fields(method):
        if _KEY in each.metadata:
            about = dict(each.metadata[_KEY])
            about["kind"] = about["kind"] or _kind_of(method, each.name)
            about["flag"] = about["flag"] or "--" + each.name.replace("_", "-")
            default = None if each.default is MISSING else each.default
            found[each.name] = Parameter(name=each.name, required=each.default is MISSING, default=default, **about)
    return found


def check_parameters(method: Any) -> None:
    """Read every parameter by its kind, once, on entry; what was not given keeps its default."""
    for name, about in parameters_of(type(method)).items():
        value = getattr(method, name)
        if value is None and not about.required:
            continue
        object.__setattr__(method, name, read_value(about, value))


def read_value(about: Parameter, value: Any) -> Any:
    """Read a value given in Python or on the command line.

    Error: ParameterError that shows it as it was typed, and what is allowed.
    """
    try:
        return about.kind.read(value)
    except Unfit as unfit:
        shown, allowed = show(unfit.value).strip('"'), unfit.kind.describe()
        raise ParameterError(
            "{name} ({value}) must be {allowed}", name=about.name, value=shown, allowed=allowed
        ) from None


def write_parameters(method: Any, decided: Mapping[str, object]) -> dict[str, str]:
    """Write the parameters as a certificate holds them: exact text, with what was decided for those left open."""
    own = {
        name: decided.get(name, getattr(method, name))
        for name, about in parameters_of(type(method)).items()
        if about.is_certified and about.is_used(method)
    }
    written = {name: write_value(value) for name, value in {**own, **decided}.items()}
    return {name: line for name, line in written.items() if line}


def write_value(value: object) -> str:
    """Write one value: exact numbers as fractions, several with commas, nothing as nothing.

    >>> write_value(("age", "sex")), write_value(True), write_value(None)
    ('age,sex', 'true', '')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "" if value is None else str(value)


class Renaming(type):
    """The class of methods: takes parameters by the names of the version before, and says the new ones."""

    def __call__(cls, *args: Any, **given: Any) -> Any:
        """Make a method."""
        renamed, notes = use_new_names(cls, given)
        for note in notes:
            warnings.warn(note.render("en"), DeprecationWarning, stacklevel=2)
        return super().__call__(*args, **renamed)


def use_new_names(method: type, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[Text]]:
    """Give parameters their names of this version, with a note for each that had an old one.

    Error: ParameterError if both names were given.
    """
    old = {former: about.name for about in parameters_of(method).values() for former in about.old_names}
    renamed, notes = dict(given), []
    for former in [name for name in given if name in old]:
        name = old[former]
        if name in given:
            raise ParameterError("{name} was given twice: {old} is its old name", name=name, old=former)
        renamed[name] = renamed.pop(former)
        notes.append(
            text("{old} is now called {name}; the old name will be removed in the next version", old=former, name=name)
        )
    return renamed, notes


def _kind_of(method: type, name: str) -> Kind:
    """Derive the kind from the type of a field; None beside it stands for a value that is not given."""
    owner = next(each for each in method.__mro__ if name in vars(each).get("__annotations__", {}))
    annotation = types.SimpleNamespace(__annotations__={name: owner.__annotations__[name]})
    hint = typing.get_type_hints(annotation, vars(sys.modules[owner.__module__]))[name]
    parts = [part for part in typing.get_args(hint) if part is not types.NoneType]
    if typing.get_origin(hint) in (typing.Union, types.UnionType) and len(parts) == 1:
        hint = parts[0]
    if typing.get_origin(hint) is Literal:
        return ChoiceOf(typing.get_args(hint))
    if hint == tuple[str, ...]:
        return NameList()
    kinds: dict[Any, Kind] = {bool: Flag(), int: WholeNumber(), str: TextLine()}
    if hint not in kinds:
        raise TypeError(f"the kind of {method.__name__}.{name} does not follow from its type; give parameter(kind=...)")
    return kinds[hint]
