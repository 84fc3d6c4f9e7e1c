"""`sudare desk create|invite|offer|serve|work|verify`: where data users ask for tailor-made tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sudare.cli.app import LazyGroup
from sudare.cli.help import Worded, option
from sudare.errors import ParameterError
from sudare.text import say, text

if TYPE_CHECKING:
    from sudare.studio.desk.store import DeskStore

PATH = click.Path(path_type=Path)

desk = LazyGroup(
    "desk",
    help=text(
        "A desk over the network: data users ask for tailor-made tables and see a verdict while they type, stewards"
        " grant or refuse. The desk's process opens no table; the steward's worker does."
    ),
    places={
        "create": ("sudare.cli.desk:create", text("make the folder of a desk, and invite its first steward")),
        "invite": ("sudare.cli.desk:invite", text("invite a data user, a steward or an auditor")),
        "offer": ("sudare.cli.desk:offer", text("offer a table, by the store of its requests")),
        "serve": ("sudare.cli.desk:serve", text("serve the pages")),
        "work": ("sudare.cli.desk:work", text("do what needs the table: measure, grant, deliver (steward)")),
        "verify": ("sudare.cli.desk:verify", text("check the record of what was done")),
    },
)

folder_argument = click.argument("folder", type=PATH, metavar="FOLDER")


def _open(folder: Path) -> DeskStore:
    try:
        from sudare.studio.desk.store import DeskStore
    except ImportError as error:
        raise ParameterError(
            "the studio needs the package {package}; install it with: pip install 'sudare[studio]'",
            package=(error.name or "starlette").split(".")[0],
        ) from None
    return DeskStore(folder)


@click.command(cls=Worded, help=text("Make the folder of a desk. Prints an invitation for its first steward."))
@folder_argument
@option("--steward", required=True, metavar="NAME", help=text("name of the steward"))
@option(
    "--store",
    "address",
    metavar="ADDRESS",
    help=text("PostgreSQL database that keeps the rows: postgresql://USER@HOST/DATABASE (default: a file in FOLDER)"),
)
def create(folder: Path, steward: str, address: str | None) -> None:
    """Make it."""
    from sudare.studio.desk.accounts import invite as make_invitation
    from sudare.studio.desk.store import DeskStore

    store = DeskStore.create(folder, address=address)
    code = make_invitation(store, steward, "steward", actor="-")
    click.echo(say("invitation of {name}, for a week: {code} (enter it at /invited)", name=steward, code=code))


@click.command(cls=Worded, help=text("Invite somebody. Prints a code that works once, for a week."))
@folder_argument
@click.argument("name", metavar="NAME")
@option(
    "--role",
    type=click.Choice(["user", "steward", "auditor"]),
    default="user",
    show_default=True,
    help=text("what they may do"),
)
def invite(folder: Path, name: str, role: str) -> None:
    """Invite."""
    from sudare.studio.desk.accounts import invite as make_invitation

    code = make_invitation(_open(folder), name, role, actor="-")
    click.echo(say("invitation of {name}, for a week: {code} (enter it at /invited)", name=name, code=code))


@click.command(
    cls=Worded, help=text("Offer the table whose requests are kept in STORE; make that with `sudare request create`.")
)
@folder_argument
@click.argument("store_file", type=PATH, metavar="STORE")
@option("--about", default="", metavar="TEXT", help=text("a line about the table for data users"))
def offer(folder: Path, store_file: Path, about: str) -> None:
    """Offer it."""
    from sudare.requests import RequestStore

    requests = RequestStore.open(store_file)
    _open(folder).add_table(requests.schema.name, store_file, about)
    click.echo(say("{table} is on offer", table=requests.schema.name))


@click.command(cls=Worded, help=text("Serve the pages of the desk, on this computer or behind a proxy."))
@folder_argument
@option("--port", type=int, default=0, metavar="NUMBER", help=text("port to listen on (default: a free one)"))
@option(
    "--name",
    "names",
    multiple=True,
    metavar="TEXT",
    help=text("host name by which others reach the desk through the proxy; may be repeated"),
)
@option("--behind-proxy", is_flag=True, help=text("a proxy in front of the desk speaks TLS and tells the address"))
@option(
    "--listen",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help=text("address to listen on; another than the loopback only behind a proxy, as in a container"),
)
def serve(folder: Path, port: int, names: tuple[str, ...], behind_proxy: bool, listen: str) -> None:
    """Serve until Ctrl-C."""
    _open(folder)
    from sudare.studio.desk.server import serve_desk

    serve_desk(folder, port=port, names=names, behind_proxy=behind_proxy, listen=listen, tell=click.echo)


@click.command(
    cls=Worded, help=text("Do the work that stewards left at the desk for one table: only this process opens DATA.")
)
@folder_argument
@click.argument("data", metavar="DATA")
@option("--schema", "schema_file", required=True, type=PATH, help=text("schema file"))
@option("--history", "history_file", type=PATH, help=text("the steward's history"))
@option("--once", is_flag=True, help=text("do what waits, then end"))
def work(folder: Path, data: str, schema_file: Path, history_file: Path | None, once: bool) -> None:
    """Work until Ctrl-C, or until nothing waits."""
    from sudare.schema import Schema
    from sudare.studio.desk.work import StewardTable
    from sudare.studio.desk.work import work as do_work

    table = StewardTable(name=Schema.read(schema_file).name, data=data, schema_file=schema_file, history=history_file)
    for task in do_work(_open(folder), table, once=once):
        click.echo(say("{kind} for request {id}: see the queue", kind=task.kind, id=task.request))


@click.command(cls=Worded, help=text("Check the chain of the record of what was done at a desk."))
@folder_argument
def verify(folder: Path) -> None:
    """Follow the chain."""
    click.echo(say("the chain of {count} lines holds", count=_open(folder).verify()))
