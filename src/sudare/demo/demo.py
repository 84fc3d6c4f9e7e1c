"""The demo: made-up data, all five releases, and one page about them in both languages."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sudare.app import compare_release, publish_kanon, publish_location, publish_release, render_report, write_page
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
from sudare.methods.microdata import Microdata
from sudare.methods.table import Table
from sudare.methods.table.compare import RegionComparison
from sudare.methods.view import View
from sudare.privacy import Ledger
from sudare.releases import Release
from sudare.releases.columns import read_codes, read_numbers
from sudare.report.frames import draw_maps_side_by_side, mesh_of, read_marginal
from sudare.report.shapes import Listing, TruthComparison, write_number
from sudare.report.svg import draw_marginal, write_legend
from sudare.schema import Schema
from sudare.text import language, say, speaking

REGION = 256  # cells of the regions whose error is listed


def describe_truth(out: Path, releases: Mapping[str, Release], truths: Mapping[str, TruthComparison]) -> PageChapter:
    """How far each release is from the truth; a mechanism has no truth beside it."""
    rows = [(kind, words, value) for kind, truth in truths.items() for words, value in _list_figures(truth)]
    distance = releases["location"].certificate.measures["expected_distance_metres"]
    rows.append(("location", say("expected distance of a report, in metres"), write_number(round(distance, 1))))
    cards = [
        _compare_ages(releases["microdata"], truths["microdata"]),
        _compare_maps(releases["table"], truths["table"]),
    ]
    return PageChapter(
        title=say("How far from the truth"),
        lead=say("Computed from the true tables, without noise: this must not leave. A steward looks at it once, to"
                 " decide whether the release is good enough to be of use."),
        cards=cards,
        listing=Listing(title=say("distances"), head=(say("release"), say("measure"), say("value")), rows=rows),
        is_secret=True,
    )  # fmt: skip


def _list_figures(truth: TruthComparison) -> Iterator[tuple[str, str]]:
    """The few figures of each kind that say most."""
    if isinstance(truth, ClassComparison):
        before, after = truth.classes["before"], truth.classes["after"]
        yield say("rows left out"), write_number(truth.classes["left_out"])
        yield say("unique rows, before and after"), f"{before['uniques']:.2%} → {after['uniques']:.2%}"
        yield say("loss"), f"{truth.classes['total_loss']:.4f}"
        return
    yield from truth.figures[:-2]  # the last two tell the number of records
    if isinstance(truth, RegionComparison) and REGION in truth.blocks:
        yield say("error of the sum of {cells} cells (RMSE)", cells=REGION), write_number(truth.blocks[REGION])


def _link_steward_page(kind: str) -> list[tuple[str, str]]:
    ending = "ja." if language() == "ja" else ""
    return [(say("{kind}, beside the truth", kind=kind), f"steward/{kind}.{ending}html")]


def _compare_ages(release: Release, truth: TruthComparison) -> Card:
    schema = Schema.from_dict(release.certificate.schema)
    age = schema.attribute("age")
    published = read_marginal(age, release.frames["records"].columns)
    drawn = replace(published, true=truth.true[age.name])
    return Card(
        kind="microdata",
        title=say("Records by age, published and true"),
        words=(say("The bar is what was published, the line is the truth."),),
        picture=write_legend(truth=True) + draw_marginal(drawn),
        links=[*_link_steward_page("microdata"), *_link_steward_page("view"), *_link_steward_page("kanon")],
    )


def _compare_maps(release: Release, truth: TruthComparison) -> Card:
    mesh = Schema.from_dict(release.certificate.schema).attributes[0]
    columns = release.frames["cells"].columns
    published = read_codes(mesh, columns[mesh.name]), read_numbers(columns["count"]).astype(np.int64)
    true = truth.places or published
    maps = [(say("true"), *true), (say("published"), *published)]
    return Card(
        kind="table",
        title=say("People on the map, true and published"),
        picture=draw_maps_side_by_side(mesh_of(mesh), maps),
        links=_link_steward_page("table"),
        size="wide",
    )


# The page of the demo: what went in, what came out, what was promised and spent, how far from the truth, what next.


OTHER_LANGUAGE = {"en": ("ja", "日本語", "index.ja.html"), "ja": ("en", "English", "index.html")}


def render_demo_page(out: Path, releases: Mapping[str, Release], truths: Mapping[str, TruthComparison]) -> str:
    """Write the page in the language that is spoken; `out` is where the demo is made."""
    return render_overview(
        title=say("Five releases, and nobody shown"),
        kind=say("Sudare: the demonstration, on made-up data"),
        lead=say(
            "A sudare is a blind: it lets you see the garden while nobody sees you. Here two private tables and one"
            " public map became five things that may leave the building."
        ),
        mark=draw_blind(title=say("a blind"), rows=5),
        facts=_list_facts(releases),
        chapters=[
            _describe_input(out, releases),
            PageChapter(
                title=say("What came out"),
                lead=say(
                    "Five releases. Every picture is drawn from a release and public facts alone, and may go with it."
                ),
                cards=list(describe_releases(out, releases)),
            ),
            _describe_promises(out, releases),
            describe_truth(out, releases, truths),
            _list_commands(out),
        ],
        stamp=say("For the steward. Chapter 4 shows true numbers beside the published ones, and is stamped."),
        foot=say("Made by `sudare demo`. Nobody in these tables exists. The page holds no script and fetches nothing."),
        other=OTHER_LANGUAGE[language()],
    )


def _list_facts(releases: Mapping[str, Release]) -> list[tuple[str, str]]:
    spent = _add_costs(releases["microdata"]) + _add_costs(releases["view"])
    return [
        (say("members"), write_number(releases["microdata"].frames["records"].rows)),
        (say("people on the map"), write_number(_count_people(releases["table"]))),
        (say("releases"), write_number(len(releases))),
        (say("epsilon spent on the members"), say("{spent} of {budget}", spent=spent, budget=2)),
    ]


def _add_costs(release: Release) -> Fraction:
    return sum((Fraction(spend["cost"]) for spend in release.certificate.spends), Fraction())


def _count_people(release: Release) -> float:
    return float(release.frames["cells"].decode()["count"].sum())


def _describe_input(out: Path, releases: Mapping[str, Release]) -> PageChapter:
    """The three inputs in words: columns and cells that are public facts, no row."""
    lead = say("Described, not shown: column names and domains are public facts, the rows are not.")
    cards = [
        _describe_members(out, releases["microdata"]),
        _describe_mesh(out, releases["table"]),
        _describe_city(out, releases["location"]),
    ]
    return PageChapter(title=say("What went in"), lead=lead, cards=cards)


def _describe_members(out: Path, release: Release) -> Card:
    schema = Schema.read(out / "members.toml")
    rows = write_number(release.frames["records"].rows)  # public: tables of another number are no neighbours
    return Card(
        kind=say("a private table"),
        title="members.csv",
        words=(
            say("{rows} members of a chain of sports clubs, one row each.", rows=rows),
            say("Protected: {unit}. The column itself never leaves.", unit=schema.unit.describe()),
        ),
        listing=describe_schema(schema),
        picture=draw_blind(title=say("a table behind a blind")),
        caption=say("The rows stay with the steward. The schema, members.toml, tells what is public."),
        size="small",
    )


def _describe_mesh(out: Path, release: Release) -> Card:
    cells, people = f"{Schema.read(out / 'people.toml').size:,}", write_number(_count_people(release))
    return Card(
        kind=say("a private table"),
        title="people.csv",
        words=(
            say("{people} people by cell of 500 m (JIS X 0410), already counted.", people=people),
            say("{cells} cells of land can hold people; which ones do is private.", cells=cells),
            say("Protected: every single person that is counted."),
        ),
        picture=draw_blind(title=say("a table behind a blind")),
        caption=say("Empty cells are as private as full ones."),
        size="small",
    )


def _describe_city(out: Path, release: Release) -> Card:
    cells = f"{release.frames['weights'].rows:,}"
    return Card(
        kind=say("a public map"),
        title="city.toml",
        words=(
            say("A made-up city on a bay: sea, a river with bridges, two parks, a pier and an island."),
            say("{cells} cells of 100 m, each with the share of it where a person can be.", cells=cells),
        ),
        picture=draw_city(out),
        caption=say("This is public, so it may be shown: no person is in it."),
    )


def _describe_promises(out: Path, releases: Mapping[str, Release]) -> PageChapter:
    """Every promise in its own words, and the two ledgers."""
    rows = []
    for kind, release in releases.items():
        cost = str(_add_costs(release)) if release.certificate.spends else "–"
        rows.append((kind, str(release.certificate.statement), cost))
    listing = Listing(
        title=say("the promise of each release, as its certificate says it"),
        head=(say("release"), say("promise in words"), say("epsilon charged")),
        rows=rows,
    )
    note = say(
        "A ledger is a budget: it refuses a release before any noise is drawn once nothing is left, and what is spent"
        " never comes back. k-anonymity is outside of it: no epsilon bounds what kanon tells about the same members."
    )
    return PageChapter(
        title=say("What was promised and spent"),
        lead=note,
        cards=list(_describe_ledgers(out, releases)),
        listing=listing,
    )


def _describe_ledgers(out: Path, releases: Mapping[str, Release]) -> Iterator[Card]:
    for name, kinds in (("members", ("microdata", "view")), ("people", ("table",))):
        spent = [(kind, _add_costs(releases[kind])) for kind in kinds]
        with Ledger.open(out / f"{name}.ledger") as ledger:
            budget, left = ledger.budget, ledger.left
        title = say("{left} of {budget} is left", left=left, budget=budget)
        yield Card(
            kind=say("a ledger"),
            title=f"{name}.ledger",
            words=(say("Budget: epsilon {budget}. {left} is left.", budget=budget, left=left),),
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
        (say("After `make demo`, so that the commands below are found:"), ". .venv/bin/activate"),
        (say("Ask the view a question of your own; the answer comes with an interval."),
         f'sudare query {view} "{question}"'),
        (say("Check a release: its files, its certificate, its spends in the ledger."),
         f"sudare verify {microdata} --ledger {ledger}"),
        (say("See what is left of the budget."), f"sudare ledger show {ledger}"),
        (say("Look ahead before anything is spent: the cost and the expected error of another release."),
         f"sudare preview microdata --schema {schema} --epsilon 1/2 --by sex,age"),
        (say("Not sure which method fits? Say what people need; no data is opened."),
         f"sudare choose {schema} --need queries --rows 80000"),
        (say("Begin with a table of your own: propose a schema, read it, confirm it, publish."), yours),
    ]  # fmt: skip
    return PageChapter(title=say("What to do next"), lead=say("Lines to type in a terminal."), commands=commands)


# The main job on built-in data: made-up members, people on a mesh and a city; all five releases, and a page.


MEMBERS = 80_000
CITY = (32, 44)  # rows and columns of cells of 100 m
SEED = 2017  # of the data, which are made up; no noise has a seed
STEPS = 11  # lines that the command prints
KINDS = ("microdata", "view", "kanon", "table", "location")
ENDINGS = {"en": "html", "ja": "ja.html"}


class DemoStep(Protocol):
    """Called before each step with its number, a template and its values."""

    def __call__(self, text: str, /, *, step: int, **values: object) -> None:
        """Say it."""
        ...


def run_demo(out: Path, *, say_step: DemoStep) -> Path:
    """Make the data, publish them and write the pages; return the first page. On failure nothing is left."""
    with removed_on_failure(out):
        made = _publish_members(out, say_step) | _publish_places(out, say_step)
        return _write_pages(out, made, say_step)


def _publish_members(out: Path, say_step: DemoStep) -> dict[str, dict[str, Any]]:
    """Three releases of one table, two of them from one budget; return how the truth of each is read."""
    say_step("{rows} made-up members -> {file}", step=1, rows=f"{MEMBERS:,}", file=out / "members.csv")
    data, schema = write_members(out, rows=MEMBERS, seed=SEED)
    ledger = out / "members.ledger"
    say_step("a budget of epsilon 2 for them -> {file}", step=2, file=ledger)
    Ledger.create(ledger, epsilon=2, name="members").close()
    place: dict[str, Any] = {"schema_file": schema, "ledger_file": ledger}
    say_step("records under epsilon 1 -> {out}", step=3, out=out / "microdata")
    publish_release(Microdata(epsilon=1, by=("sex", "age", "prefecture", "plan")), str(data), out=out / "microdata",
                    **place)  # fmt: skip
    say_step("a view that answers any count, epsilon 1/2 -> {out}", step=4, out=out / "view")
    publish_release(View(epsilon="1/2"), str(data), out=out / "view", **place)
    say_step("the table itself, 50 rows alike at least -> {out}", step=5, out=out / "kanon")
    publish_kanon(KAnonymity(k=50, max_suppressed="0.01"), str(data), schema_file=schema, out=out / "kanon")
    truth = {"truth": str(data), "schema_file": schema, "reading": {}}
    return dict.fromkeys(("microdata", "view", "kanon"), truth)


def _publish_places(out: Path, say_step: DemoStep) -> dict[str, dict[str, Any]]:
    """People on a mesh as a table with region sums, and a city as a mechanism for devices."""
    say_step("made-up people on a mesh of 500 m -> {file}", step=6, file=out / "people.csv")
    data, schema = write_census(out, seed=SEED)
    ledger = out / "people.ledger"
    Ledger.create(ledger, epsilon=1, name="people").close()
    say_step("a table of them with sums of regions, epsilon 1 -> {out}", step=7, out=out / "table")
    publish_release(Table(epsilon=1, focus="both"), str(data), schema_file=schema, out=out / "table",
                    ledger_file=ledger, count_column="people")  # fmt: skip
    say_step("a made-up city on a bay -> {file}", step=8, file=out / "city.toml")
    rows, columns = CITY
    city = write_city(out, rows=rows, columns=columns)
    say_step("a mechanism for devices there, epsilon 0.02 per metre -> {out}", step=9, out=out / "location")
    publish_location(city, out=out / "location", epsilon_per_metre="0.02", mode="fair")
    return {"table": {"truth": str(data), "schema_file": schema, "reading": {"count_column": "people"}}}


def _write_pages(out: Path, truths: Mapping[str, Mapping[str, Any]], say_step: DemoStep) -> Path:
    """A page a release for everybody, one beside the truth for the steward, and one about all; in both languages."""
    releases = {kind: Release.load(out / kind) for kind in KINDS}
    for folder in ("reports", "steward"):
        (out / folder).mkdir()
    for step, lang in enumerate(ENDINGS, start=STEPS - 1):
        say_step("pages in English -> {out}" if lang == "en" else "pages in Japanese -> {out}", step=step,
                 out=out / f"index.{ENDINGS[lang]}")  # fmt: skip
        with speaking(lang):
            compared = dict(_write_reports(out, releases, truths, ENDINGS[lang]))
            write_page(out / f"index.{ENDINGS[lang]}", render_demo_page(out, releases, compared))
    return out / f"index.{ENDINGS[language()]}"


def _write_reports(
    out: Path, releases: Mapping[str, Release], truths: Mapping[str, Mapping[str, Any]], ending: str
) -> Iterator[tuple[str, TruthComparison]]:
    for kind, release in releases.items():
        write_page(out / "reports" / f"{kind}.{ending}", render_report(release, out / kind))
        if kind in truths:
            truth = compare_release(release, **truths[kind])
            write_page(out / "steward" / f"{kind}.{ending}", render_report(release, out / kind, truth=truth))
            yield kind, truth
