"""The view: its promise, what it answers, what its files hold, and what it refuses."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest

from sudare.asking.answers import Estimate
from sudare.counts import Counts
from sudare.errors import ParameterError, ReleaseError, SchemaError
from sudare.methods.microdata import Microdata
from sudare.methods.view import OpenedView, View, open_view
from sudare.methods.view.budget import parts, plan
from sudare.methods.view.junction_tree import CliqueTree
from sudare.noise import SeededRng
from sudare.privacy import Guarantee
from sudare.releases import Release
from sudare.schema import Attribute, DateBins, Impossible, NumberBins, Schema, Unit, Values
from sudare.testing import Tabled
from sudare.testing.subject import even_table, schema_of

AGE = Attribute(name="age", domain=NumberBins.of_width(0, 100, 5), missing=True)
SEX = Attribute(name="sex", domain=Values(values=("F", "M")))
JOB = Attribute(name="job", domain=Values(values=("none", "part", "full"), is_ordered=True))
DAY = Attribute(name="day", domain=DateBins.of_width("2024-01-01", "2024-12-31", "1 month"))
PEOPLE = Schema(name="people", unit=Unit(), attributes=(AGE, SEX, JOB, DAY))
WAYS = ("model", "product", "mondrian", "hdpview")


def people(rows: int = 20_000) -> Counts:
    """Made up: jobs depend on age, and the age of every 50th is missing."""
    generator = np.random.default_rng(1)
    age = generator.integers(0, 20, rows)
    job = np.where(age < 4, 0, np.where(age < 13, 2, generator.integers(0, 2, rows)))
    age[::50] = 20
    return Counts.from_columns(
        PEOPLE, np.column_stack([age, generator.integers(0, 2, rows), job, generator.integers(0, 12, rows)])
    )


def opened(method: str = "model", epsilon: int = 20, rows: int = 20_000) -> OpenedView:
    view = View(epsilon=epsilon, algorithm=method)  # type: ignore[arg-type]
    return open_view(view.publish(Tabled(people(rows)), rng=SeededRng(1)))


@pytest.fixture(scope="module")
def view() -> OpenedView:
    return opened()


def truth(**wanted: set[int]) -> int:
    table = people()
    keep = np.ones(table.nonzero, dtype=bool)
    for name, codes in wanted.items():
        keep &= np.isin(table.column(name), list(codes))
    return int(table.values[keep].sum())


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
@pytest.mark.parametrize("method", WAYS)
def test_a_view_answers_the_same_after_it_was_saved_and_loaded(method: str, file_format: str, tmp_path: Path) -> None:
    release = View(epsilon=5, algorithm=method).publish(Tabled(people(2000)), rng=SeededRng(1))  # type: ignore[arg-type]
    before = open_view(release).count(age=(20, 39), sex="F")
    release.save(tmp_path / "out", file_format=file_format, even_if_not_private=True)  # type: ignore[arg-type]
    after = open_view(tmp_path / "out").count(age=(20, 39), sex="F")

    assert (after.value, after.low, after.high) == pytest.approx((before.value, before.low, before.high))


def test_plain_duckdb_answers_with_the_two_documented_queries(tmp_path: Path) -> None:
    release = View(epsilon=20).publish(Tabled(people()), rng=SeededRng(1))
    release.save(tmp_path / "out", even_if_not_private=True)
    engine = duckdb.connect()
    one = engine.execute(
        f"""SELECT sum(count) FROM '{tmp_path}/out/values.parquet'
        WHERE attribute = 'age' AND low >= 20 AND high <= 40"""
    ).fetchone()
    two = engine.execute(
        f"""SELECT sum(p.count * a.share * b.share)
        FROM '{tmp_path}/out/pairs.parquet' p
        JOIN '{tmp_path}/out/values.parquet' a ON a.attribute = p.first AND a.bin = p.first_bin
        JOIN '{tmp_path}/out/values.parquet' b ON b.attribute = p.second AND b.bin = p.second_bin
        WHERE p.first = 'age' AND p.second = 'sex' AND a.low >= 20 AND a.high <= 40 AND b.label = 'F'"""
    ).fetchone()
    mine = open_view(release)

    assert one is not None
    assert two is not None
    assert one[0] == pytest.approx(mine.count(age=(20, 39)).value)
    assert two[0] == pytest.approx(mine.count(age=(20, 39), sex="F").value)


@pytest.mark.parametrize("method", WAYS)
def test_nothing_true_is_in_the_files(method: str, tmp_path: Path) -> None:
    """Five-digit primes as counts of a table of five cells: none of them, nor a sum of them, stands anywhere."""
    sentinels = np.array([10_007, 20_011, 40_009, 80_021, 160_001])
    schema = schema_of(5, 3)
    table = Counts.from_columns(schema, [[k, k % 3] for k in range(5)], sentinels)
    chosen = View(epsilon="1/100", algorithm=method, neighbours="add-remove")  # type: ignore[arg-type]
    chosen.publish(Tabled(table), rng=SeededRng(3)).save(tmp_path / "out", even_if_not_private=True)
    sums = {int(sentinels[list(some)].sum()) for some in _subsets(5)}
    held = {
        float(value)
        for frame in Release.load(tmp_path / "out").frames.values()
        for name, column in frame.columns.items()
        if name.startswith(("count", "variance")) and isinstance(column, np.ndarray)
        for value in column
    }

    assert not held & sums


def _subsets(size: int) -> list[tuple[int, ...]]:
    return [tuple(k for k in range(size) if mask >> k & 1) for mask in range(1, 2**size)]


def test_counts_are_near_the_truth_and_inside_their_interval(view: OpenedView) -> None:
    found = view.count(age=(20, 39), job="full")
    exact = truth(age={4, 5, 6, 7}, job={2})

    assert found.low <= exact <= found.high
    assert abs(found.value - exact) < 200
    assert found.level == 0.95


@pytest.mark.parametrize(
    ("where", "codes"),
    [
        ("sex = 'F'", {"sex": {0}}),
        ("sex <> 'F'", {"sex": {1}}),
        ("age BETWEEN 20 AND 39", {"age": {4, 5, 6, 7}}),
        ("age >= 20 AND age < 40", {"age": {4, 5, 6, 7}}),
        ("40 > age AND 20 <= age", {"age": {4, 5, 6, 7}}),
        ("NOT age < 20", {"age": set(range(4, 20))}),
        ("age IS NULL", {"age": {20}}),
        ("age IS NOT NULL", {"age": set(range(20))}),
        ("job IN ('none', 'part')", {"job": {0, 1}}),
        ("job < 'full'", {"job": {0, 1}}),
        ("age = '[20,25)'", {"age": {4}}),
        ("day >= DATE '2024-11-01'", {"day": {10, 11}}),
        ("day BETWEEN '2024-02-01' AND '2024-03-31'", {"day": {1, 2}}),
        ("sex = 'F' AND (job = 'full' AND NOT age < 20)", {"sex": {0}, "job": {2}, "age": set(range(4, 20))}),
    ],
)
def test_conditions_mean_what_sql_says(view: OpenedView, where: str, codes: dict[str, set[int]]) -> None:
    ((found,),) = view.sql(f"SELECT COUNT(*) FROM view WHERE {where}").rows

    assert found.value == pytest.approx(truth(**codes), abs=120)  # type: ignore[union-attr]


def test_or_counts_nobody_twice(view: OpenedView) -> None:
    ((either,),) = view.sql("SELECT COUNT(*) FROM view WHERE sex = 'F' OR job = 'full' OR sex = 'F'").rows
    parts = [view.count(sex="F").value, view.count(job="full").value, -view.count(sex="F", job="full").value]

    assert either.value == pytest.approx(sum(parts))  # type: ignore[union-attr]


def test_a_bin_that_is_cut_counts_by_its_share(view: OpenedView) -> None:
    assert view.count(age=(20, 21)).value == pytest.approx(view.count(age=(20, 24)).value * 2 / 5)
    assert view.count(age=20).value == pytest.approx(view.count(age=(20, 24)).value / 5)


def test_intervals_of_sums_and_means_stay_where_the_numbers_can_be() -> None:
    poor = opened("product", epsilon=1, rows=30)

    (total, mean), *_ = poor.sql("SELECT SUM(age), AVG(age) FROM view WHERE job = 'part'").rows

    assert isinstance(total, Estimate)
    assert isinstance(mean, Estimate)
    assert (total.low, mean.low, mean.high) == (0, 0, 100)


def test_sums_and_means_of_numbers_and_groups(view: OpenedView) -> None:
    table = view.sql("SELECT sex, COUNT(*) AS n, SUM(age), AVG(age) FROM view WHERE age < 50 GROUP BY sex")
    exact = people().restrict({"sex": ["F"]})
    ages = exact.column("age")
    young = exact.values[ages < 10]
    total = float((young * (5 * ages[ages < 10] + 2)).sum())
    label, count, total_age, mean = table.rows[0]

    assert table.columns == ("sex", "n", "sum_age", "avg_age")
    assert label == "F"
    assert len(table.rows) == 2
    assert count.low <= young.sum() <= count.high  # type: ignore[union-attr]
    assert total_age.low <= total <= total_age.high  # type: ignore[union-attr]
    assert mean.low <= total / young.sum() <= mean.high  # type: ignore[union-attr]
    assert mean.high - mean.low < 3  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM view",
        "SELECT COUNT(*) FROM somewhere_else",
        "SELECT COUNT(*) FROM view JOIN view v ON true",
        "SELECT COUNT(*) FROM view WHERE age IN (SELECT 1)",
        "SELECT sex, COUNT(*) FROM view",
        "SELECT AVG(sex) FROM view",
        "DROP TABLE view",
        "SELECT COUNT(*) FROM view; SELECT 1",
        "no sql at all (",
        "",
        "SELECT COUNT(*) FROM view WHERE height > 3",
        "SELECT COUNT(*) FROM view WHERE sex > 'F'",
        "SELECT COUNT(*) FROM view WHERE age > 'old'",
    ],
)
def test_what_is_not_supported_is_refused_in_one_line(view: OpenedView, sql: str) -> None:
    with pytest.raises(ParameterError) as refused:
        view.sql(sql)

    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("condition", [{"sex": "X"}, {"age": 500}, {"job": "CEO"}, {"day": "2031-01-01"}])
def test_a_value_outside_the_domain_is_refused_with_those_there_are(
    view: OpenedView, condition: dict[str, object]
) -> None:
    with pytest.raises(SchemaError, match="has no such value"):
        view.count(**condition)


def test_an_attribute_that_is_not_in_the_view_is_refused_with_those_there_are(view: OpenedView) -> None:
    with pytest.raises(ParameterError, match="no attribute height; it has age"):
        view.count(height=3)


def test_a_release_of_another_method_is_no_view() -> None:
    with pytest.raises(ReleaseError, match="not a view"):
        open_view(Microdata(epsilon=1).publish(Tabled(even_table()), rng=SeededRng(1)))


@pytest.mark.parametrize("method", WAYS)
def test_records_follow_the_view(method: str) -> None:
    mine = opened(method)
    rows = np.concatenate(list(mine.records(50_000, rng=SeededRng(1))))
    share = float(((rows[:, 0] >= 4) & (rows[:, 0] < 8) & (rows[:, 1] == 0)).mean())

    assert rows.shape == (50_000, 4)
    assert (rows >= 0).all()
    assert (rows < np.array(PEOPLE.sizes)).all()
    assert share == pytest.approx(truth(age={4, 5, 6, 7}, sex={0}) / 20_000, abs=0.02)


@pytest.mark.parametrize("method", WAYS)
def test_every_answer_lies_within_its_interval(method: str) -> None:
    """Blocks of nobody come out below 0 half the time; then the answer and its interval end at 0 alike."""
    mine = opened(method, epsilon=1, rows=300)
    found = [mine.count(age=(low, low + 4), job=job) for low in range(0, 100, 5) for job in ("none", "part", "full")]

    assert all(0 <= one.low <= one.value <= one.high for one in found)


def test_one_attribute_has_little_doubt_of_the_model_and_more_have_more_if_no_clique_holds_them() -> None:
    view, blind = opened("model", epsilon=20), opened("product", epsilon=20)
    alone, held = view.count(job="full"), view.count(age=(20, 39), job="full")

    assert alone.model_deviation < alone.noise_deviation  # what the exam leaves open, and no more
    assert alone.model_deviation < held.model_deviation
    assert blind.count(job="full").model_deviation < blind.count(job="full").noise_deviation
    assert blind.count(age=(20, 39), job="full").model_deviation > 2 * held.model_deviation


@pytest.mark.parametrize("method", WAYS)
def test_empty_tables_and_single_cells_make_views_that_answer(method: str) -> None:
    chosen = View(epsilon=1, algorithm=method)  # type: ignore[arg-type]
    empty = open_view(chosen.publish(Tabled(Counts.from_columns(PEOPLE, [])), rng=SeededRng(1)))
    single = open_view(chosen.publish(Tabled(Counts.from_columns(schema_of(1), [[0]] * 7)), rng=SeededRng(1)))

    assert empty.count(sex="F").low <= 0 <= empty.count(sex="F").high
    assert len(next(iter(empty.records(10, rng=SeededRng(1))))) == 10
    assert single.count(a0="v0").value == pytest.approx(7, abs=30)


def test_forty_attributes_make_a_view() -> None:
    wide = schema_of(*[4] * 40)
    rows = np.random.default_rng(1).integers(0, 4, (3000, 40))
    rows[:, 1] = rows[:, 0]
    mine = open_view(View(epsilon=50).publish(Tabled(Counts.from_columns(wide, rows)), rng=SeededRng(1)))

    assert mine.count(a0="v1", a1="v1", a39="v2").value == pytest.approx(3000 / 16, abs=90)


def test_a_domain_of_1e32_cells_is_cut_into_blocks() -> None:
    wide = schema_of(*[10_000] * 8)
    rows = np.random.default_rng(1).integers(0, 10_000, (500, 8))
    mine = View(epsilon=1, algorithm="mondrian").publish(Tabled(Counts.from_columns(wide, rows)), rng=SeededRng(1))

    assert mine.frames["blocks"].rows >= 1


def test_replace_one_runs_at_half_the_epsilon_and_persons_at_a_share_of_it() -> None:
    person = Unit(kind="person", column="id", max_rows=5)
    budgets = [
        plan(Guarantee(epsilon=Fraction(1), neighbours=relation, unit=unit))  # type: ignore[arg-type]
        for relation in ("add-remove", "replace")
        for unit in (Unit(), person)
    ]

    assert [one.amount for one in budgets] == [Fraction(1), Fraction(1, 5), Fraction(1, 2), Fraction(1, 10)]
    assert [one.total_is_public for one in budgets] == [False, False, True, False]
    assert all(sum(parts(one, method).values()) == 1 for one in budgets for method in WAYS)


def test_the_number_of_records_is_exact_under_replace_one_with_the_model() -> None:
    assert opened("model", epsilon=1).count().value == pytest.approx(20_000)
    assert opened("product", epsilon=1).count().high == pytest.approx(20_000)


def test_impossible_combinations_are_refused() -> None:
    schema = Schema(name="s", attributes=(SEX, JOB), impossible=(Impossible({"sex": {0}, "job": {1}}),))  # type: ignore[arg-type]

    with pytest.raises(SchemaError, match="impossible"):
        View(epsilon=1).preview(schema)


def test_unknown_choices_are_refused() -> None:
    for fields in ({"algorithm": "magic"}, {"score": "guess"}, {"by": ()}, {"neighbours": "cousins"}):
        with pytest.raises(ParameterError):
            View(epsilon=1, **fields)  # type: ignore[arg-type]


def test_a_cycle_is_carried_along_the_path_and_keeps_the_running_intersection() -> None:
    tree = CliqueTree.alone(4).joined(0, 1).joined(1, 2).joined(2, 3).joined(0, 3)

    assert {(0, 1, 2), (0, 2, 3)} <= set(tree.cliques)


@pytest.mark.parametrize("method", ["mondrian", "hdpview"])
def test_the_noise_foretold_for_a_domain_of_one_cell_is_that_of_its_block(method: str) -> None:
    schema = Schema(name="one", unit=Unit(), attributes=(Attribute(name="x", domain=Values(values=("a",))),))
    way = View(epsilon=1, algorithm=method)  # type: ignore[arg-type]

    release = way.publish(Tabled(Counts.from_columns(schema, np.zeros((50, 1), dtype=np.int64))), rng=SeededRng(1))

    foretold = release.certificate.expected_error["block_standard_deviation"]
    assert open_view(release).count().noise_deviation == pytest.approx(foretold, rel=1e-5)
