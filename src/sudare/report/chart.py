"""A picture of an answer: bars with their intervals, a panel for each column of numbers; as SVG, or for a terminal."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from sudare.asking.answers import AnswerTable, Estimate, find_span, show_cell
from sudare.errors import ParameterError
from sudare.report.svg import escape, fit_text, measure_text, write_text
from sudare.text import text

MOST_BARS = 200
BARS, MOST_NAMES, ROW = 300, 330, 24  # units of a drawing: for the longest bar, for names beside bars at most, of a row
HEAD = 34  # units above the bars of a panel, for its title
CELLS = 40  # signs of the longest bar on a terminal
GOES_ON = text("▸ the interval goes on beyond the scale")
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1f2933}.quiet{fill:#52606d}.title{font-weight:600}"
    ".bar{fill:#2f8577}.reach{stroke:#102a43;stroke-width:1.8;fill:none}.rule{stroke:#cbd2d9;fill:none}"
    "@media(prefers-color-scheme:dark){text{fill:#e4e7eb}.quiet{fill:#9aa5b1}.bar{fill:#388a7f}.reach{stroke:#f0f4f8}"
    ".rule{stroke:#3e4c59}.paper{fill:#10202c}}"
)


@dataclass(frozen=True, slots=True)
class AnswerBar:
    """One bar: its name and its number, with an interval or without."""

    name: str
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class ChartPanel:
    """One column of numbers: its name, and a bar for each row that has a number there."""

    title: str
    bars: list[AnswerBar]


def find_panels(answer: AnswerTable) -> list[ChartPanel]:
    """Every column of estimates with a bar for each of its rows, named by the labels of the row."""
    places = [place for place in range(len(answer.columns)) if answer.is_estimated(place)]
    if not places:
        raise ParameterError("the answer has no estimated number to draw; select COUNT(*), SUM or AVG")
    if len(answer.rows) * len(places) > MOST_BARS:
        raise ParameterError("a chart holds at most {most} bars; group by less, or add LIMIT", most=MOST_BARS)
    labels = [place for place in range(len(answer.columns)) if place not in places]
    missing = str(text("(missing)"))
    panels = []
    for number in places:
        title, bars = answer.columns[number], []
        for row in answer.rows:
            cell = row[number]
            if isinstance(cell, Estimate):
                bars.append(AnswerBar(" · ".join(show_cell(row[place]) or missing for place in labels) or title, cell))
        panels.append(ChartPanel(title, bars))
    return panels


def _span(bars: Sequence[AnswerBar]) -> tuple[float, float]:
    """Where the scale starts and stops."""
    return find_span([bar.estimate for bar in bars])


def _is_cut(bars: Sequence[AnswerBar], span: tuple[float, float]) -> bool:
    """Tell whether an interval goes on beyond the scale."""
    return any(bar.estimate.has_interval and _goes_on(bar.estimate, span) != (False, False) for bar in bars)


def _goes_on(estimate: Estimate, span: tuple[float, float]) -> tuple[bool, bool]:
    """Whether an interval goes on beyond the start of the scale, and beyond its stop; one without an end does."""
    return estimate.low < span[0], estimate.high > span[1]


@dataclass(frozen=True, slots=True)
class ChartScale:
    """Where numbers stand in a drawing: bars begin after the names, and all numbers of the answer fit behind them."""

    start: float
    stop: float
    names: float
    wide: float

    def place(self, number: float) -> float:
        """Where a number stands; one beyond the scale stands at its end."""
        inside = min(max(number, self.start), self.stop)
        return self.names + (inside - self.start) * BARS / (self.stop - self.start)


def _find_scales(panels: Sequence[ChartPanel]) -> list[ChartScale]:
    """The scale of every panel: each has its own numbers, all are as wide."""
    every = [bar for panel in panels for bar in panel.bars]
    names = min(MOST_NAMES, max((measure_text(bar.name) for bar in every), default=0.0)) + 14
    numbers = max((measure_text(str(bar.estimate)) for bar in every), default=0.0) + 14
    return [ChartScale(*_span(panel.bars), names, names + BARS + numbers) for panel in panels]


def draw_chart(answer: AnswerTable) -> str:
    """Draw an answer as SVG: bars, and a line with ends for each interval; an arrow where it goes on beyond the scale.

    Several columns of numbers stand one below the other, each with a scale of its own.
    """
    panels = find_panels(answer)
    scales = _find_scales(panels)
    note = text("bars: estimates; lines: intervals of level {level}", level=answer.level)
    parts, tall = list[str](), 0
    for panel, scale in zip(panels, scales, strict=True):
        parts += _draw_panel(panel, scale, tall)
        tall += HEAD + ROW * len(panel.bars) + 14
    tall += 12
    parts.append(write_text(0, tall - 8, note, kind="quiet"))
    if any(_is_cut(panel.bars, (scale.start, scale.stop)) for panel, scale in zip(panels, scales, strict=True)):
        tall += ROW
        parts.append(write_text(0, tall - 8, GOES_ON, kind="quiet"))
    titles = ", ".join(panel.title for panel in panels)
    words = max(measure_text(str(words)) for words in (note, *(panel.title for panel in panels)))
    wide, high = round(max(scales[0].wide, words)) + 24, tall + 4
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-12 -4 {wide} {high}" width="{wide}" height="{high}"'
        f' role="img" aria-label="{escape(titles)}"><style>{STYLE}</style>'
        f'<rect class="paper" x="-12" y="-4" width="{wide}" height="{high}" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def _draw_panel(panel: ChartPanel, scale: ChartScale, start: float) -> list[str]:
    top = start + HEAD
    zero = scale.place(0.0) if scale.start <= 0 <= scale.stop else scale.names
    rule = f'<path d="M{zero:.1f} {top - 6}V{top + ROW * len(panel.bars)}" class="rule"/>'
    bars = [_draw_bar(bar, top + row * ROW, zero, scale) for row, bar in enumerate(panel.bars)]
    return [write_text(0, start + 16, panel.title, kind="title"), rule, *bars]


def _draw_bar(bar: AnswerBar, y: float, zero: float, scale: ChartScale) -> str:
    at = scale.place(bar.estimate.value)
    left, wide = min(zero, at), abs(at - zero)
    name = fit_text(bar.name, (scale.names - 14) * 0.88)  # letters here are larger than those that it counts
    parts = [
        write_text(scale.names - 8, y + 13, name, anchor="end", full=bar.name),
        f'<rect x="{left:.1f}" y="{y + 2}" width="{wide:.1f}" height="14" class="bar"/>',
    ]
    if bar.estimate.has_interval:
        low, high = scale.place(bar.estimate.low), scale.place(bar.estimate.high)
        goes_on = _goes_on(bar.estimate, (scale.start, scale.stop))
        strokes = "".join(
            f"M{place - 5 * turn:.1f} {y + 5}l{5 * turn} 4l{-5 * turn} 4" if is_on else f"M{place:.1f} {y + 5}v8"
            for place, turn, is_on in zip((low, high), (-1, 1), goes_on, strict=True)
        )
        parts.append(f'<path d="M{low:.1f} {y + 9}H{high:.1f}{strokes}" class="reach"/>')
    parts.append(write_text(scale.wide, y + 13, str(bar.estimate), anchor="end", kind="quiet"))
    return "".join(parts)


def write_chart(answer: AnswerTable) -> list[str]:
    """Draw an answer in signs, one line a row: █ up to the low end, ▓ up to the estimate, ░ up to the high end."""
    panels = find_panels(answer)
    wide = min(28, max((_width(bar.name) for panel in panels for bar in panel.bars), default=0))
    lines = []
    for panel in panels:
        start, stop = _span(panel.bars)
        lines.append(panel.title)
        for bar in panel.bars:
            lines.append(f"{_pad(bar.name, wide)}  {_signs(bar.estimate, start, stop)}  {bar.estimate}")
    lines.append(
        str(text("█ up to the low end, ▓ up to the estimate, ░ up to the high end; level {level}", level=answer.level))
    )
    if any(_is_cut(panel.bars, _span(panel.bars)) for panel in panels):
        lines.append(str(GOES_ON))
    return lines


def _signs(estimate: Estimate, start: float, stop: float) -> str:
    """A bar from 0 to the estimate, then to the far end of its interval; a line stands at 0 if bars go left."""

    def count(number: float) -> int:
        return round(CELLS * (min(max(number, start), stop) - start) / (stop - start))

    zero, at = count(0.0), count(estimate.value)
    low, high = (count(estimate.low), count(estimate.high)) if estimate.has_interval else (at, at)
    is_bar = [min(zero, at) <= cell < max(zero, at) for cell in range(CELLS)]
    is_reach = [low <= cell < high for cell in range(CELLS)]
    signs = {(True, False): "█", (True, True): "▓", (False, True): "░", (False, False): " "}
    drawn = "".join(signs[pair] for pair in zip(is_bar, is_reach, strict=True))
    if estimate.has_interval:
        goes_left, goes_right = _goes_on(estimate, (start, stop))
        drawn = ("◂" if goes_left else drawn[0]) + drawn[1:-1] + ("▸" if goes_right else drawn[-1])
    return drawn if zero == 0 else f"{drawn[:zero]}│{drawn[zero:]}"


def _width(words: str) -> int:
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in words)


def _pad(words: str, wide: int) -> str:
    shown = words
    while _width(shown) > wide:
        shown = shown[:-2] + "…"
    return shown + " " * (wide - _width(shown))


def write_markdown(answer: AnswerTable) -> str:
    """Write an answer as a table of Markdown."""
    lines = [_markdown_row(answer.columns)]
    lines.append(
        _markdown_row(["---:" if answer.is_estimated(place) else "---" for place in range(len(answer.columns))])
    )
    lines += [_markdown_row([show_cell(cell) for cell in row]) for row in answer.rows]
    return "\n".join([*lines, "", *(f"- {note}" for note in answer.remarks)]).rstrip() + "\n"


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
