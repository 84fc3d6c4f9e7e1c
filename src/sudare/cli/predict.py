"""`sudare predict`: is a tailor-made request feasible, from the history alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sudare.cli.help import Worded, option
from sudare.cli.terminal import json_option, print_json
from sudare.text import say, text

if TYPE_CHECKING:
    from sudare.methods.kanon.predict import Prediction


@click.command(
    "predict",
    cls=Worded,
    help=text("Tell from a history whether the options of REQUEST can be published at its k; the data is not opened."),
)
@click.argument("request_file", metavar="REQUEST", type=click.Path(path_type=Path))
@option("--schema", "schema_file", required=True, type=click.Path(path_type=Path), help=text("schema file"))
@option(
    "--history",
    "history_file",
    required=True,
    type=click.Path(path_type=Path),
    help=text("the steward's history"),
)
@option("--k", type=int, help=text("the k of the table (default: that of the request, as version 0.1 wrote it)"))
@option(
    "--max-suppressed",
    default="0",
    metavar="SHARE",
    help=text("share of the rows that may be left out, such as 0.05"),
)
@option(
    "--criteria",
    multiple=True,
    metavar="TEXT",
    help=text("criteria besides k, as publish kanon will be given them"),
)
@option("--rows", type=int, help=text("how many rows the table has by now, if it has grown since it was counted"))
@json_option
def predict(
    request_file: Path,
    schema_file: Path,
    history_file: Path,
    k: int | None,
    max_suppressed: str,
    criteria: tuple[str, ...],
    rows: int | None,
    as_json: bool,
) -> None:
    """Read request, schema and history, and answer."""
    from sudare.methods.kanon import KAnonymity
    from sudare.methods.kanon.history import pairs_beside, read_history
    from sudare.methods.kanon.pairs import PairCounts
    from sudare.methods.kanon.predict import predict as predict_request
    from sudare.methods.kanon.request import Request
    from sudare.schema import Schema

    schema = Schema.read(schema_file)
    request = Request.read(request_file, schema)
    k = request.require_k(k)
    method = KAnonymity(k=k, max_suppressed=max_suppressed, criteria=criteria)  # checks what it is given
    prediction = predict_request(
        request,
        schema,
        read_history(history_file),
        k=k,
        pairs=PairCounts.read(pairs_beside(history_file)),
        max_suppressed=method.share,
        criteria=method.criteria,
        rows=rows,
    )
    if as_json:
        print_json(prediction.to_dict())
        return
    _print_prediction(prediction)


def _print_prediction(prediction: Prediction) -> None:
    request = prediction.request
    click.echo(
        say(
            "request {name}: k = {k}; {points} measurements known",
            name=request.name or "-",
            k=prediction.k,
            points=prediction.measurement_count,
        )
    )
    for number, (answer, nearest) in enumerate(zip(prediction.answers, prediction.nearest, strict=True), 1):
        click.echo(say("option {number}: {groupings}", number=number, groupings=answer.describe_groupings()))
        click.echo(f"  {answer.describe()}")
        for near in nearest:
            groupings, words = near.describe_groupings(), near.describe()
            click.echo("  " + say("instead: {groupings}: {words}", groupings=groupings, words=words))
