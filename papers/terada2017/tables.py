"""Tables 1-6: mean distances over trials, and whether they are those of the print."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from papers.terada2017.rows import ROWS, Row, Table, Trial, exact_text
from sudare.noise import SeededRng

EXPECTED: dict[str, Any] = tomllib.loads(Path(__file__).with_name("expected.toml").read_text(encoding="utf-8"))
EPSILONS: list[str] = EXPECTED["epsilons"]
SIZES: list[dict[str, Any]] = EXPECTED["size"]
MEASURES = ("l2", "ks")
DUST = 1e-9

Found = Mapping[tuple[str, str], "Cell"]  # by row and epsilon


@dataclass(frozen=True, kw_only=True)
class Cell:
    """L2 and KS (in per cent) of every trial."""

    l2: np.ndarray
    ks: np.ndarray

    def mean(self, measure: str) -> float:
        return float(getattr(self, measure).mean())

    def deviation(self, measure: str) -> float:
        values = getattr(self, measure)
        return float(values.std(ddof=1)) if values.size > 1 else float(values.mean())


def distances(truth: Table, published: Table) -> tuple[float, float]:
    """L2, and the largest difference of the cumulative counts over all cells in per cent of the records.

    The same figures as sudare.compare's, on dense tables, where they cost a tenth.
    """
    off = published - truth
    return math.sqrt(float(off @ off)), 100 * float(np.abs(np.cumsum(off)).max()) / max(int(truth.sum()), 1)


def run(
    size: Mapping[str, Any], *, trials: int, seed: int, rows: Iterable[str] = ROWS, epsilons: Iterable[str] = EPSILONS
) -> Found:
    """Publish the table of every trial by every row at every epsilon, and measure how far it is from the truth.

    Every figure of every trial has a stream of its own, so that a change of one method changes no other row, and a
    spare unit that falls otherwise (two shares that are equal but for float dust) changes no other figure.
    """
    measured: dict[tuple[str, str], list[tuple[float, float]]] = {}
    shown = [name for name in rows if is_shown(size, ROWS[name])]
    for number in range(trials):
        trial = Trial.make(items=size["items"], records=size["records"], seed=number)
        for name in shown:
            row = ROWS[name]
            for epsilon in epsilons:
                rng = SeededRng(seed + crc32(f"{name} {epsilon} {number}".encode()))
                out = row.draw(trial.declared[row.data], exact_text(epsilon), rng)
                found = distances(trial.dense[row.data], out.dense())
                measured.setdefault((name, epsilon), []).append(found)
    return {key: Cell(l2=np.array(found)[:, 0], ks=np.array(found)[:, 1]) for key, found in measured.items()}


def is_shown(size: Mapping[str, Any], row: Row) -> bool:
    """The slow and the hopeless are shown for the smallest size only, as in the paper."""
    return not row.only_small or bool(size["items"] == SIZES[0]["items"])


def printed(size: Mapping[str, Any], name: str, measure: str, epsilon: str) -> float | None:
    """The figure of the paper that a row is held against, if it has one."""
    values: list[float] | None = size["printed"].get(ROWS[name].printed, {}).get(measure)
    return None if values is None else values[EPSILONS.index(epsilon)]


def tolerance(target: float, cell: Cell, measure: str) -> float:
    """Rounding of the print, plus so many standard errors of the difference of two means."""
    trials = int(getattr(cell, measure).size)
    rounding = 0.5 if isinstance(target, int) else 0.05
    error = cell.deviation(measure) * math.sqrt(1 / trials + 1 / EXPECTED["papers_trials"])
    doubt = 1 + 8 / trials  # few trials know their own spread badly
    return rounding + float(EXPECTED["standard_errors"]) * doubt * error + DUST


def near(size: Mapping[str, Any], name: str, measure: str, epsilon: str, cell: Cell) -> bool | None:
    """Whether a figure is the printed one; None if nothing is printed."""
    target = printed(size, name, measure, epsilon)
    return None if target is None else abs(cell.mean(measure) - target) <= tolerance(target, cell, measure)


def surprises(size: Mapping[str, Any], found: Found) -> list[str]:
    """The cells that are not as expected: off where they should agree, or agreeing (in L2) where they should not."""
    odd = []
    for (name, epsilon), cell in found.items():
        is_off = epsilon in ROWS[name].off_at
        for measure in MEASURES:
            verdict = near(size, name, measure, epsilon, cell)
            if (verdict is False and not is_off) or (verdict is True and is_off and measure == "l2"):
                target = printed(size, name, measure, epsilon)
                odd.append(f"{name} at {epsilon}, {measure}: {cell.mean(measure):.4g}, printed {target}")
    return odd
