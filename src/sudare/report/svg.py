"""Small drawings as inline SVG: bars, columns, lines. Colours are classes, so a page can turn dark."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from sudare.messages import say
from sudare.report.shapes import Marginal, Reals, count, number

WIDTH = 420  # units of a drawing; about as many pixels on a wide page
LABELS, NUMBERS = 132, 62  # what the names and the numbers of bars take
ROW, BAR = 22, 13


def drawing(width: float, height: float, title: str, inside: str) -> str:
    """Wrap shapes into a picture that scales with the page.

    >>> drawing(10, 10, "none", "")
    '<svg viewBox="0 0 10 10" role="img" aria-label="none"></svg>'
    """
    return f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(title)}">{inside}</svg>'


def text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "ink", full: str = "") -> str:
    """Write words; `full` is told where the pointer rests."""
    hint = f"<title>{escape(full)}</title>" if full and full != words else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}{hint}</text>'


def fitted(words: str, units: float) -> str:
    """Cut words to a width, wide characters counted as such.

    >>> fitted("a very long label indeed", 60)
    'a very l…'
    """
    taken = 0.0
    for place, letter in enumerate(words):
        taken += 12.0 if unicodedata.east_asian_width(letter) in "WF" else 6.6
        if taken > units and place < len(words) - 1:
            return words[: max(place - 1, 1)] + "…"
    return words


def marginal(found: Marginal) -> str:
    """Draw one attribute: columns for many ordered values, else one bar a value."""
    shown = found.folded()
    return columns(shown) if shown.is_ordered and len(shown.labels) > 12 else bars(shown)


def bars(found: Marginal) -> str:
    """Draw a bar for every value; a line marks the truth, a thin line an interval."""
    top = _top(found)
    room = WIDTH - LABELS - NUMBERS
    parts = []
    for row, label in enumerate(found.labels):
        y = row * ROW + 4
        x = LABELS + room * max(float(found.published[row]), 0.0) / top
        parts.append(text(LABELS - 8, y + 11, fitted(label, LABELS - 12), anchor="end", full=label))
        parts.append(f'<rect x="{LABELS}" y="{y}" width="{x - LABELS:.1f}" height="{BAR}" class="bar"/>')
        parts.append(text(WIDTH, y + 11, count(found.published[row]), anchor="end", kind="quiet"))
        if found.low is not None and found.high is not None:
            low, high = (LABELS + room * min(float(one[row]), top) / top for one in (found.low, found.high))
            parts.append(f'<path d="M{low:.1f} {y + BAR / 2}H{high:.1f}" class="reach"/>')
        if found.true is not None:
            at = LABELS + room * float(found.true[row]) / top
            parts.append(f'<path d="M{at:.1f} {y - 3}v{BAR + 6}" class="truth"/>')
    return drawing(WIDTH, len(found.labels) * ROW + 6, found.name, "".join(parts))


def columns(found: Marginal) -> str:
    """Draw a column for every value of an ordered attribute, named at the ends and in the middle."""
    top, size = _top(found), len(found.labels)
    left, tall, under = 46, 170, 26
    wide = (WIDTH - left) / size
    parts = [_scale(top, left, tall)]
    for at in range(size):
        x, y = left + at * wide, 8 + tall * (1 - max(float(found.published[at]), 0.0) / top)
        full = f"{found.labels[at]}: {count(found.published[at])}"
        shape = f'x="{x + 0.5:.1f}" y="{y:.1f}" width="{max(wide - 1, 0.5):.1f}" height="{8 + tall - y:.1f}"'
        parts.append(f'<rect {shape} class="bar"><title>{escape(full)}</title></rect>')
        if found.low is not None and found.high is not None:
            high, low = (8 + tall * (1 - min(float(one[at]), top) / top) for one in (found.high, found.low))
            parts.append(f'<path d="M{x + wide / 2:.1f} {high:.1f}V{low:.1f}" class="reach"/>')
        if found.true is not None:
            true = 8 + tall * (1 - float(found.true[at]) / top)
            parts.append(f'<path d="M{x:.1f} {true:.1f}h{wide:.1f}" class="truth"/>')
    marks = ((0, "start"), (size // 2, "middle"), (size - 1, "end"))
    for at, anchor in marks:
        x = {"start": left, "end": WIDTH}.get(anchor, left + (at + 0.5) * wide)
        parts.append(text(x, tall + under, fitted(found.labels[at], 120), anchor=anchor, kind="quiet"))
    return drawing(WIDTH, tall + under + 8, found.name, "".join(parts))


def lines(series: Mapping[str, Sequence[tuple[float, float]]], *, across: str, up: str) -> str:
    """Draw curves over logarithmic axes, the first in the colour of what is published, the second of the truth."""
    points = [point for one in series.values() for point in one if point[0] > 0 and point[1] > 0]
    if not points:
        return ""
    left, tall, right = 50, 180, 26
    (x0, x1), (y0, y1) = (_ends([point[axis] for point in points]) for axis in (0, 1))

    def place(point: tuple[float, float]) -> tuple[float, float]:
        x = (math.log10(point[0]) - x0) / (x1 - x0)
        y = (math.log10(max(point[1], 10**y0)) - y0) / (y1 - y0)
        return left + (WIDTH - left - right) * x, 26 + tall * (1 - y)

    parts = [text(left, 13, up, kind="quiet"), text(WIDTH, tall + 62, across, anchor="end", kind="quiet")]
    for power in range(y0, y1 + 1):
        _, y = place((10.0**x0, 10.0**power))
        parts.append(f'<path d="M{left} {y:.1f}H{WIDTH - right}" class="rule"/>')
        parts.append(text(left - 6, y + 4, _power(power), anchor="end", kind="quiet"))
    for power in range(x0, x1 + 1):
        x, _ = place((10.0**power, 10.0**y0))
        parts.append(text(x, tall + 43, _power(power), anchor="middle", kind="quiet"))
    for kind, (name, one) in zip(("line", "line second"), series.items(), strict=False):
        placed = [place(point) for point in one]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in placed)
        dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2"/>' for x, y in placed)
        parts.append(f'<g class="{kind}"><title>{escape(name)}</title><path d="M{path}"/>{dots}</g>')
    return drawing(WIDTH, tall + 68, f"{up} / {across}", "".join(parts))


def legend(*, truth: bool = False, interval: bool = False) -> str:
    """Say what the shapes of a chart mean."""
    parts = [f'<span class="key bar"></span>{escape(say("published"))}']
    if interval:
        parts.append(f'<span class="key reach"></span>{escape(say("95% interval"))}')
    if truth:
        parts.append(f'<span class="key truth"></span>{escape(say("true"))}')
    return '<p class="legend">' + " ".join(f"<span>{part}</span>" for part in parts) + "</p>"


def line_legend(names: Sequence[str]) -> str:
    """Name the curves of a chart.

    >>> line_legend(["a"])
    '<p class="legend"><span><span class="key bar"></span>a</span></p>'
    """
    keys = zip(("bar", "second"), names, strict=False)
    parts = (f'<span><span class="key {kind}"></span>{escape(name)}</span>' for kind, name in keys)
    return '<p class="legend">' + " ".join(parts) + "</p>"


def _top(found: Marginal) -> float:
    heights: list[Reals] = [one for one in (found.published, found.true, found.high) if one is not None]
    return max(max(float(np.max(one, initial=0.0)) for one in heights), 1e-12)


def _scale(top: float, left: float, tall: float) -> str:
    """Lines at round heights."""
    step = 10.0 ** math.floor(math.log10(top))
    step = next(part for part in (step / 5, step / 2, step, step * 2, step * 5) if top / part <= 4.5)
    parts = []
    for mark in np.arange(0, top + step / 1e6, step):
        y = 8 + tall * (1 - mark / top)
        parts.append(f'<path d="M{left} {y:.1f}H{WIDTH}" class="rule"/>')
        parts.append(text(left - 6, y + 4, number(round(float(mark), 6)), anchor="end", kind="quiet"))
    return "".join(parts)


def _ends(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _power(power: int) -> str:
    return f"{10**power:,}" if 0 <= power <= 6 else f"{10.0**power:g}"
