"""The bounds that a wheel declares, and the lowest version that keeps them.

Written for the few forms that pyproject.toml uses. A form that is not known stops the job: a bound that is skipped
silently is a bound that nobody tests.
"""

from __future__ import annotations

import operator
import re
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path

Version = tuple[int, ...]

_REQUIREMENT = re.compile(
    r"""(?P<name>[A-Za-z0-9][\w.-]*) \s* (?:\[(?P<parts>[^]]*)\])? \s* \(?(?P<limits>[^;)]*)\)? \s*
        (?:; \s* extra \s* == \s* ['"](?P<extra>[\w-]+)['"] \s*)?""",
    re.VERBOSE,
)
_LIMIT = re.compile(r"(>=|<=|==|!=|<|>)\s*([\d.]+(?:\.post\d+)?)")
_VERSION = re.compile(r"(?P<release>\d+(?:\.\d+)*)(?:\.post(?P<post>\d+))?")
_COMPARE: dict[str, Callable[[Version, Version], bool]] = {
    ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Bound:
    """One line of a wheel's requirements: `duckdb>=1.4,<3`, of the extra that asks for it, or of none ("")."""

    name: str
    limits: tuple[tuple[str, str], ...]
    extra: str = ""

    @property
    def text(self) -> str:
        """The limits as pip reads them: >=1.4,<3."""
        return ",".join(sign + version for sign, version in self.limits)

    def allows(self, version: str) -> bool:
        """Tell whether a version keeps every limit; one that is not final (1.0rc1) does not."""
        key = order(version)
        return key is not None and all(_COMPARE[sign](key, order(limit) or ()) for sign, limit in self.limits)


def order(version: str) -> Version | None:
    """The key by which final versions are ordered; None for others.

    >>> order("1.10") > order("1.9.3"), order("2.0") == order("2.0.0"), order("2.0.post1") > order("2")
    (True, True, True)
    >>> order("2.0rc1") is None
    True
    """
    found = _VERSION.fullmatch(version)
    if found is None:
        return None
    numbers = [int(part) for part in found["release"].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return (*numbers, -1, int(found["post"])) if found["post"] else (*numbers, -2)


def read_bound(line: str) -> Bound:
    """Read one requirement.

    >>> read_bound('shapely<3,>=2.0; extra == "geo"')
    Bound(name='shapely', limits=(('<', '3'), ('>=', '2.0')), extra='geo')

    Error: ValueError for a form that is not known, such as `~=` or another marker than the extra.
    """
    found = _REQUIREMENT.fullmatch(line.strip())
    limits = [limit.strip() for limit in (found["limits"] if found else "").split(",") if limit.strip()]
    read = [_LIMIT.fullmatch(limit) for limit in limits]
    if found is None or not all(read):
        raise ValueError(f"requirement ({line}) has a form that this job does not read; teach it, or write it plainly")
    name = re.sub(r"[-_.]+", "-", found["name"]).lower()
    return Bound(name=name, limits=tuple((one[1], one[2]) for one in read if one), extra=found["extra"] or "")


def declared(wheel: Path) -> list[Bound]:
    """Every bound in the metadata of a wheel.

    Error: ValueError if two extras state different bounds for one package, or a bound has no lowest version.
    """
    with zipfile.ZipFile(wheel) as files:
        inside = next(name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        head = Parser().parsestr(files.read(inside).decode("utf-8"), headersonly=True)
    bounds = [read_bound(line) for line in head.get_all("Requires-Dist", [])]
    stated: dict[str, Bound] = {}
    for bound in bounds:
        first = stated.setdefault(bound.name, bound)
        if sorted(first.limits) != sorted(bound.limits):
            raise ValueError(f"{bound.name} has two bounds: {first} and {bound}; state one")
        if not any(sign in (">=", "==") for sign, _ in bound.limits):
            raise ValueError(f"{bound.name} has no lowest version; state one with >=")
    return bounds


def lowest(bound: Bound, available: Iterable[str]) -> str:
    """The lowest version that keeps a bound, of those that can be had.

    >>> lowest(read_bound("numpy>=2.0"), ["2.3.1", "2.1.0", "1.26.4"])
    '2.1.0'

    Error: ValueError if there is none.
    """
    allowed = [version for version in available if bound.allows(version)]
    if not allowed:
        raise ValueError(f"no wheel of {bound.name} for this Python is within its bounds")
    return min(allowed, key=lambda version: order(version) or ())
