"""Checks of what a method releases. Every name is the sentence that must hold."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sudare.counts import Counts
from sudare.errors import ReleaseError
from sudare.evaluate import counts_of
from sudare.mechanisms import SeededRng, system_rng
from sudare.privacy import Unrecorded
from sudare.releases import Certificate, Release
from sudare.schema import Schema
from sudare.testing.subject import Subject, require, with_fields
from sudare.testing.tables import Tabled, changed, even_table, first_cells, schema_of

# Primes of five digits: a count that turns up in a certificate did not get there by chance.
SENTINELS = (10_007, 10_009, 10_037, 10_039, 10_061)
PASSING = ("created", "payload", "ledger_head", "spends")  # differ between any two releases
FORMATS: tuple[Literal["parquet", "csv"], ...] = ("parquet", "csv")


def the_same_seed_gives_the_same_release(subject: Subject) -> None:
    """And another seed another one: all randomness comes from the generator that was handed in."""
    for relation in subject.relations:
        first, again, other = (
            _content(subject.publish(seed=seed, ledger=Unrecorded(neighbours=relation))) for seed in (1, 1, 2)
        )
        require(first == again, f"the same seed must give the same release ({relation})")
        require(first != other, f"another seed must give another release ({relation})")


def the_release_is_what_draw_draws(subject: Subject) -> None:
    """The table that audits look at is the one that is published."""
    for relation in subject.relations:
        table = even_table(subject.schema)
        release = subject.publish(table, ledger=Unrecorded(neighbours=relation))
        drawn = subject.method.draw(table, neighbours=relation, rng=SeededRng(1))
        if "records" in release.frames:
            require(counts_of(release) == drawn, f"publish must release the table that draw draws ({relation})")


def an_empty_table_is_published(subject: Subject) -> None:
    """Nobody in the table is a table like any other."""
    for relation in subject.relations:
        empty = Counts.build(subject.schema, first_cells(subject.schema)[:0], [])
        release = subject.publish(empty, ledger=Unrecorded(neighbours=relation))
        require(isinstance(release, Release), "an empty table must give a release")


def a_table_of_one_cell_is_published(subject: Subject) -> None:
    """So is a domain of a single cell."""
    for relation in subject.relations:
        one = Counts.build(schema_of(1), [0], [7])
        release = subject.publish(one, ledger=Unrecorded(neighbours=relation))
        require(isinstance(release, Release), "a table of one cell must give a release")


def the_certificate_holds_no_count_of_the_table(subject: Subject) -> None:
    """Neither a cell, nor (where it is private) the number of records, is found in any text of the release."""
    for relation in subject.relations:
        table = _marked(subject.schema)
        release = subject.publish(table, ledger=Unrecorded(neighbours=relation))
        secrets = {int(value) for value in table.values} | ({table.total} if relation == "add-remove" else set())
        for text in _texts(release):
            found = secrets & {int(number.replace(",", "")) for number in _NUMBER.findall(text)}
            require(not found, f"a true count of the table is written in the release ({relation})")


def the_certificate_is_the_same_for_every_table(subject: Subject) -> None:
    """It follows from parameters and schema: other data, the same words. Measures of what was drawn may differ."""
    for relation in subject.relations:
        move = (-1, 1) if relation == "replace" else (-1, -1)
        tables = (even_table(subject.schema), changed(even_table(subject.schema), *move), _marked(subject.schema))
        told = [_facts(subject.publish(table, ledger=Unrecorded(neighbours=relation))) for table in tables]
        require(told[0] == told[1] == told[2], f"the certificate depends on the data ({relation})")


def records_are_in_random_order(subject: Subject) -> None:
    """The place of a row tells nothing."""
    table = even_table(subject.schema)
    frame = subject.publish(table).frames.get("records")
    if frame is None or len(table.values) < 2:
        return
    rows = list(zip(*(column.tolist() for column in frame.decode().values()), strict=True))
    grouped = sum(first != second for first, second in itertools.pairwise(rows)) < 2 * len(set(rows))
    require(not grouped, "published records must be shuffled: their order shows how they were made")


def a_seeded_release_is_stamped_and_not_saved_by_accident(subject: Subject) -> None:
    """Repeatable noise protects nobody; the release says so and refuses to be saved unless told to."""
    release = subject.publish()
    require(not release.certificate.private, "a seeded release must be stamped as not private")
    with tempfile.TemporaryDirectory() as place:
        try:
            release.save(Path(place) / "out")
        except ReleaseError:
            require(not any(Path(place).iterdir()), "a refused save must leave nothing")
        else:
            raise AssertionError("a seeded release must not be saved unless even_if_not_private is given")
    private = subject.method.publish(Tabled(even_table(subject.schema)), rng=system_rng())
    require(private.certificate.private, "a release made with secret randomness must be stamped as private")
    default = subject.method.publish(Tabled(even_table(subject.schema)))
    require(default.certificate.private, "without a generator the secret one must be used")


def a_saved_release_loads_as_it_was(subject: Subject) -> None:
    """Tables and certificate survive the files."""
    release = subject.publish()
    for file_format in FORMATS:
        with tempfile.TemporaryDirectory() as place:
            saved = release.save(Path(place) / "out", file_format=file_format, even_if_not_private=True)
            loaded = Release.load(Path(place) / "out")
        as_text = file_format == "csv"  # which does not tell numbers from texts
        same = _tables(loaded, as_text=as_text) == _tables(release, as_text=as_text)
        require(same, f"the tables must survive {file_format}")
        require(loaded.certificate.to_json() == saved.to_json(), f"the certificate must survive {file_format}")


def the_certificate_is_read_strictly(subject: Subject) -> None:
    """It round-trips through JSON, and tells the parameters exactly."""
    paper = subject.publish().certificate
    require(Certificate.from_json(paper.to_json()).to_json() == paper.to_json(), "the certificate must survive JSON")
    require(paper.parameters.get("epsilon") == str(subject.epsilon), "the parameters must tell epsilon exactly")
    require(Schema.from_dict(paper.schema) == subject.schema, "the certificate must hold the schema")
    exact = with_fields(subject.method, epsilon="0.1").guarantee().to_dict()["epsilon"]
    require(exact == "1/10", 'epsilon "0.1" must mean 1/10')


_NUMBER = re.compile(r"(?<![0-9A-Za-z.])[0-9]+(?:,[0-9]{3})*(?![0-9A-Za-z])")


def _marked(schema: Schema) -> Counts:
    """A table whose counts are recognised wherever they turn up."""
    cells = first_cells(schema, most=len(SENTINELS))
    return Counts.build(schema, cells, np.array(SENTINELS[: len(cells)]))


def _texts(release: Release) -> Iterator[str]:
    yield repr(release) if "records" not in release.frames else ""  # the number of published records is public
    yield json.dumps(_without(json.loads(release.certificate.to_json()), ("created",)))
    yield from (dataclasses.replace(release.certificate, created="").words(lang) for lang in ("en", "ja"))


def _facts(release: Release) -> dict[str, Any]:
    told = json.loads(release.certificate.to_json())
    return {**_without(told, (*PASSING, "measures")), "purposes": [one["purpose"] for one in told["spends"]]}


def _content(release: Release) -> tuple[Any, Any]:
    return _tables(release), _without(json.loads(release.certificate.to_json()), PASSING)


def _tables(release: Release, *, as_text: bool = False) -> dict[str, dict[str, list[Any]]]:
    return {
        name: {
            column: [str(value) if as_text else value for value in values.tolist()]
            for column, values in frame.decode().items()
        }
        for name, frame in release.frames.items()
    }


def _without(told: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in told.items() if key not in keys}
