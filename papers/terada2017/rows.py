"""The rows of the tables: whose output, drawn how, from which declaration of the same data."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers.baselines import Mwem, Pram, SynthLap, SynthMd, WassermanZhou
from sudare.counts import Counts
from sudare.demo.data import sales
from sudare.methods.microdata import Microdata
from sudare.noise import Rng
from sudare.postprocess import find_nearest_point, round_by_remainder
from sudare.schema import Attribute, Schema, Unit, Values

EPSILONS = {"ln2": "0.693147180559945", "ln3": "1.098612288668110"}
PAPER = {"proposed": "proposed", "pram": "PRAM", "synth-lap": "Synth-Lap", "synth-md": "Synth-MD"}  # its rows
SEXES = ("M", "F")
DECADES = ("20", "30", "40", "50", "60")

Table = NDArray[np.int64]
Draw = Callable[[Counts, str, Rng], Counts]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One way to publish. `printed` names the row of the paper it is held against; `data` the declaration it sees."""

    title: str
    draw: Draw
    data: str = "unordered"  # "ordered": item codes have an order; "permuted": shuffled codes without one
    printed: str | None = None
    only_small: bool = False
    off_at: tuple[str, ...] = ()  # the epsilons at which it must differ from the print, for a reason told in README.md


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One table of the paper's generator, declared in three ways; the truth is the same."""

    declared: dict[str, Counts]
    dense: dict[str, Table]

    @classmethod
    def make(cls, *, items: int, records: int, seed: int) -> Trial:
        """Draw the data anew (the paper does so in every trial)."""
        columns = sales(items=items, records=records, seed=seed)
        plain = Counts.from_columns(schema(items), columns)
        shuffled = plain.columns().copy()
        shuffled[:, 0] = np.random.default_rng(seed).permutation(items)[shuffled[:, 0]]
        declared = {
            "unordered": plain,
            "ordered": Counts(schema(items, is_ordered=True), plain.codes, plain.values, plain.total),
            "permuted": Counts.from_columns(schema(items), shuffled, plain.values),
        }
        return cls(declared=declared, dense={name: counts.dense() for name, counts in declared.items()})


@functools.cache
def schema(items: int, *, is_ordered: bool = False) -> Schema:
    """Item, sex and decade of age (section 5.1); only the item is ever declared as ordered."""
    item = Values(values=tuple(f"h{k}" for k in range(1, items + 1)), is_ordered=is_ordered)
    domains = {"item": item, "sex": Values(values=SEXES), "age": Values(values=DECADES)}
    attributes = tuple(Attribute(name=name, domain=domain) for name, domain in domains.items())
    return Schema(name="sales", unit=Unit(), attributes=attributes)


def exact_text(epsilon: str) -> str:
    """The epsilon as a number: ln2 and ln3 are written out to 15 digits."""
    return EPSILONS.get(epsilon, epsilon)


def as_printed(truth: Counts, epsilon: str, rng: Rng) -> Counts:
    """The paper's method as printed: Laplace noise in floats, then its three steps. Never for a release."""
    generator = np.random.default_rng(rng.bits(128))
    noisy = truth.dense() + generator.laplace(scale=2 / float(epsilon), size=truth.schema.size)
    table = round_by_remainder(find_nearest_point(noisy, total=float(truth.total)), total=truth.total, rng=rng)
    return Counts.build(truth.schema, np.flatnonzero(table)[:, None], table[table > 0])


def by(kind: Callable[..., Any], **parameters: object) -> Draw:
    """Draw by a method or baseline of the given parameters."""
    return lambda truth, epsilon, rng: kind(epsilon=epsilon, **parameters).draw(truth, rng=rng)


ours = by(Microdata, algorithm="auto")

ROWS = {
    "proposed": Row(title="proposed, run again", draw=as_printed, printed="proposed"),
    "projection": Row(title="ours: projection", draw=by(Microdata, algorithm="projection")),
    "default": Row(title="ours: default, items unordered", draw=ours),
    "default-ordered": Row(title="ours: default, items ordered", draw=ours, data="ordered"),
    "pram": Row(title="PRAM by the text", draw=by(Pram), printed="pram", off_at=("10",)),
    "pram-print": Row(title="PRAM by the other reading", draw=by(Pram, reading="print"), printed="pram"),
    "synth-lap": Row(title="Synth-Lap, run again", draw=by(SynthLap, noise="laplace"), printed="synth-lap"),
    "synth-md": Row(title="Synth-MD, redrawn per record", draw=by(SynthMd, reading="redraw"), printed="synth-md"),
    "synth-md-once": Row(
        title="Synth-MD, drawn once", draw=by(SynthMd), printed="synth-md", off_at=("10", "100"), only_small=True
    ),
    "wasserman-zhou": Row(title="Wasserman-Zhou", draw=by(WassermanZhou), only_small=True),
    "mwem-cells": Row(title="MWEM, 10 rounds on cells", draw=by(Mwem), only_small=True),
    "mwem-pairs": Row(
        title="MWEM, 10 rounds on pairs of attributes",
        draw=by(Mwem, queries="two-way", sweeps=10, average=False),
        only_small=True,
    ),
    "proposed-permuted": Row(title="proposed, item codes permuted", draw=as_printed, data="permuted"),
    "default-permuted": Row(title="ours: default, item codes permuted", draw=ours, data="permuted"),
}
