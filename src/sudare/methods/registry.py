"""Which methods there are: the built-in ones, those of other packages, those that were registered by hand.

Known by name before any of them is imported, so that a list of methods costs nothing. Another package brings a method
by an entry point of the group `sudare.methods`:

    [project.entry-points."sudare.methods"]
    histogram = "my_package.histogram:Histogram"
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from sudare.errors import ParameterError, ReleaseError
from sudare.text import Text, text

if TYPE_CHECKING:
    from sudare.methods.base import Method
    from sudare.releases import Certificate

GROUP = "sudare.methods"

AnyMethod = TypeVar("AnyMethod", bound="type[Method]")


@dataclass(frozen=True, slots=True)
class MethodEntry:
    """A method by name: where its class stands, and the package that brings it (None: Sudare itself)."""

    name: str
    place: str  # "module:Class"
    summary: Text | None = None  # one line for a list of methods; None: ask the class
    package: str | None = None
    version: str | None = None

    def load(self) -> type[Method]:
        """Import the class; whatever is not a method of that name is refused.

        Error: ParameterError in one line that names the package.
        """
        module, _, attribute = self.place.partition(":")
        try:
            found = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise ParameterError(
                "the method {name} of the package {package} cannot be loaded ({reason}); update or remove the package",
                name=self.name,
                package=self.package or "sudare",
                reason=type(error).__name__,
            ) from error
        _check_class(found, self.name, self.package)
        return found  # type: ignore[no-any-return]

    def describe(self) -> Text:
        """Say in one line what the method publishes; a class that cannot be loaded is told, and stops no list."""
        if self.summary is not None:
            return self.summary
        try:
            return self.load().summary
        except ParameterError as error:
            return text("cannot be used: {problem}", problem=error)


BUILT_IN: tuple[MethodEntry, ...] = (
    MethodEntry(
        "microdata",
        "sudare.methods.microdata:Microdata",
        text("records with the same columns (differential privacy)"),
    ),
    MethodEntry(
        "table",
        "sudare.methods.table:Table",
        text("counts and sums over regions, for tables of any size (differential privacy)"),
    ),
    MethodEntry(
        "view",
        "sudare.methods.view:View",
        text("a compact view that answers any count (differential privacy)"),
    ),
    MethodEntry(
        "kanon",
        "sudare.methods.kanon:KAnonymity",
        text("the table itself, values generalised (k-anonymity)"),
    ),
    MethodEntry(
        "location",
        "sudare.methods.location:Location",
        text("a mechanism for devices to report a cell of a map (epsilon per metre)"),
    ),
)
_REGISTERED: dict[str, type[Method]] = {}


def summary_of(name: str) -> Text:
    """Give the line of a built-in method, which stands here so that a list of methods imports none of them."""
    return next(entry.summary for entry in BUILT_IN if entry.name == name and entry.summary is not None)


def register(method: AnyMethod) -> AnyMethod:
    """Add a method for the life of this process, as a decorator or a call; a name is given once.

    Packages use the entry point group `sudare.methods` instead, so that commands know them too.
    """
    _check_class(method, getattr(method, "name", method.__name__), None)
    taken = {entry.name: entry for entry in (*BUILT_IN, *_from_packages())}
    if method.name in taken or _REGISTERED.get(method.name, method) is not method:
        raise ParameterError("there is a method {name} already; give this one another name", name=method.name)
    _REGISTERED[method.name] = method
    return method


def unregister(name: str) -> None:
    """Take back what `register` added."""
    _REGISTERED.pop(name, None)


def method_entries() -> dict[str, MethodEntry]:
    """List the methods by name, the built-in ones first; none of them is imported.

    >>> list(method_entries())[:5]
    ['microdata', 'table', 'view', 'kanon', 'location']
    """
    known = {entry.name: entry for entry in BUILT_IN}
    for entry in _from_packages():
        known.setdefault(entry.name, entry)  # a package never takes the place of a built-in method
    for name, method in _REGISTERED.items():
        known.setdefault(name, MethodEntry(name, f"{method.__module__}:{method.__qualname__}", method.summary))
    return known


def find_method(name: str) -> type[Method]:
    """Find a method by its name, and import it.

    Error: ParameterError that names the methods there are.
    """
    if name in _REGISTERED:
        return _REGISTERED[name]
    for entry in BUILT_IN:  # found without a look at the installed packages, which takes milliseconds
        if entry.name == name:
            return entry.load()
    known = method_entries()
    if name not in known:
        raise ParameterError("there is no method {name}; the methods are {known}", name=name, known=", ".join(known))
    rivals = [entry.package or "" for entry in _from_packages() if entry.name == name]
    if known[name].package is not None and len(set(rivals)) > 1:
        raise ParameterError(
            "several packages bring a method {name} ({packages}); remove all but one",
            name=name,
            packages=", ".join(sorted(set(rivals))),
        )
    return known[name].load()


def method_of(certificate: Certificate) -> type[Method]:
    """Find the method that made a release.

    Error: ReleaseError for a method that is not installed here.
    """
    if any(entry.name == certificate.method for entry in BUILT_IN) or certificate.method in method_entries():
        return find_method(certificate.method)
    raise ReleaseError(
        "the release is of a method ({method}) that is not known here; use a newer Sudare, or install the package"
        " that made it",
        method=certificate.method,
    )


def _from_packages() -> Iterator[MethodEntry]:
    for point in importlib.metadata.entry_points(group=GROUP):
        package, version = (point.dist.name, point.dist.version) if point.dist is not None else ("?", None)
        yield MethodEntry(point.name, point.value, package=package, version=version)


def _check_class(found: object, name: str, package: str | None) -> None:
    from sudare.methods.base import Method

    if not isinstance(found, type) or not issubclass(found, Method) or found.name != name:
        raise ParameterError(
            "{name} of the package {package} is not a method of that name: it must be a subclass of sudare.Method"
            " with the same `name`",
            name=name,
            package=package or "sudare",
        )
