"""Small drawings as inline SVG: bars, columns, lines. Colours are classes, so a page can turn dark."""

from __future__ import annotations

import base64
import math
import struct
import unicodedata
import zlib
from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.report.shapes import Marginal, count, number
from sudare.schema import MeshCells
from sudare.schema.arrays import Codes, Integers, Reals
from sudare.text import say

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


# Maps of mesh cells as SVG: one pixel a cell in an embedded picture, a scale of colours, a line of words.
#
# The public sees what is published. The steward may see the truth beside it; that picture is stamped, and the truth
# comes as plain numbers, since this room does not read counts.


Bytes = NDArray[np.uint8]
Ramp = tuple[tuple[int, int, int], ...]

PAPER, INK, QUIET = "#faf8f3", "#24323a", "#66757d"
WARNING = "#c2410c"
OUTSIDE, EMPTY = (250, 248, 243), (231, 226, 214)
RAMP = ((214, 231, 219), (134, 189, 171), (56, 138, 127), (15, 92, 92), (16, 42, 67))  # few people to many
NIGHT = ((46, 88, 92), (48, 124, 116), (80, 170, 148), (160, 216, 190), (242, 251, 242))  # the same in the dark
NIGHT_EMPTY = (38, 49, 56)
FONT = "font-family=\"system-ui, 'Segoe UI', 'Hiragino Sans', 'Yu Gothic', 'Noto Sans JP', sans-serif\""
MARGIN, TOP, BOTTOM = 20, 64, 66
MOST_PIXELS = 2**24


def public_map(cells: MeshCells, codes: Codes, people: Integers, *, title: str) -> str:
    """Draw the published cells alone: this picture may leave."""
    return _page(
        [(say("published"), _Grid(cells).image(codes, people, _map_top(people)))], cells, _map_top(people), title=title
    )


def steward_map(
    cells: MeshCells, codes: Codes, people: Integers, *, true_codes: Codes, true_people: Integers, title: str
) -> str:
    """Draw the truth beside the published cells, stamped as not for publication."""
    grid, top = _Grid(cells), max(_map_top(people), _map_top(true_people))
    maps = [
        (say("true"), grid.image(true_codes, true_people, top)),
        (say("published"), grid.image(codes, people, top)),
    ]
    return _page(maps, cells, top, title=title, stamp=say("not for publication: the left map shows the true table"))


def page_map(cells: MeshCells, codes: Codes, people: Integers, *, title: str, top: int | None = None) -> str:
    """Draw cells for a page that may be light or dark: two pictures in one, of which style shows one; no frame."""
    grid, most = _Grid(cells), top or _map_top(people)
    tall = WIDTH * grid.height / (grid.width * _squeeze(cells))
    images = "".join(
        f'<image class="{kind}" width="{WIDTH}" height="{tall:.1f}" preserveAspectRatio="none" '
        f'style="image-rendering:pixelated" href="{grid.layer(codes, people, most, ramp, empty)}"/>'
        for kind, ramp, empty in (("day", RAMP, EMPTY), ("night", NIGHT, NIGHT_EMPTY))
    )
    return f'<svg viewBox="0 0 {WIDTH} {tall:.1f}" role="img" aria-label="{escape(title)}">{images}</svg>'


def page_scale(top: int) -> str:
    """Draw the colours of `page_map` with powers of ten below them."""
    many = np.rint(np.geomspace(1, max(top, 2), 120)).astype(np.int64)
    strips = "".join(
        f'<image class="{kind}" x="4" width="200" height="10" preserveAspectRatio="none" '
        f'href="{_address(colours(many, top, ramp)[None])}"/>'
        for kind, ramp in (("day", RAMP), ("night", NIGHT))
    )
    ticks = [10**power for power in range(19) if 10**power <= top]
    marks = "".join(
        f'<text x="{4 + 200 * math.log(tick) / math.log(max(top, 2)):.0f}" y="25" class="quiet" '
        f'text-anchor="{"start" if tick == 1 else "middle"}">{tick:,}</text>'
        for tick in ticks
    )
    words = escape(say("people per cell; grey: nobody"))
    note = f'<text x="218" y="10" class="quiet">{words}</text>'
    return f'<svg viewBox="0 0 {WIDTH} 30" role="img" aria-label="{words}">{strips}{marks}{note}</svg>'


def write_map(path: Path, picture: str) -> None:
    """Write a picture to a file."""
    path.write_text(picture, encoding="utf-8")


class _Grid:
    """The rectangle of pixels around the cells of an area, north up."""

    def __init__(self, cells: MeshCells) -> None:
        rows, columns = cells.grid(np.arange(cells.size, dtype=np.int64))
        self.south, self.west = int(rows.min()), int(columns.min())
        self.height, self.width = int(rows.max()) - self.south + 1, int(columns.max()) - self.west + 1
        if self.height * self.width > MOST_PIXELS:
            raise ParameterError("a map of {pixels} cells is too large; roll it up first", pixels=cells.size)
        self.cells = cells
        self.base = np.empty((self.height, self.width, 3), dtype=np.uint8)
        self.base[:] = OUTSIDE
        self.base[self._places(rows, columns)] = EMPTY

    def _places(self, rows: Codes, columns: Codes) -> tuple[Codes, Codes]:
        return self.height - 1 - (rows - self.south), columns - self.west

    def image(self, codes: Codes, people: Integers, top: int) -> str:
        """Colour the cells and give the picture as a data address."""
        pixels = self.base.copy()
        pixels[self._places(*self.cells.grid(codes))] = colours(people, top)
        return _address(pixels)

    def layer(self, codes: Codes, people: Integers, top: int, ramp: Ramp, empty: tuple[int, int, int]) -> str:
        """Colour the cells and give the picture as a data address; what is outside is clear."""
        pixels = np.zeros((self.height, self.width, 4), dtype=np.uint8)
        rows, columns = self.cells.grid(np.arange(self.cells.size, dtype=np.int64))
        pixels[self._places(rows, columns)] = (*empty, 255)
        counted = colours(people, top, ramp)
        counted[people <= 0] = empty
        pixels[..., :3][self._places(*self.cells.grid(codes))] = counted
        return _address(pixels)


def _address(pixels: Bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png(pixels)).decode("ascii")


def colours(people: Integers, top: int, scale: Ramp = RAMP) -> Bytes:
    """Colour counts on a logarithmic scale from 1 to `top`; 0 is no colour of the scale.

    >>> colours(np.array([0, 1, 100]), 100).tolist()
    [[231, 226, 214], [214, 231, 219], [16, 42, 67]]
    """
    share = np.log(np.maximum(people, 1)) / max(math.log(max(top, 2)), 1e-9)
    place = np.clip(share, 0, 1) * (len(scale) - 1)
    low = np.minimum(place.astype(np.int64), len(scale) - 2)
    ramp = np.array(scale, dtype=np.float64)
    part = (place - low)[:, None]
    mixed: Bytes = np.rint(ramp[low] * (1 - part) + ramp[low + 1] * part).astype(np.uint8)
    mixed[people <= 0] = EMPTY
    return mixed


def png(pixels: Bytes) -> bytes:
    """Write pixels (rows, columns, 3), or 4 with how far they cover, as a PNG file.

    >>> png(np.zeros((1, 1, 3), dtype=np.uint8))[:4]
    b'\\x89PNG'
    """
    height, width, depth = pixels.shape
    rows = np.zeros((height, 1 + depth * width), dtype=np.uint8)  # every row starts with a filter of 0
    rows[:, 1:] = pixels.reshape(height, -1)
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2 if depth == 3 else 6, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    ]
    chunks = [struct.pack(">I", len(b)) + n + b + struct.pack(">I", zlib.crc32(n + b)) for n, b in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _map_top(people: Integers) -> int:
    return int(people.max()) if len(people) else 1


def _squeeze(cells: MeshCells) -> float:
    """Width of a cell over its height: a degree of longitude is shorter by the cosine of the latitude."""
    bounds = cells.bounds(np.arange(1))
    return math.cos(math.radians(float(bounds.south[0]))) * bounds.width / bounds.height


def _page(maps: list[tuple[str, str]], cells: MeshCells, top: int, *, title: str, stamp: str = "") -> str:
    grid = _Grid(cells)
    tall = WIDTH * grid.height / (grid.width * _squeeze(cells))
    width = MARGIN + len(maps) * (WIDTH + MARGIN)
    height = TOP + tall + BOTTOM
    drawn = "".join(_map(place, name, image, tall) for place, (name, image) in enumerate(maps))
    warning = f'<text x="{MARGIN}" y="{height - 12:.0f}" {FONT} font-size="12" fill="{WARNING}">{escape(stamp)}</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:.0f}" '
        f'viewBox="0 0 {width} {height:.0f}" role="img"><title>{escape(title)}</title>'
        f'<rect width="{width}" height="{height:.0f}" fill="{PAPER}"/>'
        f'<text x="{MARGIN}" y="28" {FONT} font-size="16" fill="{INK}">{escape(title)}</text>'
        f"{drawn}{_legend(top, TOP + tall + 14)}{warning if stamp else ''}</svg>\n"
    )


def _map(place: int, name: str, image: str, tall: float) -> str:
    left = MARGIN + place * (WIDTH + MARGIN)
    return (
        f'<text x="{left}" y="{TOP - 10}" {FONT} font-size="13" fill="{QUIET}">{escape(name)}</text>'
        f'<image x="{left}" y="{TOP}" width="{WIDTH}" height="{tall:.1f}" preserveAspectRatio="none" '
        f'style="image-rendering:pixelated" href="{image}"/>'
    )


def _legend(top: int, y: float) -> str:
    """A strip of colours with powers of ten below it."""
    image = _address(colours(np.rint(np.geomspace(1, max(top, 2), 120)).astype(np.int64), top)[None])
    long = 200
    ticks = [10**power for power in range(19) if 10**power <= top]
    marks = "".join(
        f'<text x="{MARGIN + long * math.log(max(tick, 1)) / math.log(max(top, 2)):.0f}" y="{y + 22:.0f}" {FONT} '
        f'font-size="11" fill="{QUIET}">{tick:,}</text>'
        for tick in ticks
    )
    words = escape(say("people per cell; grey: nobody"))
    return (
        f'<image x="{MARGIN}" y="{y:.0f}" width="{long}" height="9" preserveAspectRatio="none" href="{image}"/>{marks}'
        f'<text x="{MARGIN + long + 14}" y="{y + 9:.0f}" {FONT} font-size="11" fill="{QUIET}">{words}</text>'
    )


# Maps of numbers as inline SVG: cells by colour, blank where there is no number.


AxisNames = tuple[Sequence[str], Sequence[str]]

MOST_SIDE = 120  # cells along a side; larger maps are drawn in blocks
SHADES = 24
MOST_NAMED, NAMED = 12, 78  # rows that are named, and the room for their names
DARK_RAMP = ((28, 52, 60), (30, 92, 92), (56, 146, 130), (140, 205, 178), (236, 250, 238))


def heat(
    values: Reals, *, title: str, stretch: float = 1.0, is_log: bool = False, names: AxisNames | None = None
) -> str:
    """Draw a matrix, row 0 at the bottom; NaN is left blank. `stretch` is the height of a cell over its width.

    `names` are those of the rows and of the columns; rows are named if they are few, columns at both ends.

    With `is_log` equal ratios, not equal differences, are equal steps of colour; all numbers are above 0 then.

    >>> heat(np.array([[0.0, np.nan]]), title="two").count("<path")
    1
    """
    cells, side = _coarse(values)
    found = np.isfinite(cells)
    if not found.any():
        return ""
    low, high = float(cells[found].min()), float(cells[found].max())
    shade = np.full(cells.shape, -1)
    steps = np.log(cells[found] / low) / max(np.log(high / low), 1e-12) if is_log else _share(cells[found], low, high)
    shade[found] = np.minimum(steps * SHADES, SHADES - 1).astype(int)
    rows, across = cells.shape
    has_names = names is not None and side == 1 and rows <= MOST_NAMED
    left = NAMED if has_names else 0
    unit = min((WIDTH - left) / across, 380 / (rows * stretch))
    frame = f'<rect width="{across}" height="{rows}" class="sea"/>'
    shapes = frame + "".join(cells_of(shade == one, kind=f"s{one}") for one in np.unique(shade[found]).tolist())
    tall = rows * unit * stretch
    scaled = f"translate({left}) scale({unit:.4f} {unit * stretch:.4f})"
    placed = f'<g transform="{scaled}" shape-rendering="crispEdges">{shapes}</g>'
    note = say("blocks of {side} by {side} cells", side=side) if side > 1 else ""
    if has_names and names is not None:
        placed += _named(names, left, unit, tall)
        tall += 16
    return drawing(WIDTH, tall + 40, title, placed + _heat_scale(low, high, tall + 12, note))


def _named(names: AxisNames, left: float, unit: float, tall: float) -> str:
    rows, columns = names
    high = tall / len(rows)
    beside = "".join(
        text(left - 7, tall - (at + 0.5) * high + 4, fitted(name, left - 8), anchor="end", kind="quiet", full=name)
        for at, name in enumerate(rows)
    )
    right = left + unit * len(columns)
    first = text(left, tall + 14, fitted(columns[0], 120), kind="quiet")
    return beside + first + text(right, tall + 14, fitted(columns[-1], 120), anchor="end", kind="quiet")


def shade_style() -> str:
    """Give the colours of the scale as style, few to many: towards ink on paper, towards light in the dark.

    >>> shade_style().count("fill:")
    48
    """
    light = "".join(f"svg .s{at}{{fill:{colour}}}" for at, colour in enumerate(_mixed(RAMP)))
    dark = "".join(f"svg .s{at}{{fill:{colour}}}" for at, colour in enumerate(_mixed(DARK_RAMP)))
    return f"{light}\n@media screen and (prefers-color-scheme:dark){{{dark}}}\n"


def _mixed(colours: tuple[tuple[int, int, int], ...]) -> list[str]:
    ramp = np.array(colours, dtype=np.float64)
    place = np.linspace(0, len(ramp) - 1, SHADES)
    low = np.minimum(place.astype(int), len(ramp) - 2)
    mixed = ramp[low] + (ramp[low + 1] - ramp[low]) * (place - low)[:, None]
    return ["#" + "".join(f"{round(part):02x}" for part in colour) for colour in mixed.tolist()]


def _share(values: Reals, low: float, high: float) -> Reals:
    share: Reals = (values - low) / max(high - low, 1e-300)
    return share


def cells_of(mask: NDArray[np.bool_], *, kind: str) -> str:
    """Draw the marked cells of a matrix, row 0 at the bottom, as one path; neighbours in a row are one rectangle.

    >>> cells_of(np.array([[True, True], [False, True]]), kind="s1")
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


def _heat_scale(low: float, high: float, y: float, note: str) -> str:
    wide = 6
    strip = "".join(
        f'<rect x="{at * wide}" y="{y:.1f}" width="{wide + 0.3}" height="9" class="s{at}"/>' for at in range(SHADES)
    )
    ends = text(0, y + 23, number(low), kind="quiet") + text(
        SHADES * wide, y + 23, number(high), anchor="end", kind="quiet"
    )
    return strip + ends + text(SHADES * wide + 14, y + 9, note, kind="quiet")


def _coarse(values: Reals) -> tuple[Reals, int]:
    """Means over square blocks of what there is, so that a large map stays a small picture."""
    side = -(-max(values.shape) // MOST_SIDE)
    if side == 1:
        return values, 1
    starts = [np.arange(0, length, side) for length in values.shape]
    found = np.isfinite(values)
    sums, counts = (
        np.add.reduceat(np.add.reduceat(one, starts[0], 0), starts[1], 1)
        for one in (np.where(found, values, 0.0), found.astype(np.float64))
    )
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan), side
