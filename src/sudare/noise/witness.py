"""Draws that can be watched: an exact check of a promise sees every private number beside the noise it gets.

A sampler that takes private numbers is marked `watched`. With an ordinary generator the mark changes nothing: the
sampler runs, on the same random bytes. With a `WatchedRng` the call goes to its witness instead, which may run the
sampler, keep what it gave, and give the same again to a run on another table (`verify.replay`).

What a watched sampler must be: the private numbers are its first argument, everything that its law depends on is given
by keyword, and so is `rng`. Draws that see public numbers only (orders, ties, values inside a bin) are not watched.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, Protocol, TypeVar

from sudare.noise.rng import SeededRng

Given = ParamSpec("Given")
Drawn = TypeVar("Drawn")


class Witness(Protocol):
    """Whoever sees the private draws of a run."""

    def see(self, sample: Callable[..., Any], private: Any, law: Mapping[str, Any]) -> Any:
        """Take a call: the sampler, its private numbers, the keywords of its law without `rng`. Give what it draws."""


class WatchedRng(SeededRng):
    """A seeded stream whose private draws go to a witness; all others are drawn as always.

    A release made with it is stamped as one for tests, like that of every seeded stream.
    """

    def __init__(self, seed: int, *, witness: Witness) -> None:
        super().__init__(seed)
        self.witness = witness


def watched(sample: Callable[Given, Drawn]) -> Callable[Given, Drawn]:
    """Mark a sampler that takes private numbers: a witness sees its calls."""

    @functools.wraps(sample)
    def draw(*private: Given.args, **law: Given.kwargs) -> Drawn:
        rng = law.get("rng")
        if not isinstance(rng, WatchedRng):
            return sample(*private, **law)
        seen = {name: value for name, value in law.items() if name != "rng"}
        drawn: Drawn = rng.witness.see(sample, private[0] if len(private) == 1 else private, seen)
        return drawn

    return draw
