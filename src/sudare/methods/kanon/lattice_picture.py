"""Pictures of a lattice for people: levels by their labels, each with what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sudare.methods.kanon.grouping_words import describe_level
from sudare.methods.kanon.lattice import Lattice, Node
from sudare.report.svg import escape, fit_text, wrap_svg, write_text
from sudare.schema import Attribute
from sudare.text import Text, Words, join_items, text

WIDTH = 960  # units across
MAX_COLUMNS = 5  # attributes side by side; more begin a new row
BOX, GAP, HEAD = 44, 8, 30  # units: height of the box of a level, between two, for the name above
CARD_LINE, CARD_GAP = 15, 30  # units: a line of a card, between two rows of cards
MAX_CARDS = 6  # nodes side by side that are drawn as cards; more are dots
LAYER = 48  # units from row to row of dots


@dataclass(frozen=True, kw_only=True)
class DrawnLevel:
    """A level of an attribute with what it costs."""

    attribute: Attribute
    level: int
    words: Text
    is_chosen: bool
    is_possible: bool
    is_proven: bool


@dataclass(frozen=True, kw_only=True)
class DrawnNode:
    """A node of a small lattice with what is known of it."""

    node: Node
    words: tuple[Words, ...] = ()
    is_kept: bool | None = None  # None: not known
    is_chosen: bool = False
    step: int | None = None  # when the search checked it
    is_start: bool = False  # where the power law predicted a start
    option: str = ""  # what publishes it on the command line; shown under the pointer


# --- a column for each attribute --------------------------------------------------------------------------------------


def draw_levels(columns: Sequence[Sequence[DrawnLevel]]) -> str:
    """Draw the levels of every attribute, the finest at the bottom, in rows of a few attributes."""
    parts, top = [], 0.0
    for start in range(0, len(columns), MAX_COLUMNS):
        row = columns[start : start + MAX_COLUMNS]
        tall = HEAD + max(map(len, row)) * (BOX + GAP)
        wide = WIDTH / min(MAX_COLUMNS, len(columns))
        for place, column in enumerate(row):
            parts.append(_draw_column(column, place * wide, top, wide, tall))
        top += tall + 14
    title = text("levels of {names}", names=", ".join(column[0].attribute.name for column in columns))
    return wrap_svg(WIDTH, top, title, "".join(parts))


def _draw_column(column: Sequence[DrawnLevel], x: float, top: float, wide: float, tall: float) -> str:
    name = column[0].attribute.name
    parts = [write_text(x + 6, top + 19, fit_text(name, wide - 16), kind="ink", full=name)]
    for place, level in enumerate(column):
        y = top + tall - (place + 1) * (BOX + GAP)
        parts.append(_draw_box(level, x + 4, y, wide - 12))
    return "".join(parts)


def _draw_box(level: DrawnLevel, x: float, y: float, wide: float) -> str:
    shape = f'x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{BOX}" rx="5"'
    is_lost = not level.is_possible
    kind = "taken" if level.is_chosen else "step"
    dashes = ' stroke-dasharray="4 3"' if is_lost else ""
    label = describe_level(level.attribute, level.level)
    full = f"{label}: {level.words}"
    room = (wide - 14) * (0.88 if level.is_chosen else 1)  # bold letters are wider
    ink, quiet = ("card", "card") if level.is_chosen else ("quiet", "quiet") if is_lost else ("ink", "quiet")
    crossed = (
        f'<path d="M{x + 8:.1f} {y + 15:.1f}h{wide - 16:.1f}" class="edge"/>' if is_lost and level.is_proven else ""
    )
    return (
        f'<rect {shape} class="{kind}"{dashes}><title>{escape(full)}</title></rect>'
        + write_text(x + 8, y + 19, fit_text(label, room), kind=ink, full=full)
        + crossed
        + write_text(x + 8, y + 36, fit_text(level.words, room), kind=quiet, full=full)
    )


# --- all nodes of a small lattice -------------------------------------------------------------------------------------


def has_cards(nodes: Sequence[DrawnNode]) -> bool:
    """Tell whether there is room for a card for each node; else they are dots."""
    return max(map(len, _sort_into_layers(nodes).values())) <= MAX_CARDS


def _sort_into_layers(nodes: Sequence[DrawnNode]) -> dict[int, list[DrawnNode]]:
    layers: dict[int, list[DrawnNode]] = {}
    for node in nodes:
        layers.setdefault(sum(node.node), []).append(node)
    return layers


def draw_nodes(lattice: Lattice, nodes: Sequence[DrawnNode]) -> str:
    """Draw all nodes by height, the finest at the bottom: as cards with labels where there is room, else as dots."""
    layers, is_roomy = _sort_into_layers(nodes), has_cards(nodes)
    card = (len(lattice.names) + max(len(node.words) for node in nodes)) * CARD_LINE + 12
    step = card + CARD_GAP if is_roomy else LAYER
    tall = step * len(layers) + 16
    places = {
        node.node: (WIDTH * (at + 0.5) / len(layer), tall - step * (height + 0.5) - 8)
        for height, layer in layers.items()
        for at, node in enumerate(layer)
    }
    edges = "".join(
        "M{:.1f} {:.1f}L{:.1f} {:.1f}".format(*places[node.node], *places[coarser])
        for node in nodes
        for coarser in lattice.coarser(node.node)
        if coarser in places
    )
    wide = min(220.0, WIDTH / max(map(len, layers.values())) - 10)
    draw = [
        _draw_card(lattice, node, *places[node.node], wide, card)
        if is_roomy
        else _draw_dot(lattice, node, *places[node.node])
        for node in nodes
    ]
    title = text("lattice of {names}", names=", ".join(lattice.names))
    return wrap_svg(WIDTH, tall, title, f'<path d="{edges}" class="edge"/>{"".join(draw)}')


def describe_node(lattice: Lattice, node: Node) -> list[Text]:
    """Say how a node groups every attribute."""
    pairs = zip(lattice.attributes, node, strict=True)
    return [text("{name}: {how}", name=one.name, how=describe_level(one, level)) for one, level in pairs]


def _draw_card(lattice: Lattice, node: DrawnNode, x: float, y: float, wide: float, tall: float) -> str:
    left, top = x - wide / 2, y - tall / 2
    kind = "step" if node.is_kept is not False else "lost"
    dashes = ' stroke-dasharray="4 3"' if node.is_kept is False else ""
    lines: list[tuple[Words, str]] = [
        *((line, "ink" if node.is_kept is not False else "quiet") for line in describe_node(lattice, node.node))
    ]
    lines += [(words, "quiet") for words in node.words]
    shape = f'x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{tall}" rx="5"'
    mark = f'<rect x="{left:.1f}" y="{top:.1f}" width="5" height="{tall}" class="bar"/>' if node.is_kept else ""
    ring = f'<rect {shape} class="chosen"/>' if node.is_chosen else ""
    words = "".join(
        write_text(left + 12, top + 19 + CARD_LINE * row, fit_text(line, wide - 18), kind=ink, full=line)
        for row, (line, ink) in enumerate(lines)
    )
    title = f"<title>{escape(node.option)}</title>" if node.option else ""
    box = f'<rect {shape} class="{kind}"{dashes}>{title}</rect>'
    return f"{box}{mark}{ring}{words}{_draw_check(node, left + wide - 14, top + 16)}"


def _draw_dot(lattice: Lattice, node: DrawnNode, x: float, y: float) -> str:
    kind = "node" if node.is_kept is None else "node kept" if node.is_kept else "node lost"
    full = join_items([*describe_node(lattice, node.node), *node.words, *([node.option] if node.option else [])])
    ring = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="12" class="chosen"/>' if node.is_chosen else ""
    dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6.5" class="{kind}"><title>{escape(full)}</title></circle>'
    return ring + dot + _draw_check(node, x + 15, y - 9)


def _draw_check(node: DrawnNode, x: float, y: float) -> str:
    """Write when the search looked at the node, in a square if it began there."""
    if node.step is None and not node.is_start:
        return ""
    square = f'<rect x="{x - 11:.1f}" y="{y - 14:.1f}" width="22" height="20" class="chosen" stroke-dasharray="4 3"/>'
    number = "" if node.step is None else write_text(x, y, str(node.step), anchor="middle", kind="quiet")
    return (square if node.is_start else "") + number
