"""Listed values in SQL: a lookup by the exact text."""

from __future__ import annotations

import re

import numpy as np

from sudare.schema import Values
from sudare.sources.coding.site import Coding, Join, Site
from sudare.sources.engine import Lookup
from sudare.sources.sql import Expression, call, cast, choose, either, is_null, literal


def code_values(site: Site, domain: Values) -> Coding:
    """Find each value in a table of the declared ones. A join beats CASE and ENUM, at any number of values.

    Integers are found by number, which is quicker; all else by text, exactly as it stands.
    """
    family = site.column.family
    if family == "moment" or not site.prints_like_python:
        return site.asked()
    lookup = _by_number(site, domain) if family == "integer" else _by_text(site, domain)
    key = site.value() if family in ("text", "integer") else cast(site.value(), "VARCHAR")
    code: Expression = site.found("values")
    if site.attribute.other_code is not None:
        code = call("COALESCE", code, literal(site.attribute.other_code))
    absent = site.encoded(None)
    if absent is not None and absent != site.attribute.other_code:
        nothing = [is_null(site.value())] + ([call("ISNAN", site.value())] if family == "float" else [])
        code = choose([(either(nothing), literal(absent))], code)
    return Coding(inner=code, joins=(Join(lookup=lookup, key=key),))


def _codes(site: Site, domain: Values) -> dict[str, int]:
    """The declared texts, and the texts that mean missing."""
    absent = site.encoded(None)
    marks = ("", *site.attribute.missing_marks) if absent is not None else ()
    return {**dict.fromkeys(marks, absent or 0), **{text: code for code, text in enumerate(domain.values)}}


def _by_text(site: Site, domain: Values) -> Lookup:
    codes = _codes(site, domain)
    keys, values = np.array(list(codes), dtype=np.object_), np.array(list(codes.values()), dtype=np.int64)
    return Lookup(name=site.table("values"), keys=keys, values=values, key="text")


def _by_number(site: Site, domain: Values) -> Lookup:
    pairs = [(int(text), code) for text, code in _codes(site, domain).items() if _is_int64(text)]
    keys, values = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return Lookup(name=site.table("values"), keys=keys, values=values, key="integer")


def _is_int64(text: str) -> bool:
    return bool(re.fullmatch(r"0|-?[1-9][0-9]{0,18}", text)) and -(2**63) <= int(text) < 2**63
