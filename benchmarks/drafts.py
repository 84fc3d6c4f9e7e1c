"""What a draft of a schema costs beside one count over the same columns, in one run on the same files.

A draft reads whole columns: every range and every list of values comes from all rows. It must not cost more than one
and a half counts, from Parquet and from CSV; the counts are those of the schema that was drafted.

    python -m benchmarks.drafts [--rows N] [--csv-rows N]
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.spark import make

MOST = 1.5  # counts that a draft may cost


def spent() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(data: str) -> dict:
    """CPU seconds of a draft and of a count, in a process of their own."""
    command = [sys.executable, "-m", "benchmarks.drafts", "--measure", data]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure_here(data: str) -> dict:
    import sudare as sd
    from sudare.sources import propose_schema

    folder = Path(tempfile.mkdtemp())
    begun = spent()
    draft = propose_schema(data, name="visits")
    drafted = spent()
    schema = sd.Schema.read(draft.save(folder / "visits.toml", confirmed=True))
    with sd.open(data, schema) as source:
        before = spent()
        counts = source.count()
        counted = spent()
    return {"draft": drafted - begun, "count": counted - before, "rows": counts.total, "cells": counts.nonzero}


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--csv-rows", type=int, default=10_000_000)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    chosen = parser.parse_args(argv)
    if chosen.measure:
        print(json.dumps(measure_here(chosen.measure)))
        return
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start; CPU seconds")
    with tempfile.TemporaryDirectory() as place:
        for kind, rows in (("parquet", chosen.rows), ("csv", chosen.csv_rows)):
            folder = Path(place, kind)
            folder.mkdir()
            make(folder, rows)
            data = f"{folder}/*.parquet"
            if kind == "csv":
                data = write_csv(data, Path(place, "visits.csv"))
            show(kind, measure(data))


def write_csv(data: str, path: Path) -> str:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT * FROM '{data}') TO '{path}' (HEADER)")
    return str(path)


def show(kind: str, found: dict) -> None:
    ratio = found["draft"] / found["count"]
    print(f"{kind:8} {found['rows']:>12,} rows, {found['cells']:,} cells: draft {found['draft']:.1f}, "
          f"count {found['count']:.1f}: {ratio:.2f} times, at most {MOST} wanted", flush=True)  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
