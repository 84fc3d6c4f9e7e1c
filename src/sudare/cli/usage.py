"""What the command line says when it is called wrongly, in the reader's language."""

from __future__ import annotations

import re

import click

from sudare.messages import say

_EXTRA = re.compile(r"unexpected extra arguments? \((.*)\)")


def usage_line(error: click.UsageError) -> str:
    """One line: what is wrong, and where the help is."""
    where = error.ctx.command_path if error.ctx is not None else "sudare"
    return say("{what}; see `{where} --help`", what=_what(error), where=where)


def _what(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchOption):
        return _unknown(error)
    if isinstance(error, click.BadOptionUsage):
        return say("{name} needs a value behind it", name=error.option_name)
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return say("{name} is missing", name=_called(error.param))
    if isinstance(error, click.BadParameter) and error.param is not None:
        return say("{name} does not take that value ({reason})", name=_called(error.param), reason=_reason(error))
    extra = _EXTRA.search(error.message)
    if extra is not None:
        return say("{words} is too much; quote a text that holds blanks", words=extra[1])
    return error.format_message().rstrip(".")


def _unknown(error: click.NoSuchOption) -> str:
    if error.possibilities:
        near = ", ".join(error.possibilities)
        return say("there is no option {name} (did you mean {near}?)", name=error.option_name, near=near)
    return say("there is no option {name}", name=error.option_name)


def _reason(error: click.BadParameter) -> str:
    """Why a value is refused; click's own words only where it has no type that says it."""
    kind = error.param.type if error.param is not None else None
    if isinstance(kind, click.Choice):
        return say("it takes one of {choices}", choices=", ".join(map(str, kind.choices)))
    if isinstance(kind, (click.IntRange, click.FloatRange)):
        return say("it takes a number in the range {range}", range=_ends(kind))
    if kind is click.INT:
        return say("it takes a whole number")
    if kind is click.FLOAT:
        return say("it takes a number")
    return error.message.rstrip(".")


def _ends(kind: click.IntRange | click.FloatRange) -> str:
    return f"{'' if kind.min is None else kind.min}..{'' if kind.max is None else kind.max}"


def _called(parameter: click.Parameter) -> str:
    return "/".join(parameter.opts) if isinstance(parameter, click.Option) else (parameter.name or "").upper()
