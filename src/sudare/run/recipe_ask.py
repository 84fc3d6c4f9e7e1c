"""What a release will ask of a ledger, found out by running its method up to the spend and no further."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn

import numpy as np

from sudare.counts import Countable, Counts
from sudare.errors import ReleaseError
from sudare.privacy import Guarantee, Neighbours, Unrecorded
from sudare.run.publish import Method
from sudare.schema import Schema


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """The parts of a spend, by purpose, and the promise they add up to."""

    parts: Mapping[str, Fraction]
    guarantee: Guarantee


class _Reached(Exception):  # noqa: N818
    def __init__(self, need: Need) -> None:
        self.need = need


class _Question(Unrecorded):
    """A purse that stops its method at the spend: before it nothing is drawn, and here nothing is spent."""

    def spend(self, parts: Mapping[str, Fraction], *, guarantee: Guarantee) -> NoReturn:
        raise _Reached(Need(parts=dict(parts), guarantee=guarantee))


@dataclass(frozen=True, kw_only=True, slots=True)
class Nobody:
    """A source without rows: with it a method checks parameters and schema, and no data."""

    schema: Schema

    def count(self, by: Sequence[str] | None = None) -> Counts:
        """Count no rows."""
        chosen = self.schema if by is None else self.schema.select(by)
        return Counts.from_columns(chosen, np.empty((0, len(chosen.attributes)), dtype=np.int64))


def ask(method: Method, source: Countable, *, neighbours: Neighbours) -> Need:
    """Tell what a method will spend; everything that it refuses before the spend is refused here.

    >>> from sudare.methods.microdata import Microdata
    >>> from sudare.schema import Attribute, Values
    >>> sex = Attribute(name="sex", domain=Values(values=("F", "M")))
    >>> source = Nobody(schema=Schema(name="s", attributes=(sex,)))
    >>> dict(ask(Microdata(epsilon="1/2"), source, neighbours="replace").parts)
    {'noise in every cell': Fraction(1, 2)}
    """
    try:
        method.publish(source, ledger=_Question(neighbours=neighbours))
    except _Reached as reached:
        return reached.need
    raise ReleaseError("the method spends nothing, which a recipe cannot plan for; please report it")
