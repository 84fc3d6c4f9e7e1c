"""Local recoding beside the other recodings: loss and CPU seconds, ARX's figures beside them where they are known.

`python -m benchmarks.kanon_local`: Adult is what its constants were chosen on; Metro and a made-up table are not.
"""

from __future__ import annotations

import resource
import sys

import sudare as sd
from benchmarks.kanon import adult_counts
from benchmarks.kanon_tables import TABLES, made_up
from sudare.counts import Counts
from sudare.methods.kanon.risk import compare_recoding

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


def main(arguments: list[str]) -> int:
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
