"""Tables 1 and 2: the variance of sums over blocks of 16 and 1,024 of 2^19 cells, epsilon = 0.1."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers.baselines.plain import PlainNoise
from papers.baselines.privelet import Privelet
from papers.terada_tables.estat import read_mesh_csv
from sudare.counts import Counts
from sudare.demo.data import census_square
from sudare.methods.table.morton import CellOrder, interleaved, z_ranks
from sudare.methods.table.wavelet import descend, wavelet
from sudare.noise import GeometricNoise, Rng, SeededRng, geometric
from sudare.schema import Attribute, MeshCells, Schema, Values

EXPECTED: dict[str, Any] = tomllib.loads(Path(__file__).with_name("expected.toml").read_text(encoding="utf-8"))
EPSILON = Fraction(EXPECTED["epsilon"])
BLOCKS = tuple(4**power for power in range(9))

Numbers = NDArray[np.int64]
Reals = NDArray[np.float64]
Draw = Callable[[Numbers, Rng], NDArray[Any]]


@cache
def line(levels: int) -> Schema:
    """2^levels cells in a row: the paper's vector V."""
    values = Values(tuple(str(cell) for cell in range(2**levels)), is_ordered=True)
    return Schema(name="cells", attributes=(Attribute(name="cell", domain=values),))


def table_of(vector: Numbers) -> Counts:
    kept = np.flatnonzero(vector)
    return Counts.build(line(len(vector).bit_length() - 1), kept[:, None], vector[kept])


def made_up(seed: int, *, levels: int = 19) -> Numbers:
    """A rectangle of the made-up census in Z-order."""
    rows, columns = 2 ** (levels // 2), 2 ** (levels - levels // 2)
    square = census_square(rows=rows, columns=columns, seed=seed)
    r, c = np.indices(square.shape)
    vector = np.zeros(square.size, dtype=np.int64)
    vector[interleaved(r, c).ravel()] = square.ravel()
    return vector


def from_files(files: Sequence[str]) -> Numbers:
    """Mesh files of the user: all cells of their first-level areas in Z-order, cut to a power of two of them."""
    tables = [read_mesh_csv(file) for file in files]
    if len({table.level for table in tables}) != 1:
        raise SystemExit("the mesh files must be of one level")
    level = tables[0].level
    codes, people = (np.concatenate(parts) for parts in zip(*((t.codes, t.people) for t in tables), strict=True))
    shift = 10 ** (len(str(int(codes[0]))) - 4)
    cells = MeshCells(level=level, area=tuple(str(code) for code in np.unique(codes // shift).tolist()))
    vector = np.zeros(cells.size, dtype=np.int64)
    np.add.at(vector, z_ranks(cells, cells.find(codes)), people)
    return vector[: 1 << (len(vector).bit_length() - 1)]


def paper_scale(levels: int) -> Fraction:
    """2(1 + k)/epsilon."""
    return 2 * (1 + levels) / EPSILON


def proposed(vector: Numbers, rng: Rng) -> Numbers:
    """The paper's setting: noise of 2(1 + k)/epsilon everywhere, in the total too."""
    counts = table_of(vector)
    cells = CellOrder(schema=counts.schema, order="radix")
    scale = paper_scale(cells.levels)
    total = geometric(np.array([counts.total]), epsilon=1 / scale, sensitivity=1, rng=rng)
    return descend(counts, cells, total=int(total[0]), noise=GeometricNoise(scale=scale), rng=rng).dense()


def ours(vector: Numbers, rng: Rng) -> Numbers:
    """The same method at the epsilon it needs: 2k/epsilon, the total public."""
    counts = table_of(vector)
    return wavelet(counts, epsilon=EPSILON, neighbours="replace", total=counts.total, order="radix", rng=rng).dense()


ROWS: Mapping[str, tuple[str, Draw]] = {
    "privelet": ("Privelet", lambda v, rng: Privelet(epsilon=EPSILON).estimate(table_of(v), rng=rng)),
    "proposed": ("proposed (top-down), paper's noise", proposed),
    "ours": ("the same with 2k/epsilon, total public", ours),
    "plain": (
        "plain noise, replace-one",
        lambda v, rng: PlainNoise(epsilon=EPSILON).estimate(table_of(v), rng=rng),
    ),
    "plain-add-remove": (
        "plain noise, add/remove (as in the paper)",
        lambda v, rng: PlainNoise(epsilon=EPSILON).estimate(table_of(v), neighbours="add-remove", rng=rng),
    ),
    "clipped": (
        "plain noise, replace-one, clipped at 0",
        lambda v, rng: np.maximum(PlainNoise(epsilon=EPSILON).estimate(table_of(v), rng=rng), 0),
    ),
}

Found = dict[tuple[str, int], list[float]]


def run(vectors: Sequence[Numbers], *, seed: int, rows: Sequence[str] = tuple(ROWS)) -> Found:
    """Var(error of a block sum), about 0, by row and cells of a block, one figure per data set."""
    found: Found = {}
    for place, vector in enumerate(vectors):
        for name in rows:
            out = ROWS[name][1](vector, SeededRng(1000 * seed + place))
            error = np.asarray(out, dtype=np.float64) - vector
            for cells in BLOCKS:
                if cells <= len(error) // 8:
                    sums = error.reshape(-1, cells).sum(axis=1)
                    found.setdefault((name, cells), []).append(float(np.mean(sums**2)))
    return found


def surprises(found: Found) -> list[str]:
    """Figures that are off the print by more than its tolerance, one line each."""
    odd = []
    for table in EXPECTED["table"]:
        cells = table["cells"]
        printed = float(np.mean(table["privelet"]))
        privelet = float(np.mean(found["privelet", cells])) / cells
        if abs(privelet / printed - 1) > table["privelet_tolerance"]:
            odd.append(f"table {table['number']}, Privelet: {privelet:,.1f} for {printed:,.1f}")
        low, high = table["proposed_between"]
        top_down = float(np.mean(found["proposed", cells])) / cells
        if not low <= top_down <= high:
            odd.append(f"table {table['number']}, proposed: {top_down:,.1f} is not between {low} and {high}")
    return odd
