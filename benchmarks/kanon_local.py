"""Local recoding beside the other recodings: loss and CPU seconds, ARX's figures beside them where they are known.

`python -m benchmarks.kanon_local`: Adult is what its constants were chosen on; Metro and a made-up table are not.
`python -m benchmarks.kanon_local --csv FILE ... [--columns 5 7] [--seed 21]`: any files beside ARX's algorithm, rounds
of a global search (papers/baselines/local_rounds.py), which leaves out what fits nowhere: k alone and with l = 2 and
t = .3, with no and with up to 5 % of the rows left out.
"""

from __future__ import annotations

import argparse
import resource
import sys
from pathlib import Path

import numpy as np
from papers.baselines.local_rounds import recode_in_rounds

import sudare as sd
from benchmarks.kanon import adult_counts
from benchmarks.kanon_tables import TABLES, made_up, read_csv_table
from sudare.counts import Counts
from sudare.methods.kanon.criteria import read_criteria
from sudare.methods.kanon.risk import compare_recoding

MOST_NODES = 400  # of a lattice that rounds search: without ARX's pruning they take minutes beyond
ARX = {("adult", 5): "ARX local .0577 in 5.4 CPU s", ("adult", 50): "ARX local .1474 in 22.2 CPU s"}
WAYS = {
    "local": {"recoding": "local"},
    "local, ranges": {"recoding": "local", "labels": "ranges"},
    "cells": {"recoding": "cells"},
    "mondrian": {"recoding": "mondrian"},
    "mondrian, hierarchy": {"recoding": "mondrian", "mondrian": "hierarchy"},
}


def measure(counts: Counts, k: int, way: dict[str, str]) -> tuple[float, float]:
    """Give the loss of a recoding and the CPU seconds that it took."""
    quasi = tuple(attribute.name for attribute in counts.schema.attributes if attribute.role == "quasi")
    began = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    outcome = sd.KAnonymity(k=k, **way).outcome(counts, quasi)  # type: ignore[arg-type]
    seconds = resource.getrusage(resource.RUSAGE_SELF).ru_utime - began
    return compare_recoding(outcome.recoded).total_loss, seconds


def compare_with_rounds(name: str, counts: Counts, sizes: list[int]) -> list[tuple[float, float]]:
    """Local recoding over rounds, for every k and criterion: the ratios without and with rows left out.

    No number (nan) where rounds leave out more rows than may be.
    """
    quasi = tuple(attribute.name for attribute in counts.schema.attributes if attribute.role == "quasi")
    other = counts.schema.attributes[-1].name
    ratios = []
    for k in sizes:
        for words in ((), (f"l=2,{other}",), (f"t=0.3,{other}",)):
            criteria = read_criteria(words)
            rounds, left_out = recode_in_rounds(counts, quasi, (other,) if words else (), k=k, criteria=criteria)
            line, pair = f"{name}, k = {k} {' '.join(words)}: rounds {rounds:.4f} ({left_out} rows left out)", []
            for share in ("0", "0.05"):
                began = resource.getrusage(resource.RUSAGE_SELF).ru_utime
                method = sd.KAnonymity(k=k, recoding="local", criteria=criteria, max_suppressed=share)
                compared = compare_recoding(method.outcome(counts, quasi, (other,) if words else ()).recoded)
                seconds = resource.getrusage(resource.RUSAGE_SELF).ru_utime - began
                is_fair = left_out <= float(share) * counts.total
                pair.append(compared.total_loss / max(rounds, 1e-9) if is_fair else np.nan)
                line += f"; local {compared.total_loss:.4f} ({compared.suppressed_rows} rows, {seconds:.2f} CPU s)"
            if rounds > 0:
                ratios.append((pair[0], pair[1]))
            print(f"{line}; ratios {pair[0]:.3f}, {pair[1]:.3f}", flush=True)
    return ratios


def compare_files(files: list[str], columns: list[int], seed: int, sizes: list[int]) -> None:
    """Compare all files, some columns of each, and count the rows where local recoding loses more."""
    ratios = []
    for file in files:
        for number in columns:
            counts = read_csv_table(file, columns=number, seed=seed)
            heights = [attribute.height + 1 for attribute in counts.schema.attributes if attribute.role == "quasi"]
            if np.prod(heights) <= MOST_NODES:
                ratios += compare_with_rounds(f"{Path(file).stem}, {number} columns", counts, sizes)
    for words, which in (("none", 0), ("up to 5 %", 1)):
        values = np.array([pair[which] for pair in ratios])
        values = values[~np.isnan(values)]
        print(
            f"{words} left out: local loses more than rounds in {(values > 1 + 1e-9).sum()} of {len(values)} rows,"
            f" ratio {values.min():.2f} to {values.max():.3f}, median {np.median(values):.2f}"
        )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", nargs="*", default=[], metavar="FILE")
    parser.add_argument("--columns", nargs="*", type=int, default=[5, 7])
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--k", nargs="*", type=int, default=[2, 5, 10, 50])
    given = parser.parse_args(arguments)
    if given.csv:
        compare_files(given.csv, given.columns, given.seed, given.k)
        return 0
    tables = {"adult": adult_counts(), "metro": TABLES["metro"][1](), "made up": made_up(9100)}
    for name, counts in tables.items():
        if counts is None:
            print(f"{name}: not there (../shared/data), skipped")
            continue
        for k in (5, 50):
            for words, way in WAYS.items():
                loss, seconds = measure(counts, k, way)
                print(f"{name}, k = {k}, {words}: loss {loss:.4f} in {seconds:.2f} CPU s")
            if (name, k) in ARX:
                print(f"{name}, k = {k}: {ARX[name, k]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
