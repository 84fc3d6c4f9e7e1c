"""`python -m papers terada_tables`: tables 1-2 in both readings and figures 1-4, in one run of some ten seconds.

A full run writes results.md and pictures/*.svg, always with the same noise. `python -m papers.terada_tables --quick`
takes fewer data sets and writes nothing; `--mesh FILE ...` runs the tables on mesh files of e-Stat and writes nothing
either.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from papers.terada_tables.figures import draw_figures
from papers.terada_tables.tables import BLOCKS, EXPECTED, ROWS, Found, from_files, made_up, run, surprises

RESULTS = Path(__file__).with_name("results.md")
DATA_SETS = 10
SEED = 2017

HEADER = """# Terada et al., large sparse tables: results of one run

Written by `python -m papers terada_tables`. Means over {sets} data sets of {cells:,} cells, epsilon = 0.1. What the
rows are, and why figures differ: README.md.
"""


def reproduce(*, share: float = 1.0, mesh_files: Sequence[str] = ()) -> bool:
    """Run everything and tell whether the figures that can be held against the print agree with it."""
    start = time.perf_counter()
    if mesh_files:
        vectors = [from_files(mesh_files)]
    else:
        vectors = [made_up(seed) for seed in range(1, max(2, round(DATA_SETS * share)) + 1)]
    found = run(vectors, seed=SEED)
    shuffled = run([np.random.default_rng(SEED).permutation(v) for v in vectors[:3]], seed=SEED + 1)
    lines = [HEADER.format(sets=len(vectors), cells=len(vectors[0])), *_tables(found), *_sweep(found, shuffled)]
    print("\n".join(lines))
    odd = [] if mesh_files else surprises(found)
    if share >= 1.0 and not mesh_files:
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
        draw_figures(RESULTS.with_name("pictures"))
    print(f"\n{time.perf_counter() - start:.0f} s", *(f"beyond tolerance: {one}" for one in odd), sep="\n")
    return not odd


def _tables(found: Found) -> list[str]:
    lines = []
    for table in EXPECTED["table"]:
        cells = table["cells"]
        lines += [
            f"## Table {table['number']}: blocks of {cells:,} cells\n",
            "| | as printed: Var/cells (plain: Var) | like for like: Var of a block sum | RMSE |",
            "|---|---:|---:|---:|",
        ]
        for name in ("privelet", "proposed"):
            mean = float(np.mean(table[name]))
            lines.append(f"| paper: {name} | {mean:,.1f} | {mean * cells:,.0f} | {(mean * cells) ** 0.5:,.0f} |")
        lines.append(f"| paper: plain, add/remove noise | {table['plain']:,} | {table['plain']:,} | |")
        for name, (title, _) in ROWS.items():
            mean = float(np.mean(found[name, cells]))
            printed = mean if name.startswith(("plain", "clipped")) else mean / cells
            lines.append(f"| {title} | {printed:,.1f} | {mean:,.0f} | {mean**0.5:,.0f} |")
        lines.append("")
    return lines


def _sweep(found: Found, shuffled: Found) -> list[str]:
    lines = []
    for head, figures in (("in Z-order", found), ("shuffled (3 data sets)", shuffled)):
        blocks = [cells for cells in BLOCKS if ("plain", cells) in figures]
        lines += [
            f"## RMSE of block sums, cells {head}\n",
            f"| cells of a block | {' | '.join(f'{cells:,}' for cells in blocks)} |",
            "|---|" + "---:|" * len(blocks),
        ]
        for name, (title, _) in ROWS.items():
            values = (float(np.mean(figures[name, cells])) ** 0.5 for cells in blocks)
            lines.append(f"| {title} | {' | '.join(f'{value:,.0f}' for value in values)} |")
        lines.append("")
    return lines
