"""What a certificate says of a method, and whether one that is there says what would be said now."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sudare.methods.parameters import Parameter, write_value
from sudare.methods.registry import method_entries
from sudare.releases import Certificate
from sudare.text import Text, text

if TYPE_CHECKING:
    from sudare.methods.base import Method, Plan


def versions(method: str) -> dict[str, str]:
    """Tell the versions of everything that touched the numbers, the package of the method among them."""
    packages = ("sudare", "numpy", "duckdb", "cryptography")
    known = {name: importlib.metadata.version(name) for name in packages} | {"python": platform.python_version()}
    entry = method_entries().get(method)
    if entry is not None and entry.package is not None:
        known[entry.package] = entry.version or "?"
    return known


def read_entry(certificate: Certificate, about: Parameter) -> str | None:
    """Find a parameter in a certificate, also in one of the version before, by its old name."""
    names = (name for name in (about.name, *about.old_names) if name in certificate.parameters)
    return next((certificate.parameters[name] for name in names), None)


def compare_parameters(method: Method, certificate: Certificate, plan: Plan) -> Iterator[Text]:
    """Tell which parameters differ; those of the promise are told with it, those left open may be anything."""
    promised, written = plan.promise.to_dict(), method.entries(plan)
    for name, about in method.parameters().items():
        is_open = name in plan.decided and getattr(method, name) in (None, "auto")
        if name in promised or is_open or not about.is_certified:
            continue
        found, asked = read_entry(certificate, about) or "", written.get(name, "")
        if found != asked:
            yield describe_difference(name, found or "-", asked or "-")


def compare_promises(certificate: Certificate, promise: Mapping[str, Any]) -> Iterator[Text]:
    """Tell in what the promise differs."""
    asked = to_plain(promise)
    for name in dict.fromkeys((*asked, *certificate.guarantee)):
        found = certificate.guarantee.get(name)
        if name != "statement" and found != asked.get(name):
            yield describe_difference(name, _brief(found), _brief(asked.get(name)))


def describe_difference(name: str, found: str, asked: str) -> Text:
    """Say what is there and what is asked for."""
    return text("{name}: {found} there, {asked} in the recipe", name=name, found=found, asked=asked)


def to_plain(facts: Any) -> Any:
    """Give facts as a file of JSON holds them.

    >>> to_plain({"quasi": ("age", "sex")})
    {'quasi': ['age', 'sex']}
    """
    return json.loads(json.dumps(facts))


def _brief(value: object) -> str:
    return write_value(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
