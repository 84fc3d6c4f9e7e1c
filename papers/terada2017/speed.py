"""How long one table takes, beside the paper's times: as ratios between methods, since machines differ."""

from __future__ import annotations

import time

from papers.terada2017.rows import PAPER, ROWS, Trial
from papers.terada2017.tables import EXPECTED, SIZES
from sudare.noise import system_rng

TIMED = ("proposed", "projection", "default", "default-ordered", "pram", "synth-lap", "synth-md")
EPSILON = "0.1"
REPEATS = (50, 30, 15)


def speed_lines(*, share: float = 1.0) -> list[str]:
    """A table in Markdown: milliseconds of this run, and every time as a multiple of the proposed method's."""
    found = [_times(place, max(3, round(repeats * share))) for place, repeats in enumerate(REPEATS)]
    cells = " | ".join(f"p = {size['items'] * 10:,}" for size in SIZES)
    lines = [
        "Milliseconds from table to table at epsilon = 0.1, the best of several runs, and in brackets the multiple of",
        "the proposed method's in the same run. The paper's lines are its own run: Python 2.7 on a 2.3 GHz notebook.",
        "",
        f"| | {cells} |",
        "|---|---:|---:|---:|",
    ]
    paper = EXPECTED["milliseconds"]
    lines += [_line(f"paper: {PAPER[name]}", times, paper["proposed"]) for name, times in paper.items()]
    ours = {name: [one[name] for one in found] for name in TIMED}
    return lines + [_line(ROWS[name].title, times, ours["proposed"]) for name, times in ours.items()]


def _times(place: int, repeats: int) -> dict[str, float]:
    size = SIZES[place]
    trial = Trial.make(items=size["items"], records=size["records"], seed=0)
    return {name: 1000 * _best(name, trial, repeats) for name in TIMED}


def _best(name: str, trial: Trial, repeats: int) -> float:
    row, taken = ROWS[name], []
    row.draw(trial.declared[row.data], EPSILON, system_rng())  # tables of the noise are made once
    for _ in range(repeats):
        start = time.perf_counter()
        row.draw(trial.declared[row.data], EPSILON, system_rng())
        taken.append(time.perf_counter() - start)
    return min(taken)  # whatever else the machine does can only add to it


def _line(title: str, times: list[float], base: list[float]) -> str:
    cells = [f"{_short(one)} ({_short(one / unit)})" for one, unit in zip(times, base, strict=False)]
    return f"| {title} | {' | '.join([*cells, *['-'] * (len(SIZES) - len(cells))])} |"


def _short(number: float) -> str:
    """Two or three digits, never an exponent.

    >>> _short(0.2077), _short(16.24), _short(5761.9)
    ('0.21', '16.2', '5,762')
    """
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"
