"""How often predictions of requests are right, on tables that their constants never saw, and on those that they did.

`python -m benchmarks.kanon_predict [--requests N] [--csv FILE ...]`: random requests (groups of one's own, or levels)
at k = 2, 5, 10, 50, judged from pair counts and from a verdict file, beside the truth; then under suppression, l and t;
the predicted loss; and a table that has grown since it was counted. Files are tables that no constant saw, if they are
none of those that methods/kanon/foresee_classes.py names. Tables of ../shared were looked at; made-up ones have their
own seeds.
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from benchmarks.kanon_tables import TABLES, read_csv_table
from sudare.counts import Counts
from sudare.methods.kanon.criteria import read_criteria
from sudare.methods.kanon.pairs import PairCounts
from sudare.methods.kanon.predict import AskedPromise, GroupingAnswer, SchemaHistory
from sudare.methods.kanon.recode import Pieces
from sudare.methods.kanon.request import Grouping, RequestOption
from sudare.requests.measure import CountedTable, make_verdicts
from sudare.requests.policy import TablePolicy
from sudare.schema import Schema

SIZES_K = (2, 5, 10, 50)
LIMITS = (Fraction(1, 100), Fraction(5, 100))


# --- requests ---------------------------------------------------------------------------------------------------------


def random_options(seed: int, schema: Schema, count: int, *, own: float = 0.7) -> Iterator[RequestOption]:
    """Random requests: attributes with chance 0.6, groups of one's own (2 to 7 ranges) or a level."""
    rng = np.random.default_rng(seed)
    quasi = [attribute for attribute in schema.attributes if attribute.role == "quasi"]
    for _ in range(count):
        chosen = [attribute for attribute in quasi if rng.random() < 0.6] or quasi[:1]
        option = {}
        for attribute in chosen:
            if attribute.size > 3 and rng.random() < own:
                cuts = int(rng.integers(2, min(8, attribute.size))) - 1
                places = np.sort(rng.choice(np.arange(1, attribute.size), cuts, replace=False))
                groups = np.split(np.arange(attribute.size), places)
                grouping = Grouping(attribute, None, tuple(tuple(map(int, group)) for group in groups))
            else:
                grouping = Grouping(attribute, int(rng.integers(0, attribute.height + 1)))
            option[attribute.name] = grouping
        yield option


class CountsSource:
    """Counts as a source that only counts."""

    def __init__(self, counts: Counts) -> None:
        self.schema, self._counts = counts.schema, counts

    def count(self, by: Sequence[str] | None = None) -> Counts:
        return self._counts if by is None else self._counts.project(list(by))


@dataclass
class Tally:
    """Verdicts beside the truth."""

    held: dict[str, list[bool]] = field(default_factory=dict)
    covered: list[bool] = field(default_factory=list)

    def add(self, answer: GroupingAnswer | str, is_kept: bool, k: int | None = None) -> None:
        verdict = answer if isinstance(answer, str) else answer.verdict
        self.held.setdefault(verdict, []).append(is_kept)
        is_certain = verdict in ("holds", "fails")
        if not isinstance(answer, str) and k is not None and not is_certain and answer.low is not None:
            self.covered.append(bool(answer.low <= k <= (answer.high or 0)))

    def join(self, other: Tally) -> None:
        for verdict, held in other.held.items():
            self.held.setdefault(verdict, []).extend(held)
        self.covered += other.covered

    def write(self) -> str:
        total = sum(map(len, self.held.values()))
        wrong = self.held.get("holds", []).count(False) + self.held.get("fails", []).count(True)
        certain = len(self.held.get("holds", [])) + len(self.held.get("fails", []))
        parts = [f"{total} asked", f"certain {certain} ({wrong} wrong)"]
        for verdict in ("likely", "unlikely"):
            held = self.held.get(verdict, [])
            parts.append(f"{verdict} held {sum(held)}/{len(held)}")
        parts.append(f"unknown {len(self.held.get('unknown', [])) / max(1, total):.1%}")
        if self.covered:
            parts.append(f"k in the interval {np.mean(self.covered):.1%} of {len(self.covered)}")
        return ", ".join(parts)


def judge_table(counts: Counts, requests: int, seed: int) -> dict[str, Tally]:
    """Judge random requests of one table from pair counts and from a verdict file, in all kinds of promises."""
    schema = counts.schema
    sensitive = [attribute for attribute in schema.attributes if attribute.role == "sensitive"]
    quasi = [attribute.name for attribute in schema.attributes if attribute.role == "quasi"]
    pieces = Pieces.of(counts, quasi, [attribute.name for attribute in sensitive])
    known = SchemaHistory(schema, [], PairCounts.of(schema.fingerprint, pieces))
    tallies: dict[str, Tally] = {}
    source = CountsSource(counts)
    policies: dict[str, list[TablePolicy]] = {"k": [TablePolicy(k=k) for k in SIZES_K]}
    policies["suppression"] = [TablePolicy(k=5, max_suppressed=limit) for limit in LIMITS]
    for attribute in sensitive:
        name = attribute.name
        least = min(3, attribute.size)
        policies["l"] = [TablePolicy(k=5, criteria=(f"l={least},{name}",))]
        policies["t"] = [TablePolicy(k=5, criteria=(f"t={t},{name}",)) for t in (0.2, 0.4)]
        policies["t, suppression"] = [TablePolicy(k=5, max_suppressed=Fraction(1, 20), criteria=(f"t=0.4,{name}",))]
        policies["l, suppression"] = [TablePolicy(k=5, max_suppressed=Fraction(1, 20), criteria=(f"l={least},{name}",))]
    for kind, rules in policies.items():
        for rule in rules:
            table = CountedTable(source, rule, quasi)
            promise = AskedPromise(k=rule.k, max_suppressed=rule.max_suppressed, criteria=read_criteria(rule.criteria))
            file = make_verdicts(table)[0] if kind == "k" else None
            for option in random_options(seed, schema, requests):
                truth = table.measure(option)
                answer = known.answer(option, promise)
                tallies.setdefault(kind, Tally()).add(answer, truth.is_kept, truth.k if kind == "k" else None)
                if file is not None:
                    tallies.setdefault("verdict file", Tally()).add(file.judge(option), truth.is_kept)
    return tallies


def judge_growth(counts: Counts, requests: int, seed: int) -> tuple[Tally, list[float]]:
    """Count the pairs of half of the rows, and predict for all of them; also how far the predicted loss is off."""
    rng, schema = np.random.default_rng(seed), counts.schema
    quasi = [attribute.name for attribute in schema.attributes if attribute.role == "quasi"]
    halves = rng.binomial(counts.values.astype(np.int64), 0.5)
    codes = np.repeat(counts.columns(), halves, axis=0)
    half = Pieces.of(Counts.from_columns(schema, codes), quasi)
    known = SchemaHistory(schema, [], PairCounts.of(schema.fingerprint, half), rows=counts.total)
    tally, errors = Tally(), []
    for rule in (TablePolicy(k=5), TablePolicy(k=5, max_suppressed=Fraction(1, 20))):
        table = CountedTable(CountsSource(counts), rule, quasi)
        for option in random_options(seed, schema, requests):
            truth = table.measure(option)
            answer = known.answer(option, AskedPromise(k=rule.k, max_suppressed=rule.max_suppressed))
            tally.add(answer, truth.is_kept)
            if truth.is_kept and answer.loss is not None:
                share = truth.suppressed_rows / truth.rows
                losses = []
                for name in quasi:
                    column = PairCounts.of("", Pieces.of(counts, [name]))
                    lost = column.measure_loss(option[name]) if name in option else 1.0
                    losses.append(lost + (1 - lost) * share)
                errors.append(abs(answer.loss - (float(np.prod(1 + np.array(losses))) ** (1 / len(quasi)) - 1)))
    return tally, errors


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--tables", default="")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--csv", nargs="*", default=[], metavar="FILE", help="tables of one's own instead")
    given = parser.parse_args(arguments)
    sums: dict[tuple[str, bool], Tally] = {}
    files = {name: (False, lambda name=name: read_csv_table(name, seed=given.seed)) for name in given.csv}
    for name, (is_seen, read) in (files or TABLES).items():
        if given.tables and not any(part in name for part in given.tables.split(",")):
            continue
        counts = read()
        if counts is None:
            print(f"{name}: not there (../shared/data), skipped")
            continue
        began = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        for kind, tally in judge_table(counts, given.requests, given.seed).items():
            print(f"{name}, {kind}: {tally.write()}")
            sums.setdefault((kind, is_seen), Tally()).join(tally)
        grown, errors = judge_growth(counts, given.requests, given.seed)
        print(f"{name}, grown to twice its rows: {grown.write()}; loss off by at most {max(errors, default=0):.4f}")
        sums.setdefault(("grown", is_seen), Tally()).join(grown)
        print(f"{name}: {resource.getrusage(resource.RUSAGE_SELF).ru_utime - began:.1f} CPU s")
    for (kind, is_seen), tally in sums.items():
        print(f"{'ALL SEEN' if is_seen else 'ALL HELD OUT'}, {kind}: {tally.write()}")
    return 0


if __name__ == "__main__":
    import sys

    sys.exit(main(sys.argv[1:]))
