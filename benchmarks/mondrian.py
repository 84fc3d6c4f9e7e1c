"""Mondrian beside anonypyx, on the same codes of Adult, in one run: seconds, parts, and their ratio.

    python -m benchmarks.mondrian [K]

anonypyx cuts below the median only; with the same cuts both find the same number of parts. Sudare's own cuts try the
other side of the median too, and find more. Needs `pip install anonypyx pandas` and shared/data/adult-arx beside the
repository; what is not there is left out. Numbers are CPU seconds: the machine is shared.
"""

import csv
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from sudare.methods.kanon.criteria import MinimumSize
from sudare.methods.kanon.mondrian import partition
from sudare.methods.kanon.recode import Pieces, make_class_checker
from sudare.schema import Attribute, Values

ADULT = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult-arx" / "adult.csv"


def table() -> tuple[list[str], np.ndarray]:
    """Adult as codes in alphabetical order; without the file, made-up rows of the same shape."""
    if not ADULT.is_file():
        print("shared/data/adult-arx is not beside the repository: 30,162 made-up rows instead")
        sizes = (2, 74, 5, 7, 16, 41, 7, 14, 2)
        rng = np.random.default_rng(1)
        return [f"a{n}" for n in range(9)], np.column_stack([(size * rng.beta(1, 3, 30_162)) for size in sizes]).astype(
            int
        )
    with ADULT.open(encoding="utf-8", newline="") as stream:
        head, *rows = csv.reader(stream, delimiter=";")
    return head, np.column_stack([np.unique(column, return_inverse=True)[1] for column in zip(*rows, strict=True)])


def timed(work: Callable[[], int]) -> tuple[int, float]:
    """Do it once; what it found, and CPU seconds."""
    begun = time.process_time()
    found = work()
    return found, time.process_time() - begun


def ours(head: list[str], codes: np.ndarray, k: int, **options: bool) -> Callable[[], int]:
    """Distinct combinations, then parts: all that happens after counting, and the counting too."""

    def work() -> int:
        distinct, weights = np.unique(codes, axis=0, return_counts=True)
        sizes = codes.max(axis=0) + 1
        attributes = tuple(
            Attribute(name=name, domain=Values(tuple(map(str, range(size))), is_ordered=True))
            for name, size in zip(head, sizes, strict=True)
        )
        pieces = Pieces(attributes=attributes, quasi=len(head), codes=distinct, weights=weights.astype(np.int64))
        return partition(pieces, distinct, make_class_checker((MinimumSize(k=k),), pieces), **options).count

    return work


def theirs(head: list[str], codes: np.ndarray, k: int) -> Callable[[], int]:
    import pandas
    from anonypyx.models import kAnonymity
    from anonypyx.mondrian import Mondrian

    frame = pandas.DataFrame(codes, columns=head)
    return lambda: len(Mondrian(frame, head).partition([kAnonymity(k)]))


def main(argv: list[str]) -> None:
    k = int(argv[0]) if argv else 5
    head, codes = table()
    runs = {
        "sudare, the same cuts": ours(head, codes, k, both=False),
        "sudare strict": ours(head, codes, k),
        "sudare relaxed": ours(head, codes, k, relaxed=True),
    }
    found = {name: timed(work) for name, work in runs.items()}
    try:
        found["anonypyx"] = timed(theirs(head, codes, k))
    except ImportError:
        print("anonypyx or pandas is not installed; left out")
    for name, (parts, seconds) in found.items():
        print(f"{name:24} {parts:6d} parts  {seconds:8.3f} s")
    if "anonypyx" in found:
        ratio = found["anonypyx"][1] / found["sudare, the same cuts"][1]
        print(f"{'anonypyx / sudare':24} {ratio:6.0f} times, same cuts")


if __name__ == "__main__":
    main(sys.argv[1:])
