"""Docstrings as the site shows them: doctests as code, and Guarantee, Error, Source as paragraphs of their own."""

from __future__ import annotations

import re
from typing import Any

import griffe

_FIELDS = re.compile(r"^(Guarantee|Error|Source)s?: ", flags=re.MULTILINE)
_DOCTEST = re.compile(r"^>>> .*(?:\n(?!\s*$).+)*", flags=re.MULTILINE)
_DIRECTIVE = re.compile(r"  # doctest: .*$", flags=re.MULTILINE)
_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", flags=re.DOTALL)


class Docstrings(griffe.Extension):
    """Rewrites docstrings as Markdown when the source was read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = rewritten(obj.docstring.value)


def rewritten(text: str) -> str:
    """Write a docstring as Markdown."""
    text = _DOCTEST.sub(lambda found: f"```pycon\n{_DIRECTIVE.sub('', found[0])}\n```", text)
    parts = _CODE.split(_FIELDS.sub(r"\n**\1:** ", text))
    return "".join(part if _CODE.fullmatch(part) else part.replace("][", "]&#91;") for part in parts)
