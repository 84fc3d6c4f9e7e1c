"""Text files of a cluster are judged by the rules for files of this machine; a stand-in takes the place of storage."""

from __future__ import annotations

from typing import Any

import pytest

from sudare.errors import SourceError
from sudare.sources.spark_storage import StoredFile
from sudare.sources.spark_text import TextFiles, find_text_files


class MemoryStorage:
    """Files in memory, in place of those of a cluster."""

    def __init__(self, **files: bytes) -> None:
        self.bytes = {f"file:/lake/{name}.csv": data for name, data in files.items()}
        self.files = [StoredFile(address=address, length=len(data)) for address, data in self.bytes.items()]

    def read_head(self, file: StoredFile, most: int) -> bytes:
        return self.bytes[file.address][:most]

    def read_tail(self, file: StoredFile, most: int) -> bytes:
        return self.bytes[file.address][-most:]

    def find_charset(self, name: str) -> str:
        return name


def look(encoding: str | None = None, **files: str | bytes) -> TextFiles:
    storage: Any = MemoryStorage(
        **{name: data.encode() if isinstance(data, str) else data for name, data in files.items()}
    )
    return find_text_files(storage, storage.files, encoding)


ROWS = "ward,age,sex\nnorth,3,F\nsouth,4,M\n"


def test_names_delimiters_and_orders_are_found_for_every_file() -> None:
    found = look(a=ROWS, b="sex;ward;age\nF;north;3\n", c=ROWS)

    assert found.names == ("ward", "age", "sex")
    assert {layout.delimiter: paths for layout, paths in found.layouts.items()} == {
        ",": ("file:/lake/a.csv", "file:/lake/c.csv"),
        ";": ("file:/lake/b.csv",),
    }


@pytest.mark.parametrize(
    ("codec", "java"), [("utf-8", "utf-8"), ("utf-8-sig", "utf-8"), ("cp932", "windows-31j"), ("utf-16", "utf-16")]
)
def test_encodings_are_found_as_for_files(codec: str, java: str) -> None:
    assert look(a="区,年齢,性\n北,3,女\n".encode(codec)).java_encoding == java


def test_an_encoding_that_was_named_is_kept() -> None:
    assert look("Shift_JIS", a="区,年齢,性\n髙,3,女\n".encode("cp932")).java_encoding == "windows-31j"


@pytest.mark.parametrize(
    "text",
    [
        f"Members 2024,,\n{ROWS}",
        f"{ROWS}Total,7,\n",
        f"{ROWS}合　計,7,\n",
        ROWS.replace("\n", "\r\n", 1),
        "区,age,sex\n" + "north,3,F\n" * 30_000 + "計,7,\n",  # behind the part that is looked at first
    ],
    ids=["title", "total", "japanese total", "mixed line ends", "total of a long file"],
)
@pytest.mark.parametrize("codec", ["utf-8", "cp932", "utf-16"])
def test_lines_that_are_no_rows_are_refused_instead_of_read_as_rows(text: str, codec: str) -> None:
    with pytest.raises(SourceError, match=r"^/lake/a\.csv has lines above the names of its columns, totals"):
        look(a=text.encode(codec))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a": ""}, "/lake/a.csv is empty"),
        ({"a": ROWS, "b": "ward,age\nnorth,3\n"}, "/lake/b.csv has other columns than /lake/a.csv"),
        ({"a": "ward,ward,sex\nnorth,3,F\n"}, "has two columns named ward"),
        ({"a": '"ward"x,age,sex\nnorth,3,F\n'}, "has a quote in the wrong place"),
        ({"a": b"ward,age,sex\n\xff\xff,3,F\n"}, "cannot be read as utf-8 or cp932"),
        ({"a": ROWS, "b": "区,年齢,性\n".encode("cp932") + b"\xff"}, "/lake/b.csv cannot be read as utf-8 or cp932"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(files: dict[str, Any], expected: str) -> None:
    with pytest.raises(SourceError) as refused:
        look(**files)

    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)
