"""k-anonymity from a Parquet file to a release, by the number of rows: only counting and writing may grow.

    python -m benchmarks.kanon_rows [--rows 1e6 1e7 1e8] [--folder DIR] [--save]

Made-up people over six columns, five of them quasi-identifiers (225,600 combinations, all of which occur from 1e7 rows
on), k in proportion to the rows, up to 2 % left out. Each size is a process of its own, so that its peak memory can be
told; the engine may use 4 GB. Seconds of the clock and of the processor: the machine is shared. Files go to `--folder`
(by default a temporary one) and are removed.
"""

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

import sudare as sd
from sudare.methods.kanon.risk import compare_recoding
from sudare.schema import Attribute, NumberBins, Schema, TableHierarchy, Values
from sudare.schema.hierarchy_rules import intervals

SAVED = Path(__file__).parent / "results" / "kanon_rows.json"
ROWS_FOR_EACH_K = 500_000
PEOPLE = """
COPY (SELECT
  ['F', 'M'][1 + (hash(i, 1) % 2)::INT] AS sex,
  LEAST(99, FLOOR(100 * pow((hash(i, 2) % 1000000) / 1000000.0, 1.3)))::INT AS age,
  'P' || lpad((1 + FLOOR(47 * pow((hash(i, 3) % 1000000) / 1000000.0, 2)))::INT::VARCHAR, 2, '0') AS pref,
  ['single', 'married', 'divorced', 'widowed'][
    1 + FLOOR(4 * pow((hash(i, 4) % 1000000) / 1000000.0, 1.5))::INT] AS marital,
  'O' || lpad(FLOOR(20 * pow((hash(i, 5) % 1000000) / 1000000.0, 1.8))::INT::VARCHAR, 2, '0') AS job,
  'E' || FLOOR(6 * pow((hash(i, 6) % 1000000) / 1000000.0, 1.2))::INT::VARCHAR AS edu
FROM range({rows}) t(i)) TO '{file}' (FORMAT parquet, ROW_GROUP_SIZE 500000)
"""


def schema() -> Schema:
    """Five quasi-identifiers with hierarchies, and the job as it is."""

    def quasi(name: str, paths: list[tuple[str, ...]]) -> Attribute:
        tree = TableHierarchy.from_paths(paths)
        return Attribute(name=name, domain=Values(tree.names[0]), role="quasi", hierarchy=tree)

    ages = NumberBins.of_width(0, 100, 1)
    marital = ("single", "married", "divorced", "widowed")
    regions = [(f"P{at + 1:02d}", f"R{at // 6}", "E" if at < 24 else "W", "*") for at in range(47)]
    return Schema(
        name="people",
        attributes=(
            quasi("sex", [("F", "*"), ("M", "*")]),
            Attribute(name="age", domain=ages, role="quasi", hierarchy=intervals(ages, [5, 10, 20])),
            quasi("pref", regions),
            quasi("marital", [(one, "*") for one in marital]),
            quasi("edu", [(f"E{one}", "*") for one in range(6)]),
            Attribute(name="job", domain=Values(tuple(f"O{one:02d}" for one in range(20)))),
        ),
    )


@contextmanager
def timed(found: dict[str, Any], name: str) -> Iterator[None]:
    clock, cpu = time.monotonic(), time.process_time()
    yield
    found[name] = {"seconds": round(time.monotonic() - clock, 2), "cpu": round(time.process_time() - cpu, 2)}


def measured(rows: int, folder: Path) -> dict[str, Any]:
    """Count, decide, measure the risk, write; in this process."""
    file, out = folder / f"people-{rows}.parquet", folder / f"out-{rows}"
    found: dict[str, Any] = {"rows": rows, "k": max(2, rows // ROWS_FOR_EACH_K)}
    method = sd.KAnonymity(k=found["k"], max_suppressed="0.02")
    with sd.open(str(file), schema(), memory_limit="4GB", spill_directory=str(folder)) as source:
        names = ("sex", "age", "pref", "marital", "edu")
        with timed(found, "count"):
            counts = source.count(names)
        with timed(found, "decide"):
            outcome = method.outcome(counts, names)
        with timed(found, "risk"):
            compare_recoding(outcome.recoded)
        with timed(found, "write"):
            method.release(source, outcome).save(out)
    searched = outcome.result
    found |= {"combinations": counts.nonzero, "checks": None if searched is None else searched.checks}
    found["peak_gb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)
    shutil.rmtree(out)
    return found


def make(rows: int, folder: Path) -> None:
    connection = duckdb.connect()
    connection.execute("SET memory_limit = '3GB'; SET preserve_insertion_order = false")
    connection.execute(PEOPLE.format(rows=rows, file=folder / f"people-{rows}.parquet"))


def alone(rows: int, folder: Path) -> dict[str, Any]:
    """Measure in a process of its own."""
    make(rows, folder)
    told = [sys.executable, "-m", "benchmarks.kanon_rows", "--one", str(rows), "--folder", str(folder)]
    done = subprocess.run(told, capture_output=True, text=True, check=True)
    (folder / f"people-{rows}.parquet").unlink()
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def show(found: dict[str, Any]) -> None:
    parts = ", ".join(
        f"{name} {found[name]['seconds']:.2f} s ({found[name]['cpu']:.2f} CPU)"
        for name in ("count", "decide", "risk", "write")
    )
    print(
        f"{found['rows']:12,} rows {found['combinations']:9,} combinations, k = {found['k']}: {parts};"
        f" {found['checks']} checks, peak {found['peak_gb']:.1f} GB",
        flush=True,
    )


def keep(all_found: list[dict[str, Any]]) -> None:
    known = {one["rows"]: one for one in (json.loads(SAVED.read_text()) if SAVED.exists() else [])}
    known |= {one["rows"]: one for one in all_found}
    SAVED.write_text(json.dumps([known[rows] for rows in sorted(known)], indent=1) + "\n")


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    whole: Callable[[str], int] = lambda text: int(float(text))  # noqa: E731
    parser.add_argument("--rows", type=whole, nargs="+", default=[10**6, 10**7])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--one", type=whole, help=argparse.SUPPRESS)
    asked = parser.parse_args(argv)
    if asked.one is not None:
        print(json.dumps(measured(asked.one, asked.folder)))
        return
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        all_found = []
        for rows in asked.rows:
            all_found.append(alone(rows, Path(folder)))
            show(all_found[-1])
    if asked.save:
        keep(all_found)


if __name__ == "__main__":
    main(sys.argv[1:])
