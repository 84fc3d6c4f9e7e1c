"""Where microdata ends and a view begins: the rule of `sudare choose`, on Adult, in one run.

    python -m benchmarks.choose [EPSILON]

Share of the records misplaced in all tables of two and of three columns, by microdata and by records drawn from a view,
and what the rule says from public facts. Bins are those that `sudare schema init` proposes. Needs
shared/data/adult.csv.gz beside the repository.
"""

import itertools
import sys
import tempfile
from pathlib import Path

import numpy as np

import sudare as sd
from sudare.advise.answers import Answers
from sudare.advise.choose import advise
from sudare.counts import Counts
from sudare.methods.view import open_view
from sudare.noise import SeededRng
from sudare.schema.propose import propose
from sudare.sources import describe

ADULT = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult.csv.gz"
COLUMNS = ("age", "occupation", "education", "marital-status", "hours-per-week")
CHOICES = (("age", "sex", "education"), COLUMNS[:3], COLUMNS[:4], COLUMNS)


def adult(folder: Path) -> sd.Schema:
    """The proposed schema of Adult, taken as confirmed."""
    file = folder / "adult.toml"
    text = propose(describe(str(ADULT)), name="adult")
    file.write_text(text.replace("inferred = true", 'inferred = "confirmed"'), encoding="utf-8")
    return sd.Schema.read(file)


def drawn(method: sd.View, source: object, rows: int, folder: Path) -> Counts:
    """As many records as there are, from a view that is saved and opened as users do."""
    place = folder / "-".join((*(method.by or ()), "view"))
    method.publish(source, rng=SeededRng(1)).save(place, even_if_not_private=True)
    view = open_view(place)
    return Counts.from_columns(view.schema, np.concatenate(list(view.records(rows, rng=SeededRng(2)))))


def misplaced(truth: Counts, made: Counts, ways: int) -> float:
    """Share of records in the wrong cell, in the mean of all tables of so many columns."""
    shares = []
    for names in itertools.combinations(truth.schema.names, ways):
        before, after = truth.project(names).dense(), made.project(names).dense()
        shares.append(np.abs(before - after).sum() / 2 / truth.total)
    return float(np.mean(shares))


def main(argv: list[str]) -> int:
    if not ADULT.is_file():
        print("shared/data/adult.csv.gz is not beside the repository: nothing to compare")
        return 0
    epsilon = argv[0] if argv else "1"
    print(f"Adult, epsilon {epsilon}: records misplaced in tables of two and three columns")
    with tempfile.TemporaryDirectory() as made:
        schema = adult(Path(made))
        with sd.open(str(ADULT), schema) as source:
            for by in CHOICES:
                truth, chosen = source.count(by), schema.select(by)
                records = sd.Microdata(epsilon=epsilon).draw(truth, rng=SeededRng(1))
                sampled = drawn(sd.View(epsilon=epsilon, by=by), source, truth.total, Path(made))
                figures = [misplaced(truth, one, ways) for one in (records, sampled) for ways in (2, 3)]
                rule = advise(chosen, Answers(need="records", rows=truth.total, epsilons=(epsilon,))).choice.publish
                told = "microdata {:.1%} {:.1%}, view {:.1%} {:.1%}".format(*figures)
                print(f"{chosen.size:>9,} cells: {told}; the rule says {rule}  ({', '.join(by)})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
