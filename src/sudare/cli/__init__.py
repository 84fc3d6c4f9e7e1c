"""The command line: argv -> run -> text. Heavy rooms are imported only by the command that needs them."""

from __future__ import annotations

import io
import os
import sys


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit code: 0 done, 1 refused, 2 usage.

    >>> main(["--version"])  # doctest: +ELLIPSIS
    sudare ...
    0
    """
    try:
        from sudare.cli.terminal import noted_interrupts

        with noted_interrupts() as noted:
            return _run(argv, noted)
    except KeyboardInterrupt:  # before the command line was ready
        return _refuse("interrupted", 1)


def _run(argv: list[str] | None, noted: list[int]) -> int:
    import click

    from sudare.cli.app import app
    from sudare.cli.help import usage_line
    from sudare.errors import SudareError
    from sudare.text import render, say

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show must not stop the work
    try:
        ended = app(args=argv, prog_name="sudare", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "", err=True)
        return 2
    except click.UsageError as error:
        return _refuse(usage_line(error), 2)
    except (KeyboardInterrupt, click.Abort):
        return _refuse(say("interrupted; nothing half-written was left, and what was spent stays recorded"), 1)
    except SudareError as error:
        return _refuse(render(error.text, error.values), 1)
    except _any_if(noted):  # what native code makes of an interrupt
        return _refuse(say("interrupted; nothing half-written was left, and what was spent stays recorded"), 1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except MemoryError:
        return _refuse(say("memory ran out; use fewer attributes, coarser bins or --memory-limit"), 1)
    except OSError as error:
        return _refuse(say("{file}: {reason}", file=error.filename or "sudare", reason=error.strerror or "?"), 1)
    except Exception as error:  # a traceback could show values of the table
        if os.environ.get("SUDARE_DEBUG"):
            raise
        return _refuse(_fault(error), 1)
    return ended if isinstance(ended, int) else 0  # what a command that exits early asks for


def _fault(error: Exception) -> str:
    from sudare.text import say

    return say(
        "a fault in Sudare itself ({kind}); please report it. SUDARE_DEBUG=1 shows where, and may show private values",
        kind=type(error).__name__,
    )


def _any_if(noted: list[int]) -> tuple[type[Exception], ...]:
    return (Exception,) if noted else ()


def _refuse(line: str, code: int) -> int:
    print(f"sudare: {line}", file=sys.stderr)  # noqa: T201
    return code
