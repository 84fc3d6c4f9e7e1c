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
    from sudare.methods.microdata import Microdata
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
    "Ledger": "sudare.privacy",
    "Microdata": "sudare.methods.microdata",
    "Release": "sudare.releases",
    "Schema": "sudare.schema",
    "SudareError": "sudare.errors",
    "Unit": "sudare.schema",
    "open": "sudare.sources",
}

__all__ = [
    "Attribute",
    "Certificate",
    "Counts",
    "Guarantee",
    "Ledger",
    "Microdata",
    "Release",
    "Schema",
    "SudareError",
    "Unit",
    "open",
]


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'sudare' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
