"""How fast views made of blocks are published, and how that grows with the domain: CPU seconds, at epsilon = 1.

    python -m benchmarks.view_blocks [--large] [--growth] [--save]

`speed` publishes by Mondrian and HDPView: Adult (15 columns, and the 7 numeric ones) where it is beside the project,
and made-up tables of 9 columns; `--large` adds 2 million rows. The first run of a process builds its tables of noise
and is told apart from the later ones. The authors' HDPView code took 167 CPU s on the 7 numeric columns; that was
measured elsewhere, so the ratio to it is one across machines.

`growth` publishes 1e5 records over 1e2 to 1e32 cells by every method (figure 5 of the paper). `--save` keeps all of it
as JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from papers.kato_view.data import is_here, load

from sudare.counts import Counts
from sudare.methods.view import View
from sudare.noise import SystemRng
from sudare.testing import Tabled
from sudare.testing.subject import schema_of

AUTHORS = 167.0
BLOCKS = ("mondrian", "hdpview")
METHODS = (*BLOCKS, "product", "model")
POWERS = (2, 4, 8, 12, 16, 20, 24, 28, 32)
RECORDS = 100_000
RESULTS = Path(__file__).parent / "results"


def speed(*, large: bool = False) -> list[dict[str, Any]]:
    """CPU seconds of the two block methods on every table."""
    tables: dict[str, Callable[[], Counts]] = {}
    if is_here():
        tables = {"adult, 7 numeric": lambda: load("numeric-adult"), "adult, 15 columns": lambda: load("adult")}
    tables["500,000 x 9"] = lambda: chained(500_000, 9)
    if large:
        tables["2,000,000 x 9"] = lambda: chained(2_000_000, 9)
    found = []
    for name, make in tables.items():
        counts = make()
        found += [{"table": name, "records": counts.total, **timed(method, counts)} for method in BLOCKS]
    for row in found:
        if row["table"].endswith("numeric"):
            row["times_faster_than_authors"] = round(AUTHORS / row["seconds"])
    return found


def timed(method: str, counts: Counts, *, runs: int = 3) -> dict[str, Any]:
    """The first run, the median of the later ones, and what came out."""
    view = View(epsilon=1, algorithm=method, neighbours="add-remove")  # type: ignore[arg-type]
    seconds = []
    for _ in range(runs):
        begun = time.process_time()
        release = view.publish(Tabled(counts), rng=SystemRng())
        seconds.append(time.process_time() - begun)
    told = {"method": method, "first_seconds": seconds[0], "seconds": statistics.median(seconds[1:])}
    return {**told, "blocks": release.frames["blocks"].rows} if "blocks" in release.frames else told


def chained(rows: int, columns: int) -> Counts:
    """Attributes of 100 values in a chain, each following the one before it half of the time."""
    generator = np.random.default_rng(1)
    table = [generator.integers(0, 100, rows)]
    for _ in range(columns - 1):
        table.append(np.where(generator.random(rows) < 0.5, table[-1], generator.integers(0, 100, rows)))
    return Counts.from_columns(schema_of(*[100] * columns), np.column_stack(table))


def scattered(power: int, records: int = RECORDS) -> Counts:
    """Records over 10**power cells, `power` attributes of ten values, around twenty centres."""
    generator = np.random.default_rng(1)
    centres = generator.uniform(0, 10, (20, power))
    rows = centres[generator.integers(0, 20, records)] + generator.normal(0, 1.5, (records, power))
    return Counts.from_columns(schema_of(*[10] * power), np.clip(rows, 0, 9.999).astype(np.int64))


def growth(powers: tuple[int, ...] = POWERS, *, records: int = RECORDS) -> list[dict[str, Any]]:
    """CPU seconds of every method over 10**power cells; `ratio` is to the smallest domain by the same method."""
    found: list[dict[str, Any]] = []
    for power in powers:
        counts = scattered(power, records)
        found += [{"power": power, "records": records, **timed(method, counts)} for method in METHODS]
    least = {row["method"]: row["seconds"] for row in found if row["power"] == powers[0]}
    return [{**row, "ratio": row["seconds"] / least[row["method"]]} for row in found]


def exponent(rows: list[dict[str, Any]], method: str) -> float:
    """The power of the domain's size that a method's seconds grow with, by least squares in logarithms: 1 is linear."""
    mine = [row for row in rows if row["method"] == method]
    return float(np.polyfit([row["power"] for row in mine], np.log10([row["seconds"] for row in mine]), 1)[0])


def show(found: dict[str, Any]) -> None:
    """Print what was measured."""
    for row in found["speed"]:
        ratio = f", {row['times_faster_than_authors']:,} x" if "times_faster_than_authors" in row else ""
        print(f"{row['table']:20} {row['method']:9} {row['seconds']:7.3f} s (first {row['first_seconds']:.3f}){ratio}")
    for row in found.get("growth", []):
        print(f"1e{row['power']:<3} cells {row['method']:9} {row['seconds']:7.3f} s, {row['ratio']:6.1f} times 1e2")
    for method, power in found.get("exponents", {}).items():
        print(f"{method:9} grows with the domain to the power {power:.3f}")


def main(argv: list[str]) -> None:
    found: dict[str, Any] = {
        "authors_seconds": AUTHORS,
        "authors_measured": "elsewhere: the authors' HDPView code on the 7 numeric columns of Adult",
        "speed": speed(large="--large" in argv or "--save" in argv),
    }
    if "--growth" in argv or "--save" in argv:
        found["growth"] = growth()
        found["exponents"] = {method: exponent(found["growth"], method) for method in METHODS}
    show(found)
    if "--save" in argv:
        (RESULTS / "view_blocks.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
