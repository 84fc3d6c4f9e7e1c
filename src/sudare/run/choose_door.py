"""From a file of public facts and answers to advice."""

from __future__ import annotations

import tomllib
from pathlib import Path

from sudare.errors import ParameterError
from sudare.run.choose import Advice, Answers, advise
from sudare.run.choose_kanon import advise_kanon
from sudare.run.choose_places import advise_places
from sudare.schema import Schema
from sudare.schema.textfile import read_text


def read_facts(file: Path) -> Schema | None:
    """Read a schema file; None stands for a map file, which has [grid] and is read by its method."""
    try:
        is_map = "grid" in tomllib.loads(read_text(file))
    except tomllib.TOMLDecodeError:
        is_map = False  # the reader of schemas says what is wrong, and where
    return None if is_map else Schema.read(file)


def decide(schema: Schema | None, file: Path, answers: Answers) -> Advice:
    """Recommend a method; what does not go together is refused."""
    if schema is None:
        if not answers.wants_places:
            raise ParameterError("{file} is a map: it goes with --need places; for a table give its schema", file=file)
        return advise_places(file, answers)
    if answers.wants_places:
        raise ParameterError(
            "{file} is a schema: devices that report places need a map file; see docs/how-to/location-map.md", file=file
        )
    return advise_kanon(schema, answers) if answers.truthful else advise(schema, answers)
