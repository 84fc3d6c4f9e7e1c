"""JSON as others bring it: its nesting and its numbers are bounded before anything is made of it."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import numpy as np

MOST_DEPTH = 50  # of lists and tables inside one another; GeoJSON has eight, our own files fewer than ten
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_STEPS = np.zeros(256, dtype=np.int8)
_STEPS[[ord("["), ord("{")]] = 1
_STEPS[[ord("]"), ord("}")]] = -1


def read_json(content: bytes | str) -> Any:
    """Read JSON text of bounded depth; ValueError for everything else, also NaN, infinity and a key that stands twice.

    >>> read_json('{"cells": [1, 2.5]}')
    {'cells': [1, 2.5]}
    >>> for text in ("[" * 1000, '{"a": 1, "a": 2}', "NaN", "1e999", "{"):
    ...     try:
    ...         read_json(text)
    ...     except ValueError:
    ...         print("refused")
    refused
    refused
    refused
    refused
    refused
    """
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    if measure_depth(raw) > MOST_DEPTH:
        raise ValueError("too deep")
    words = raw.decode("utf-8-sig")  # UnicodeDecodeError is a ValueError
    return json.loads(words, parse_constant=_refuse, parse_float=_read_float, object_pairs_hook=_read_object)


def measure_depth(raw: bytes) -> int:
    """Count how many brackets are open at once at most, brackets in texts aside.

    >>> measure_depth(b'{"a": [[1], "[[["]}')
    3
    """
    if not raw:
        return 0
    steps = _STEPS[np.frombuffer(_STRING.sub(b"", raw), dtype=np.uint8)]
    return int(np.cumsum(steps, dtype=np.int64).max(initial=0))


def _refuse(word: str) -> NoReturn:
    raise ValueError(word)


def _read_float(word: str) -> float:
    value = float(word)
    if not np.isfinite(value):
        raise ValueError(word)
    return value


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Read an object; a key that stands there twice could tell two readers two things."""
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("a key stands twice")
    return entries
