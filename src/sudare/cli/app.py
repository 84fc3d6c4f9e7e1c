"""The tree of commands, known by name before any of them is imported."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import click

from sudare.cli.help import Worded, WordedOption
from sudare.text import Text, say, text


class LazyGroup(Worded, click.Group):
    """A group that imports a command only when it is run; `--help` needs none of them."""

    def __init__(self, name: str, *, places: Mapping[str, tuple[str, Text | str]], help: Text | str) -> None:
        super().__init__(name, no_args_is_help=True)
        self.words = help
        self.places = places

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order a steward meets them."""
        return list(self.describe_commands())

    def describe_commands(self) -> Mapping[str, Text | str]:
        """Name every command with what it does, without importing it."""
        return {name: words for name, (_, words) in self.places.items()}

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in self.places:
            return None
        module, attribute = self.places[cmd_name][0].split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the commands that exist when one is not known."""
        known = self.describe_commands()
        if args and args[0] not in known and not args[0].startswith("-"):
            raise click.UsageError(
                say("there is no command {name}; the commands are {known}", name=args[0], known=", ".join(known)), ctx
            )
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options, then commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line a command, without importing it."""
        with formatter.section(say("Commands")):
            formatter.write_dl([(name, str(words)) for name, words in self.describe_commands().items()])


def _version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"sudare {version('sudare')}")
        ctx.exit()


app = LazyGroup(
    "sudare",
    help=text(
        "Publish what a table says about people without showing the people.\n\n"
        "Begin with `sudare demo`; with a table of your own, with `sudare schema init` and `sudare choose`."
    ),
    places={
        "demo": ("sudare.cli.runs:demo", text("all five kinds of release on made-up data, in under a minute")),
        "schema": ("sudare.cli.schema:schema", text("propose, check and describe schema files")),
        "choose": ("sudare.cli.choose:choose", text("recommend a method and its parameters, with reasons")),
        "preview": ("sudare.cli.publish:preview", text("cost and expected error, before anything is spent")),
        "publish": ("sudare.cli.publish:publish", text("turn a private table into a release")),
        "run": ("sudare.cli.runs:run", text("several releases from a recipe, under one ledger")),
        "predict": (
            "sudare.cli.predict:predict",
            text("tell from a history whether a tailor-made request can be met"),
        ),
        "risk": ("sudare.cli.risk:risk", text("which columns of a table identify persons, for the steward")),
        "lattice": (
            "sudare.cli.lattice:lattice",
            text("the ways to generalise a table, what each level costs, for the steward"),
        ),
        "utility": (
            "sudare.cli.lattice:utility",
            text("how well a column is predicted from a release and from its table, for the steward"),
        ),
        "request": (
            "sudare.cli.request:request",
            text("requests of data users for tailor-made tables, from draft to delivery"),
        ),
        "locate": ("sudare.cli.locate:locate", text("draw reports of places, and estimate from them")),
        "query": ("sudare.cli.ask:query", text("ask a view in SQL, each answer with an interval")),
        "sample": ("sudare.cli.ask:sample", text("draw records from a view")),
        "report": ("sudare.cli.ask:report", text("one page about a release, with pictures")),
        "export": ("sudare.cli.export:export", text("a copy of a release for Excel, with its certificate")),
        "ledger": ("sudare.cli.ledger:ledger", text("keep the privacy budget of a table")),
        "keys": ("sudare.cli.keys:keys", text("make a key, and sign releases with it")),
        "verify": ("sudare.cli.ask:verify", text("check a stored release, or the noise of this installation")),
        "desk": ("sudare.cli.desk:desk", text("data users ask for tailor-made tables, over the network")),
        "studio": ("sudare.cli.studio:studio", text("all of it in a browser, on this computer")),
    },
)
app.params.append(
    WordedOption(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_version,
        help=text("show the version"),
    )
)
