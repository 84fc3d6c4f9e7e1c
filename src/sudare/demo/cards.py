"""One page about several releases: what went in, what came out, promises, distances, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import Literal

import numpy as np

from sudare.demo.data import city_grounds
from sudare.methods.location import load_artefact
from sudare.methods.location.grid import PlaneGrid
from sudare.methods.view import open_view
from sudare.methods.view.page import view_marginal
from sudare.methods.view.tables import Estimate
from sudare.releases import Release
from sudare.releases.geo import roll_up
from sudare.report.frames import codes_of, label_texts, numbers
from sudare.report.page import document, facts_list, listing_table, word_list
from sudare.report.shapes import Listing, number
from sudare.report.svg import SHADES, WIDTH, cells_of, drawing, fitted, legend, marginal, text
from sudare.report.tabular import side_by_side
from sudare.schema import Attribute, MeshCells, Schema
from sudare.schema.arrays import Codes, Reals
from sudare.text import language, say


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """One thing with a picture beside its words; `links` are (words, address of a file beside the page)."""

    title: str
    kind: str = ""
    words: tuple[str, ...] = ()
    picture: str = ""
    caption: str = ""
    facts: Sequence[tuple[str, str]] = ()
    listing: Listing | None = None
    links: Sequence[tuple[str, str]] = ()
    size: Literal["", "small", "wide"] = ""  # of the picture: a mere sign, or one that takes the whole width


@dataclass(frozen=True, kw_only=True, slots=True)
class PageChapter:
    """A heading, a sentence, cards, a table, lines to type; `is_secret` marks what shows the true tables."""

    title: str
    lead: str = ""
    cards: Sequence[Card] = ()
    listing: Listing | None = None
    commands: Sequence[tuple[str, str]] = ()
    is_secret: bool = False


def overview(
    *, title: str, kind: str, lead: str, mark: str, facts: Sequence[tuple[str, str]], chapters: Sequence[PageChapter],
    stamp: str, foot: str, other: tuple[str, str, str],
) -> str:  # fmt: skip
    """Write the page; `other` is (language, its name, address) of the same page in the other language."""
    lang, name, address = other
    body = [
        f'<nav><a href="{escape(address)}" lang="{lang}" hreflang="{lang}">{escape(name)}</a></nav>',
        f'<header class="hero"><div class="mark">{mark}</div><div><p class="kind">{escape(kind)}</p>'
        f"<h1>{escape(title)}</h1></div></header>",
        f'<p class="lead">{escape(lead)}</p>',
        facts_list(facts),
        f'<p class="stamp" role="note">{escape(stamp)}</p>',
        *(_chapter(number, one) for number, one in enumerate(chapters, start=1)),
        f"<footer>{escape(foot)}</footer>",
        f'<div class="printed" aria-hidden="true">{escape(say("not for publication"))}</div>',
    ]
    return document(title=title, body=body)


def _chapter(place: int, one: PageChapter) -> str:
    stamp = escape(say("not for publication"))
    marked = f' class="secret" data-stamp="{stamp}"' if one.is_secret else ""
    heading = f' data-stamp="{stamp}"' if one.is_secret else ""
    lead = f'<p class="under">{escape(one.lead)}</p>' if one.lead else ""
    table = listing_table(one.listing) if one.listing is not None else ""
    cards = "".join(map(_card, one.cards))
    typed = "".join(_typed(words, line) for words, line in one.commands)
    return f"<section{marked}><h2{heading}>{place}. {escape(one.title)}</h2>{lead}{cards}{table}{typed}</section>"


def _card(one: Card) -> str:
    kind = f'<p class="kind">{escape(one.kind)}</p>' if one.kind else ""
    links = "".join(f'<a href="{escape(address)}">{escape(words)}</a>' for words, address in one.links)
    told = [
        f"{kind}<h3>{escape(one.title)}</h3>",
        word_list(one.words),
        facts_list(one.facts) if one.facts else "",
        listing_table(one.listing) if one.listing is not None else "",
        f'<p class="links">{links}</p>' if links else "",
    ]
    caption = f"<figcaption>{escape(one.caption)}</figcaption>" if one.caption else ""
    shown = f'<figure class="shown">{one.picture}{caption}</figure>' if one.picture else ""
    return f'<article class="card {one.size}"><div class="told">{"".join(told)}</div>{shown}</article>'


def _typed(words: str, line: str) -> str:
    return f'<p class="do">{escape(words)}</p><pre><code>{escape(line)}</code></pre>'


# Small pictures for a page about several releases: a blind, a pyramid, ladders, the reports of one place, a budget.


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


# The five releases of the demo as cards: a picture drawn from the release alone, figures, links.


ASKED = (
    "SELECT COUNT(*) FROM view WHERE sex = 'F' AND age BETWEEN 20 AND 39",
    "SELECT COUNT(*) FROM view WHERE plan = 'premium' AND visits >= 12",
    "SELECT AVG(visits) FROM view WHERE age >= 60",
)
HERE = (0.47, 0.52)  # where the device of the picture is: shares of the way up and across
EXAMPLES = {"sex": 0, "age": 3, "prefecture": 12}  # one value of each attribute, whose steps are drawn


def release_cards(out: Path, releases: Mapping[str, Release]) -> Iterator[Card]:
    """One card a release."""
    yield _records(releases["microdata"])
    yield _view(releases["view"])
    yield _classes(out, releases["kanon"])
    yield _table(releases["table"])
    yield _location(out, releases["location"])


def describe(schema: Schema) -> Listing:
    """Tell the columns of a schema as public facts."""
    rows = [(one.name, _kind(one), _values(one), _role(one)) for one in schema.attributes]
    head = (say("column"), say("kind"), say("possible values"), say("role"))
    return Listing(title=say("columns that may be published"), head=head, rows=rows)


def _kind(one: Attribute) -> str:
    names = {"category": say("category"), "number": say("number"), "mesh": say("mesh")}
    return names.get(one.domain.kind, one.domain.kind)


def _values(one: Attribute) -> str:
    labels = label_texts(one)
    if len(labels) <= 4:
        return ", ".join(labels)
    return say("{count}: {first} … {last}", count=len(labels), first=labels[0], last=labels[-1])


def _role(one: Attribute) -> str:
    return {"quasi": say("quasi-identifier"), "sensitive": say("sensitive")}.get(one.role, "")


def links(kind: str) -> list[tuple[str, str]]:
    """The pages and the certificate of a release, in the language that is spoken."""
    ending = "ja." if language() == "ja" else ""
    return [
        (say("report"), f"reports/{kind}.{ending}html"),
        (say("certificate in words"), f"{kind}/certificate.{ending}md"),
        (say("files of the release"), f"{kind}/"),
    ]


def _records(release: Release) -> Card:
    schema = Schema.from_dict(release.certificate.schema)
    columns = release.frames["records"].columns
    sex, age = (codes_of(schema.attribute(name), columns[name]) for name in ("sex", "age"))
    size = schema.attribute("age").size
    left, right = (np.bincount(age[sex == one], minlength=size).astype(np.float64) for one in (0, 1))
    ages, sexes = (label_texts(schema.attribute(name)) for name in ("age", "sex"))
    picture = pyramid(ages, left, right, names=(sexes[0], sexes[1]), title=say("published records by age and sex"))
    return Card(
        kind="microdata",
        title=say("Records with the same columns"),
        words=(
            say("Use them like the table they came from. No record is a person: each is made from noisy counts."),
            say("Here: {names}.", names=", ".join(schema.names)),
        ),
        facts=[
            (say("records"), number(release.frames["records"].rows)),
            (say("promise"), "ε = " + str(release.certificate.guarantee["epsilon"])),
        ],
        picture=picture,
        caption=say("published records by age and sex"),
        links=links("microdata"),
    )


def _view(release: Release) -> Card:
    view = open_view(release)
    answers = [
        (sql.removeprefix("SELECT ").replace(" FROM view", ""), *_told(view.sql(sql).rows[0][0])) for sql in ASKED
    ]
    listing = Listing(
        title=say("three questions, in SQL"), head=(say("question"), say("answer"), say("95% interval")), rows=answers
    )
    visits = view_marginal(view, "visits")
    return Card(
        kind="view",
        title=say("A view that answers any count"),
        words=(
            say("A small file for data users. It answers COUNT, SUM and AVG over any condition, with an interval."),
        ),
        facts=[
            (say("numbers stored"), number(sum(frame.rows for frame in release.frames.values()))),
            (say("promise"), "ε = " + str(release.certificate.guarantee["epsilon"])),
        ],
        listing=listing,
        picture=legend(interval=visits.low is not None) + marginal(visits),
        caption=say("members by visits in a month, each with its interval"),
        links=links("view"),
    )


def _told(cell: str | Estimate | None) -> tuple[str, str]:
    if not isinstance(cell, Estimate):
        return str(cell), ""
    digits = 0 if cell.value >= 100 else 2
    value, low, high = (f"{one:,.{digits}f}" for one in (cell.value, cell.low, cell.high))
    return value, f"{low} – {high}"


def _classes(out: Path, release: Release) -> Card:
    schema = Schema.read(out / "members.toml")  # the hierarchies are public facts too
    levels = release.certificate.measures["levels"]
    steps = [(name, _steps(schema.attribute(name)), level) for name, level in levels.items()]
    guarantee = release.certificate.guarantee
    return Card(
        kind="kanon",
        title=say("The table itself, with coarser values"),
        words=(
            say("Real rows: every combination of {names} is shared by {k} rows at least.",
                names=", ".join(guarantee["quasi"]), k=guarantee["k"]),
            say("Not differential privacy: it hides people in a crowd, and does not add up."),
        ),
        facts=[
            (say("records"), number(release.frames["records"].rows)),
            (say("promise"), f"k = {guarantee['k']}"),
        ],
        picture=ladders(steps, title=say("how coarse each column was made")),
        caption=say("One value of each column, from fine to coarse; the level that was published is filled."),
        links=links("kanon"),
    )  # fmt: skip


def _steps(one: Attribute) -> list[str]:
    """One value of an attribute at every level of its hierarchy."""
    code = np.array([EXAMPLES[one.name]])
    found = [one] + [one.coarsen(level) for level in range(1, one.height + 1)]
    hierarchy = one.hierarchy
    codes = [code] + [hierarchy.lift(code, level) for level in range(1, one.height + 1)] if hierarchy else [code]
    return [str(each.labels(at)[0]) for each, at in zip(found, codes, strict=False)]


def _table(release: Release) -> Card:
    schema = Schema.from_dict(release.certificate.schema)
    one = schema.attributes[0]
    columns = release.frames["cells"].columns
    codes, people = codes_of(one, columns[one.name]), numbers(columns["count"]).astype(np.int64)
    cells = mesh_of(one)
    told = [(say("published"), *roll_up(cells, codes, people, level=cells.level)[1:])]
    return Card(
        kind="table",
        title=say("A large table of counts"),
        words=(
            say("Counts of every cell, whole and never negative; they add up to the sums of every region."),
            say("Ready for a map: GeoJSON, GeoParquet and a picture are among the files."),
        ),
        facts=[
            (say("cells of the complete table"), f"{schema.size:,}"),
            (say("promise"), "ε = " + str(release.certificate.guarantee["epsilon"])),
        ],
        picture=side_by_side(cells, told),
        caption=say("published people by cell of 500 m"),
        links=links("table"),
    )


def mesh_of(one: Attribute) -> MeshCells:
    """The cells of an attribute that is a mesh."""
    if not isinstance(one.domain, MeshCells):
        raise AssertionError
    return one.domain


def city_picture(out: Path) -> str:
    """Draw the public map: where a person can be."""
    return landscape(city_grounds(*_grid(out).shape), title=say("sea, river, parks and land of the city"))


def _grid(out: Path) -> PlaneGrid:
    grid = load_artefact(out / "location").mechanism.places
    if not isinstance(grid, PlaneGrid):
        raise AssertionError
    return grid


def _location(out: Path, release: Release) -> Card:
    mechanism, grid = load_artefact(out / "location").mechanism, _grid(out)
    grounds = city_grounds(*grid.shape)
    row, column = nearest(grounds, *HERE)
    chances = mechanism.row(row * grid.columns + column).reshape(grid.shape)
    measures = release.certificate.measures
    return Card(
        kind="location",
        title=say("A mechanism for devices"),
        words=(
            say("A phone draws a cell near the true one and reports that; the map keeps reports out of the sea."),
            say("Nobody collects true places, so there is no table to protect: the device itself adds the noise."),
        ),
        facts=[
            (say("expected distance"), f"{measures['expected_distance_metres']:,.0f} m"),
            (
                say("promise"),
                say("ε = {epsilon} per metre", epsilon=release.certificate.parameters["epsilon_per_metre"]),
            ),
        ],
        picture=reports(grounds, chances, (row, column), title=say("where a device reports to be")),
        caption=say("The ring is where the device is; the stronger the colour, the more often a cell is reported."),
        links=links("location"),
    )
