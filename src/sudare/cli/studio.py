"""`sudare studio [FOLDER]`: the steward's workbench in a browser, on this computer alone."""

from __future__ import annotations

from pathlib import Path

import click

from sudare.cli.help import Worded, option
from sudare.errors import ParameterError
from sudare.text import text


@click.command(
    cls=Worded,
    help=text(
        "Open the studio on FOLDER (default: this one): choose a table, confirm its schema, publish, ask. It runs on"
        " this computer only, and nothing is uploaded."
    ),
)
@click.argument("folder", type=click.Path(path_type=Path), default=Path("."), metavar="[FOLDER]")
@option("--port", type=int, default=0, metavar="NUMBER", help=text("port to listen on (default: a free one)"))
@option("--no-browser", is_flag=True, help=text("open no browser; print an address that works once instead"))
def studio(folder: Path, port: int, no_browser: bool) -> None:
    """Serve until Ctrl-C."""
    try:
        from sudare.studio.server import serve
    except ImportError as error:
        raise ParameterError(
            "the studio needs the package {package}; install it with: pip install 'sudare[studio]'",
            package=(error.name or "starlette").split(".")[0],
        ) from None
    serve(folder, port=port, open_browser=not no_browser, tell=click.echo)
