"""Figures inside sentences: how an expected error is written for people, alike in all methods."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sudare.text import Words, text
from sudare.text.cards import card


def write_figure(value: float | Fraction) -> str:
    """Three digits, without an exponent where one can do without.

    >>> [write_figure(value) for value in (0.0000123, 0.21, 5.877, 1234.5, 5.67e9)]
    ['0.0000123', '0.21', '5.88', '1,230', '5.67e9']
    """
    short = float(f"{float(value):.3g}")
    if short and not 1e-7 <= abs(short) < 1e9:
        digits, _, power = f"{short:e}".partition("e")
        return f"{float(digits):g}e{int(power)}"
    return f"{short:,.10f}".rstrip("0").rstrip(".")


def as_estimates(rows: int | tuple[int, ...] | None) -> tuple[int, ...]:
    """Take one estimate of the number of records as several, and none as none.

    >>> as_estimates(1000), as_estimates(None)
    ((1000,), ())
    """
    return () if rows is None else (rows,) if isinstance(rows, int) else tuple(rows)


class ShownPreview:
    """A preview that shows itself in a notebook: its lines, and its advice or warnings on top."""

    __slots__ = ()

    def lines(self) -> Sequence[Words]:
        """Tell it in a few lines."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        """Show the lines in a notebook."""
        preview: Any = self
        advice = preview.advice() if hasattr(preview, "advice") else None
        warnings = getattr(preview, "warnings", ())
        return card(
            text("Before anything is spent"), notes=self.lines(), warning=advice or (warnings[0] if warnings else "")
        )
