"""What a reader learns of a release, line by line: what was checked, what came out, and what that rests on.

recomputed   worked out again from the files that are there; nobody has to be believed
signed       not worked out again, but the steward whose key was given vouches for it
stated       only said by the certificate: whoever made the files could have written anything
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sudare.text import Readable, Text, text

Basis = Literal["recomputed", "signed", "stated"]
_BASES = {"recomputed": text("recomputed"), "signed": text("signed"), "stated": text("only stated")}


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedClaim:
    """One line of a check: its name, whether it holds, what was seen, and what that rests on."""

    name: Text
    passed: bool
    detail: Text
    basis: Basis = "recomputed"

    def describe_basis(self) -> Text:
        """Say what the line rests on."""
        return _BASES[self.basis]

    def to_dict(self) -> dict[str, Any]:
        """Give it as plain values for a program: English templates, and the values of the detail."""
        values = {
            name: value.render("en") if isinstance(value, Readable) else value
            for name, value in self.detail.values.items()
        }
        return {
            "name": self.name.template,
            "passed": self.passed,
            "basis": self.basis,
            "detail": self.detail.template,
            "values": values,
        }
