"""A view beside private-pgm's MST and AIM (package dpmm), like with like: one epsilon and delta, one table, one test.

    python -m benchmarks.view_peers [SET ...] [--peers PYTHON] [--methods mst aim] [--iterations N] [--megabytes N]

Every method sees the same 80 % of the rows under add-or-remove neighbours at (1, 1e-9): the view spends the rho that
this buys, as the peers do. All are judged by records drawn from them: the mean distance of all 2-way tables and of 50
3-way tables (half the L1 distance of shares), the RMSE of 1,000 ranges over two and three attributes (in records), and
the AUROC of four classifiers on the other 20 %. The view's own answers to the ranges stand in brackets.
dpmm needs a Python of its own: `python -m venv peers && peers/bin/pip install dpmm==0.1.9`, then
`--peers peers/bin/python`.
Figures of the last full run are kept in benchmarks/results/view_peers.json; `--keep` adds to them. For the view alone,
beside kept figures of the peers: `--methods` without a name, and `--peers` any Python that has scikit-learn.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from papers.kato_view.data import CLASSES, is_here, load

from sudare.counts import Counts
from sudare.methods.view import OpenedView, View, open_view
from sudare.noise import SeededRng
from sudare.testing import Tabled

KEPT = Path(__file__).parent / "results" / "view_peers.json"
EPSILON, DELTA = "1", "1e-9"
SETS = ("phoneme", "electricity", "adult")
TRIPLES, RANGES = 50, 1000


def split(name: str, seed: int) -> tuple[Counts, np.ndarray, np.ndarray]:
    """The set, its rows to learn from, and those to be judged on."""
    counts = load(name)
    columns = [counts.column(column) for column in counts.schema.names]
    rows = np.repeat(np.column_stack(columns), counts.values, axis=0)
    rows = np.random.default_rng(seed).permutation(rows)
    cut = int(0.8 * len(rows))
    return counts, rows[:cut], rows[cut:]


def distances(drawn: np.ndarray, truth: np.ndarray, sizes: tuple[int, ...]) -> dict[str, float]:
    """How far drawn records are from the true ones: 2-way and 3-way tables, and ranges of two and three attributes."""
    rng = np.random.default_rng(17)
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    triples = list(itertools.combinations(range(len(sizes)), 3))
    chosen = [triples[place] for place in rng.permutation(len(triples))[:TRIPLES]]
    return {
        "2-way": float(np.mean([_total_variation(drawn, truth, sizes, pair) for pair in pairs])),
        "3-way": float(np.mean([_total_variation(drawn, truth, sizes, triple) for triple in chosen])),
        **{f"ranges of {ways}": _rmse(_count(drawn, box), _count(truth, box)) for ways, box in _boxes(sizes, rng)},
    }


def _total_variation(drawn: np.ndarray, truth: np.ndarray, sizes: tuple[int, ...], places: tuple[int, ...]) -> float:
    cells = [np.zeros(len(rows), dtype=np.int64) for rows in (drawn, truth)]
    for place in places:
        cells = [cell * sizes[place] + rows[:, place] for cell, rows in zip(cells, (drawn, truth), strict=True)]
    _, codes = np.unique(np.concatenate(cells), return_inverse=True)
    width = int(codes.max()) + 1
    first, second = np.bincount(codes[: len(drawn)], minlength=width), np.bincount(codes[len(drawn) :], minlength=width)
    return 0.5 * float(np.abs(first / len(drawn) - second / len(truth)).sum())


Boxes = tuple[np.ndarray, np.ndarray, np.ndarray]  # attributes, lows, highs: one row a question


def _boxes(sizes: tuple[int, ...], rng: np.random.Generator) -> list[tuple[int, Boxes]]:
    found = []
    for ways in (2, 3):
        places = np.array([rng.choice(len(sizes), ways, replace=False) for _ in range(RANGES)])
        ends = np.sort(rng.integers(0, np.array(sizes)[places][..., None], (RANGES, ways, 2)), axis=2)
        found.append((ways, (places, ends[..., 0], ends[..., 1])))
    return found


def _count(rows: np.ndarray, boxes: Boxes) -> np.ndarray:
    places, lows, highs = boxes
    return np.array([
        int(((rows[:, place] >= low) & (rows[:, place] <= high)).all(axis=1).sum())
        for place, low, high in zip(places, lows, highs, strict=True)
    ])  # fmt: skip


def _rmse(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.sqrt(np.mean((first - second) ** 2)))


def answered(view: OpenedView, truth: np.ndarray, sizes: tuple[int, ...]) -> dict[str, float]:
    """The RMSE of the view's own answers to the ranges."""
    found = {}
    rng = np.random.default_rng(17)
    rng.permutation(len(list(itertools.combinations(range(len(sizes)), 3))))
    for ways, (places, lows, highs) in _boxes(sizes, rng):
        low, high = np.zeros((RANGES, len(sizes)), dtype=np.int64), np.tile(np.array(sizes) - 1, (RANGES, 1))
        np.put_along_axis(low, places, lows, axis=1)
        np.put_along_axis(high, places, highs, axis=1)
        found[f"ranges of {ways}"] = _rmse(view.ranges(low, high), _count(truth, (places, lows, highs)))
    return found


def run_view(counts: Counts, train: np.ndarray, seed: int) -> tuple[np.ndarray, dict[str, Any], OpenedView]:
    """Publish a view of the rows in rho, and draw as many records; CPU of both."""
    before = _cpu()
    table = Counts.from_columns(counts.schema, train)
    release = View(epsilon=EPSILON, delta=DELTA, neighbours="add-remove").publish(Tabled(table), rng=SeededRng(seed))
    view = open_view(release)
    drawn = np.concatenate(list(view.records(len(train), rng=SeededRng(seed + 1))))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return drawn, {"cpu_seconds": _cpu() - before, "megabytes": memory}, view


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run_peer(python: str, name: str, given: dict[str, Any], settings: list[str]) -> tuple[np.ndarray, dict[str, Any]]:
    """Let dpmm fit and draw in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        there, out = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez_compressed(there, **given)
        figures = _call(python, ["fit", str(there), str(out), name, EPSILON, DELTA, *settings])
        return np.load(out)["codes"], figures


def measure_auroc(
    python: str, drawn: dict[str, np.ndarray], test: np.ndarray, sizes: tuple[int, ...], place: int
) -> Any:
    """AUROC of four classifiers that learn from the records of every method."""
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder) / "in.npz"
        named = {f"drawn_{name}": rows for name, rows in drawn.items()}
        np.savez_compressed(there, test=test, sizes=np.array(sizes), place=place, **named)
        return _call(python, ["auroc", str(there)])


def _call(python: str, arguments: list[str]) -> Any:
    script = str(Path(__file__).with_name("peer_dpmm.py"))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": ""}
    done = subprocess.run([python, script, *arguments], check=True, capture_output=True, text=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def compare(name: str, options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """All methods on one set."""
    counts, train, test = split(name, seed)
    sizes = counts.schema.sizes
    rows, figures, view = run_view(counts, train, seed)
    drawn = {"view": rows}
    found: dict[str, Any] = {
        "view": {**figures, **distances(rows, train, sizes), "answered": answered(view, train, sizes)}
    }
    for method in options.methods if options.peers else ():
        given = {"codes": train, "sizes": np.array(sizes), "seed": seed}
        settings = [str(options.iterations), str(options.megabytes)]
        drawn[method], figures = run_peer(options.peers, method, given, settings)
        found[method] = {**figures, **distances(drawn[method], train, sizes)}
    if options.peers and name in CLASSES:
        place = counts.schema.position(CLASSES[name])
        scores = measure_auroc(options.peers, {"real": train, **drawn}, test, sizes, place)
        for method, values in scores.items():
            found.setdefault(method, {})["AUROC"] = values
    return found


def average(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds; of AUROC also the mean of the four classifiers seed by seed: it tells how far seeds differ."""
    found: dict[str, Any] = {}
    for method in runs[0]:
        rows = [run[method] for run in runs]
        means = {key: np.mean([row[key] for row in rows], axis=0) for key in rows[0] if key != "answered"}
        found[method] = {key: value.tolist() for key, value in means.items()} | {"seeds": len(rows)}
        if "answered" in rows[0]:
            own = {key: float(np.mean([row["answered"][key] for row in rows])) for key in rows[0]["answered"]}
            found[method]["answered"] = own
        if "AUROC" in rows[0]:
            found[method]["AUROC by seed"] = [float(np.mean(row["AUROC"])) for row in rows]
    return found


def show(name: str, found: dict[str, Any]) -> None:
    print(f"{name}: (1, 1e-9), 80 % of the rows")
    heads = ("2-way", "3-way", "ranges of 2", "ranges of 3", "cpu_seconds", "megabytes")
    print(f"  {'':6s}" + "".join(f"{head:>14s}" for head in heads) + "   AUROC (logistic, AdaBoost, gradient, forest)")
    for method, row in found.items():
        cells = "".join(f"{row[head]:14.4g}" if head in row else f"{'':14s}" for head in heads)
        scores = " ".join(f"{score:.3f}" for score in row.get("AUROC", ()))
        own = row.get("answered")
        more = f"  [{own['ranges of 2']:.4g}, {own['ranges of 3']:.4g} by its own answers]" if own else ""
        print(f"  {method:6s}{cells}   {scores}{more}", flush=True)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.view_peers")
    parser.add_argument("sets", nargs="*", default=list(SETS))
    parser.add_argument("--peers", default=os.environ.get("SUDARE_PEERS", ""), help="a Python that has dpmm")
    parser.add_argument("--methods", nargs="*", default=["mst", "aim"])
    parser.add_argument("--iterations", type=int, default=1000, help="of mirror descent, in both peers")
    parser.add_argument("--megabytes", type=float, default=1.0, help="the largest model of AIM; 80 is its own default")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the figures in benchmarks/results/view_peers.json")
    options = parser.parse_args(arguments)
    if not is_here():
        print("the sets are not beside the project")
        return 0
    if not options.peers:
        print("without --peers PYTHON the view stands alone; figures kept from the last full run:")
        for name, found in json.loads(KEPT.read_text(encoding="utf-8"))["sets"].items() if KEPT.exists() else ():
            show(name, found)
    for name in options.sets:
        runs = [compare(name, options, seed) for seed in range(1, options.seeds + 1)]
        for found in runs:
            show(name, found)
        found = average(runs)
        if len(runs) > 1:
            show(f"{name}, mean of {len(runs)} seeds", found)
        if options.keep:
            _keep(name, found, options)
    return 0


def _keep(name: str, found: dict[str, Any], options: argparse.Namespace) -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {"sets": {}}
    kept["command"] = "python -m benchmarks.view_peers SET --peers PYTHON --keep"
    kept["versions"] = {"dpmm": "0.1.9", "numpy of dpmm": "1.26.4", "scikit-learn of dpmm": "1.5.0"}
    used = {"iterations": options.iterations, "megabytes of AIM": options.megabytes}
    kept.setdefault("settings", {}).setdefault(name, {}).update(dict.fromkeys(options.methods, used))
    kept["sets"].setdefault(name, {}).update(found)
    KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
