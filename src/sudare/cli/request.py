"""`sudare request create|measure|propose|draft|ask|list|show|answer|grant|refuse|deliver|withdraw`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sudare.cli.app import LazyGroup
from sudare.cli.help import Worded, option
from sudare.cli.terminal import json_option, print_json, print_lines, table
from sudare.text import say, text

if TYPE_CHECKING:
    from sudare.requests import RequestAnswer, RequestStore, StoredRequest
    from sudare.sources.table import TableSource

PATH = click.Path(path_type=Path)
STATES = ("draft", "asked", "answered", "granted", "refused", "delivered", "withdrawn")

request = LazyGroup(
    "request",
    help=text(
        "Requests of data users for tailor-made k-anonymous tables, from draft to delivery. A store keeps the requests"
        " of one table with its public schema and policy; nothing in it is ever changed, and no value of the table is"
        " in it."
    ),
    places={
        "create": ("sudare.cli.request:create", text("make a store for the requests of one table (steward)")),
        "measure": ("sudare.cli.request:measure", text("measure groupings for the verdict file (steward)")),
        "propose": ("sudare.cli.request:propose", text("name the measurements that decide most requests (steward)")),
        "draft": ("sudare.cli.request:draft", text("write a request down and get the verdict at once (data user)")),
        "ask": ("sudare.cli.request:ask", text("send a draft to the steward (data user)")),
        "list": ("sudare.cli.request:list_requests", text("list requests and their states")),
        "show": ("sudare.cli.request:show", text("show a request, its answer and what became of it")),
        "answer": ("sudare.cli.request:answer", text("answer a request (steward)")),
        "grant": ("sudare.cli.request:grant", text("grant a request, measured on the table (steward)")),
        "refuse": ("sudare.cli.request:refuse", text("refuse a request with a reason (steward)")),
        "deliver": ("sudare.cli.request:deliver", text("publish a granted request (steward)")),
        "withdraw": ("sudare.cli.request:withdraw", text("take a request back")),
    },
)

store_argument = click.argument("store_file", metavar="STORE", type=PATH)
id_argument = click.argument("request_id", metavar="ID")
data_argument = click.argument("data", metavar="DATA")
user_option = option("--user", required=True, metavar="NAME", help=text("name of the data user"))
steward_option = option("--steward", required=True, metavar="NAME", help=text("name of the steward"))
reason_option = option("--reason", default="", metavar="TEXT", help=text("the reason, which the data user reads"))
history_option = option("--history", "history_file", type=PATH, help=text("the steward's history"))
version_option = option(
    "--version-seen", type=int, metavar="INTEGER", help=text("refuse if the request has changed since this version")
)
output_option = option(
    "-o", "--output", type=PATH, help=text("write the answer for the data user to a new file: .html, .md or .json")
)


@click.command(
    cls=Worded,
    help=text("Make a store for the requests of one table. Schema and policy are public, and cannot be changed later."),
)
@store_argument
@option("--schema", "schema_file", required=True, type=PATH, help=text("schema file"))
@option("--k", required=True, type=int, help=text("at least so many people share every published combination"))
@option(
    "--max-suppressed", default="0", metavar="SHARE", help=text("share of the rows that may be left out, such as 0.05")
)
@option("--criteria", multiple=True, metavar="TEXT", help=text("criteria besides k, such as l=3,COLUMN"))
@option("--joint-k", type=int, help=text("all releases of the table together leave so many people alike"))
def create(
    store_file: Path, schema_file: Path, k: int, max_suppressed: str, criteria: tuple[str, ...], joint_k: int | None
) -> None:
    """Make the store and print its policy."""
    from fractions import Fraction

    from sudare.privacy.exact import exact
    from sudare.requests import RequestStore, TablePolicy
    from sudare.schema import Schema

    share = exact(max_suppressed, name="max_suppressed", low=Fraction(0), high=Fraction(1))
    policy = TablePolicy(k=k, max_suppressed=share, criteria=criteria, joint_k=joint_k)
    made = RequestStore.create(store_file, Schema.read(schema_file), policy)
    click.echo(say("{file}: requests for {table}", file=store_file, table=made.schema.name))
    click.echo(say("The rule of this table: {policy}", policy=policy.describe()))


@click.command(
    cls=Worded,
    help=text(
        "Measure public groupings and those of open requests on DATA, and write the verdict file beside the store. Each"
        " is one bit that data users may learn; how many bits there are is told."
    ),
)
@store_argument
@data_argument
@history_option
@option("--proposed", is_flag=True, help=text("measure only what `sudare request propose` names"))
def measure(store_file: Path, data: str, history_file: Path | None, proposed: bool) -> None:
    """Measure, and say what the file tells."""
    from sudare.requests.desk import measure_options, measure_table, propose_next

    store = _open(store_file)
    with _open_table(store, data) as source:
        if proposed:
            wanted = [each for each, _ in propose_next(store)]
            file = measure_options(store, source, wanted, history=history_file)
        else:
            file = measure_table(store, source, history=history_file)
    click.echo(str(file.describe_bits()))


@click.command(
    cls=Worded,
    help=text("Name the groupings whose measurement would decide most of the open requests; no data is opened."),
)
@store_argument
@json_option
def propose(store_file: Path, as_json: bool) -> None:
    """List proposals."""
    from sudare.methods.kanon.grouping_words import describe_option
    from sudare.requests.desk import propose_next

    proposals = propose_next(_open(store_file))
    if as_json:
        print_json(
            [
                {"groupings": {name: one.to_value() for name, one in wanted.items()}, "decides": count}
                for wanted, count in proposals
            ]
        )
        return
    if not proposals:
        click.echo(say("every open request has a verdict that is certain; nothing needs to be measured"))
    for wanted, count in proposals:
        click.echo(say("{groupings}: decides at least {count} options", groupings=describe_option(wanted), count=count))


@click.command(
    cls=Worded,
    help=text("Write REQUEST down as a draft and answer it at once, from public facts; the table is not opened."),
)
@store_argument
@click.argument("request_file", metavar="REQUEST", type=PATH)
@user_option
@option("--purpose", default="", metavar="TEXT", help=text("what the table is wanted for"))
@option("--replace", "replaces", metavar="ID", help=text("change this request instead of making a new one"))
@output_option
@json_option
def draft(
    store_file: Path,
    request_file: Path,
    user: str,
    purpose: str,
    replaces: str | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Draft, and print the answer."""
    from sudare.methods.kanon.request import Request
    from sudare.requests.desk import draft_request

    store = _open(store_file)
    wanted = Request.read(request_file, store.schema)
    _check_output(output)
    stored, told = draft_request(store, wanted, user=user, purpose=purpose, replaces=replaces)
    _write_answer(told, output)
    if as_json:
        print_json({**stored.to_dict(), "answer": told.to_value()})
        return
    click.echo(say("request {id} is {state}", id=stored.id, state=_name_state(stored)))
    click.echo(told.to_markdown().rstrip())


@click.command(cls=Worded, help=text("Send a draft to the steward."))
@store_argument
@id_argument
@user_option
@reason_option
@version_option
def ask(store_file: Path, request_id: str, user: str, reason: str, version_seen: int | None) -> None:
    """Ask."""
    from sudare.requests.desk import ask_request

    _print_state(ask_request(_open(store_file), request_id, user=user, reason=reason, version=version_seen))


@click.command("list", cls=Worded, help=text("List requests and their states."))
@store_argument
@option("--user", metavar="NAME", help=text("only those of this data user"))
@option("--state", type=click.Choice(STATES), help=text("only those in this state"))
@json_option
def list_requests(store_file: Path, user: str | None, state: Any, as_json: bool) -> None:
    """List."""
    found = _open(store_file).list_requests(user=user, state=state)
    if as_json:
        print_json([stored.to_dict() for stored in found])
        return
    rows = [
        (stored.id, _name_state(stored), stored.events[-1].day, stored.user, stored.request.name or "-")
        for stored in found
    ]
    table(rows, head=(text("id"), text("state"), text("since"), text("data user"), text("request")))


@click.command(
    cls=Worded,
    help=text(
        "Show a request, its answer from the verdict file, and its history; with --history the steward's figures too."
    ),
)
@store_argument
@id_argument
@history_option
@output_option
@json_option
def show(store_file: Path, request_id: str, history_file: Path | None, output: Path | None, as_json: bool) -> None:
    """Show."""
    from sudare.requests import answer_request
    from sudare.requests.desk import predict_stored, read_verdicts

    store = _open(store_file)
    stored = store.find(request_id)
    told = answer_request(read_verdicts(store), stored.request)
    figures = None if history_file is None else predict_stored(store, stored, history_file)
    _write_answer(told, output)
    if as_json:
        facts = {**stored.to_dict(), "answer": told.to_value()}
        print_json(facts if figures is None else {**facts, "steward": figures.to_dict()})
        return
    for event in stored.events:
        details = "; ".join(str(part) for part in (stored.describe_event(event), event.reason) if part)
        click.echo(
            say(
                "{day}: {state} by {actor}{reason}",
                day=event.day,
                state=_name_state_of(event.state),
                actor=event.actor,
                reason=f" ({details})" if details else "",
            )
        )
    click.echo(told.to_markdown().rstrip())
    if figures is not None:
        print_lines(figures.lines[1:])


@click.command(
    cls=Worded,
    help=text("Answer a request: the data user gets words, the steward sees the figures that the history predicts."),
)
@store_argument
@id_argument
@steward_option
@history_option
@reason_option
@version_option
@output_option
@json_option
def answer(
    store_file: Path,
    request_id: str,
    steward: str,
    history_file: Path | None,
    reason: str,
    version_seen: int | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Answer."""
    from sudare.requests.desk import answer_stored

    store = _open(store_file)
    _check_output(output)
    told = answer_stored(store, request_id, steward=steward, reason=reason, history=history_file, version=version_seen)
    _write_answer(told.outside, output)
    if as_json:
        print_json(told.to_dict())
        return
    print_lines(told.lines)


@click.command(
    cls=Worded,
    help=text(
        "Grant the first option of a request that keeps the policy, measured on DATA. What all releases and grants tell"
        " together is computed first, and a grant below the bound of joint k is refused with what would do."
    ),
)
@store_argument
@id_argument
@data_argument
@steward_option
@history_option
@reason_option
@version_option
def grant(
    store_file: Path,
    request_id: str,
    data: str,
    steward: str,
    history_file: Path | None,
    reason: str,
    version_seen: int | None,
) -> None:
    """Grant."""
    from sudare.requests.desk import grant_request

    store = _open(store_file)
    with _open_table(store, data) as source:
        granted = grant_request(
            store, request_id, source, steward=steward, reason=reason, history=history_file, version=version_seen
        )
    print_lines(granted.lines)


@click.command(cls=Worded, help=text("Refuse a request. The reason is needed, and must hold no count of people."))
@store_argument
@id_argument
@steward_option
@option("--reason", required=True, metavar="TEXT", help=text("the reason, which the data user reads"))
@version_option
def refuse(store_file: Path, request_id: str, steward: str, reason: str, version_seen: int | None) -> None:
    """Refuse."""
    from sudare.requests.desk import refuse_request

    store = _open(store_file)
    _print_state(refuse_request(store, request_id, steward=steward, reason=reason, version=version_seen))


@click.command(
    cls=Worded,
    help=text(
        "Publish a granted request and write its certificate down. If a run was killed after the release was written,"
        " the next one with the same --out finishes it."
    ),
)
@store_argument
@id_argument
@data_argument
@option("--schema", "schema_file", required=True, type=PATH, help=text("schema file"))
@option("--out", required=True, type=PATH, help=text("directory of the release; it must not exist yet"))
@steward_option
@history_option
@reason_option
@option("--format", "file_format", type=click.Choice(["parquet", "csv"]), default="parquet", help=text("file format"))
def deliver(
    store_file: Path,
    request_id: str,
    data: str,
    schema_file: Path,
    out: Path,
    steward: str,
    history_file: Path | None,
    reason: str,
    file_format: Any,
) -> None:
    """Deliver."""
    from sudare.requests.desk import deliver_request

    delivered = deliver_request(
        _open(store_file),
        request_id,
        data,
        out=out,
        steward=steward,
        schema_file=schema_file,
        reason=reason,
        history=history_file,
        file_format=file_format,
    )
    if delivered.published is not None:
        print_lines(delivered.published.lines)
    _print_state(delivered.stored)


@click.command(cls=Worded, help=text("Take a request back, as its data user or, after delivery, as the steward."))
@store_argument
@id_argument
@option("--user", metavar="NAME", help=text("name of the data user"))
@option("--steward", metavar="NAME", help=text("name of the steward"))
@reason_option
@version_option
def withdraw(
    store_file: Path, request_id: str, user: str | None, steward: str | None, reason: str, version_seen: int | None
) -> None:
    """Withdraw."""
    from sudare.requests.desk import withdraw_request

    if (user is None) == (steward is None):
        raise click.UsageError(say("say who withdraws the request: --user or --steward"))
    role = "user" if user is not None else "steward"
    _print_state(
        withdraw_request(
            _open(store_file), request_id, actor=user or steward or "", role=role, reason=reason, version=version_seen
        )
    )


def _open(store_file: Path) -> RequestStore:
    from sudare.requests import RequestStore

    return RequestStore.open(store_file)


@contextlib.contextmanager
def _open_table(store: RequestStore, data: str) -> Iterator[TableSource]:
    from sudare.sources import open as open_source

    with contextlib.closing(open_source(data, store.schema, same_rows=True)) as source:
        yield source


def _print_state(stored: StoredRequest) -> None:
    click.echo(say("request {id} is {state}", id=stored.id, state=_name_state(stored)))


def _name_state(stored: StoredRequest) -> str:
    return _name_state_of(stored.state)


def _name_state_of(state: Any) -> str:
    from sudare.requests.store import describe_state

    return str(describe_state(state))


def _check_output(output: Path | None) -> None:
    """Refuse a file that cannot be written before anything is stored."""
    from sudare.errors import RequestError

    if output is not None and output.suffix not in (".html", ".md", ".json"):
        raise click.UsageError(say("the answer is written as .html, .md or .json; name such a file"))
    if output is not None and output.exists():
        raise RequestError("{target} exists; choose another file or remove it", target=output)


def _write_answer(told: RequestAnswer, output: Path | None) -> None:
    """Write the answer for the data user as its file name asks for."""
    import json

    from sudare.atomic import write_new_file
    from sudare.errors import RequestError

    _check_output(output)
    if output is None:
        return
    if output.suffix == ".json":
        content = json.dumps(told.to_value(), ensure_ascii=False, indent=2) + "\n"
    else:
        content = told.to_page() if output.suffix == ".html" else told.to_markdown()
    write_new_file(output, content, error=RequestError)
