"""Random statements of SQL over the table of `exact`, for a comparison with DuckDB on its records."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

TEXTS = {"sex": ["F", "M"], "job": ["none", "part", "full"]}


class Writer:
    """Writes statements at random; the same seed writes the same ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def any_of(self, choices: Sequence[Callable[[], str]]) -> str:
        """Write one of several things."""
        return self.random.choice(choices)()

    def number(self) -> str:
        return str(self.random.choice([-4, -1, 0, 1, 2, 3, 5, 6, 7, 11, 12, 18, 24, 2.5]))

    def day(self) -> str:
        return f"DATE '{self.pick('2023-12-30', '2023-12-31', '2024-01-01', '2024-01-03')}'"

    # --- values of records

    def numeric(self, depth: int = 2) -> str:
        if depth == 0 or self.random.random() < 0.4:
            return self.pick("age", "pay", "age", "pay", self.number())
        inner: Callable[[], str] = lambda: self.numeric(depth - 1)  # noqa: E731
        return self.any_of(
            [
                lambda: f"({inner()} + {inner()})",
                lambda: f"({inner()} - {inner()})",
                lambda: f"{inner()} * {self.pick('2', '3', '0.5', '-1')}",
                lambda: f"{inner()} / {self.pick('2', '4', '8')}",
                lambda: f"ABS({inner()})",
                lambda: f"FLOOR({inner()} / {self.pick('5', '7')})",
                lambda: f"CASE WHEN {self.condition(1)} THEN {inner()} ELSE {inner()} END",
                lambda: f"COALESCE({inner()}, 0)",
                lambda: f"GREATEST({inner()}, {inner()})",
                lambda: f"{self.pick('LEAST', 'GREATEST', 'NULLIF')}({inner()}, {self.pick('0', '7', '12', '99')})",
                lambda: f"CAST({inner()} AS INTEGER)",
                lambda: "EXTRACT(day FROM day)",
                lambda: "LENGTH(sex)",
                lambda: f"age {self.pick('//', '%')} {self.pick('5', '7')}",
                lambda: f"-{self.pick('age', 'pay')}",
                lambda: "pay * pay",
            ]
        )

    def text(self) -> str:
        return self.any_of(
            [
                lambda: "sex",
                lambda: "job",
                lambda: f"UPPER({self.pick('sex', 'job')})",
                lambda: f"SUBSTR(job, {self.pick('1', '2')}, 2)",
                lambda: "sex || '-' || job",
                lambda: f"CASE WHEN {self.condition(1)} THEN 'yes' ELSE 'no' END",
                lambda: "COALESCE(sex, 'unknown')",
                lambda: "CONCAT(sex, job)",
            ]
        )

    # --- conditions

    def condition(self, depth: int = 2) -> str:
        if depth > 0 and self.random.random() < 0.5:
            inner: Callable[[], str] = lambda: self.condition(depth - 1)  # noqa: E731
            return self.any_of(
                [
                    lambda: f"({inner()} AND {inner()})",
                    lambda: f"({inner()} OR {inner()})",
                    lambda: f"NOT ({inner()})",
                    lambda: f"{inner()} AND {inner()} OR {inner()}",
                    lambda: f"({inner()}) IS {self.pick('TRUE', 'NOT TRUE', 'FALSE', 'NULL', 'NOT NULL')}",
                ]
            )
        return self.simple()

    def simple(self) -> str:
        sign = self.pick("=", "<>", "<", "<=", ">", ">=")
        name = self.pick("sex", "job")
        values = TEXTS[name]
        return self.any_of(
            [
                lambda: f"{self.pick('age', 'pay')} {sign} {self.number()}",
                lambda: f"{self.number()} {sign} {self.pick('age', 'pay')}",
                lambda: f"{self.numeric(1)} {self.pick('<', '>=')} {self.numeric(1)}",
                lambda: f"age {self.pick('', 'NOT ')}BETWEEN {self.number()} AND {self.number()}",
                lambda: f"age {self.pick('', 'NOT ')}IN (1, 2, {self.pick('7', '13', 'NULL')})",
                lambda: f"{name} {self.pick('=', '<>')} '{self.pick(*values)}'",
                lambda: f"{name} {self.pick('', 'NOT ')}IN ('{values[0]}', '{values[-1]}')",
                lambda: f"{name} {self.pick('', 'NOT ')}LIKE '{self.pick('F%', '%a%', '_', 'n_ne', '%')}'",
                lambda: f"{self.pick('sex', 'day', 'age')} IS {self.pick('', 'NOT ')}NULL",
                lambda: f"day {sign} {self.day()}",
                lambda: f"day BETWEEN {self.day()} AND {self.day()}",
                lambda: (
                    f"EXTRACT({self.pick('year', 'month', 'day', 'dow')} FROM day) {sign} {self.pick('1', '3', '2024')}"
                ),
                lambda: f"day + INTERVAL {self.pick('1', '2')} DAY {sign} {self.day()}",
                lambda: f"sex IS {self.pick('', 'NOT ')}DISTINCT FROM 'F'",
            ]
        )

    # --- aggregates

    def aggregate(self) -> str:
        plain: list[Callable[[], str]] = [
            lambda: "COUNT(*)",
            lambda: f"COUNT({self.pick('sex', 'age', 'day', '1')})",
            lambda: f"SUM({self.numeric()})",
            lambda: f"AVG({self.numeric()})",
            lambda: f"{self.pick('STDDEV', 'VAR_POP', 'VARIANCE', 'STDDEV_POP')}({self.pick('age', 'pay')})",
            lambda: f"COUNT(DISTINCT {self.pick('sex', 'job', 'age', 'day')})",
            lambda: f"COUNT(DISTINCT {self.numeric(1)})",
            lambda: f"{self.pick('MIN', 'MAX')}({self.pick('age', 'pay', 'day')})",
            lambda: f"QUANTILE_DISC({self.pick('age', 'pay')}, {self.pick('0.1', '0.5', '0.75')})",
            lambda: f"COALESCE(COUNT_IF({self.condition(1)}), 0)",
            lambda: f"{self.pick('CORR', 'COVAR_POP')}(age, pay)",
            lambda: f"COUNT(*) FILTER (WHERE {self.condition(1)})",
            lambda: f"SUM({self.pick('age', 'pay')}) FILTER (WHERE {self.condition(1)})",
        ]
        return self.any_of(plain)

    def measure(self) -> str:
        first = self.aggregate()
        return self.any_of(
            [
                lambda: first,
                lambda: first,
                lambda: f"COUNT(*) * {self.pick('2', '0.5')} + {self.pick('1', 'COUNT(sex)')}",
                lambda: "COUNT(*) / NULLIF(COUNT(sex), 0)",
                lambda: f"ROUND(AVG({self.pick('age', 'pay')}), {self.pick('1', '2')})",
                lambda: f"CASE WHEN COUNT(*) > {self.pick('50', '400')} THEN COUNT(*) ELSE 0 END",
                lambda: "COALESCE(SUM(pay), 0)",
            ]
        )

    def key(self) -> str:
        return self.any_of(
            [
                lambda: "sex",
                lambda: "job",
                lambda: self.text(),
                lambda: f"FLOOR(age / {self.pick('5', '10')}) * 5",
                lambda: f"date_trunc('{self.pick('month', 'year', 'week')}', day)",
                lambda: f"EXTRACT({self.pick('year', 'month', 'dow')} FROM day)",
                lambda: "CASE WHEN age < 7 THEN 'a' WHEN age < 13 THEN 'b' ELSE 'c' END",
                lambda: "pay > 0",
                lambda: "age % 4",
                lambda: "age + pay > 10",
                lambda: f"({self.numeric(1)} + 0)",  # a bare number is grouped by its bins here
            ]
        )

    # --- statements

    def grouped(self) -> str:
        keys = list(dict.fromkeys(self.key() for _ in range(self.random.randint(0, 2))))
        items = [f"{key} AS k{place}" for place, key in enumerate(keys)]
        items += [f"{self.measure()} AS m{place}" for place in range(self.random.randint(1, 2))]
        where = f" WHERE {self.condition()}" if self.random.random() < 0.7 else ""
        grouping = ""
        if keys:
            names = ", ".join(f"k{place}" for place in range(len(keys)))
            grouping = " GROUP BY " + self.pick(
                names, "ALL", ", ".join(str(place + 1) for place in range(len(keys))), f"ROLLUP ({names})"
            )
            if self.random.random() < 0.3:
                grouping += f" HAVING COUNT(*) {self.pick('>', '<=')} {self.pick('20', '150')}"
        return f"SELECT {', '.join(items)} FROM view{where}{grouping}"

    def statement(self) -> str:
        return self.any_of(
            [
                self.grouped,
                self.grouped,
                self.grouped,
                self.shares,
                self.nested,
                self.projected,
                self.united,
                self.compared,
                self.joined,
                self.moved,
            ]
        )

    def shares(self) -> str:
        part = self.pick("", "PARTITION BY sex", "ORDER BY job")
        outer = self.pick("SUM(COUNT(*))", "MAX(COUNT(*))", "AVG(COUNT(*))")
        key = "sex, job" if part else self.pick("sex", "job")
        if part.startswith("ORDER"):
            key, part = "FLOOR(age / 5) AS b", "ORDER BY FLOOR(age / 5)"
            return f"SELECT {key}, {outer} OVER ({part}) AS r FROM view WHERE {self.condition(1)} GROUP BY b"
        return f"SELECT {key}, COUNT(*) * 100.0 / {outer} OVER ({part}) AS share FROM view GROUP BY {key}"

    def nested(self) -> str:
        measure = self.pick("COUNT(*)", "SUM(age)")
        inner = f"SELECT {self.pick('sex', 'job')} AS k, {measure} AS n FROM view WHERE {self.condition(1)} GROUP BY k"
        outer = self.pick("SUM(n)", "MAX(n)", "AVG(n)", "COUNT(*)", "MIN(n)", "COUNT(k)")
        if self.random.random() < 0.5:
            return f"WITH t AS ({inner}) SELECT {outer} AS r FROM t"
        return f"SELECT k, n FROM ({inner}) AS t WHERE n {self.pick('>', '<')} 300"

    def projected(self) -> str:
        return (
            f"WITH t AS (SELECT {self.numeric()} AS x, {self.text()} AS k FROM view WHERE {self.condition(1)})"
            f" SELECT k, COUNT(*) AS n, {self.pick('SUM', 'AVG')}(x) AS m FROM t GROUP BY k"
        )

    def united(self) -> str:
        word = self.pick("UNION ALL", "UNION ALL", "UNION")
        return (
            f"SELECT 'a' AS k, COUNT(*) AS n FROM view WHERE {self.condition(1)} {word}"
            f" SELECT 'b', COUNT(*) FROM view WHERE {self.condition(1)}"
        )

    def compared(self) -> str:
        inner = self.condition(1)
        if self.random.random() < 0.25:
            return f"SELECT COUNT(*) AS n FROM (SELECT DISTINCT sex, job FROM view WHERE {inner}) AS t"
        return "SELECT COUNT(*) AS n FROM view WHERE " + self.random.choice(
            [
                f"age > (SELECT {self.pick('AVG', 'MIN')}(age) FROM view WHERE {inner})",
                f"job IN (SELECT job FROM view WHERE {inner} GROUP BY job)",
                f"{inner} HAVING COUNT(*) / (SELECT COUNT(*) FROM view) > 0.2",
            ]
        )

    def moved(self) -> str:
        """A window over groups, with a frame of rows or a function of places."""
        frames = ["1 PRECEDING", "BETWEEN 2 PRECEDING AND CURRENT ROW", "BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING"]
        frame = self.pick("", *(f"ROWS {frame}" for frame in [*frames, "BETWEEN 1 PRECEDING AND 1 FOLLOWING"]))
        added = self.pick("SUM(n)", "AVG(n)", "MAX(n)", "COUNT(*)", "FIRST_VALUE(n)", "LAST_VALUE(n)")
        placed = self.pick("NTILE(3)", "PERCENT_RANK()", "CUME_DIST()", "LAG(n, 2, 0)", "LEAD(n)")
        window = "PARTITION BY job ORDER BY b"
        call = self.pick(f"{added} OVER ({window} {frame})", f"{placed} OVER ({window})")
        inner = f"SELECT FLOOR(age / 5) AS b, job, COUNT(*) AS n FROM view WHERE {self.condition(1)} GROUP BY ALL"
        return f"SELECT b, job, {call} AS r FROM ({inner}) AS t"

    def joined(self) -> str:
        kind = self.pick("JOIN", "LEFT JOIN")
        return (
            f"WITH a AS (SELECT job, COUNT(*) AS n FROM view WHERE {self.condition(1)} GROUP BY job),"
            f" b AS (SELECT job, AVG(age) AS m FROM view WHERE {self.condition(1)} GROUP BY job)"
            f" SELECT a.job, n, m FROM a {kind} b {self.pick('USING (job)', 'ON a.job = b.job')}"
        )
