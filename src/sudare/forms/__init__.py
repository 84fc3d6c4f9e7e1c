"""Forms: the TOML files that people write (schema, map, recipe, request), declared once and read by one reader.

Names are loaded when first used: who only reads a release waits for no reader of forms.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sudare.forms.form import FileForm, Key, Keys, TableForm, Variants
    from sudare.forms.mistake import Mistake, at_line
    from sudare.forms.reader import FilledForm, FilledTable, find_mistakes, read_form, read_values

__all__ = [
    "FileForm",
    "FilledForm",
    "FilledTable",
    "Key",
    "Keys",
    "Mistake",
    "TableForm",
    "Variants",
    "at_line",
    "find_mistakes",
    "read_form",
    "read_values",
]

_PLACES = {  # name -> module
    "FileForm": "form",
    "Key": "form",
    "Keys": "form",
    "TableForm": "form",
    "Variants": "form",
    "Mistake": "mistake",
    "at_line": "mistake",
    "FilledForm": "reader",
    "FilledTable": "reader",
    "find_mistakes": "reader",
    "read_form": "reader",
    "read_values": "reader",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    return found
