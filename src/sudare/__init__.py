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
        KeyFileError,
        LedgerError,
        NotConfirmed,
        ParameterError,
        RelationMismatch,
        ReleaseError,
        RequestError,
        SchemaError,
        SourceError,
        SudareError,
    )
    from sudare.methods.base import Method, Payload, Plan
    from sudare.methods.differential import CurrencyMethod, EpsilonMethod
    from sudare.methods.kanon import KAnonymity
    from sudare.methods.kanon.risk import compare_recoding
    from sudare.methods.location import DeviceFile, Location, load_device_file
    from sudare.methods.location.collector import DensityEstimate
    from sudare.methods.location.device import Device, DeviceCaps
    from sudare.methods.location.geo import find_cell
    from sudare.methods.location.roads import RoadGraph
    from sudare.methods.microdata import Microdata
    from sudare.methods.microdata.measured import open_records
    from sudare.methods.parameters import parameter
    from sudare.methods.registry import register
    from sudare.methods.table import Table
    from sudare.methods.table.areas import sum_areas
    from sudare.methods.table.estimates import TableFigures
    from sudare.methods.table.large_measured import LargeFigures
    from sudare.methods.table.maps import steward_map
    from sudare.methods.table.years import compare_years
    from sudare.methods.view import AnswerTable, Estimate, OpenedView, View, open_view
    from sudare.privacy import ConcentratedGuarantee, Guarantee, Ledger, Spend, promise_privacy
    from sudare.privacy.signatures import PublicKey, SigningKey, create_keys
    from sudare.releases import Certificate, Coded, Frame, Release
    from sudare.requests import RequestStore, TablePolicy, VerdictFile
    from sudare.schema import Areas, Attribute, DateBins, Impossible, MeshCells, NumberBins, Schema, Unit, Values
    from sudare.schema import hierarchy_rules as hierarchies
    from sudare.schema.mesh import measure_mesh_cell
    from sudare.schema.propose import SchemaDraft
    from sudare.sources import Findings, Source, open, propose_schema
    from sudare.text import add_language, languages, use_language
    from sudare.verify.checks import verify_release

# Names are loaded when first used, so that `import sudare` and `sudare --help` stay quick.
_PUBLIC = {
    "AnswerTable": "sudare.methods.view",
    "Areas": "sudare.schema.areas",
    "Attribute": "sudare.schema",
    "BudgetExceeded": "sudare.errors",
    "Certificate": "sudare.releases",
    "Coded": "sudare.releases",
    "DensityEstimate": "sudare.methods.location.collector",
    "Counts": "sudare.counts",
    "DateBins": "sudare.schema",
    "Device": "sudare.methods.location.device",
    "DeviceCaps": "sudare.methods.location.device",
    "DeviceFile": "sudare.methods.location",
    "DomainError": "sudare.errors",
    "CurrencyMethod": "sudare.methods.differential",
    "EpsilonMethod": "sudare.methods.differential",
    "Estimate": "sudare.methods.view",
    "Findings": "sudare.sources",
    "Frame": "sudare.releases",
    "ConcentratedGuarantee": "sudare.privacy",
    "Guarantee": "sudare.privacy",
    "HierarchyError": "sudare.errors",
    "Impossible": "sudare.schema",
    "Infeasible": "sudare.errors",
    "KAnonymity": "sudare.methods.kanon",
    "KeyFileError": "sudare.errors",
    "Ledger": "sudare.privacy",
    "LedgerError": "sudare.errors",
    "Location": "sudare.methods.location",
    "MeshCells": "sudare.schema",
    "Method": "sudare.methods.base",
    "Microdata": "sudare.methods.microdata",
    "NotConfirmed": "sudare.errors",
    "NumberBins": "sudare.schema",
    "OpenedView": "sudare.methods.view",
    "ParameterError": "sudare.errors",
    "Payload": "sudare.methods.base",
    "Plan": "sudare.methods.base",
    "PublicKey": "sudare.privacy.signatures",
    "RelationMismatch": "sudare.errors",
    "Release": "sudare.releases",
    "ReleaseError": "sudare.errors",
    "RequestError": "sudare.errors",
    "RequestStore": "sudare.requests",
    "RoadGraph": "sudare.methods.location.roads",
    "Schema": "sudare.schema",
    "SchemaDraft": "sudare.schema.propose",
    "SchemaError": "sudare.errors",
    "SigningKey": "sudare.privacy.signatures",
    "Source": "sudare.sources",
    "SourceError": "sudare.errors",
    "Spend": "sudare.privacy",
    "SudareError": "sudare.errors",
    "Table": "sudare.methods.table",
    "TablePolicy": "sudare.requests",
    "Unit": "sudare.schema",
    "Values": "sudare.schema",
    "VerdictFile": "sudare.requests",
    "View": "sudare.methods.view",
    "add_language": "sudare.text",
    "compare_recoding": "sudare.methods.kanon.risk",
    "compare_years": "sudare.methods.table.years",
    "create_keys": "sudare.privacy.signatures",
    "find_cell": "sudare.methods.location.geo",
    "languages": "sudare.text",
    "load_device_file": "sudare.methods.location",
    "measure_mesh_cell": "sudare.schema.mesh",
    "open": "sudare.sources",
    "open_records": "sudare.methods.microdata.measured",
    "open_view": "sudare.methods.view",
    "parameter": "sudare.methods.parameters",
    "promise_privacy": "sudare.privacy",
    "propose_schema": "sudare.sources",
    "register": "sudare.methods.registry",
    "LargeFigures": "sudare.methods.table.large_measured",
    "TableFigures": "sudare.methods.table.estimates",
    "steward_map": "sudare.methods.table.maps",
    "sum_areas": "sudare.methods.table.areas",
    "use_language": "sudare.text",
    "verify_release": "sudare.verify.checks",
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
    "AnswerTable",
    "Areas",
    "Attribute",
    "BudgetExceeded",
    "Certificate",
    "Coded",
    "ConcentratedGuarantee",
    "Counts",
    "CurrencyMethod",
    "DateBins",
    "DensityEstimate",
    "Device",
    "DeviceCaps",
    "DeviceFile",
    "DomainError",
    "EpsilonMethod",
    "Estimate",
    "Findings",
    "Frame",
    "Guarantee",
    "HierarchyError",
    "Impossible",
    "Infeasible",
    "KAnonymity",
    "KeyFileError",
    "LargeFigures",
    "Ledger",
    "LedgerError",
    "Location",
    "MeshCells",
    "Method",
    "Microdata",
    "NotConfirmed",
    "NumberBins",
    "OpenedView",
    "ParameterError",
    "Payload",
    "Plan",
    "PublicKey",
    "RelationMismatch",
    "Release",
    "ReleaseError",
    "RequestError",
    "RequestStore",
    "RoadGraph",
    "Schema",
    "SchemaDraft",
    "SchemaError",
    "SigningKey",
    "Source",
    "SourceError",
    "Spend",
    "SudareError",
    "Table",
    "TableFigures",
    "TablePolicy",
    "Unit",
    "Values",
    "VerdictFile",
    "View",
    "add_language",
    "compare_recoding",
    "compare_years",
    "create_keys",
    "demo",
    "errors",
    "find_cell",
    "hierarchies",
    "languages",
    "load_device_file",
    "measure_mesh_cell",
    "noise",
    "open",
    "open_records",
    "open_view",
    "parameter",
    "promise_privacy",
    "propose_schema",
    "register",
    "steward_map",
    "sum_areas",
    "testing",
    "use_language",
    "verify_release",
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
