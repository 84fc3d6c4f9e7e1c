"""Help pages in the reader's language: click's own words, said through the catalogue."""

from __future__ import annotations

import click

from sudare.messages import say


class Worded(click.Command):
    """A command whose usage line, section titles and --help are translated."""

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The usage line."""
        formatter.write_usage(ctx.command_path, " ".join(self.collect_usage_pieces(ctx)), prefix=say("Usage: "))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, one a line."""
        rows = [
            row for row in (parameter.get_help_record(ctx) for parameter in self.get_params(ctx)) if row is not None
        ]
        if rows:
            with formatter.section(say("Options")):
                formatter.write_dl(rows)

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """--help, with its text translated."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.help = say("show this help")
        return option
