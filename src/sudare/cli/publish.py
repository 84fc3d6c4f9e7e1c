"""`sudare publish METHOD` and `sudare preview METHOD`: one command for every method that is known here.

The options of a command are made of what the method declares: its parameters, the files it reads, and whether it is
made of a table or of a map. A list of methods imports none of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from sudare.cli.app import LazyGroup
from sudare.cli.help import Worded, WordedOption
from sudare.cli.terminal import LEDGER, json_parameter, print_json, print_lines, progress
from sudare.errors import ParameterError
from sudare.methods.registry import find_method, method_entries
from sudare.text import Text, say, text

if TYPE_CHECKING:
    from sudare.forms.kinds import Kind
    from sudare.methods.base import Method
    from sudare.methods.parameters import ExtraFile, Parameter
    from sudare.releases.parquet import Format

FILE = click.Path(path_type=Path)
TABLE_INPUTS = ("schema_file", "ledger_file", "count_column", "encoding", "memory_limit", "spill_directory",
                "into", "seed_for_tests")  # fmt: skip
MOST_DIGITS = 15  # of an estimate of the number of records


class MethodGroup(LazyGroup):
    """A group with one command a method, built from its class when it is asked for."""

    def __init__(self, name: str, *, help: Text, build: Callable[[type[Method]], click.Command]) -> None:
        super().__init__(name, places={}, help=help)
        self.build = build

    def describe_commands(self) -> Mapping[str, Text | str]:
        """Name every method with what it publishes, the built-in ones first."""
        return {name: entry.describe() for name, entry in method_entries().items()}

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one method and build its command."""
        return self.build(find_method(cmd_name)) if cmd_name in method_entries() else None


# --- options ----------------------------------------------------------------------------------------------------------


def parameter_options(method: type[Method]) -> list[click.Parameter]:
    """One option for every parameter of a method; old names are understood, and not shown."""
    return [option for about in method.parameters().values() for option in _parameter_options(about)]


def _parameter_options(about: Parameter) -> list[click.Parameter]:
    settings = _describe_value(about.value)
    shown = dict(settings)
    if about.default not in (None, False, ()):
        shown |= {"default": about.default, "show_default": True}
    if about.metavar is not None:
        shown["metavar"] = about.metavar
    old = [WordedOption(["--" + name.replace("_", "-"), name], hidden=True, **settings) for name in about.old_names]
    return [WordedOption([about.flag, about.name], required=about.required, help=about.help, **shown), *old]


def _describe_value(kind: Kind | None) -> dict[str, Any]:
    """Say how click reads a value; texts, names and exact numbers are read by the method."""
    from sudare.forms import kinds

    match kind:
        case kinds.ChoiceOf():
            return {"type": click.Choice(kind.choices)}
        case kinds.Flag():
            return {"is_flag": True}
        case kinds.NameList():  # one text with commas
            return {"metavar": "NAMES"}
        case kinds.TextList():
            return {"multiple": True}
        case kinds.WholeNumber():
            return {"type": click.INT}
        case kinds.Seconds():
            return {"type": click.FLOAT}
        case kinds.ExactNumber():
            return {"metavar": "NUMBER"}
        case _:
            return {}


def file_options(files: tuple[ExtraFile, ...]) -> list[click.Parameter]:
    """One option for every file that a method reads beside its input."""
    return [
        WordedOption(
            [file.flag or "--" + file.name.replace("_", "-"), file.name],
            type=click.STRING if file.content == "table" else FILE,
            metavar=file.metavar,
            help=file.help,
        )
        for file in files
    ]


def list_public_files(method: type[Method]) -> tuple[ExtraFile, ...]:
    """The files that a preview takes too: facts such as areas, neither a table of people nor the steward's notes."""
    return tuple(file for file in method.extra_files if file.content == "file")


def output_options() -> list[click.Parameter]:
    """Where the release goes, and as what."""
    return [
        WordedOption(["-o", "--out"], required=True, type=FILE, help=text("directory to make; it must not exist yet")),
        WordedOption(
            ["--format", "file_format"],
            type=click.Choice(["parquet", "csv"]),
            default="parquet",
            show_default=True,
            help=text("file format of the published tables"),
        ),
        WordedOption(
            ["--key", "key_file"],
            type=FILE,
            help=text("private key file that signs the release (default: that of SUDARE_KEY; see `sudare keys`)"),
        ),
    ]


def table_options() -> list[click.Parameter]:
    """The table that goes in, how it is read, and the ledger that pays for it."""
    return [
        click.Argument(["data"]),
        schema_option(),
        WordedOption(
            ["--ledger", "ledger_file"],
            type=LEDGER,
            help=text("ledger of this table, a file or postgresql://...; the spend is recorded there first"),
        ),
        WordedOption(
            ["--count", "count_column"],
            metavar="COLUMN",
            help=text("DATA is already aggregated; this column holds the counts"),
        ),
        WordedOption(["--encoding"], help=text("encoding of text files, such as cp932 (default: detected)")),
        WordedOption(["--memory-limit"], metavar="SIZE", help=text("upper limit of memory for counting, such as 4GB")),
        WordedOption(
            ["--spill-directory"],
            type=FILE,
            help=text(
                "directory for temporary files; they hold rows of the table, so use a disk you trust (default: beside"
                " the output)"
            ),
        ),
        WordedOption(
            ["--into"],
            metavar="ADDRESS",
            help=text(
                "also copy the published tables into a new table, in one transaction:"
                " postgresql://user@host/database?table=NAME"
            ),
        ),
        WordedOption(
            ["--seed-for-tests"],
            type=int,
            help=text("for tests only: repeatable noise; such a release protects nobody"),
        ),
    ]


def schema_option() -> click.Parameter:
    """The public facts of a table."""
    return WordedOption(["--schema", "schema_file"], required=True, type=FILE, help=text("schema file"))


def map_argument() -> click.Parameter:
    """The public facts of a method that takes a map."""
    return click.Argument(["map_file"], metavar="MAP", type=FILE)


def rows_options(method: type[Method]) -> list[click.Parameter]:
    """An estimate of the number of records, for previews that make use of one."""
    if method.preview_rows == "range":
        words = text("roughly how many records the table has, or a range such as 1000..100000")
        return [WordedOption(["--rows"], help=words)]
    if method.preview_rows == "number":
        return [WordedOption(["--rows"], type=int, help=text("roughly how many records the table has"))]
    return []


def read_estimates(rows: str | int | None) -> tuple[int, ...]:
    """Read `1000` or `1000..100000`; a range stands for its ends and the middle between them.

    >>> read_estimates("1000..100000")
    (1000, 10000, 100000)
    """
    if rows is None:
        return ()
    if isinstance(rows, int):
        return (rows,)
    ends = rows.split("..")
    if not all(end.strip().isdecimal() and len(end) <= MOST_DIGITS for end in ends) or len(ends) > 2:
        raise ParameterError("rows ({rows}) must be a number or a range such as 1000..100000", rows=rows)
    low, high = int(ends[0]), int(ends[-1])
    if low > high:
        raise ParameterError("rows ({rows}) must be a number or a range such as 1000..100000", rows=rows)
    return (low,) if len(ends) == 1 else (low, math.isqrt(low * high), high)


# --- commands ---------------------------------------------------------------------------------------------------------


def build_publish(method: type[Method]) -> click.Command:
    """Build `sudare publish METHOD`."""
    inputs = [map_argument()] if method.takes == "map" else table_options()
    params = [
        *inputs,
        *output_options(),
        *parameter_options(method),
        *file_options(method.extra_files),
        json_parameter(),
    ]
    command = Worded(method.name, params=params, callback=partial(run_publish, method))
    command.words = method.publish_help or method.summary
    return command


def build_preview(method: type[Method]) -> click.Command:
    """Build `sudare preview METHOD`."""
    facts = map_argument() if method.takes == "map" else schema_option()
    files = file_options(list_public_files(method))
    params = [facts, *rows_options(method), *parameter_options(method), *files, json_parameter()]
    command = Worded(method.name, params=params, callback=partial(run_preview, method))
    command.words = method.preview_help or method.summary
    return command


def run_publish(
    kind: type[Method], *, out: Path, file_format: Format, key_file: Path | None, as_json: bool, **given: Any
) -> None:
    """Make the method from its flags, publish, and tell what was done."""
    from sudare.app import publish as publish_release
    from sudare.cli.keys import open_key

    method = make_method(kind)
    extras = {file.name: given[file.name] for file in kind.extra_files if given[file.name] is not None}
    inputs = {name: given[name] for name in TABLE_INPUTS if name in given}
    data = given["map_file"] if kind.takes == "map" else given["data"]
    key = None if inputs.get("seed_for_tests") is not None else open_key(key_file)
    with progress(say("working")) as moved:
        published = publish_release(
            method, data, out=out, file_format=file_format, key=key, extras=extras, progress=moved, **inputs
        )
    if as_json:
        print_json(published.to_dict())
    else:
        print_lines(published.lines)


def print_note(note: Text) -> None:
    """Print a note on standard error."""
    click.echo(say("note: {note}", note=note), err=True)


def run_preview(kind: type[Method], *, as_json: bool, rows: str | int | None = None, **given: Any) -> None:
    """Make the method from its flags, and tell what a run would promise and cost."""
    from sudare.app import preview as preview_release

    method, facts_file = make_method(kind), given["map_file" if kind.takes == "map" else "schema_file"]
    extras = {file.name: given[file.name] for file in list_public_files(kind) if given[file.name] is not None}
    with progress(say("working")) as moved:
        previewed = preview_release(
            method, facts_file, rows=read_estimates(rows), extras=extras, progress=moved, announce=print_note
        )
    if as_json:
        print_json(previewed.to_dict())
    else:
        print_lines(previewed.lines)


def make_method(kind: type[Method]) -> Method:
    """Make a method from the flags that were given; an old name of a flag is noted on standard error."""
    from sudare.methods.parameters import use_new_names

    context = click.get_current_context()
    names = [name for about in kind.parameters().values() for name in (about.name, *about.old_names)]
    given = {
        name: context.params[name]
        for name in names
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    parameters, notes = use_new_names(kind, given)
    for note in notes:
        print_note(note)
    return kind(**parameters)


publish = MethodGroup(
    "publish",
    help=text(
        "Turn a private table into a release. The spend is recorded first, then noise is drawn, then files appear."
    ),
    build=build_publish,
)
preview = MethodGroup(
    "preview",
    help=text("Cost and expected error of a release, from the schema alone; nothing is opened or spent."),
    build=build_preview,
)
