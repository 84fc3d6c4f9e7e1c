"""Small pictures for a page about several releases: a blind, a pyramid, ladders, the reports of one place, a budget."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from html import escape

import numpy as np
from numpy.typing import NDArray

from sudare.messages import say
from sudare.report.heat import SHADES, cells_of
from sudare.report.shapes import Reals, number
from sudare.report.svg import WIDTH, drawing, fitted, text

Codes = NDArray[np.int64]

ROW, BAR = 17, 12
LAND = 2
FAINT = 1000  # a chance so many times below the largest is not drawn


def blind(*, title: str, rows: int = 7) -> str:
    """Draw a table behind a blind: something is there, and nothing of it can be read."""
    slats = "".join(
        f'<rect x="8" y="{10 + at * 11}" width="144" height="6.5" rx="1.5" class="slat"/>' for at in range(rows)
    )
    behind = "".join(
        f'<rect x="{20 + 32 * across}" y="{17 + at * 11}" width="{(22, 14, 26, 18)[(across + at) % 4]}" height="3"'
        ' class="behind"/>'
        for at in range(rows - 1)
        for across in range(4)
    )
    tall = 10 + rows * 11
    cords = "".join(f'<path d="M{x} 4V{tall + 4}" class="cord"/>' for x in (40, 120))
    top = '<rect x="2" y="1" width="156" height="5" rx="2" class="rod"/>'
    return drawing(160, tall + 10, title, f"{behind}{slats}{cords}{top}")


def pyramid(labels: Sequence[str], left: Reals, right: Reals, *, names: tuple[str, str], title: str) -> str:
    """Draw two groups by an ordered attribute, back to back, the first value at the bottom.

    >>> pyramid(["a"], np.array([1.0]), np.array([2.0]), names=("F", "M"), title="t").count("<rect")
    2
    """
    top, middle, wide = max(float(left.max()), float(right.max()), 1e-12), WIDTH / 2, WIDTH / 2 - 44
    tall, parts = len(labels) * ROW, []
    for at, label in enumerate(labels):
        y = 22 + tall - (at + 1) * ROW
        first, second = (wide * max(float(one[at]), 0.0) / top for one in (left, right))
        parts.append(f'<rect x="{middle - 42 - first:.1f}" y="{y}" width="{first:.1f}" height="{BAR}" class="bar"/>')
        parts.append(f'<rect x="{middle + 42:.1f}" y="{y}" width="{second:.1f}" height="{BAR}" class="other"/>')
        parts.append(text(middle, y + 10, fitted(label, 80), anchor="middle", kind="quiet"))
    heads = text(middle - 48, 13, names[0], anchor="end") + text(middle + 48, 13, names[1])
    under = 22 + tall + 13
    most = text(0, under, number(top), kind="quiet") + text(WIDTH, under, number(top), anchor="end", kind="quiet")
    rules = f'<path d="M2 18V{22 + tall}M{WIDTH - 2} 18V{22 + tall}" class="rule"/>'
    return drawing(WIDTH, under + 6, title, rules + heads + "".join(parts) + most)


def ladders(steps: Sequence[tuple[str, Sequence[str], int]], *, title: str) -> str:
    """Draw for each attribute (name, one value at every level, chosen level) the steps from fine to coarse.

    >>> ladders([("age", ["[30,35)", "[30,40)", "*"], 1)], title="levels").count('class="step')
    3
    """
    parts = []
    for row, (name, labels, chosen) in enumerate(steps):
        y, wide = row * 62, WIDTH / max(len(labels), 1)
        parts.append(text(0, y + 14, name))
        for at, label in enumerate(labels):
            kind, ink = ("step taken", "card") if at == chosen else ("step", "quiet")
            x = at * wide
            parts.append(f'<rect x="{x:.1f}" y="{y + 21}" width="{wide - 6:.1f}" height="27" rx="4" class="{kind}"/>')
            words = fitted(label, wide - 16)
            parts.append(text(x + (wide - 6) / 2, y + 39, words, anchor="middle", kind=ink, full=label))
    return drawing(WIDTH, max(len(steps) * 62 - 8, 1), title, "".join(parts))


def landscape(grounds: Codes, *, title: str, over: str = "", ring: tuple[int, int] | None = None) -> str:
    """Draw cells as water (0), park (1) or land (2), row 0 at the bottom; `over` is drawn on them, cell by cell.

    >>> landscape(np.array([[0, 2]]), title="shore").count("<path")
    1
    """
    rows, columns = grounds.shape
    unit = WIDTH / columns
    shapes = "".join(
        cells_of(grounds == at, kind=kind) for at, kind in ((1, "park"), (2, "land")) if (grounds == at).any()
    )
    water = f'<rect width="{columns}" height="{rows}" class="water"/>'
    placed = f'<g transform="scale({unit:.4f})" shape-rendering="crispEdges">{water}{shapes}{over}</g>'
    here = ""
    if ring is not None:
        x, y = (ring[1] + 0.5) * unit, (rows - ring[0] - 0.5) * unit
        here = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="7" class="here"/>'
    return drawing(WIDTH, rows * unit, title, placed + here)


def reports(grounds: Codes, chances: Reals, place: tuple[int, int], *, title: str) -> str:
    """Draw the law of the report of a device: chances by colour on the landscape, a ring where the device is."""
    is_seen = chances > chances.max() / FAINT
    level = 1 - np.log(chances.max() / np.where(is_seen, chances, chances.max())) / np.log(FAINT)
    shade = np.where(is_seen, np.minimum(level * SHADES, SHADES - 1), -1).astype(int)
    over = "".join(cells_of(shade == one, kind=f"s{one}") for one in np.unique(shade[is_seen]).tolist())
    return landscape(grounds, title=title, over=over, ring=place)


def nearest(grounds: Codes, row: float, column: float) -> tuple[int, int]:
    """Find the cell of land nearest to a place given as shares of the way up and across.

    >>> nearest(np.array([[0, 2]]), 0.5, 0.0)
    (0, 1)
    """
    rows, columns = np.nonzero(grounds == LAND)
    height, width = grounds.shape
    best = int(np.argmin((rows / height - row) ** 2 + (columns / width - column) ** 2))
    return int(rows[best]), int(columns[best])


def budget_bar(spent: Sequence[tuple[str, Fraction]], budget: Fraction, *, title: str) -> str:
    """Draw a budget as a bar: what each release took, and what is left.

    >>> budget_bar([("view", Fraction(1, 2))], Fraction(1), title="t").count("<li")
    2
    """
    left = budget - sum((cost for _, cost in spent), Fraction())
    parts = [(name, cost, f"part p{at % 3}") for at, (name, cost) in enumerate(spent)]
    parts += [(say("left"), left, "part unspent")] if left > 0 else []
    bar = "".join(
        f'<span class="{kind}" style="flex:{float(cost / budget):.4f} 0 0"></span>' for _, cost, kind in parts
    )
    keys = "".join(
        f'<li><span class="key {kind}"></span>{escape(name)} <b>{cost}</b></li>' for name, cost, kind in parts
    )
    told = escape(title)
    return f'<div class="budget"><div class="purse" role="img" aria-label="{told}">{bar}</div><ul>{keys}</ul></div>'
