"""Maps side by side: cells, squares, irregular regions and rectangles by every method for tables, in one run.

python -m benchmarks.table_regions [--runs N] [--maps census,clustered,sparse,xy] [--epsilons 1/10,1]

RMSE by workload, and the geometric mean over four parts in equal weight: cells, squares (mean over their sizes),
irregular regions, rectangles. Maps are made up, with seeds that no constant was chosen on; rivers and suburbs were made
after all constants but the bound below which a cell becomes 0. Shifted maps are cascades moved by 7 rows and 11
columns, so that their halves are no squares of any method. Negative estimates of peers
are left as they are. `worst` compares with the better of the first version and plain noise, workload by workload.
"""

import argparse
import json
import math
import resource
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
from papers.baselines.map_trees import AdaptiveGrid, quadtree, top_down
from papers.baselines.privelet import Privelet

from sudare.counts import Counts
from sudare.demo.data import census_square
from sudare.methods.table import Table
from sudare.noise import GeometricNoise, Rng, SystemRng
from sudare.schema import Attribute, MeshCells, NumberBins, Schema

SAVED = Path(__file__).parent / "results" / "table_regions.json"
Estimate = Callable[[np.ndarray, Fraction, Rng], np.ndarray]


# --- maps -----------------------------------------------------------------------------------------------------------


def clustered(side: int, seed: int) -> np.ndarray:
    """Towns of many sizes on land where nearly every cell holds somebody."""
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[:side, :side]
    density = np.full((side, side), 3.0)
    for _ in range(60):
        row, column = random.uniform(0, side, 2)
        reach, peak = random.lognormal(1.2, 0.7), 100 * random.pareto(1.2) + 20
        density += peak * np.exp(-((rows - row) ** 2 + (columns - column) ** 2) / (2 * reach * reach))
    return random.poisson(density * random.lognormal(0, 0.6, density.shape))


def sparse(side: int, seed: int) -> np.ndarray:
    """Villages: few cells hold anybody."""
    random = np.random.default_rng(seed)
    table = np.zeros((side, side), dtype=np.int64)
    for row, column in random.integers(0, side, (side, 2)):
        near = np.clip(np.array([row, column]) + random.normal(0, 1.5, (12, 2)).astype(int), 0, side - 1)
        table[near[:, 0], near[:, 1]] += random.geometric(1 / (5 + 30 * random.pareto(1.5)))
    return table


def cascade(side: int, seed: int, mean: float) -> np.ndarray:
    """People by halving: every square gives its quarters uneven parts, down to the cells, as real maps look."""
    random = np.random.default_rng(seed)
    density = random.lognormal(0, 0.8, (5, 5))
    while len(density) < side:
        density = np.kron(density, np.ones((2, 2)))
        density *= random.lognormal(0, 0.8, density.shape)
    return random.poisson(density * mean / density.mean())


def rough(side: int, seed: int, power: float) -> np.ndarray:
    """A rough field of mean 0 and deviation 1: its spectrum falls with the wave number to this power."""
    random = np.random.default_rng(seed)
    along = np.fft.fftfreq(side)
    waves = np.maximum(np.hypot(along[:, None], along[None, :]), 1 / side)
    field = np.fft.ifft2(np.fft.fft2(random.standard_normal((side, side))) * waves ** (-power / 2)).real
    return (field - field.mean()) / field.std()


def coast(side: int, seed: int, people: int, *, land: float, towns: int) -> np.ndarray:
    """Land with a coast, towns of Pareto sizes, roads between near ones, villages in parts of the rest."""
    random = np.random.default_rng(seed)
    height = rough(side, seed + 1, 3.0)
    is_land = height > np.quantile(height, 1 - land)
    rows, columns = np.mgrid[:side, :side]
    ys, xs = (line[random.choice(is_land.sum(), towns)] for line in np.nonzero(is_land))
    sizes, density = random.pareto(1.1, towns) + 0.3, np.zeros((side, side))
    for y, x, size in zip(ys, xs, sizes, strict=True):
        density += 6 * np.sqrt(size) * np.exp(-np.hypot(rows - y, columns - x) / (0.6 + 1.1 * np.sqrt(size)))
        for near in np.argsort(np.hypot(ys - y, xs - x))[1:3]:
            part = np.linspace(0, 1, 2 * side)
            road = (np.rint(a + (b[near] - a) * part).astype(int) for a, b in ((y, ys), (x, xs)))
            density[tuple(road)] += 0.1
    settled = rough(side, seed + 2, 2.0)
    density += 0.12 * np.exp(1.3 * settled) * (settled > np.median(settled))
    density *= random.lognormal(0, 0.7, density.shape) * is_land
    density[density < 0.02] = 0
    return random.poisson(density * people / density.sum())


def valleys(side: int, seed: int, people: int) -> np.ndarray:
    """People along valleys; nobody on the mountains."""
    random = np.random.default_rng(seed)
    density = np.exp(-((rough(side, seed + 1, 3.2) / 0.25) ** 2) + 1.2 * rough(side, seed + 2, 1.5))
    density[density < 0.15] = 0
    return random.poisson(density * random.lognormal(0, 0.5, density.shape) * people / density.sum())


def spikes(side: int, seed: int, people: int, *, filled: float, sigma: float) -> np.ndarray:
    """Cells that differ strongly from their neighbours, in parts of the map where anybody lives at all."""
    random = np.random.default_rng(seed)
    settled = rough(side, seed + 1, 2.5)
    likely = settled + 0.7 * random.standard_normal(settled.shape)
    density = np.exp(1.5 * settled) * random.lognormal(0, sigma, settled.shape)
    density[likely < np.quantile(likely, 1 - filled)] = 0
    return random.poisson(density * people / density.sum())


def rivers(shape: tuple[int, int], seed: int, people: int) -> np.ndarray:
    """People along rivers that run together towards a coast, towns where they meet, farms near them."""
    random = np.random.default_rng(seed)
    height, width = shape
    flow = np.zeros(shape)
    for start in random.integers(0, width, 40):
        column = float(start)
        for row in range(int(random.uniform(0, height * 0.7)), height):
            pull = flow[row, max(0, int(column) - 6) : int(column) + 7]
            if pull.max() > 0:  # near a river that is there: towards it
                column += np.sign(int(np.argmax(pull)) - min(6, int(column))) * (random.random() < 0.6)
            column = float(np.clip(column + random.normal(0, 0.8), 0, width - 1))
            flow[row, int(column)] += 1
    density = np.zeros(shape)
    for reach, weight in ((1, 1.0), (3, 0.35), (8, 0.06)):
        density += weight * _smooth(flow**1.3, reach)
    density *= random.lognormal(0, 0.9, shape)
    density[density < np.quantile(density, 0.35)] = 0
    return random.poisson(density * people / density.sum())


def suburbs(shape: tuple[int, int], seed: int, people: int) -> np.ndarray:
    """Gravity: people near work that others are near to, in blocks, and single houses far out."""
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    centres = random.uniform(0, 1, (8, 2)) * shape
    sizes = random.pareto(0.9, 8) + 0.2
    density = np.zeros(shape)
    for (row, column), size in zip(centres, sizes, strict=True):
        density += size / (1.5 + np.hypot(rows - row, columns - column) ** 1.8 / (1 + size))
    blocks = np.kron(random.lognormal(0, 1.0, (-(-shape[0] // 3), -(-shape[1] // 3))), np.ones((3, 3)))
    density *= blocks[: shape[0], : shape[1]] * (random.random(shape) < 0.75)
    houses = (random.random(shape) < 0.04) * random.geometric(0.3, shape)
    return random.poisson(density * people / density.sum()) + houses


def _smooth(field: np.ndarray, reach: int) -> np.ndarray:
    """The mean over a square of cells around every cell."""
    side = 2 * reach + 1
    padded = np.pad(field, ((reach + 1, reach), (reach + 1, reach))).cumsum(axis=0).cumsum(axis=1)
    whole = padded[side:, side:] - padded[:-side, side:] - padded[side:, :-side] + padded[:-side, :-side]
    return np.maximum(whole, 0.0) / side**2


MAPS: dict[str, Callable[[], np.ndarray]] = {
    "census": lambda: census_square(rows=160, columns=160, people_per_cell=100, seed=31),
    "clustered": lambda: clustered(160, 32),
    "sparse": lambda: sparse(160, 33),
    "cascade": lambda: cascade(160, 35, 40.0),
    "thin cascade": lambda: cascade(160, 36, 3.0),
    "coast": lambda: coast(160, 91, 1_200_000, land=0.6, towns=50),
    "thin coast": lambda: coast(160, 92, 80_000, land=0.4, towns=30),
    "valleys": lambda: valleys(160, 93, 400_000),
    "spikes": lambda: spikes(160, 94, 600_000, filled=0.35, sigma=1.6),
    "thin spikes": lambda: spikes(160, 95, 130_000, filled=0.25, sigma=1.4),
    "xy": lambda: census_square(rows=512, columns=512, seed=34),
    "rivers": lambda: rivers((160, 160), 201, 250_000),
    "suburbs": lambda: suburbs((160, 160), 202, 500_000),
    "suburbs 256": lambda: suburbs((256, 256), 203, 300_000),
    "rivers 300 x 700": lambda: rivers((300, 700), 204, 1_500_000),
    "shifted cascade": lambda: np.roll(cascade(160, 35, 40.0), (7, 11), axis=(0, 1)),
    "shifted thin cascade": lambda: np.roll(cascade(160, 36, 3.0), (7, 11), axis=(0, 1)),
}


def count_map(table: np.ndarray, *, as_mesh: bool) -> Counts:
    if as_mesh:  # 160 x 160 cells of 500 m are one first-level area
        cells = MeshCells(level=4, area=("5339",))
        rows, columns = cells.grid(np.arange(cells.size))
        rows, columns = rows - rows.min(), columns - columns.min()
        values = table[rows, columns]
        schema = Schema(name="map", attributes=(Attribute(name="mesh", domain=cells),))
    else:
        named = zip("xy", table.shape, strict=True)
        sides = [Attribute(name=name, domain=NumberBins.of_width(0, size, 1)) for name, size in named]
        schema, values = Schema(name="map", attributes=tuple(sides)), table.ravel()
    kept = np.flatnonzero(values)
    return Counts.build(schema, kept[:, None], values[kept])


def as_map(published: Counts, shape: tuple[int, ...]) -> np.ndarray:
    dense = published.dense()
    domain = published.schema.attributes[0].domain
    if not isinstance(domain, MeshCells):
        return dense.reshape(shape)
    rows, columns = domain.grid(np.arange(domain.size))
    out = np.zeros(shape, dtype=np.int64)
    out[rows - rows.min(), columns - columns.min()] = dense
    return out


# --- questions ------------------------------------------------------------------------------------------------------


def square_errors(error: np.ndarray, side: int) -> float:
    height, width = error.shape
    sums = error.reshape(height // side, side, width // side, side).sum(axis=(1, 3))
    return float(np.mean(sums**2))


def patches(shape: tuple[int, ...], count: int, seed: int) -> np.ndarray:
    """Irregular regions: the cells nearest to random points."""
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    best, nearest = np.full(shape, np.inf), np.zeros(shape, dtype=np.int64)
    for number in range(count):
        row, column = random.uniform(0, shape[0]), random.uniform(0, shape[1])
        away = (rows - row) ** 2 + (columns - column) ** 2
        nearest[away < best] = number
        best = np.minimum(best, away)
    return nearest


def rectangles(shape: tuple[int, ...], seed: int, count: int = 150) -> np.ndarray:
    random = np.random.default_rng(seed)
    ends = [np.sort(random.integers(0, length + 1, (count, 2)), axis=1) for length in shape]
    boxes = np.concatenate(ends, axis=1)
    return boxes[(boxes[:, 1] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 2])]


def box_sums(error: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    added = np.pad(error, ((1, 0), (1, 0))).cumsum(axis=0).cumsum(axis=1)
    top, bottom, left, right = boxes.T
    return added[bottom, right] - added[top, right] - added[bottom, left] + added[top, left]


class Workload:
    """Squared errors of every part."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        sides = (1, 2, 4, 5, 8, 10, 16, 20, 32, 40, 64, 128, 256)
        self.sides = [side for side in sides if all(length % side == 0 and length >= 2 * side for length in shape)]
        size = shape[0] * shape[1]
        self.regions = {cells: patches(shape, max(4, min(400, size // cells)), 7) for cells in (64, 640)}
        self.boxes = rectangles(shape, 8)

    def errors(self, error: np.ndarray) -> dict[str, float]:
        found = {f"{side} x {side}": square_errors(error, side) for side in self.sides}
        for cells, nearest in self.regions.items():
            found[f"~{cells}"] = float(np.mean(np.bincount(nearest.ravel(), error.ravel()) ** 2))
        found["rectangles"] = float(np.mean(box_sums(error, self.boxes) ** 2))
        return found

    @staticmethod
    def geometric_mean(rmse: dict[str, float]) -> float:
        """Cells, squares, irregular regions, rectangles: a quarter each."""
        squares = [value for name, value in rmse.items() if " x " in name and name != "1 x 1"]
        regions = [value for name, value in rmse.items() if name.startswith("~")]
        parts = [[rmse["1 x 1"]], squares, regions, [rmse["rectangles"]]]
        return math.exp(np.mean([np.mean(np.log(np.maximum(part, 1e-9))) for part in parts]))


def by_table(**fields: str) -> Estimate:
    def estimate(table: np.ndarray, epsilon: Fraction, rng: Rng) -> np.ndarray:
        counts = count_map(table, as_mesh=table.shape == (160, 160))
        return as_map(Table(epsilon=epsilon, **fields).draw(counts, rng=rng), table.shape)  # type: ignore[arg-type]

    return estimate


def paper(table: np.ndarray, epsilon: Fraction, rng: Rng) -> np.ndarray:
    return as_map(
        Table(epsilon=epsilon, algorithm="wavelet").draw(count_map(table, as_mesh=False), rng=rng), table.shape
    )


def privelet(table: np.ndarray, epsilon: Fraction, rng: Rng) -> np.ndarray:
    return Privelet(epsilon=epsilon).estimate(count_map(table, as_mesh=False), rng=rng).reshape(table.shape)


METHODS: dict[str, Estimate] = {
    "squares": by_table(),
    "first version": by_table(algorithm="tree"),
    "paper's wavelet": paper,
    "plain noise": lambda t, e, rng: GeometricNoise(scale=2 / e).add(t.ravel(), rng=rng).reshape(t.shape),
    "AdaptiveGrid": lambda t, e, rng: AdaptiveGrid(epsilon=e).estimate(t, rng=rng),
    "quadtree": lambda t, e, rng: quadtree(e, t.shape[0]).estimate(t, rng=rng),
    "TopDown": lambda t, e, rng: top_down(e, t.shape[0]).estimate(t, rng=rng),
    "BlueDown": lambda t, e, rng: top_down(e, t.shape[0], is_agreed=True).estimate(t, rng=rng),
    "Privelet": privelet,
}


# --- one run --------------------------------------------------------------------------------------------------------


def compare(name: str, epsilon: Fraction, runs: int, chosen: list[str]) -> dict:
    table = MAPS[name]()
    workload, rows = Workload(table.shape), {}
    for method in chosen:
        squared: list[dict[str, float]] = []
        phantoms = 0
        for _ in range(runs):
            out = METHODS[method](table, epsilon, SystemRng())
            squared.append(workload.errors(out - table))
            phantoms += int(((np.rint(out) > 0) & (table == 0)).sum()) // runs
        rmse = {part: math.sqrt(np.mean([run[part] for run in squared])) for part in squared[0]}
        rows[method] = {"rmse": rmse, "mean": workload.geometric_mean(rmse), "phantoms": phantoms}
    facts = {"map": name, "epsilon": str(epsilon), "people": int(table.sum()), "filled": float((table > 0).mean())}
    return {**facts, "methods": rows}


def show(result: dict) -> None:
    rows = result["methods"]
    first = rows.get("first version", rows["squares"])
    people, filled = f"{result['people']:,} people", f"{result['filled']:.0%} of cells filled"
    print(f"{result['map']}, epsilon {result['epsilon']}: {people}, {filled}")
    parts = " ".join(f"{part.replace(' ', ''):>8}" for part in rows["squares"]["rmse"])
    print(f"{'':16}{parts}     mean  first/this  worst  phantoms")
    plain = rows.get("plain noise", first)["rmse"]
    for method, row in rows.items():
        worst = max(value / min(first["rmse"][part], plain[part]) for part, value in row["rmse"].items())
        figures = " ".join(f"{value:8.1f}" for value in row["rmse"].values())
        ratio = first["mean"] / row["mean"]
        print(f"{method:16}{figures} {row['mean']:8.1f}  {ratio:10.2f}  {worst:5.2f}  {row['phantoms']:8}", flush=True)


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--maps", default=",".join(MAPS))
    parser.add_argument("--epsilons", default="1/10,1")
    parser.add_argument("--methods", default=",".join(METHODS))
    given = parser.parse_args(argv)
    results = []
    for name in given.maps.split(","):
        for epsilon in map(Fraction, given.epsilons.split(",")):
            results.append(compare(name, epsilon, given.runs, given.methods.split(",")))
            show(results[-1])
    if results and given.methods == ",".join(METHODS):
        SAVED.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_utime:.0f} CPU s")


if __name__ == "__main__":
    main(sys.argv[1:])
