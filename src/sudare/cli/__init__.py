"""The command line: argv -> run -> text. Heavy rooms are imported only by the command that needs them."""

from __future__ import annotations

import io
import os
import sys

TYPE_CHECKING = False  # see sudare/cli/interrupt.py: nothing is loaded here that Python has not loaded
if TYPE_CHECKING:
    from sudare.cli.interrupt import Interrupts


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit code: 0 done, 1 refused, 2 usage.

    >>> main(["--version"])  # doctest: +ELLIPSIS
    sudare ...
    0
    """
    is_told_to_end = [False]
    if argv is None:  # a process of ours: threads that wait by spinning double the CPU time of linear algebra or worse
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    interrupts: Interrupts | None = None
    try:
        from sudare.cli.interrupt import Interrupts

        with Interrupts(is_last=argv is None) as interrupts:
            if argv is None:
                _follow_at_exit(is_told_to_end)
            line, code = _run(argv, interrupts)
    except KeyboardInterrupt:
        line, code = _interrupted(), 1
    if line:
        print(f"sudare: {_make_readable(line)}", file=sys.stderr)  # noqa: T201
    if argv is None and code and interrupts is not None:
        is_told_to_end[0] = interrupts.is_told_to_end
    return code


def _follow_at_exit(is_told_to_end: list[bool]) -> None:
    """Have the last act at exit, behind what removes files, be the one that ends the process as it was told to."""
    import atexit

    atexit.register(_end_by_signal_if, is_told_to_end)


def _end_by_signal_if(is_told: list[bool]) -> None:
    """End as a process ends that was told to (SIGTERM): services and schedulers look at how it ended."""
    if is_told[0]:
        import signal

        sys.stdout.flush()
        sys.stderr.flush()
        signal.raise_signal(signal.SIGTERM)  # Interrupts gave it back to the system


LONGEST_LINE = 3000  # characters of a refusal; a longer one quotes something endless


def _make_readable(line: str) -> str:
    """Write out what would command a terminal, and shorten the middle: a name in a file can hold anything.

    >>> _make_readable("no table" + chr(27) + "[2J in it") == "no table" + chr(92) + "x1b[2J in it"
    True
    >>> len(_make_readable("a" * 10000))
    2003
    """
    from sudare.cli.help import show_signs

    if len(line) > LONGEST_LINE:
        line = f"{line[:1000]}...{line[-1000:]}"  # what is wrong stands before it, what to do after it
    return show_signs(line)


def _run(argv: list[str] | None, interrupts: Interrupts) -> tuple[str, int]:
    """Run a command; the last line to say, and the exit code."""
    import click

    from sudare.cli.app import app
    from sudare.cli.help import usage_line
    from sudare.errors import SudareError
    from sudare.text import describe_refusal, language_problems, say

    interrupts.last_line = "sudare: " + say("interrupted twice, so ended at once; temporary files may be left")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show must not stop the work
    for problem in language_problems():
        return str(problem), 1
    try:
        ended = app(args=argv, prog_name="sudare", standalone_mode=False)
    except (KeyboardInterrupt, click.Abort):
        return _interrupted(), 1
    except _any_if(interrupts):
        return _interrupted(), 1
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "", err=True)
        return "", 2
    except click.UsageError as error:
        return usage_line(error), 2
    except SudareError as error:
        return str(error), 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return "", 1
    except MemoryError:
        return say("memory ran out; use fewer attributes, coarser bins or --memory-limit"), 1
    except OSError as error:
        return say("{file}: {reason}", file=error.filename or "sudare", reason=describe_refusal(error)), 1
    except Exception as error:  # a traceback could show values of the table
        if os.environ.get("SUDARE_DEBUG"):
            raise
        return _fault(error), 1
    return "", ended if isinstance(ended, int) else 0  # what a command that exits early asks for


def _interrupted() -> str:
    from sudare.text import say

    return say("interrupted; no unfinished file was left, and what was spent stays recorded")


def _any_if(interrupts: Interrupts) -> tuple[type[Exception], ...]:
    """Any error, once an interrupt was noted: native code that is struck by one may raise an error of its own."""
    return (Exception,) if interrupts.noted else ()


def _fault(error: Exception) -> str:
    from sudare.text import say

    return say(
        "this is a fault in Sudare itself ({kind}); please report it. SUDARE_DEBUG=1 shows where it is, but may"
        " also show private values",
        kind=type(error).__name__,
    )
