"""How many answers of SQL one open view gives in a CPU second, and what a question from the command line costs.

Statements are written at random and none is asked twice: counts of one to three attributes with ends anywhere, sums and
means, counts and means by group. Told for every kind: statements and numbers with intervals in a CPU second.

    python -m benchmarks.view_sql [FILE.csv] [--statements N]

Without a file Adult is asked if it lies beside the project, else a made-up table.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from papers.kato_view.data import SHARED

from benchmarks.view_truth import RawTable, read_table
from sudare.asking.answers import Estimate
from sudare.methods.view import OpenedView, View, open_view


def write_condition(table: RawTable, name: str, rng: np.random.Generator) -> str:
    """A range with ends anywhere, or one to three labels."""
    column = table.columns[name][rng.integers(0, len(table.columns[name]), 20)]
    if column.dtype == np.float64:
        low, high = np.sort(rng.choice(column[~np.isnan(column)], 2))
        return f'"{name}" BETWEEN {low:g} AND {high:g}'
    known = [label for label in column.tolist() if label is not None]
    labels = sorted({str(label) for label in rng.choice(known, int(rng.integers(1, 4)))})
    quoted = ", ".join("'" + label.replace("'", "''") + "'" for label in labels)
    return f'"{name}" IN ({quoted})'


def write_statements(table: RawTable, kind: str, number: int, rng: np.random.Generator) -> list[str]:
    """Write statements of one kind, each another."""
    numbers = [name for name in table.schema.names if table.columns[name].dtype == np.float64]
    labels = [name for name in table.schema.names if 2 <= len(set(table.columns[name])) <= 20] or numbers
    found: dict[str, None] = {}
    for _ in range(50 * number):
        ways = int(rng.integers(1, 4))
        names = rng.choice(table.schema.names, min(ways, len(table.schema.names)), replace=False).tolist()
        where = " WHERE " + " AND ".join(write_condition(table, name, rng) for name in names)
        of, by = (str(rng.choice(some)) for some in (numbers or labels, labels))
        if kind == "COUNT":
            found[f"SELECT COUNT(*) FROM view{where}"] = None
        elif kind == "SUM and AVG":
            found[f'SELECT SUM("{of}"), AVG("{of}") FROM view{where}'] = None
        else:
            found[f'SELECT "{by}", COUNT(*), AVG("{of}") FROM view{where} GROUP BY "{by}"'] = None
        if len(found) == number:
            break
    return list(found)


def measure(view: OpenedView, statements: list[str]) -> tuple[float, float]:
    """Statements and numbers with intervals in a CPU second."""
    numbers, start = 0, time.process_time()
    for statement in statements:
        rows = view.sql(statement).rows
        numbers += sum(isinstance(cell, Estimate) and cell.has_interval for row in rows for cell in row)
    used = time.process_time() - start
    return len(statements) / used, numbers / used


def measure_command(folder: str, statement: str) -> float:
    """CPU seconds of one `sudare query`, the least of four; with byte code, as an installed package has it."""
    command = [sys.executable, "-m", "sudare", "query", folder, statement]
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as byte_code:
        own = {**kept, "PYTHONPYCACHEPREFIX": byte_code}
        runs = [
            _children(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=own)) for _ in range(4)
        ]
    return min(runs)


def _children(run: Callable[[], object]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.view_sql")
    parser.add_argument("file", nargs="?")
    parser.add_argument("--statements", type=int, default=1000)
    parser.add_argument("--epsilon", default="1")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    file = Path(options.file) if options.file else SHARED / "adult.csv.gz"
    if not file.exists():
        print(f"{file.name} is not there: name a CSV file")
        return 0
    table = read_table(file, rows=None)
    release = View(epsilon=options.epsilon, neighbours="add-remove").publish(table)
    view, rng = open_view(release), np.random.default_rng(5)
    print(f"{table.name}, epsilon {options.epsilon}: {options.statements} statements of each kind, none twice")
    print(f"{'kind':20s} {'statements/CPU s':>17s} {'numbers/CPU s':>14s}")
    for kind in ("COUNT", "SUM and AVG", "GROUP BY"):
        statements = write_statements(table, kind, options.statements, rng)
        measure(view, statements[:20])
        per_second = measure(view, statements)
        print(f"{kind:20s} {per_second[0]:17.0f} {per_second[1]:14.0f}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        release.save(Path(folder) / "release")
        statement = f'SELECT "{table.schema.names[-1]}", COUNT(*) FROM view GROUP BY 1'
        print(f"one question from the command line: {measure_command(folder + '/release', statement):.2f} CPU s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
