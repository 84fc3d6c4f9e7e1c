"""Rows recoded and written, work that is long, and work that is interrupted."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sudare.sources as sources
from sudare.cli.interrupt import Interrupts
from sudare.errors import DomainError, ParameterError, SourceError
from sudare.schema import Attribute, DateBins, MeshCells, NumberBins, Schema, TableHierarchy, Values
from sudare.sources import worker
from sudare.sources.table import TableSource
from tests.unit.source_tables import AGE, PEOPLE, PERSONS, SEX, arrow, cells, one, visited, visits

# --- recode, apply, write -------------------------------------------------------------------------------------------


def tall() -> Schema:
    tree = TableHierarchy.from_paths([("F", "*"), ("M", "*")])
    sex = Attribute(name="sex", domain=SEX.domain, hierarchy=tree)
    return Schema(name="people", attributes=(sex, AGE), identifiers=("name",))


def read(path: Path) -> list[tuple[object, ...]]:
    return duckdb.sql(f"SELECT * FROM '{path}'").fetchall()


def test_values_are_replaced_by_the_labels_of_a_level(tmp_path: Path) -> None:
    with sources.open(arrow(), tall()) as source:
        rows = source.recode({"sex": 1})
        path = rows.write(tmp_path / "out.parquet", shuffle=False)
        found, names = read(path), pq.read_schema(path).names

    assert rows.columns == ("sex", "age")
    assert names == ["sex", "age"]
    assert found == [("*", "[30,40)"), ("*", "[0,10)"), ("*", "[30,40)"), ("*", None), ("*", "[90,100]")]
    assert [file.name for file in tmp_path.iterdir()] == ["out.parquet"]


def test_given_labels_are_written_as_csv(tmp_path: Path) -> None:
    labels = {"sex": np.array(["female", None], dtype=object)}
    with sources.open(arrow(), PEOPLE) as source:
        path = source.apply(labels).write(tmp_path / "out.csv", shuffle=False)

    assert path.read_text().splitlines()[:3] == ["sex,age", 'female,"[30,40)"', ',"[0,10)"']


def test_other_columns_are_kept_when_asked_for_and_private_ones_never(tmp_path: Path) -> None:
    table = visited().append_column("note", pa.array([f"n{row}" for row in range(len(PERSONS))]))
    with sources.open(table, visits(2)) as source:
        path = source.recode({}, others=True).write(tmp_path / "out.parquet")
        kept = {code[0] for code in cells(source, ["place"])}
    found = pq.read_table(path).to_pydict()

    assert list(found) == ["place", "half", "note"]
    assert {int(note[1:]) for note in found["note"]} == kept


def test_a_column_of_counts_is_written_too(tmp_path: Path) -> None:
    with sources.open(pa.table({"sex": ["F"], "n": ["3"]}), one("sex", "F"), count_column="n") as source:
        path = source.write(tmp_path / "out.parquet")

    assert pq.read_table(path).to_pydict() == {"sex": ["F"], "n": [3]}


def test_rows_are_shuffled_unless_their_order_is_asked_for(tmp_path: Path) -> None:
    schema = Schema(name="t", attributes=(Attribute(name="x", domain=NumberBins.of_width(0, 200, 1)),))
    with sources.open(pa.table({"x": list(range(200))}), schema) as source:
        paths = [source.write(tmp_path / f"{name}.parquet", shuffle=name != "kept") for name in ("kept", "one", "two")]
    kept, first, second = ([label for (label,) in read(path)] for path in paths)

    assert kept[:3] == ["[0,1)", "[1,2)", "[2,3)"]
    assert sorted(first) == sorted(second) == sorted(kept)
    assert len({tuple(kept), tuple(first), tuple(second)}) == 3


def test_a_mesh_too_large_to_list_is_labelled_by_the_cells_that_occur(tmp_path: Path) -> None:
    area = tuple(f"{north}{east}" for north, east in itertools.product(range(50, 58), range(30, 40)))
    mesh = Attribute(name="mesh", domain=MeshCells(level=6, area=area))
    with sources.open(pa.table({"mesh": [53394526111, 50300000444]}), Schema(name="t", attributes=(mesh,))) as source:
        path = source.recode({"mesh": 3}).write(tmp_path / "out.parquet", shuffle=False)

    assert mesh.size > 2**20
    assert read(path) == [("53394526",), ("50300000",)]


def test_rows_that_do_not_fit_are_not_written(tmp_path: Path) -> None:
    with (
        sources.open(pa.table({"sex": ["F", "X"]}), one("sex", "F")) as source,
        pytest.raises(DomainError, match="sex"),
    ):
        source.write(tmp_path / "out.parquet")

    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "there.csv").write_text("")
    with sources.open(arrow(), PEOPLE) as source:
        for name, told in (("there.csv", "exists"), ("a.xlsx", "must end in"), ("no/where.csv", "no directory")):
            with pytest.raises(SourceError, match=told):
                source.write(tmp_path / name)
        with pytest.raises(ParameterError, match="sex needs 2 labels"):
            source.apply({"sex": np.array(["x"], dtype=object)})
        with pytest.raises(ParameterError, match="level"):
            source.recode({"sex": 4})


# --- long work ------------------------------------------------------------------------------------------------------


AT_ONCE = 3  # seconds of CPU time: a fraction of what counting the slow file takes


@pytest.fixture(scope="module")
def slow_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file whose every value is asked of Python: ten seconds of CPU time."""
    file = tmp_path_factory.mktemp("slow") / "a.parquet"
    table = pa.table({"x": [f"{number % 97}.{number}" for number in range(600_000)]})
    pq.write_table(table, file, row_group_size=5_000)
    return file


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, slow_file: Path) -> Path:
    """The slow file, and an engine that looks often."""
    monkeypatch.setattr(worker, "SECONDS_BETWEEN_LOOKS", 0.002)
    (tmp_path / "work").mkdir()
    return slow_file


YEARS = Schema(
    name="t",
    attributes=(
        Attribute(
            name="x",
            domain=DateBins.of_width("2024-01-01", "2024-12-31", "1 month"),
            date_format="%y-%j",
            outside="other",
        ),
    ),
)


def test_progress_is_told_as_a_share_up_to_the_end(slow: Path) -> None:
    told: list[float] = []
    few = Attribute(name="x", domain=Values(("0.0",)), outside="other")
    with sources.open(slow, Schema(name="t", attributes=(few,)), progress=told.append, threads=1) as source:
        source.count()

    assert told[-1] == 1
    assert all(0 <= share <= 1 for share in told)
    assert any(0 < share < 1 for share in told)


def interrupt(share: float) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_count_stops_at_once_and_leaves_nothing(slow: Path, tmp_path: Path) -> None:
    begun = time.process_time()
    source = sources.open(slow, YEARS, spill_directory=tmp_path / "work", progress=interrupt)
    with pytest.raises(KeyboardInterrupt), source:
        source.count()

    assert time.process_time() - begun < AT_ONCE
    assert list((tmp_path / "work").iterdir()) == []


def test_an_interrupted_write_leaves_nothing_half_written(
    slow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TableSource, "refuse_rows_that_do_not_fit", lambda source: None)  # straight to the writing
    with sources.open(slow, YEARS, progress=interrupt) as source, pytest.raises(KeyboardInterrupt):
        source.write(tmp_path / "work" / "out.parquet")

    assert list((tmp_path / "work").iterdir()) == []


def test_control_c_reaches_the_caller_at_once_and_the_source_stays_usable(slow: Path) -> None:
    is_running = threading.Event()
    main_thread = threading.get_ident()

    def press() -> None:
        is_running.wait()
        signal.pthread_kill(main_thread, signal.SIGINT)

    with sources.open(slow, YEARS, progress=lambda share: is_running.set()) as source:
        begun = time.process_time()
        threading.Thread(target=press).start()
        with Interrupts(), pytest.raises(KeyboardInterrupt):
            source.count()
        worked = time.process_time() - begun
        still = source.engine._execute("SELECT 1")

    assert worked < AT_ONCE
    assert still == [(1,)]


def test_a_closed_source_says_so(tmp_path: Path) -> None:
    source = sources.open(arrow(), PEOPLE)
    source.close()
    source.close()
    with pytest.raises(SourceError, match="closed"):
        source.count()


def test_the_repr_of_a_source_tells_no_value() -> None:
    with sources.open(arrow(), PEOPLE) as source:
        assert repr(source) == "<Source of 'people': the Table>"
