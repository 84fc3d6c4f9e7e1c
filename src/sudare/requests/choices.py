"""Ways to generalise a table, and what a recoded table is good for: use cases that command line and page share."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sudare.app import write_page
from sudare.compare.task import TaskAccuracy, measure_accuracy
from sudare.counts import Counts
from sudare.errors import ParameterError, ReleaseError
from sudare.methods.kanon import KAnonymity
from sudare.methods.kanon.choices import Choices
from sudare.methods.kanon.compare import check_true_schema
from sudare.releases import Release
from sudare.releases.columns import find_frame, read_labels
from sudare.report.page import render_page
from sudare.report.shapes import write_number
from sudare.schema import Schema
from sudare.schema.arrays import Codes
from sudare.sources import open as open_source
from sudare.text import Text, text


def list_choices(
    data: str | Path,
    schema: Schema,
    method: KAnonymity,
    *,
    task: str | None = None,
    register_file: str | Path | None = None,
    **reading: Any,
) -> Choices:
    """Measure what each level would cost. For the steward: nothing is published."""
    register = None if register_file is None else _count_register(register_file, schema, method)
    with contextlib.closing(open_source(data, schema, same_rows=True, **reading)) as source:
        return method.list_choices(source, register=register, task=task)


def _count_register(register_file: str | Path, schema: Schema, method: KAnonymity) -> Counts:
    count: Any = method.open_extra("register", register_file, schema, open_table=open_source)
    counts: Counts = count()
    return counts


def render_choices(choices: Choices, schema: Schema) -> str:
    """Write the page of the ways, with pictures, in the language of the reader. It is stamped."""
    best = choices.best
    head, proof = choices.describe_proof()
    return render_page(
        title=text("Ways to generalise: {name}", name=schema.name),
        kind=text("k-anonymity, before anything is published"),
        promise=head,
        notes=[proof],
        facts=[
            (text("ways"), write_number(choices.lattice.size)),
            (text("measured"), write_number(choices.checks)),
            (text("least loss"), f"{best.score:.4f}"),
            (text("rows left out"), f"{choices.share_left_out(best):.1%}"),
        ],
        sections=choices.sections(),
        is_secret=True,
        origin=text("Made by Sudare from the true table; keep it with the steward."),
    )


def write_choices(choices: Choices, schema: Schema, out: Path) -> None:
    """Write the page to a new file; it appears whole or not at all."""
    write_page(out, render_choices(choices, schema))


# --- a release and a task ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TaskComparison:
    """How well a column is predicted from a table as it is and as it was published. Not for publication."""

    task: str
    features: tuple[str, ...]
    before: TaskAccuracy
    after: TaskAccuracy

    def lines(self) -> list[Text]:
        """Say it to the steward."""
        return [
            text("for the steward only, not for publication:"),
            text("{task} is predicted from {names}", task=self.task, names=", ".join(self.features)),
            self.before.describe(),
            text(
                "From the published table it predicts {after}; rows left out are predicted by the commonest value.",
                after=f"{self.after.accuracy:.1%}",
            ),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Give plain values."""
        return {
            "stamp": "not for publication",
            "task": self.task,
            "features": list(self.features),
            "before": self.before.accuracy,
            "after": self.after.accuracy,
            "commonest": self.before.commonest,
            "standard_error": self.before.error,
        }


def compare_task(directory: Path, truth: str | Path, schema: Schema, *, task: str, **reading: Any) -> TaskComparison:
    """Predict a column from the true table and from a k-anonymous release of it; rows left out count too."""
    release = Release.load(directory)
    if release.certificate.method != "kanon":
        raise ParameterError("the use for a task is measured for k-anonymous releases; name the directory of one")
    check_true_schema(release, schema)
    published = {name: read_labels(column) for name, column in find_frame(release, "records").columns.items()}
    name = schema.attribute(task).name
    quasi = tuple(release.certificate.guarantee["quasi"])
    if name not in published or name in quasi:
        raise ParameterError(
            "the task {name} must be a published column that is no quasi-identifier; there are {known}",
            name=name,
            known=", ".join(column for column in published if column not in quasi) or "–",
        )
    features = tuple(one for one in published if one != name and one in schema.names)
    with contextlib.closing(open_source(truth, schema, same_rows=True, **reading)) as source:
        counts = source.count((*features, name))
    rows = np.repeat(counts.columns(), counts.values.astype(np.int64), axis=0)
    before = measure_accuracy([rows[:, axis] for axis in range(len(features))], rows[:, -1])
    columns = {one: column.codes for one, column in published.items()}
    labels = published[name].labels.tolist()
    target = np.array([schema.attribute(name).code(label) for label in labels], dtype=np.int64)[columns[name]]
    is_sampled = schema.unit.kind == "person"  # other rows of a person may be chosen now than were published
    after = _measure_published([columns[one] for one in features], target, rows[:, -1], is_sampled=is_sampled)
    return TaskComparison(task=name, features=features, before=before, after=after)


def _measure_published(columns: list[Codes], target: Codes, true_target: Codes, *, is_sampled: bool) -> TaskAccuracy:
    """Add the rows that were left out: of them only the value to be predicted is known, and nothing to predict by."""
    size = int(max(target.max(initial=0), true_target.max(initial=0))) + 1
    missing = np.bincount(true_target, minlength=size) - np.bincount(target, minlength=size)
    if len(true_target) < len(target) or (not is_sampled and (missing < 0).any()):
        raise ReleaseError("the true table has fewer rows than the release; name the table that it was made from")
    out = np.repeat(np.arange(size), np.maximum(missing, 0))
    filled = [np.concatenate([column, np.zeros(len(out), dtype=np.int64)]) for column in columns]
    is_kept = np.arange(len(target) + len(out)) < len(target)
    return measure_accuracy(filled, np.concatenate([target, out]), is_kept=is_kept)
