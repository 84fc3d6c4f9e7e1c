"""Searches under t-closeness and by class sizes: checks, CPU seconds, the optimum; ARX's figures beside them.

`python -m benchmarks.kanon_criteria`: Adult (occupation or education is sensitive, 5 % left out, k = 5) and made-up
tables with lattices of 768 and 7,680 nodes. ARX's figures (../shared/notes/kanon.md) are of another machine; those of
tables of a like size stand beside the made-up ones, whose rows are not the same.
"""

from __future__ import annotations

import sys
import time
from fractions import Fraction

import numpy as np

from benchmarks.kanon import adult_counts
from benchmarks.kanon_tables import make_attribute
from sudare.counts import Counts
from sudare.errors import SudareError
from sudare.methods.kanon.criteria import Closeness, Criterion, MinimumSize
from sudare.methods.kanon.lattice import Lattice
from sudare.methods.kanon.problem import Problem
from sudare.methods.kanon.quality import QUALITIES
from sudare.methods.kanon.searches import search
from sudare.methods.kanon.tuples import Tuples
from sudare.schema import Schema

ARX = {
    ("Adult, occupation", "equal, t = .2"): "3,051 checks, 1.95 to 2.2 CPU s",
    ("768 nodes", "equal, t = .2"): "349 checks, .116 to .131 CPU s on a table of 360 nodes",
    ("768 nodes", "hierarchical, t = .2"): "319 checks, .13 to .17 CPU s on a table of 360 nodes",
    ("7,680 nodes", "equal, t = .2"): "3,929 checks, 1.4 to 1.5 CPU s on a table of 8 columns",
}
ROUNDS = 5


def make_people(sizes: tuple[int, ...], fans: tuple[int, ...], rows: int, seed: int) -> Counts:
    """A mixture of kinds of persons, the last column sensitive; heights follow from sizes and fans."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1])
    columns = []
    for size in sizes:
        shares = rng.dirichlet(np.full(size, 0.8), 4) * 0.5 + rng.dirichlet(np.full(size, 0.8)) * 0.5
        columns.append((rng.random(rows)[:, None] > np.cumsum(shares, axis=1)[kind]).sum(axis=1).clip(max=size - 1))
    last = len(sizes) - 1
    attributes = [
        make_attribute(f"q{at}" if at < last else "s", size, fan, "quasi" if at < last else "sensitive")
        for at, (size, fan) in enumerate(zip(sizes, fans, strict=True))
    ]
    return Counts.from_columns(Schema(name="people", attributes=tuple(attributes)), np.column_stack(columns))


def measure(counts: Counts, sensitive: str, criteria: tuple[Criterion, ...], quality: str) -> str:
    """Search and tell checks, the least of three CPU times, levels and score."""
    quasi = tuple(name for name in counts.schema.names if name != sensitive)
    lattice = Lattice.of(counts.schema, quasi)
    seconds = []
    for _ in range(ROUNDS):
        problem = Problem(
            tuples=Tuples.of(counts, quasi, (sensitive,)),
            lattice=lattice,
            criteria=(MinimumSize(k=5), *criteria),
            quality=QUALITIES[quality],
            max_suppressed=Fraction(1, 20),
        )
        begun = time.process_time()
        result = search(problem)
        seconds.append(time.process_time() - begun)
    levels = "".join(map(str, result.node))
    return f"{result.checks:,} checks, {min(seconds):.3f} CPU s, levels {levels}, score {result.score:.6g}"


def main() -> int:
    tables: dict[str, tuple[Counts, str]] = {
        "768 nodes": (make_people((40, 12, 8, 60, 4, 2, 6), (4, 4, 2, 4, 4, 2, 2), 20_000, 1), "s"),
        "7,680 nodes": (make_people((40, 12, 8, 60, 4, 2, 16, 2, 6), (4, 4, 2, 4, 4, 2, 2, 2, 2), 30_000, 2), "s"),
    }
    adult = adult_counts()
    if adult is not None:
        tables |= {f"Adult, {name}": (adult, name) for name in ("occupation", "education")}
    for name, (counts, sensitive) in tables.items():
        heights = [one.height + 1 for one in counts.schema.attributes if one.name != sensitive]
        print(f"{name}: {counts.total:,} rows, {len(counts.values):,} combinations, {int(np.prod(heights)):,} nodes")
        for distance in ("equal", "ordered", "hierarchical"):
            for t in (0.2, 0.4):
                words = f"{distance}, t = {t:g}".replace("0.", ".")
                closeness = Closeness(attribute=sensitive, t=t, distance=distance)  # type: ignore[arg-type]
                try:
                    line = measure(counts, sensitive, (closeness,), "loss")
                except SudareError as error:  # no such generalisation, or no such distance
                    line = str(error)
                print(f"  {words}: {line}" + (f" (ARX {ARX[name, words]})" if (name, words) in ARX else ""), flush=True)
        for quality in ("loss", "average class size", "discernability", "entropy"):
            print(f"  k alone, {quality}: {measure(counts, sensitive, (), quality)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
