"""`sudare demo`."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sudare.cli.interrupt import held_interrupts
from sudare.cli.words import Worded
from sudare.messages import render, say

if TYPE_CHECKING:
    from sudare.run.demo import Step


Tell = Callable[[str, float], None]


@contextlib.contextmanager
def _lines() -> Iterator[Tell]:
    """Print lines; on a terminal a bar stays below them, and moves to the share that each line comes with."""
    if not sys.stdout.isatty():
        yield lambda line, share: click.echo(line)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(highlight=False, markup=False), transient=True) as bars:
        task = bars.add_task(say("working"), total=1.0)

        def tell(line: str, share: float) -> None:
            bars.console.print(line, soft_wrap=True)
            bars.update(task, completed=share)

        yield tell


@contextlib.contextmanager
def _told_steps(steps: int, began: float) -> Iterator[Step]:
    """One line a step, with the seconds gone by."""
    with _lines() as tell:

        def say_step(text: str, /, *, step: int, **values: object) -> None:
            gone = time.monotonic() - began
            tell(f"{gone:5.1f} s  {step:2d}/{steps}  {render(text, values)}", (step - 1) / steps)

        yield say_step


@click.command(cls=Worded, help=say("Do the main job on built-in data: schema, ledger and all five kinds of release."))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("demo"),
    show_default=True,
    help=say("directory to make"),
)
def demo(out: Path) -> None:
    """Run the demo and tell what happened, step by step."""
    began = time.monotonic()
    with held_interrupts():
        from sudare.run.demo import STEPS, run_demo

    with _told_steps(STEPS, began) as say_step:
        page = run_demo(out, say_step=say_step)
    seconds = f"{time.monotonic() - began:.0f}"
    click.echo(say("five releases and their pages in {out}, made in {seconds} s", out=out, seconds=seconds))
    click.echo(say("The page is for the steward: one chapter shows the true tables, and is stamped."))
    click.echo(say("Next: open {page}", page=page))
