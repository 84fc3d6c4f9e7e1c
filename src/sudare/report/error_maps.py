"""A map to be read and printed: people per cell in classes of colour, and beside it the error of every cell.

Colours are classes with their numbers below them, so that a reader tells the number of a cell by its colour, on paper
as on a screen. Cells whose margin of error exceeds the published number are hatched. Only published numbers enter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from unicodedata import east_asian_width

import numpy as np

from sudare.report.maps import (
    BOTTOM,
    EMPTY,
    FONT,
    INK,
    MARGIN,
    QUIET,
    TOP,
    PixelGrid,
    measure_aspect,
)
from sudare.report.svg import RAMP, WIDTH, escape
from sudare.schema import MeshCells
from sudare.schema.arrays import Booleans, Codes, Integers, Reals
from sudare.text import Words, text

WHITE = "#ffffff"
ERROR_RAMP = ((254, 240, 217), (253, 204, 138), (252, 141, 89), (215, 48, 31), (127, 0, 0))  # light to dark, as RAMP
PER_CENTS = (0, 5, 10, 25, 50, 100)  # classes of the error
LEAST_SHOWN = 1e-9  # an error of 0 has the first colour; where 0 is published there is no share of it
MOST_CLASSES = 7  # colours that a reader still tells apart
SPANS = {1: (0.55, 0.55), 2: (0.35, 0.75), 3: (0.2, 0.9)}  # of the ramp, where classes are few: the first is seen too
SWATCH = 46  # units of a colour in the legend, where its labels are short
DIGIT = 6.5  # units that a digit of the legend takes, in the widest of the usual fonts
MOST_NAMES = 200  # areas that a name is tried on; more have no room in a picture of this size
NAME_TALL = 13  # units that a name on the map takes upwards
HATCH_STEP = 5  # units between the lines of the hatch
LEGEND = 64  # units below the maps
NOTE_TALL = 15  # units of a line of notes
LEAST_BEYOND = 4  # cells shown around those that a picture is about


def draw_error_map(
    cells: MeshCells,
    codes: Codes,
    people: Integers,
    margins: Reals,
    *,
    title: Words,
    notes: Sequence[Words] = (),
    areas: Codes | None = None,
    names: Sequence[str] = (),
) -> str:
    """Draw published cells and, beside them, their margins of error in per cent of them; this picture may leave.

    `codes` and `people` are the published cells, `margins[code]` the margin of every cell of the area. With
    `areas`, the area of every cell, its numbers are those of that area, and the borders between areas are drawn.
    `names[area]` is written on an area where it has room; the picture ends with the areas that have a name. Without
    areas it ends around the cells whose number exceeds its error, where they lie in a small part of the map.
    """
    every = np.arange(cells.size, dtype=np.int64)
    counts = np.zeros(cells.size, dtype=np.int64)
    counts[codes] = people
    left = ClassColours.choose(people, RAMP)
    right = ClassColours(PER_CENTS, ERROR_RAMP)
    errors = np.where(counts > 0, np.maximum(100 * margins / np.maximum(counts, 1), LEAST_SHOWN), 0.0)
    frame = _find_certain(cells, counts, margins) if areas is None else _find_named(areas, names)
    grid = PixelGrid(cells, frame=frame)
    tall = WIDTH * grid.height / (grid.width * measure_aspect(cells))
    is_hatched = (counts > 0) & (margins > counts)
    shown = text("people per area, published") if areas is not None else text("people per cell, published")
    panels = [
        _place_panel(0, shown, grid.paint(every, left.paint(counts)), tall),
        _place_hatch(grid, every, is_hatched, tall),
        _place_panel(
            1, text("margin of error, % of the published number"), grid.paint(every, right.paint(errors)), tall
        ),
    ]
    legends = [left.draw(MARGIN, TOP + tall + 14), right.draw(2 * MARGIN + WIDTH, TOP + tall + 14)]
    if areas is not None:
        panels += [*_place_borders(grid, areas, tall), *_place_names(grid, areas, names, tall)]
    told = _explain_areas(margins) if areas is not None else [_tell_margins(margins), *_explain(is_hatched)]
    if areas is None and frame is not None:
        told.append(_tell_outside(counts, frame))
    lines = [*told, *notes]
    below = LEGEND + max(BOTTOM, NOTE_TALL * len(lines) + 6)
    return _frame(title, TOP + tall + below, [*panels, *legends, _write_notes(lines, TOP + tall + LEGEND)])


def _frame(title: Words, height: float, parts: Sequence[str]) -> str:
    """Put two maps, their legends and notes on a white ground below a title."""
    width = 3 * MARGIN + 2 * WIDTH
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:.0f}" '
        f'viewBox="0 0 {width} {height:.0f}" role="img"><title>{escape(title)}</title>'
        f'<rect width="{width}" height="{height:.0f}" fill="{WHITE}"/>'
        f'<text x="{MARGIN}" y="28" {FONT} font-size="16" fill="{INK}">{escape(title)}</text>'
        f"{''.join(parts)}</svg>\n"
    )


class ClassColours:
    """Classes of numbers with a colour each: from every bound to the next one; below the first, nobody."""

    def __init__(self, bounds: Sequence[float], ramp: Sequence[tuple[int, int, int]]) -> None:
        self.bounds = tuple(bounds)
        first, last = SPANS.get(len(self.bounds), (0.0, 1.0))
        place = np.linspace(first, last, max(2, len(self.bounds))) * (len(ramp) - 1)
        table = np.array(ramp, dtype=np.float64)
        low = np.minimum(place.astype(np.int64), len(ramp) - 2)
        part = (place - low)[:, None]
        self.colours = np.rint(table[low] * (1 - part) + table[low + 1] * part).astype(np.uint8)

    @classmethod
    def choose(cls, values: Integers | Reals, ramp: Sequence[tuple[int, int, int]]) -> ClassColours:
        """Choose bounds that people read: 1, 2, 5, 10 ..., 1, 3, 10 ..., or 1, 10, 100 ..., at most seven.

        >>> ClassColours.choose(np.array([4, 80]), RAMP).bounds, ClassColours.choose(np.array([3, 10**6]), RAMP).bounds
        ((2, 5, 10, 20, 50), (1, 10, 100, 1000, 10000, 100000, 1000000))
        """
        filled = values[values > 0]
        low, high = (float(filled.min()), float(filled.max())) if len(filled) else (1.0, 1.0)
        low = max(low, high / 10**MOST_CLASSES, 1.0)
        for steps in ((1, 2, 5), (1, 3), (1,)):
            powers = range(math.floor(math.log10(low)), math.floor(math.log10(max(high, 1.0))) + 1)
            every = [step * 10**power for power in powers for step in steps if step * 10**power <= max(high, 1.0)]
            bounds = [bound for place, bound in enumerate(every) if place == len(every) - 1 or every[place + 1] > low]
            if len(bounds) <= MOST_CLASSES:
                return cls(bounds, ramp)
        return cls(bounds[-MOST_CLASSES:], ramp)

    def paint(self, values: Integers | Reals) -> np.ndarray:
        """Colour numbers: (m, 3); nobody is pale, what lies below the first class has its colour."""
        place = np.maximum(np.searchsorted(np.array(self.bounds), values, side="right") - 1, 0)
        painted = self.colours[place]
        painted[np.asarray(values) <= 0] = EMPTY
        return np.asarray(painted)

    def draw(self, x: float, y: float) -> str:
        """Draw the legend: a swatch for each class with the number it begins at, a pale one for nobody."""
        labels = ["–" if self.bounds == PER_CENTS else "0", *map(self._label, self.bounds)]
        wide = min(max(SWATCH, DIGIT * max(map(len, labels))), WIDTH / len(labels))
        colours = [EMPTY, *self.colours]
        return "".join(
            _draw_swatch(x + place * wide, y, colour, label, wide=wide)
            for place, (colour, label) in enumerate(zip(colours, labels, strict=False))  # one class has a spare colour
        )

    def _label(self, bound: float) -> str:
        if self.bounds != PER_CENTS:
            return f"{bound:,}–"
        return f"{bound}%–" if bound else f"<{PER_CENTS[1]}%"


def _draw_swatch(x: float, y: float, colour: Sequence[int], label: str, *, wide: float) -> str:
    return (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{wide - 2:.0f}" height="10" fill="rgb{tuple(map(int, colour))}" '
        f'stroke="{QUIET}" stroke-width="0.3"/>'
        f'<text x="{x:.0f}" y="{y + 23:.0f}" {FONT} font-size="10" fill="{INK}">{escape(label)}</text>'
    )


def _place_panel(place: int, name: Words, image: str, tall: float) -> str:
    left = MARGIN + place * (WIDTH + MARGIN)
    return (
        f'<text x="{left}" y="{TOP - 10}" {FONT} font-size="13" fill="{INK}">{escape(name)}</text>'
        f'<image x="{left}" y="{TOP}" width="{WIDTH}" height="{tall:.1f}" preserveAspectRatio="none" '
        f'style="image-rendering:pixelated" href="{image}"/>'
        f'<rect x="{left}" y="{TOP}" width="{WIDTH}" height="{tall:.1f}" fill="none" stroke="{QUIET}" '
        'stroke-width="0.5"/>'
    )


def _place_borders(grid: PixelGrid, areas: Codes, tall: float) -> list[str]:
    """Draw lines between areas over both panels."""
    wide, high = WIDTH / grid.width, tall / grid.height
    found = []
    for left in (MARGIN, 2 * MARGIN + WIDTH):
        lines = "".join(
            f"M{left + x * wide:.1f} {TOP + y * high:.1f}L{left + right * wide:.1f} {TOP + below * high:.1f}"
            for x, y, right, below in grid.find_borders(areas).tolist()
        )
        for ink, width in ((WHITE, 1.6), (INK, 0.6)):
            found.append(f'<path d="{lines}" stroke="{ink}" stroke-width="{width}" fill="none"/>')
    return found


def _find_named(areas: Codes | None, names: Sequence[str]) -> Codes | None:
    """The cells of areas with a name; none if there are none, so that all are shown."""
    if areas is None or not any(names):
        return None
    return np.flatnonzero(np.array([bool(name) for name in names])[areas])


def _find_certain(cells: MeshCells, counts: Integers, margins: Reals) -> Codes | None:
    """The cells of a box around those that exceed their error; none where the box would leave out little."""
    is_certain = (counts > 0) & (margins <= counts)
    rows, columns = cells.grid(np.arange(cells.size, dtype=np.int64))
    inside = np.ones(cells.size, dtype=np.bool_)
    for line in (rows, columns):
        certain = line[is_certain]
        if not certain.size:
            return None
        low, high = int(certain.min()), int(certain.max())
        beyond = max(LEAST_BEYOND, (high - low + 1) // 10)
        inside &= (line >= low - beyond) & (line <= high + beyond)
    return np.flatnonzero(inside) if 2 * int(inside.sum()) <= cells.size else None


def _tell_outside(counts: Integers, frame: Codes) -> Words:
    outside = counts.copy()
    outside[frame] = 0
    return text(
        "Not shown: {cells} cells farther out, together {people} people, each fewer than its margin of error.",
        cells=f"{int((outside > 0).sum()):,}",
        people=f"{int(outside.sum()):,}",
    )


def _place_names(grid: PixelGrid, areas: Codes, names: Sequence[str], tall: float) -> list[str]:
    """Write names on their areas in the first panel, the largest areas first; a name without room is left out."""
    numbers = grid.lay_out(areas)
    wide, high = WIDTH / grid.width, tall / grid.height
    sizes = np.bincount(numbers[numbers >= 0], minlength=len(names))
    taken: list[tuple[float, float, float]] = []
    found = []
    for area in np.argsort(-sizes, kind="stable")[:MOST_NAMES].tolist():
        if not sizes[area] or not names[area]:
            continue
        y, x = np.nonzero(numbers == area)
        nearest = int(np.argmin((y - y.mean()) ** 2 + (x - x.mean()) ** 2))  # lies in the area, unlike its centre
        across, down = MARGIN + (x[nearest] + 0.5) * wide, TOP + (y[nearest] + 0.5) * high
        half = DIGIT / 2 * sum(2 if east_asian_width(letter) in "WF" else 1 for letter in names[area])
        is_within = MARGIN + half <= across <= MARGIN + WIDTH - half
        if not is_within or any(abs(across - a) < half + b and abs(down - d) < NAME_TALL for a, d, b in taken):
            continue
        taken.append((across, down, half))
        found.append(
            f'<text x="{across:.1f}" y="{down + 4:.1f}" {FONT} font-size="11" text-anchor="middle" fill="{INK}" '
            f'stroke="{WHITE}" stroke-width="3" paint-order="stroke">{escape(names[area])}</text>'
        )
    return found


def _place_hatch(grid: PixelGrid, every: Codes, is_hatched: Booleans, tall: float) -> str:
    """Lay lines over the cells that are less than their error: a pattern seen through a mask with one pixel a cell."""
    mask = np.zeros((len(every), 3), dtype=np.uint8)
    mask[is_hatched] = 255
    image = grid.paint(every, mask, around=(0, 0, 0))
    step = HATCH_STEP
    frame = f'x="{MARGIN}" y="{TOP}" width="{WIDTH}" height="{tall:.1f}"'
    return (
        f'<defs><pattern id="hatch" width="{step}" height="{step}" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><path d="M0 0V{step}" stroke="{INK}" stroke-width="1.1"/></pattern>'
        f'<mask id="unsure" maskUnits="userSpaceOnUse" {frame}><image {frame} preserveAspectRatio="none" '
        f'style="image-rendering:pixelated" href="{image}"/></mask></defs>'
        f'<rect {frame} fill="url(#hatch)" mask="url(#unsure)"/>'
    )


def _tell_margins(margins: Reals) -> Words:
    """Tell the margins in people: one number where all are alike, else the least and the largest."""
    shown = np.ceil(margins[margins > 0]).astype(np.int64)
    if not len(shown):
        return text("The published numbers have no error.")
    low, high = int(shown.min()), int(shown.max())
    if low == high:
        return text("Margin of error of a cell: {margin} people.", margin=f"{high:,}")
    return text("Margin of error of a cell: {low} to {high} people.", low=f"{low:,}", high=f"{high:,}")


def _explain(is_hatched: Booleans) -> list[Words]:
    share = float(is_hatched.sum()) / max(1, is_hatched.size)
    return [
        text("The true number of a cell lies within its margin of error of the unbiased figure in 95 of 100 cases."),
        text("Hatched: the margin of error exceeds the published number ({share} of all cells).", share=f"{share:.0%}"),
        text("Pale: 0 was published; the true number may be up to the margin of error."),
    ]


def _explain_areas(margins: Reals) -> list[Words]:
    shown = np.ceil(margins[margins > 0]).astype(np.int64)
    low, high = (int(shown.min()), int(shown.max())) if len(shown) else (0, 0)
    return [
        text("Margin of error of an area: {margin} people.", margin=f"{high:,}")
        if low == high
        else text("Margin of error of an area: {low} to {high} people.", low=f"{low:,}", high=f"{high:,}"),
        text("The true number of an area lies within its margin of error of the unbiased figure in 95 of 100 cases."),
        text("Hatched: the margin of error exceeds the published number. Every cell has the colour of its area."),
        text("Pale: 0 was published; the true number may be up to the margin of error."),
    ]


def _write_notes(lines: Sequence[Words], y: float) -> str:
    return "".join(
        f'<text x="{MARGIN}" y="{y + NOTE_TALL * place:.0f}" {FONT} font-size="11" fill="{INK}">{escape(line)}</text>'
        for place, line in enumerate(lines)
    )
