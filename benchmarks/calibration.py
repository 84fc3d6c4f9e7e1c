"""How honest `sudare predict` is: of the groupings it called likely (or unlikely), how many held k.

    python -m benchmarks.calibration [DIRECTORY OF DATA SETS]

Each table is asked for 400 random groupings of random attributes at k = 2, 5, 10 and 50, answered from a history and
then measured. The history is what one `publish kanon --history` leaves behind. Data sets: shared/data beside the
repository, else none; and, if scikit-learn is installed, 16 tables of five columns each from the data that come with
it, which were first opened when the predictor was finished.
"""

import csv
import gzip
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sudare.counts import Counts
from sudare.methods.kanon import KAnonymity
from sudare.methods.kanon.history import measure_nodes
from sudare.methods.kanon.lattice import Lattice
from sudare.methods.kanon.predict import SchemaHistory
from sudare.methods.kanon.request import Grouping
from sudare.schema import Attribute, Schema, Values
from sudare.schema.hierarchy_rules import ordered_groups

PLACE = Path(__file__).resolve().parents[2] / "shared" / "data"
BINS, STEPS = 32, (2, 4, 8, 16)
KS = (2, 5, 10, 50)
ASKED = 400
COLUMNS = {  # the first five were looked at while the ends of the interval were chosen, the last five were not
    "metro": ("temp", "clouds_all", "weather_main", "traffic_volume", "holiday"),
    "electricity-normalized": ("period", "nswprice", "nswdemand", "vicdemand", "transfer", "day"),
    "phoneme": ("0", "1", "2", "3", "4"),
    "jm1": ("loc", "vg", "n", "uniq_Op", "branchCount", "total_Opnd"),
    "adult": ("hours-per-week", "relationship", "capital-gain", "fnlwgt", "education-num"),
}
UNSEEN = {
    "metro": ("rain_1h", "snow_1h", "temp", "weather_description"),
    "electricity-normalized": ("date", "vicprice", "nswprice", "class"),
    "phoneme": ("1", "3", "5"),
    "jm1": ("v", "l", "d", "lOCode", "lOComment"),
    "adult": ("age", "capital-loss", "occupation", "workclass", "education"),
}


@dataclass
class Tally:
    """How many answers there were of each kind, and how many of them held."""

    asked: int = 0
    held: int = 0

    def add(self, held: bool) -> None:
        self.asked += 1
        self.held += held

    def __str__(self) -> str:
        return f"{self.held:4d} of {self.asked:4d}" if self.asked else "   - of    0"


def read(path: Path, columns: tuple[str, ...]) -> Counts:
    """A table of codes: numbers in 32 bins of equal width, texts in the order met; groups of 2, 4, 8, 16, all."""
    with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as stream:
        head, *rows = [[cell.strip() for cell in row] for row in csv.reader(stream) if row]
    chosen = [head.index(name) for name in columns]
    return table(path.stem, [head[at] for at in chosen], [[row[at] for row in rows] for at in chosen])


def table(name: str, names: list[str], columns: list[list[str]]) -> Counts:
    attributes, codes = [], []
    for each, texts in zip(names, columns, strict=True):
        code, size = coded(texts)
        domain = Values(tuple(f"v{number}" for number in range(size)), is_ordered=True)
        tree = ordered_groups(domain, [step for step in STEPS if step < size] or [2])
        attributes.append(Attribute(name=each, domain=domain, role="quasi", hierarchy=tree))
        codes.append(code)
    return Counts.from_columns(Schema(name=name, attributes=tuple(attributes)), np.column_stack(codes))


def coded(texts: list[str]) -> tuple[np.ndarray, int]:
    """Codes of a column, and how many there are."""
    try:
        numbers = np.array([float(text) if text not in ("", "?") else np.nan for text in texts])
    except ValueError:
        names = {name: code for code, name in enumerate(dict.fromkeys(texts))}
        return np.minimum([names[text] for text in texts], BINS - 1), max(2, min(len(names), BINS))
    low, high = np.nanmin(numbers), np.nanmax(numbers)
    places = np.floor((np.nan_to_num(numbers, nan=low) - low) / ((high - low) or 1) * BINS)
    return np.clip(places, 0, BINS - 1).astype(int), BINS


def calibrate(counts: Counts, seed: int, *, most: int = 10**6) -> dict[str, Tally]:
    """Ask, answer, measure. The history is cut to groupings of at most `most` attributes at a time."""
    rng, schema = np.random.default_rng(seed), counts.schema
    outcome = KAnonymity(k=5, max_suppressed="0.02").outcome(counts, schema.names)
    pieces, lattice = outcome.recoded.pieces, Lattice(schema.attributes)
    points = measure_nodes(schema.fingerprint, pieces.tuples(), lattice, trace=outcome.result.trace)
    tops = {each.name: each.height for each in schema.attributes}
    points = [one for one in points if sum(level < tops[name] for name, level in one.groupings.items()) <= most]
    history = SchemaHistory(schema, points)
    tallies = {name: Tally() for name in ("holds", "likely", "unknown", "unlikely", "fails", "inside")}
    for _ in range(ASKED):
        names = [name for name in schema.names if rng.random() < 0.6] or [schema.names[0]]
        levels = {name: int(rng.integers(0, schema.attribute(name).height + 1)) for name in names}
        option = {name: Grouping(schema.attribute(name), level) for name, level in levels.items()}
        node = tuple(levels.get(name, schema.attribute(name).height) for name in schema.names)
        true = pieces.tuples().classes(node).smallest
        for k in KS:
            answer = history.answer(option, k)
            tallies[answer.verdict].add(true >= k)
        low, high = history.bounds(option)
        if low < high and answer.low is not None:
            tallies["inside"].add(answer.low <= true <= answer.high)
    return tallies


def main(argv: list[str]) -> None:
    place = Path(argv[0]) if argv else PLACE
    if not place.is_dir():
        print("no data sets beside the repository; give their directory")
        return
    show("looked at", place, COLUMNS)
    show("not looked at", place, UNSEEN)
    show("same, at most 2 at a time", place, UNSEEN, most=2)
    for title, most in (("fresh", 10**6), ("fresh, at most 3 at a time", 3), ("fresh, at most 2 at a time", 2)):
        tell(title, [calibrate(counts, 100 + seed, most=most) for seed, counts in enumerate(fresh())])


def fresh() -> list[Counts]:
    """Breast cancer and digits (six tables each), diabetes and wine (two each)."""
    try:
        from sklearn import datasets
    except ImportError:
        return []
    tables = []
    for name, groups in (("breast_cancer", 6), ("digits", 6), ("diabetes", 2), ("wine", 2)):
        values = getattr(datasets, f"load_{name}")().data
        varied = [column for column in range(values.shape[1]) if len(np.unique(values[:, column])) > 3]
        for group in range(groups):
            chosen = varied[5 * group : 5 * group + 5]
            tables.append(table(name, [f"c{column}" for column in chosen], values[:, chosen].T.astype(str).tolist()))
    return tables


def tell(title: str, found: list[dict[str, Tally]]) -> None:
    """One line for all tables together."""
    if found:
        sums = {verdict: Tally(asked=sum(one[verdict].asked for one in found),
                               held=sum(one[verdict].held for one in found)) for verdict in found[0]}  # fmt: skip
        print(f"{title:26}" + "".join(f"{tally!s:>14}" for tally in sums.values()))


def show(title: str, place: Path, tables: dict[str, tuple[str, ...]], *, most: int = 10**6) -> None:
    """One line a table and their sum: held of asked, by verdict; true k inside the interval."""
    heads = ("holds", "likely", "unknown", "unlikely", "fails", "in interval")
    print(f"{title:26}" + "".join(f"{head:>14}" for head in heads))
    total: dict[str, Tally] = {}
    for seed, (name, columns) in enumerate(tables.items()):
        found = calibrate(read(place / f"{name}.csv.gz", columns), seed, most=most)
        print(f"{name:26}" + "".join(f"{tally!s:>14}" for tally in found.values()))
        for verdict, tally in found.items():
            all_ = total.setdefault(verdict, Tally())
            all_.asked, all_.held = all_.asked + tally.asked, all_.held + tally.held
    print(f"{'all':26}" + "".join(f"{tally!s:>14}" for tally in total.values()))


if __name__ == "__main__":
    main(sys.argv[1:])
