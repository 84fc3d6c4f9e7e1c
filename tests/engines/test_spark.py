"""Spark: a real cluster on loopback counts, checks, recodes and writes as files do, and survives what clusters meet."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import re
import shlex
import threading
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import sudare as sd
from sudare.cli import main
from sudare.errors import ParameterError, SourceError
from sudare.noise import SeededRng
from sudare.privacy import Unrecorded
from sudare.schema import Attribute, NumberBins, Schema, Unit, Values
from sudare.testing.sources import IDENTITY_CHECKS, SOURCE_CHECKS, _checked, check_sentences
from tests.docs.pages import DOCS, blocks
from tests.docs.test_shown_output import matches
from tests.engines.cluster import SparkCluster, missing_spark, running_cluster
from tests.engines.doors import make_patients, write_file, write_server, write_workbook
from tests.servers import PostgresServer

PAGE = DOCS / "how-to" / "spark.md"

# One cluster and one driver serve the whole file: starting them takes a third of its CPU time.
pytestmark = [pytest.mark.skipif(bool(missing_spark()), reason=missing_spark()), pytest.mark.cpu_seconds(120)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master and two workers; what tests write for them lies in its folder."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(cluster.folder / "conf"))
        yield cluster


@pytest.fixture(scope="module")
def driver(cluster: SparkCluster) -> Iterator[Any]:
    """A session of this process on the cluster."""
    from sudare.sources import spark
    from sudare.sources.spark_jobs import SparkJobs

    yield SparkJobs("the tests", None).run(lambda: spark.connect(cluster.url))
    spark.disconnect()


def arrow_table(columns: dict[str, list[Any]]) -> pyarrow.Table:
    """Columns of plain values as Arrow has them."""
    types = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64(), date: pyarrow.date32(),
             Decimal: pyarrow.decimal128(10, 2)}  # fmt: skip
    kinds = {
        name: next((type(value) for value in values if value is not None), str) for name, values in columns.items()
    }
    return pyarrow.table({name: pyarrow.array(values, types[kinds[name]]) for name, values in columns.items()})


def write_parquet(folder: Path, columns: dict[str, list[Any]], *, files: int = 1) -> Path:
    """Write columns as so many Parquet files of one folder, under names that need care."""
    folder.mkdir()
    table = arrow_table(columns)
    for index in range(files):
        start, stop = index * len(table) // files, (index + 1) * len(table) // files
        pyarrow.parquet.write_table(table.slice(start, stop - start), folder / f"部分 {index}%[1].parquet")
    return folder


def visits(rows: int) -> dict[str, list[Any]]:
    """Made-up visits: on average three a person."""
    numbers = np.random.default_rng(5).integers(0, [3, 100, rows // 3], size=(rows, 3))
    wards = np.array(["east", "west", "north"])[numbers[:, 0]]
    return {"who": [f"p{number}" for number in numbers[:, 2]], "ward": wards.tolist(), "age": numbers[:, 1].tolist()}


VISITS = """
[sudare]
schema = 1
name = "visits"

[unit]
kind = "person"
column = "who"
max_rows = 2

[[attribute]]
name = "ward"
kind = "category"
values = ["east", "west", "north"]

[[attribute]]
name = "age"
kind = "number"
bins = { start = 0, stop = 100, width = 10 }
"""


def visits_schema(max_rows: int = 2) -> Schema:
    return Schema(
        name="visits",
        attributes=(
            Attribute(name="ward", domain=Values(("east", "west", "north")), role="quasi"),
            Attribute(name="age", domain=NumberBins.of_width(0, 100, 10), role="quasi"),
        ),
        unit=Unit(kind="person", column="who", max_rows=max_rows),
    )


def kept_rows(columns: dict[str, list[Any]], max_rows: int) -> int:
    return sum(min(rows, max_rows) for rows in Counter(columns["who"]).values())


# --- a steward's terminal: before this process has a session, so that the start of the driver is seen too -------------


def as_on_the_page(text: str, cluster: SparkCluster) -> str:
    """Put the cluster of these tests in place of the one that a page names."""
    return text.replace("spark://master:7077/lake", f"{cluster.url}{cluster.folder}").replace(
        '"/lake/', f'"{cluster.folder}/'
    )


def test_the_terminal_shows_what_the_page_shows_and_nothing_that_spark_says(
    cluster: SparkCluster, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In this process: a second driver and its executor would take a seventh of the CPU time of this file."""
    write_parquet(cluster.folder / "visits", visits(300))
    (cluster.folder / "visits.toml").write_text(VISITS)
    before, shown = next(
        (before, shown) for before, shown in itertools.pairwise(blocks(PAGE)) if before.language == "sh"
    )
    monkeypatch.chdir(cluster.folder)
    monkeypatch.setenv("SUDARE_LANG", "en")
    program, *arguments = shlex.split(as_on_the_page(before.text, cluster))

    assert program == "sudare"
    assert main(arguments) == 0
    printed = "".join(capfd.readouterr())
    assert matches(shown.text, printed), printed


def test_the_python_of_the_page_runs(cluster: SparkCluster, driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(cluster.folder)
    namespace: dict[str, Any] = {}
    for block in blocks(PAGE):
        if block.language == "python":
            exec(compile(as_on_the_page(block.text, cluster), str(PAGE), "exec"), namespace)

    assert namespace["young"].total > 0


# --- the contract -------------------------------------------------------------------------------------------------


def opener(cluster: SparkCluster, name: str, *, files: int = 1) -> Any:
    """Put the rows of the contract where the cluster reads them, and open them there."""
    numbers = itertools.count()

    def open_rows(columns: Any, schema: Schema) -> Any:
        path = write_parquet(cluster.folder / f"{name}-{next(numbers)}", dict(columns), files=files)
        return sd.open(f"{cluster.url}{path}", schema, spill_directory=cluster.folder)

    return open_rows


@contextmanager
def scanning(source: Any) -> Iterator[None]:
    """Keep another scan of the rows going."""
    stop = threading.Event()

    def scan() -> None:
        while not stop.is_set():
            source.engine._located.count()
            stop.wait(0.2)

    thread = threading.Thread(target=scan)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def interpreted(driver: Any) -> Iterator[None]:
    """Let Spark interpret plans instead of compiling them: for a few rows that takes half the time, and means the same.

    Other tests of this file run with what Spark does by itself.
    """
    settings = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
    }
    before = {key: driver.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        driver.conf.set(key, value)
    yield
    for key, value in before.items():
        driver.conf.unset(key) if value is None else driver.conf.set(key, value)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("check", SOURCE_CHECKS, ids=lambda check: check.__name__)
def test_spark_keeps_the_contract_of_a_source(check: Any, cluster: SparkCluster, driver: Any) -> None:
    assert _checked(check, opener(cluster, check.__name__))


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("check", IDENTITY_CHECKS, ids=lambda check: check.__name__)
def test_spark_knows_rows_again_beside_another_scan(check: Any, cluster: SparkCluster, driver: Any) -> None:
    assert check_sentences(opener(cluster, check.__name__, files=2), [check], beside=scanning)


def test_counts_and_a_seeded_release_are_those_of_a_csv_file(cluster: SparkCluster, driver: Any) -> None:
    columns = visits(2000)
    table = arrow_table(columns)
    file = cluster.folder / "same.csv"
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([table.column_names, *zip(*columns.values(), strict=True)])
    folder = write_parquet(cluster.folder / "same", columns, files=3)
    schema = visits_schema(max_rows=len(columns["who"]))

    def publish(data: object) -> tuple[Any, list[dict[str, Any]]]:
        with sd.open(data, schema, spill_directory=cluster.folder) as source:
            counts = source.count()
            method = sd.Microdata(epsilon=1)
            release = method.publish(source, ledger=Unrecorded(), rng=SeededRng(7))
            return counts, release.to_arrow().to_pylist()

    assert publish(f"{cluster.url}{folder}") == publish(file)


# --- four doors -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def doors(cluster: SparkCluster, postgres_server: PostgresServer) -> dict[str, str]:
    """One table of patients in a file, in a workbook, on a server and on the cluster; and on it a draft, confirmed."""
    columns = make_patients()
    file = write_file(cluster.folder / "patients.parquet", columns)
    return {
        "file": str(file),
        "workbook": str(write_workbook(cluster.folder / "patients.xlsx", columns)),
        "server": write_server(postgres_server, "patients", columns),
        "cluster": f"{cluster.url}{file}",
    }


@pytest.mark.usefixtures("interpreted")
def test_the_draft_of_a_table_is_the_same_through_every_door(doors: dict[str, str], driver: Any) -> None:
    drafts = {door: sd.propose_schema(data, name="patients") for door, data in doors.items()}

    assert len(tomllib.loads(drafts["file"].toml)["attribute"]) == len(make_patients())
    assert {door: draft.toml for door, draft in drafts.items()} == dict.fromkeys(doors, drafts["file"].toml)


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("recoding", ["full", "mondrian"])
def test_a_k_anonymous_release_is_the_same_through_every_door(
    recoding: str, doors: dict[str, str], driver: Any, cluster: SparkCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """Mondrian deals rows of one combination out at random: then all columns but the illness are alike."""
    schema = cluster.folder / f"patients-{recoding}.toml"
    draft = sd.propose_schema(doors["file"], name="patients").save(cluster.folder / f"{recoding}.toml", confirmed=True)
    schema.write_text(take_out(draft.read_text(encoding="utf-8"), ("weight", "seen", "fee", "registered")))
    releases = {}
    for door, data in doors.items():
        out = cluster.folder / f"{recoding}-{door}"
        assert main(["schema", "check", data, "--schema", str(schema)]) == 0
        assert main(["publish", "kanon", data, "--schema", str(schema), "--k", "3", "--recoding", recoding,
                     "--max-suppressed", "0.2", "--out", str(out)]) == 0  # fmt: skip
        assert main(["verify", str(out)]) == 0
        assert not [path for path in cluster.folder.iterdir() if path.name.startswith(".sudare-")]
        releases[door] = describe_release(out, columns=None if recoding == "full" else -1)

    assert releases == dict.fromkeys(doors, releases["file"])
    assert releases["file"][1].total() > 700


def take_out(schema: str, names: tuple[str, ...]) -> str:
    """Leave attributes out of a schema: a lattice of fewer dimensions is searched sooner."""
    head, *attributes = schema.split("[[attribute]]")
    left = [text for text in attributes if not text.startswith(tuple(f'\nname = "{name}"' for name in names))]
    return "[[attribute]]".join([head, *left])


def describe_release(folder: Path, *, columns: int | None) -> tuple[dict[str, Any], Counter[tuple[str, ...]]]:
    """Give what a certificate promises and measures, and the rows, up to a column, in any order."""
    certificate = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    told = {key: certificate[key] for key in ("parameters", "guarantee", "schema", "measures", "expected_error")}
    return told, Counter(row[:columns] for row in read_written(folder / "records.parquet"))


# --- frames, tables and other files ---------------------------------------------------------------------------------


def test_a_frame_whose_rows_come_out_otherwise_every_time_is_read_once(cluster: SparkCluster, driver: Any) -> None:
    """A sample drawn anew by every query would give other rows to the cap than to the count."""
    columns = visits(600)
    folder = write_parquet(cluster.folder / "drawn", columns)
    frame = driver.read.parquet(str(folder)).selectExpr("*", "rand() AS chance").where("chance < 0.5")

    with sd.open(frame, visits_schema(), spill_directory=cluster.folder) as source:
        assert source.count() == source.count()
        assert source.count().total <= 600

    assert not [path for path in cluster.folder.iterdir() if path.name.startswith(".sudare-")]


@pytest.mark.usefixtures("interpreted")
def test_settings_of_the_session_of_a_frame_stay_as_they_were(cluster: SparkCluster, driver: Any) -> None:
    driver.conf.set("spark.sql.caseSensitive", "false")
    frame = driver.createDataFrame(arrow_table({"ward": ["east"], "age": [3], "who": ["p"]}))

    with sd.open(frame, visits_schema(), spill_directory=cluster.folder) as source:
        assert source.count().total == 1

    assert driver.conf.get("spark.sql.caseSensitive") == "false"
    assert not driver.catalog.listTables()


@pytest.mark.usefixtures("interpreted")
def test_a_table_of_the_catalog_and_folders_with_partitions_are_read(cluster: SparkCluster, driver: Any) -> None:
    table = arrow_table({"age": [5, 15, 25], "ward": ["east", "west", "west"], "code": ["007", "7", "007"]})
    place = str(cluster.folder / "partitioned")
    driver.createDataFrame(table).write.partitionBy("code").option("path", place).saveAsTable("people")
    schema = Schema(name="people", attributes=(Attribute(name="code", domain=Values(("007", "7"))),))

    with sd.open(f"{cluster.url}{place}", schema) as source:
        assert source.count().dense().tolist() == [2, 1]
    with sd.open(f"{cluster.url}?table=people", schema) as source:
        assert source.count().total == 3


@pytest.mark.usefixtures("interpreted")
def test_a_text_file_is_read_as_it_stands_or_refused(cluster: SparkCluster, driver: Any) -> None:
    texts = ("007", "7", ' a "b"; c\nd', "髙")
    schema = Schema(name="texts", attributes=(Attribute(name="x;y", domain=Values(texts), missing=True),))
    folder = cluster.folder / "texts"
    folder.mkdir()
    with (folder / "good.csv").open("w", newline="", encoding="utf-8-sig") as out:
        csv.writer(out, delimiter=";").writerows([["x;y", "z"], *((text, 1) for text in texts), ["", 2]])
    (folder / "late.csv").write_bytes(b"x;y,z\n" + b"7,1\n" * 100_000 + "髙,1\n".encode("cp932"))
    (folder / "short.csv").write_text("x;y,z\n7,1\n7\n")

    with sd.open(f"{cluster.url}{folder}/good.csv", schema, spill_directory=cluster.folder) as source:
        assert source.count().dense().tolist() == [1, 1, 1, 1, 1]
    with pytest.raises(SourceError, match="cannot be read as utf-8"):
        sd.open(f"{cluster.url}{folder}/late.csv", schema, spill_directory=cluster.folder)
    with pytest.raises(SourceError, match="cannot be split into columns"):
        sd.open(f"{cluster.url}{folder}/short.csv", schema, spill_directory=cluster.folder)


@pytest.mark.usefixtures("interpreted")
def test_text_files_of_offices_are_read_as_on_this_machine(cluster: SparkCluster, driver: Any) -> None:
    """Other orders, delimiters, blank names, folders that name columns, packed and in CP932: all in one table."""
    folder = cluster.folder / "offices"
    for year, name, lines in (
        ("2023", "a.csv", "区,年齢,\n北,30,x\n南,40,y\n"),
        ("2024", "b.txt", "年齢|column 3|区\n50|z|北\n60|z|北\n"),
        ("2024", "c.csv.gz", '区,年齢,column 3\n"南",30,\n'),
    ):
        (folder / f"year={year}").mkdir(parents=True, exist_ok=True)
        data = lines.encode("cp932")
        (folder / f"year={year}" / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    schema = Schema(
        name="wards",
        attributes=(
            Attribute(name="区", domain=Values(("北", "南"))),
            Attribute(name="column 3", domain=Values(("x", "y", "z")), missing=True),
            Attribute(name="year", domain=Values(("2023", "2024"))),
        ),
    )
    with sd.open(str(folder), schema) as source:
        expected = source.count()

    with sd.open(f"{cluster.url}{folder}", schema, spill_directory=cluster.folder) as source:
        assert source.count() == expected
    assert expected.total == 5


# --- writing ----------------------------------------------------------------------------------------------------------


def test_k_anonymous_rows_written_by_the_cluster_are_those_of_a_file(cluster: SparkCluster, driver: Any) -> None:
    columns = visits(400)
    folder = write_parquet(cluster.folder / "rows", columns, files=4)
    schema = visits_schema(max_rows=400)
    written = {}
    for name, data in (("spark", f"{cluster.url}{folder}"), ("files", f"{folder}/*.parquet")):
        with sd.open(data, schema, spill_directory=cluster.folder) as source:
            rows = source.recode({})
            for ending in ("csv", "parquet"):
                written[name, ending] = rows.write(cluster.folder / f"{name}.{ending}")

    tables = {key: read_written(path) for key, path in written.items()}
    assert Counter(tables["spark", "csv"]) == Counter(tables["files", "csv"])
    assert Counter(tables["spark", "parquet"]) == Counter(tables["files", "parquet"])
    assert tables["spark", "csv"] != sorted(tables["spark", "csv"])


def read_written(path: Path) -> list[tuple[str, ...]]:
    if path.suffix == ".parquet":
        return [tuple(row.values()) for row in pyarrow.parquet.read_table(path).to_pylist()]
    with path.open(newline="", encoding="utf-8") as file:
        return [tuple(row) for row in csv.reader(file)]


# --- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("/no/such/place", "there is no spark://"),
        ("?table=nobody.knows", "in the catalog of the cluster"),
        ("?table=a&path=/b", "must be like spark://"),
        ("", "must be like spark://"),
    ],
)
def test_data_that_are_not_there_are_named(
    where: str, expected: str, cluster: SparkCluster, driver: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SourceError, match=re.escape(expected)) as refused:
        sd.open(f"{cluster.url}{where}", visits_schema())

    assert "\n" not in str(refused.value)
    assert capfd.readouterr() == ("", "")  # pyspark prints exceptions, too


@pytest.mark.usefixtures("interpreted")
def test_a_type_that_nobody_knows_is_named(cluster: SparkCluster, driver: Any) -> None:
    path = cluster.folder / "lists.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"ward": [["east"], ["west"]], "age": [3, 4], "who": ["p", "q"]}), path)

    with (
        sd.open(f"{cluster.url}{path}", visits_schema()) as source,
        pytest.raises(SourceError, match="column ward has type array, which cannot be read"),
    ):
        source.count()


def test_a_damaged_file_is_named_without_its_bytes(cluster: SparkCluster, driver: Any) -> None:
    path = cluster.folder / "damaged.parquet"
    path.write_bytes(b"PAR1 8675309 PAR1")

    with pytest.raises(SourceError, match="is damaged") as refused:
        sd.open(f"{cluster.url}{path}", visits_schema())

    assert "8675309" not in str(refused.value)


def test_more_cells_than_fit_into_the_driver_are_refused(cluster: SparkCluster, driver: Any) -> None:
    """The driver of these tests takes results of a megabyte; a cell needs twelve bytes."""
    folder = write_parquet(cluster.folder / "cells", {"cell": list(range(200_000))}, files=2)
    schema = Schema(name="cells", attributes=(Attribute(name="cell", domain=NumberBins.of_width(0, 200_000, 1)),))

    with (
        sd.open(f"{cluster.url}{folder}", schema) as source,
        pytest.raises(SourceError, match="than fit into the driver; choose fewer"),
    ):
        source.count()


@pytest.mark.usefixtures("interpreted")
def test_a_scratch_directory_that_loses_rows_is_refused(
    cluster: SparkCluster, driver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sudare.sources import spark

    class Lost(spark.Observation):  # type: ignore[misc]
        @property
        def get(self) -> dict[str, Any]:
            return {name: value + 1 for name, value in super().get.items()}

    monkeypatch.setattr(spark, "Observation", Lost)
    frame = driver.createDataFrame(arrow_table({"ward": ["east"], "age": [3], "who": ["p"]}))

    with pytest.raises(SourceError, match="which the workers do not share"):
        sd.open(frame, visits_schema(), spill_directory=cluster.folder)


def test_limits_of_this_machine_are_refused_for_a_cluster(cluster: SparkCluster) -> None:
    with pytest.raises(ParameterError, match=re.escape("spark.executor.memory")):
        sd.open(f"{cluster.url}/x", visits_schema(), memory_limit="1GB")


def test_a_second_cluster_in_one_process_is_refused(driver: Any) -> None:
    with pytest.raises(SourceError, match="already works with"):
        sd.open("spark://127.0.0.1:1/x", visits_schema())


# --- interrupts and lost workers: last, for the cluster does not survive them -----------------------------------------


def slow_visits(cluster: SparkCluster) -> tuple[Path, dict[str, list[Any]]]:
    """A table of many tasks, so that the first of them have ended long before the last begin."""
    columns = visits(48_000)
    folder = cluster.folder / "many"
    return (folder if folder.is_dir() else write_parquet(folder, columns, files=24)), columns


def test_an_interrupt_cancels_the_work_in_the_cluster(cluster: SparkCluster, driver: Any) -> None:
    def interrupt(share: float) -> None:
        if 0 < share < 1:
            raise KeyboardInterrupt

    folder, _ = slow_visits(cluster)
    with sd.open(f"{cluster.url}{folder}", visits_schema(), progress=interrupt) as source:
        with pytest.raises(KeyboardInterrupt):
            source.count()

        assert list(driver.sparkContext.statusTracker().getActiveJobsIds()) == []


def test_a_worker_killed_in_the_middle_loses_nothing_and_counts_nothing_twice(
    cluster: SparkCluster, driver: Any
) -> None:
    killed: list[float] = []

    def kill(share: float) -> None:
        if 0 < share < 0.9 and not killed:
            killed.append(share)
            cluster.workers.pop().kill()

    folder, columns = slow_visits(cluster)
    with sd.open(f"{cluster.url}{folder}", visits_schema(), progress=kill) as source:
        first, second = source.count(), source.count()

    assert killed, "the count ended before a worker was killed"
    assert first.total == kept_rows(columns, max_rows=2)
    assert first == second


def test_a_cluster_without_workers_is_refused_and_does_not_hang(
    cluster: SparkCluster, driver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sudare.sources.spark_jobs.SECONDS_WITHOUT_WORKERS", 0.5)
    folder, _ = slow_visits(cluster)
    with sd.open(f"{cluster.url}{folder}", visits_schema()) as source:
        for worker in cluster.workers:
            worker.kill()
        cluster.workers.clear()

        with pytest.raises(SourceError, match="no worker of the cluster took up the work"):
            source.count()
