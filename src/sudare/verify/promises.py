"""`sudare verify --promise METHOD`: is the promise of a method kept, shown by what can be shown exactly.

Differential privacy: coupled replay on random neighbours (`replay.py`). Classes: random tables are published, and
their classes are counted again. Epsilon per metre: the law in the device file is read, for all places and reports.
"""

from __future__ import annotations

import csv
import itertools
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sudare.counts import Counts
from sudare.errors import ParameterError, SudareError
from sudare.methods.base import Method
from sudare.methods.location import load_device_file
from sudare.methods.location.grid import PlaneGrid, distances_from
from sudare.methods.location.map_file import Map
from sudare.methods.registry import find_method
from sudare.noise import SeededRng
from sudare.privacy.promise import ClassGuarantee, MetricGuarantee
from sudare.releases import Release
from sudare.schema import Attribute, Schema, TableHierarchy, Values
from sudare.sources import open as open_source
from sudare.sources.table import TableSource
from sudare.text import Text, text
from sudare.verify.neighbours import Dice, make_pair
from sudare.verify.replay import PAIRS, SEED, ReplayResult, list_choices, replay_kind, write_ratio

Progress = Callable[[float], None]

MOST_PLACES = 1000  # of a map whose law is compared for all pairs of places: 1e9 numbers
ROUNDING = 1e-9  # of logarithms of probabilities, which are floats here
RECOUNTED_FORMS = 30  # of the forms of a method, drawn at random
RECOUNTED_K = 4


@dataclass(frozen=True, kw_only=True)
class PromiseVerdict:
    """What was shown about the promise of a method: whether it holds, in lines, and as plain values."""

    method: str
    shown_by: str
    holds: bool
    lines: tuple[Text, ...]
    details: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for programs."""
        return {"method": self.method, "shown_by": self.shown_by, "holds": self.holds, **self.details}


def verify_promise(
    name: str, *, facts_file: Path | None = None, pairs: int = PAIRS, seed: int = SEED, progress: Progress | None = None
) -> PromiseVerdict:
    """Verify the promise of a method by name, on tables over made-up schemas or over that of a schema (or map) file."""
    if pairs < 1:
        raise ParameterError("pairs ({pairs}) must be at least 1", pairs=pairs)
    kind = find_method(name)
    facts = None if facts_file is None else kind.read_facts(facts_file)
    if kind.takes == "map":
        return verify_metric(kind, facts)
    if kind.takes == "rows":
        return verify_classes(kind, facts, seed=seed)
    return summarise_replay(name, replay_kind(kind, schema=facts, pairs=pairs, seed=seed), progress=progress)


# --- differential privacy ---------------------------------------------------------------------------------------------


def summarise_replay(name: str, results: Iterable[ReplayResult], *, progress: Progress | None = None) -> PromiseVerdict:
    """Put the results of a replay in words: a line for each set of parameters, then all together."""
    found: list[ReplayResult] = []
    for result in results:
        found.append(result)
        if progress is not None:
            progress(1 - 0.98 ** len(found))  # how many there will be is not known: ever nearer to the end
    tried = [result for result in found if result.pairs]
    if not tried:
        raise ParameterError("{method} cannot be tried on this schema: it refuses it in every form", method=name)
    broken = [result for result in tried if not result.holds]
    worst = max(result.worst for result in tried)
    total = text(
        "{method}: {configurations} configurations, {pairs} pairs of neighbouring tables, worst loss / promise {worst}",
        method=name,
        configurations=len(tried),
        pairs=sum(result.pairs for result in tried),
        worst=write_ratio(worst),
    )
    return PromiseVerdict(
        method=name,
        shown_by="replay",
        holds=not broken,
        lines=(*_describe_forms(tried), *map(_describe_broken, broken), total),
        details={
            "configurations": len(tried),
            "pairs": sum(result.pairs for result in tried),
            "worst_loss_over_promise": write_ratio(worst),
            "results": [result.to_dict() for result in tried],
        },
    )


def _describe_forms(results: list[ReplayResult]) -> Iterator[Text]:
    forms: dict[tuple[Any, ...], list[ReplayResult]] = {}
    for result in results:
        forms.setdefault((result.currency, *result.choices.items()), []).append(result)
    for same in forms.values():
        yield text(
            "{form}: {pairs} pairs, worst loss / promise {worst}",
            form=_write_form(same[0]),
            pairs=sum(result.pairs for result in same),
            worst=write_ratio(max(result.worst for result in same)),
        )


def _describe_broken(result: ReplayResult) -> Text:
    return text(
        "the promise is broken ({form}; {neighbours} neighbours; {unit}): {problem}",
        form=_write_form(result),
        neighbours=result.neighbours,
        unit=result.unit.describe(),
        problem=result.problem or text("the loss is {worst} times the promise", worst=write_ratio(result.worst)),
    )


def _write_form(result: ReplayResult) -> str:
    return ", ".join([*(f"{name}={word}" for name, word in result.choices.items()), result.currency])


# --- classes ----------------------------------------------------------------------------------------------------------


def verify_classes(kind: type[Method], schema: Schema | None, *, seed: int = SEED) -> PromiseVerdict:
    """Publish random tables and count their classes again: no class may have fewer rows than is promised."""
    dice, facts = Dice(seed), schema or schema_with_hierarchies()
    releases, smallest, is_kept = 0, None, True
    forms = list(list_choices(kind, given={"k": RECOUNTED_K, "max_suppressed": "1"}))
    for _ in range(RECOUNTED_FORMS):
        method = kind(k=RECOUNTED_K, max_suppressed="1", **dice.choose(forms))  # type: ignore[call-arg]
        table = make_pair(dice, facts, "add-remove").first
        try:
            found, promised = recount_classes(method, table)
        except SudareError:
            continue  # no generalisation reaches k: nothing is published, nothing is promised
        releases += 1
        smallest = found if smallest is None else min(found, smallest)
        is_kept &= found >= promised
    if smallest is None:
        raise ParameterError("{method} cannot be tried on this schema: it refuses it in every form", method=kind.name)
    line = text(
        "{method}: the promise compares no tables, so there is no loss to replay; the classes of {releases} releases of"
        " random tables were counted again: the smallest has {smallest} rows, and k = {k} is promised",
        method=kind.name,
        releases=releases,
        smallest=smallest,
        k=RECOUNTED_K,
    )
    details = {"releases": releases, "smallest_class": smallest, "k": RECOUNTED_K}
    return PromiseVerdict(method=kind.name, shown_by="recount", holds=is_kept, lines=(line,), details=details)


def recount_classes(method: Method, table: Counts) -> tuple[int, int]:
    """Publish a table and count the rows of its smallest class: that, and how many are promised.

    A release without rows has no class, and counts as one that keeps its promise.
    """
    with tempfile.TemporaryDirectory() as place, open_rows(table, Path(place)) as source:
        release = method.publish(source, rng=SeededRng(1))
        release.save(Path(place) / "out", file_format="csv", even_if_not_private=True)
        stored = Release.load(Path(place) / "out")
        promise = method.plan(table.schema).promise
    columns = stored.frames["records"].decode()
    names = stored.certificate.guarantee["quasi"]
    rows = Counter(zip(*(map(str, columns[name].tolist()) for name in names), strict=True))
    promised = promise.rows if isinstance(promise, ClassGuarantee) else 1
    return min(rows.values(), default=promised), promised


def open_rows(counts: Counts, place: Path) -> TableSource:
    """Write counts as rows of a CSV file, each person with two of them, and open the file."""
    schema, codes = counts.schema, counts.expand()
    columns = {one.name: one.labels(codes[:, at]).tolist() for at, one in enumerate(schema.attributes)}
    if schema.unit.kind == "person":
        columns[str(schema.unit.column)] = [f"p{row // 2}" for row in range(len(codes))]
    with (place / "rows.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return open_source(place / "rows.csv", schema)


def schema_with_hierarchies() -> Schema:
    """Make a schema that can be generalised: two quasi-identifiers of 8 and 4 values, and a sensitive attribute.

    >>> schema_with_hierarchies().size
    96
    """
    first = [(f"v{code}", f"half {code // 4}", "*") for code in range(8)]
    second = [(f"w{code}", f"pair {code // 2}", "*") for code in range(4)]
    quasi = [
        Attribute(
            name=f"a{at}",
            domain=Values(tuple(path[0] for path in paths)),
            role="quasi",
            hierarchy=TableHierarchy.from_paths(paths),
        )
        for at, paths in enumerate((first, second))
    ]
    illness = Attribute(name="a2", domain=Values(("none", "cold", "flu")), role="sensitive")
    return Schema(name="checked", attributes=(*quasi, illness))


# --- a metric ---------------------------------------------------------------------------------------------------------


def verify_metric(kind: type[Method], facts: Any) -> PromiseVerdict:
    """Read the law of a mechanism for a map, in every form: the largest loss per metre over all places and reports."""
    area = small_map() if facts is None else facts
    if area.places.size > MOST_PLACES:
        raise ParameterError(
            "the map has {places} places, and at most {most} are compared with each other here; publish it, and let"
            " `sudare verify DIR` check the release",
            places=area.places.size,
            most=MOST_PLACES,
        )
    lines, results = [], []
    for choices in cover_pairs(list(list_choices(kind, given={"epsilon_per_metre": "1/50"}))):
        method = kind(epsilon_per_metre="1/50", **choices)  # type: ignore[call-arg]
        try:
            found, promised = find_worst_loss(method, area)
        except SudareError:
            continue  # a form that this map does not allow
        ratio = found / promised
        form = ", ".join(f"{name}={word}" for name, word in choices.items())
        lines.append(text("{form}: largest loss / promise {ratio}", form=form, ratio=f"{ratio:.6f}"))
        results.append({"parameters": choices, "largest_loss_over_promise": f"{ratio:.6f}",
                        "holds": ratio <= 1 + ROUNDING})  # fmt: skip
    total = text(
        "{method}: the promise compares places, so there is no loss to replay; the law in the device file was read for"
        " all pairs of {places} places and all reports, in {forms} forms",
        method=kind.name,
        places=area.places.size,
        forms=len(results),
    )
    return PromiseVerdict(
        method=kind.name,
        shown_by="law",
        holds=bool(results) and all(result["holds"] for result in results),
        lines=(*lines, total),
        details={"places": area.places.size, "results": results},
    )


def cover_pairs(forms: list[dict[str, str]]) -> list[dict[str, str]]:
    """Choose forms in which every two words that any form has together stand together.

    The weights of a map and what is done with its slack make the law, so every law is read. How long answers last and
    who is supposed to live where make figures beside it, which take longer to work out than the law.

    >>> forms = [{"a": a, "b": b, "c": c} for a in "12" for b in "12" for c in "12"]
    >>> len(cover_pairs(forms))
    4
    """
    pairs = [set(itertools.combinations(form.items(), 2)) for form in forms]
    left, chosen = set[Any]().union(*pairs), []
    while left:
        best = max(range(len(forms)), key=lambda place: len(left & pairs[place]))
        chosen.append(forms[best])
        left -= pairs[best]
    return chosen if chosen else forms


def find_worst_loss(method: Method, area: Any) -> tuple[float, float]:
    """The largest loss per metre over all pairs of places and all reports, and what is promised."""
    with tempfile.TemporaryDirectory() as place:
        method.publish(area).save(Path(place) / "out")
        mechanism = load_device_file(Path(place) / "out").mechanism
    places = range(mechanism.places.size)
    laws = np.log(np.array([mechanism.report_law(cell) for cell in places]))
    worst = 0.0
    for cell in places:
        metres = np.asarray(distances_from(mechanism.places, cell))
        losses = (laws[cell] - laws).max(axis=1)
        apart = metres > 0
        worst = max(worst, float((losses[apart] / metres[apart]).max(initial=0.0)))
    promise = method.promise(area)
    if not isinstance(promise, MetricGuarantee):
        raise ParameterError("{method} promises no epsilon per metre", method=method.name)
    return worst, float(promise.epsilon_per_metre)


def small_map() -> Map:
    """Make a map of 3 by 4 cells, all of which can be reported."""
    grid = PlaneGrid(rows=3, columns=4, cell_height_metres=100, cell_width_metres=120)
    return Map(places=grid, weights=np.ones(grid.size))
