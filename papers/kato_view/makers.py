"""Every method of the comparison: how it is made, what it answers, on which sets it can run, and which code it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from papers.baselines import Dawa, Identity, PrivBayes, PrivTreeBoxes
from papers.baselines.identity import CellTable
from papers.baselines.privtree import TiledBoxes
from papers.kato_view.data import load
from sudare.compare.distances import Answering, TrueTable
from sudare.counts import Counts
from sudare.methods.view import View, open_view
from sudare.methods.view.blocks import BlockView
from sudare.noise import SeededRng
from sudare.noise.geometric import geometric_noise
from sudare.releases import Release
from sudare.testing import Tabled

RELATION = "add-remove"
LARGEST = 2**20  # cells, for what holds every cell
VIEWS = ("model", "product", "hdpview", "mondrian")
EXPECTED_ONLY = ("identity, expected", "hdmm, kron", "hdmm, marginals")
DENSE = ("identity", "dawa", "dawa, published program", "dawa, authors' script")


def _view(method: str, counts: Counts, epsilon: str, seed: int) -> Release:
    chosen = View(epsilon=epsilon, algorithm=method, neighbours=RELATION)  # type: ignore[arg-type]
    return chosen.publish(Tabled(counts), rng=SeededRng(seed))


def _privtree(counts: Counts, epsilon: str, seed: int) -> TiledBoxes:
    return PrivTreeBoxes(epsilon=epsilon).boxes(counts, neighbours=RELATION, rng=SeededRng(seed))


def _privbayes(counts: Counts, epsilon: str, seed: int) -> Counts:
    return PrivBayes(epsilon=epsilon).draw(counts, neighbours=RELATION, rng=SeededRng(seed))


def _identity(counts: Counts, epsilon: str, seed: int) -> CellTable:
    return Identity(epsilon=epsilon).table(counts, neighbours=RELATION, rng=SeededRng(seed))


def _dawa(reading: Any, counts: Counts, epsilon: str, seed: int) -> CellTable:
    return Dawa(epsilon=epsilon, reading=reading).table(counts, neighbours=RELATION, rng=SeededRng(seed))


def _dawa_of_the_script(counts: Counts, epsilon: str, seed: int) -> CellTable:
    """What the authors' script makes of DAWA's buckets: half of epsilon for them, and means cut to whole numbers."""
    method, rng = Dawa(epsilon=epsilon, reading="code", share="1/2"), SeededRng(seed)
    values = counts.dense()
    starts = method.partition(values, neighbours=RELATION, rng=rng)
    lengths = np.diff(np.append(starts, len(values)))
    noise = geometric_noise(len(starts), scale=method.count_scale(RELATION), rng=rng) / lengths
    means = np.add.reduceat(values, starts) // lengths
    return CellTable(counts.schema, np.repeat(means + noise, lengths))


MAKERS: dict[str, Callable[[Counts, str, int], Any]] = {
    **{method: partial(_view, method) for method in VIEWS},
    "privtree": _privtree,
    "privbayes": _privbayes,
    "identity": _identity,
    "dawa": partial(_dawa, "sound"),
    "dawa, published program": partial(_dawa, "code"),
    "dawa, authors' script": _dawa_of_the_script,
}
METHODS = (*MAKERS, *EXPECTED_ONLY)


def is_expected(method: str) -> bool:
    """Tell whether only an expected error is computed."""
    return method in EXPECTED_ONLY


def is_possible(name: str, method: str) -> bool:
    """Tell whether a method can run on a set: some hold every cell."""
    return method not in DENSE or load(name).schema.size <= LARGEST


def opened(made: Any) -> Answering:
    """What answers counts, from whatever a method makes."""
    if isinstance(made, Release):
        return open_view(made)
    if isinstance(made, Counts):
        return TrueTable(made)
    if isinstance(made, TiledBoxes):
        counts = made.counts.astype(np.float64)
        return BlockView(
            schema=made.schema, lows=made.lows, highs=made.highs, counts=counts, variances=np.zeros(len(counts))
        )
    return made  # type: ignore[no-any-return]
