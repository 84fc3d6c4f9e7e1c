"""Help pages in the reader's language: click's own words, said through the catalogue."""

from __future__ import annotations

import click

from sudare.cli.columns import Columns
from sudare.messages import say

_ARGUMENTS = {  # what stands for a value on the usage line
    "DATA": say("the table: a CSV, TSV, text or Parquet file, also .gz, or a pattern such as 'part-*.csv'"),
    "SCHEMA": say("schema file"),
    "MAP": say("map file (TOML)"),
    "DIR": say("directory of a release"),
    "FILE": say("file of the ledger"),
    "SQL": say("a statement such as SELECT COUNT(*) FROM view WHERE age >= 20"),
    "REQUEST": say("file of the request (TOML)"),
    "REPORTS": say("file of the reports: CSV, or one JSON object a line"),
    "RECIPE": say("recipe file (TOML)"),
}
_USAGE = {"[OPTIONS]": say("[OPTIONS]"), "COMMAND [ARGS]...": say("COMMAND [ARGS]...")}
_VALUES = {  # what stands behind an option
    "TEXT": say("TEXT"),
    "PATH": say("PATH"),
    "FILE": say("FILE"),
    "DIRECTORY": say("DIRECTORY"),
    "INTEGER": say("INTEGER"),
    "FLOAT": say("FLOAT"),
    "NUMBER": say("NUMBER"),
    "COLUMN": say("COLUMN"),
    "NAMES": say("NAMES"),
    "SIZE": say("SIZE"),
    "DAY": say("DAY"),
}
_LAST = ("--memory-limit", "--spill-directory", "--seed-for-tests", "--json", "--version", "--help")  # seldom needed


class Page(click.Context):
    """A context whose help pages fit their columns in both languages."""

    formatter_class = Columns


class Worded(click.Command):
    """A command whose usage line, section titles, options and --help are translated."""

    context_class = Page

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """What may follow the command."""
        return [_USAGE.get(piece, piece) for piece in super().collect_usage_pieces(ctx)]

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The usage line."""
        formatter.write_usage(ctx.command_path, " ".join(self.collect_usage_pieces(ctx)), prefix=say("Usage: "))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The arguments and the options, one a line; first what is required, last what is seldom needed."""
        parameters = sorted(self.get_params(ctx), key=_rank)
        known = [(parameter, parameter.get_help_record(ctx)) for parameter in parameters]
        arguments = [_argument(one, ctx) for one, _ in known if isinstance(one, click.Argument)]
        options = [_option(one, row, ctx) for one, row in known if isinstance(one, click.Option) and row is not None]
        for title, rows in ((say("Arguments"), arguments), (say("Options"), options)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """--help, with its text translated."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.help = say("show this help")
        return option


def _rank(parameter: click.Parameter) -> int:
    name = parameter.opts[0]
    return 0 if parameter.required else 2 + _LAST.index(name) if name in _LAST else 1


def _argument(argument: click.Argument, ctx: click.Context) -> tuple[str, str]:
    name = argument.make_metavar(ctx)
    said = getattr(argument, "help", None)  # click 8.5 and later
    return name, said or _ARGUMENTS.get(name.strip("[]."), "")


def _option(option: click.Option, row: tuple[str, str], ctx: click.Context) -> tuple[str, str]:
    """The row that click would show, with what it adds by itself translated."""
    flags, _, value = row[0].rpartition(" ")
    name = f"{flags} {_VALUES[value]}" if value in _VALUES else row[0]
    extra = option.get_help_extra(ctx)
    notes = [say("default: {default}", default=extra["default"])] if "default" in extra else []
    notes += [extra["range"]] if "range" in extra else []
    notes += [say("required")] if "required" in extra else []
    meaning = [option.help or "", f"[{'; '.join(notes)}]" if notes else ""]
    return name, "  ".join(part for part in meaning if part)
