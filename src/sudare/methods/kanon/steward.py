"""What the steward is told of a k-anonymous release, and what the history learns from it. Not for publication."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from sudare.counts.relabelling import Recodable
from sudare.methods.base import Made, Progress, Summary
from sudare.methods.kanon.approve import Approval
from sudare.methods.kanon.history import History, Measurement, make_measurement, measure_nodes
from sudare.methods.kanon.joint import JointSize, ReleasedClasses, add_classes, measure_joint, read_classes
from sudare.methods.kanon.kanonymity_parameters import KAnonymityParameters, count_rows_of_person
from sudare.methods.kanon.lattice import Lattice
from sudare.methods.kanon.pairs import PairCounts
from sudare.methods.kanon.problem import SearchProgress
from sudare.methods.kanon.relabel import Outcome
from sudare.methods.kanon.risk import BeforeAfter, compare_recoding
from sudare.privacy import Ledger
from sudare.releases import Certificate
from sudare.report.shapes import Listing
from sudare.schema import Schema
from sudare.text import Text, text

LONG_SECONDS = 20.0  # a search that takes longer is told of once


@dataclass(frozen=True, kw_only=True, eq=False)
class StewardOutcome:
    """The recoding of a release with all that only the steward may see."""

    outcome: Outcome
    source_schema: Schema
    approval: Approval | None = None
    joint: JointSize | None = None


def summarise_release(made: Made, *, out: Path) -> Summary:
    """Tell what was published, and beside it the risk before and after, which is of the true table."""
    private: StewardOutcome = made.payload.steward
    compared, result = compare_recoding(private.outcome.recoded), private.outcome.result
    request = made.plan.steps.request
    option = None if private.approval is None else private.approval.number + request.first_number - 1
    gap = 0.0 if result is None else result.gap
    lines = [*_published_lines(made.release.certificate, option)]
    if result is not None and not result.is_optimal:
        lines.append(text("a better generalisation may exist; it would be better by at most {gap}", gap=f"{gap:.4g}"))
    if private.outcome.is_late:
        lines.append(text("stopped at the deadline; with more time fewer details may be lost"))
    return Summary(
        headline=text("{rows} records published in {out}", rows=compared.after.rows, out=out),
        rows=compared.after.rows,
        lines=[
            *lines,
            *_risk_lines(compared),
            *_explain_figures(made, compared, count_rows_of_person(private.source_schema.unit)),
            *([] if private.joint is None else [private.joint.describe()]),
        ],
        warnings=[alike.describe() for alike in compared.alike],
        details={
            "option": option,
            "wish": option,  # the old name
            "optimal": None if result is None else result.is_optimal,
            "gap": gap,
            "joint_k": None if private.joint is None else private.joint.k,
            "risk": compared.to_dict(),
        },
    )


def _published_lines(certificate: Certificate, option: int | None) -> list[Text]:
    lines = []
    if option is not None:
        lines.append(text("option {number} of the request is approved and published", number=option + 1))
    levels = certificate.measures.get("levels")
    if levels:
        written = ", ".join(f"{name} {level}" for name, level in levels.items())
        lines.append(text("levels: {levels}", levels=written))
    names = [attribute["name"] for attribute in certificate.schema["attributes"]]
    unchanged = [name for name in names if name not in certificate.guarantee["quasi"]]
    if unchanged:
        lines.append(describe_unchanged(unchanged))
    return lines


def describe_unchanged(names: list[str] | tuple[str, ...]) -> Text:
    """Say which columns are published as they are."""
    return text(
        "These columns are published unchanged; k-anonymity does not protect them: {names}", names=", ".join(names)
    )


def _risk_lines(compared: BeforeAfter) -> list[Text | Listing]:
    before, after = compared.before, compared.after
    rows = [
        (text("smallest class"), str(before.smallest), str(after.smallest)),
        (text("classes"), str(before.classes), str(after.classes)),
        (text("unique rows"), f"{before.uniques:.1%}", f"{after.uniques:.1%}"),
        (text("prosecutor risk"), f"{before.prosecutor:.3f}", f"{after.prosecutor:.3f}"),
        (text("marketer risk"), f"{before.marketer:.3f}", f"{after.marketer:.3f}"),
    ]
    lines: list[Text | Listing] = [
        text("for the steward only, not for publication:"),
        Listing(title="", head=("", text("before"), text("after")), rows=rows),
        text("rows left out: {rows}", rows=compared.suppressed_rows),
        text("loss: {loss}", loss=f"{compared.total_loss:.4f}"),
    ]
    if compared.costliest is not None:
        share = f"{compared.loss[compared.costliest]:.4f}"
        lines.append(text("most is lost in {name}: {share}", name=compared.costliest, share=share))
    return lines


def _explain_figures(made: Made, compared: BeforeAfter, rows_of_person: int) -> list[Text]:
    """Say what the figures do not: that risks are of rows, and that a large local recoding leaves out none."""
    lines, method = [], cast(KAnonymityParameters, made.method)
    if rows_of_person > 1:
        lines.append(
            text(
                "these are figures of rows; a person may have {rows}, so the risk of a person is up to {rows} times"
                " that of a row",
                rows=rows_of_person,
            )
        )
    if method.recoding == "local" and method.share and not compared.suppressed_rows:
        lines.append(
            text(
                "local recoding leaves out rows only in small tables, and only where that loses less; here"
                " max_suppressed changed nothing"
            )
        )
    return lines


# --- warnings and the history -----------------------------------------------------------------------------------------


def warn_of_earlier_releases(schema: Schema, history: History | None) -> list[Text]:
    """Say that k-anonymity does not compose, where the history knows of a release of the same schema."""
    known = () if history is None else history.measurements
    before = sum(measurement.kind == "released" and measurement.schema == schema.fingerprint for measurement in known)
    if not before:
        return []
    return [
        text(
            "the history already has releases of this table ({count}). k-anonymity does not compose: two"
            " releases together can show what each of them hides. Read what is said of all releases together before"
            " you hand this one out",
            count=before,
        )
    ]


def warn_of_ledger(ledger: Ledger | None) -> list[Text]:
    """Say that a ledger cannot bound what a k-anonymous release tells."""
    if ledger is None:
        return []
    spends = len(ledger.entries())
    if not spends:
        return [
            text("the ledger was not charged: k-anonymity has no epsilon, so a ledger cannot bound what it reveals")
        ]
    return [
        text(
            "the ledger has {count} spends on this table; its promise does not cover a k-anonymous release of"
            " the same rows, for which no epsilon holds",
            count=spends,
        )
    ]


def learn_from(made: Made) -> list[Measurement]:
    """Tell the history what a release teaches: every node it looked at and some more, and that there was one."""
    private: StewardOutcome = made.payload.steward
    if private.approval is not None:
        return [replace(private.approval.measurements[-1], kind="released")]
    recoded, result = private.outcome.recoded, private.outcome.result
    pieces, fingerprint = recoded.pieces, private.source_schema.fingerprint
    smallest = int(recoded.class_sizes.min(initial=pieces.rows))
    if result is None:
        return [Measurement(schema=fingerprint, groupings={}, cells=0, k=smallest, rows=pieces.rows, kind="released")]
    lattice = Lattice(pieces.attributes[: pieces.quasi])
    measured = measure_nodes(fingerprint, pieces.tuples(), lattice, trace=result.trace, also=(result.node,))
    released = make_measurement(fingerprint, lattice, result.node, k=smallest, rows=pieces.rows, kind="released")
    return [*measured, released]


def keep_counts(made: Made, history: History) -> None:
    """Keep the classes of the release beside the history, and the counts of pairs if all attributes were counted."""
    private: StewardOutcome = made.payload.steward
    schema, recoded = private.source_schema.fingerprint, private.outcome.recoded
    add_classes(history.classes_path, ReleasedClasses.of(private.source_schema, recoded))
    if private.approval is None:
        PairCounts.of(schema, recoded.pieces).write(history.pairs_path)


def find_earlier(schema: Schema, history: History | None) -> list[ReleasedClasses]:
    """Find the classes of all earlier releases of a table."""
    known = [] if history is None else read_classes(history.classes_path)
    return [release for release in known if release.is_of(schema)]


def compare_with_earlier(source: Recodable, outcome: Outcome, history: History | None) -> JointSize | None:
    """Measure what the release and the earlier ones of the same table tell together; None if there is none."""
    earlier = find_earlier(source.schema, history)
    return measure_joint(source, outcome.recoded, earlier) if earlier else None


# --- a long search ----------------------------------------------------------------------------------------------------


def watch_search(
    progress: Progress | None, *, seconds: float = LONG_SECONDS
) -> Callable[[SearchProgress], None] | None:
    """Tell how far a search is, and once, when it takes long, how to end it (by `progress.note`, if it has one)."""
    if progress is None:
        return None
    started, is_noted = time.monotonic(), False
    note: Callable[[Text], object] | None = getattr(progress, "note", None)

    def watch(state: SearchProgress) -> None:
        nonlocal is_noted
        if state.best:
            progress(max(0.0, min(1.0, state.lower_bound / state.best)))  # the proof is done when both are equal
        if note is not None and not is_noted and time.monotonic() - started >= seconds:
            is_noted = True
            note(describe_search(state))

    return watch


def describe_search(state: SearchProgress) -> Text:
    """Say how far a search is, and how to end it."""
    return text(
        "still searching: the best loss so far is {best}, and none can be below {bound}; --deadline-seconds"
        " ends a search with the best so far",
        best="-" if state.best is None else f"{state.best:.4g}",
        bound=f"{max(0.0, state.lower_bound):.4g}",
    )
