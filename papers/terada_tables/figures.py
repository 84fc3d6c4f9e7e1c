"""Figures 1-4: sums over blocks, true against published, one data set. Drawn as SVG without any package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from papers.terada_tables.tables import ROWS, made_up
from sudare.noise import SeededRng

SEED = 2017
POINTS = 4000  # of the 32,768 blocks of 16 cells; all of the 512 blocks of 1,024
FIGURES = ((1, "privelet", 16), (2, "proposed", 16), (3, "privelet", 1024), (4, "proposed", 1024))
SIDE, LEFT, TOP = 380, 70, 46
PAPER, INK, QUIET, LINE, DOT = "#faf8f3", "#24323a", "#66757d", "#d9d4c7", "#0f766e"

Reals = NDArray[np.float64]


def draw_figures(folder: Path, *, levels: int = 19) -> list[Path]:
    """Draw all four; the same axes for the two methods, so that they can be compared."""
    folder.mkdir(exist_ok=True)
    truth = made_up(1, levels=levels)
    outs = {name: np.asarray(ROWS[name][1](truth, SeededRng(SEED)), dtype=float) for name in ("privelet", "proposed")}
    paths = []
    for number, name, cells in FIGURES:
        true, published = (v.reshape(-1, cells).sum(axis=1) for v in (truth.astype(float), outs[name]))
        top = 4000.0 if cells == 16 else float(np.quantile(true, 0.98))
        method = "Privelet" if name == "privelet" else "Top-down"
        title = f"Figure {number}. {method}: sums over {cells:,} cells, epsilon = 0.1"
        paths.append(folder / f"figure{number}.svg")
        paths[-1].write_text(
            scatter(true, published, low=-1000.0 if cells == 16 else 0.0, top=top, title=title), "utf-8"
        )
    return paths


def scatter(true: Reals, published: Reals, *, low: float, top: float, title: str) -> str:
    """Dots within low..top of both axes, and the line where both are equal."""
    chosen = np.random.default_rng(SEED).permutation(len(true))[:POINTS]
    x, y = _place(true[chosen], low, top), _place(published[chosen], low, top)
    inside = (x >= 0) & (x <= SIDE) & (y >= 0) & (y <= SIDE)
    dots = "".join(f"M{LEFT + a:.1f} {TOP + SIDE - b:.1f}h0" for a, b in zip(x[inside], y[inside], strict=True))
    ticks = "".join(_tick(value, low, top) for value in _ticks(low, top))
    width, height = LEFT + SIDE + 30, TOP + SIDE + 56
    size = 2.4 if len(x) > 1000 else 4
    pen = f'stroke="{DOT}" stroke-width="{size}" stroke-linecap="round" stroke-opacity="0.6" fill="none"'
    text = f'font-family="system-ui, sans-serif" font-size="12" fill="{QUIET}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f'<rect width="{width}" height="{height}" fill="{PAPER}"/>'
        f'<text x="20" y="26" font-family="system-ui, sans-serif" font-size="14" fill="{INK}">{title}</text>{ticks}'
        f'<path d="M{LEFT} {TOP + SIDE}L{LEFT + SIDE} {TOP}" stroke="{QUIET}" stroke-dasharray="4 4" fill="none"/>'
        f'<path d="{dots}" {pen}/>'
        f'<text x="{LEFT + SIDE / 2}" y="{height - 14}" text-anchor="middle" {text}>people of a block, true</text>'
        f'<text transform="translate(16 {TOP + SIDE / 2}) rotate(-90)" text-anchor="middle" {text}>published</text>'
        "</svg>\n"
    )


def _place(values: Reals, low: float, top: float) -> Reals:
    return (values - low) / (top - low) * SIDE


def _ticks(low: float, top: float) -> list[float]:
    step = 10.0 ** np.floor(np.log10(top / 2))
    step *= next(factor for factor in (1, 2, 5, 10) if top / (step * factor) <= 6)
    return [step * k for k in range(int(np.ceil(low / step)), int(top / step) + 1)]


def _tick(value: float, low: float, top: float) -> str:
    at = (value - low) / (top - low) * SIDE
    text = f'font-family="system-ui, sans-serif" font-size="11" fill="{QUIET}"'
    return (
        f'<path d="M{LEFT} {TOP + SIDE - at:.1f}h{SIDE}M{LEFT + at:.1f} {TOP}v{SIDE}" stroke="{LINE}"/>'
        f'<text x="{LEFT - 6}" y="{TOP + SIDE - at + 4:.1f}" text-anchor="end" {text}>{value:,.0f}</text>'
        f'<text x="{LEFT + at:.1f}" y="{TOP + SIDE + 18}" text-anchor="middle" {text}>{value:,.0f}</text>'
    )
