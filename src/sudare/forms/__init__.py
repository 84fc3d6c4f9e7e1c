"""Forms: the TOML files that people write (schema, map, recipe, request), declared once and read by one reader."""

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
