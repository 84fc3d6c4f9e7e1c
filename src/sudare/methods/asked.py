"""What methods under differential privacy ask of their parameters and of the counts they get, alike in all of them."""

from __future__ import annotations

from collections.abc import Sequence

from sudare.counts import Counts
from sudare.errors import DomainError, ParameterError, SourceError
from sudare.schema import Schema


def attributes_asked(by: Sequence[str] | str | None) -> tuple[str, ...] | None:
    """Read the names of the attributes to publish; None stands for all of them.

    >>> attributes_asked("age"), attributes_asked(["age", "sex"])
    (('age',), ('age', 'sex'))
    """
    if by is None:
        return None
    names = (by,) if isinstance(by, str) else tuple(by)
    if not names:
        raise ParameterError("by must name at least one attribute")
    return names


def check_facts(counts: Counts, schema: Schema) -> None:
    """Refuse counts over other facts than those promised for, before anything is spent."""
    if counts.schema is not schema and counts.schema.fingerprint != schema.fingerprint:
        raise SourceError("the source counts over another schema than it declares; it cannot be trusted")
    if schema.impossible and bool(schema.is_impossible(counts.columns()).any()):
        raise DomainError("rows fall in combinations declared impossible; see `sudare schema check`")
