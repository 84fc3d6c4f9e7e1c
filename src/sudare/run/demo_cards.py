"""The five releases of the demo as cards: a picture drawn from the release alone, figures, links."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sudare.messages import language, say
from sudare.methods.location import load_artefact
from sudare.methods.location.grid import PlaneGrid
from sudare.methods.view import open_view
from sudare.methods.view.answers import Answer
from sudare.releases import Release
from sudare.releases.geo import roll_up
from sudare.report.frames import codes_of, label_texts, numbers
from sudare.report.overview import Card
from sudare.report.pictures import ladders, landscape, nearest, pyramid, reports
from sudare.report.shapes import Listing, number
from sudare.report.svg import legend, marginal
from sudare.report.tabular import side_by_side
from sudare.report.views import view_marginal
from sudare.run.city import city_grounds
from sudare.schema import Attribute, MeshCells, Schema

Codes = NDArray[np.int64]

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


def _told(cell: str | Answer | None) -> tuple[str, str]:
    if not isinstance(cell, Answer):
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
