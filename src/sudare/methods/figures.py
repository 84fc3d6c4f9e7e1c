"""Figures inside sentences: how an expected error is written for people, alike in all methods."""

from __future__ import annotations

from fractions import Fraction

from sudare.text import Text, text


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


def join_clauses(first: Text | str, *others: Text | str) -> Text:
    """Put parts of a line one after the other, with the marks of the reader's language.

    >>> join_clauses("one", "two").render("en")
    'one; two'
    """
    line = first if isinstance(first, Text) else text("{line}", line=first)
    for part in others:
        line = text("{first}; {second}", first=line, second=part)
    return line


def as_estimates(rows: int | tuple[int, ...] | None) -> tuple[int, ...]:
    """Take one estimate of the number of records as several, and none as none.

    >>> as_estimates(1000), as_estimates(None)
    ((1000,), ())
    """
    return () if rows is None else (rows,) if isinstance(rows, int) else tuple(rows)
