"""Bring bad inputs to all doors, or to some: `python -m tests.fuzz [DOOR ...] [--inputs N] [--seed N]`.

Fails if an input shows a fault, or if fewer than 2,000 different inputs were refused at all doors together. Inputs
that showed a fault are kept in `.fuzz/`, with the command that shows it.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.doors import DOORS
from tests.fuzz.fuzz import fuzz_apart
from tests.fuzz.ground import make_ground
from tests.fuzz.watch import Outcome, keep, list_words

ROOT = Path(__file__).resolve().parents[2]
LEAST_REFUSED = 2000  # different inputs, over all doors
INPUTS = 240  # for each door
SHOWN = 3  # examples of one kind of fault


def main(words: Sequence[str]) -> int:
    """Fuzz, and tell what was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("doors", nargs="*", help=", ".join(DOORS))
    parser.add_argument("--inputs", type=int, default=INPUTS, help="for each door")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(words)
    os.environ["SUDARE_LANG"] = "en"
    refused, faulty = set[str](), 0
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            ground = stack.enter_context(make_ground(Path(folder)))
        for door in given.doors or DOORS:
            outcomes = fuzz_apart(door, ground, inputs=given.inputs, seed=given.seed)
            refused |= {outcome.attempt.identity for outcome in outcomes if outcome.is_refused}
            faulty += tell(door, outcomes)
    least = LEAST_REFUSED if not given.doors and given.inputs >= INPUTS else 0
    print(f"{len(refused)} different inputs were refused (at least {least} are asked for), {faulty} showed a fault")
    return 1 if faulty or len(refused) < least else 0


def tell(door: str, outcomes: Sequence[Outcome]) -> int:
    """Print what a door did: a line, and examples of every kind of fault."""
    bad = [outcome for outcome in outcomes if outcome.faults]
    refused = sum(outcome.is_refused for outcome in outcomes)
    print(f"{door}: {len(outcomes)} inputs, {refused} refused, {len(bad)} with a fault", flush=True)
    shown = collections.Counter[str]()
    for outcome in bad:
        folder = keep(outcome, ROOT / ".fuzz")
        shown[outcome.faults[0]] += 1
        if shown[outcome.faults[0]] <= SHOWN:
            print(f"  {folder.name}: sudare {list_words(outcome.attempt.words)}")
            print(f"    {'; '.join(outcome.faults)}\n    {outcome.said[:300]!r}")
    return len(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
