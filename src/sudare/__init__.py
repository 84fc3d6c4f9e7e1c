"""Sudare: publish what a table says about people without showing the people.

>>> import sudare as sd
>>> sd.Microdata(epsilon="1/2").guarantee().neighbours
'replace'
"""

from __future__ import annotations

TYPE_CHECKING = False  # this file loads no module: a command hears Ctrl-C only after it (sudare/cli/interrupt.py)
if TYPE_CHECKING:
    from sudare import demo, errors, noise, testing
    from sudare.counts import Counts
    from sudare.errors import (
        BudgetExceeded,
        DomainError,
        HierarchyError,
        Infeasible,
        LedgerError,
        NotConfirmed,
        ParameterError,
        RelationMismatch,
        ReleaseError,
        SchemaError,
        SourceError,
        SudareError,
    )
    from sudare.methods.kanon import KAnonymity
    from sudare.methods.location import Location
    from sudare.methods.microdata import Microdata
    from sudare.methods.table import Table
    from sudare.methods.view import Estimate, OpenedView, View, open_view
    from sudare.privacy import Guarantee, Ledger, Spend
    from sudare.releases import Certificate, Coded, Frame, Release
    from sudare.schema import Attribute, DateBins, Impossible, MeshCells, NumberBins, Schema, Unit, Values
    from sudare.schema import hierarchy_rules as hierarchies
    from sudare.schema.propose import SchemaDraft
    from sudare.sources import Findings, Source, open, propose_schema
    from sudare.text import add_language, languages, use_language

# Names are loaded when first used, so that `import sudare` and `sudare --help` stay quick.
_PUBLIC = {
    "Attribute": "sudare.schema",
    "BudgetExceeded": "sudare.errors",
    "Certificate": "sudare.releases",
    "Coded": "sudare.releases",
    "Counts": "sudare.counts",
    "DateBins": "sudare.schema",
    "DomainError": "sudare.errors",
    "Estimate": "sudare.methods.view",
    "Findings": "sudare.sources",
    "Frame": "sudare.releases",
    "Guarantee": "sudare.privacy",
    "HierarchyError": "sudare.errors",
    "Impossible": "sudare.schema",
    "Infeasible": "sudare.errors",
    "KAnonymity": "sudare.methods.kanon",
    "Ledger": "sudare.privacy",
    "LedgerError": "sudare.errors",
    "Location": "sudare.methods.location",
    "MeshCells": "sudare.schema",
    "Microdata": "sudare.methods.microdata",
    "NotConfirmed": "sudare.errors",
    "NumberBins": "sudare.schema",
    "OpenedView": "sudare.methods.view",
    "ParameterError": "sudare.errors",
    "RelationMismatch": "sudare.errors",
    "Release": "sudare.releases",
    "ReleaseError": "sudare.errors",
    "Schema": "sudare.schema",
    "SchemaDraft": "sudare.schema.propose",
    "SchemaError": "sudare.errors",
    "Source": "sudare.sources",
    "SourceError": "sudare.errors",
    "Spend": "sudare.privacy",
    "SudareError": "sudare.errors",
    "Table": "sudare.methods.table",
    "Unit": "sudare.schema",
    "Values": "sudare.schema",
    "View": "sudare.methods.view",
    "add_language": "sudare.text",
    "languages": "sudare.text",
    "open": "sudare.sources",
    "open_view": "sudare.methods.view",
    "propose_schema": "sudare.sources",
    "use_language": "sudare.text",
}
# Rooms that people use by name: `sd.noise.geometric_variance`, `sd.hierarchies.intervals`.
_ROOMS = {
    "demo": "sudare.demo",
    "errors": "sudare.errors",
    "hierarchies": "sudare.schema.hierarchy_rules",
    "noise": "sudare.noise",
    "testing": "sudare.testing",
}

__all__ = [
    "Attribute",
    "BudgetExceeded",
    "Certificate",
    "Coded",
    "Counts",
    "DateBins",
    "DomainError",
    "Estimate",
    "Findings",
    "Frame",
    "Guarantee",
    "HierarchyError",
    "Impossible",
    "Infeasible",
    "KAnonymity",
    "Ledger",
    "LedgerError",
    "Location",
    "MeshCells",
    "Microdata",
    "NotConfirmed",
    "NumberBins",
    "OpenedView",
    "ParameterError",
    "RelationMismatch",
    "Release",
    "ReleaseError",
    "Schema",
    "SchemaDraft",
    "SchemaError",
    "Source",
    "SourceError",
    "Spend",
    "SudareError",
    "Table",
    "Unit",
    "Values",
    "View",
    "add_language",
    "demo",
    "errors",
    "hierarchies",
    "languages",
    "noise",
    "open",
    "open_view",
    "propose_schema",
    "testing",
    "use_language",
]


def __getattr__(name: str) -> object:
    import importlib

    if name in _ROOMS:
        return importlib.import_module(_ROOMS[name])
    if name not in _PUBLIC:
        raise AttributeError(f"module 'sudare' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
