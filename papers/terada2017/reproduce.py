"""`python -m papers terada2017`: tables 1-6 and figures 3-8, ours beside the paper's, in one run.

A full run writes results.md, pictures/*.svg and a table of README.md beside this file, always with the same noise (seed
2017), so that a change of them is a change of the code; tests/golden/test_terada2017.py compares the two.
Times, which change, are written to speed.md. `python -m papers.terada2017 --quick` takes a tenth of the trials and
writes nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from papers.baselines import SynthMd
from papers.terada2017.figures import draw_figures
from papers.terada2017.rows import PAPER, ROWS, exact_text, schema
from papers.terada2017.speed import speed_lines
from papers.terada2017.tables import EPSILONS, MEASURES, SIZES, Found, is_shown, near, run, surprises

RESULTS = Path(__file__).with_name("results.md")
SPEED = Path(__file__).with_name("speed.md")
README = Path(__file__).with_name("README.md")
GLANCE = ("proposed", "projection", "default", "default-ordered")
GLANCE_START, GLANCE_END = "<!-- glance: written by a full run -->", "<!-- end -->"
SEED = 2017
FEWEST_TRIALS = 5
HEADS = {"l2": "L2 distance", "ks": "KS distance, %"}

HEADER = """# Terada 2017: results of one run

Written by `python -m papers terada2017`. Means over trials with the data drawn anew in each; "paper:" lines are printed
values. **Bold** is off the print by more than its tolerance, and the README says why. What the rows are: README.md.
"""


def reproduce(*, share: float = 1.0) -> bool:
    """Run everything and tell whether every figure is the printed one, save those whose deviation is explained.

    `share` of the trials; only a whole run is written to results.md and pictures/.
    """
    start = time.perf_counter()
    lines, odd, all_found = [HEADER], [], []
    for size in SIZES:
        trials = max(FEWEST_TRIALS, round(size["trials"] * share))
        found = run(size, trials=trials, seed=SEED)
        odd += surprises(size, found)
        all_found.append(found)
        lines += section_lines(size, found, trials)
        print("\n".join(section_lines(size, found, trials)), flush=True)
    rest = ["## What the named epsilon really keeps\n", *promise_lines()]
    speed = ["# Terada 2017: times of one run\n", *speed_lines(share=share)]
    print("\n".join([*rest, *speed]))
    if share >= 1.0:
        RESULTS.write_text("\n".join([*lines, *rest]) + "\n", encoding="utf-8")
        SPEED.write_text("\n".join(speed) + "\n", encoding="utf-8")
        _write_glance(all_found)
        draw_figures()
    print(f"\n{time.perf_counter() - start:.0f} s", *(f"beyond tolerance: {one}" for one in odd), sep="\n")
    return not odd


def section_lines(size: Mapping[str, Any], found: Found, trials: int) -> list[str]:
    first, second = size["tables"]
    cells, records = size["items"] * 10, size["records"]
    lines = [f"## Tables {first} and {second}: p = {cells:,}, n = {records:,}, {trials} trials\n"]
    for measure in MEASURES:
        heads = " | ".join(epsilon.replace("ln", "ln ") for epsilon in EPSILONS)
        lines += [f"| {HEADS[measure]}, epsilon = | {heads} |", "|---|" + "---:|" * len(EPSILONS)]
        lines += [line for name in ROWS for line in row_lines(size, name, measure, found)]
        lines.append("")
    return lines


def row_lines(size: Mapping[str, Any], name: str, measure: str, found: Found) -> list[str]:
    """A row of ours, under the printed one if it is the first that is held against it."""
    row = ROWS[name]
    if not is_shown(size, row):
        return []
    lines = []
    target = size["printed"].get(row.printed)
    if row.printed and target and next(one for one in ROWS if ROWS[one].printed == row.printed) == name:
        lines.append(f"| paper: {PAPER[row.printed]} | {' | '.join(f'{value:,}' for value in target[measure])} |")
    cells = []
    for epsilon in EPSILONS:
        cell = found[name, epsilon]
        text = write_figure(cell.mean(measure), measure)
        cells.append(f"**{text}**" if near(size, name, measure, epsilon, cell) is False else text)
    return [*lines, f"| {row.title} | {' | '.join(cells)} |"]


def write_figure(value: float, measure: str) -> str:
    """Write a mean distance as the page shows it."""
    if measure == "ks":
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 999.5 else f"{value:,.0f}"


def glance_lines(all_found: list[Found]) -> list[str]:
    """Both distances at the smallest epsilon, the three sizes side by side."""
    heads = " | ".join(f"p = {size['items'] * 10:,}" for size in SIZES)
    lines = [f"| | {heads} |", "|---|" + "---:|" * len(SIZES)]
    pairs = [(size["printed"]["proposed"]["l2"][0], size["printed"]["proposed"]["ks"][0]) for size in SIZES]
    lines.append(f"| paper: proposed | {' | '.join(f'{l2:,} / {ks}' for l2, ks in pairs)} |")
    for name in GLANCE:
        cells = [found[name, EPSILONS[0]] for found in all_found]
        texts = [f"{write_figure(cell.mean('l2'), 'l2')} / {cell.mean('ks'):.1f}" for cell in cells]
        lines.append(f"| {ROWS[name].title} | {' | '.join(texts)} |")
    return lines


def _write_glance(all_found: list[Found]) -> None:
    before, rest = README.read_text(encoding="utf-8").split(GLANCE_START)
    after = rest[rest.index(GLANCE_END) :]
    README.write_text("\n".join([before + GLANCE_START, *glance_lines(all_found), after]), encoding="utf-8")


def promise_lines() -> list[str]:
    """The epsilon that PRAM by the other reading and the redrawn Synth-MD keep, by the epsilon they are named after."""
    lines = [
        "The largest log likelihood ratio between neighbouring tables (exact formulas, proofs/baselines.md).",
        "",
        f"| named epsilon = | {' | '.join(epsilon.replace('ln', 'ln ') for epsilon in EPSILONS)} |",
        "|---|" + "---:|" * len(EPSILONS),
    ]
    for size in SIZES:
        table = schema(size["items"])
        grown = [math.expm1(float(exact_text(one))) for one in EPSILONS]
        real = [sum(math.log1p(values / table.size * one) for values in table.sizes) for one in grown]
        lines.append(_promises(f"PRAM by the other reading, p = {table.size:,}", real))
    for size in SIZES:
        real = [SynthMd(epsilon=exact_text(one), reading="redraw").real_epsilon(size["records"]) for one in EPSILONS]
        lines.append(_promises(f"Synth-MD, redrawn per record, n = {size['records']:,}", real))
    return lines


def _promises(title: str, real: list[float]) -> str:
    return f"| {title} | {' | '.join(_short(value) for value in real)} |"


def _short(value: float) -> str:
    """Three digits.

    >>> _short(0.012345), _short(11639.3)
    ('0.0123', '11,600')
    """
    if value < 1000:
        return f"{value:.3g}"
    unit = 10 ** (math.floor(math.log10(value)) - 2)
    return f"{round(value / unit) * unit:,}"
