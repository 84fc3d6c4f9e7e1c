"""How fast noise is drawn, side by side: OpenDP, NumPy's own (insecure, inexact) Laplace, and Sudare.

One vector of a million counts at scale 20, one core, the best of some rounds (OpenDP: one), all in one process. Time is
CPU time, so that a busy machine disturbs little.
"""

import importlib.metadata
import importlib.util
import sys
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from sudare.noise import SystemRng, geometric, geometric_noise

SIZE = 1_000_000
SCALE = Fraction(20)
ROUNDS = 25
LARGER = (Fraction(64), Fraction(200), Fraction(10**6), Fraction(10**9))


def seconds(draw: Callable[[], object], rounds: int) -> float:
    """Best CPU time of some rounds."""
    best = float("inf")
    for _ in range(rounds):
        begun = time.process_time()
        draw()
        best = min(best, time.process_time() - begun)
    return best


def opendp_laplace() -> Callable[[], object] | None:
    """OpenDP's measurement on a vector of integers; None if it is not installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    measure = dp.m.make_laplace(*space, scale=float(SCALE))
    zeros = np.zeros(SIZE, dtype=np.int64)
    return lambda: measure(zeros)


def run() -> list[dict]:
    fast, system, generator = SystemRng(), SystemRng(cipher=False), np.random.default_rng()
    zeros = np.zeros(SIZE, dtype=np.int64)
    cases: list[tuple[str, int, Callable[[], object] | None]] = [
        ("OpenDP make_laplace", 1, opendp_laplace()),
        ("NumPy Generator.laplace", ROUNDS, lambda: generator.laplace(scale=float(SCALE), size=SIZE)),
        ("Sudare geometric_noise", ROUNDS, lambda: geometric_noise(SIZE, scale=SCALE, rng=fast)),
        (
            "Sudare geometric, added to counts",
            ROUNDS,
            lambda: geometric(zeros, epsilon=1 / SCALE, sensitivity=1, rng=fast),
        ),
        ("Sudare geometric_noise, os.urandom", ROUNDS, lambda: geometric_noise(SIZE, scale=SCALE, rng=system)),
    ]
    cases += [
        (
            f"Sudare geometric_noise, scale {scale}",
            ROUNDS,
            lambda scale=scale: geometric_noise(SIZE, scale=scale, rng=fast),
        )
        for scale in LARGER
    ]
    for _, _, draw in cases[2:]:
        draw()  # tables are built once, before anything is timed
    rows = [{"what": what, "per_second": SIZE / seconds(draw, rounds)} for what, rounds, draw in cases if draw]
    speed = {row["what"]: row["per_second"] for row in rows}
    for row in rows:
        row["times_opendp"] = row["per_second"] / speed.get("OpenDP make_laplace", float("nan"))
        row["times_numpy"] = row["per_second"] / speed["NumPy Generator.laplace"]
    return rows


def main(argv: list[str]) -> None:
    names = [name for name in ("numpy", "cryptography", "opendp") if importlib.util.find_spec(name)]
    print(
        ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names) + f"; {SIZE:,} draws, scale {SCALE}"
    )
    print(f"{'':45} {'million/s':>10} {'x OpenDP':>10} {'x NumPy':>10}")
    for row in run():
        print(
            f"{row['what']:45} {row['per_second'] / 1e6:10.3f} {row['times_opendp']:10.1f} {row['times_numpy']:10.2f}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
