"""Areas, further tables and exact totals of one release: consistent, paid for, and checked when it is read back."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sudare.counts import Counts
from sudare.errors import ParameterError, SchemaError
from sudare.methods.base import Plan
from sudare.methods.table import Table, draw
from sudare.methods.table.asked import open_table
from sudare.methods.table.estimates import TableFigures
from sudare.methods.table.years import compare_years
from sudare.noise import GaussianNoise, SeededRng
from sudare.privacy import Guarantee, read_guarantee
from sudare.releases import Certificate, Release
from sudare.releases.certificate import write_chapters
from sudare.schema import Areas, Attribute, MeshCells, NumberBins, Schema, Unit, Values
from sudare.schema.areas import NO_AREA, find_runs
from sudare.testing import Tabled
from sudare.verify.neighbours import Dice, TablePair, make_area_schema, make_pair
from sudare.verify.replay import replay_method, replay_pair

SIDE = 24
MAP = Schema(
    name="people",
    attributes=(
        Attribute(name="x", domain=NumberBins.of_width(0, SIDE, 1)),
        Attribute(name="y", domain=NumberBins.of_width(0, SIDE, 1)),
        Attribute(name="sex", domain=Values(("F", "M"))),
    ),
)
CELL = np.arange(SIDE * SIDE)
TOWN = CELL // SIDE // 6 * 3 + CELL % SIDE // 9  # 4 x 3 towns, in 4 provinces
TOWNS = Areas(
    attributes=("x", "y"),
    levels=("town", "province"),
    rule="largest",
    size=SIDE * SIDE,
    units=tuple((f"t{town}", f"p{town // 3}") for town in range(12)),
    runs=tuple(find_runs(np.flatnonzero(town == TOWN)) for town in range(12)),
)
SCHOOLS = Areas(
    attributes=("x", "y"),
    levels=("school",),
    rule="largest",
    size=SIDE * SIDE,
    units=(("s0",), ("s1",)),
    runs=tuple(find_runs(np.flatnonzero(school == (CELL // 7) % 3)) for school in (0, 1)),
)
FACTS = MAP.with_areas(TOWNS, SCHOOLS)


def people(schema: Schema = FACTS, *, rows: int = 6000) -> Counts:
    dice = np.random.default_rng(3)
    place = np.minimum(np.abs(dice.normal(8, 5, (rows, 2))).astype(np.int64), SIDE - 1)
    return Counts.from_columns(schema, np.column_stack([place, dice.integers(0, 2, rows)]))


def publish(seed: int = 1, counts: Counts | None = None, **given: Any) -> Release:
    return Table(**given).publish(Tabled(people() if counts is None else counts), rng=SeededRng(seed))


def true_sums(counts: Counts, groups: np.ndarray) -> np.ndarray:
    columns = counts.columns()
    return np.bincount(groups[columns[:, 0] * SIDE + columns[:, 1]], weights=counts.values)


# --- one table, many divisions ----------------------------------------------------------------------------------------


def test_all_areas_and_tables_are_sums_of_the_published_cells() -> None:
    release = publish(epsilon="1/2", tables=("town=1/5", "school=1/10", "province*sex=1/5", "sex"))
    cells, areas = release.frames["cells"].decode(), release.frames["areas"].decode()
    towns = TOWN[[int(x[1:].split(",")[0]) * SIDE + int(y[1:].split(",")[0]) for x, y in zip(cells["x"], cells["y"], strict=True)]]  # noqa: E501  # fmt: skip
    by_name = {
        (level, area): count for level, area, count in zip(areas["level"], areas["area"], areas["count"], strict=True)
    }
    first = release.frames["table_1"].decode()

    assert all(by_name["town", f"t{town}"] == cells["count"][towns == town].sum() for town in range(12))
    assert all(by_name["province", f"p{at}"] == cells["count"][towns // 3 == at].sum() for at in range(4))
    assert sum(by_name["school", name] for name in ("s0", "s1", NO_AREA)) == 6000
    women = (first["province"] == "p0") & (first["sex"] == "F")
    assert first["count"][women].sum() == cells["count"][(towns // 3 == 0) & (cells["sex"] == "F")].sum()
    assert release.frames["table_2"].decode()["count"].sum() == 6000


@pytest.mark.parametrize("amount", [{"epsilon": "1/2"}, {"rho": "1/50"}])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("unit", [Unit(), Unit(kind="person", column="id", max_rows=2)])
def test_margins_cover_the_truth_in_both_currencies_for_both_neighbours_and_persons(
    amount: dict[str, str], neighbours: str, unit: Unit
) -> None:
    """Of 160 figures: margins a third too narrow would cover 82 %, which happens to a right one once in a million."""
    counts, hits = people(replace(FACTS, unit=unit)), []
    truth = {"town": true_sums(counts, TOWN), "province": true_sums(counts, TOWN // 3)}
    for seed in range(10):
        release = publish(seed, counts, **amount, neighbours=neighbours)
        frame = release.frames["areas"].decode()
        for level, true in truth.items():
            at = frame["level"] == level
            number = np.array([int(name[1:]) for name in frame["area"][at]])
            hits += (np.abs(frame["unbiased"][at] - true[number]) <= frame["margin"][at]).tolist()

    assert np.mean(hits) >= 0.9


def test_areas_that_are_measured_are_nearer_to_the_truth_than_those_that_are_added_up() -> None:
    """On this map four times nearer in the mean; the test asks for twice."""
    counts, errors = people(), {}
    for name, tables in (("measured", ("town=1/4",)), ("added", ("town",))):
        found = [publish(seed, counts, epsilon="1/10", tables=tables).frames["areas"].decode() for seed in range(6)]
        towns = [frame["unbiased"][frame["level"] == "town"] for frame in found]
        order = [int(area[1:]) for area in found[0]["area"][found[0]["level"] == "town"]]
        errors[name] = float(np.mean((np.array(towns) - true_sums(counts, TOWN)[order]) ** 2))

    assert errors["measured"] < errors["added"] / 4


def test_a_workload_that_asks_for_areas_gives_them_a_share_and_one_that_does_not_gives_none() -> None:
    def shares(workload: str) -> str:
        return Table(epsilon=1, workload=workload).plan(FACTS).decided.get("tables", ())  # type: ignore[return-value]

    assert shares("cells") == ()
    assert [table.partition("=")[0] for table in shares("town")] == ["town"]
    few, many = (Fraction(shares(work)[0].partition("=")[2]) for work in ("cells,8,squares,town", "town"))
    assert 0 < few < many


def test_the_preview_says_which_tables_are_only_added_up_and_how_to_measure_them() -> None:
    told = [str(line) for line in Table(epsilon=1, tables=("town*sex", "province*sex=1/10")).preview(FACTS).lines()]
    added = [line.partition(":")[0] for line in told if "added up from cells" in line]

    assert added == ["town x sex"]
    assert any("such as town*sex=1/10" in line for line in told)


def test_the_promise_is_spent_whole_with_further_tables() -> None:
    for given in ({"epsilon": 1}, {"rho": "1/10"}):
        for neighbours in ("replace", "add-remove"):
            plan = Table(**given, tables=("town=1/4", "school=1/8")).plan(FACTS, neighbours=neighbours)  # type: ignore[arg-type]

            assert sum(plan.parts.values()) == plan.promise.amount  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tables": ("village=1/4",)}, "there is no village to divide a table by; there are x, y, sex, town"),
        ({"tables": ("town=2",)}, "share of table town=2 must be a number from 0 to below 1"),
        ({"tables": ("town=1/2", "school=1/2")}, "must leave at least 1/50"),
        ({"tables": ("town", "town=1/4")}, "lists a table twice"),
        ({"tables": ("town*town",)}, "names something twice"),
        ({"exact": ("town",)}, "exact numbers need a source"),
        ({"exact_from_data": True}, "exact numbers need a source"),
        ({"exact": ("sex",), "exact_from_data": True}, "must be total, or a level of declared areas"),
        ({"exact": ("town", "school"), "exact_from_data": True}, "may name one level"),
        ({"exact": ("town",), "exact_from_data": True, "tables": ("town=1/4",)}, "no share is spent for it"),
        ({"exact": ("town",), "totals": ("1", "2")}, "totals must be 12 whole numbers"),
        ({"tables": ("town",), "algorithm": "tree"}, "need algorithm squares"),
        ({"area_levels": ("town",)}, "belong to the file of --areas"),
        ({"area_rule": "split"}, "belong to the file of --areas"),
    ],
)
def test_wrong_tables_and_totals_are_refused_in_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Table(epsilon=1, **given).plan(FACTS)


def test_areas_of_an_attribute_that_is_not_published_are_refused() -> None:
    with pytest.raises(ParameterError, match="areas of x, y need these attributes"):
        Table(epsilon=1, by=("sex",)).plan(MAP, areas=(TOWNS,))


# --- exact totals -----------------------------------------------------------------------------------------------------


def test_exact_totals_of_the_table_hold_in_every_figure_and_the_promise_says_so() -> None:
    counts = people()
    release = publish(counts=counts, epsilon="1/2", exact=("province",), exact_from_data=True, tables=("town=1/4",))
    frame = release.frames["areas"].decode()
    at = frame["level"] == "province"
    promise = read_guarantee(release.certificate.guarantee)

    assert frame["count"][at].tolist() == true_sums(counts, TOWN // 3).tolist()
    assert frame["margin"][at].tolist() == [0.0] * 4
    assert frame["unbiased"][at].tolist() == frame["count"][at].tolist()
    assert release.certificate.guarantee["exact"] == ["province"]
    assert "nothing is promised about them: province" in release.certificate.guarantee["statement"]["en"]
    assert isinstance(promise, Guarantee)
    assert promise.exact == ("province",)
    assert not promise.implies(Guarantee(epsilon=Fraction(1, 2), neighbours="replace", unit=Unit()))


def test_totals_of_others_are_kept_without_a_word_in_the_promise(tmp_path: Path) -> None:
    counts, file = people(), tmp_path / "totals.csv"
    true = true_sums(counts, TOWN // 3).astype(int)
    lines = [f"province,p{number},{count}" for number, count in enumerate(true.tolist())]
    file.write_text("\n".join(["level,area,count", *lines]), encoding="utf-8")
    given: dict[str, Any] = {"epsilon": "1/2", "exact": ("province",), "totals": (str(file),)}
    release = publish(counts=counts, neighbours="add-remove", **given)
    areas, chapters = release.frames["areas"].decode(), write_chapters(release.certificate)

    assert "exact" not in release.certificate.guarantee
    assert any("province were published by others" in str(line) for _, lines in chapters for line in lines)
    assert "taken as right" in Table(neighbours="add-remove", **given).warn(FACTS)[0].render("en")
    assert release.certificate.parameters["totals"] == ",".join(map(str, true.tolist()))
    assert areas["count"][areas["level"] == "province"].tolist() == true.tolist()
    file.write_text(file.read_text(encoding="utf-8").replace(lines[0], "province,p0,1"), encoding="utf-8")
    with pytest.raises(ParameterError, match="totals add up to"):
        publish(counts=counts, neighbours="replace", **given)


def test_the_total_can_be_exact_where_it_would_be_private() -> None:
    release = publish(epsilon="1/2", neighbours="add-remove", exact=("total",), exact_from_data=True)

    assert release.frames["cells"].decode()["count"].sum() == 6000
    assert release.certificate.guarantee["exact"] == ["total"]


# --- the promise is kept ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("amount", [{"epsilon": 1}, {"rho": "1/2"}])
def test_replay_finds_the_promise_kept_with_areas_and_tables(amount: dict[str, Any]) -> None:
    method = Table(**amount, tables=("town=1/4", "school=1/10", "province*a0=1/8"))
    found = list(replay_method(method, schema=make_area_schema(Unit()), pairs=3))

    assert all(result.holds for result in found)
    assert max(result.worst for result in found) > Fraction(1, 2)


@pytest.mark.parametrize("amount", [{"epsilon": 1}, {"rho": "1/2"}])
def test_halved_noise_of_a_further_table_is_found(monkeypatch: pytest.MonkeyPatch, amount: dict[str, Any]) -> None:
    """The share of the areas is a quarter: half their noise costs a quarter more (in rho three quarters)."""
    right = draw.measure_sums

    def weaken(*given: Any, **named: Any) -> Any:
        return right(*given[:4], [halve(noise) for noise in given[4]], **named)

    monkeypatch.setattr(draw, "measure_sums", weaken)
    method = Table(**amount, tables=("town=1/4",))

    assert not all(result.holds for result in replay_method(method, schema=make_area_schema(Unit()), pairs=6))


def halve(noise: Any) -> Any:
    """The same law with half the deviation."""
    if isinstance(noise, GaussianNoise):
        return replace(noise, sigma_squared=noise.sigma_squared / 4)
    return replace(noise, scale=noise.scale / 2)


def replay_exact(pair: TablePair) -> tuple[Fraction, object]:
    method = Table(epsilon=1, exact=("province",), exact_from_data=True, tables=("town=1/4",))
    plan: Plan = method.plan(pair.first.schema)
    return replay_pair(method, plan, pair, seed=5)


def test_exact_totals_keep_the_promise_between_tables_that_agree_in_them_and_break_it_between_others() -> None:
    schema = make_area_schema(Unit())
    base = np.array([[5, 5], [7, 7], [1, 3]])

    def table(cell: list[int]) -> Counts:
        return Counts.from_columns(schema, np.vstack([base, [cell]]))

    within = replay_exact(TablePair(first=table([0, 0]), second=table([3, 0])))  # both in the north
    across = replay_exact(TablePair(first=table([0, 0]), second=table([9, 0])))

    assert within[0] <= 1
    assert within[1] is None
    assert across[1] is not None


def test_the_pairs_of_a_replay_reach_every_division() -> None:
    schema = make_area_schema(Unit())
    pair = make_pair(Dice(1), schema, "replace")

    assert pair.first.schema.areas == schema.areas


# --- read back --------------------------------------------------------------------------------------------------------


def save(tmp_path: Path) -> Path:
    release = publish(epsilon="1/2", exact=("province",), exact_from_data=True, tables=("town=1/4", "province*sex"))
    release.save(tmp_path / "out", file_format="csv", even_if_not_private=True)
    return tmp_path / "out"


def failed(place: Path) -> list[str]:
    certificate = Certificate.from_json((place / "certificate.json").read_text(encoding="utf-8"))
    return [str(claim.name) for claim in Table.recheck(certificate, place) if not claim.passed]


def test_verify_works_areas_tables_and_exact_totals_out_again(tmp_path: Path) -> None:
    place = save(tmp_path)

    assert failed(place) == []


@pytest.mark.parametrize(("file", "claim"), [("areas.csv", "table areas"), ("table_1.csv", "table table_1")])
def test_a_changed_figure_of_an_area_is_found(tmp_path: Path, file: str, claim: str) -> None:
    place = save(tmp_path)
    head, first, *rest = (place / file).read_text(encoding="utf-8").splitlines()
    parts = first.split(",")
    parts[2] = str(int(parts[2]) + 1)
    (place / file).write_text("\n".join([head, ",".join(parts), *rest]) + "\n", encoding="utf-8")

    assert failed(place) == [claim]


def test_a_promise_that_hides_its_exact_totals_is_found(tmp_path: Path) -> None:
    place = save(tmp_path)
    facts = json.loads((place / "certificate.json").read_text(encoding="utf-8"))
    del facts["guarantee"]["exact"]
    (place / "certificate.json").write_text(json.dumps(facts), encoding="utf-8")

    assert failed(place) == ["promise"]


def test_sql_knows_areas_and_levels(tmp_path: Path) -> None:
    release = publish(epsilon=1)
    opened, frame = open_table(release), release.frames["areas"].decode()
    answer = opened.sql("SELECT town, SUM(count) FROM areas WHERE province = 'p1' GROUP BY town")
    unbiased = dict(zip(frame["area"], frame["unbiased"], strict=True))

    assert {row[0]: round(row[1].value, 2) for row in answer.rows} == {
        name: pytest.approx(unbiased[name], abs=0.01) for name in ("t3", "t4", "t5")
    }
    one = opened.sql("SELECT COUNT(*) FROM areas WHERE town = 't3'").rows[0][0]
    at = frame["area"] == "t3"
    assert (one.high - one.low) / 2 == pytest.approx(frame["margin"][at][0], abs=0.02)


@pytest.mark.parametrize("amount", [{"epsilon": 4}, {"rho": "1/2"}], ids=str)
def test_intervals_in_sql_are_the_margins_of_the_files(amount: dict[str, Any]) -> None:
    """Of areas that were measured, whose noise has its own tails, and of those that are added up."""
    release = publish(**amount, tables=("town=1/4", "school*sex=1/8"))
    opened, frame = open_table(release), release.frames["areas"].decode()
    for level in ("town", "school", "province"):
        told = dict(opened.sql(f"SELECT {level}, SUM(count) FROM areas GROUP BY {level}").rows)
        for name, unbiased, margin in zip(frame["area"], frame["unbiased"], frame["margin"], strict=True):
            if name in told and unbiased > margin:
                assert told[name].value - told[name].low == pytest.approx(margin, abs=0.02)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_no_written_margin_reaches_above_a_number_of_records_that_is_public(neighbours: Any, tmp_path: Path) -> None:
    given: dict[str, Any] = {"epsilon": "1/100", "neighbours": neighbours, "tables": ("town=1/4", "town*sex")}
    release = publish(counts=people(rows=100), **given)
    release.save(tmp_path / "out", even_if_not_private=True)
    reach = [
        np.max(frame["unbiased"] + frame["margin"] - np.maximum(100, 2 * frame["unbiased"]), initial=-100)
        for frame in (release.frames[name].decode() for name in ("cells", "areas", "table_1"))
    ]

    assert (max(reach) <= 0.001) == (neighbours == "replace")
    assert failed(tmp_path / "out") == []


def test_a_level_is_a_table_by_its_own_name() -> None:
    opened = open_table(publish(epsilon=1))
    by_name = opened.sql("SELECT town, SUM(count) FROM Town WHERE province = 'p1' GROUP BY town")

    assert by_name.rows == opened.sql("SELECT town, SUM(count) FROM areas WHERE province = 'p1' GROUP BY town").rows


def test_a_table_that_there_is_not_is_refused_with_those_there_are() -> None:
    with pytest.raises(ParameterError, match="there is no table towns; ask FROM cells, town, areas"):
        open_table(publish(epsilon=1)).sql("SELECT SUM(count) FROM towns")


def test_counts_of_a_condition_are_summed_as_analysts_write_them() -> None:
    opened = open_table(publish(epsilon=1))
    written = opened.sql(
        "SELECT province, SUM(CASE WHEN town = 't3' THEN count ELSE 0 END) FROM areas GROUP BY province"
    )
    plain = opened.sql("SELECT province, SUM(CASE WHEN town = 't3' THEN 1 ELSE 0 END) FROM areas GROUP BY province")

    assert [row[1] for row in written.rows] == [row[1] for row in plain.rows]


@pytest.mark.parametrize("given", [{"epsilon": 1}, {"rho": "1/20"}])
def test_shares_of_areas_have_intervals_as_narrow_as_their_counts_and_hold(given: dict[str, Any]) -> None:
    counts, held, widths = people(), 0, list[float]()
    true = np.bincount(TOWN[counts.columns()[:, 0] * SIDE + counts.columns()[:, 1]], weights=counts.values) / 6000
    for seed in range(12):
        rows = open_table(publish(seed, counts, **given)).sql(
            "SELECT town, SUM(count) * 1.0 / SUM(SUM(count)) OVER () AS share FROM areas GROUP BY town"
        )
        for name, share in rows.rows:
            held += share.low <= true[int(name[1:])] <= share.high
            widths.append(share.high - share.low)

    assert 0.88 <= held / len(widths) <= 1
    assert max(widths) < 0.05  # half a record is 1/12,000 of all of them; taken as half of 1 these were 0.5 to 1


def test_a_mean_over_cells_is_as_sure_as_its_people() -> None:
    counts = people()
    women = counts.values[counts.columns()[:, 2] == 0].sum() / counts.values.sum()
    answer = open_table(publish(1, counts, epsilon=1)).sql(
        "SELECT AVG(CASE WHEN sex = 'F' THEN 1 ELSE 0 END) FROM cells"
    )
    share = answer.rows[0][0]

    assert share.low <= women <= share.high
    assert share.high - share.low < 0.05


def test_columns_are_named_as_they_were_written() -> None:
    opened = open_table(publish(epsilon=1))

    assert opened.sql("SELECT SUM(count) / 2 FROM cells").columns == ("SUM(count) / 2",)
    assert opened.sql("SELECT SUM(count) / COUNT(*) FROM cells").columns == ("COUNT(*) / COUNT(*)",)


def test_a_level_of_areas_that_is_asked_from_cells_is_refused_with_what_to_write() -> None:
    with pytest.raises(ParameterError, match="town is a level of areas, and no column of the cells; ask FROM areas"):
        open_table(publish(epsilon=1)).sql("SELECT SUM(count) FROM cells WHERE town = 't3'")


def test_sql_adds_up_a_mesh_by_its_levels() -> None:
    mesh = Attribute(name="mesh", domain=MeshCells(level=2, area=("5339", "5340")))
    schema = Schema(name="people", attributes=(mesh,))
    counts = Counts.from_columns(schema, np.arange(128)[:, None], np.full(128, 50))
    opened = open_table(publish(counts=counts, epsilon=1))
    answer = opened.sql("SELECT mesh_1, SUM(count) FROM levels GROUP BY mesh_1")

    assert opened.sql("SELECT mesh_1, SUM(count) FROM mesh_1 GROUP BY mesh_1").rows == answer.rows
    assert [row[0] for row in answer.rows] == ["5339", "5340"]
    assert sum(row[1].value for row in answer.rows) == pytest.approx(6400)


# --- years ------------------------------------------------------------------------------------------------------------


def test_a_release_continues_an_earlier_one_and_the_change_has_a_margin(tmp_path: Path) -> None:
    """Of 48 changes of towns; margins a third too narrow would cover 82 %."""
    now, hits = people(rows=7000), []
    for seed in range(4):
        first, second = publish(seed, epsilon="1/2"), publish(seed + 50, now, epsilon="1/2")
        found = compare_years(first, second, level="town").decode()
        change = true_sums(now, TOWN) - true_sums(people(), TOWN)
        order = [int(name[1:]) for name in found["town"]]
        hits += (np.abs(found["change"] - change[order]) <= found["margin"]).tolist()
    first.save(tmp_path / "first", even_if_not_private=True)
    linked = publish(9, now, epsilon="1/2", continues=str(tmp_path / "first"))

    assert np.mean(hits) >= 0.88
    assert linked.certificate.parameters["continues"].startswith("sha256:")
    assert linked.certificate.parameters["continues"].endswith("epsilon=1/2 neighbours=replace")
    assert sum(Table(epsilon="1/2", continues=str(tmp_path / "first")).plan(FACTS).parts.values()) == Fraction(1, 2)
    linked.save(tmp_path / "second", even_if_not_private=True)
    assert failed(tmp_path / "second") == []


def test_a_change_is_no_larger_than_the_public_numbers_of_records_allow() -> None:
    """Of 60 records that become 90 at most 60 can be gone and 90 be new anywhere; the noise is of hundreds."""
    first, second = publish(1, people(rows=60), epsilon="1/20"), publish(2, people(rows=90), epsilon="1/20")
    found = compare_years(first, second, level="town").decode()
    ends = np.maximum(found["change"] + 60, 90 - found["change"])

    assert (found["margin"] <= ends + 0.005).all()
    assert (found["margin"] == ends.round(2)).any()


def test_a_change_has_its_full_margin_where_no_number_of_records_is_public() -> None:
    first, second = (publish(seed, people(rows=60), epsilon="1/20", neighbours="add-remove") for seed in (1, 2))
    found = compare_years(first, second, level="town").decode()

    assert (found["margin"] > 150).all()


def test_a_release_over_other_cells_does_not_continue(tmp_path: Path) -> None:
    publish(epsilon=1).save(tmp_path / "first", even_if_not_private=True)
    with pytest.raises(ParameterError, match="other attributes, values or another unit"):
        Table(epsilon=1, by=("x", "y"), continues=str(tmp_path / "first")).plan(FACTS)
    with pytest.raises(ParameterError, match="continues"):
        Table(epsilon=1, continues=str(tmp_path / "nowhere")).plan(FACTS)


# --- area files -------------------------------------------------------------------------------------------------------

SQUARE = [[[0, 0], [10.5, 0], [10.5, 24], [0, 24], [0, 0]]]
REST = [[[10.5, 0], [24, 0], [24, 24], [10.5, 24], [10.5, 0]]]


def write_polygons(path: Path, *shapes: list[Any]) -> Path:
    features = [
        {"type": "Feature", "properties": {"ward": f"w{at}"}, "geometry": {"type": "Polygon", "coordinates": shape}}
        for at, shape in enumerate(shapes)
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}), encoding="utf-8")
    return path


@pytest.mark.parametrize(("rule", "border"), [("centre", 0), ("largest", 0), ("split", 0)])
def test_polygons_give_cells_to_areas_by_the_declared_rule(tmp_path: Path, rule: str, border: int) -> None:
    areas = Areas.read(write_polygons(tmp_path / "w.geojson", SQUARE, REST), MAP, rule=rule)
    ward = areas.codes["ward"].reshape(SIDE, SIDE)
    shares = areas.pieces.shares[areas.pieces.cells == 10 * SIDE]

    assert areas.attributes == ("x", "y")
    assert set(ward[:10].ravel()) == {0}
    assert set(ward[11:].ravel()) == {1}
    assert shares.tolist() == ([0.5, 0.5] if rule == "split" else [1.0])
    assert areas == Areas.from_dict(json.loads(json.dumps(areas.to_dict())))


def test_outlines_that_cross_and_areas_that_overlap_are_told_and_are_no_part_of_the_division(tmp_path: Path) -> None:
    bow = [[[12, 0], [24, 24], [24, 0], [12, 24], [12, 0]]]
    wide = [[[0, 0], [11, 0], [11, 24], [0, 24], [0, 0]]]
    inner = [[[10, 0], [12, 0], [12, 24], [10, 24], [10, 0]]]
    file = write_polygons(tmp_path / "w.geojson", wide, inner, bow)
    by_centre, by_share = Areas.read(file, MAP), Areas.read(file, MAP, rule="largest")
    told = [note.render("en") for note in Table(epsilon=1).warn(MAP, areas=(by_centre,))]
    foreseen = Table(epsilon=1).preview(MAP, areas=(by_centre,))  # before anything is spent

    assert [note.render("en") for note in foreseen.notes] == told
    assert foreseen.lines()[-1].render("en") == f"note: {told[-1]}"
    assert [note.split("; ")[0] for note in told] == [
        "w.geojson: outlines that cross or touch themselves were mended, so that these areas may hold other cells than"
        " meant: w2",
        "w.geojson: the centres of 24 cells lie in several areas, or on their border",
    ]
    assert "overlap in 24 cells" in by_share.notes[1].render("en")
    assert Areas.from_dict(by_centre.to_dict()) == by_centre
    assert not Areas.read(write_polygons(tmp_path / "good.geojson", SQUARE, REST), MAP, rule="largest").notes


def test_shared_cells_count_by_their_shares_in_every_figure(tmp_path: Path) -> None:
    areas = Areas.read(write_polygons(tmp_path / "w.geojson", SQUARE, REST), MAP, rule="split")
    schema = MAP.with_areas(areas)
    release = publish(counts=people(schema), epsilon=1)
    cells, frame = release.frames["cells"].decode(), release.frames["areas"].decode()
    x = np.array([int(label[1:].split(",")[0]) for label in cells["x"]])

    assert (
        frame["count"][frame["area"] == "w0"][0]
        == (cells["count"] * np.where(x < 10, 1, np.where(x == 10, 0.5, 0))).sum()
    )
    assert frame["count"].sum() == 6000
    TableFigures.load(release)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no GeoJSON file"),
        ('{"features": []}', "holds no area"),
        (
            '{"features": [{"properties": {"a": 1}, "geometry": {"type": "Point", "coordinates": [0, 0]}}]}',
            "no surface",
        ),
    ],
)
def test_a_broken_file_of_polygons_is_told_in_one_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "w.geojson").write_text(content, encoding="utf-8")
    with pytest.raises(SchemaError, match=message):
        Areas.read(tmp_path / "w.geojson", MAP)


def test_polygons_elsewhere_are_told(tmp_path: Path) -> None:
    far = [[[100, 100], [101, 100], [101, 101], [100, 100]]]
    with pytest.raises(SchemaError, match="no cell of the map lies in any of its areas"):
        Areas.read(write_polygons(tmp_path / "w.geojson", far), MAP)


def test_a_schema_file_declares_several_divisions(tmp_path: Path) -> None:
    (tmp_path / "towns.csv").write_text("item,town\na,t1\nb,t2\n", encoding="utf-8")
    (tmp_path / "schools.csv").write_text("item,school,share\na,s1,1\nb,s1,1/2\nb,s2,1/2\n", encoding="utf-8")
    (tmp_path / "s.toml").write_text(
        '[sudare]\nschema = 1\n[[attribute]]\nname = "item"\nkind = "category"\nvalues = ["a", "b"]\n'
        '[[areas]]\nfile = "towns.csv"\n[[areas]]\nfile = "schools.csv"\nrule = "split"\n',
        encoding="utf-8",
    )
    schema = Schema.read(tmp_path / "s.toml")

    assert [division.levels for division in schema.areas] == [("town",), ("school",)]
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


# --- pages and maps ---------------------------------------------------------------------------------------------------


def publish_mesh(tmp_path: Path) -> Path:
    mesh = Attribute(name="mesh", domain=MeshCells(level=2, area=("5339",)))
    lines = [f"5339{row}{column},m{column // 4},p" for row in range(8) for column in range(8)]
    (tmp_path / "areas.csv").write_text("\n".join(["mesh,municipality,prefecture", *lines]), encoding="utf-8")
    schema = Schema(name="people", attributes=(mesh,))
    schema = schema.with_areas(Areas.read(tmp_path / "areas.csv", schema))
    counts = Counts.from_columns(schema, np.arange(64)[:, None], np.arange(64) * 10)
    publish(counts=counts, epsilon=1).save(tmp_path / "out", file_format="csv", even_if_not_private=True)
    return tmp_path / "out"


def test_areas_of_a_mesh_stand_on_a_map_with_their_borders_and_on_the_page(tmp_path: Path) -> None:
    place = publish_mesh(tmp_path)
    release = Release.load(place)
    shapes = json.loads((place / "areas.geojson").read_text(encoding="utf-8"))["features"]
    frame = release.frames["areas"].decode()
    picture = (place / "areas.ja.svg").read_text(encoding="utf-8")
    page = Table.page(release)
    titles = [section.title.render("en") for section in page.sections]  # type: ignore[union-attr]

    assert [(one["properties"]["area"], len(one["geometry"]["coordinates"])) for one in shapes] == [
        ("m0", 8), ("m1", 8), ("p", 8)
    ]  # fmt: skip
    assert [str(one["properties"]["count"]) for one in shapes] == [str(count) for count in frame["count"]]
    assert "地域ごとの人数" in picture
    assert picture.count("M") >= 2
    assert "Areas" in titles
    assert failed(place) == []
