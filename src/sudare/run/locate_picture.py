"""A map of estimated people as PNG and SVG, through the extra [pictures]; without it the estimate has no picture."""

from __future__ import annotations

import importlib
import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.messages import say

MOST_SIDE = 150  # cells along a side of the picture; larger maps are drawn in blocks
PIXELS = 480


def has_pictures() -> bool:
    """Tell whether the extra is installed.

    >>> has_pictures() in (True, False)
    True
    """
    return importlib.util.find_spec("vl_convert") is not None


def draw_map(people: NDArray[np.float64], inside: NDArray[np.bool_], place: Path) -> None:
    """Write map.png and map.svg: people per cell, row 0 at the bottom, cells where nobody can be left blank."""
    vl_convert = importlib.import_module("vl_convert")
    drawn = json.dumps(_specification(*_coarse(people, inside)))
    (place / "map.png").write_bytes(vl_convert.vegalite_to_png(drawn, scale=2))
    (place / "map.svg").write_text(vl_convert.vegalite_to_svg(drawn), encoding="utf-8")


def _coarse(
    people: NDArray[np.float64], inside: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.bool_], int]:
    """Mean people per cell of blocks, so that a large map stays a small picture."""
    side = -(-max(people.shape) // MOST_SIDE)
    if side == 1:
        return people, inside, 1
    rows = np.arange(0, people.shape[0], side)
    columns = np.arange(0, people.shape[1], side)
    sums, cells = (np.add.reduceat(np.add.reduceat(one, rows, 0), columns, 1) for one in (people, inside.astype(int)))
    return sums / np.maximum(cells, 1), cells > 0, side


def _specification(people: NDArray[np.float64], inside: NDArray[np.bool_], side: int) -> dict[str, Any]:
    """A Vega-Lite document. Written by hand: Altair takes ten seconds to check ten thousand values."""
    rows, columns = people.shape
    values = [
        {
            "x": c * side,
            "x2": (c + 1) * side,
            "y": r * side,
            "y2": (r + 1) * side,
            "people": round(float(people[r, c]), 4),
        }
        for r, c in np.argwhere(inside).tolist()
    ]
    shrink = PIXELS / max(rows, columns)
    colour = {
        "field": "people",
        "type": "quantitative",
        "title": say("people per cell"),
        "scale": {"scheme": "teals"},
    }
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "data": {"values": values},
        "width": columns * shrink,
        "height": rows * shrink,
        "background": "#ffffff",
        "mark": {"type": "rect", "strokeWidth": 0.4},
        "encoding": {
            "x": _axis("x", say("column"), columns * side),
            "x2": {"field": "x2"},
            "y": _axis("y", say("row"), rows * side),
            "y2": {"field": "y2"},
            "fill": colour,
            "stroke": colour,  # without it the seams between cells shine through
        },
        "config": {"view": {"fill": "#f2f2f2", "stroke": None}, "axis": {"grid": False}},
    }


def _axis(field: str, title: str, end: int) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "title": title, "scale": {"domain": [0, end], "nice": False}}
