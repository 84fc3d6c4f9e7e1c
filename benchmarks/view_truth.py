"""Are the intervals of a view true? Questions as people write them, on raw tables, with the bins `schema init` drafts.

Ends lie anywhere (round numbers and values of the table, hardly ever on edges of bins). Told for every kind of
question: how many 95 % intervals hold the truth, half the median interval, and the median error beside it; a normal
error known exactly has intervals of 2.9 times its median.

    python -m benchmarks.view_truth [FILE.csv ...] [--epsilon 0.1 1 10] [--rows N] [--seeds N] [--questions N] [--rho]

Without files the sets beside the project are asked. Settings of the view were chosen on Adult, electricity and phoneme;
every other file was only ever tested.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import resource
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
from papers.kato_view.data import SHARED

import sudare as sd
from sudare.counts import Counts
from sudare.methods.view import OpenedView, View, open_view
from sudare.noise import SeededRng
from sudare.schema import DateBins, NumberBins, Schema
from sudare.schema.raw import to_date
from sudare.sources import propose_schema

SETS = ("adult", "metro", "electricity-normalized", "phoneme", "jm1")
Column = np.ndarray  # of float64, of days as int32, or of texts


@dataclass(frozen=True, kw_only=True)
class RawTable:
    """A table as it lies in its file, its drafted schema, and its counts, coarse and fine."""

    name: str
    schema: Schema
    columns: dict[str, Column]
    coarse: Counts
    fine: Counts | None

    def count(self, by: object = None) -> Counts:
        """Serve the counts over the declared bins."""
        return self.coarse

    def count_over(self, schema: Schema) -> Counts:
        """Serve the counts that are cut finer."""
        return self.fine if self.fine is not None else self.coarse


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One question: its kind, the statement, and the truth."""

    kind: str
    where: dict[str, object]
    truth: float
    of: str | None = None  # the number that is added up or averaged


def read_table(path: Path, *, rows: int | None, seed: int = 7) -> RawTable:
    """Draft and confirm a schema for a file, and count it; `rows` takes that many of its rows at random."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as stream:
        head, *body = [row for row in csv.reader(stream) if row]
    if rows is not None and rows < len(body):
        chosen = np.random.default_rng(seed).choice(len(body), rows, replace=False)
        body = [body[place] for place in chosen.tolist()]
    with tempfile.TemporaryDirectory() as folder:
        plain, form = Path(folder) / "data.csv", Path(folder) / "data.toml"
        with plain.open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows([head, *body])
        propose_schema(plain).save(form, confirmed=True)
        schema = Schema.read(form)
        method = View(epsilon=1, neighbours="add-remove")
        plan = method.plan(schema)
        with sd.open(plain, schema) as source:
            coarse = source.count(plan.counted)
            fine = None if plan.finer is None else source.count_over(plan.finer)
    columns = {name: _read_column(schema, name, [row[head.index(name)] for row in body]) for name in schema.names}
    return RawTable(name=path.name.split(".")[0], schema=schema, columns=columns, coarse=coarse, fine=fine)


def _read_column(schema: Schema, name: str, texts: list[str]) -> Column:
    attribute = schema.attribute(name)
    if isinstance(attribute.domain, NumberBins):
        return np.array([np.nan if attribute.means_missing(text) else float(text) for text in texts])
    if isinstance(attribute.domain, DateBins):
        days = [None if attribute.means_missing(text) else to_date(text) for text in texts]
        return np.array([np.nan if day is None else day.toordinal() for day in days]).astype(np.int32)
    return np.array([text.strip() for text in texts], dtype=object)


# --- questions --------------------------------------------------------------------------------------------------------


def draw_questions(table: RawTable, *, number: int, seed: int) -> Iterator[Asked]:
    """Ask `number` questions of every kind, in turn about other attributes."""
    rng = np.random.default_rng(seed)
    numbers = [name for name in table.schema.names if table.columns[name].dtype == np.float64]
    for _ in range(number):
        for ways in (1, 2, 3):
            if len(table.schema.names) >= ways:
                names = rng.choice(table.schema.names, ways, replace=False).tolist()
                yield _ask(table, f"COUNT of {ways}", names, rng)
        if numbers:
            of = str(rng.choice(numbers))
            others = [name for name in table.schema.names if name != of]
            names = rng.choice(others, min(1, len(others)), replace=False).tolist()
            for kind in ("SUM", "AVG"):
                yield _ask(table, kind, names, rng, of=of)


def _ask(table: RawTable, kind: str, names: list[str], rng: np.random.Generator, *, of: str | None = None) -> Asked:
    where, holds = {}, np.ones(table.coarse.total, dtype=bool)
    for name in names:
        where[name], inside = _condition(table, name, rng)
        holds &= inside
    if of is None:
        return Asked(kind=kind, where=where, truth=float(holds.sum()))
    values = table.columns[of][holds]
    values = values[~np.isnan(values)]
    truth = float(values.sum()) if kind == "SUM" else float(values.mean()) if values.size else float("nan")
    return Asked(kind=kind, where=where, truth=truth, of=of)


def _condition(table: RawTable, name: str, rng: np.random.Generator) -> tuple[object, np.ndarray]:
    column = table.columns[name]
    if column.dtype == np.int32:
        low, high = (int(end) for end in np.sort(rng.choice(column, 2)))
        return (date.fromordinal(low), date.fromordinal(high)), (column >= low) & (column <= high)
    if column.dtype != np.float64:
        values = table.schema.attribute(name).domain.labels(np.arange(table.schema.attribute(name).domain.size))
        value = str(rng.choice(column)) if rng.random() < 0.7 else str(rng.choice(values))
        if value not in set(values.tolist()):
            return list(values), np.isin(column, values)
        return value, column == value
    low, high = np.sort(_ends(column[~np.isnan(column)], rng))
    return (f"{low:.10g}", f"{high:.10g}"), (column >= float(f"{low:.10g}")) & (column <= float(f"{high:.10g}"))


def _ends(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Two values of the table, in every other question rounded to two digits."""
    ends = rng.choice(values, 2)
    if rng.random() < 0.5:
        ends = np.array([float(f"{end:.2g}") for end in ends])
    return ends


def ask(view: OpenedView, asked: Asked) -> tuple[float, float, float] | None:
    """Ask an open view: value and ends; None where it gives no interval."""
    if asked.of is None:
        found = view.count(**asked.where)
    else:
        where = " AND ".join(_write(name, value) for name, value in asked.where.items())
        statement = f'SELECT {asked.kind}("{asked.of}") FROM view' + (f" WHERE {where}" if where else "")
        found = view.sql(statement).rows[0][0]
    return None if found is None else (found.value, found.low, found.high)


def _write(name: str, value: object) -> str:
    if isinstance(value, tuple):
        low, high = (f"'{end}'" if isinstance(end, date) else end for end in value)
        return f'"{name}" BETWEEN {low} AND {high}'
    values = value if isinstance(value, list) else [value]
    return f'"{name}" IN (' + ", ".join("'" + str(one).replace("'", "''") + "'" for one in values) + ")"


# --- the benchmark ----------------------------------------------------------------------------------------------------


def measure(table: RawTable, make: Callable[[], View], *, seeds: int, questions: int) -> dict[str, list[tuple]]:
    """(covered, half the interval, error) of every question, by kind."""
    found: dict[str, list[tuple]] = {}
    for seed in range(seeds):
        view = open_view(make().publish(table, rng=SeededRng(seed + 1)))
        for asked in draw_questions(table, number=questions, seed=seed):
            answer = ask(view, asked)
            if answer is None or np.isnan(asked.truth):
                continue
            value, low, high = answer
            slack = 1e-9 * (1 + abs(asked.truth))
            is_inside = low - slack <= asked.truth <= high + slack
            found.setdefault(asked.kind, []).append((is_inside, (high - low) / 2, value - asked.truth))
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--epsilon", nargs="*", default=["0.1", "1", "10"])
    parser.add_argument("--rows", type=int)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--rho", action="store_true", help="(epsilon, 1e-9) instead of pure epsilon")
    told = parser.parse_args()
    files = told.files or [SHARED / f"{name}.csv.gz" for name in SETS]
    print("| table | rows | columns | epsilon | question | covered | half width | error |\n|---|" + "---|" * 7)
    for path in files:
        if not path.exists():
            print(f"{path.name} is not here: skipped")
            continue
        table = read_table(path, rows=told.rows)
        for epsilon in told.epsilon:
            delta = {"delta": "1e-9"} if told.rho else {}
            found = measure(table, lambda e=epsilon, d=delta: View(epsilon=e, **d, neighbours="add-remove"),
                            seeds=told.seeds, questions=told.questions)  # fmt: skip
            for kind, rows in sorted(found.items()):
                hits, halves, errors = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
                row = [table.name, table.coarse.total, len(table.schema.names), epsilon, kind, f"{hits.mean():.0%}"]
                row += [f"{np.median(column):.4g}" for column in (halves, np.abs(errors))]
                print("| " + " | ".join(map(str, row)) + " |", flush=True)
    print(f"\n{resource.getrusage(resource.RUSAGE_SELF).ru_utime:.0f} CPU s")


if __name__ == "__main__":
    main()
