"""Views of many columns and of long lists: which planted pairs are measured, and what a long tail costs the others.

    python -m benchmarks.view_wide [ROWSxCOLUMNS ...] [--epsilon 1] [--tails 5000 5000]

Tables are made up. Wide ones have columns of 2 to 20 values; in a fifth of all pairs of neighbours the second follows
the first in seven of ten records. With --tails ten columns in two related groups are published without and with
unordered columns of so many values (Zipf, exponent 1.1). Told: pairs measured, CPU seconds, memory, error of the rest.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import sys
import time

import numpy as np

from sudare.counts import Counts
from sudare.methods.view import OpenedView, View, open_view
from sudare.testing import Tabled
from sudare.testing.subject import schema_of


def make_wide(rows: int, columns: int, planted: int, seed: int) -> Counts:
    """Columns of 2 to 20 values; of the first `planted` pairs the second column follows the first."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([2, 3, 5, 8, 12, 20], columns).tolist()
    table: list[np.ndarray] = []
    for place, size in enumerate(sizes):
        column = rng.choice(size, rows, p=rng.dirichlet(np.full(size, 1.5)))
        if place % 2 and place // 2 < planted:
            column = np.where(rng.random(rows) < 0.7, table[-1] * size // sizes[place - 1], column)
        table.append(column)
    return Counts.from_columns(schema_of(*sizes), np.column_stack(table))


def make_tailed(rows: int, tails: list[int], seed: int) -> tuple[Counts, Counts]:
    """Ten columns in two groups that share a cause, and the same beside lists that follow the first column a little."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([2, 3, 5, 8, 12, 20, 40], 10).tolist()
    causes = [rng.random(rows) for _ in range(2)]
    table = []
    for place, size in enumerate(sizes):
        own = rng.choice(size, rows, p=rng.dirichlet(np.full(size, 1.5)))
        table.append(np.where(rng.random(rows) < 0.5, (causes[place // 5] * size).astype(np.int64), own))
    lists = []
    for size in tails:
        weights = 1 / np.arange(1, size + 1) ** 1.1
        rank = rng.choice(size, rows, p=weights / weights.sum())
        follows = np.minimum(rank // sizes[0] * sizes[0] + table[0], size - 1)
        lists.append(rng.permutation(size)[np.where(rng.random(rows) < 0.5, follows, rank)])
    plain = Counts.from_columns(schema_of(*sizes), np.column_stack(table))
    return plain, Counts.from_columns(schema_of(*sizes, *tails), np.column_stack([*table, *lists]))


def publish(counts: Counts, epsilon: str) -> tuple[OpenedView, str]:
    """Publish and open; how long it took and how much memory the process has used so far."""
    start = time.process_time()
    view = open_view(View(epsilon=epsilon, neighbours="add-remove").publish(Tabled(counts)))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return view, f"{time.process_time() - start:6.1f} CPU s {memory:5.2f} GB"


def pair_error(view: OpenedView, counts: Counts, columns: int) -> float:
    """The root mean square error of all tables of two of the first columns."""
    codes, names, errors = counts.columns(), counts.schema.names, []
    for first, second in itertools.combinations(range(columns), 2):
        true = np.zeros([counts.schema.sizes[place] for place in (first, second)])
        np.add.at(true, (codes[:, first], codes[:, second]), counts.values)
        errors.append(((view.marginal([names[first], names[second]]) - true) ** 2).mean())
    return float(np.sqrt(np.mean(errors)))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.view_wide")
    parser.add_argument("shapes", nargs="*", default=["500x30", "16000x100"])
    parser.add_argument("--epsilon", nargs="*", default=["1"])
    parser.add_argument("--tails", nargs="*", type=int, default=[])
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args(arguments)
    for shape, epsilon in itertools.product(options.shapes, options.epsilon):
        rows, columns = (int(part) for part in shape.split("x"))
        if options.tails:
            plain, tailed = make_tailed(rows, options.tails, columns)
            errors = []
            for counts in (plain, tailed):
                opened = [publish(counts, epsilon) for _ in range(options.seeds)]
                errors.append(float(np.mean([pair_error(view, counts, 10) for view, _ in opened])))
            ratio = errors[1] / errors[0]
            print(
                f"{rows} rows, epsilon {epsilon}, lists {options.tails}: error of the rest {ratio:.2f}, {opened[-1][1]}"
            )
            continue
        planted = columns // 5
        view, cost = publish(make_wide(rows, columns, planted, columns), epsilon)
        measures = view.certificate.measures
        found = sum([f"a{2 * pair}", f"a{2 * pair + 1}"] in measures["measured_pairs"] for pair in range(planted))
        many = len(measures["measured_pairs"])
        print(
            f"{shape:>10} epsilon {epsilon:>4}: {many} of {measures['pairs']} pairs measured,"
            f" {found} of {planted} planted, {measures['independent_pairs']} taken as independent, {cost}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
