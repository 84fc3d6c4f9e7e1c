"""`sudare run RECIPE`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sudare.cli.interrupt import held_interrupts
from sudare.cli.terminal import json_option, print_json, progress, table
from sudare.cli.words import Worded
from sudare.messages import language, render, say

if TYPE_CHECKING:
    from sudare.run.recipe_plan import Plan, Step


@click.command(
    "run",
    cls=Worded,
    help=say(
        "Make all releases of RECIPE under one ledger. Everything is checked before the first spend; what is done is"
        " not done again."
    ),
)
@click.argument("recipe", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help=say("show the plan: promises, cost, errors, what is done; make nothing"))
@json_option
def run(recipe: Path, dry_run: bool, as_json: bool) -> None:
    """Plan, or run and tell step by step."""
    with held_interrupts():
        import sudare.schema.file  # noqa: F401  (read late, and a half-made model cannot be used)
        from sudare.run.recipe import describe, run_recipe
        from sudare.run.recipe_plan import plan_recipe

    if dry_run:
        plan = plan_recipe(recipe)
        if as_json:
            print_json(describe(plan))
            return
        _tell_plan(plan)
        return
    done = run_recipe(recipe, say_step=_silent if as_json else _say_step, working=partial(progress, say("counting")))
    if as_json:
        print_json(done.to_dict())
        return
    made, every = len(done.published), len(done.plan.steps)
    click.echo(
        say(
            "releases in {out}: {every}; made now: {made}, made before: {before}",
            out=done.plan.recipe.out,
            every=every,
            made=made,
            before=every - made,
        )
    )
    if done.head is not None:
        click.echo(say("head of the ledger: {head} (keep it elsewhere too)", head=done.head))


def _say_step(text: str, /, **values: object) -> None:
    click.echo(render(text, values))


def _silent(text: str, /, **values: object) -> None:
    """Say nothing: a program reads the JSON at the end."""


def _tell_plan(plan: Plan) -> None:
    for number, step in enumerate(plan.steps, start=1):
        state = say("to do") if step.done is None else say("done")
        click.echo(f"{number}. {step.asked.name}: {step.asked.publish} -> {step.out} ({state})")
        click.echo(f"   {step.guarantee.to_dict()['statement'][language()]}")
        for line in _errors(step):
            click.echo(f"   {line}")
    _tell_sum(plan)
    for note in plan.notes():
        click.echo(say("note: {note}", note=note))


def _tell_sum(plan: Plan) -> None:
    purse = plan.purse
    if purse is None:
        return
    rows = [(step.asked.name, str(step.cost)) for step in plan.to_do if step.need is not None]
    if rows:
        table(rows, head=(say("to do"), "epsilon"))
    values: dict[str, Any] = {"file": purse.file, "needed": plan.needed, "left": purse.left, "budget": purse.budget}
    if purse.exists:
        click.echo(say("{file}: {needed} is needed, {left} of {budget} is left", **values))
    else:
        click.echo(say("{file}: {needed} is needed; the ledger is made with a budget of {budget}", **values))


def _errors(step: Step) -> list[str]:
    from sudare.run.choose_error import error_line

    told = error_line(step.method, step.schema, step.guarantee)
    return [] if told is None else [told]
