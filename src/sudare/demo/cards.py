"""The cards of the demo's page: each release with a picture drawn from it alone, figures, links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

import numpy as np

from sudare.asking.answers import Estimate
from sudare.demo.data import city_grounds
from sudare.methods.location import load_device_file
from sudare.methods.location.grid import PlaneGrid
from sudare.methods.view import open_view
from sudare.methods.view.page import read_view_marginal
from sudare.releases import Release
from sudare.releases.columns import read_codes, read_numbers
from sudare.releases.geo import roll_up
from sudare.report.frames import draw_maps_side_by_side, mesh_of, name_values
from sudare.report.page import render_document, render_facts, render_listing, render_words
from sudare.report.shapes import Listing, write_number
from sudare.report.svg import (
    SHADES,
    WIDTH,
    draw_cells,
    draw_marginal,
    escape,
    fit_text,
    wrap_svg,
    write_legend,
    write_text,
)
from sudare.schema import Attribute, Schema
from sudare.schema.arrays import Codes, Reals
from sudare.text import Words, current_language, join, text


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """One thing with a picture beside its words; `links` are (words, address of a file beside the page)."""

    title: Words
    kind: Words = ""
    words: tuple[Words, ...] = ()
    picture: str = ""
    caption: Words = ""
    facts: Sequence[tuple[Words, Words]] = ()
    listing: Listing | None = None
    links: Sequence[tuple[Words, str]] = ()
    size: Literal["", "small", "wide"] = ""  # of the picture: a mere sign, or one that takes the whole width


@dataclass(frozen=True, kw_only=True, slots=True)
class PageChapter:
    """A heading, a sentence, cards, a table, lines to type; `is_secret` marks what shows the true tables."""

    title: Words
    lead: Words = ""
    cards: Sequence[Card] = ()
    listing: Listing | None = None
    commands: Sequence[tuple[Words, str]] = ()
    is_secret: bool = False


def render_overview(
    *, title: Words, kind: Words, lead: Words, mark: str, facts: Sequence[tuple[Words, Words]],
    chapters: Sequence[PageChapter], stamp: Words, foot: Words, other: tuple[str, str, str],
) -> str:  # fmt: skip
    """Write the page; `other` is (language, its name, address) of the same page in the other language."""
    lang, name, address = other
    body = [
        f'<nav><a href="{escape(address)}" lang="{lang}" hreflang="{lang}">{escape(name)}</a></nav>',
        f'<header class="hero"><div class="mark">{mark}</div><div><p class="kind">{escape(kind)}</p>'
        f"<h1>{escape(title)}</h1></div></header>",
        f'<p class="lead">{escape(lead)}</p>',
        render_facts(facts),
        f'<p class="stamp" role="note">{escape(stamp)}</p>',
        *(_render_chapter(number, chapter) for number, chapter in enumerate(chapters, start=1)),
        f"<footer>{escape(foot)}</footer>",
        f'<div class="printed" aria-hidden="true">{escape(text("not for publication"))}</div>',
    ]
    return render_document(title=title, body=body)


def _render_chapter(number: int, chapter: PageChapter) -> str:
    stamp = escape(text("not for publication"))
    marked = f' class="secret" data-stamp="{stamp}"' if chapter.is_secret else ""
    heading = f' data-stamp="{stamp}"' if chapter.is_secret else ""
    lead = f'<p class="under">{escape(chapter.lead)}</p>' if chapter.lead else ""
    table = render_listing(chapter.listing) if chapter.listing is not None else ""
    cards = "".join(map(_render_card, chapter.cards))
    typed = "".join(_render_command(words, line) for words, line in chapter.commands)
    return f"<section{marked}><h2{heading}>{number}. {escape(chapter.title)}</h2>{lead}{cards}{table}{typed}</section>"


def _render_card(card: Card) -> str:
    kind = f'<p class="kind">{escape(card.kind)}</p>' if card.kind else ""
    links = "".join(f'<a href="{escape(address)}">{escape(name)}</a>' for name, address in card.links)
    words = [
        f"{kind}<h3>{escape(card.title)}</h3>",
        render_words(card.words),
        render_facts(card.facts) if card.facts else "",
        render_listing(card.listing) if card.listing is not None else "",
        f'<p class="links">{links}</p>' if links else "",
    ]
    caption = f"<figcaption>{escape(card.caption)}</figcaption>" if card.caption else ""
    shown = f'<figure class="shown">{card.picture}{caption}</figure>' if card.picture else ""
    return f'<article class="card {card.size}"><div class="words">{"".join(words)}</div>{shown}</article>'


def _render_command(words: Words, line: str) -> str:
    return f'<p class="do">{escape(words)}</p><pre><code>{escape(line)}</code></pre>'


# Small pictures: a blind, a pyramid of ages, the levels of attributes, the reports of one place, a budget.


ROW, BAR = 17, 12  # units of a row of the pyramid and of the bar in it
LAND = 2  # the code of land in `city_grounds`
DRAWN_RATIO = 1000  # a chance that is so many times below the largest is not drawn


def draw_blind(*, title: Words, rows: int = 7) -> str:
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
    return wrap_svg(160, tall + 10, title, f"{behind}{slats}{cords}{top}")


def draw_pyramid(
    labels: Sequence[Words], left: Reals, right: Reals, *, names: tuple[Words, Words], title: Words
) -> str:
    """Draw two groups by an ordered attribute, back to back, the first value at the bottom.

    >>> draw_pyramid(["a"], np.array([1.0]), np.array([2.0]), names=("F", "M"), title="t").count("<rect")
    2
    """
    top, middle, wide = max(float(left.max()), float(right.max()), 1e-12), WIDTH / 2, WIDTH / 2 - 44
    tall, parts = len(labels) * ROW, []
    for at, label in enumerate(labels):
        y = 22 + tall - (at + 1) * ROW
        first, second = (wide * max(float(counts[at]), 0.0) / top for counts in (left, right))
        parts.append(f'<rect x="{middle - 42 - first:.1f}" y="{y}" width="{first:.1f}" height="{BAR}" class="bar"/>')
        parts.append(f'<rect x="{middle + 42:.1f}" y="{y}" width="{second:.1f}" height="{BAR}" class="other"/>')
        parts.append(write_text(middle, y + 10, fit_text(label, 80), anchor="middle", kind="quiet"))
    heads = write_text(middle - 48, 13, names[0], anchor="end") + write_text(middle + 48, 13, names[1])
    under = 22 + tall + 13
    most = write_text(0, under, write_number(top), kind="quiet") + write_text(
        WIDTH, under, write_number(top), anchor="end", kind="quiet"
    )
    rules = f'<path d="M2 18V{22 + tall}M{WIDTH - 2} 18V{22 + tall}" class="rule"/>'
    return wrap_svg(WIDTH, under + 6, title, rules + heads + "".join(parts) + most)


def draw_levels(steps: Sequence[tuple[str, Sequence[str], int]], *, title: Words) -> str:
    """Draw for each attribute (name, one value at every level, chosen level) the steps from fine to coarse.

    >>> draw_levels([("age", ["[30,35)", "[30,40)", "*"], 1)], title="levels").count('class="step')
    3
    """
    parts = []
    for row, (name, labels, chosen) in enumerate(steps):
        y, wide = row * 62, WIDTH / max(len(labels), 1)
        parts.append(write_text(0, y + 14, name))
        for at, label in enumerate(labels):
            kind, ink = ("step taken", "card") if at == chosen else ("step", "quiet")
            x = at * wide
            parts.append(f'<rect x="{x:.1f}" y="{y + 21}" width="{wide - 6:.1f}" height="27" rx="4" class="{kind}"/>')
            words = fit_text(label, wide - 16)
            parts.append(write_text(x + (wide - 6) / 2, y + 39, words, anchor="middle", kind=ink, full=label))
    return wrap_svg(WIDTH, max(len(steps) * 62 - 8, 1), title, "".join(parts))


def draw_landscape(grounds: Codes, *, title: Words, over: str = "", ring: tuple[int, int] | None = None) -> str:
    """Draw cells as water (0), park (1) or land (2), row 0 at the bottom; `over` is drawn on them, cell by cell.

    >>> draw_landscape(np.array([[0, 2]]), title="shore").count("<path")
    1
    """
    rows, columns = grounds.shape
    unit = WIDTH / columns
    shapes = "".join(
        draw_cells(grounds == at, kind=kind) for at, kind in ((1, "park"), (2, "land")) if (grounds == at).any()
    )
    water = f'<rect width="{columns}" height="{rows}" class="water"/>'
    placed = f'<g transform="scale({unit:.4f})" shape-rendering="crispEdges">{water}{shapes}{over}</g>'
    here = ""
    if ring is not None:
        x, y = (ring[1] + 0.5) * unit, (rows - ring[0] - 0.5) * unit
        here = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="7" class="here"/>'
    return wrap_svg(WIDTH, rows * unit, title, placed + here)


def draw_reports(grounds: Codes, chances: Reals, place: tuple[int, int], *, title: Words) -> str:
    """Draw the law of the report of a device: chances by colour on the landscape, a ring where the device is."""
    is_seen = chances > chances.max() / DRAWN_RATIO
    level = 1 - np.log(chances.max() / np.where(is_seen, chances, chances.max())) / np.log(DRAWN_RATIO)
    shade = np.where(is_seen, np.minimum(level * SHADES, SHADES - 1), -1).astype(int)
    over = "".join(draw_cells(shade == level, kind=f"s{level}") for level in np.unique(shade[is_seen]).tolist())
    return draw_landscape(grounds, title=title, over=over, ring=place)


def find_land(grounds: Codes, row: float, column: float) -> tuple[int, int]:
    """Find the cell of land nearest to a place given as shares of the way up and across.

    >>> find_land(np.array([[0, 2]]), 0.5, 0.0)
    (0, 1)
    """
    rows, columns = np.nonzero(grounds == LAND)
    height, width = grounds.shape
    best = int(np.argmin((rows / height - row) ** 2 + (columns / width - column) ** 2))
    return int(rows[best]), int(columns[best])


def draw_budget(spent: Sequence[tuple[str, Fraction]], budget: Fraction, *, title: Words) -> str:
    """Draw a budget as a bar: what each release took, and what is left.

    >>> draw_budget([("view", Fraction(1, 2))], Fraction(1), title="t").count("<li")
    2
    """
    left = budget - sum((cost for _, cost in spent), Fraction())
    parts: list[tuple[Words, Fraction, str]] = [
        (name, cost, f"part p{at % 3}") for at, (name, cost) in enumerate(spent)
    ]
    parts += [(text("left"), left, "part unspent")] if left > 0 else []
    bar = "".join(
        f'<span class="{kind}" style="flex:{float(cost / budget):.4f} 0 0"></span>' for _, cost, kind in parts
    )
    keys = "".join(
        f'<li><span class="key {kind}"></span>{escape(name)} <b>{cost}</b></li>' for name, cost, kind in parts
    )
    drawn = f'<div class="shares" role="img" aria-label="{escape(title)}">{bar}</div>'
    return f'<div class="budget">{drawn}<ul>{keys}</ul></div>'


# The five releases of the demo as cards: a picture drawn from the release alone, figures, links.


QUESTIONS = (
    "SELECT COUNT(*) FROM view WHERE sex = 'F' AND age BETWEEN 20 AND 39",
    "SELECT COUNT(*) FROM view WHERE plan = 'premium' AND visits >= 12",
    "SELECT AVG(visits) FROM view WHERE age >= 60",
)
DEVICE_PLACE = (0.47, 0.52)  # where the device of the picture is: shares of the way up and across
EXAMPLES = {"sex": 0, "age": 3, "prefecture": 12}  # code of the value of each attribute whose levels are drawn


def describe_releases(out: Path, releases: Mapping[str, Release]) -> Iterator[Card]:
    """One card a release."""
    yield _describe_records(releases["microdata"])
    yield _describe_view(releases["view"])
    yield _describe_classes(out, releases["kanon"])
    yield _describe_table(releases["table"])
    yield _describe_mechanism(out, releases["location"])


def describe_schema(schema: Schema) -> Listing:
    """Tell the columns of a schema as public facts."""
    rows = [
        (attribute.name, _name_kind(attribute), _name_some_values(attribute), _name_role(attribute))
        for attribute in schema.attributes
    ]
    head = (text("column"), text("kind"), text("possible values"), text("role"))
    return Listing(title=text("columns that may be published"), head=head, rows=rows)


def _name_kind(attribute: Attribute) -> Words:
    names: dict[str, Words] = {"category": text("category"), "number": text("number"), "mesh": text("mesh")}
    return names.get(attribute.domain.kind, attribute.domain.kind)


def _name_some_values(attribute: Attribute) -> Words:
    labels = name_values(attribute)
    if len(labels) <= 4:
        return join(labels, ", ")
    return text("{count}: {first} … {last}", count=len(labels), first=labels[0], last=labels[-1])


def _name_role(attribute: Attribute) -> Words:
    names: dict[str, Words] = {"quasi": text("quasi-identifier"), "sensitive": text("sensitive")}
    return names.get(attribute.role, "")


def link_release(kind: str) -> list[tuple[Words, str]]:
    """The pages and the certificate of a release, in the current language."""
    ending = "ja." if current_language() == "ja" else ""
    return [
        (text("report"), f"reports/{kind}.{ending}html"),
        (text("certificate in words"), f"{kind}/certificate.{ending}md"),
        (text("files of the release"), f"{kind}/"),
    ]


def _describe_records(release: Release) -> Card:
    schema = Schema.from_dict(release.certificate.schema)
    columns = release.frames["records"].columns
    sex, age = (read_codes(schema.attribute(name), columns[name]) for name in ("sex", "age"))
    size = schema.attribute("age").size
    left, right = (np.bincount(age[sex == code], minlength=size).astype(np.float64) for code in (0, 1))
    ages, sexes = (name_values(schema.attribute(name)) for name in ("age", "sex"))
    picture = draw_pyramid(
        ages, left, right, names=(sexes[0], sexes[1]), title=text("published records by age and sex")
    )
    return Card(
        kind="microdata",
        title=text("Records with the same columns"),
        words=(
            text("Use them like the original table. No record is a real person: all are made from noisy counts."),
            text("Here: {names}.", names=", ".join(schema.names)),
        ),
        facts=[
            (text("records"), write_number(release.frames["records"].rows)),
            (text("promise"), "ε = " + str(release.certificate.guarantee["epsilon"])),
        ],
        picture=picture,
        caption=text("published records by age and sex"),
        links=link_release("microdata"),
    )


def _describe_view(release: Release) -> Card:
    view = open_view(release)
    answers = [
        (sql.removeprefix("SELECT ").replace(" FROM view", ""), *_write_estimate(view.sql(sql).rows[0][0]))
        for sql in QUESTIONS
    ]
    listing = Listing(
        title=text("three questions, in SQL"),
        head=(text("question"), text("answer"), text("95% interval")),
        rows=answers,
    )
    visits = read_view_marginal(view, "visits")
    return Card(
        kind="view",
        title=text("A view that answers any count"),
        words=(
            text("A small file for data users. It answers COUNT, SUM and AVG over any condition, with an interval."),
        ),
        facts=[
            (text("numbers stored"), write_number(sum(frame.rows for frame in release.frames.values()))),
            (text("promise"), "ε = " + str(release.certificate.guarantee["epsilon"])),
        ],
        listing=listing,
        picture=write_legend(interval=visits.low is not None) + draw_marginal(visits),
        caption=text("members by visits in a month, each with its interval"),
        links=link_release("view"),
    )


def _write_estimate(cell: object) -> tuple[str, str]:
    if not isinstance(cell, Estimate):
        return str(cell), ""
    digits = 0 if cell.value >= 100 else 2
    value, low, high = (f"{number:,.{digits}f}" for number in (cell.value, cell.low, cell.high))
    return value, f"{low} – {high}"


def _describe_classes(out: Path, release: Release) -> Card:
    schema = Schema.read(out / "members.toml")  # the hierarchies are public facts too
    levels = release.certificate.measures["levels"]
    steps = [(name, _list_levels(schema.attribute(name)), level) for name, level in levels.items()]
    guarantee = release.certificate.guarantee
    return Card(
        kind="kanon",
        title=text("The table itself, with coarser values"),
        words=(
            text("Real rows: every combination of {names} is shared by at least {k} rows.",
                names=", ".join(guarantee["quasi"]), k=guarantee["k"]),
            text("This is not differential privacy: it hides each person in a group, but several releases together"
                 " can undo it."),
        ),
        facts=[
            (text("records"), write_number(release.frames["records"].rows)),
            (text("promise"), f"k = {guarantee['k']}"),
        ],
        picture=draw_levels(steps, title=text("how coarse each column was made")),
        caption=text("One value of each column, from fine to coarse; the level that was published is filled."),
        links=link_release("kanon"),
    )  # fmt: skip


def _list_levels(attribute: Attribute) -> list[str]:
    """List one value of an attribute at every level of its hierarchy."""
    code = np.array([EXAMPLES[attribute.name]])
    levels = [attribute] + [attribute.coarsen(level) for level in range(1, attribute.height + 1)]
    hierarchy = attribute.hierarchy
    codes = [code] + [hierarchy.lift(code, level) for level in range(1, attribute.height + 1)] if hierarchy else [code]
    return [str(level.labels(code)[0]) for level, code in zip(levels, codes, strict=False)]


def _describe_table(release: Release) -> Card:
    schema = Schema.from_dict(release.certificate.schema)
    mesh = schema.attributes[0]
    columns = release.frames["cells"].columns
    codes, people = read_codes(mesh, columns[mesh.name]), read_numbers(columns["count"]).astype(np.int64)
    cells = mesh_of(mesh)
    _, places, counts = roll_up(cells, codes, people, level=cells.level)
    return Card(
        kind="table",
        title=text("A large table of counts"),
        words=(
            text("Counts of every cell, whole numbers and never negative; they add up to the sums of every region."),
            text("Ready for a map: GeoJSON, GeoParquet and a picture are among the files."),
        ),
        facts=[
            (text("cells of the complete table"), f"{schema.size:,}"),
            (text("promise"), "ε = " + str(release.certificate.guarantee["epsilon"])),
        ],
        picture=draw_maps_side_by_side(cells, [(text("published"), places, counts)]),
        caption=text("published people by cell of 500 m"),
        links=link_release("table"),
    )


def draw_city(out: Path) -> str:
    """Draw the public map: where a person can be."""
    return draw_landscape(city_grounds(*_load_grid(out).shape), title=text("sea, river, parks and land of the city"))


def _load_grid(out: Path) -> PlaneGrid:
    grid = load_device_file(out / "location").mechanism.places
    if not isinstance(grid, PlaneGrid):
        raise AssertionError
    return grid


def _describe_mechanism(out: Path, release: Release) -> Card:
    mechanism, grid = load_device_file(out / "location").mechanism, _load_grid(out)
    grounds = city_grounds(*grid.shape)
    row, column = find_land(grounds, *DEVICE_PLACE)
    chances = mechanism.report_law(row * grid.columns + column).reshape(grid.shape)
    measures = release.certificate.measures
    return Card(
        kind="location",
        title=text("A mechanism for devices"),
        words=(
            text("A phone draws a cell near the true one and reports it; the map keeps reports out of the sea."),
            text("Nobody collects true places, so there is no table to protect: the device itself adds the noise."),
        ),
        facts=[
            (text("expected distance"), f"{measures['expected_distance_metres']:,.0f} m"),
            (
                text("promise"),
                text("ε = {epsilon} per metre", epsilon=release.certificate.parameters["epsilon_per_metre"]),
            ),
        ],
        picture=draw_reports(grounds, chances, (row, column), title=text("where a device says it is")),
        caption=text("The ring is where the device is; the stronger the colour, the more often a cell is reported."),
        links=link_release("location"),
    )
