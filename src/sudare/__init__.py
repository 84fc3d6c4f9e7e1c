"""Sudare: publish what a table says about people without showing the people.

>>> import sudare as sd
>>> sd.Microdata(epsilon="1/2").guarantee().neighbours
'replace'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sudare.counts import Counts
    from sudare.errors import SudareError
    from sudare.methods.kanon import KAnonymity
    from sudare.methods.location import Location
    from sudare.methods.microdata import Microdata
    from sudare.methods.table import Table
    from sudare.methods.view import View, open_view
    from sudare.privacy import Guarantee, Ledger
    from sudare.releases import Certificate, Release
    from sudare.schema import Attribute, Schema, Unit
    from sudare.sources import open

# Names are loaded when first used, so that `import sudare` and `sudare --help` stay quick.
_PUBLIC = {
    "Attribute": "sudare.schema",
    "Certificate": "sudare.releases",
    "Counts": "sudare.counts",
    "Guarantee": "sudare.privacy",
    "KAnonymity": "sudare.methods.kanon",
    "Ledger": "sudare.privacy",
    "Location": "sudare.methods.location",
    "Microdata": "sudare.methods.microdata",
    "Release": "sudare.releases",
    "Schema": "sudare.schema",
    "SudareError": "sudare.errors",
    "Table": "sudare.methods.table",
    "Unit": "sudare.schema",
    "View": "sudare.methods.view",
    "open": "sudare.sources",
    "open_view": "sudare.methods.view",
}

__all__ = [
    "Attribute",
    "Certificate",
    "Counts",
    "Guarantee",
    "KAnonymity",
    "Ledger",
    "Location",
    "Microdata",
    "Release",
    "Schema",
    "SudareError",
    "Table",
    "Unit",
    "View",
    "open",
    "open_view",
]


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'sudare' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
