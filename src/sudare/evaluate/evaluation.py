"""A figure that was computed from the truth, and therefore must not leave."""

from __future__ import annotations

from typing import NoReturn

from sudare.errors import ReleaseError

STAMP = "not for publication"


class Evaluation:
    """One figure of a comparison with the truth: read `value`, show it to the steward, store it nowhere.

    It has no way into a file: no JSON, no pickle, no copy; a writer of releases does not take it.

    >>> Evaluation("L2 distance", 12.5)
    <Evaluation, not for publication: L2 distance 12.5>
    """

    __slots__ = ("name", "value")

    name: str
    value: float

    def __init__(self, name: str, value: float) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "value", value)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("an Evaluation is immutable")

    def __repr__(self) -> str:
        return f"<Evaluation, {STAMP}: {self.name} {self.value:.6g}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse to be stored."""
        raise ReleaseError("an evaluation is computed from the true table and not for publication; it is not stored")
