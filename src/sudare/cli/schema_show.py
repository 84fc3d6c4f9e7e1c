"""`sudare schema show`: what a schema declares, without opening any table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sudare.cli.interrupt import held_interrupts
from sudare.cli.terminal import json_option, print_json, table
from sudare.cli.words import Worded
from sudare.messages import say

if TYPE_CHECKING:
    from sudare.schema import Attribute, Schema


@click.command("show", cls=Worded, help=say("Show what SCHEMA declares: attributes, values, levels, who is protected."))
@click.argument("schema_file", type=click.Path(path_type=Path), metavar="SCHEMA")
@json_option
def show(schema_file: Path, as_json: bool) -> None:
    """Read the schema, which also checks it, and tell it."""
    with held_interrupts():
        from sudare.schema import Schema

    schema = Schema.read(schema_file)
    if as_json:
        print_json(schema.to_dict())
        return
    head = (say("attribute"), say("values"), say("order"), say("role"), say("levels above"), say("missing"))
    table([_row(one) for one in schema.attributes], head=head)
    for line in _lines(schema):
        click.echo(line)


def _row(attribute: Attribute) -> tuple[str, ...]:
    order = say("ordered") if attribute.is_ordered else say("unordered")
    missing = say("a category") if attribute.missing else say("refused")
    return (attribute.name, f"{attribute.size:,}", order, attribute.role, str(attribute.height), missing)


def _lines(schema: Schema) -> list[str]:
    lines = [say("protected: {unit}", unit=schema.unit.words())]
    if schema.identifiers:
        lines.append(say("never published: {names}", names=", ".join(schema.identifiers)))
    lines.append(say("cells of the complete table: {cells}", cells=f"{schema.size:,}"))
    if schema.impossible:
        lines.append(say("of these possible: {cells}", cells=f"{schema.possible_size:,}"))
    if schema.origin == "inferred":
        lines.append(
            say('read off the data and not confirmed: check it, then write inferred = "confirmed" under [sudare]')
        )
    return lines
