"""`sudare publish kanon` and `sudare preview kanon`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sudare.cli.help import Worded
from sudare.cli.publish import Command, add_options, source_options
from sudare.cli.terminal import json_option, print_json, progress, table
from sudare.text import language, say

if TYPE_CHECKING:
    from sudare.app import PublishedKanon
    from sudare.methods.kanon import KAnonymity
    from sudare.methods.kanon.problem import SearchProgress

LONG_SECONDS = 20.0
SEARCHES = ("auto", "pak", "ola", "incognito", "flash", "datafly", "exhaustive")
QUALITIES = ("loss", "precision", "entropy", "discernability", "average class size")


def kanon_options(command: Command) -> Command:
    """One flag per field of `KAnonymity`."""
    return add_options(
        command,
        click.option("--k", required=True, type=int, help=say("so many rows share every combination, at least")),
        click.option("--max-suppressed", default="0", help=say("share of the rows that may be left out, such as 0.05")),
        click.option(
            "--criteria",
            multiple=True,
            help=say("beyond k, may be given several times: l=3,COLUMN; entropy-l=2,COLUMN; t=0.2,COLUMN,ordered"),
        ),
        click.option(
            "--recoding",
            type=click.Choice(["full", "value", "mondrian"]),
            default="full",
            show_default=True,
            help=say("one level for every attribute, levels by value, or ranges without hierarchies"),
        ),
        click.option("--local", is_flag=True, help=say("generalise rows further instead of leaving them out")),
        click.option(
            "--mondrian",
            type=click.Choice(["strict", "relaxed"]),
            default="strict",
            show_default=True,
            help=say("keep equal rows together, or cut through them"),
        ),
        *_search_options(),
        click.option("--quasi", help=say('quasi-identifiers, with commas (default: role = "quasi")')),
        click.option("--by", help=say("attributes to publish, with commas (default: all)")),
        click.option("--others", is_flag=True, help=say("publish also columns that the schema does not declare")),
    )


def _search_options() -> tuple[Any, ...]:
    return (
        click.option(
            "--search",
            type=click.Choice(SEARCHES),
            default="auto",
            show_default=True,
            help=say("how the levels are found; auto finds the best"),
        ),
        click.option(
            "--quality",
            type=click.Choice(QUALITIES),
            default="loss",
            show_default=True,
            help=say("what the best levels are best by"),
        ),
        click.option(
            "--deadline-seconds", type=float, help=say("stop the search then, with the best so far and a proven gap")
        ),
    )


@click.command("kanon", cls=Worded, help=say("Publish DATA itself, values generalised, under k-anonymity."))
@source_options
@kanon_options
@click.option(
    "--history",
    "history_file",
    type=click.Path(path_type=Path),
    help=say("the steward's history, which learns from this run"),
)
@click.option(
    "--request",
    "request_file",
    type=click.Path(path_type=Path),
    help=say("publish the first wish of this request that keeps the promise"),
)
@click.option(
    "--register",
    "register_file",
    metavar="FILE",
    help=say("for --criteria presence=LOW..HIGH: a table of the population, a row a person"),
)
def publish_kanon_command(as_json: bool, **given: Any) -> None:
    """Build the method from its flags, run it, and tell the steward."""
    method, place = _split(given)
    from sudare.app import publish_kanon

    with progress(say("counting, then searching")) as moved:
        done = publish_kanon(method, progress=moved, searched=Patience(moved), **place)
    if as_json:
        print_json(done.to_dict())
        return
    tell(done)


class Patience:
    """Shows how far a search is, and tells once, when it takes long, how to end it."""

    def __init__(self, moved: Callable[[float], object] | None, *, seconds: float = LONG_SECONDS) -> None:
        self._moved, self._seconds, self._begun, self._is_told = moved, seconds, time.monotonic(), False

    def __call__(self, told: SearchProgress) -> None:
        """Take the news of a search."""
        if self._moved is not None and told.best:
            self._moved(max(0.0, min(1.0, told.lower_bound / told.best)))  # the proof is done when both are equal
        if self._is_told or time.monotonic() - self._begun < self._seconds:
            return
        self._is_told = True
        best = "-" if told.best is None else f"{told.best:.4g}"
        words = say(
            "still searching: the best so far has {best}, none has less than {bound};"
            " --deadline-seconds ends the search with the best so far",
            best=best,
            bound=f"{max(0.0, told.lower_bound):.4g}",
        )
        click.echo(words, err=True)


def tell(done: PublishedKanon) -> None:
    """Print what was published and promised, and what only the steward may know."""
    click.echo(say("{rows} records published in {out}", rows=done.rows, out=done.out))
    click.echo(say("promise: {statement}", statement=done.certificate.guarantee["statement"][language()]))
    if done.wish is not None:
        click.echo(say("wish {number} of the request is granted", number=done.wish + 1))
    levels = done.certificate.measures.get("levels")
    if levels:
        click.echo(say("levels: {levels}", levels=", ".join(f"{name} {level}" for name, level in levels.items())))
    told = done.certificate
    unchanged = [one["name"] for one in told.schema["attributes"] if one["name"] not in told.guarantee["quasi"]]
    if unchanged:
        names = ", ".join(unchanged)
        click.echo(say("published as they are, for those who know them no protection: {names}", names=names))
    if done.is_optimal is False:
        click.echo(say("the search may have missed a better way: by at most {gap}", gap=f"{done.gap:.4g}"))
    _tell_risk(done)
    for warning in done.warnings:
        click.echo(say("warning: {warning}", warning=warning))
    if not done.certificate.private:
        click.echo(say("NOT PRIVATE: made with a seeded generator, for tests only."))


def _tell_risk(done: PublishedKanon) -> None:
    found = done.comparison
    click.echo(say("for the steward only, not for publication:"))
    rows = [
        (say("smallest class"), str(found.before.smallest), str(found.after.smallest)),
        (say("classes"), str(found.before.classes), str(found.after.classes)),
        (say("unique rows"), f"{found.before.uniques:.1%}", f"{found.after.uniques:.1%}"),
        (say("prosecutor risk"), f"{found.before.prosecutor:.3f}", f"{found.after.prosecutor:.3f}"),
        (say("marketer risk"), f"{found.before.marketer:.3f}", f"{found.after.marketer:.3f}"),
    ]
    table(rows, head=("", say("before"), say("after")))
    click.echo(say("rows left out: {rows}", rows=found.left_out))
    click.echo(say("loss: {loss}", loss=f"{found.total_loss:.4f}"))
    if found.costliest is not None:
        share = f"{found.loss[found.costliest]:.4f}"
        click.echo(say("most is lost in {name}: {share}", name=found.costliest, share=share))


@click.command("kanon", cls=Worded, help=say("Size of the search and what stays as it is, from the schema alone."))
@click.option("--schema", "schema_file", required=True, type=click.Path(path_type=Path), help=say("schema file"))
@click.option("--rows", type=int, help=say("roughly how many records the table has"))
@kanon_options
@json_option
def preview_kanon(schema_file: Path, rows: int | None, as_json: bool, **fields: Any) -> None:
    """Tell what is known before the data."""
    from sudare.schema import Schema

    method, _ = _split(fields)
    schema = Schema.read(schema_file)
    told = method.preview(schema, rows=rows)
    promise = method.guarantee(unit=schema.unit, quasi=told.quasi)
    if as_json:
        print_json({"guarantee": promise.to_dict(), **told.to_dict()})
        return
    click.echo(promise.describe())
    for line in told.lines():
        click.echo(line)


def _split(given: dict[str, Any]) -> tuple[KAnonymity, dict[str, Any]]:
    """The method from its own flags, and the flags that are left."""
    import dataclasses

    from sudare.methods.kanon import KAnonymity

    names = {field.name for field in dataclasses.fields(KAnonymity)}
    own = {name: value for name, value in given.items() if name in names}
    for name in ("quasi", "by"):
        if own[name] is not None:
            own[name] = tuple(part.strip() for part in own[name].split(","))
    return KAnonymity(**own), {name: value for name, value in given.items() if name not in names}
