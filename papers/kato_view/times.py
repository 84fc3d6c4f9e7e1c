"""Figures 5 and 6: CPU seconds against the domain, the filled cells and the real sets; table 5: bytes of a view."""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path

import numpy as np

from papers.kato_view.data import load
from papers.kato_view.makers import VIEWS, _view
from papers.kato_view.store import fingerprint, kept
from sudare.counts import Counts
from sudare.schema import Attribute, NumberBins, Schema

RECORDS = 100_000
DOMAINS = (2, 4, 8, 12, 16, 20, 24, 28, 32)  # powers of ten
FILLED = (2, 3, 4, 5)  # powers of ten of filled cells: 1e-8 to 1e-5 of 1e10
TIMED = (*VIEWS[:1], "product", "mondrian")


def made_up(power: int, *, cells: int | None = None, records: int = RECORDS, seed: int = 1) -> Counts:
    """Records over `power` attributes of ten values, around twenty centres, or evenly over so many cells."""
    rng = np.random.default_rng(seed)
    bins = NumberBins.of_width(0, 10, 1)
    schema = Schema(
        name="made-up", attributes=tuple(Attribute(name=f"a{place}", domain=bins) for place in range(power))
    )
    if cells is not None:
        chosen = np.unique(rng.integers(0, 10**power, 2 * cells))[:cells]
        picked = chosen[rng.integers(0, len(chosen), records)]
        columns = np.column_stack([picked // 10**place % 10 for place in range(power)])
        return Counts.from_columns(schema, columns)
    centres = rng.uniform(0, 10, (20, power))
    spread = centres[rng.integers(0, 20, records)] + rng.normal(0, 1.5, (records, power))
    return Counts.from_columns(schema, np.clip(spread, 0, 9.999).astype(np.int64))


def domain_seconds(method: str, power: int, *, records: int = RECORDS) -> float:
    """CPU seconds of a view of 1e5 records over 10^power cells: the least of two runs."""
    return kept(
        ("domain", method, power, records, fingerprint(method)),
        lambda: [_seconds(method, made_up(power, records=records))],
    )[0]


def filled_seconds(method: str, power: int, *, records: int = 10 * RECORDS) -> float:
    """CPU seconds of a view of 1e6 records in 10^power of 1e10 cells."""
    return kept(
        ("filled", method, power, records, fingerprint(method)),
        lambda: [_seconds(method, made_up(10, cells=10**power, records=records))],
    )[0]


def _seconds(method: str, counts: Counts) -> float:
    least = math.inf
    for seed in (1, 2):
        begun = time.process_time()
        _view(method, counts, "1", seed)
        least = min(least, time.process_time() - begun)
    return least


def view_bytes(name: str, method: str, epsilon: str = "1") -> int:
    """The size of the Parquet files of a view."""
    return int(kept(("bytes", name, method, epsilon, fingerprint(method)), lambda: [_bytes(name, method, epsilon)])[0])


def _bytes(name: str, method: str, epsilon: str) -> float:
    release = _view(method, load(name), epsilon, 1)
    with tempfile.TemporaryDirectory() as place:
        release.save(Path(place) / "out", even_if_not_private=True)
        return float(sum(file.stat().st_size for file in (Path(place) / "out").glob("*.parquet")))
