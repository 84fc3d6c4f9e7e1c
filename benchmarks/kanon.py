"""k-anonymity searches side by side: checks, CPU seconds, the optimum; anjana and pycanon in the same run.

`python -m benchmarks.kanon [--peers PYTHON]`: an interpreter that has anjana and pycanon (they pin exact versions of
NumPy and pandas, so they need an environment of their own). Adult and its hierarchies are read from ../shared.
"""

import argparse
import csv
import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np

from sudare.counts import Counts
from sudare.methods.kanon.check import NodeChecker
from sudare.methods.kanon.criteria import MinimumSize
from sudare.methods.kanon.lattice import Lattice, Node
from sudare.methods.kanon.problem import Problem, SearchResult
from sudare.methods.kanon.quality import QUALITIES
from sudare.methods.kanon.searches import search
from sudare.methods.kanon.tuples import Tuples
from sudare.schema import Attribute, Schema, TableHierarchy, Values
from sudare.schema.hierarchy_rules import from_csv

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult-arx"
ARX = {Fraction(0): (181, 0.05), Fraction(1, 20): (1217, 1.2), Fraction(1): (4749, 5.0)}  # 3.9.2: checks, warm CPU s
ROUNDS = 3


def adult_counts(folder: Path = FOLDER) -> Counts | None:
    """Adult as counts over nine quasi-identifiers; None if it is not there."""
    if not (folder / "adult.csv").exists():
        return None
    with (folder / "adult.csv").open(encoding="utf-8") as file:
        head, *rows = csv.reader(file, delimiter=";")
    attributes, columns = [], []
    for place, name in enumerate(head):
        tree = from_csv(folder / f"adult_hierarchy_{name}.csv")
        attributes.append(Attribute(name=name, domain=Values(tree.names[0]), role="quasi", hierarchy=tree))
        codes = {value: code for code, value in enumerate(tree.names[0])}
        columns.append([codes[row[place]] for row in rows])
    return Counts.from_columns(Schema(name="adult", attributes=tuple(attributes)), np.array(columns).T)


def problem_of(counts: Counts, share: Fraction = Fraction(0), *, k: int = 5, seconds: float | None = None) -> Problem:
    lattice = Lattice.of(counts.schema)
    return Problem(
        tuples=Tuples.of(counts, lattice.names),
        lattice=lattice,
        criteria=(MinimumSize(k=k),),
        quality=QUALITIES["loss"],
        max_suppressed=share,
        deadline_seconds=seconds,
    )


def timed(work: Callable[[], SearchResult], rounds: int = ROUNDS) -> tuple[SearchResult, float]:
    """The result and the best CPU time of some rounds."""
    best, found = float("inf"), None
    for _ in range(rounds):
        begun = time.process_time()
        found = work()
        best = min(best, time.process_time() - begun)
    assert found is not None
    return found, best


def optima(counts: Counts) -> list[dict]:
    rows = []
    for share, (checks, arx) in ARX.items():
        found, seconds = timed(lambda share=share: search(problem_of(counts, share)))
        rows.append({"share": share, "found": found, "seconds": seconds, "arx_checks": checks, "arx_seconds": arx})
    return rows


def methods(counts: Counts, share: Fraction = Fraction(0)) -> list[tuple[str, SearchResult, float]]:
    names = ("auto", "pak", "ola", "incognito", "flash", "datafly")
    return [(name, *timed(lambda name=name: search(problem_of(counts, share), name), 1)) for name in names]


def _replayed(counts: Counts, share: Fraction, nodes: list[Node]) -> float:
    """CPU per check of the same nodes in the same order, nothing known before."""
    problem = problem_of(counts, share)
    begun = time.process_time()
    checker = NodeChecker(problem)
    for node in nodes:
        checker.check(node)
    return (time.process_time() - begun) / len(nodes)


def _yardstick(problem: Problem, nodes: list[Node]) -> tuple[float, float]:
    """CPU per node of a key over all tuples and two np.bincount passes, and of the passes alone."""
    tuples, lattice = problem.tuples, problem.lattice
    lifts = [[tuples.lift(axis, level) for level in range(top + 1)] for axis, top in enumerate(lattice.heights)]
    weights = tuples.weights.astype(np.float64)
    passes, keys = 0.0, 0.0
    for node in nodes:
        begun = time.process_time()
        key = lifts[0][node[0]]
        for axis, level in enumerate(node[1:], start=1):
            key = key * lattice.sizes[axis][level] + lifts[axis][level]
        keys += time.process_time() - begun
        small = key % tuples.count  # as many places as tuples: bincount at its best
        begun = time.process_time()
        np.bincount(small, weights=weights)
        np.bincount(small, weights=weights)
        passes += time.process_time() - begun
    return (passes + keys) / len(nodes), passes / len(nodes)


def per_check(counts: Counts, share: Fraction) -> dict[str, float]:
    """CPU of the checks of one search, and of the yardstick, per check: the best of some rounds, taken in turns."""
    problem = problem_of(counts, share)
    nodes = [step.node for step in search(problem).trace]
    rounds = [(_replayed(counts, share, nodes), *_yardstick(problem, nodes)) for _ in range(ROUNDS)]
    mine, yardstick, passes = (min(each) for each in zip(*rounds, strict=True))
    return {"mine": mine, "yardstick": yardstick, "passes": passes}


def more_rows(counts: Counts, rows: int, *, seed: int = 1) -> Counts:
    """Rows of the table drawn again, one attribute of each replaced by that of another row."""
    rng = np.random.default_rng(seed)
    shares = counts.values / counts.total
    drawn, other = (counts.columns()[rng.choice(counts.nonzero, size=rows, p=shares)] for _ in range(2))
    axis = rng.integers(0, drawn.shape[1], rows)
    drawn[np.arange(rows), axis] = other[np.arange(rows), axis]
    return Counts.from_columns(counts.schema, drawn)


def wide(width: int = 12, bits: int = 4, rows: int = 20_000) -> Counts:
    """Twelve quasi-identifiers of five levels."""
    rng, size = np.random.default_rng(0), 2**bits
    tree = TableHierarchy.from_paths(
        [tuple(f"{level}/{code >> level}" for level in range(bits + 1)) for code in range(size)]
    )
    names = [f"a{place}" for place in range(width)]
    attributes = [Attribute(name=name, domain=Values(tree.names[0]), role="quasi", hierarchy=tree) for name in names]
    columns = np.minimum(rng.geometric(0.4, (rows, width)) - 1, size - 1)
    return Counts.from_columns(Schema(name="wide", attributes=tuple(attributes)), columns)


def ask_peer(python: str, peer: str) -> dict | None:
    script = Path(__file__).with_name("kanon_peer_run.py")
    done = subprocess.run([python, str(script), peer, str(FOLDER), "5"], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{peer} cannot run: {done.stderr.strip().splitlines()[-1] if done.stderr else done.returncode}")
        return None
    return json.loads(done.stdout.splitlines()[-1])


def show_optima(counts: Counts) -> None:
    print("Adult, 9 attributes, 12,960 nodes, k = 5, Loss: CPU seconds from counts to the proven optimum")
    print(f"{'suppressed':>10} {'score':>9} {'checks':>7} {'CPU s':>7} {'ARX checks':>11} {'ARX warm CPU s':>15}")
    for row in optima(counts):
        found = row["found"]
        print(
            f"{float(row['share']):10.0%} {found.score:9.6f} {found.checks:7,} {row['seconds']:7.3f}"
            f" {row['arx_checks']:11,} {row['arx_seconds']:15.2f}   (ARX: printed figures, another run)"
        )


def show_methods(counts: Counts) -> None:
    for share in (Fraction(0), Fraction(1, 20)):
        print(f"searches at {float(share):.0%} suppression")
        for name, found, seconds in methods(counts, share):
            proven = "proven optimum" if found.is_optimal else "not proven"
            print(f"{name:>12} {found.score:9.6f} {found.checks:7,} checks {seconds:8.3f} s  {proven}")


def show_peers(counts: Counts, python: str) -> None:
    anjana, pycanon = (ask_peer(python, peer) for peer in ("anjana", "pycanon"))
    if anjana is not None:
        ours, seconds = timed(lambda: search(problem_of(counts, Fraction(1, 20))))
        print(
            f"5 % suppression: anjana {anjana['version']} {anjana['seconds']:.2f} s, Loss {anjana['loss']:.6f};"
            f" Sudare {seconds:.3f} s, Loss {ours.score:.6f}: {anjana['seconds'] / seconds:.0f} times faster"
        )
    if pycanon is not None:
        begun = time.process_time()
        problem = problem_of(counts)
        k = problem.tuples.classes(problem.lattice.bottom).smallest
        mine = time.process_time() - begun
        print(f"k of the table: pycanon {pycanon['seconds']:.3f} s ({pycanon['loss']:.0f}), Sudare {mine:.3f} s ({k})")


def show_growth(counts: Counts) -> None:
    print("growth with the lattice: the first attributes of Adult, 5 %")
    for width in range(3, 10):
        part = counts.project(counts.schema.names[:width])
        found, seconds = timed(lambda part=part: search(problem_of(part, Fraction(1, 20))), 1)
        size = Lattice.of(part.schema).size
        print(f"{width:4} attributes {size:7,} nodes {found.checks:5,} checks {seconds:7.3f} s")
    problem = problem_of(wide(), Fraction(1, 50), seconds=5)
    begun = time.monotonic()
    found = search(problem)
    print(
        f"  12 attributes {problem.lattice.size:,} nodes, 5 s allowed: {time.monotonic() - begun:.1f} s,"
        f" score {found.score:.4f}, proven at least {found.lower_bound:.4f}, {found.checks:,} checks"
    )


def show_rows(counts: Counts) -> None:
    print("growth with the rows, 5 %: after counting only distinct tuples matter")
    million = more_rows(counts, 1_000_000)
    many = Counts.build(million.schema, million.codes, million.values * 100)
    for name, table, k in (("Adult", counts, 5), ("1e6 rows", million, 5), ("1e8 rows, same tuples", many, 500)):
        found, seconds = timed(lambda table=table, k=k: search(problem_of(table, Fraction(1, 20), k=k)), 1)
        print(
            f"{name:>24}: {table.total:11,} rows {table.nonzero:8,} tuples {found.checks:5,} checks {seconds:7.3f} s,"
            f" Loss {found.score:.6f}"
        )


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default=sys.executable if importlib.util.find_spec("anjana") else None)
    python = parser.parse_args(argv).peers
    counts = adult_counts()
    if counts is None:
        print("Adult is not there: expected ../shared/data/adult-arx beside the project")
        return
    show_optima(counts)
    if python is None:
        print("anjana and pycanon are not installed here; give an interpreter that has them: --peers PYTHON")
    else:
        show_peers(counts, python)
    print("CPU per check against two np.bincount passes over all tuples and the key")
    million = more_rows(counts, 1_000_000)
    tables = [("Adult", counts, share) for share in ARX] + [("1e6 rows", million, share) for share in list(ARX)[:2]]
    for name, table, share in tables:
        cost = per_check(table, share)
        print(
            f"{name:>10} {table.nonzero:8,} tuples {float(share):5.0%}"
            f" {1e6 * cost['mine']:7.0f} us, yardstick {1e6 * cost['yardstick']:5.0f} us"
            f" (passes {1e6 * cost['passes']:4.0f}): {cost['mine'] / cost['yardstick']:.2f}"
        )
    show_methods(counts)
    show_growth(counts)
    show_rows(counts)


if __name__ == "__main__":
    main(sys.argv[1:])
