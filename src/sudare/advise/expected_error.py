"""The error to expect of a planned release in one line."""

from __future__ import annotations

from typing import Any

from sudare.methods.base import EpsilonMethod
from sudare.privacy import Guarantee, Promise
from sudare.schema import Schema
from sudare.text import Text


def error_line(method: Any, schema: Schema | None, guarantee: Promise) -> Text | None:
    """Tell the expected error of a planned release in a line; None where it takes a search or the data."""
    if schema is None or not isinstance(method, EpsilonMethod) or not isinstance(guarantee, Guarantee):
        return None
    return method.describe_error(schema, neighbours=guarantee.neighbours)
