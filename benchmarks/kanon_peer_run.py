"""One peer on one table, run by an interpreter that has it: a folder in, one line of JSON out.

The folder holds adult.csv and adult_hierarchy_NAME.csv (whatever the table is), as ARX writes them. anjana and pycanon
pin exact versions of NumPy and pandas, so that they live in an environment of their own. The loss is ARX's: of every
attribute the share of the other values that a published value stands for, 1 for a row that is left out, put together as
(product of (1 + loss))^(1/attributes) - 1.
"""

import importlib.metadata
import json
import math
import resource
import sys
import time
from pathlib import Path

PERCENT = 5  # of the rows that anjana may leave out


def read_folder(folder):
    import pandas as pd

    data = pd.read_csv(folder / "adult.csv", sep=";", dtype=str)
    trees = {
        name: pd.read_csv(folder / f"adult_hierarchy_{name}.csv", sep=";", header=None, dtype=str)
        for name in data.columns
    }
    return data, trees


def measure_loss(lost, rows):
    """The loss from the sums over published rows of every attribute; rows that are not published count 1."""
    return math.prod(1 + total / rows for total in lost) ** (1 / len(lost)) - 1


def run_anjana(data, trees, k):
    from anjana.anonymity import k_anonymity

    names = list(data.columns)
    begun = time.process_time()
    out = k_anonymity(data, [], names, k, PERCENT, {name: dict(trees[name]) for name in names})
    seconds = time.process_time() - begun
    lost = []
    for name in names:
        tree, size = trees[name], len(trees[name])
        seen = set(out[name])
        level = next(level for level in tree if seen <= set(tree[level]))
        leaves = tree[level].value_counts()
        lost.append(float(((out[name].map(leaves) - 1) / max(1, size - 1)).sum()) + len(data) - len(out))
    return seconds, measure_loss(lost, len(data)), len(data) - len(out)


def run_anonypyx(data, trees, k):
    import anonypyx
    import pandas as pd

    names = list(data.columns)
    codes = {name: {value: code for code, value in enumerate(trees[name][0])} for name in names}
    frame = pd.DataFrame({name: data[name].map(codes[name]).astype(int) for name in names})
    frame["nothing"] = "x"  # it asks for a sensitive column
    begun = time.process_time()
    anonymiser = anonypyx.Anonymiser(
        frame, k=k, algorithm="Mondrian", feature_columns=names, sensitive_column="nothing",
        generalisation_strategy="human-readable",
    )  # fmt: skip
    out = anonymiser.anonymise()
    seconds = time.process_time() - begun
    lost = []
    for name in names:
        ends = [[int(end) for end in str(label).split("-")] for label in out[name]]
        span = [(max(pair) - min(pair)) / max(1, len(codes[name]) - 1) for pair in ends]
        lost.append(float(sum(share * count for share, count in zip(span, out["count"], strict=True))))
    return seconds, measure_loss(lost, len(data)), 0


def run_pycanon(data, trees, k):
    from pycanon import anonymity

    begun = time.process_time()
    found = anonymity.k_anonymity(data, list(data.columns))
    return time.process_time() - begun, float(found), 0


RUNS = {"anjana": run_anjana, "anonypyx": run_anonypyx, "pycanon": run_pycanon}


def main(peer: str, folder: Path, k: int) -> None:
    data, trees = read_folder(folder)
    seconds, loss, left_out = RUNS[peer](data, trees, k)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    facts = {"version": importlib.metadata.version(peer), "seconds": seconds, "loss": loss, "left_out": left_out}
    print(json.dumps({**facts, "megabytes": memory}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
