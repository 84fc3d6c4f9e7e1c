"""`sudare choose SCHEMA`: a method and its parameters, from a few answers. No data is opened."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sudare.cli.help import Worded, option
from sudare.cli.terminal import json_option, print_json
from sudare.text import Text, say, text

if TYPE_CHECKING:
    from sudare.advise.answers import Advice, Answers
    from sudare.schema import Schema

NEEDS = ("records", "counts", "region-sums", "queries", "sample", "places")
YES_NO = click.Choice(["yes", "no"])


@click.command(
    "choose",
    cls=Worded,
    help=text(
        "Recommend a method and its parameters. SCHEMA is a schema file, or a map file if devices report places."
        " What the options leave open is asked on the terminal. No data is opened and nothing is spent."
    ),
)
@click.argument("schema_file", metavar="SCHEMA", type=click.Path(path_type=Path))
@option("--need", type=click.Choice(NEEDS), help=text("what people need"))
@option("--rows", type=int, help=text("roughly how many records the table has; it must be a public number"))
@option("--people-may-repeat", type=YES_NO, help=text("can a person have several rows?"))
@option("--truthful", type=YES_NO, help=text("must published rows be true rows, made coarser?"))
@option(
    "--collector",
    type=click.Choice(["trusted", "devices"]),
    help=text("an office holds the table, or devices report to somebody they do not trust"),
)
@option("--hide-number", type=YES_NO, help=text("must the number of records be protected too?"))
@option("--epsilons", help=text("values of epsilon to compare, separated by commas: 0.1,1"))
@option("--data", help=text("name of the data file to write into the commands; the file is not opened"))
@option("--recipe", "recipe_file", type=click.Path(path_type=Path), help=text("also write a recipe to start from"))
@json_option
def choose(schema_file: Path, data: str | None, recipe_file: Path | None, as_json: bool, **given: Any) -> None:
    """Ask what is open, decide, tell."""
    import sudare.schema.file  # noqa: F401  (read late, and a half-made model cannot be used)
    from sudare.advise.choose import decide, read_facts
    from sudare.advise.next_steps import FileNames, list_commands, write_recipe

    facts = read_facts(schema_file)
    answers = _collect_answers(facts, given, may_ask=_is_terminal() and not as_json)
    advice = decide(facts, schema_file, answers)
    names = FileNames.of(schema_file, advice.choice.publish, data)
    lines = list_commands(advice, answers, names)
    if recipe_file is not None:
        write_recipe(recipe_file, advice, answers, names)
    if as_json:
        print_json({**advice.to_dict(), "commands": lines})
        return
    print_advice(advice, lines)
    if recipe_file is not None:
        click.echo(say("{file} written: read it, then run `sudare run {file} --dry-run`", file=recipe_file))


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


# --- the questions ----------------------------------------------------------------------------------------------


def _collect_answers(facts: Schema | None, given: dict[str, Any], *, may_ask: bool) -> Answers:
    from sudare.advise.answers import Answers

    is_map = facts is None
    answers = dict(given)
    if is_map and answers["need"] is None:
        answers["need"] = "places"
    if answers["need"] is None and not may_ask:
        raise click.UsageError(
            say(
                "questions can be asked on a terminal only; tell what people need with --need ({needs}), and more"
                " with --rows, --truthful, --people-may-repeat, --collector and --hide-number",
                needs=", ".join(NEEDS),
            ),
            click.get_current_context(),
        )
    if may_ask and facts is not None:
        _ask_what_is_open(facts, answers)
    yes = {name: None if answers[name] is None else answers[name] == "yes"
           for name in ("people_may_repeat", "truthful", "hide_number")}  # fmt: skip
    return Answers(
        need=answers["need"],
        rows=answers["rows"],
        people_may_repeat=yes["people_may_repeat"],
        truthful=bool(yes["truthful"]),
        collector=answers["collector"] or "trusted",
        epsilons=None
        if answers["epsilons"] is None
        else tuple(epsilon.strip() for epsilon in answers["epsilons"].split(",")),
        hide_number=bool(yes["hide_number"]),
    )


def _ask_what_is_open(schema: Schema, answers: dict[str, Any]) -> None:
    """Ask for every answer that no flag gave."""
    if answers["need"] is None:
        answers["need"] = _ask_one_of(say("What do people need?"), _describe_needs())
    if answers["need"] == "places" or answers["collector"] == "devices":
        return
    if answers["truthful"] is None and answers["need"] == "records":
        answers["truthful"] = _ask_yes_no(say("Must the published rows be true rows, made coarser?"), "no")
    if answers["rows"] is None:
        answers["rows"] = _ask_rows(
            say("Roughly how many records does the table have? Give a number that may be public, or press Enter.")
        )
    if answers["people_may_repeat"] is None and schema.unit.kind == "row":
        answers["people_may_repeat"] = _ask_yes_no(say("Can a person have several rows?"), "no")
    if answers["hide_number"] is None and answers["truthful"] != "yes":
        answers["hide_number"] = _ask_yes_no(say("Must the number of records be protected too?"), "no")


def _describe_needs() -> dict[str, str]:
    return {
        "records": say("records with the same columns, to use with their own tools"),
        "counts": say("a table of counts, cell by cell"),
        "region-sums": say("sums over regions, age groups or other groups"),
        "queries": say("answers to counts that are not known in advance, in SQL"),
        "sample": say("as many synthetic records as they like"),
        "places": say("reports of places from devices; there is no table"),
    }


def _ask_one_of(question: str, options: dict[str, str]) -> str:
    click.echo(question)
    for number, (name, words) in enumerate(options.items(), start=1):
        click.echo(f"  {number}  {name}: {words}")
    known = [*options, *(str(number) for number in range(1, len(options) + 1))]
    answer = _read_answer(known, "")
    return [*options][int(answer) - 1] if answer.isdecimal() else answer


def _ask_yes_no(question: str, default: str) -> str:
    click.echo(question + " (yes/no) [" + default + "]")
    return {"y": "yes", "n": "no"}.get(answer := _read_answer(["yes", "no", "y", "n", ""], default), answer)


def _ask_rows(question: str) -> int | None:
    from sudare.advise.answers import MOST_ROWS

    click.echo(question)
    while True:
        answer = str(click.prompt(">", default="", show_default=False, prompt_suffix=" ")).replace(",", "").strip()
        if not answer:
            return None
        if answer.isdecimal() and len(answer) <= len(str(MOST_ROWS)) and 1 <= int(answer) <= MOST_ROWS:
            return int(answer)
        click.echo(say("type a whole number between 1 and {most}, or press Enter", most=f"{MOST_ROWS:,}"))


def _read_answer(known: list[str], default: str) -> str:
    while True:
        answer = str(click.prompt(">", default=default, show_default=False, prompt_suffix=" ")).strip().lower()
        if answer in known:
            return answer or default
        click.echo(say("type one of {known}", known=", ".join(word for word in known if word)))


# --- the advice -------------------------------------------------------------------------------------------------


def print_advice(advice: Advice, lines: list[str]) -> None:
    """Print the advice for people."""
    click.echo(say("recommended: {choice}", choice=advice.choice.words()))
    _print_list(say("why:"), advice.why)
    _print_list(say("what is lost:"), advice.lost)
    click.echo(
        say("expected error (standard deviation) for each {name}:", name=advice.name)
        if advice.name == "epsilon"
        else say("what to expect for each {name}:", name=advice.name)
    )
    for value, error in advice.expected:
        click.echo(f"  {value}: {error.words}")
    if advice.runner_up is not None:
        click.echo(say("second choice: {choice}", choice=advice.runner_up.words()))
        click.echo(f"  {advice.runner_up_if}")
    for warning in advice.warnings:
        click.echo(say("warning: {warning}", warning=warning))
    for note in advice.notes:
        click.echo(say("note: {note}", note=note))
    click.echo(say("run next:"))
    for line in lines:
        click.echo(f"  {line}")


def _print_list(title: str, lines: Iterable[Text]) -> None:
    click.echo(title)
    for line in lines:
        click.echo(f"  - {line}")
