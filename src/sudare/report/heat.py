"""Maps of numbers as inline SVG: cells by colour, blank where there is no number."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from sudare.messages import say
from sudare.report.maps import RAMP
from sudare.report.shapes import Reals, number
from sudare.report.svg import WIDTH, drawing, fitted, text

Names = tuple[Sequence[str], Sequence[str]]

MOST_SIDE = 120  # cells along a side; larger maps are drawn in blocks
SHADES = 24
MOST_NAMED, NAMED = 12, 78  # rows that are named, and the room for their names
DARK_RAMP = ((28, 52, 60), (30, 92, 92), (56, 146, 130), (140, 205, 178), (236, 250, 238))


def heat(values: Reals, *, title: str, stretch: float = 1.0, is_log: bool = False, names: Names | None = None) -> str:
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
    return drawing(WIDTH, tall + 40, title, placed + _scale(low, high, tall + 12, note))


def _named(names: Names, left: float, unit: float, tall: float) -> str:
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


def _scale(low: float, high: float, y: float, note: str) -> str:
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
