"""The wavelet of the paper beside the baselines, in one run: errors of region sums, times, and how time grows.

Errors: a made-up census of 2^16 cells (256 x 256), row and column as two attributes, so that every method sees the map:
the RMSE of sums over blocks in Z-order, over some runs. Growth: a million full cells in domains of 2^20 to 2^60.
"""

import math
import sys
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from papers.baselines.cormode import SparseFilter
from papers.baselines.plain import PlainNoise
from papers.baselines.privelet import Privelet
from papers.baselines.privtree import PrivTree
from papers.terada_tables.wavelet_variants import standard_wavelet

from sudare.compare.distances import block_errors
from sudare.counts import Counts
from sudare.demo.data import census_square
from sudare.methods.table.morton import CellOrder
from sudare.methods.table.wavelet import wavelet
from sudare.noise import Rng, SystemRng
from sudare.schema import Attribute, NumberBins, Schema

SIDE = 256
RUNS = 3
BLOCKS = tuple(4**power for power in range(7))
FULL_CELLS = 1_000_000
BITS = (20, 30, 40, 60)

Draw = Callable[[Counts, Fraction, Rng], np.ndarray]


def square() -> Counts:
    sides = [Attribute(name=name, domain=NumberBins.of_width(0, SIDE, 1)) for name in ("row", "column")]
    values = census_square(rows=SIDE, columns=SIDE, seed=1).ravel()
    kept = np.flatnonzero(values)
    return Counts.build(Schema(name="square", attributes=tuple(sides)), kept[:, None], values[kept])


def by_wavelet(order: str) -> Draw:
    return lambda c, e, rng: wavelet(
        c,
        epsilon=e,
        neighbours="replace",
        total=c.total,
        order=order,
        rng=rng,  # type: ignore[arg-type]
    ).dense()


METHODS: dict[str, Draw] = {
    "plain noise": lambda c, e, rng: PlainNoise(epsilon=e).estimate(c, rng=rng),
    "plain noise, clipped": lambda c, e, rng: PlainNoise(epsilon=e).draw(c, rng=rng).dense(),
    "Privelet (two axes)": lambda c, e, rng: Privelet(epsilon=e).estimate(c, rng=rng),
    "Cormode: filter at 4 scales": lambda c, e, rng: (
        SparseFilter(epsilon=e, threshold=math.ceil(8 / e)).draw(c, rng=rng).dense()
    ),
    "Cormode: sample at 4 scales": lambda c, e, rng: (
        SparseFilter(epsilon=e, threshold=math.ceil(8 / e), kind="sample").draw(c, rng=rng).dense()
    ),
    "PrivTree": lambda c, e, rng: PrivTree(epsilon=e).estimate(c, rng=rng),
    "wavelet, Morton": by_wavelet("morton"),
    "wavelet, radix": by_wavelet("radix"),
    "wavelet, standard decomposition": lambda c, e, rng: standard_wavelet(
        c, epsilon=e, neighbours="replace", total=c.total, rng=rng
    ).dense(),
}


def errors(epsilon: Fraction) -> None:
    counts, rng = square(), SystemRng()
    ranks = CellOrder(schema=counts.schema).ranks(counts.schema.radix.from_ranks(range(counts.schema.size)))
    order = np.argsort(ranks)
    truth = counts.dense()[order]
    print(f"\nRMSE of sums over blocks of cells, epsilon = {epsilon}, {counts.schema.size:,} cells, {RUNS} runs")
    print(f"{'':34}" + "".join(f"{cells:>9,}" for cells in BLOCKS) + f"{'ms':>9}")
    for name, draw in METHODS.items():
        begun = time.process_time()
        outs = [draw(counts, epsilon, rng)[order] for _ in range(RUNS)]
        spent = 1000 * (time.process_time() - begun) / RUNS
        found = [block_errors(truth, out, blocks=BLOCKS) for out in outs]
        means = [math.sqrt(np.mean([one[cells].value ** 2 for one in found])) for cells in BLOCKS]
        print(f"{name:34}" + "".join(f"{mean:9,.1f}" for mean in means) + f"{spent:9,.0f}")


def sparse_table(bits: int) -> Counts:
    widths = [min(10, bits - start) for start in range(0, bits, 10)]
    attributes = [Attribute(name=f"a{k}", domain=NumberBins.of_width(0, 2**w, 1)) for k, w in enumerate(widths)]
    schema = Schema(name="sparse", attributes=tuple(attributes))
    generator = np.random.default_rng(1)
    ranks = generator.permutation(2**20)[:FULL_CELLS] if bits == 20 else None
    columns = np.column_stack([generator.integers(0, size, FULL_CELLS) for size in schema.sizes])
    values = generator.geometric(0.1, FULL_CELLS)
    if ranks is not None:
        return Counts.build(schema, ranks[:, None], values)
    return Counts.from_columns(schema, columns, values)


def growth() -> None:
    print(f"\nseconds of CPU, {FULL_CELLS:,} full cells of 10 people; x: times that of 2^20")
    print(f"{'cells':>8}{'epsilon':>9}{'radix':>9}{'x':>6}{'morton':>9}{'x':>6}{'published cells':>17}")
    first: dict[tuple[str, Fraction], float] = {}
    for bits in BITS:
        counts = sparse_table(bits)
        for epsilon in (Fraction(1, 10), Fraction(1)):
            line = f"{'2^' + str(bits):>8}{epsilon!s:>9}"
            for order in ("radix", "morton"):
                begun = time.process_time()
                out = wavelet(
                    counts, epsilon=epsilon, neighbours="replace", total=counts.total, order=order, rng=SystemRng()
                )
                spent = time.process_time() - begun
                line += f"{spent:9.2f}{spent / first.setdefault((order, epsilon), spent):6.1f}"
            print(line + f"{out.nonzero:17,}")


def main(argv: list[str]) -> None:
    for epsilon in (Fraction(1, 10), Fraction(1)):
        errors(epsilon)
    growth()


if __name__ == "__main__":
    main(sys.argv[1:])
