"""Mesh statistics of e-Stat, read as they are downloaded.

A file (`tblT000846H5339.txt`, say) is Shift_JIS text with commas. Row 1 holds codes: KEY_CODE, some columns on
concealment, then items such as T000846001. Row 2 holds their labels in Japanese. From row 3 on there is one mesh cell
a row. "*" stands for a figure that is concealed (it is counted in another cell), an empty field for none.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sudare.errors import SourceError
from sudare.schema.mesh import DIGITS, MESH_TEXT

MESH_NAMES = ("KEY_CODE", "MESHCODE", "MESH_CODE", "地域メッシュコード", "メッシュコード")
PEOPLE = ("人口（総数）", "人口(総数)", "人口総数", "人口")
NOTHING = ("", "*", "-", "X", "…")

Numbers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class MeshTable:
    """People by mesh cell: codes of one level as integers, and counts."""

    level: int
    codes: Numbers
    people: Numbers
    concealed: int
    label: str


def read_mesh_csv(path: str | Path, *, people: str | None = None) -> MeshTable:
    """Read a file of e-Stat; `people` names the column (its code or its label) where it is not found by itself."""
    rows = _rows(Path(path))
    if len(rows) < 2:
        raise SourceError("{file} holds no rows; give a mesh CSV with a header", file=Path(path).name)
    header = [field.strip() for field in rows[0]]
    has_labels = not any(_is_code(field) for field in rows[1])
    labels = [field.strip("　 \t") for field in rows[1]] if has_labels else list(header)
    body = rows[2:] if has_labels else rows[1:]
    mesh = _mesh_column(header, labels, body, Path(path).name)
    column = _people_column(header, labels, people, Path(path).name)
    texts = [row[mesh].strip() for row in body]
    fields = [row[column].strip() for row in body]
    counts = [_count(field, Path(path).name) for field in fields]
    return MeshTable(
        level=DIGITS.index(len(texts[0])) + 1,
        codes=np.array([int(text) for text in texts], dtype=np.int64),
        people=np.array(counts, dtype=np.int64),
        concealed=sum(field == "*" for field in fields),
        label=labels[column] or header[column],
    )


def _rows(path: Path) -> list[list[str]]:
    octets = path.read_bytes()
    for encoding in ("utf-8-sig", "cp932"):
        try:
            text = octets.decode(encoding)
        except UnicodeDecodeError:
            continue
        delimiter = "\t" if "\t" in text.split("\n", 1)[0] else ","
        return [row for row in csv.reader(text.splitlines(), delimiter=delimiter) if row]
    raise SourceError("{file} is neither Shift_JIS nor UTF-8; save it as one of them", file=path.name)


def _mesh_column(header: Sequence[str], labels: Sequence[str], body: Sequence[Sequence[str]], file: str) -> int:
    named = [place for place, name in enumerate(header) if name.upper() in MESH_NAMES or labels[place] in MESH_NAMES]
    for place in named:
        lengths = {len(row[place].strip()) for row in body}
        if len(lengths) == 1 and all(_is_code(row[place]) for row in body):
            return place
        raise SourceError(
            "column {name} of {file} must hold mesh codes of one level (4, 6, 8, 9, 10 or 11 digits) in every row",
            name=header[place],
            file=file,
        )
    raise SourceError("{file} has no column KEY_CODE of mesh codes; is it a mesh file of e-Stat?", file=file)


def _people_column(header: Sequence[str], labels: Sequence[str], people: str | None, file: str) -> int:
    wanted = (people,) if people else PEOPLE
    for name in wanted:
        for place, pair in enumerate(zip(header, labels, strict=True)):
            if name in pair or (people is None and name in pair[1]):
                return place
    raise SourceError("{file} has no column of people; name one of its columns", file=file)


def _count(field: str, file: str) -> int:
    if field in NOTHING:
        return 0
    if not field.isascii() or not field.isdigit():
        raise SourceError("the column of people in {file} must hold whole numbers that are not negative", file=file)
    return int(field)


def _is_code(field: str) -> bool:
    return bool(re.fullmatch(MESH_TEXT, field.strip())) and len(field.strip()) in DIGITS
