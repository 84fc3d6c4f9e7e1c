"""How tight and how fast the audit is: share of the true epsilon found, and seconds for the audit itself."""

import sys
import time
from fractions import Fraction

import numpy as np

from sudare.methods.microdata import Microdata
from sudare.noise import SeededRng, geometric
from sudare.testing.audits import audit_method
from sudare.testing.subject import even_table
from sudare.verify import audit_outputs

TABLES = {
    "1 cell, add/remove": ([40], [41], 1),
    "3 cells, replace-one": ([40, 40, 40], [41, 39, 40], 2),
    "64 cells, replace-one": ([40] * 64, [41, 39] + [40] * 62, 2),
}
EPSILONS = (Fraction(1, 2), Fraction(1), Fraction(2))


def noisy(table: list[int], runs: int, *, epsilon: Fraction, sensitivity: int, seed: int) -> np.ndarray:
    return geometric(np.tile(table, (runs, 1)), epsilon=epsilon, sensitivity=sensitivity, rng=SeededRng(seed))


def run(runs: int = 100_000) -> list[dict]:
    rows = []
    for name, (*tables, sensitivity) in TABLES.items():
        for epsilon in EPSILONS:
            pair = [noisy(t, runs, epsilon=epsilon, sensitivity=sensitivity, seed=k) for k, t in enumerate(tables)]
            begun = time.perf_counter()
            found = audit_outputs(*pair)
            rows.append(
                {
                    "what": f"{name}, epsilon {epsilon}, {runs:,} runs",
                    "found": found.epsilon_low / float(epsilon),
                    "seconds": time.perf_counter() - begun,
                }
            )
    for neighbours in ("replace", "add-remove"):
        begun = time.perf_counter()
        found = audit_method(Microdata(epsilon=1), even_table(), neighbours=neighbours, runs=runs // 10)
        what = f"microdata on 64 cells, {neighbours}, epsilon 1, {runs // 10:,} runs, draws included"
        rows.append({"what": what, "found": found.epsilon_low, "seconds": time.perf_counter() - begun})
    return rows


def main(argv: list[str]) -> None:
    for row in run(*(int(one) for one in argv[:1])):
        print(f"{row['what']:78} {row['found']:5.2f} of epsilon  {row['seconds']:6.2f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
