"""Copies of releases for Excel: nothing becomes a formula, labels are those of offices, the certificate comes along."""

from __future__ import annotations

import csv
import zipfile
from pathlib import Path

import numpy as np
import pytest
from python_calamine import CalamineWorkbook

from sudare.counts import Counts
from sudare.errors import ReleaseError
from sudare.methods.table import Table
from sudare.noise import SeededRng
from sudare.releases import Coded, Frame, Release, office
from sudare.releases.office import export_release
from sudare.schema import Attribute, DateBins, MeshCells, NumberBins, Schema, Values
from sudare.testing import Tabled
from tests.unit.test_releases import certificate

HOSTILE = ("=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "-5", "plain")
SCHEMA = Schema(
    name="t",
    attributes=(
        Attribute(name="word", domain=Values(HOSTILE)),
        Attribute(name="年齢", domain=NumberBins.of_width(0, 100, 10), missing=True),
        Attribute(name="fee", domain=NumberBins.of_width(0, 100, 50), number_format="1,234円"),
        Attribute(name="day", domain=DateBins.of_width("2019-01-01", "2020-12-31", "1 year")),
    ),
)


def make_release() -> Release:
    codes = np.arange(7)
    columns = {
        attribute.name: Coded(codes % attribute.size, attribute.labels(np.arange(attribute.size)))
        for attribute in SCHEMA.attributes
    }
    columns["年齢"] = Coded(codes + 4, SCHEMA.attribute("年齢").labels(np.arange(11)))
    frame = Frame({**columns, "count": codes})
    return Release({"records": frame}, certificate(schema=SCHEMA.to_dict()))


@pytest.fixture(scope="module")
def release() -> Release:
    return make_release()


def test_a_workbook_holds_texts_and_numbers_and_never_a_formula(release: Release, tmp_path: Path) -> None:
    export_release(release, tmp_path / "t.xlsx")
    book = CalamineWorkbook.from_path(tmp_path / "t.xlsx")
    rows = book.get_sheet_by_name("records").to_python()

    assert [row[0] for row in rows[1:]] == list(HOSTILE)
    assert [row[4] for row in rows[1:]] == list(range(7))
    assert not any(b"<f>" in part for part in [(tmp_path / "t.xlsx").read_bytes(), *read_sheets(tmp_path / "t.xlsx")])
    assert book.sheet_names == ["records", "certificate", "証明書"]


def read_sheets(path: Path) -> list[bytes]:
    with zipfile.ZipFile(path) as archive:
        return [archive.read(name) for name in archive.namelist() if "sheet" in name]


def test_csv_begins_with_a_mark_and_guards_what_looks_like_a_formula(release: Release, tmp_path: Path) -> None:
    export_release(release, tmp_path / "t.csv")
    data = (tmp_path / "t.csv").read_bytes()
    rows = list(csv.reader(data.decode("utf-8-sig").splitlines()))

    assert data.startswith(b"\xef\xbb\xbf")
    assert [row[0] for row in rows[1:]] == [*(f"'{text}" for text in HOSTILE[:5]), "-5", "plain"]


def test_labels_are_those_of_offices_where_they_are_asked_for(release: Release, tmp_path: Path) -> None:
    export_release(release, tmp_path / "t.xlsx", labels="office")
    rows = CalamineWorkbook.from_path(tmp_path / "t.xlsx").get_sheet_by_name("records").to_python()

    assert [row[1] for row in rows[1:]] == [*(f"{low}〜{low + 9}歳" for low in range(40, 90, 10)), "90〜100歳", "不明"]
    assert rows[1][2:4] == ["0円以上50円未満", "平成31年・令和元年"]
    assert rows[2][2:4] == ["50円以上100円以下", "令和2年"]


def test_what_does_not_fit_is_refused(release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there.xlsx").touch()
    monkeypatch.setattr(office, "MOST_ROWS", 3)

    for name, words in (("there.xlsx", "exists"), ("t.pdf", "must end in .xlsx or .csv"), ("t.xlsx", "holds 3;")):
        with pytest.raises(ReleaseError, match=words):
            export_release(release, tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == ["there.xlsx"]
    with pytest.raises(ReleaseError, match="no table other"):
        export_release(release, tmp_path / "t.csv", table="other")


def test_the_workbook_of_a_map_has_its_figures_with_margins_and_no_outlines(tmp_path: Path) -> None:
    """As opened in Excel: what cells.csv and the map say, mesh codes as texts."""
    mesh = Attribute(name="mesh", domain=MeshCells(level=2, area=("5339",)))
    schema = Schema(name="map", attributes=(mesh,))
    counts = Counts.build(schema, np.arange(0, 64, 7)[:, None], np.full(10, 300))
    made = Table(epsilon=1).publish(Tabled(counts), rng=SeededRng(1))
    made.save(tmp_path / "r", file_format="csv", even_if_not_private=True)
    export_release(Release.load(tmp_path / "r"), tmp_path / "t.xlsx")
    book = CalamineWorkbook.from_path(tmp_path / "t.xlsx")
    cells, shown = (book.get_sheet_by_name(name).to_python() for name in ("cells", "map"))
    with (tmp_path / "r" / "cells.csv").open(encoding="utf-8") as stream:
        written = list(csv.reader(stream))

    assert cells[0] == shown[0] == written[0] == ["mesh", "count", "unbiased", "margin"]
    assert [row[0] for row in cells] == [row[0] for row in written]
    assert [row[1:] for row in cells[1:]] == [[float(value) for value in row[1:]] for row in written[1:]]
    assert cells[1:] == [[row[0], *(pytest.approx(value, abs=0.011) for value in row[1:])] for row in shown[1:]]
