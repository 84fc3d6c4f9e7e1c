"""Maps of mesh cells as SVG: one pixel a cell in an embedded picture, a scale of colours, a line of words.

The public sees what is published. The steward may see the truth beside it; that picture is stamped, and the truth
comes as plain numbers, since this room does not read counts.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.report.svg import RAMP, WIDTH, escape
from sudare.schema import MeshCells
from sudare.schema.arrays import Booleans, Codes, Integers
from sudare.text import Words, text

Bytes = NDArray[np.uint8]
Ramp = tuple[tuple[int, int, int], ...]

PAPER, INK, QUIET = "#faf8f3", "#24323a", "#66757d"
WARNING = "#c2410c"
OUTSIDE, EMPTY = (250, 248, 243), (231, 226, 214)
NIGHT = ((46, 88, 92), (48, 124, 116), (80, 170, 148), (160, 216, 190), (242, 251, 242))  # the same in the dark
NIGHT_EMPTY = (38, 49, 56)
FONT = "font-family=\"system-ui, 'Segoe UI', 'Hiragino Sans', 'Yu Gothic', 'Noto Sans JP', sans-serif\""
MARGIN, TOP, BOTTOM = 20, 64, 66  # units around a map
MOST_PIXELS = 2**24  # of one picture; a larger map is refused


def draw_public_map(cells: MeshCells, codes: Codes, people: Integers, *, title: Words) -> str:
    """Draw the published cells alone: this picture may leave."""
    return _draw_maps(
        [(text("published"), PixelGrid(cells).image(codes, people, _top(people)))], cells, _top(people), title=title
    )


def draw_steward_map(
    cells: MeshCells, codes: Codes, people: Integers, *, true_codes: Codes, true_people: Integers, title: Words
) -> str:
    """Draw the truth beside the published cells, stamped as not for publication."""
    grid, top = PixelGrid(cells), max(_top(people), _top(true_people))
    maps = [
        (text("true"), grid.image(true_codes, true_people, top)),
        (text("published"), grid.image(codes, people, top)),
    ]
    return _draw_maps(
        maps, cells, top, title=title, stamp=text("not for publication: the left map shows the true table")
    )


def draw_page_map(cells: MeshCells, codes: Codes, people: Integers, *, title: Words, top: int | None = None) -> str:
    """Draw cells for a page that may be light or dark: two pictures in one, of which style shows one; no frame."""
    grid, most = PixelGrid(cells), top or _top(people)
    tall = WIDTH * grid.height / (grid.width * measure_aspect(cells))
    images = "".join(
        f'<image class="{kind}" width="{WIDTH}" height="{tall:.1f}" preserveAspectRatio="none" '
        f'style="image-rendering:pixelated" href="{grid.layer(codes, people, most, ramp, empty)}"/>'
        for kind, ramp, empty in (("day", RAMP, EMPTY), ("night", NIGHT, NIGHT_EMPTY))
    )
    return f'<svg viewBox="0 0 {WIDTH} {tall:.1f}" role="img" aria-label="{escape(title)}">{images}</svg>'


def draw_page_scale(top: int) -> str:
    """Draw the colours of `page_map` with powers of ten below them."""
    many = np.rint(np.geomspace(1, max(top, 2), 120)).astype(np.int64)
    strips = "".join(
        f'<image class="{kind}" x="4" width="200" height="10" preserveAspectRatio="none" '
        f'href="{embed_png(colour_counts(many, top, ramp)[None])}"/>'
        for kind, ramp in (("day", RAMP), ("night", NIGHT))
    )
    ticks = [10**power for power in range(19) if 10**power <= top]
    marks = "".join(
        f'<text x="{4 + 200 * math.log(tick) / math.log(max(top, 2)):.0f}" y="25" class="quiet" '
        f'text-anchor="{"start" if tick == 1 else "middle"}">{tick:,}</text>'
        for tick in ticks
    )
    words = escape(text("people per cell; grey: nobody"))
    note = f'<text x="218" y="10" class="quiet">{words}</text>'
    return f'<svg viewBox="0 0 {WIDTH} 30" role="img" aria-label="{words}">{strips}{marks}{note}</svg>'


def write_map(path: Path, picture: str) -> None:
    """Write a picture to a file."""
    path.write_text(picture, encoding="utf-8")


def _join_lines(lines: Codes, *, along: int) -> Codes:
    """Join lines of one cell that follow each other along a direction."""
    if not len(lines):
        return lines
    lines = lines[np.lexsort((lines[:, along], lines[:, 1 - along]))]
    is_next = (np.diff(lines[:, along]) == 1) & (np.diff(lines[:, 1 - along]) == 0)
    starts = np.append(0, np.flatnonzero(~is_next) + 1)
    stops = np.append(np.flatnonzero(~is_next), len(lines) - 1)
    return np.column_stack([lines[starts][:, :2], lines[stops][:, 2:]])


class PixelGrid:
    """The rectangle of pixels around the cells of an area, north up; `frame` names the cells that it shows."""

    def __init__(self, cells: MeshCells, *, frame: Codes | None = None) -> None:
        rows, columns = cells.grid(np.arange(cells.size, dtype=np.int64) if frame is None else frame)
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

    def _shown_places(self, codes: Codes) -> tuple[Booleans, tuple[Codes, Codes]]:
        """Say which cells lie in the rectangle, and where those do."""
        y, x = self._places(*self.cells.grid(codes))
        is_shown = (y >= 0) & (y < self.height) & (x >= 0) & (x < self.width)
        return is_shown, (y[is_shown], x[is_shown])

    def lay_out(self, areas: Codes) -> Codes:
        """The area of every pixel, -1 where there is no cell."""
        numbers = np.full((self.height, self.width), -1, dtype=np.int64)
        is_shown, places = self._shown_places(np.arange(self.cells.size, dtype=np.int64))
        numbers[places] = areas[is_shown]
        return numbers

    def find_borders(self, areas: Codes) -> Codes:
        """Find the lines between cells of other areas: (m, 4) as x, y, x, y in cells from the top left."""
        numbers = self.lay_out(areas)
        y, x = np.nonzero(numbers[:, 1:] != numbers[:, :-1])
        upright = _join_lines(np.column_stack([x + 1, y, x + 1, y + 1]), along=1)
        y, x = np.nonzero(numbers[1:] != numbers[:-1])
        level = _join_lines(np.column_stack([x, y + 1, x + 1, y + 1]), along=0)
        return np.concatenate([upright, level])

    def image(self, codes: Codes, people: Integers, top: int) -> str:
        """Colour the cells and give the picture as a data address."""
        pixels = self.base.copy()
        pixels[self._places(*self.cells.grid(codes))] = colour_counts(people, top)
        return embed_png(pixels)

    def paint(self, codes: Codes, colours: Bytes, *, around: tuple[int, int, int] = (255, 255, 255)) -> str:
        """Give cells the colours (m, 3) and the rest of the rectangle another; as a data address."""
        pixels = np.empty_like(self.base)
        pixels[:] = around
        is_shown, places = self._shown_places(codes)
        pixels[places] = colours[is_shown]
        return embed_png(pixels)

    def layer(self, codes: Codes, people: Integers, top: int, ramp: Ramp, empty: tuple[int, int, int]) -> str:
        """Colour the cells and give the picture as a data address; what is outside is clear."""
        pixels = np.zeros((self.height, self.width, 4), dtype=np.uint8)
        rows, columns = self.cells.grid(np.arange(self.cells.size, dtype=np.int64))
        pixels[self._places(rows, columns)] = (*empty, 255)
        counted = colour_counts(people, top, ramp)
        counted[people <= 0] = empty
        pixels[..., :3][self._places(*self.cells.grid(codes))] = counted
        return embed_png(pixels)


def embed_png(pixels: Bytes) -> str:
    """Give pixels as a data address of a PNG."""
    return "data:image/png;base64," + base64.b64encode(encode_png(pixels)).decode("ascii")


def colour_counts(people: Integers, top: int, scale: Ramp = RAMP) -> Bytes:
    """Colour counts on a logarithmic scale from 1 to `top`; 0 is no colour of the scale.

    >>> colour_counts(np.array([0, 1, 100]), 100).tolist()
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


def encode_png(pixels: Bytes) -> bytes:
    """Write pixels (rows, columns, 3), or 4 with how far they cover, as a PNG file.

    >>> encode_png(np.zeros((1, 1, 3), dtype=np.uint8))[:4]
    b'\\x89PNG'
    """
    height, width, depth = pixels.shape
    rows = np.zeros((height, 1 + depth * width), dtype=np.uint8)  # every row starts with a filter of 0
    rows[:, 1:] = pixels.reshape(height, -1)
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2 if depth == 3 else 6, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows.tobytes(), 6)),
        (b"IEND", b""),
    ]
    chunks = [struct.pack(">I", len(b)) + n + b + struct.pack(">I", zlib.crc32(n + b)) for n, b in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _top(people: Integers) -> int:
    return int(people.max()) if len(people) else 1


def measure_aspect(cells: MeshCells) -> float:
    """Width of a cell over its height: a degree of longitude is shorter by the cosine of the latitude."""
    bounds = cells.bounds(np.arange(1))
    return math.cos(math.radians(float(bounds.south[0]))) * bounds.width / bounds.height


def _draw_maps(
    maps: Sequence[tuple[Words, str]], cells: MeshCells, top: int, *, title: Words, stamp: Words = ""
) -> str:
    grid = PixelGrid(cells)
    tall = WIDTH * grid.height / (grid.width * measure_aspect(cells))
    width = MARGIN + len(maps) * (WIDTH + MARGIN)
    height = TOP + tall + BOTTOM
    drawn = "".join(_place_map(place, name, image, tall) for place, (name, image) in enumerate(maps))
    warning = f'<text x="{MARGIN}" y="{height - 12:.0f}" {FONT} font-size="12" fill="{WARNING}">{escape(stamp)}</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:.0f}" '
        f'viewBox="0 0 {width} {height:.0f}" role="img"><title>{escape(title)}</title>'
        f'<rect width="{width}" height="{height:.0f}" fill="{PAPER}"/>'
        f'<text x="{MARGIN}" y="28" {FONT} font-size="16" fill="{INK}">{escape(title)}</text>'
        f"{drawn}{_draw_legend(top, TOP + tall + 14)}{warning if stamp else ''}</svg>\n"
    )


def _place_map(place: int, name: Words, image: str, tall: float) -> str:
    left = MARGIN + place * (WIDTH + MARGIN)
    return (
        f'<text x="{left}" y="{TOP - 10}" {FONT} font-size="13" fill="{QUIET}">{escape(name)}</text>'
        f'<image x="{left}" y="{TOP}" width="{WIDTH}" height="{tall:.1f}" preserveAspectRatio="none" '
        f'style="image-rendering:pixelated" href="{image}"/>'
    )


def _draw_legend(top: int, y: float) -> str:
    """A strip of colours with powers of ten below it."""
    image = embed_png(colour_counts(np.rint(np.geomspace(1, max(top, 2), 120)).astype(np.int64), top)[None])
    long = 200
    ticks = [10**power for power in range(19) if 10**power <= top]
    marks = "".join(
        f'<text x="{MARGIN + long * math.log(max(tick, 1)) / math.log(max(top, 2)):.0f}" y="{y + 22:.0f}" {FONT} '
        f'font-size="11" fill="{QUIET}">{tick:,}</text>'
        for tick in ticks
    )
    words = escape(text("people per cell; grey: nobody"))
    return (
        f'<image x="{MARGIN}" y="{y:.0f}" width="{long}" height="9" preserveAspectRatio="none" href="{image}"/>{marks}'
        f'<text x="{MARGIN + long + 14}" y="{y + 9:.0f}" {FONT} font-size="11" fill="{QUIET}">{words}</text>'
    )
