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

from sudare.compare import counts_of
from sudare.counts import Counts
from sudare.errors import ReleaseError
from sudare.methods.base import Payload
from sudare.noise import SeededRng
from sudare.privacy import Unrecorded
from sudare.releases import Certificate, Release
from sudare.schema import Schema
from sudare.testing.promise_checks import NO_TABLE, only_if, spends, takes_a_table
from sudare.testing.subject import (
    Subject,
    changed,
    even_table,
    first_cells,
    require,
    save_and_load,
    schema_of,
    with_fields,
)

# Primes of five digits: a count that turns up in a certificate did not get there by chance.
SENTINELS = (10_007, 10_009, 10_037, 10_039, 10_061)
PASSING = ("created", "payload", "ledger_head", "spends")  # differ between any two releases
FORMATS: tuple[Literal["parquet", "csv"], ...] = ("parquet", "csv")
NO_DRAW = "no noise is drawn"
TRUE_ROWS = "true rows are published, and what they hold is no secret"


# --- what is drawn ----------------------------------------------------------------------------------------------------


@only_if(spends, NO_DRAW)
def the_same_seed_gives_the_same_release(subject: Subject) -> None:
    """And another seed another one: all randomness comes from the generator that was handed in."""
    for relation in subject.relations:
        first, again, other = (
            _content(subject.publish(seed=seed, ledger=Unrecorded(neighbours=relation))) for seed in (1, 1, 2)
        )
        require(first == again, f"the same seed must give the same release ({relation})")
        require(first != other, f"another seed must give another release ({relation})")


@only_if(lambda subject: not spends(subject), "noise is drawn")
def without_noise_the_release_is_the_same_every_time(subject: Subject) -> None:
    """Rows may be in another order; nothing else differs, whatever generator was handed in."""
    first, second = (_sorted(subject.publish(seed=seed)) for seed in (1, 2))
    require(first == second, "without noise two releases of one table must hold the same rows")


@only_if(spends, NO_DRAW)
def the_release_is_what_draw_draws(subject: Subject) -> None:
    """What audits look at is what is published."""
    for relation in subject.relations:
        table = even_table(subject.schema)
        release = subject.publish(table, ledger=Unrecorded(neighbours=relation))
        drawn = subject.method.draw(table, neighbours=relation, rng=SeededRng(1))
        line = f"publish must release what draw draws ({relation})"
        if isinstance(drawn, Payload):
            require(_frames(drawn.frames) == _frames(release.frames), line)
        elif isinstance(drawn, Counts):
            frame = next(name for name in ("records", "cells") if name in release.frames)
            require(counts_of(release, frame=frame) == drawn, line)
        else:  # numbers that a release is fitted to: those of two equal runs are equal
            again = subject.method.draw(table, neighbours=relation, rng=SeededRng(1))
            seen = [subject.method.observe(each, table) for each in (drawn, again)]
            require(seen[0] == seen[1], line)


@only_if(spends, "k rows of nobody cannot be published")
@only_if(takes_a_table, NO_TABLE)
def an_empty_table_is_published(subject: Subject) -> None:
    """Nobody in the table is a table like any other."""
    for relation in subject.relations:
        empty = Counts.build(subject.schema, first_cells(subject.schema)[:0], [])
        release = subject.publish(empty, ledger=Unrecorded(neighbours=relation))
        require(isinstance(release, Release), "an empty table must give a release")


@only_if(spends, "a single cell has nothing to generalise")
@only_if(takes_a_table, NO_TABLE)
def a_table_of_one_cell_is_published(subject: Subject) -> None:
    """So is a domain of a single cell."""
    for relation in subject.relations:
        single = Counts.build(schema_of(1), [0], [7])
        release = subject.publish(single, ledger=Unrecorded(neighbours=relation))
        require(isinstance(release, Release), "a table of one cell must give a release")


# --- what must not be told --------------------------------------------------------------------------------------------


@only_if(spends, TRUE_ROWS)
@only_if(takes_a_table, NO_TABLE)
def the_certificate_holds_no_count_of_the_table(subject: Subject) -> None:
    """Neither a cell, nor (where it is private) the number of records, is found in any text of the release."""
    for relation in subject.relations:
        table = _marked(subject.schema)
        release = subject.publish(table, ledger=Unrecorded(neighbours=relation))
        secrets = {int(value) for value in table.values} | ({table.total} if relation == "add-remove" else set())
        for words in _texts(release):
            found = secrets & {int(number.replace(",", "")) for number in _NUMBER.findall(words)}
            require(not found, f"a true count of the table is written in the release ({relation})")


@only_if(spends, "levels and losses are told, which depend on the table")
@only_if(takes_a_table, NO_TABLE)
def the_certificate_is_the_same_for_every_table(subject: Subject) -> None:
    """It follows from parameters and schema: other data, the same words. Measures of what was drawn may differ."""
    for relation in subject.relations:
        move = (-1, 1) if relation == "replace" else (-1, -1)
        tables = (even_table(subject.schema), changed(even_table(subject.schema), *move), _marked(subject.schema))
        told = [_facts(subject.publish(table, ledger=Unrecorded(neighbours=relation))) for table in tables]
        require(told[0] == told[1] == told[2], f"the certificate depends on the data ({relation})")


@only_if(lambda subject: "records" in subject.publish().frames, "no records are published")
def records_are_in_random_order(subject: Subject) -> None:
    """The place of a row tells nothing."""
    table = even_table(subject.schema)
    frame = subject.publish(table).frames["records"]
    rows = list(zip(*(column.tolist() for column in frame.decode().values()), strict=True))
    if len(set(rows)) < 2:
        return
    grouped = sum(first != second for first, second in itertools.pairwise(rows)) < 2 * len(set(rows))
    require(not grouped, "published records must be shuffled: their order shows how they were made")


# --- what is saved ----------------------------------------------------------------------------------------------------


@only_if(takes_a_table, "nothing is drawn for a map: each device draws with its own randomness")
def a_seeded_release_is_stamped_and_not_saved_by_accident(subject: Subject) -> None:
    """Repeatable noise protects nobody; the release says so and refuses to be saved unless told to."""
    with subject.publishing() as release, tempfile.TemporaryDirectory() as place:
        require(not release.certificate.private, "a seeded release must be stamped as not private")
        try:
            release.save(Path(place) / "out")
        except ReleaseError:
            require(not any(Path(place).iterdir()), "a refused save must leave nothing")
        else:
            raise AssertionError("a seeded release must not be saved unless even_if_not_private is given")
    with subject.publishing(seed=None) as private:
        require(private.certificate.private, "a release made with secret randomness must be stamped as private")
    with subject.source() as source:
        default = subject.method.publish(source)
        require(default.certificate.private, "without a generator the secret one must be used")


def a_saved_release_loads_as_it_was(subject: Subject) -> None:
    """Tables and certificate survive the files."""
    for file_format in FORMATS:
        with subject.publishing() as release, tempfile.TemporaryDirectory() as place:
            saved = release.save(Path(place) / "out", file_format=file_format, even_if_not_private=True)
            loaded = Release.load(Path(place) / "out")
        as_text = file_format == "csv"  # which does not tell numbers from texts
        same = not release.frames or _frames(loaded.frames, as_text=as_text) == _frames(release.frames, as_text=as_text)
        require(same, f"the tables must survive {file_format}")
        require(loaded.certificate.to_json() == saved.to_json(), f"the certificate must survive {file_format}")


def a_stored_release_tells_no_time(subject: Subject) -> None:
    """How long the private step took depends on the table: certificates and files tell days."""
    with subject.publishing() as release, tempfile.TemporaryDirectory() as place:
        certificate = release.save(Path(place) / "out", even_if_not_private=True)
        moments = {file.stat().st_mtime % 86_400 for file in (Path(place) / "out").iterdir()}
    told = [certificate.created, *(str(spend.get("time", "")) for spend in certificate.spends)]
    require(all(len(day) <= len("2026-11-17") for day in told), "a certificate must tell days, not times")
    require(moments == {0.0}, "files must have the beginning of a day as their time of change")


def what_a_stored_release_says_is_worked_out_again(subject: Subject) -> None:
    """`sudare verify` finds nothing wrong with it, and promise and files do not rest on belief."""
    from sudare.verify.checks import verify_release

    with subject.publishing(seed=None) as release, tempfile.TemporaryDirectory() as place:
        release.save(Path(place) / "out")
        claims = verify_release(Path(place) / "out")
    failed = [f"{claim.name}: {claim.detail}" for claim in claims if not claim.passed]
    require(not failed, f"a release must verify ({'; '.join(failed)})")
    recomputed = {claim.name.template for claim in claims if claim.basis == "recomputed"}
    require({"files", "promise"} <= recomputed, "files and promise must be worked out again")


def the_certificate_is_read_strictly(subject: Subject) -> None:
    """It round-trips through JSON, and tells method, parameters and facts exactly."""
    certificate = subject.publish().certificate
    again = Certificate.from_json(certificate.to_json())
    require(again.to_json() == certificate.to_json(), "the certificate must survive JSON")
    require(certificate.method == subject.method.name, "the certificate must name the method")
    if not spends(subject):
        return
    name = subject.currency.name
    told = [certificate.parameters.get(name), certificate.guarantee.get(name)]
    require(str(subject.amount) in told, f"the certificate must tell {name} exactly")
    require(Schema.from_dict(certificate.schema) == subject.schema, "the certificate must hold the schema")
    if getattr(subject.method, name, None) is not None:  # else it follows from epsilon at a delta
        exact = with_fields(subject.method, **{name: "0.1"}).guarantee().to_dict()[name]
        require(exact == "1/10", f'{name} "0.1" must mean 1/10')


def a_finished_release_is_recognised(subject: Subject) -> None:
    """A recipe that is run again finds that it is done, and that one with another seed is not the same."""
    with tempfile.TemporaryDirectory() as place, subject.publishing() as release:
        out = Path(place) / "out"
        certificate = release.save(out, even_if_not_private=True)
        plan = subject.method.plan(subject.facts)
        found = subject.method.differences(dataclasses.replace(certificate, private=True), plan, place=out)
        require(not found, f"a release must not differ from its own plan ({', '.join(map(str, found))})")
        other = dataclasses.replace(certificate, method="another")
        require(bool(subject.method.differences(other, plan, place=out)), "another method must be seen to differ")


def the_page_of_a_release_is_written(subject: Subject) -> None:
    """In both languages, from what is stored, with the promise in words."""
    from sudare.app import render_report
    from sudare.text import use_language

    with tempfile.TemporaryDirectory() as place, subject.publishing() as release:
        release.save(Path(place) / "out", even_if_not_private=True)
        loaded = Release.load(Path(place) / "out")
        pages = {}
        for language in ("en", "ja"):
            with use_language(language):
                pages[language] = render_report(loaded, Path(place) / "out")
    require(all("<html" in page for page in pages.values()), "the page must be HTML")
    require(pages["en"] != pages["ja"], "the page must be in the language of the reader")


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
    return {**_without(told, (*PASSING, "measures")), "purposes": [spend["purpose"] for spend in told["spends"]]}


def _content(release: Release) -> tuple[Any, Any]:
    return _frames(release.frames), _without(json.loads(release.certificate.to_json()), PASSING)


def _sorted(release: Release) -> Any:
    loaded = save_and_load(release) if release.frames and not release.certificate.payload else release
    rows = {name: sorted(map(str, zip(*table.values(), strict=True))) for name, table in _frames(loaded.frames).items()}
    return rows, _without(json.loads(loaded.certificate.to_json()), (*PASSING, "private"))


def _frames(frames: Any, *, as_text: bool = False) -> dict[str, dict[str, list[Any]]]:
    return {
        name: {
            column: [_plain(value, as_text) for value in values.tolist()] for column, values in frame.decode().items()
        }
        for name, frame in frames.items()
    }


def _plain(value: Any, as_text: bool) -> Any:
    if isinstance(value, float) and not as_text:
        return "nan" if value != value else value
    return str(value) if as_text else value


def _without(told: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in told.items() if key not in keys}
