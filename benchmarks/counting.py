"""Counting rows of a Parquet file: Sudare beside the best DuckDB queries written by hand, in one run.

The hand-written queries know the data: no value is missing or outside, so they check nothing, and they leave the cells
unsorted. Ours checks every value against the schema and gives sorted cells. Each runs in a process of its own, which
also tells its peak memory; turns alternate, and the best of each counts.

    python -m benchmarks.counting [--rows N] [--repeat R]
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

PREFECTURES = [f"県{number:02d}" for number in range(47)]
INCOMES = [0, 10_000, 50_000, 100_000, 300_000, 600_000, 1_000_000]
SHAPES = {"1.4 million cells": 20, "34 million cells": 500}  # how many different items


def items_of(count: int) -> list[str]:
    return [f"item-{number:04d}" for number in range(count)]


def make(path: Path, rows: int, items: int) -> None:
    """Write a table of five columns: two texts, two integers and a day."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET preserve_insertion_order = false")
        connection.execute(f"""
            COPY (SELECT
                list_extract({PREFECTURES}, 1 + (hash(i * 5 + 1) % 47)::INT) AS prefecture,
                list_extract({items_of(items)}, 1 + (hash(i * 5 + 2) % {items})::INT) AS item,
                (hash(i * 5 + 3) % 100)::INT AS age,
                ((hash(i * 5 + 4) % 1000) * (hash(i * 5 + 9) % 1000))::BIGINT AS income,
                DATE '2024-01-01' + (hash(i * 5 + 5) % 366)::INT AS visit
            FROM range({rows}) AS t(i)) TO '{path}' (FORMAT parquet)
        """)


# --- by hand --------------------------------------------------------------------------------------------------------


def by_hand(path: Path, items: int, *, strings: str) -> int:
    import duckdb

    with duckdb.connect() as connection:
        for name, values in (("prefecture", PREFECTURES), ("item", items_of(items))):
            listed = ", ".join(f"'{value}'" for value in values)
            connection.execute(f"CREATE TYPE {name}_enum AS ENUM ({listed})")
            connection.execute(
                f"CREATE TABLE {name}_map AS SELECT unnest([{listed}]) v, unnest(range({len(values)})) c"
            )
        key = {
            "join": ("prefecture_map.c", "item_map.c"),
            "enum": ("enum_code(prefecture::prefecture_enum)", "enum_code(item::item_enum)"),
        }[strings]
        tables = f"'{path}'"
        if strings == "join":
            tables += " JOIN prefecture_map ON prefecture = prefecture_map.v JOIN item_map ON item = item_map.v"
        income = "CASE WHEN income < 100000 THEN CASE WHEN income < 10000 THEN 0 WHEN income < 50000 THEN 1 ELSE 2 END "
        income += "WHEN income < 300000 THEN 3 WHEN income < 600000 THEN 4 ELSE 5 END"
        word = f"((({key[0]}::BIGINT * {items} + {key[1]}) * 20 + age // 5) * 6 + {income}) * 12 + month(visit) - 1"
        found = connection.execute(
            f"SELECT ({word})::INT AS key, count(*) AS n FROM {tables} GROUP BY key"
        ).fetchnumpy()
    return int(found["n"].sum())


def by_sudare(path: Path, items: int) -> int:
    import sudare as sd
    from sudare.schema import DateBins, NumberBins, Values

    domains = {
        "prefecture": Values(tuple(PREFECTURES)),
        "item": Values(tuple(items_of(items))),
        "age": NumberBins.of_width(0, 100, 5),
        "income": NumberBins(tuple(INCOMES)),
        "visit": DateBins.of_width(date(2024, 1, 1), date(2024, 12, 31), "1 month"),
    }
    attributes = tuple(sd.Attribute(name=name, domain=domain) for name, domain in domains.items())
    with sd.open(path, sd.Schema(name="visits", attributes=attributes)) as source:
        return source.count().total


WAYS = {
    "hand, join": lambda path, items: by_hand(path, items, strings="join"),
    "hand, enum": lambda path, items: by_hand(path, items, strings="enum"),
    "sudare": by_sudare,
}


# --- side by side -----------------------------------------------------------------------------------------------------


def measure(way: str, path: Path, items: int) -> dict:
    """Time one way in a process of its own, imports not counted."""
    import duckdb  # noqa: F401
    import sqlglot  # noqa: F401

    import sudare.sources.duckdb  # noqa: F401

    begun = time.perf_counter()
    total = WAYS[way](path, items)
    seconds = time.perf_counter() - begun
    return {"total": total, "seconds": seconds, "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


def run(rows: int = 10_000_000, repeat: int = 2) -> list[dict]:
    results = []
    with tempfile.TemporaryDirectory() as place:
        for shape, items in SHAPES.items():
            path = Path(place, f"{items}.parquet")
            make(path, rows, items)
            best: dict[str, dict] = {}
            for _ in range(repeat):
                for way in WAYS:
                    found = _in_process(way, path, items)
                    if way not in best or found["seconds"] < best[way]["seconds"]:
                        best[way] = found
            hand = min(found["seconds"] for way, found in best.items() if way != "sudare")
            results += [
                {"shape": shape, "rows": rows, "way": way, **found, "ratio": found["seconds"] / hand}
                for way, found in best.items()
            ]
            path.unlink()
    return results


def _in_process(way: str, path: Path, items: int) -> dict:
    command = [sys.executable, "-m", "benchmarks.counting", "--measure", way, str(path), str(items)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args(argv)
    if chosen.measure:
        way, path, items = chosen.measure
        print(json.dumps(measure(way, Path(path), int(items))))
        return
    print(f"{chosen.rows:,} rows x 5 columns from Parquet")
    for row in run(chosen.rows, chosen.repeat):
        print(
            f"{row['shape']:>18}  {row['way']:12} {row['seconds']:7.2f} s  x{row['ratio']:.2f}  {row['peak_gb']:.2f} GB"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
