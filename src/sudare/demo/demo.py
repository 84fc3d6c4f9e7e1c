"""The demo: made-up data, all five releases, and one page about them in both languages."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sudare.app import compare_release, publish, render_report, write_page
from sudare.atomic import removed_on_failure
from sudare.demo.cards import (
    Card,
    PageChapter,
    describe_releases,
    describe_schema,
    draw_blind,
    draw_budget,
    draw_city,
    render_overview,
)
from sudare.demo.data import write_census, write_city, write_members
from sudare.methods.kanon import KAnonymity
from sudare.methods.kanon.compare import ClassComparison
from sudare.methods.location import Location
from sudare.methods.microdata import Microdata
from sudare.methods.table import Table
from sudare.methods.table.compare import RegionComparison
from sudare.methods.view import View
from sudare.privacy import Ledger
from sudare.releases import Release
from sudare.releases.columns import read_codes, read_numbers
from sudare.report.frames import NamedMap, draw_maps_side_by_side, mesh_of, read_marginal
from sudare.report.shapes import Listing, TruthComparison, write_number
from sudare.report.svg import draw_marginal, write_legend
from sudare.schema import Schema
from sudare.text import Text, Words, current_language, text, use_language

REGION = 256  # cells of the regions whose error is listed


def describe_truth(out: Path, releases: Mapping[str, Release], truths: Mapping[str, TruthComparison]) -> PageChapter:
    """How far each release is from the truth; a mechanism has no truth beside it."""
    rows: list[tuple[Words, ...]] = [
        (kind, words, value) for kind, truth in truths.items() for words, value in _list_figures(truth)
    ]
    distance = releases["location"].certificate.measures["expected_distance_metres"]
    rows.append(("location", text("expected distance of a report, in metres"), write_number(round(distance, 1))))
    cards = [
        _compare_ages(releases["microdata"], truths["microdata"]),
        _compare_maps(releases["table"], truths["table"]),
    ]
    return PageChapter(
        title=text("How far from the truth"),
        lead=text("Computed from the true tables, without noise: this must not be published. The steward looks at"
                  " it to decide whether the release is good enough to use."),
        cards=cards,
        listing=Listing(title=text("distances"), head=(text("release"), text("measure"), text("value")), rows=rows),
        is_secret=True,
    )  # fmt: skip


def _list_figures(truth: TruthComparison) -> Iterator[tuple[Words, Words]]:
    """The few figures of each kind that say most."""
    if isinstance(truth, ClassComparison):
        before, after = truth.classes["before"], truth.classes["after"]
        yield text("rows left out"), write_number(truth.classes["left_out"])
        yield text("unique rows, before and after"), f"{before['uniques']:.2%} → {after['uniques']:.2%}"
        yield text("loss"), f"{truth.classes['total_loss']:.4f}"
        return
    yield from truth.figures[:-2]  # the last two tell the number of records
    if isinstance(truth, RegionComparison) and REGION in truth.blocks:
        yield text("error of the sum of {cells} cells (RMSE)", cells=REGION), write_number(truth.blocks[REGION])


def _link_steward_page(kind: str) -> list[tuple[Words, str]]:
    ending = "ja." if current_language() == "ja" else ""
    return [(text("{kind}, beside the truth", kind=kind), f"steward/{kind}.{ending}html")]


def _compare_ages(release: Release, truth: TruthComparison) -> Card:
    schema = Schema.from_dict(release.certificate.schema)
    age = schema.attribute("age")
    published = read_marginal(age, release.frames["records"].columns)
    drawn = replace(published, true=truth.true[age.name])
    return Card(
        kind="microdata",
        title=text("Records by age, published and true"),
        words=(text("The bar is what was published, the line is the truth."),),
        picture=write_legend(truth=True) + draw_marginal(drawn),
        links=[*_link_steward_page("microdata"), *_link_steward_page("view"), *_link_steward_page("kanon")],
    )


def _compare_maps(release: Release, truth: TruthComparison) -> Card:
    mesh = Schema.from_dict(release.certificate.schema).attributes[0]
    columns = release.frames["cells"].columns
    published = read_codes(mesh, columns[mesh.name]), read_numbers(columns["count"]).astype(np.int64)
    true = truth.places or published
    maps: list[NamedMap] = [(text("true"), *true), (text("published"), *published)]
    return Card(
        kind="table",
        title=text("People on the map, true and published"),
        picture=draw_maps_side_by_side(mesh_of(mesh), maps),
        links=_link_steward_page("table"),
        size="wide",
    )


# The page of the demo: what went in, what came out, what was promised and spent, how far from the truth, what next.


OTHER_LANGUAGE = {"en": ("ja", "日本語", "index.ja.html"), "ja": ("en", "English", "index.html")}


def render_demo_page(out: Path, releases: Mapping[str, Release], truths: Mapping[str, TruthComparison]) -> str:
    """Write the page in the current language; `out` is where the demo is made."""
    return render_overview(
        title=text("Five releases, and no person shown"),
        kind=text("Sudare: the demonstration, on made-up data"),
        lead=text(
            "A sudare is a blind: it lets you see the garden while nobody sees you. Here two private tables and one"
            " public map became five things that may leave the building."
        ),
        mark=draw_blind(title=text("a blind"), rows=5),
        facts=_list_facts(releases),
        chapters=[
            _describe_input(out, releases),
            PageChapter(
                title=text("What came out"),
                lead=text(
                    "Five releases. Every picture is drawn from a release and public facts alone, and may go with it."
                ),
                cards=list(describe_releases(out, releases)),
            ),
            _describe_promises(out, releases),
            describe_truth(out, releases, truths),
            _list_commands(out),
        ],
        stamp=text("For the steward. Chapter 4 shows true numbers beside the published ones, and is stamped."),
        foot=text(
            "Made by `sudare demo`. Nobody in these tables exists. The page holds no script and fetches nothing."
        ),
        other=OTHER_LANGUAGE[current_language()],
    )


def _list_facts(releases: Mapping[str, Release]) -> list[tuple[Words, Words]]:
    spent = _add_costs(releases["microdata"]) + _add_costs(releases["view"])
    return [
        (text("members"), write_number(releases["microdata"].frames["records"].rows)),
        (text("people on the map"), write_number(_count_people(releases["table"]))),
        (text("releases"), write_number(len(releases))),
        (text("epsilon spent on the members"), text("{spent} of {budget}", spent=spent, budget=2)),
    ]


def _add_costs(release: Release) -> Fraction:
    return sum((Fraction(spend["cost"]) for spend in release.certificate.spends), Fraction())


def _count_people(release: Release) -> float:
    return float(release.frames["cells"].decode()["count"].sum())


def _describe_input(out: Path, releases: Mapping[str, Release]) -> PageChapter:
    """The three inputs in words: columns and cells that are public facts, no row."""
    lead = text("Described, not shown: column names and domains are public facts, the rows are not.")
    cards = [
        _describe_members(out, releases["microdata"]),
        _describe_mesh(out, releases["table"]),
        _describe_city(out, releases["location"]),
    ]
    return PageChapter(title=text("What went in"), lead=lead, cards=cards)


def _describe_members(out: Path, release: Release) -> Card:
    schema = Schema.read(out / "members.toml")
    rows = write_number(release.frames["records"].rows)  # public: tables of another number are no neighbours
    return Card(
        kind=text("a private table"),
        title="members.csv",
        words=(
            text("{rows} members of a chain of sports clubs, one row each.", rows=rows),
            text("Protected: {unit}. The column itself never leaves.", unit=schema.unit.describe()),
        ),
        listing=describe_schema(schema),
        picture=draw_blind(title=text("a table behind a blind")),
        caption=text("The rows stay with the steward. The schema, members.toml, tells what is public."),
        size="small",
    )


def _describe_mesh(out: Path, release: Release) -> Card:
    cells, people = f"{Schema.read(out / 'people.toml').size:,}", write_number(_count_people(release))
    return Card(
        kind=text("a private table"),
        title="people.csv",
        words=(
            text("{people} people by cell of 500 m (JIS X 0410), already counted.", people=people),
            text("{cells} cells of land can hold people; which ones do is private.", cells=cells),
            text("Protected: every single person that is counted."),
        ),
        picture=draw_blind(title=text("a table behind a blind")),
        caption=text("Empty cells are as private as full ones."),
        size="small",
    )


def _describe_city(out: Path, release: Release) -> Card:
    cells = f"{release.frames['weights'].rows:,}"
    return Card(
        kind=text("a public map"),
        title="city.toml",
        words=(
            text("A made-up city on a bay: sea, a river with bridges, two parks, a pier and an island."),
            text("{cells} cells of 100 m, each with the share of it where a person can be.", cells=cells),
        ),
        picture=draw_city(out),
        caption=text("This is public, so it may be shown: no person is in it."),
    )


def _describe_promises(out: Path, releases: Mapping[str, Release]) -> PageChapter:
    """Every promise in its own words, and the two ledgers."""
    rows: list[tuple[Words, ...]] = []
    for kind, release in releases.items():
        cost = str(_add_costs(release)) if release.certificate.spends else "–"
        rows.append((kind, release.certificate.statement, cost))
    listing = Listing(
        title=text("the promise of each release, as its certificate says it"),
        head=(text("release"), text("promise in words"), text("epsilon charged")),
        rows=rows,
    )
    note = text(
        "A ledger keeps a budget. When nothing is left it refuses a release before any noise is drawn, and what is"
        " spent never comes back. k-anonymity is outside of it: no epsilon limits what kanon tells about the same"
        " members."
    )
    return PageChapter(
        title=text("What was promised and spent"),
        lead=note,
        cards=list(_describe_ledgers(out, releases)),
        listing=listing,
    )


def _describe_ledgers(out: Path, releases: Mapping[str, Release]) -> Iterator[Card]:
    for name, kinds in (("members", ("microdata", "view")), ("people", ("table",))):
        spent = [(kind, _add_costs(releases[kind])) for kind in kinds]
        with Ledger.open(out / f"{name}.ledger") as ledger:
            budget, left = ledger.budget, ledger.left
        title = text("{left} of {budget} is left", left=left, budget=budget)
        yield Card(
            kind=text("a ledger"),
            title=f"{name}.ledger",
            words=(text("Budget: epsilon {budget}. {left} is left.", budget=budget, left=left),),
            picture=draw_budget(spent, budget, title=title),
        )


def _list_commands(out: Path) -> PageChapter:
    """Lines to type, from looking around to a table of one's own."""
    question = "SELECT COUNT(*) FROM view WHERE sex = 'F' AND age BETWEEN 20 AND 39"
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
        (text("After `make demo`, so that the commands below are found:"), ". .venv/bin/activate"),
        (text("Ask the view a question of your own; the answer comes with an interval."),
         f'sudare query {view} "{question}"'),
        (text("Check a release: its files, its certificate, its spends in the ledger."),
         f"sudare verify {microdata} --ledger {ledger}"),
        (text("See what is left of the budget."), f"sudare ledger show {ledger}"),
        (text("Look ahead before anything is spent: cost and expected error of another release."),
         f"sudare preview microdata --schema {schema} --epsilon 1/2 --by sex,age"),
        (text("Not sure which method fits? Say what people need; no data is opened."),
         f"sudare choose {schema} --need queries --rows 80000"),
        (text("Begin with a table of your own: propose a schema, read it, confirm it, publish."), yours),
    ]  # fmt: skip
    return PageChapter(title=text("What to do next"), lead=text("Lines to type in a terminal."), commands=commands)


# The main job on built-in data: made-up members, people on a mesh and a city; all five releases, and a page.


MEMBERS = 80_000
CITY = (32, 44)  # rows and columns of cells of 100 m
SEED = 2017  # of the data, which are made up; no noise has a seed
STEPS = 11  # lines that the command prints
KINDS = ("microdata", "view", "kanon", "table", "location")
ENDINGS = {"en": "html", "ja": "ja.html"}


class DemoStep(Protocol):
    """Called before each step with its number and what is done in it."""

    def __call__(self, words: Text, /, *, step: int) -> None:
        """Tell it."""
        ...


def run_demo(out: Path, *, tell: DemoStep) -> Path:
    """Make the data, publish them and write the pages; return the first page. On failure nothing is left."""
    with removed_on_failure(out):
        made = _publish_members(out, tell) | _publish_places(out, tell)
        return _write_pages(out, made, tell)


def _publish_members(out: Path, tell: DemoStep) -> dict[str, dict[str, Any]]:
    """Three releases of one table, two of them from one budget; return how the truth of each is read."""
    tell(text("{rows} made-up members -> {file}", rows=f"{MEMBERS:,}", file=out / "members.csv"), step=1)
    data, schema = write_members(out, rows=MEMBERS, seed=SEED)
    ledger = out / "members.ledger"
    tell(text("a budget of epsilon 2 for them -> {file}", file=ledger), step=2)
    Ledger.create(ledger, epsilon=2, name="members").close()
    place: dict[str, Any] = {"schema_file": schema, "ledger_file": ledger}
    tell(text("records under epsilon 1 -> {out}", out=out / "microdata"), step=3)
    publish(Microdata(epsilon=1, by=("sex", "age", "prefecture", "plan")), data, out=out / "microdata", **place)
    tell(text("a view that answers any count, epsilon 1/2 -> {out}", out=out / "view"), step=4)
    publish(View(epsilon="1/2"), data, out=out / "view", **place)
    tell(text("the table itself, every combination shared by at least 50 rows -> {out}", out=out / "kanon"), step=5)
    publish(KAnonymity(k=50, max_suppressed="0.01"), data, schema_file=schema, out=out / "kanon")
    truth = {"truth": str(data), "schema_file": schema, "reading": {}}
    return dict.fromkeys(("microdata", "view", "kanon"), truth)


def _publish_places(out: Path, tell: DemoStep) -> dict[str, dict[str, Any]]:
    """People on a mesh as a table with region sums, and a city as a mechanism for devices."""
    tell(text("made-up people on a mesh of 500 m -> {file}", file=out / "people.csv"), step=6)
    data, schema = write_census(out, seed=SEED)
    ledger = out / "people.ledger"
    Ledger.create(ledger, epsilon=1, name="people").close()
    tell(text("a table of their counts with sums over regions, epsilon 1 -> {out}", out=out / "table"), step=7)
    publish(
        Table(epsilon=1, focus="both"),
        data,
        schema_file=schema,
        out=out / "table",
        ledger_file=ledger,
        count_column="people",
    )
    tell(text("a made-up city on a bay -> {file}", file=out / "city.toml"), step=8)
    rows, columns = CITY
    city = write_city(out, rows=rows, columns=columns)
    tell(text("a mechanism for devices there, epsilon 0.02 per metre -> {out}", out=out / "location"), step=9)
    publish(Location(epsilon_per_metre="0.02", mode="fair"), city, out=out / "location")
    return {"table": {"truth": str(data), "schema_file": schema, "reading": {"count_column": "people"}}}


def _write_pages(out: Path, truths: Mapping[str, Mapping[str, Any]], tell: DemoStep) -> Path:
    """A page a release for everybody, one beside the truth for the steward, and one about all; in both languages."""
    releases = {kind: Release.load(out / kind) for kind in KINDS}
    for folder in ("reports", "steward"):
        (out / folder).mkdir()
    compared = {kind: compare_release(releases[kind], **place) for kind, place in truths.items()}
    pages = {"en": text("pages in English -> {out}", out=out / f"index.{ENDINGS['en']}"),
             "ja": text("pages in Japanese -> {out}", out=out / f"index.{ENDINGS['ja']}")}  # fmt: skip
    for step, (code, words) in enumerate(pages.items(), start=STEPS - 1):
        tell(words, step=step)
        with use_language(code):
            _write_reports(out, releases, compared, ENDINGS[code])
            write_page(out / f"index.{ENDINGS[code]}", render_demo_page(out, releases, compared))
    return out / f"index.{ENDINGS.get(current_language(), ENDINGS['en'])}"


def _write_reports(
    out: Path, releases: Mapping[str, Release], compared: Mapping[str, TruthComparison], ending: str
) -> None:
    for kind, release in releases.items():
        write_page(out / "reports" / f"{kind}.{ending}", render_report(release, out / kind))
        if kind in compared:
            page = render_report(release, out / kind, truth=compared[kind])
            write_page(out / "steward" / f"{kind}.{ending}", page)
