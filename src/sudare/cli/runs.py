"""`sudare demo` and `sudare run RECIPE`: several releases, told step by step."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sudare.cli.help import Worded, option
from sudare.cli.terminal import json_option, print_json, progress, table
from sudare.text import Text, say, text

if TYPE_CHECKING:
    from sudare.demo.demo import DemoStep
    from sudare.recipe.ledger import LedgerState
    from sudare.recipe.plan import RecipePlan

PrintLine = Callable[[str, float], None]


@contextlib.contextmanager
def _print_lines() -> Iterator[PrintLine]:
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
def _print_steps(steps: int, began: float) -> Iterator[DemoStep]:
    """Print one line a step, with the seconds gone by."""
    with _print_lines() as print_line:

        def tell(words: Text, /, *, step: int) -> None:
            gone = time.monotonic() - began
            print_line(f"{gone:5.1f} s  {step:2d}/{steps}  {words}", (step - 1) / steps)

        yield tell


@click.command(cls=Worded, help=text("Make a schema, a ledger and all five kinds of release from made-up data."))
@option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("demo"),
    show_default=True,
    help=text("directory to make"),
)
def demo(out: Path) -> None:
    """Run the demo and tell what happened, step by step."""
    began = time.monotonic()
    from sudare.demo.demo import STEPS, run_demo

    with _print_steps(STEPS, began) as tell:
        page = run_demo(out, tell=tell)
    seconds = f"{time.monotonic() - began:.0f}"
    click.echo(say("five releases and their pages are in {out}, made in {seconds} s", out=out, seconds=seconds))
    click.echo(say("The page is for the steward: the chapter that shows the true tables is stamped."))
    click.echo(say("Next: open {page}", page=page))
    click.echo(say("In the browser: sudare studio {out}", out=out))


# `sudare run RECIPE`.


@click.command(
    "run",
    cls=Worded,
    help=text(
        "Make all releases of RECIPE under one ledger. Everything is checked before the first spend; releases that"
        " are done are not made again."
    ),
)
@click.argument("recipe", type=click.Path(path_type=Path))
@option("--dry-run", is_flag=True, help=text("show the plan: promises, cost, errors, what is done; make nothing"))
@json_option
def run(recipe: Path, dry_run: bool, as_json: bool) -> None:
    """Plan, or run and tell step by step."""
    from sudare.recipe.plan import plan_recipe
    from sudare.recipe.run import describe_plan, run_recipe

    if dry_run:
        plan = plan_recipe(recipe)
        if as_json:
            print_json(describe_plan(plan))
        else:
            _print_plan(plan)
        return
    done = run_recipe(recipe, tell=_ignore if as_json else click.echo, working=partial(progress, say("counting")))
    if as_json:
        print_json(done.to_dict())
        return
    made, releases = len(done.published), len(done.plan.releases)
    click.echo(
        say(
            "releases in {out}: {every}; made now: {made}, made before: {before}",
            out=done.plan.recipe.out,
            every=releases,
            made=made,
            before=releases - made,
        )
    )
    if done.head is not None:
        click.echo(say("head of the ledger: {head} (keep it elsewhere too)", head=done.head))


def _ignore(line: Text) -> None:
    """Print nothing: a program reads the JSON at the end."""


def _print_plan(plan: RecipePlan) -> None:
    from sudare.recipe.run import describe_error

    for number, release in enumerate(plan.releases, start=1):
        state = say("to do") if release.done is None else say("done")
        click.echo(f"{number}. {release.spec.name}: {release.spec.publish} -> {release.out} ({state})")
        click.echo(f"   {release.plan.promise.describe()}")
        error = describe_error(release, plan.ledger)
        if error is not None:
            click.echo(f"   {error}")
    if plan.ledger is not None:
        _print_sum(plan, plan.ledger)
    for note in plan.notes():
        click.echo(say("note: {note}", note=note))


def _print_sum(plan: RecipePlan, ledger: LedgerState) -> None:
    from sudare.privacy import hide_password
    from sudare.privacy.exact import write_exact

    rows = [(release.spec.name, write_exact(release.cost)) for release in plan.to_do if release.is_paid]
    if rows:
        table(rows, head=(say("to do"), ledger.currency.name))
    values: dict[str, Any] = {
        "file": hide_password(ledger.file),
        "needed": write_exact(plan.needed),
        "left": write_exact(ledger.left),
        "budget": write_exact(ledger.budget),
    }
    if ledger.exists:
        click.echo(say("{file}: {needed} is needed, {left} of {budget} is left", **values))
    else:
        click.echo(say("{file}: {needed} is needed; the ledger is made with a budget of {budget}", **values))
