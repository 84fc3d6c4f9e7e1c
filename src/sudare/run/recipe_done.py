"""Is a release that is there the one that the recipe asks for? Its certificate tells."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from sudare.errors import ReleaseError
from sudare.messages import say
from sudare.methods.kanon import KAnonymity
from sudare.methods.location import Location
from sudare.methods.location.artefact import load_artefact
from sudare.releases import Certificate
from sudare.releases.release import verify_files
from sudare.schema import Schema


def finished(
    place: Path, *, kind: str, method: Any, schema: Schema | None, guarantee: Any, is_request: bool = False
) -> Certificate | None:
    """Give the certificate of a finished release, or None if there is none; another release is refused.

    Every file is checked against the certificate. Of a request, which wish was granted is left open.
    """
    if not place.exists() and not place.is_symlink():
        return None
    paper = verify_files(place)
    promise = {**_plain(guarantee.to_dict()), **({"quasi": paper.guarantee.get("quasi")} if is_request else {})}
    differences = [*_differences(paper, kind, method, schema, promise)]
    if isinstance(method, KAnonymity) and schema is not None and not is_request and not differences:
        differences = [*_other_columns(paper, method, schema)]
    if isinstance(method, Location) and not differences:
        differences = [*_other_map(place, method)]
    if differences:
        raise ReleaseError(
            "{place} holds another release than the recipe asks for ({differences}); give the release another name, or"
            " move the directory away if it was never published; what it spent stays spent",
            place=place,
            differences="; ".join(differences),
        )
    return paper


def _differences(
    paper: Certificate, kind: str, method: Any, schema: Schema | None, promise: Mapping[str, Any]
) -> Iterator[str]:
    if paper.method != kind:
        yield _differs("publish", paper.method, kind)
        return
    if not paper.private:
        yield say("it was made with a seed, for tests")
    for name, asked in _asked(method).items():
        found = paper.parameters.get(name)
        if found != asked:
            yield _differs(name, found or "-", asked or "-")
    yield from _of_promise(paper.guarantee, promise)
    if schema is not None and paper.schema != _expected_schema(paper, method, schema):
        yield say("the schema is another one")


def _asked(method: Any) -> dict[str, str | None]:
    """The parameters as a certificate writes them; those that the method decides by itself are left out."""
    open_ones = {"epsilon", "neighbours"}  # compared with the promise
    if isinstance(method, KAnonymity):
        open_ones |= {"criteria", "k", "max_suppressed", "quasi", "by", "others", "deadline_seconds"}
        open_ones |= set() if method.recoding == "mondrian" else {"mondrian"}
    if isinstance(method, Location):
        open_ones |= {"grid", "weights", "prior", "epsilon_per_metre"}
        open_ones |= {name for name in ("slack",) if method.slack is None}
        open_ones |= set() if method.mode == "fair" else {"extra_distance"}
    if getattr(method, "method", None) == "auto":
        open_ones |= {"method"}
    return {one.name: _text(getattr(method, one.name)) for one in fields(method) if one.name not in open_ones}


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else None if value is None else str(value)


def _of_promise(found: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys((*asked, *found)):
        if name != "statement" and found.get(name) != asked.get(name):
            yield _differs(name, _brief(found.get(name)), _brief(asked.get(name)))


def _expected_schema(paper: Certificate, method: Any, schema: Schema) -> dict[str, Any] | None:
    """The facts that the certificate should show: the published attributes, and for kanon at their levels."""
    published = [one.get("name") for one in paper.schema.get("attributes", [])]
    chosen = list(schema.names if method.by is None else method.by)
    if isinstance(method, KAnonymity):
        if not set(published) <= set(chosen):
            return None
        levels = paper.measures.get("levels") or {}
        facts = schema.select(published).coarsen(levels).to_dict()
    else:
        facts = (schema if method.by is None else schema.select(chosen)).to_dict()
    return dict(_plain(facts))


def _other_columns(paper: Certificate, method: KAnonymity, schema: Schema) -> Iterator[str]:
    found, asked = (one["name"] for one in paper.schema["attributes"]), method.by or schema.names
    told, wanted = ",".join(found), ",".join(asked)
    if told != wanted:
        yield _differs("by", told, wanted)


def _other_map(place: Path, method: Location) -> Iterator[str]:
    found, asked = load_artefact(place).mechanism, method.grid
    is_same = _plain(found.places.to_dict()) == _plain(asked.to_dict())
    reportable = None if method.weights is None else method.weights > 0
    can_be = found.weights > 0
    if not is_same or not (can_be.all() if reportable is None else (can_be == reportable).all()):
        yield say("the map is another one")


def _differs(name: str, found: str, asked: str) -> str:
    return say("{name}: there {found}, in the recipe {asked}", name=name, found=found, asked=asked)


def _plain(facts: Any) -> Any:
    return json.loads(json.dumps(facts))


def _brief(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
