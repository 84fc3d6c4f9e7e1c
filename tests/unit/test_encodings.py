"""Text files as Japanese offices have them."""

from __future__ import annotations

import gc
import gzip
import os
import stat
from pathlib import Path

import pytest

import sudare.sources as sources
from sudare.errors import SourceError
from sudare.schema import Attribute, Schema, Values
from sudare.sources import files as text
from sudare.sources.table import TableSource

NAMES = ("髙橋", "①", "～", "山﨑", "ｱｲｳ", "表")  # 表 ends in the byte of a backslash in CP932
TABLE = "氏名,年齢\r\n" + "".join(f"{name},20\r\n" for name in NAMES)
SCHEMA = Schema(name="名簿", attributes=(Attribute(name="氏名", domain=Values(NAMES)),))


def opened(path: Path, data: bytes, *, encoding: str | None = None, spill: Path | None = None) -> TableSource:
    path.write_bytes(data)
    return sources.open(path, SCHEMA, encoding=encoding, spill_directory=spill)


def refusal(path: Path, data: bytes, *, encoding: str | None = None) -> str:
    with pytest.raises(SourceError) as refused:
        opened(path, data, encoding=encoding)
    return str(refused.value)


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp932"])
def test_an_encoding_is_found_out_without_being_told(tmp_path: Path, codec: str) -> None:
    with opened(tmp_path / "名簿.csv", TABLE.encode(codec)) as source:
        counts = source.count().dense().tolist()

    assert counts == [1] * len(NAMES)


def test_utf_16_of_either_order_is_told_by_its_mark(tmp_path: Path) -> None:
    data = b"\xfe\xff" + TABLE.encode("utf-16-be")
    with opened(tmp_path / "a.csv", data) as source:
        counts = source.count().dense().tolist()

    assert counts == [1] * len(NAMES)


@pytest.mark.parametrize("name", ["shift_jis", "Shift-JIS", "SJIS", "cp932", "windows-31j", "MS932"])
def test_shift_jis_means_what_windows_writes(tmp_path: Path, name: str) -> None:
    with opened(tmp_path / "a.csv", TABLE.encode("cp932"), encoding=name) as source:
        counts = source.count().dense().tolist()

    assert counts == [1] * len(NAMES)


def test_another_encoding_can_be_named(tmp_path: Path) -> None:
    schema = Schema(name="t", attributes=(Attribute(name="県", domain=Values(("東京", "大阪"))),))
    path = tmp_path / "a.csv"
    path.write_bytes("県\n大阪\n東京\n大阪\n".encode("euc-jp"))
    with sources.open(path, schema, encoding="EUC-JP") as source:
        counts = source.count().dense().tolist()

    assert counts == [1, 2]


def test_a_kanji_that_comes_late_is_still_found(tmp_path: Path) -> None:
    data = b"name,n\r\n" + b"a,1\r\n" * 400_000 + "髙,1\r\n".encode("cp932")
    schema = Schema(name="t", attributes=(Attribute(name="name", domain=Values(("a", "髙"))),))
    path = tmp_path / "a.csv"
    path.write_bytes(data)
    with sources.open(path, schema) as source:
        counts = source.count().dense().tolist()

    assert counts == [400_000, 1]


@pytest.mark.parametrize("codec", ["utf-8", "cp932", "utf-16"])
def test_characters_cut_by_the_edge_of_a_chunk_stay_whole(
    tmp_path: Path, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "CHUNK", 7)
    path = tmp_path / "a.csv"
    path.write_bytes(TABLE.encode(codec))
    found = text.find_encoding(path)

    assert found == codec
    assert text.rewrite_as_utf8(path, found, tmp_path).read_bytes() == TABLE.encode("utf-8")


def test_a_packed_file_in_cp932_is_read(tmp_path: Path) -> None:
    with opened(tmp_path / "a.csv.gz", gzip.compress(TABLE.encode("cp932"))) as source:
        counts = source.count().dense().tolist()

    assert counts == [1] * len(NAMES)


# --- refusals -------------------------------------------------------------------------------------------------------


def test_bytes_of_no_encoding_are_refused_by_line_and_never_shown(tmp_path: Path) -> None:
    told = refusal(tmp_path / "a.csv", b"a,b\n1,2\nSECRET\xff\xfe\xfd\x81,3\n")

    assert told.startswith("line 3 of ")
    assert "utf-8 or cp932" in told
    assert "SECRET" not in told


def test_the_encoding_that_went_furthest_tells_the_line(tmp_path: Path) -> None:
    data = "氏名\n".encode() + "山田\n".encode() * 500 + b"\xff\n"

    assert refusal(tmp_path / "a.csv", data).startswith("line 502 of ")


def test_a_named_encoding_that_does_not_fit_is_refused_and_no_other_is_tried(tmp_path: Path) -> None:
    told = refusal(tmp_path / "a.csv", TABLE.encode("cp932"), encoding="utf-8")

    assert "line 1" in told
    assert "cp932" not in told


def test_a_file_that_ends_inside_a_character_is_refused(tmp_path: Path) -> None:
    assert "line 2" in refusal(tmp_path / "a.csv", "a\n髙".encode()[:-1], encoding="utf-8")


def test_utf_16_without_its_mark_is_not_taken_for_text(tmp_path: Path) -> None:
    assert "line 1" in refusal(tmp_path / "a.csv", "name,age\na,1\n".encode("utf-16-le"))


@pytest.mark.parametrize("name", ["klingon", "rot13", "hex", "", "a\0b"])
def test_an_unknown_encoding_is_refused(tmp_path: Path, name: str) -> None:
    assert "unknown" in refusal(tmp_path / "a.csv", b"a\n1\n", encoding=name)


@pytest.mark.parametrize(
    "data",
    [gzip.compress(b"a,b\n1,2\n" * 900)[:40], b"no gzip at all", gzip.compress(b"x" * 99)[:-6]],
    ids=["cut in the middle", "no gzip", "cut at the end"],  # gzip writes the time, which must not name a test
)
def test_a_broken_gzip_file_is_refused(tmp_path: Path, data: bytes) -> None:
    assert "gzip" in refusal(tmp_path / "a.csv.gz", data)


# --- temporary files --------------------------------------------------------------------------------------------------


def held(spill: Path) -> list[Path]:
    return [path for path in spill.rglob("*") if path.is_file() and path.name != ".lock"]


def test_the_rewritten_text_is_private_and_goes_when_the_source_is_closed(tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    spill.mkdir()
    source = opened(tmp_path / "a.csv", TABLE.encode("cp932"), spill=spill)
    files = held(spill)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (*files, *(path.parent for path in files))]
    source.close()

    assert modes == [0o600, 0o700]
    assert list(spill.iterdir()) == []


def test_the_rewritten_text_goes_with_a_forgotten_source(tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    spill.mkdir()
    source = opened(tmp_path / "a.csv", TABLE.encode("cp932"), spill=spill)
    source.count()
    del source
    gc.collect()

    assert list(spill.iterdir()) == []


def test_nothing_is_left_of_a_file_that_is_refused(tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    spill.mkdir()
    path = tmp_path / "a.csv"
    path.write_bytes("氏名,氏名\n髙橋,1\n".encode("cp932"))
    with pytest.raises(SourceError, match="two columns named 氏名"):
        sources.open(path, SCHEMA, spill_directory=spill)

    assert list(spill.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"a\n1\n")
    path.chmod(0)
    with pytest.raises(SourceError, match="cannot be read"):
        sources.open(path, SCHEMA)


def test_a_packed_file_that_somebody_goes_on_writing_is_refused_and_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads a chunk finds another one written behind it: a packed log that never ends."""
    path = tmp_path / "log.csv.gz"
    path.write_bytes(gzip.compress(b"name\n" + os.urandom(100_000).hex().encode()))
    monkeypatch.setattr(text, "CHUNK", 1000)

    def read_while_it_grows() -> None:
        for number, _ in enumerate(text._read_chunks(path)):
            with path.open("ab") as end:
                end.write(gzip.compress(os.urandom(2000).hex().encode()))
            assert number < 10_000

    with pytest.raises(SourceError, match="changes while it is read; copy it"):
        read_while_it_grows()
