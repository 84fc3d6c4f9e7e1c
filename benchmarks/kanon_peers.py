"""Sudare, anjana, anonypyx and ARX's way of local recoding on the same tables in one run: loss, CPU seconds, memory.

`python -m benchmarks.kanon_peers --python PYTHON [--csv FILE ...] [--k 5 50]`: PYTHON is an interpreter that has the
peers (`pip install anjana anonypyx`; they pin versions that ours does not have). Every run has a process of its own;
CPU seconds are of the recoding alone, memory of the whole process. ARX runs on Java and is on no package index: beside
Adult stand its printed figures, and "rounds" is its algorithm (papers/baselines/local_rounds.py), which loses .0593 on
Adult where ARX prints .0577. Constants of local recoding were chosen on Adult and made-up tables; files are tables that
they never saw.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
from papers.baselines.local_rounds import recode_in_rounds

import sudare as sd
from benchmarks.kanon import FOLDER, adult_counts
from benchmarks.kanon_tables import read_csv_table
from sudare.counts import Counts
from sudare.methods.kanon.risk import compare_recoding

PEERS = ("anjana", "anonypyx")
OURS = {
    "Sudare full, 5 % left out": {"max_suppressed": Fraction(1, 20)},
    "Sudare local": {"recoding": "local"},
    "Sudare local, ranges": {"recoding": "local", "labels": "ranges"},
    "Sudare mondrian": {"recoding": "mondrian"},
}
PRINTED = {
    5: ("ARX full, 5 % left out: loss 0.2419, 1.2 CPU s", "ARX local: loss 0.0577, 5.4 CPU s"),
    50: ("ARX local: loss 0.1474, 22.2 CPU s",),
}
MOST_NODES = 3000  # of the lattice that rounds search: without ARX's pruning they take minutes beyond


def write_folder(counts: Counts, folder: Path) -> None:
    """Write a table as ARX's files, under the names of Adult's."""
    folder.mkdir(parents=True, exist_ok=True)
    labels = [attribute.labels(np.arange(attribute.size)).tolist() for attribute in counts.schema.attributes]
    codes = np.repeat(counts.columns(), counts.values.astype(np.int64), axis=0)
    with (folder / "adult.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(counts.schema.names)
        writer.writerows([[texts[code] for texts, code in zip(labels, row, strict=True)] for row in codes.tolist()])
    for attribute in counts.schema.attributes:
        everything = np.arange(attribute.size)
        levels = [attribute.coarsen(level) for level in range(attribute.height + 1)]
        lifted = [
            everything if level == 0 else attribute.hierarchy.lift(everything, level) for level in range(len(levels))
        ]  # type: ignore[union-attr]
        columns = [level.labels(codes).tolist() for level, codes in zip(levels, lifted, strict=True)]
        with (folder / f"adult_hierarchy_{attribute.name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter=";").writerows(zip(*columns, strict=True))


def run_ours(kind: str, folder: Path, k: int) -> dict[str, float]:
    """Recode with Sudare, or by rounds; in a process of its own."""
    counts = adult_counts(folder)
    assert counts is not None
    quasi = counts.schema.names
    begun = time.process_time()
    if kind == "rounds":
        loss, left_out = recode_in_rounds(counts, quasi, k=k)
    else:
        outcome = sd.KAnonymity(k=k, **OURS[kind]).outcome(counts, quasi)  # type: ignore[arg-type]
    seconds = time.process_time() - begun
    if kind != "rounds":
        compared = compare_recoding(outcome.recoded)
        loss, left_out = compared.total_loss, compared.suppressed_rows
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "loss": loss, "left_out": left_out, "megabytes": memory}


def ask(command: list[str]) -> dict[str, float] | str:
    """Run a process and read its line; its last words if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else str(done.returncode)
    facts: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return facts


def show(words: str, facts: dict[str, float] | str) -> None:
    if isinstance(facts, str):
        print(f"  {words:28} failed: {facts}", flush=True)
        return
    version = f" ({facts['version']})" if "version" in facts else ""
    print(
        f"  {words + version:28} loss {facts['loss']:.4f}, {facts['left_out']:5.0f} rows left out,"
        f" {facts['seconds']:7.2f} CPU s, {facts['megabytes']:5.0f} MB",
        flush=True,
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=None)
    parser.add_argument("--csv", nargs="*", default=[], metavar="FILE")
    parser.add_argument("--k", nargs="*", type=int, default=[5, 50])
    parser.add_argument("--ours", nargs=3, metavar=("KIND", "FOLDER", "K"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.ours:
        print(json.dumps(run_ours(given.ours[0], Path(given.ours[1]), int(given.ours[2]))))
        return 0
    with tempfile.TemporaryDirectory() as place:
        folders = {"adult": FOLDER} if adult_counts() is not None else {}
        for number, file in enumerate(given.csv):
            counts = read_csv_table(file, columns=7, seed=2)
            folders[file] = Path(place) / str(number)
            write_folder(counts, folders[file])
        for name, folder in folders.items():
            compare_on(name, folder, given.k, given.python)
    return 0


def compare_on(name: str, folder: Path, sizes: list[int], python: str | None) -> None:
    """Run all of them on one table."""
    counts = adult_counts(folder)
    assert counts is not None
    nodes = int(np.prod([attribute.height + 1 for attribute in counts.schema.attributes]))
    for k in sizes:
        print(f"{name}: {counts.total:,} rows, {len(counts.schema.names)} attributes, {nodes:,} nodes, k = {k}")
        for kind in (*OURS, *(["rounds"] if nodes <= MOST_NODES or name == "adult" else [])):
            show(kind, ask([sys.executable, "-m", "benchmarks.kanon_peers", "--ours", kind, str(folder), str(k)]))
        for peer in PEERS if python is not None else ():
            script = Path(__file__).with_name("kanon_peer_run.py")
            show(peer, ask([str(python), str(script), peer, str(folder), str(k)]))
        for line in PRINTED.get(k, ()) if name == "adult" else ():
            print(f"  {line} (printed figures, another machine)")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
