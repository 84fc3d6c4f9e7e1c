"""Small pieces of HTML with which objects show themselves in a notebook.

    card("people.toml", rows=[("age", 20), ("sex", 2)], columns=("attribute", "values"))

Everything is escaped; styles are inline and take the notebook's own colours, so a card is readable in the light and in
the dark. Long tables are cut, and say so. Nothing is fetched, and no script runs.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from sudare.text import text

__all__ = ["Markup", "OneLine", "Preformatted", "bar", "card", "figure"]

MOST_ROWS = 60  # of one table on a screen; the rest is counted, not shown
_CARD = (
    "border:1px solid #8884;border-left:4px solid #2f6f5e;border-radius:6px;padding:.6em .9em;margin:.4em 0;"
    "max-width:60em;overflow-x:auto"
)
_CELL = "padding:.15em .9em .15em 0;text-align:left;vertical-align:top;background:none"
_SHORT = 24  # signs that stand in one line: a browser breaks Japanese words after every sign
_INK = "#3a8a75"  # of bars and lines: a contrast of 4 with white, and with the paper of dark notebooks (#1e1e1e)
_BAR_WIDTH = 160  # pixels


def card(
    title: object,
    *,
    notes: Iterable[object] = (),
    columns: Sequence[object] = (),
    rows: Iterable[Sequence[object]] = (),
    warning: object = "",
) -> str:
    """Draw one object: a title, sentences, a table, and a warning on top where there is one.

    Cells are escaped unless they come from `bar` or `figure` of this module.

    >>> "age &lt; 5" in card("t", rows=[("age < 5", 3)])
    True
    """
    parts = [f"<div style='{_CARD}'>", f"<strong>{_escape(title)}</strong>"]
    if warning:
        parts.append(f"<p style='margin:.4em 0;color:#b3261e;font-weight:600'>{_escape(warning)}</p>")
    parts += [f"<p style='margin:.4em 0'>{_escape(note)}</p>" for note in notes]
    parts.append(_table(columns, list(rows)))
    parts.append("</div>")
    return "".join(parts)


class Markup(str):
    """HTML that is already safe: made by this module, of escaped pieces."""

    __slots__ = ()


class Preformatted(str):
    """Text whose lines and blanks are kept."""

    __slots__ = ()


class OneLine(str):
    """Text that is never broken: a browser breaks a day after every hyphen."""

    __slots__ = ()


def bar(share: float, *, label: object = "") -> Markup:
    """Draw a share between 0 and 1 as a bar, its label beside it.

    >>> "width:80px" in bar(0.5)
    True
    """
    filled = round(_BAR_WIDTH * min(1.0, max(0.0, share)))
    return Markup(
        f"<span style='display:inline-block;width:{_BAR_WIDTH}px;height:.7em;border-radius:3px;background:#8883'>"
        f"<span style='display:block;width:{filled}px;height:100%;border-radius:3px;background:{_INK}'></span></span>"
        f" {_escape(label)}"
    )


def figure(low: float, value: float, high: float, *, start: float, stop: float) -> Markup:
    """Draw an interval as a line with a dot, on a scale from `start` to `stop`.

    >>> "left:80px" in figure(0, 5, 10, start=0, stop=10)
    True
    """
    length = stop - start
    low_at, at, high_at = (
        round(_BAR_WIDTH * min(1.0, max(0.0, (number - start) / length))) if length > 0 else 0
        for number in (low, value, high)
    )
    return Markup(
        f"<span style='display:inline-block;position:relative;width:{_BAR_WIDTH + 8}px;height:.9em'>"
        f"<span style='position:absolute;top:.45em;left:0;width:{_BAR_WIDTH}px;height:1px;background:#8886'></span>"
        f"<span style='position:absolute;top:.4em;left:{low_at}px;width:{max(2, high_at - low_at)}px;height:2px;"
        f"background:{_INK}'></span>"
        f"<span style='position:absolute;top:.2em;left:{at}px;width:7px;height:7px;margin-left:-3px;border-radius:4px;"
        f"background:{_INK}'></span></span>"
    )


def _table(columns: Sequence[object], rows: list[Sequence[object]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th style='{_style(name)};font-weight:600'>{_escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td style='{_style(cell)}'>{_escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows[:MOST_ROWS]
    )
    cut = ""
    if len(rows) > MOST_ROWS:
        more = text("and {count} more rows", count=len(rows) - MOST_ROWS)
        cut = f"<p style='margin:.3em 0'>{_escape(more)}</p>"
    head = f"<thead><tr>{head}</tr></thead>" if columns else ""
    return f"<table style='border-collapse:collapse;margin:.4em 0'>{head}<tbody>{body}</tbody></table>{cut}"


def _style(cell: object) -> str:
    is_short = not isinstance(cell, Markup | Preformatted) and len(str(cell)) <= _SHORT
    return f"{_CELL};white-space:nowrap" if is_short or isinstance(cell, OneLine) else _CELL


def _escape(cell: object) -> str:
    if isinstance(cell, Preformatted):
        return f"<pre style='margin:0'>{html.escape(cell)}</pre>"
    return cell if isinstance(cell, Markup) else html.escape(str(cell))
