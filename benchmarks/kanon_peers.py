"""The peers' side of benchmarks.kanon, run by an interpreter that has them: Adult in, one line of JSON out.

anjana and pycanon pin exact versions of NumPy and pandas, so that they live in an environment of their own.
"""

import importlib.metadata
import json
import sys
import time
from pathlib import Path

K, SHARE = 5, 5  # percent


def main(folder: Path) -> None:
    import pandas as pd
    from anjana.anonymity import k_anonymity
    from pycanon import anonymity

    data = pd.read_csv(folder / "adult.csv", sep=";", dtype=str)
    names = list(data.columns)
    trees = {
        name: dict(pd.read_csv(folder / f"adult_hierarchy_{name}.csv", sep=";", header=None, dtype=str))
        for name in names
    }
    begun = time.process_time()
    out = k_anonymity(data, [], names, K, SHARE, trees)
    anjana = time.process_time() - begun
    begun = time.process_time()
    found = anonymity.k_anonymity(data, names)
    pycanon = time.process_time() - begun
    levels = []
    for name in names:
        seen = set(out[name])
        levels.append(next(level for level, column in trees[name].items() if seen <= set(column)))
    versions = {one: importlib.metadata.version(one) for one in ("anjana", "pycanon", "pandas", "numpy")}
    print(
        json.dumps(
            {"versions": versions, "anjana": anjana, "pycanon": pycanon, "k": int(found), "levels": levels,
             "kept": len(out)}
        )
    )  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]))
