"""The page of the demo: what went in, what came out, what was promised and spent, how far from the truth, what next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path

from sudare.messages import language, say
from sudare.privacy import Ledger
from sudare.releases import Release
from sudare.report.overview import Card, Chapter, overview
from sudare.report.pictures import blind, budget_bar
from sudare.report.shapes import Listing, Truth, number
from sudare.run.demo_cards import city_picture, describe, release_cards
from sudare.run.demo_truth import truth_chapter
from sudare.schema import Schema

OTHER = {"en": ("ja", "日本語", "index.ja.html"), "ja": ("en", "English", "index.html")}


def demo_page(out: Path, releases: Mapping[str, Release], truths: Mapping[str, Truth]) -> str:
    """Write the page in the language that is spoken; `out` is where the demo is made."""
    return overview(
        title=say("Five releases, and nobody shown"),
        kind=say("Sudare: the demonstration, on made-up data"),
        lead=say(
            "A sudare is a blind: it lets you see the garden while nobody sees you. Here two private tables and one"
            " public map became five things that may leave the building."
        ),
        mark=blind(title=say("a blind"), rows=5),
        facts=_facts(releases),
        chapters=[
            _went_in(out, releases),
            Chapter(
                title=say("What came out"),
                lead=say(
                    "Five releases. Every picture is drawn from a release and public facts alone, and may go with it."
                ),
                cards=list(release_cards(out, releases)),
            ),
            _promised(out, releases),
            truth_chapter(out, releases, truths),
            _next(out),
        ],
        stamp=say("For the steward. Chapter 4 shows true numbers beside the published ones, and is stamped."),
        foot=say("Made by `sudare demo`. Nobody in these tables exists. The page holds no script and fetches nothing."),
        other=OTHER[language()],
    )


def _facts(releases: Mapping[str, Release]) -> list[tuple[str, str]]:
    spent = sum((Fraction(one["cost"]) for kind in ("microdata", "view") for one in releases[kind].certificate.spends),
                Fraction())  # fmt: skip
    return [
        (say("members"), number(releases["microdata"].frames["records"].rows)),
        (say("people on the map"), number(_people(releases["table"]))),
        (say("releases"), number(len(releases))),
        (say("epsilon spent on the members"), say("{spent} of {budget}", spent=spent, budget=2)),
    ]


def _people(release: Release) -> float:
    return float(release.frames["cells"].decode()["count"].sum())


def _went_in(out: Path, releases: Mapping[str, Release]) -> Chapter:
    """The three inputs in words: columns and cells that are public facts, no row."""
    lead = say("Described, not shown: column names and domains are public facts, the rows are not.")
    cards = [_members(out, releases["microdata"]), _mesh(out, releases["table"]), _city(out, releases["location"])]
    return Chapter(title=say("What went in"), lead=lead, cards=cards)


def _members(out: Path, release: Release) -> Card:
    schema = Schema.read(out / "members.toml")
    rows = number(release.frames["records"].rows)  # public: tables of another number are no neighbours
    return Card(
        kind=say("a private table"),
        title="members.csv",
        words=(
            say("{rows} members of a chain of sports clubs, one row each.", rows=rows),
            say("Protected: {unit}. The column itself never leaves.", unit=schema.unit.words()),
        ),
        listing=describe(schema),
        picture=blind(title=say("a table behind a blind")),
        caption=say("The rows stay with the steward. The schema, members.toml, tells what is public."),
        size="small",
    )


def _mesh(out: Path, release: Release) -> Card:
    cells = f"{Schema.read(out / 'people.toml').size:,}"
    return Card(
        kind=say("a private table"),
        title="people.csv",
        words=(
            say("{people} people by cell of 500 m (JIS X 0410), already counted.", people=number(_people(release))),
            say("{cells} cells of land can hold people; which ones do is private.", cells=cells),
            say("Protected: every single person that is counted."),
        ),
        picture=blind(title=say("a table behind a blind")),
        caption=say("Empty cells are as private as full ones."),
        size="small",
    )


def _city(out: Path, release: Release) -> Card:
    cells = f"{release.frames['weights'].rows:,}"
    return Card(
        kind=say("a public map"),
        title="city.toml",
        words=(
            say("A made-up city on a bay: sea, a river with bridges, two parks, a pier and an island."),
            say("{cells} cells of 100 m, each with the share of it where a person can be.", cells=cells),
        ),
        picture=city_picture(out),
        caption=say("This is public, so it may be shown: no person is in it."),
    )


def _promised(out: Path, releases: Mapping[str, Release]) -> Chapter:
    """Every promise in its own words, and the two ledgers."""
    rows = []
    for kind, release in releases.items():
        paper = release.certificate
        cost = sum((Fraction(one["cost"]) for one in paper.spends), Fraction())
        words = paper.guarantee["statement"][language()]
        rows.append((kind, words, str(cost) if paper.spends else "–"))
    listing = Listing(
        title=say("the promise of each release, as its certificate says it"),
        head=(say("release"), say("promise in words"), say("epsilon charged")),
        rows=rows,
    )
    note = say(
        "A ledger is a budget: it refuses a release before any noise is drawn once nothing is left, and what is spent"
        " never comes back. k-anonymity is outside of it: no epsilon bounds what kanon tells about the same members."
    )
    return Chapter(
        title=say("What was promised and spent"), lead=note, cards=list(_ledgers(out, releases)), listing=listing
    )


def _ledgers(out: Path, releases: Mapping[str, Release]) -> Iterator[Card]:
    for name, kinds in (("members", ("microdata", "view")), ("people", ("table",))):
        spent = [
            (kind, sum((Fraction(one["cost"]) for one in releases[kind].certificate.spends), Fraction()))
            for kind in kinds
        ]
        with Ledger.open(out / f"{name}.ledger") as ledger:
            budget, left = ledger.budget, ledger.left
        title = say("{left} of {budget} is left", left=left, budget=budget)
        yield Card(
            kind=say("a ledger"),
            title=f"{name}.ledger",
            words=(say("Budget: epsilon {budget}. {left} is left.", budget=budget, left=left),),
            picture=budget_bar(spent, budget, title=title),
        )


def _next(out: Path) -> Chapter:
    """Lines to type, from looking around to a table of one's own."""
    asked = "SELECT COUNT(*) FROM view WHERE sex = 'F' AND age BETWEEN 20 AND 39"
    view, microdata, schema, ledger = (
        shlex.quote(str(out / name)) for name in ("view", "microdata", "members.toml", "members.ledger")
    )
    yours = (
        "sudare schema init yours.csv -o yours.toml\n"
        "sudare ledger create yours.ledger --epsilon 1\n"
        "sudare publish microdata yours.csv --schema yours.toml --epsilon 1/2 --ledger yours.ledger --out release\n"
        "sudare report release -o report.html"
    )
    commands = [
        (say("After `make demo`, so that the commands below are found:"), ". .venv/bin/activate"),
        (say("Ask the view a question of your own; the answer comes with an interval."),
         f'sudare query {view} "{asked}"'),
        (say("Check a release: its files, its certificate, its spends in the ledger."),
         f"sudare verify {microdata} --ledger {ledger}"),
        (say("See what is left of the budget."), f"sudare ledger show {ledger}"),
        (say("Look ahead before anything is spent: the cost and the expected error of another release."),
         f"sudare preview microdata --schema {schema} --epsilon 1/2 --by sex,age"),
        (say("Not sure which method fits? Say what people need; no data is opened."),
         f"sudare choose {schema} --need queries --rows 80000"),
        (say("Begin with a table of your own: propose a schema, read it, confirm it, publish."), yours),
    ]  # fmt: skip
    return Chapter(title=say("What to do next"), lead=say("Lines to type in a terminal."), commands=commands)
