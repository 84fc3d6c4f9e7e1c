"""What the command line says when it is called wrongly, in the reader's language."""

from __future__ import annotations

import click

from sudare.messages import say


def usage_line(error: click.UsageError) -> str:
    """One line: what is wrong, and where the help is."""
    where = error.ctx.command_path if error.ctx is not None else "sudare"
    return say("{what}; see `{where} --help`", what=_what(error), where=where)


def _what(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchOption):
        return say("there is no option {name}", name=error.option_name)
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return say("{name} is missing", name=_called(error.param))
    if isinstance(error, click.BadParameter) and error.param is not None:
        return say(
            "{name} does not take that value ({reason})",
            name=_called(error.param),
            reason=error.message.rstrip("."),
        )
    return error.format_message().rstrip(".")


def _called(parameter: click.Parameter) -> str:
    return "/".join(parameter.opts) if isinstance(parameter, click.Option) else (parameter.name or "").upper()
