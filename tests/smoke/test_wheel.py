"""The main uses of an installed Sudare, once each: does it work on this Python, with these packages?"""

from __future__ import annotations

import contextlib
import csv
import importlib
import io
import itertools
import json
import os
import sys
import threading
from importlib.metadata import version
from pathlib import Path

import duckdb
import pytest

import sudare as sd

from .conftest import ROWS, Published, Sudare

METHODS = ("microdata", "table", "view", "kanon", "location")
SPENDING = ("microdata", "table", "view")
TABLE = ("members.csv", "--schema", "members.toml")


def test_every_public_name_is_there() -> None:
    missing = [name for name in sd.__all__ if getattr(sd, name, None) is None]

    assert sd.__all__
    assert missing == []


def test_the_command_tells_its_version(process: Sudare) -> None:
    assert process("--version").out == f"sudare {version('sudare')}\n"


@pytest.mark.parametrize(("language", "heading"), [("en", "Commands:"), ("ja", "コマンド:")])
def test_help_is_in_the_language_of_the_reader(process: Sudare, language: str, heading: str) -> None:
    script = process("--help", language=language)
    module = process("--help", language=language, start=(sys.executable, "-m", "sudare"))

    assert script.code == 0, script.err
    assert heading in script.out
    assert module == script


def test_methods_have_help_in_japanese(japanese: Sudare) -> None:
    shown = japanese(*(f"publish {method} --help" for method in METHODS))

    assert shown.code == 0, shown.err
    assert shown.out.count("この説明を表示します") == len(METHODS)


def test_a_wrong_call_is_one_line_and_code_2(sudare: Sudare) -> None:
    for words in (
        ("publish", "table", "--epsilom", "1"),
        ("quary",),
        ("publish", "table"),
        ("sample", "view", "-n", "x"),
    ):
        refused = sudare(*words)

        assert (refused.code, refused.out) == (2, ""), words
        assert refused.err.startswith("sudare: "), words
        assert refused.err.count("\n") == 1, words


def test_a_command_without_arguments_shows_its_help(sudare: Sudare) -> None:
    shown = sudare("ledger")

    assert shown.code == 2
    assert "create" in shown.err


def test_a_schema_is_read_shown_and_fits_its_table(place: Path, sudare: Sudare) -> None:
    schema = sd.Schema.read(place / "members.toml")
    shown = json.loads(sudare("schema", "show", "members.toml", "--json").out)
    checked = sudare("schema", "check", *TABLE)

    assert schema.name == "members"
    assert shown["name"] == "members"
    assert checked.code == 0, checked.err


def test_a_mistake_in_a_schema_is_one_line(place: Path) -> None:
    text = (place / "members.toml").read_text(encoding="utf-8")
    (place / "mistaken.toml").write_text(text.replace('kind = "date"', 'kind = "dat"'), encoding="utf-8")

    with pytest.raises(sd.SudareError) as refused:
        sd.Schema.read(place / "mistaken.toml")

    assert "mistaken.toml" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_schema_is_proposed_from_the_table(place: Path, sudare: Sudare) -> None:
    proposed = sudare("schema", "init", "members.csv", "-o", "proposed.toml")

    assert proposed.code == 0, proposed.err
    assert "inferred = true" in (place / "proposed.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("method", METHODS)
def test_a_release_is_published_and_verifies(published: Published, sudare: Sudare, method: str) -> None:
    charged = ("--ledger", "members.ledger") if method in SPENDING else ()
    verified = sudare("verify", method, *charged)

    assert published.said[method].code == 0, published.said[method].err
    assert verified.code == 0, verified.err
    assert json.loads((published.place / method / "certificate.json").read_text(encoding="utf-8"))["method"] == method


def test_reports_are_written_in_both_languages(published: Published, sudare: Sudare, japanese: Sudare) -> None:
    english = [sudare("report", method, "--out", f"{method}.en.html") for method in METHODS]
    translated = japanese(*(f"report {method} --out {method}.ja.html" for method in METHODS))

    assert [ran.err for ran in english if ran.code] == []
    assert translated.code == 0, translated.err
    for method, language in itertools.product(METHODS, ("en", "ja")):
        page = (published.place / f"{method}.{language}.html").read_text(encoding="utf-8")
        assert f'<html lang="{language}"' in page


def test_a_report_compares_with_the_truth_for_the_steward(published: Published, sudare: Sudare) -> None:
    written = sudare("report", "microdata", "--truth", "members.csv", "--schema", "members.toml", "--out", "truth.html")

    assert written.code == 0, written.err
    assert "not for publication" in (published.place / "truth.html").read_text(encoding="utf-8").lower()


def test_records_have_the_published_columns_and_k_of_a_kind(published: Published) -> None:
    records = duckdb.sql(f"SELECT * FROM '{published.place}/microdata/records.parquet'")
    smallest = duckdb.sql(
        f"SELECT min(n) FROM (SELECT count(*) AS n FROM '{published.place}/kanon/records.parquet' GROUP BY sex, age)"
    ).fetchall()

    assert records.columns == ["sex", "age", "plan"]
    assert len(records.fetchall()) == ROWS
    assert smallest[0][0] >= 5


def test_a_view_answers_in_sql_with_intervals(published: Published, sudare: Sudare) -> None:
    asked = "SELECT sex, COUNT(*) FROM view WHERE age BETWEEN 20 AND 59 AND joined < '2026-07-01' GROUP BY sex"
    shown = sudare("query", "view", asked)
    answer = sd.open_view(published.place / "view").count(sex="F", age=(20, 59))

    assert shown.code == 0, shown.err
    assert "[" in shown.out
    assert answer.low <= answer.value <= answer.high


def test_a_statement_that_a_view_cannot_answer_is_refused(published: Published, sudare: Sudare) -> None:
    for asked in ("SELECT age FROM view ORDER BY RANDOM()", "SELECT COUNT(*) FROM other", "DROP TABLE view"):
        refused = sudare("query", "view", asked)

        assert refused.code == 1, asked
        assert refused.err.count("\n") == 1, asked


def test_a_view_is_sampled(published: Published, sudare: Sudare) -> None:
    drawn = sudare("sample", "view", "-n", "20")
    lines = list(csv.reader(io.StringIO(drawn.out)))

    assert drawn.code == 0, drawn.err
    assert lines[0] == ["sex", "age", "paid", "joined"]
    assert len(lines) == 21


def test_the_ledger_holds_every_spend_and_refuses_what_is_too_much(published: Published, sudare: Sudare) -> None:
    shown = sudare("ledger", "show", "members.ledger")
    refused = sudare("publish", "table", *TABLE, "--epsilon", "1", "--by", "sex", "--ledger", "members.ledger",
                     "--out", "refused")  # fmt: skip

    assert sudare("ledger", "verify", "members.ledger").code == 0
    assert "left: 1/2\n" in shown.out
    assert refused.code == 1
    assert refused.err.count("\n") == 1
    assert not (published.place / "refused").exists()


@pytest.mark.parametrize("mode", ["grid", "weighted", "sharp"])
def test_a_location_is_previewed_in_every_other_mode(sudare: Sudare, mode: str) -> None:
    told = sudare("preview", "location", "map.toml", "--epsilon-per-metre", "0.02", "--mode", mode, "--json")

    assert told.code == 0, told.err
    assert 0 < json.loads(told.out)["tight_epsilon_per_metre"] <= 0.02


def test_a_recipe_makes_its_releases(place: Path, sudare: Sudare) -> None:
    planned = sudare("run", "recipe.toml", "--dry-run")
    done = sudare("run", "recipe.toml")

    assert planned.code == 0, planned.err
    assert done.code == 0, done.err
    assert (place / "releases" / "records.html").exists()
    assert sudare("verify", "releases/regions", "--ledger", "recipe.ledger").code == 0


# --- where the rows come from ---------------------------------------------------------------------------------------


def publish_seeded(sudare: Sudare, data: str, out: str, *words: str) -> None:
    done = sudare("publish", "microdata", data, "--schema", "members.toml", "--epsilon", "1/2", "--format", "csv",
                  "--by", "sex,age,prefecture,paid,joined", "--seed-for-tests", "7", "--out", out, *words)  # fmt: skip

    assert done.code == 0, done.err


def test_csv_parquet_and_shift_jis_give_the_same_release(place: Path, sudare: Sudare) -> None:
    text = (place / "members.csv").read_text(encoding="utf-8")
    (place / "members-cp932.csv").write_text(text, encoding="cp932")
    duckdb.sql(f"SELECT * FROM read_csv('{place}/members.csv', all_varchar = true)").write_parquet(
        str(place / "members.parquet")
    )

    publish_seeded(sudare, "members.csv", "from-csv")
    publish_seeded(sudare, "members.parquet", "from-parquet")
    publish_seeded(sudare, "members-cp932.csv", "from-cp932", "--encoding", "cp932")

    expected = (place / "from-csv" / "records.csv").read_bytes()
    assert (place / "from-parquet" / "records.csv").read_bytes() == expected
    assert (place / "from-cp932" / "records.csv").read_bytes() == expected


def test_missing_values_stay_missing_among_numbers(place: Path, sudare: Sudare) -> None:
    done = sudare("publish", "microdata", *TABLE, "--epsilon", "10", "--by", "paid", "--values", "inside",
                  "--seed-for-tests", "7", "--out", "numbers")  # fmt: skip
    counted = duckdb.sql(f"SELECT count(*) - count(paid) FROM '{place}/numbers/records.parquet'").fetchall()

    assert done.code == 0, done.err
    assert counted[0][0] == pytest.approx(ROWS / 5, abs=5)  # every fifth is missing; noise of epsilon 10 is below 1


@pytest.mark.parametrize("package", ["pandas", "polars", "pyarrow", "batch"])
def test_a_frame_counts_like_its_file_and_is_published(place: Path, package: str) -> None:
    frame = _frame(place / "members.csv", package)
    schema = sd.Schema.read(place / "members.toml")
    with sd.open(place / "members.csv", schema) as source:
        expected = source.count(("sex", "age", "prefecture")).dense()

    with sd.open(frame, schema) as source:
        counted = source.count(("sex", "age", "prefecture")).dense()
        with sd.Ledger.create(place / f"{package}.ledger", epsilon=1) as ledger:
            release = sd.Microdata(epsilon="1/2", by=("sex", "age")).publish(source, ledger=ledger)
    release.save(place / f"from-{package}")

    assert (counted == expected).all()
    assert len(getattr(release, f"to_{CONVERTED.get(package, package)}")()) == ROWS
    assert sd.Release.load(place / f"from-{package}").certificate.method == "microdata"


CONVERTED = {"pyarrow": "arrow", "batch": "arrow"}  # release.to_arrow()


def _frame(path: Path, package: str) -> object:
    if package in ("pandas", "polars"):
        frame = pytest.importorskip(package).read_csv(path)
    if package != "pandas":  # the engine reads Polars by way of Arrow
        pytest.importorskip("pyarrow")
    if package in ("pyarrow", "batch"):
        frame = importlib.import_module("pyarrow.csv").read_csv(path)
    return frame.to_batches()[0] if package == "batch" else frame


# --- maps that need the extra `geo` --------------------------------------------------------------------------------

LAND = {"type": "Polygon", "coordinates": [[[139.70, 35.60], [139.78, 35.60], [139.78, 35.68], [139.70, 35.60]]]}
MAPS = {
    "mesh": ("shapely", 'kind = "mesh"\nlevel = 3\nbounds = [35.60, 139.70, 35.68, 139.78]\nland = "coast.geojson"'),
    "h3": ("h3", 'kind = "h3"\nresolution = 7\nbounds = [35.60, 139.70, 35.68, 139.78]\nland = "coast.geojson"'),
    "package": ("pyogrio", 'kind = "mesh"\nlevel = 3\nbounds = [35.60, 139.70, 35.68, 139.78]\nland = "coast.gpkg"'),
}


@pytest.mark.parametrize("kind", MAPS)
def test_a_map_with_a_coast_is_published(place: Path, sudare: Sudare, kind: str) -> None:
    package, text = MAPS[kind]
    for needed in {package, "shapely"}:
        pytest.importorskip(needed)
    (place / "coast.geojson").write_text(json.dumps(LAND), encoding="utf-8")
    if kind == "package":
        _write_package(place / "coast.gpkg")
    (place / f"{kind}.toml").write_text(f"[grid]\n{text}\n", encoding="utf-8")

    done = sudare("publish", "location", f"{kind}.toml", "--epsilon-per-metre", "0.005", "--out", f"map-{kind}")

    assert done.code == 0, done.err
    assert sudare("verify", f"map-{kind}").code == 0


def _write_package(path: Path) -> None:
    """The land as a GeoPackage in the plane coordinates of Tokyo, which are to be brought to degrees."""
    pyproj, shapely = pytest.importorskip("pyproj"), pytest.importorskip("shapely")
    import numpy as np
    import pyogrio

    project = pyproj.Transformer.from_crs(4326, 6677, always_xy=True).transform
    corners = [project(*corner) for corner in LAND["coordinates"][0]]
    shapes = np.array([shapely.to_wkb(shapely.Polygon(corners))], dtype=object)
    pyogrio.raw.write(path, shapes, field_data=[], fields=[], geometry_type="Polygon", crs="EPSG:6677", driver="GPKG")


# --- a terminal -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="the terminal is made by means of POSIX")
def test_on_a_terminal_progress_is_drawn_on_standard_error(place: Path, process: Sudare) -> None:
    words = ("publish", "microdata", *TABLE, "--epsilon", "1/2", "--by", "sex,age", "--out", "on-a-terminal")
    ours, theirs = os.openpty()
    drawn: list[bytes] = []
    reader = threading.Thread(target=_read_all, args=(ours, drawn))
    reader.start()
    done = process(*words, err=theirs)
    os.close(theirs)
    reader.join()

    assert done.code == 0, drawn
    assert b"\x1b[" in b"".join(drawn)
    assert "\x1b" not in done.out


def _read_all(handle: int, parts: list[bytes]) -> None:
    """Read a terminal until nobody writes to it any more, which some systems tell as an error."""
    with contextlib.suppress(OSError):
        while part := os.read(handle, 4096):
            parts.append(part)
    os.close(handle)
