"""The same (epsilon, delta) counted in pure epsilon and in rho: the error of every method.

    python -m benchmarks.concentrated [EPSILON ...]

Pure epsilon keeps (epsilon, 0), rho the same epsilon at delta = 1e-9: the columns compare what a steward may choose
between. `x` is the error under pure epsilon over that under rho: above 1, rho has less. Microdata: one made-up
attribute of 10,000 values after Zipf's law. Table: a made-up mesh of towns. View: Adult and electricity, random ranges
of two and three attributes. Neighbours: replace-one. Adult and electricity need shared/data beside the repository.
"""

import sys
from collections.abc import Callable

import numpy as np
from papers.kato_view.data import is_here, load
from papers.kato_view.errors import ranges

from sudare.compare.distances import rmse_of_ranges
from sudare.counts import Counts
from sudare.methods.microdata import Microdata
from sudare.methods.table import Table
from sudare.methods.view import View, open_view
from sudare.noise import SeededRng
from sudare.schema import Attribute, NumberBins, Schema, Values
from sudare.testing import Tabled

EPSILONS = ("0.1", "1", "3")
DELTA = "1e-9"
TRIALS = 3
VIEW_TRIALS = 2
QUERIES = 1000
Error = Callable[..., float]


def long_tailed(cells: int, rows: int) -> Counts:
    """Records over one attribute of so many values, the k-th holding 1/k of the first, in the paper's manner."""
    items = Attribute(name="item", domain=Values(values=tuple(map(str, range(cells))), is_ordered=True))
    schema = Schema(name="items", attributes=(items,))
    weights = 1 / np.arange(1, cells + 1)
    drawn = np.random.default_rng(1).choice(cells, rows, p=weights / weights.sum())
    return Counts.from_columns(schema, drawn[:, None])


def towns(side: int, rows: int) -> Counts:
    """People in clusters on a square of cells."""
    generator = np.random.default_rng(2)
    axes = [Attribute(name=name, domain=NumberBins.of_width(0, side, 1)) for name in "xy"]
    centres = generator.integers(0, side, (40, 2))
    chosen = generator.choice(40, rows, p=np.arange(40, 0, -1) / 820)
    places = np.clip(centres[chosen] + generator.normal(0, side / 40, (rows, 2)), 0, side - 1).astype(np.int64)
    return Counts.from_columns(Schema(name="towns", attributes=tuple(axes)), places)


def distance(counts: Counts, algorithm: str) -> Error:
    """L2 distance of published microdata."""

    def measure(**promise: str) -> float:
        method, truth = Microdata(algorithm=algorithm, **promise), counts.dense()
        drawn = [method.draw(counts, rng=SeededRng(trial)).dense() for trial in range(TRIALS)]
        return float(np.mean([np.sqrt(((table - truth) ** 2).sum()) for table in drawn]))

    return measure


def block_error(counts: Counts, block: int, **parameters: str) -> Error:
    """RMSE of the sums over squares of a published table."""
    side = counts.schema.sizes[0]

    def add_up(table: np.ndarray) -> np.ndarray:
        return table.reshape(side // block, block, side // block, block).sum(axis=(1, 3))

    def measure(**promise: str) -> float:
        method, truth = Table(**parameters, **promise), add_up(counts.dense())
        drawn = [add_up(method.draw(counts, rng=SeededRng(trial)).dense()) for trial in range(TRIALS)]
        return float(np.sqrt(np.mean([(table - truth) ** 2 for table in drawn])))

    return measure


def range_error(name: str, dimensions: int, algorithm: str, neighbours: str) -> Error:
    """RMSE of 1,000 random ranges answered by a view of a table of the paper."""

    def measure(**promise: str) -> float:
        method = View(algorithm=algorithm, neighbours=neighbours, **promise)
        lows, highs, exact = ranges(name, dimensions, QUERIES)
        views = [open_view(method.publish(Tabled(load(name)), rng=SeededRng(trial))) for trial in range(VIEW_TRIALS)]
        return float(np.mean([rmse_of_ranges(exact, view, lows, highs).value for view in views]))

    return measure


def list_cases() -> list[tuple[str, Error]]:
    items, map_ = long_tailed(10_000, 1_000_000), towns(128, 200_000)
    cases: list[tuple[str, Error]] = [
        ("microdata projection, 1e4 cells, L2", distance(items, "projection")),
        ("microdata tree, 1e4 cells, L2", distance(items, "tree")),
        ("table tree, cells", block_error(map_, 1)),
        ("table tree, squares of 8 x 8", block_error(map_, 8)),
        ("table wavelet, cells", block_error(map_, 1, algorithm="wavelet")),
        ("table wavelet, squares of 8 x 8", block_error(map_, 8, algorithm="wavelet")),
    ]
    if not is_here():
        print("the views are left out: shared/data is not beside the repository")
        return cases
    return [
        *cases,
        ("view model, Adult, 3-D ranges", range_error("adult", 3, "model", "replace")),
        ("view model, Adult, 3-D ranges, add-remove", range_error("adult", 3, "model", "add-remove")),
        ("view model, electricity, 3-D ranges", range_error("electricity", 3, "model", "replace")),
        ("view model, jm1, 2-D ranges", range_error("jm1", 2, "model", "replace")),
        ("view product, Adult, 2-D ranges", range_error("adult", 2, "product", "replace")),
        ("view mondrian, numeric Adult, 2-D ranges", range_error("numeric-adult", 2, "mondrian", "replace")),
        ("view hdpview, numeric Adult, 2-D ranges", range_error("numeric-adult", 2, "hdpview", "replace")),
        ("view mondrian, phoneme, 3-D ranges", range_error("phoneme", 3, "mondrian", "replace")),
    ]


def main(argv: list[str]) -> None:
    epsilons = tuple(argv) or EPSILONS
    print(f"{'error, pure epsilon / the same epsilon at delta ' + DELTA:50}" + "".join(f"{e:>26}" for e in epsilons))
    for name, measure in list_cases():
        cells = []
        for epsilon in epsilons:
            pure, rho = measure(epsilon=epsilon), measure(epsilon=epsilon, delta=DELTA)
            cells.append(f"{pure:9.4g} / {rho:<7.4g} x{pure / rho:5.2f}")
        print(f"{name:50}" + "".join(f"{cell:>26}" for cell in cells), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
