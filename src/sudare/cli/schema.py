"""`sudare schema show`: what a schema declares, without opening any table."""

from __future__ import annotations

import contextlib
import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sudare.atomic import check_new_file, replace_file
from sudare.cli.app import LazyGroup
from sudare.cli.help import Worded, option, show_signs
from sudare.cli.terminal import json_option, print_json, progress, table
from sudare.errors import SchemaError
from sudare.schema.propose import answer_question, find_questions
from sudare.text import say, text

if TYPE_CHECKING:
    from sudare.forms import FileForm
    from sudare.schema import Attribute, Schema
    from sudare.sources import Findings


@click.command(
    "show", cls=Worded, help=text("Show what SCHEMA declares: attributes, values, levels, who is protected.")
)
@click.argument("schema_file", type=click.Path(path_type=Path), metavar="SCHEMA")
@json_option
def show(schema_file: Path, as_json: bool) -> None:
    """Read the schema, which also checks it, and tell it."""
    schema = _read_schema(schema_file)
    if as_json:
        print_json(schema.to_dict())
        return
    head = (say("attribute"), say("values"), say("order"), say("role"), say("levels above"), say("missing"))
    table([_row(attribute) for attribute in schema.attributes], head=head)
    for line in _lines(schema):
        click.echo(show_signs(line))


def _row(attribute: Attribute) -> tuple[str, ...]:
    order = say("ordered") if attribute.is_ordered else say("unordered")
    missing = say("a category") if attribute.missing else say("refused")
    return (attribute.name, f"{attribute.size:,}", order, attribute.role, str(attribute.height), missing)


def _lines(schema: Schema) -> list[str]:
    lines = [say("protected: {unit}", unit=schema.unit.describe())]
    if schema.identifiers:
        lines.append(say("never published: {names}", names=", ".join(schema.identifiers)))
    lines.append(say("cells of the complete table: {cells}", cells=f"{schema.size:,}"))
    if schema.impossible:
        lines.append(say("of which possible: {cells}", cells=f"{schema.possible_size:,}"))
    if schema.origin == "inferred":
        lines.append(
            say(
                "inferred from the data and not confirmed: check it, then run `sudare schema confirm`, or write "
                'inferred = "confirmed" under [sudare]'
            )
        )
    return lines


# `sudare schema init|check|show|edit|confirm|example|json`.


schema = LazyGroup(
    "schema",
    help=text("A schema declares the public facts of a table: its attributes, their values, who is protected."),
    places={
        "init": ("sudare.cli.schema:init", text("propose a schema for a table, marked as inferred")),
        "check": ("sudare.cli.schema:check", text("list what in a table does not fit its schema")),
        "show": ("sudare.cli.schema:show", text("show what a schema declares")),
        "edit": ("sudare.cli.schema:edit", text("answer the open questions of a draft, one by one")),
        "confirm": ("sudare.cli.schema:confirm", text("confirm that every line of a draft was read and may be public")),
        "example": ("sudare.cli.schema:example", text("print an example of a file, with every key explained")),
        "json": ("sudare.cli.schema:json_schema", text("print the JSON schema of files, for editors")),
    },
)


@click.command(
    cls=Worded,
    help=text("Propose a schema for DATA. It is inferred from the data, so a person must confirm it."),
)
@click.argument("data")
@option("-o", "--out", type=click.Path(path_type=Path), help=text("file to write (default: standard output)"))
@option("--encoding", help=text("encoding of text files, such as cp932 (default: detected)"))
def init(data: str, out: Path | None, encoding: str | None) -> None:
    """Describe the columns and write the proposal."""
    from sudare.sources import name_table, propose_schema

    if out is not None:
        check_new_file(out, error=SchemaError)
    with progress(say("reading")) as moved:
        name = out.stem if out is not None else name_table(data.partition("#")[0])
        proposed = propose_schema(data, name=name, encoding=encoding, progress=moved)
    if out is None:
        click.echo(proposed.toml, nl=False)
        for file in proposed.files:
            click.echo(say("note: {file} holds a list of values; it is written only with --out", file=file), err=True)
        return
    proposed.save(out)
    click.echo(say("{file} written. Its values were inferred from the data: check each of them,", file=out))
    click.echo(say("then run `sudare schema confirm {file}`; until then it cannot be used to publish.", file=out))
    if questions := len(find_questions(proposed.toml)):
        click.echo(say("open questions: {count}; `sudare schema edit {file}` asks them", count=questions, file=out))


@click.command(
    cls=Worded,
    help=text("List everything in DATA that does not fit the schema, with counts. For the steward only."),
)
@click.argument("data")
@option("--schema", "schema_file", required=True, type=click.Path(path_type=Path), help=text("schema file"))
@option("--encoding", help=text("encoding of text files, such as cp932 (default: detected)"))
@option(
    "--count", "count_column", metavar="COLUMN", help=text("DATA is already aggregated; this column holds the counts")
)
@option("--no-examples", is_flag=True, help=text("show no values of the table"))
@json_option
def check(
    data: str, schema_file: Path, encoding: str | None, count_column: str | None, no_examples: bool, as_json: bool
) -> None:
    """Print the findings; exit 1 when something does not fit."""
    from sudare.sources import open as open_source

    declared = _read_schema(schema_file)
    with progress(say("checking")) as moved:
        source = open_source(data, declared, encoding=encoding, count_column=count_column, progress=moved)
        with contextlib.closing(source):
            findings = source.check()
    if no_examples:
        findings = findings.without_examples()
    if as_json:
        print_json(findings.to_dict())
    else:
        _tell(findings)
    if not findings.fits:
        raise click.exceptions.Exit(1)


def _tell(findings: Findings) -> None:
    if findings.problems:
        click.echo(say("NOT FOR PUBLICATION: counts and values of the table, for the steward only."))
        table(
            [
                (misfit.attribute, str(misfit.problem), str(misfit.rows), ", ".join(map(str, misfit.examples)))
                for misfit in findings.problems
            ],
            head=(say("attribute"), say("problem"), say("rows"), say("examples")),
        )
    for note in findings.notes:
        click.echo(str(note))
    click.echo(say("the table fits its schema") if findings.fits else say("the table does not fit its schema"))


FORMS = {  # where the declared form of each file stands; a recipe's depends on the methods there are
    "schema": "sudare.schema.file:FORM",
    "map": "sudare.methods.location.map_file:FORM",
    "recipe": "sudare.recipe.file:recipe_form",
    "request": "sudare.methods.kanon.request:FORM",
}
form_option = option(
    "--of",
    "form",
    type=click.Choice(tuple(FORMS)),
    default="schema",
    show_default=True,
    help=text("which file: the schema of a table, a map of places, a recipe of releases, a request for a table"),
)


def _read_schema(schema_file: Path) -> Schema:
    """Read a schema; of a file with several mistakes all are told, one a line."""
    from sudare.forms import find_mistakes
    from sudare.schema import Schema

    mistakes = find_mistakes(schema_file, _find_form("schema"))
    if len(mistakes) < 2:
        return Schema.read(schema_file)
    for mistake in mistakes:
        click.echo(f"sudare: {mistake.describe(schema_file)}", err=True)
    raise click.exceptions.Exit(1)


def _find_form(name: str) -> FileForm:
    module, _, attribute = FORMS[name].partition(":")
    form = getattr(importlib.import_module(module), attribute)
    return form() if callable(form) else form  # type: ignore[no-any-return]


@click.command("json", cls=Worded, help=text("Print the JSON schema of files, for editors."))
@form_option
def json_schema(form: str) -> None:
    """Print it."""
    from sudare.forms.describe import write_json_schema

    print_json(write_json_schema(_find_form(form)))


@click.command(cls=Worded, help=text("Print an example of a file, with every key explained, to be changed and kept."))
@form_option
def example(form: str) -> None:
    """Print it."""
    from sudare.forms.describe import write_example

    click.echo(write_example(_find_form(form)), nl=False)


@click.command(
    cls=Worded,
    help=text(
        "Confirm the draft SCHEMA: shows line by line what becomes public, asks once, then marks the file as confirmed."
    ),
)
@click.argument("schema_file", type=click.Path(path_type=Path), metavar="SCHEMA")
@option("--yes", "is_sure", is_flag=True, help=text("do not ask: every line was read"))
def confirm(schema_file: Path, is_sure: bool) -> None:
    """Show every claim of the draft, ask, and mark it."""
    from sudare.forms.textfile import read_text
    from sudare.schema import Schema
    from sudare.schema.propose import mark_confirmed
    from sudare.schema.schema import list_claims

    claims = list_claims(Schema.read(schema_file))
    marked = mark_confirmed(read_text(schema_file))
    click.echo(say("{file} declares as public, whatever the table holds:", file=schema_file))
    for claim in claims:
        click.echo(f"  {show_signs(str(claim))}")
    if not is_sure and not _ask_to_confirm(schema_file):
        raise SchemaError("{file} was not confirmed; nothing was changed", file=schema_file)
    replace_file(schema_file, marked, error=SchemaError)
    click.echo(say("{file} is confirmed.", file=schema_file))
    if questions := len(find_questions(marked)):
        click.echo(
            say("questions left open: {count}; the draft holds as it stands. `sudare schema edit {file}` asks them",
                count=questions, file=schema_file)
        )  # fmt: skip


def _ask_to_confirm(schema_file: Path) -> bool:
    """Ask whether every line was read; where nobody can answer, say how to confirm without a question."""
    try:
        return click.confirm(say("Was every line read, and may all of it be known?"), default=False)
    except (click.Abort, RuntimeError) as error:  # RuntimeError: there is no input at all
        if isinstance(error.__context__, KeyboardInterrupt):
            raise
        raise SchemaError(
            "{file} was not confirmed: nobody answered. Once every line was read, run it with --yes",
            file=schema_file,
        ) from None


@click.command(
    cls=Worded,
    help=text("Ask the open questions of the draft SCHEMA one by one, and write the answers into it."),
)
@click.argument("schema_file", type=click.Path(path_type=Path), metavar="SCHEMA")
def edit(schema_file: Path) -> None:
    """Ask, and write the file anew after every answer, so that none is lost; an empty answer is a no."""
    from sudare.forms.textfile import read_text
    from sudare.schema import Schema

    Schema.read(schema_file)
    toml, count = read_text(schema_file), 0
    while questions := find_questions(toml):
        question, count = questions[0], count + 1
        click.echo(say("question {number}, {left} left: {words}", number=count, left=len(questions) - 1,
                       words=question.words))  # fmt: skip
        for line in question.answer:
            click.echo(f"    {line}")
        answer = None
        if click.confirm(say("Yes writes these lines into the draft. Yes?"), default=False):
            answer = [_ask_number(line) for line in question.answer]
        toml = answer_question(toml, question, answer)
        replace_file(schema_file, toml, error=SchemaError)
        Schema.read(schema_file)
    click.echo(
        say("{file} has no open question; `sudare schema confirm {file}` shows what it declares", file=schema_file)
    )


def _ask_number(line: str) -> str:
    """Let the steward change a whole number that an answer writes."""
    key, _, value = line.partition(" = ")
    return f"{key} = {click.prompt(key, default=int(value), type=click.IntRange(min=1))}" if value.isdecimal() else line
