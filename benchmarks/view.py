"""How fast views are made and answer: CPU seconds on made-up tables, and on Adult where it is beside the project.

The authors' HDPView code takes 167 CPU s for the 7 numeric columns of Adult (its own blocks, on another run).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
from papers.kato_view.data import is_here, load

from sudare.compare.distances import random_ranges
from sudare.counts import Counts
from sudare.methods.view import View, open_view
from sudare.noise import SystemRng
from sudare.testing import Tabled
from sudare.testing.subject import schema_of

AUTHORS = 167.0


def seconds(work: Callable[[], object]) -> float:
    """CPU time of one run."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def made_up(rows: int, columns: int) -> Counts:
    """Attributes of 100 values in a chain, each following the one before it half of the time."""
    generator = np.random.default_rng(1)
    table = [generator.integers(0, 100, rows)]
    for _ in range(columns - 1):
        table.append(np.where(generator.random(rows) < 0.5, table[-1], generator.integers(0, 100, rows)))
    return Counts.from_columns(schema_of(*[100] * columns), np.column_stack(table))


def main(argv: list[str]) -> None:
    tables = {"500,000 x 9": made_up(500_000, 9)}
    if "--large" in argv:
        tables["2,000,000 x 9"] = made_up(2_000_000, 9)
    if is_here():
        tables |= {"adult, 15 columns": load("adult"), "adult, 7 numeric": load("numeric-adult")}
    for name, table in tables.items():
        for method in ("model", "mondrian"):
            view = View(epsilon=1, algorithm=method, neighbours="add-remove")  # type: ignore[arg-type]
            spent = seconds(lambda view=view, table=table: view.draw(table, rng=SystemRng()))
            ratio = f", {AUTHORS / spent:,.0f} times the authors'" if name.endswith("numeric") else ""
            print(f"{name:20} {method:10} {spent:7.2f} CPU s{ratio}")
    answers(next(iter(tables.values())))


def answers(table: Counts) -> None:
    """3,000 ranges over three attributes, with and without intervals, and one by one."""
    view = open_view(View(epsilon=1).publish(Tabled(table), rng=SystemRng()))
    lows, highs = random_ranges(table.schema, 3, queries=3000, rng=SystemRng())
    print(f"3,000 ranges             {seconds(lambda: view.ranges(lows, highs)):7.2f} CPU s")
    print(f"3,000 with intervals     {seconds(lambda: view.stored.range_moments(lows, highs)):7.2f} CPU s")
    one = seconds(lambda: [view.count(a0=[f"v{k}" for k in range(30)], a5="v3") for _ in range(100)]) / 100
    print(f"one count, with interval {1000 * one:7.2f} CPU ms")


if __name__ == "__main__":
    main(sys.argv[1:])
