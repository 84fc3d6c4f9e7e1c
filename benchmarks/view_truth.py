"""Are the intervals of a view true? Questions in SQL as people write them, on raw tables, with bins of `schema init`.

Ends lie anywhere (round numbers and values of the table, hardly ever on edges of bins). The same statement goes to the
view and, on the true rows, to DuckDB. Told for every kind of question: how many 95 % intervals hold the truth, half the
median interval, the root of the mean square error and the median error; and `needed`, by what all intervals of the row
could be multiplied and would still hold 95 of 100 truths: 1 is just right, .5 twice as wide as needed.

    python -m benchmarks.view_truth [NAME or FILE.csv ...] [--epsilon 0.1 1 10] [--rows N] [--seeds N] [--questions N]
                                    [--first N] [--shift N] [--rho] [--hostile] [--keep ANSWERS.jsonl]

NAME is a set beside the project (adult, metro, electricity-normalized, phoneme, jm1) or a made-up table (chain, dense,
wide, odd); without any, all of them are asked. Settings of the view were chosen on these; every other file was only
tested. `--hostile` asks what intervals are hardest for instead: conditions that nobody meets, four to six attributes,
ends out of the domain, NOT, OR and <>, rare values, means and quantiles of few people, groups by two columns.
`--pool` prints one row a kind and epsilon for all tables together, with the standard error of what is covered.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import resource
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

import duckdb
import numpy as np
from papers.kato_view.data import SHARED

import sudare as sd
from sudare.asking.answers import Estimate
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

    def open_truth(self) -> duckdb.DuckDBPyConnection:
        """Give DuckDB the true rows, as table "view"."""
        import pandas

        frame = {}
        for name, column in self.columns.items():
            if column.dtype == np.int32:
                days = [None if day <= 0 else date.fromordinal(int(day)) for day in column]
                frame[name] = pandas.Series(days, dtype="date32[pyarrow]") if days else days
            elif column.dtype == np.float64:
                frame[name] = pandas.Series(column).astype("Float64")
            else:
                frame[name] = pandas.Series(column, dtype="string")
        truth = duckdb.connect(config={"threads": 1})
        rows = pandas.DataFrame(frame)
        truth.register("rows_of_table", rows)
        truth.execute('CREATE TABLE "view" AS SELECT * FROM rows_of_table')
        return truth


@dataclass(frozen=True, kw_only=True)
class Question:
    """One statement and its kind; `groups`: how many labels stand before the number of a row."""

    kind: str
    statement: str
    groups: int = 0


@dataclass(frozen=True, kw_only=True)
class AnswerError:
    """How one number of an answer compares with the truth; None for the ends: no interval."""

    kind: str
    statement: str
    truth: float
    value: float
    low: float | None
    high: float | None
    deviations: tuple[float, float, float]  # noise, model, inside

    @property
    def error(self) -> float:
        """Estimate less truth."""
        return self.value - self.truth

    @property
    def half(self) -> float:
        """Half the interval."""
        return (self.high - self.low) / 2

    @property
    def is_held(self) -> bool:
        """Tell whether the truth lies in the interval."""
        slack = 1e-9 * (1 + abs(self.truth))
        return self.low - slack <= self.truth <= self.high + slack

    @property
    def reach_needed(self) -> float:
        """How far from the estimate the truth is, in units of the interval's longer side: the other may be cut at 0."""
        gap, reach = abs(self.error), max(self.high - self.value, self.value - self.low)
        return 0.0 if gap <= 1e-9 * (1 + abs(self.truth)) else gap / reach if reach > 0 else np.inf


# --- tables -----------------------------------------------------------------------------------------------------------


def read_table(path: Path, *, rows: int | None = None, seed: int = 7) -> RawTable:
    """Draft and confirm a schema for a file, and count it; `rows` takes that many of its rows at random."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as stream:
        head, *body = [row for row in csv.reader(stream) if row]
    head = [f"c{name}" if name.isdigit() else name for name in head]  # a line of numbers is not taken for names
    return draft_table(path.name.split(".")[0], head, body, rows=rows, seed=seed)


def draft_table(name: str, head: list[str], body: list[list[str]], *, rows: int | None, seed: int = 7) -> RawTable:
    """Draft and confirm a schema for rows of texts, and count them."""
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
    columns = {one: _read_column(schema, one, [row[head.index(one)] for row in body]) for one in schema.names}
    return RawTable(name=name, schema=schema, columns=columns, coarse=coarse, fine=fine)


def _read_column(schema: Schema, name: str, texts: list[str]) -> Column:
    attribute = schema.attribute(name)
    if isinstance(attribute.domain, NumberBins):
        return np.array([np.nan if attribute.means_missing(text) else float(text) for text in texts])
    if isinstance(attribute.domain, DateBins):
        days = [None if attribute.means_missing(text) else to_date(text) for text in texts]
        return np.array([0 if day is None else day.toordinal() for day in days]).astype(np.int32)
    return np.array([None if attribute.means_missing(text) else text.strip() for text in texts], dtype=object)


def make_chain(rng: np.random.Generator, rows: int = 20_000) -> dict[str, np.ndarray]:
    """Eight attributes, each nearly a function of the one before: amounts, a long tail, a heap at 0, groups."""
    age = rng.integers(18, 90, rows)
    wage = np.round(np.exp(7.2 + 0.02 * np.minimum(age, 55) + 0.15 * rng.normal(size=rows)))
    tax = np.where(wage < 3000, 0, np.round(0.3 * (wage - 3000) * rng.uniform(0.9, 1.1, rows)))
    rent = np.round(0.3 * wage + rng.normal(0, 60, rows), -1).clip(100)
    area = np.round(rent / 12 + rng.normal(0, 4, rows), 1).clip(8)
    rooms = np.clip((area // 25).astype(int) + 1, 1, 9)
    band = np.array(["low", "middle", "high", "top"])[np.searchsorted([2500, 5000, 9000], wage)]
    town = np.array([f"t{code:02d}" for code in range(30)])[(rent // 100).astype(int) % 30]
    names = ("age", "wage", "tax", "rent", "area", "rooms", "band", "town")
    return dict(zip(names, (age, wage, tax, rent, area, rooms, band, town), strict=True))


def make_dense(rng: np.random.Generator, rows: int = 20_000, columns: int = 12) -> dict[str, np.ndarray]:
    """Answers of a survey: three hidden traits move every column, so that every pair depends on each other."""
    traits = rng.normal(size=(rows, 3))
    loads = rng.normal(size=(3, columns))
    scores = traits @ loads + 0.6 * rng.normal(size=(rows, columns))
    table: dict[str, np.ndarray] = {}
    for place in range(columns):
        score = scores[:, place]
        if place % 3 == 0:
            table[f"q{place}"] = np.clip(np.round(3 + score), 1, 7).astype(int)
        elif place % 3 == 1:
            table[f"v{place}"] = np.round(50 + 12 * score, 1)
        else:
            names = np.array([f"c{code}" for code in range(6)])
            table[f"g{place}"] = names[np.clip(np.round(2.5 + score), 0, 5).astype(int)]
    return table


def make_wide(rng: np.random.Generator, rows: int = 8_000, columns: int = 45) -> dict[str, np.ndarray]:
    """Many columns for few rows: five blocks of nine that depend on each other within, hardly between."""
    blocks = [make_dense(rng, rows, columns // 5) for _ in range(5)]
    return {f"{name}_{number}": column for number, block in enumerate(blocks) for name, column in block.items()}


def make_odd(rng: np.random.Generator, rows: int = 2_000) -> dict[str, np.ndarray]:
    """What offices have: a constant, a rare value, a copy, a sum of two columns, heaps at thousands, days."""
    first, second = rng.integers(0, 40, rows), np.minimum(rng.geometric(0.1, rows), 60)
    amount = np.where(rng.random(rows) < 0.7, 1000 * rng.integers(1, 40, rows), rng.integers(500, 40_000, rows))
    days = np.datetime64("2024-01-01") + np.sort(rng.integers(0, 700, rows))
    shop = np.array([f"s{code:02d}" for code in range(40)])[np.minimum(rng.zipf(1.5, rows), 40) - 1]
    return {
        "country": np.full(rows, "JP"), "died": np.where(rng.random(rows) < 0.001, "yes", "no"),
        "first": first, "second": second, "both": first + second, "again": first, "amount": amount,
        "day": days.astype(str), "shop": shop, "member": np.where(first > 25, "y", "n"),
    }  # fmt: skip


MADE_UP: dict[str, Callable[[np.random.Generator], dict[str, np.ndarray]]] = {
    "chain": make_chain,
    "dense": make_dense,
    "wide": make_wide,
    "odd": make_odd,
}


def find_table(name: str, *, rows: int | None) -> RawTable | None:
    """Make up a table, or read a set beside the project or a file; None if there is no such thing here."""
    if name in MADE_UP:
        made = MADE_UP[name](np.random.default_rng(sum(map(ord, name))))
        body = [list(map(str, row)) for row in zip(*(column.tolist() for column in made.values()), strict=True)]
        return draft_table(name, list(made), body, rows=rows)
    path = SHARED / f"{name}.csv.gz" if name in SETS else Path(name)
    return read_table(path, rows=rows) if path.exists() else None


# --- questions --------------------------------------------------------------------------------------------------------


def draw_questions(table: RawTable, *, number: int, seed: int) -> Iterator[Question]:
    """Ask `number` questions of every kind, in turn about other attributes."""
    rng = np.random.default_rng(seed)
    names = list(table.schema.names)
    numbers = [name for name in names if table.columns[name].dtype == np.float64]
    labels = [name for name in names if table.columns[name].dtype == object and _labels(table, name).size <= 50]
    for turn in range(number):
        for ways in (1, 2, 3):
            if len(names) >= ways:
                where = _conditions(table, rng, ways)
                yield Question(kind=f"COUNT of {ways}", statement=f'SELECT COUNT(*) FROM "view" WHERE {where}')
        part, whole = _conditions(table, rng, 1), _conditions(table, rng, 1)
        share = f"COUNT(*) FILTER (WHERE {part}) * 1.0 / COUNT(*)"
        yield Question(kind="share", statement=f'SELECT {share} FROM "view"' + (f" WHERE {whole}" if turn % 2 else ""))
        if numbers:
            yield from _ask_numbers(table, str(rng.choice(numbers)), turn, rng)
        if labels and turn % 3 == 0:
            yield from _ask_groups(table, str(rng.choice(labels)), numbers, turn, rng)


def _ask_numbers(table: RawTable, of: str, turn: int, rng: np.random.Generator) -> Iterator[Question]:
    where = f" WHERE {_conditions(table, rng, 1 + (turn % 4 == 3), but=of)}" if turn % 4 else ""
    share = (0.5, 0.25, 0.9)[turn % 3]
    quantile = f'MEDIAN("{of}")' if share == 0.5 else f'QUANTILE_CONT("{of}", {share})'
    yield Question(kind="SUM", statement=f'SELECT SUM("{of}") FROM "view"{where}')
    yield Question(kind="AVG", statement=f'SELECT AVG("{of}") FROM "view"{where}')
    yield Question(kind="quantile", statement=f'SELECT {quantile} FROM "view"{where}')


def _ask_groups(
    table: RawTable, by: str, numbers: list[str], turn: int, rng: np.random.Generator
) -> Iterator[Question]:
    where = f" WHERE {_conditions(table, rng, 1, but=by)}" if turn % 2 else ""
    aggregates = {"COUNT": "COUNT(*)", "share": "COUNT(*) * 1.0 / SUM(COUNT(*)) OVER ()"}
    if numbers:
        of = str(rng.choice(numbers))
        aggregates |= {"AVG": f'AVG("{of}")', "SUM": f'SUM("{of}")'}
    for name, aggregate in aggregates.items():
        statement = f'SELECT "{by}", {aggregate} FROM "view"{where} GROUP BY "{by}"'
        yield Question(kind=f"GROUP BY, {name}", statement=statement, groups=1)


def draw_hostile(table: RawTable, *, number: int, seed: int) -> Iterator[Question]:
    """Ask `number` questions of every kind that intervals are hardest for."""
    rng = np.random.default_rng(seed)
    names = list(table.schema.names)
    numbers = [name for name in names if table.columns[name].dtype == np.float64]
    labels = [name for name in names if table.columns[name].dtype == object and _labels(table, name).size <= 50]
    for turn in range(number):
        many = _conditions(table, rng, min(len(names), 4 + turn % 3))
        one, two, three = (_condition(table, name, rng) for name in rng.choice(names, 3))
        where = {
            "many attributes": many, "nobody": f"{one} AND NOT ({one}) AND {two}", "NOT": f"NOT ({one} AND {two})",
            "OR": f"{one} OR {two} OR {three}", "rare": _rare(table, str(rng.choice(names)), rng),
        }  # fmt: skip
        if labels:
            label = str(rng.choice(labels))
            where["<>"] = f"\"{label}\" <> '{rng.choice(_labels(table, label))}' AND {one}"
        if numbers:
            of = str(rng.choice(numbers))
            edge = float(np.nanmax(table.columns[of]))
            where["out of the domain"] = f'"{of}" > {edge * 3 + 7:.10g} OR {one}'
            few = " AND ".join([many, _rare(table, str(rng.choice(names)), rng)])
            yield Question(kind="mean of few", statement=f'SELECT AVG("{of}") FROM "view" WHERE {few}')
            yield Question(kind="median of few", statement=f'SELECT MEDIAN("{of}") FROM "view" WHERE {few}')
        for kind, condition in where.items():
            yield Question(kind=kind, statement=f'SELECT COUNT(*) FROM "view" WHERE {condition}')
        if len(labels) > 1 and turn % 5 == 0:
            pair = ", ".join(f'"{name}"' for name in rng.choice(labels, 2, replace=False))
            statement = f'SELECT {pair}, COUNT(*) FROM "view" GROUP BY {pair}'
            yield Question(kind="groups of 2, COUNT", statement=statement, groups=2)


def _rare(table: RawTable, name: str, rng: np.random.Generator) -> str:
    """A condition on one value, the rarest of three of the table."""
    column = table.columns[name]
    if column.dtype != object:
        return _condition(table, name, rng)
    values, counts = np.unique(column[column != None].astype(str), return_counts=True)  # noqa: E711
    known = np.isin(values, _labels(table, name).astype(str))
    some = rng.choice(np.flatnonzero(known), 3)
    value = str(values[some[np.argmin(counts[some])]]).replace("'", "''")
    return f"\"{name}\" = '{value}'"


def _conditions(table: RawTable, rng: np.random.Generator, ways: int, *, but: str | None = None) -> str:
    names = [name for name in table.schema.names if name != but]
    chosen = rng.choice(names, min(ways, len(names)), replace=False).tolist()
    return " AND ".join(_condition(table, name, rng) for name in chosen)


def _labels(table: RawTable, name: str) -> np.ndarray:
    domain = table.schema.attribute(name).domain
    return domain.labels(np.arange(domain.size))


def _condition(table: RawTable, name: str, rng: np.random.Generator) -> str:
    column = table.columns[name]
    if column.dtype == np.int32:
        low, high = (date.fromordinal(int(end)) for end in np.sort(rng.choice(column[column > 0], 2)))
        return f"\"{name}\" BETWEEN '{low}' AND '{high}'"
    if column.dtype != np.float64:
        known = column[column != None]  # noqa: E711
        some = rng.choice(known, 1 if rng.random() < 0.6 else 3)
        values = [str(value) for value in dict.fromkeys(some) if value in set(_labels(table, name).tolist())]
        if not values:
            return f'"{name}" IS NOT NULL'
        return f'"{name}" IN (' + ", ".join("'" + value.replace("'", "''") + "'" for value in values) + ")"
    low, high = np.sort(_ends(column[~np.isnan(column)], rng))
    if rng.random() < 0.4:
        return f'"{name}" <= {low:.10g}' if rng.random() < 0.5 else f'"{name}" >= {high:.10g}'
    return f'"{name}" BETWEEN {low:.10g} AND {high:.10g}'


def _ends(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Two values of the table, in every other question rounded to two digits."""
    ends = rng.choice(values, 2)
    if rng.random() < 0.5:
        ends = np.array([float(f"{end:.2g}") for end in ends])
    return ends


# --- the benchmark ----------------------------------------------------------------------------------------------------


def compare(view: OpenedView, truth: duckdb.DuckDBPyConnection, question: Question) -> Iterator[AnswerError]:
    """Ask both; a group that the view leaves out is answered by 0, and one that no row has is truly 0."""
    true_rows = truth.execute(question.statement).fetchall()
    told = {_key(row[: question.groups]): row[-1] for row in view.sql(question.statement).rows}
    true = {_key(row[: question.groups]): row[-1] for row in true_rows}
    is_count = question.kind.endswith(("COUNT", "SUM")) and question.groups > 0
    for key in told.keys() | true.keys():
        estimate, exact = told.get(key), true.get(key)
        if (exact is None and not is_count) or exact != exact:
            continue  # the mean or the share of nobody
        if estimate is None and not is_count:
            continue  # NULL: of nobody, by the view
        exact = 0.0 if exact is None else float(exact)
        if not isinstance(estimate, Estimate):
            value = 0.0 if estimate is None else float(estimate)
            yield AnswerError(kind=question.kind, statement=question.statement, truth=exact, value=value, low=value,
                              high=value, deviations=(0.0, 0.0, 0.0))  # fmt: skip
            continue
        ends = (estimate.low, estimate.high) if estimate.has_interval else (None, None)
        parts = estimate.noise_deviation, estimate.model_deviation, estimate.inside_deviation
        yield AnswerError(kind=question.kind, statement=question.statement, truth=exact, value=estimate.value,
                          low=ends[0], high=ends[1], deviations=parts)  # fmt: skip


def _key(labels: tuple) -> tuple:
    return tuple(None if label is None else str(label) for label in labels)


def measure(
    table: RawTable, make: Callable[[], View], *, seeds: int, questions: int, first: int = 0, shift: int = 0,
    hostile: bool = False,
) -> list[AnswerError]:  # fmt: skip
    """Publish once a seed, and compare the answers to all questions with the truth; `shift`: from seed to questions."""
    errors, truth = [], table.open_truth()
    for seed in range(first, first + seeds):
        view = open_view(make().publish(table, rng=SeededRng(seed + 1)))
        draw = draw_hostile if hostile else draw_questions
        asked = {one.statement: one for one in draw(table, number=questions, seed=seed + shift)}  # each once
        for question in asked.values():
            errors += compare(view, truth, question)
    return errors


def tell_row(errors: list[AnswerError]) -> list[str]:
    """Numbers, coverage, half width, RMSE, median error, and by what intervals could be multiplied."""
    held = [one for one in errors if one.low is not None]
    if not held:
        return [str(len(errors)), "no interval", *["-"] * 4]
    off = np.array([one.error for one in held])
    needed = float(np.quantile([one.reach_needed for one in held], 0.95))
    coverage = np.mean([one.is_held for one in held])
    figures = [np.median([one.half for one in held]), np.sqrt((off**2).mean()), np.median(np.abs(off))]
    return [str(len(held)), f"{coverage:.1%}", *(f"{figure:.4g}" for figure in figures), f"{needed:.2f}"]


def tell_pooled(pooled: dict[str, list[AnswerError]]) -> Iterator[list[str]]:
    """A row a kind of question: at every epsilon how many answers, covered with its standard error, and needed."""
    for kind in sorted({one.kind for errors in pooled.values() for one in errors}):
        row = [kind]
        for errors in pooled.values():
            held = [one for one in errors if one.kind == kind and one.low is not None]
            covered = np.mean([one.is_held for one in held]) if held else 1.0
            deviation = np.sqrt(covered * (1 - covered) / max(1, len(held)))
            needed = np.quantile([one.reach_needed for one in held], 0.95) if held else 0.0
            row += [str(len(held)), f"{covered:.1%} ± {deviation:.1%}", f"{needed:.2f}"]
        yield row


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", nargs="*")
    parser.add_argument("--epsilon", nargs="*", default=["0.1", "1", "10"])
    parser.add_argument("--rows", type=int)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--shift", type=int, default=0, help="what the seeds of questions are above those of releases")
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--rho", action="store_true", help="(epsilon, 1e-9) instead of pure epsilon")
    parser.add_argument("--hostile", action="store_true", help="questions that intervals are hardest for")
    parser.add_argument("--pool", action="store_true", help="all tables together")
    parser.add_argument("--keep", type=Path, help="write every answer beside its truth")
    told = parser.parse_args()
    head = ["table", "rows", "columns", "epsilon", "question", "answers"]
    head += ["covered", "half width", "RMSE", "median error", "needed"]
    pooled: dict[str, list[AnswerError]] = {}
    if not told.pool:
        print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for name in told.tables or [*SETS, *MADE_UP]:
        table = find_table(name, rows=told.rows)
        if table is None:
            print(f"{name} is not here: skipped")
            continue
        for epsilon in told.epsilon:
            delta = {"delta": "1e-9"} if told.rho else {}
            errors = measure(table, lambda e=epsilon, d=delta: View(epsilon=e, **d, neighbours="add-remove"),
                             seeds=told.seeds, questions=told.questions, first=told.first, shift=told.shift,
                             hostile=told.hostile)  # fmt: skip
            pooled.setdefault(epsilon, []).extend(errors)
            for kind in () if told.pool else sorted({one.kind for one in errors}):
                row = [table.name, table.coarse.total, len(table.schema.names), epsilon, kind]
                row += tell_row([one for one in errors if one.kind == kind])
                print("| " + " | ".join(map(str, row)) + " |", flush=True)
            if told.keep is not None:
                with told.keep.open("a") as stream:
                    for one in errors:
                        kept = {"table": table.name, "epsilon": epsilon, **asdict(one)}
                        stream.write(json.dumps(kept) + "\n")
    if told.pool:
        head = ["question", *(f"{epsilon}: {name}" for epsilon in pooled for name in ("answers", "held", "needed"))]
        print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
        for row in tell_pooled(pooled):
            print("| " + " | ".join(row) + " |")
    print(f"\n{resource.getrusage(resource.RUSAGE_SELF).ru_utime:.0f} CPU s")


if __name__ == "__main__":
    main()
