"""Drawings as inline SVG: bars, columns, lines, maps of a matrix.

Colours are classes of the page's style, so that a page can turn dark.
"""

from __future__ import annotations

import html
import math
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from sudare.report.shapes import Marginal, write_count, write_number
from sudare.schema.arrays import Reals
from sudare.text import Words, text

WIDTH = 420  # units of a drawing; about as many pixels on a wide page
LABELS, NUMBERS = 132, 62  # units for the names and the numbers beside bars
MOST_NAMED_BARS = 12  # values of an ordered attribute that get a bar with a name each; more are columns
ROW, BAR = 22, 13  # units of a row and of the bar in it


def escape(words: Words) -> str:
    """Make words safe inside HTML and SVG, in the language of whoever looks.

    >>> escape("a < b")
    'a &lt; b'
    """
    return html.escape(str(words))


def wrap_svg(width: float, height: float, title: Words, inside: str) -> str:
    """Wrap shapes into a picture that scales with the page.

    >>> wrap_svg(10, 10, "none", "")
    '<svg viewBox="0 0 10 10" role="img" aria-label="none"></svg>'
    """
    return f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(title)}">{inside}</svg>'


def write_text(x: float, y: float, words: Words, *, anchor: str = "start", kind: str = "ink", full: Words = "") -> str:
    """Write words at a place; `full` is shown where the pointer rests."""
    hint = f"<title>{escape(full)}</title>" if full and str(full) != str(words) else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(words)}{hint}</text>'


def fit_text(words: Words, units: float) -> str:
    """Cut words to a width, wide characters counted as such.

    >>> fit_text("a very long label indeed", 60)
    'a very l…'
    """
    shown, taken = str(words), 0.0
    for place, letter in enumerate(shown):
        taken += 12.0 if unicodedata.east_asian_width(letter) in "WF" else 6.6
        if taken > units and place < len(shown) - 1:
            return shown[: max(place - 1, 1)] + "…"
    return shown


def measure_text(words: Words) -> float:
    """How wide words are drawn, wide characters counted as such.

    >>> measure_text("abc") < measure_text("東京都")
    True
    """
    return sum(13.0 if unicodedata.east_asian_width(letter) in "WF" else 7.2 for letter in str(words))


def draw_marginal(marginal: Marginal) -> str:
    """Draw one attribute: columns for many ordered values, else one bar a value."""
    folded = marginal.folded()
    return draw_columns(folded) if folded.is_ordered and len(folded.labels) > MOST_NAMED_BARS else draw_bars(folded)


def draw_bars(marginal: Marginal) -> str:
    """Draw a bar for every value; a line marks the truth, a thin line an interval."""
    top = _top(marginal)
    span = WIDTH - LABELS - NUMBERS
    parts = []
    for row, label in enumerate(marginal.labels):
        y = row * ROW + 4
        x = LABELS + span * max(float(marginal.published[row]), 0.0) / top
        parts.append(write_text(LABELS - 8, y + 11, fit_text(label, LABELS - 12), anchor="end", full=label))
        parts.append(f'<rect x="{LABELS}" y="{y}" width="{x - LABELS:.1f}" height="{BAR}" class="bar"/>')
        parts.append(write_text(WIDTH, y + 11, write_count(marginal.published[row]), anchor="end", kind="quiet"))
        if marginal.low is not None and marginal.high is not None:
            low, high = (LABELS + span * min(float(ends[row]), top) / top for ends in (marginal.low, marginal.high))
            parts.append(f'<path d="M{low:.1f} {y + BAR / 2}H{high:.1f}" class="reach"/>')
        if marginal.true is not None:
            at = LABELS + span * float(marginal.true[row]) / top
            parts.append(f'<path d="M{at:.1f} {y - 3}v{BAR + 6}" class="truth"/>')
    return wrap_svg(WIDTH, len(marginal.labels) * ROW + 6, marginal.name, "".join(parts))


def draw_columns(marginal: Marginal) -> str:
    """Draw a column for every value of an ordered attribute, named at the ends and in the middle."""
    top, size = _top(marginal), len(marginal.labels)
    left, tall, under = 46, 170, 26
    wide = (WIDTH - left) / size
    parts = [_draw_scale(top, left, tall)]
    for at in range(size):
        x, y = left + at * wide, 8 + tall * (1 - max(float(marginal.published[at]), 0.0) / top)
        full = f"{marginal.labels[at]}: {write_count(marginal.published[at])}"
        shape = f'x="{x + 0.5:.1f}" y="{y:.1f}" width="{max(wide - 1, 0.5):.1f}" height="{8 + tall - y:.1f}"'
        parts.append(f'<rect {shape} class="bar"><title>{escape(full)}</title></rect>')
        if marginal.low is not None and marginal.high is not None:
            high, low = (8 + tall * (1 - min(float(ends[at]), top) / top) for ends in (marginal.high, marginal.low))
            parts.append(f'<path d="M{x + wide / 2:.1f} {high:.1f}V{low:.1f}" class="reach"/>')
        if marginal.true is not None:
            true = 8 + tall * (1 - float(marginal.true[at]) / top)
            parts.append(f'<path d="M{x:.1f} {true:.1f}h{wide:.1f}" class="truth"/>')
    marks = ((0, "start"), (size // 2, "middle"), (size - 1, "end"))
    for at, anchor in marks:
        x = {"start": left, "end": WIDTH}.get(anchor, left + (at + 0.5) * wide)
        label = marginal.labels[at]
        shown = fit_text(label, (WIDTH - left) / len(marks) - 12)  # three stand side by side
        parts.append(write_text(x, tall + under, shown, anchor=anchor, kind="quiet", full=label))
    return wrap_svg(WIDTH, tall + under + 8, marginal.name, "".join(parts))


MOST_POWERS = 6  # of ten that are named along an axis; more would touch one another


def draw_lines(series: Mapping[Words, Sequence[tuple[float, float]]], *, across: Words, up: Words) -> str:
    """Draw curves over logarithmic axes, the first in the colour of what is published, the second of the truth."""
    points = [point for curve in series.values() for point in curve if point[0] > 0 and point[1] > 0]
    if not points:
        return ""
    left, tall, right = 60, 180, 26
    (x0, x1), (y0, y1) = (_decades([point[axis] for point in points]) for axis in (0, 1))

    def place(point: tuple[float, float]) -> tuple[float, float]:
        x = (math.log10(point[0]) - x0) / (x1 - x0)
        y = (math.log10(max(point[1], 10**y0)) - y0) / (y1 - y0)
        return left + (WIDTH - left - right) * x, 26 + tall * (1 - y)

    parts = [write_text(left, 13, up, kind="quiet"), write_text(WIDTH, tall + 62, across, anchor="end", kind="quiet")]
    for power in range(y0, y1 + 1):
        _, y = place((10.0**x0, 10.0**power))
        parts.append(f'<path d="M{left} {y:.1f}H{WIDTH - right}" class="rule"/>')
        parts.append(write_text(left - 6, y + 4, _write_power(power), anchor="end", kind="quiet"))
    for power in range(x0, x1 + 1, math.ceil((x1 - x0) / MOST_POWERS)):
        x, _ = place((10.0**power, 10.0**y0))
        parts.append(write_text(x, tall + 43, _write_power(power), anchor="middle", kind="quiet"))
    for kind, (name, curve) in zip(("line", "line second"), series.items(), strict=False):
        placed = [place(point) for point in curve]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in placed)
        dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2"/>' for x, y in placed)
        parts.append(f'<g class="{kind}"><title>{escape(name)}</title><path d="M{path}"/>{dots}</g>')
    return wrap_svg(WIDTH, tall + 68, f"{up} / {across}", "".join(parts))


def write_legend(*, truth: bool = False, interval: bool = False) -> str:
    """Say what the shapes of a chart mean."""
    parts = [f'<span class="key bar"></span>{escape(text("published"))}']
    if interval:
        parts.append(f'<span class="key reach"></span>{escape(text("95% interval"))}')
    if truth:
        parts.append(f'<span class="key truth"></span>{escape(text("true"))}')
    return '<p class="legend">' + " ".join(f"<span>{part}</span>" for part in parts) + "</p>"


def write_line_legend(names: Sequence[Words]) -> str:
    """Name the curves of a chart.

    >>> write_line_legend(["a"])
    '<p class="legend"><span><span class="key bar"></span>a</span></p>'
    """
    keys = zip(("bar", "second"), names, strict=False)
    parts = (f'<span><span class="key {kind}"></span>{escape(name)}</span>' for kind, name in keys)
    return '<p class="legend">' + " ".join(parts) + "</p>"


def _top(marginal: Marginal) -> float:
    """The largest number that is drawn; never 0."""
    heights = [values for values in (marginal.published, marginal.true, marginal.high) if values is not None]
    return max(max(float(np.max(values, initial=0.0)) for values in heights), 1e-12)


def _draw_scale(top: float, left: float, tall: float) -> str:
    """Lines at round heights."""
    step = 10.0 ** math.floor(math.log10(top))
    step = next(part for part in (step / 5, step / 2, step, step * 2, step * 5) if top / part <= 4.5)
    parts = []
    for mark in np.arange(0, top + step / 1e6, step):
        y = 8 + tall * (1 - mark / top)
        parts.append(f'<path d="M{left} {y:.1f}H{WIDTH}" class="rule"/>')
        parts.append(write_text(left - 6, y + 4, write_number(round(float(mark), 6)), anchor="end", kind="quiet"))
    return "".join(parts)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _write_power(power: int) -> str:
    return f"{10**power:,}" if 0 <= power <= 6 else f"10^{power}" if power > 0 else f"{10.0**power:g}"


# Maps of a matrix of numbers: cells by colour, blank where there is no number.


AxisNames = tuple[Sequence[Words], Sequence[Words]]

MOST_SIDE = 120  # cells along a side; larger maps are drawn in blocks
SHADES = 24  # colours of the scale
MOST_NAMED_ROWS, NAME_WIDTH = 12, 78  # more rows than that are not named; units for their names
RAMP = ((214, 231, 219), (134, 189, 171), (56, 138, 127), (15, 92, 92), (16, 42, 67))  # few to many
DARK_RAMP = ((28, 52, 60), (30, 92, 92), (56, 146, 130), (140, 205, 178), (236, 250, 238))


def draw_heat_map(
    values: Reals, *, title: Words, stretch: float = 1.0, is_log: bool = False, names: AxisNames | None = None
) -> str:
    """Draw a matrix, row 0 at the bottom; NaN is left blank. `stretch` is the height of a cell over its width.

    `names` are those of the rows and of the columns; rows are named if they are few, columns at both ends.

    With `is_log` equal ratios, not equal differences, are equal steps of colour; all numbers are above 0 then.

    >>> draw_heat_map(np.array([[0.0, np.nan]]), title="two").count("<path")
    1
    """
    cells, side = _average_blocks(values)
    known = np.isfinite(cells)
    if not known.any():
        return ""
    low, high = float(cells[known].min()), float(cells[known].max())
    shade = np.full(cells.shape, -1)
    steps = (
        np.log(cells[known] / low) / max(np.log(high / low), 1e-12)
        if is_log
        else _scale_linearly(cells[known], low, high)
    )
    shade[known] = np.minimum(steps * SHADES, SHADES - 1).astype(int)
    rows, across = cells.shape
    has_names = names is not None and side == 1 and rows <= MOST_NAMED_ROWS
    left = NAME_WIDTH if has_names else 0
    unit = min((WIDTH - left) / across, 380 / (rows * stretch))
    frame = f'<rect width="{across}" height="{rows}" class="sea"/>'
    shapes = frame + "".join(draw_cells(shade == level, kind=f"s{level}") for level in np.unique(shade[known]).tolist())
    tall = rows * unit * stretch
    scaled = f"translate({left}) scale({unit:.4f} {unit * stretch:.4f})"
    placed = f'<g transform="{scaled}" shape-rendering="crispEdges">{shapes}</g>'
    note: Words = text("blocks of {side} by {side} cells", side=side) if side > 1 else ""
    if has_names and names is not None:
        placed += _name_axes(names, left, unit, tall)
        tall += 16
    return wrap_svg(WIDTH, tall + 40, title, placed + _draw_heat_scale(low, high, tall + 12, note))


def _name_axes(names: AxisNames, left: float, unit: float, tall: float) -> str:
    rows, columns = names
    high = tall / len(rows)
    beside = "".join(
        write_text(
            left - 7, tall - (at + 0.5) * high + 4, fit_text(name, left - 8), anchor="end", kind="quiet", full=name
        )
        for at, name in enumerate(rows)
    )
    right = left + unit * len(columns)
    first = write_text(left, tall + 14, fit_text(columns[0], 120), kind="quiet")
    return beside + first + write_text(right, tall + 14, fit_text(columns[-1], 120), anchor="end", kind="quiet")


def write_shade_style() -> str:
    """Give the colours of the scale as style, few to many: towards ink on paper, towards light in the dark.

    >>> write_shade_style().count("fill:")
    48
    """
    light = "".join(f"svg .s{at}{{fill:{colour}}}" for at, colour in enumerate(_mix_colours(RAMP)))
    dark = "".join(f"svg .s{at}{{fill:{colour}}}" for at, colour in enumerate(_mix_colours(DARK_RAMP)))
    return f"{light}\n@media screen and (prefers-color-scheme:dark){{{dark}}}\n"


def _mix_colours(colours: tuple[tuple[int, int, int], ...]) -> list[str]:
    ramp = np.array(colours, dtype=np.float64)
    place = np.linspace(0, len(ramp) - 1, SHADES)
    low = np.minimum(place.astype(int), len(ramp) - 2)
    mixed = ramp[low] + (ramp[low + 1] - ramp[low]) * (place - low)[:, None]
    return ["#" + "".join(f"{round(part):02x}" for part in colour) for colour in mixed.tolist()]


def _scale_linearly(values: Reals, low: float, high: float) -> Reals:
    share: Reals = (values - low) / max(high - low, 1e-300)
    return share


def draw_cells(mask: NDArray[np.bool_], *, kind: str) -> str:
    """Draw the marked cells of a matrix, row 0 at the bottom, as one path; neighbours in a row are one rectangle.

    >>> draw_cells(np.array([[True, True], [False, True]]), kind="s1")
    '<path d="M0 1h2v1h-2zM1 0h1v1h-1z" class="s1"/>'
    """
    last, path = len(mask) - 1, []
    for row in range(len(mask)):
        place = 0
        for is_here, run in groupby(mask[row].tolist()):
            length = len(list(run))
            if is_here:
                path.append(f"M{place} {last - row}h{length}v1h-{length}z")
            place += length
    return f'<path d="{"".join(path)}" class="{kind}"/>'


def _draw_heat_scale(low: float, high: float, y: float, note: Words) -> str:
    wide = 6
    strip = "".join(
        f'<rect x="{at * wide}" y="{y:.1f}" width="{wide + 0.3}" height="9" class="s{at}"/>' for at in range(SHADES)
    )
    ends = write_text(0, y + 23, write_number(low), kind="quiet") + write_text(
        SHADES * wide, y + 23, write_number(high), anchor="end", kind="quiet"
    )
    return strip + ends + write_text(SHADES * wide + 14, y + 9, note, kind="quiet")


def _average_blocks(values: Reals) -> tuple[Reals, int]:
    """Means over square blocks of what there is, so that a large map stays a small picture."""
    side = -(-max(values.shape) // MOST_SIDE)
    if side == 1:
        return values, 1
    starts = [np.arange(0, length, side) for length in values.shape]
    known = np.isfinite(values)
    sums, counts = (
        np.add.reduceat(np.add.reduceat(cells, starts[0], 0), starts[1], 1)
        for cells in (np.where(known, values, 0.0), known.astype(np.float64))
    )
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan), side
