"""pycanon, a checker that others wrote, counts the promised k, l and t in what is published, and finds a fault."""

from __future__ import annotations

import pandas as pd
import pytest

from sudare.counts.relabelling import SUPPRESSED
from sudare.methods.kanon import KAnonymity
from sudare.methods.kanon.microaggregate import read_piece_labels
from tests.unit.kanon_tables import random_counts

anonymity = pytest.importorskip("pycanon.anonymity")

QUASI = ["a", "b", "c"]
RECODINGS = [
    {"recoding": "full"},
    {"recoding": "full", "max_suppressed": "0.1"},
    {"recoding": "full", "max_suppressed": "0.1", "local": True},
    {"recoding": "value"},
    {"recoding": "local"},
    {"recoding": "local", "labels": "ranges"},
    {"recoding": "cells"},
    {"recoding": "mondrian"},
    {"recoding": "mondrian", "mondrian": "hierarchy"},
]


def publish(seed: int, method: KAnonymity) -> pd.DataFrame:
    """Recode a made-up table, and give the rows as they would be written."""
    recoded = method.outcome(random_counts(seed, rows=150), ("a", "b", "c"), ("s",)).recoded
    labels = read_piece_labels(recoded)
    values = recoded.pieces.attributes[-1].labels(recoded.pieces.codes[:, -1])
    frame = pd.DataFrame({**{name: labels[name] for name in QUASI}, "s": values}, dtype=str)
    kept = recoded.class_of != SUPPRESSED
    return frame[kept].loc[frame[kept].index.repeat(recoded.pieces.weights[kept])].reset_index(drop=True)


@pytest.mark.parametrize("options", RECODINGS, ids=lambda options: "-".join(map(str, options.values())))
@pytest.mark.parametrize("seed", [1, 2])
def test_k_and_l_are_what_an_independent_checker_counts(seed: int, options: dict[str, object]) -> None:
    rows = publish(seed, KAnonymity(k=4, criteria=("l=2,s",), **options))  # type: ignore[arg-type]

    assert anonymity.k_anonymity(rows, QUASI) >= 4
    assert anonymity.l_diversity(rows, QUASI, ["s"]) >= 2


@pytest.mark.parametrize("recoding", ["full", "local", "mondrian"])
def test_t_and_entropy_are_what_an_independent_checker_counts(recoding: str) -> None:
    criteria = ("t=0.25,s", "entropy-l=2,s")
    rows = publish(3, KAnonymity(k=3, criteria=criteria, recoding=recoding))  # type: ignore[arg-type]

    assert anonymity.t_closeness(rows, QUASI, ["s"]) <= 0.25 + 1e-9
    assert anonymity.entropy_l_diversity(rows, QUASI, ["s"]) >= 2


def test_the_checker_finds_a_row_that_stands_alone() -> None:
    rows = publish(1, KAnonymity(k=4))
    rows.loc[0, "a"] = "elsewhere"

    assert anonymity.k_anonymity(rows, QUASI) == 1
