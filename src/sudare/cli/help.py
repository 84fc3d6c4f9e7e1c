"""Help pages that fit their columns in both languages: wide letters take two, and Japanese breaks between letters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from sudare.text import Text, say, text

_CLOSING = "、。，．：；？！）」』】〕］｝ー々・"  # never first in a line
_OPENING = "（「『【〔［｛"  # never last in a line
_WIDE = "\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef"
_TURNING = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})  # of the direction of writing
_PIECE = re.compile(  # blanks, a note in brackets, a wide letter, a word; each with the punctuation around it
    rf"\s+|\[[^\]]*\]$|[{_OPENING}]*(?![{_OPENING}])[{_WIDE}][{_CLOSING}]*|[{_OPENING}]*[^\s{_WIDE}]+[{_CLOSING}]*|."
)


def width(text: str) -> int:
    """How many columns a text takes on a terminal.

    >>> width("表 A")
    4
    """
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def show_signs(words: str, *, lines: bool = False) -> str:
    r"""Write out signs that a terminal would obey: a value of a table must not clear or turn what a steward reads.

    These are control signs and those that turn the direction of writing; `lines` keeps the ends of lines.

    >>> show_signs(f"a{chr(27)}[2Jb") == r"a\x1b[2Jb", show_signs(f"two{chr(10)}lines") == r"two\nlines"
    (True, True)
    """
    is_plain = words.isascii() and words.isprintable()
    return words if is_plain else "".join(_show_sign(sign, lines=lines) for sign in words)


def _show_sign(sign: str, *, lines: bool) -> str:
    obeyed = unicodedata.category(sign) in ("Cc", "Zl", "Zp") or unicodedata.bidirectional(sign) in _TURNING
    is_kept = not obeyed or (lines and sign == "\n")
    return sign if is_kept else sign.encode("unicode_escape").decode("ascii")


def wrapped(text: str, columns: int) -> list[str]:
    """Break a text into lines of so many columns; punctuation stays with its word.

    >>> wrapped("表を、公開します。", 8)
    ['表を、公', '開しま', 'す。']
    """
    lines = [""]
    for piece in _PIECE.findall(text):
        if width(lines[-1] + piece.rstrip()) > columns and lines[-1]:
            lines.append("")
        lines[-1] += " " if piece.isspace() and lines[-1] else piece.lstrip()
    return [line.rstrip() for line in lines]


class WideFormatter(click.HelpFormatter):
    """Click's formatter, with lines broken by what they take on a terminal."""

    def write_text(self, text: str) -> None:
        """Paragraphs, with a blank line between them."""
        indent = " " * self.current_indent
        told = [wrapped(part, self.width - self.current_indent) for part in text.split("\n\n")]
        self.write("\n".join("".join(f"{indent}{line}\n" for line in lines) for lines in told))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Names on the left, what they mean on the right."""
        rows = list(rows)
        left = min(max(width(name) for name, _ in rows), col_max) + col_spacing
        indent = " " * self.current_indent
        for name, meaning in rows:
            lines = wrapped(meaning, max(self.width - left - self.current_indent, 10))
            if width(name) > left - col_spacing:
                self.write(f"{indent}{name}\n")
                name = ""
            for line in lines:
                self.write(f"{indent}{name}{' ' * (left - width(name))}{line}".rstrip() + "\n")
                name = ""


# Help pages in the language of whoever looks: texts are rendered when a page is shown, click's own words are replaced.


_ARGUMENTS = {  # what stands for a value on the usage line
    "DATA": text(
        "the table: a file (CSV, Parquet, Excel and others), a pattern such as 'part-*.csv', or a table on a server:"
        " 'postgresql://user@host/database?table=people' (or query=SELECT ...)"
    ),
    "SCHEMA": text("schema file"),
    "MAP": text("map file (TOML)"),
    "DIR": text("directory of a release"),
    "RELEASE": text("directory of a release"),
    "NAME": text("name of somebody at the desk"),
    "FOLDER": text("folder that holds tables, schemas, ledgers and releases"),
    "FILE": text("file of the ledger, or its address on a server: postgresql://user@host/database?ledger=people"),
    "SQL": text("a statement such as SELECT COUNT(*) FROM view WHERE age >= 20"),
    "REQUEST": text("file of the request (TOML)"),
    "STORE": text("file of the request store"),
    "ID": text("the id of the request, such as r1"),
    "REPORTS": text("file of the reports: CSV, or one JSON object per line"),
    "RECIPE": text("recipe file (TOML)"),
}
_USAGE = {"[OPTIONS]": text("[OPTIONS]"), "COMMAND [ARGS]...": text("COMMAND [ARGS]...")}
_VALUES = {  # what stands behind an option
    "TEXT": text("TEXT"),
    "PATH": text("PATH"),
    "FILE": text("FILE"),
    "DIRECTORY": text("DIRECTORY"),
    "INTEGER": text("INTEGER"),
    "FLOAT": text("FLOAT"),
    "NUMBER": text("NUMBER"),
    "COLUMN": text("COLUMN"),
    "NAMES": text("NAMES"),
    "SIZE": text("SIZE"),
    "DAY": text("DAY"),
}
Decorated = TypeVar("Decorated", bound=Callable[..., Any])
_LAST = ("--memory-limit", "--spill-directory", "--seed-for-tests", "--json", "--version", "--help")  # seldom needed


class Page(click.Context):
    """A context whose help pages fit their columns in both languages."""

    formatter_class = WideFormatter


class WordedOption(click.Option):
    """An option whose help is a text, rendered each time it is shown."""

    words: Text | str | None = None

    def __init__(
        self, names: list[str], *, help: Text | str | None = None, old_names: tuple[str, ...] = (), **settings: Any
    ) -> None:
        super().__init__([*names, *old_names], **settings)
        self.words = help
        self.old_names = old_names  # accepted, and not shown

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Give the row of the help, without names of the version before."""
        row = super().get_help_record(ctx)
        if row is None:
            return None
        names = row[0]
        for name in self.old_names:
            names = names.replace(f", {name}", "")
        return names, row[1]

    @property
    def help(self) -> str | None:
        """The help in the language of whoever looks."""
        return None if self.words is None else str(self.words)

    @help.setter
    def help(self, words: Text | str | None) -> None:
        self.words = words


def option(*names: str, help: Text, **settings: Any) -> Callable[[Decorated], Decorated]:
    """Add an option with a help text to a command: `click.option` for texts."""
    return click.option(*names, cls=WordedOption, help=help, **settings)


class Worded(click.Command):
    """A command whose help, usage line, section titles, options and --help are rendered when they are shown."""

    context_class = Page
    words: Text | str | None = None

    @property
    def help(self) -> str | None:
        """The help in the language of whoever looks."""
        return None if self.words is None else str(self.words)

    @help.setter
    def help(self, words: Text | str | None) -> None:
        self.words = words

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """What may follow the command."""
        return [str(_USAGE.get(piece, piece)) for piece in super().collect_usage_pieces(ctx)]

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The usage line."""
        formatter.write_usage(ctx.command_path, " ".join(self.collect_usage_pieces(ctx)), prefix=say("Usage: "))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The arguments and the options, one a line; first what is required, last what is seldom needed."""
        parameters = sorted(self.get_params(ctx), key=_rank)
        known = [(parameter, parameter.get_help_record(ctx)) for parameter in parameters]
        arguments = [_argument(one, ctx) for one, _ in known if isinstance(one, click.Argument)]
        options = [self._option(one, row, ctx) for one, row in known if isinstance(one, click.Option) and row]
        for title, rows in ((say("Arguments"), arguments), (say("Options"), options)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def _option(self, option: click.Option, row: tuple[str, str], ctx: click.Context) -> tuple[str, str]:
        """The row that click would show, with what it adds by itself translated."""
        flags, _, value = row[0].rpartition(" ")
        name = f"{flags} {_VALUES[value]}" if value in _VALUES else row[0]
        extra = option.get_help_extra(ctx)
        notes = [say("default: {default}", default=extra["default"])] if "default" in extra else []
        notes += [extra["range"]] if "range" in extra else []
        notes += [say("required")] if "required" in extra else []
        words = say("show this help") if option is self.get_help_option(ctx) else option.help
        meaning = [words or "", f"[{'; '.join(notes)}]" if notes else ""]
        return name, "  ".join(part for part in meaning if part)


def _rank(parameter: click.Parameter) -> int:
    name = parameter.opts[0]
    return 0 if parameter.required else 2 + _LAST.index(name) if name in _LAST else 1


def _argument(argument: click.Argument, ctx: click.Context) -> tuple[str, str]:
    name = argument.make_metavar(ctx)
    said = getattr(argument, "help", None)  # click 8.5 and later
    return name, str(said or _ARGUMENTS.get(name.strip("[]."), ""))


# What the command line says when it is called wrongly, in the reader's language.


_EXTRA = re.compile(r"unexpected extra arguments? \((.*)\)")


def usage_line(error: click.UsageError) -> str:
    """One line: what is wrong, and where the help is."""
    where = error.ctx.command_path if error.ctx is not None else "sudare"
    return say("{what}; see `{where} --help`", what=_what(error), where=where)


def _what(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchOption):
        return _unknown(error)
    if isinstance(error, click.BadOptionUsage):
        return say("{name} needs a value after it", name=error.option_name)
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return say("{name} is missing", name=_called(error.param))
    if isinstance(error, click.BadParameter) and error.param is not None:
        return say("{name} does not take that value ({reason})", name=_called(error.param), reason=_reason(error))
    extra = _EXTRA.search(error.message)
    if extra is not None:
        return say("{words} is not expected here; put quotes around a text with blanks", words=extra[1])
    return error.format_message().rstrip(".")


def _unknown(error: click.NoSuchOption) -> str:
    possibilities = error.possibilities or _name_long(error)
    if possibilities:
        near = ", ".join(possibilities)
        return say("there is no option {name} (did you mean {near}?)", name=error.option_name, near=near)
    return say("there is no option {name}", name=error.option_name)


def _name_long(error: click.NoSuchOption) -> list[str]:
    """The options that one dash and a letter may mean: -k is --k, and -epsilon is read as -e."""
    if error.ctx is None or error.option_name.startswith("--"):
        return []
    options = [name for parameter in error.ctx.command.params for name in parameter.opts if name.startswith("--")]
    begun = [name for name in options if name.startswith(f"-{error.option_name}")]
    return sorted(begun, key=len)[:3]


def _reason(error: click.BadParameter) -> str:
    """Why a value is refused; click's own words only where it has no type that says it."""
    kind = error.param.type if error.param is not None else None
    if isinstance(kind, click.Choice):
        return say("it must be one of {choices}", choices=", ".join(map(str, kind.choices)))
    if isinstance(kind, (click.IntRange, click.FloatRange)):
        return say("it must be a number in the range {range}", range=_ends(kind))
    if kind is click.INT:
        return say("it must be a whole number")
    if kind is click.FLOAT:
        return say("it must be a number")
    return error.message.rstrip(".")


def _ends(kind: click.IntRange | click.FloatRange) -> str:
    return f"{'' if kind.min is None else kind.min}..{'' if kind.max is None else kind.max}"


def _called(parameter: click.Parameter) -> str:
    if not isinstance(parameter, click.Option):
        return (parameter.name or "").upper()
    old_names = getattr(parameter, "old_names", ())
    return "/".join(name for name in parameter.opts if name not in old_names)
