"""Administrative areas over a published table: municipalities, prefectures, school districts, each with its margin.

An area file says for every value of an attribute (a mesh cell, say) in which area of every level it lies. Levels need
not nest, so several divisions that overlap stand in one file. All sums are sums of the same published table, so that
they agree with the cells and with each other; unbiased figures and margins come from the same noisy sums. Nothing is
measured and nothing is spent here: it works on what was published.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sudare.errors import ParameterError, SchemaError
from sudare.forms.textfile import read_bytes
from sudare.methods.table.estimates import TableFigures
from sudare.methods.table.frames import COUNT, MARGIN, UNBIASED, Margins
from sudare.releases import Coded, Frame
from sudare.schema import Attribute, Schema
from sudare.schema.arrays import Codes

NO_AREA = "(none)"
SHARE = "share"


@dataclass(frozen=True, kw_only=True, eq=False)
class Areas:
    """The areas of one attribute: for every level, the area of each code and the names of the areas."""

    attribute: str
    codes: dict[str, Codes]
    names: dict[str, tuple[str, ...]]

    @classmethod
    def read(cls, path: str | Path, schema: Schema) -> Areas:
        """Read a CSV: the attribute's name and the levels as header, then a value and its areas in each line.

        A value may be a union of bins or a coarser mesh cell. A value that lies in several areas is listed once for
        each, with its share in a last column `share`; it counts wholly where its share is largest, the first of equal
        ones. Values that are not listed lie in "(none)".

        Error: SchemaError, one line with the line of the file.
        """
        file = Path(path)
        header, *rows = list(csv.reader(_decode(read_bytes(file), file).splitlines())) or [[]]
        if not header or header[0] not in schema.names:
            raise SchemaError(
                "{file}: the first column must be named after an attribute ({known})",
                file=file,
                known=", ".join(schema.names),
            )
        has_share = header[-1] == SHARE
        levels = header[1:-1] if has_share else header[1:]
        if not levels or len(set(levels)) < len(levels) or not all(levels):
            raise SchemaError("{file}: name at least one level of areas, each once", file=file)
        return _build(schema.attribute(header[0]), levels, rows, file, has_share=has_share)

    def check_level(self, level: str) -> str:
        """Refuse a level that the file does not have."""
        if level not in self.codes:
            raise ParameterError(
                "there is no level {level} of areas; there are {known}", level=level, known=", ".join(self.codes)
            )
        return level


def _decode(content: bytes, file: Path) -> str:
    for encoding in ("utf-8-sig", "cp932"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise SchemaError("{file}: is neither UTF-8 nor Shift_JIS; save it as UTF-8", file=file)


def _build(
    attribute: Attribute, levels: Sequence[str], rows: Sequence[Sequence[str]], file: Path, *, has_share: bool
) -> Areas:
    best = np.zeros(attribute.size)
    places = {level: np.full(attribute.size, -1, dtype=np.int64) for level in levels}
    numbers: dict[str, dict[str, int]] = {level: {} for level in levels}
    for line, row in enumerate(rows, start=2):
        if not row:
            continue
        found, share = _read_row(attribute, row, len(levels), file, line, has_share=has_share)
        if not has_share and bool((best[found.start : found.stop] > 0).any()):
            raise SchemaError(
                "{file}, line {line}: a value is listed twice; add a column share, by which one area is chosen",
                file=file,
                line=line,
            )
        wins = np.arange(found.start, found.stop)[best[found.start : found.stop] < share]
        best[wins] = share
        for level, name in zip(levels, row[1:], strict=False):
            places[level][wins] = numbers[level].setdefault(name, len(numbers[level]))
    for level in levels:
        if bool((places[level] < 0).any()):
            places[level][places[level] < 0] = numbers[level].setdefault(NO_AREA, len(numbers[level]))
    return Areas(
        attribute=attribute.name, codes=places, names={level: tuple(named) for level, named in numbers.items()}
    )


def _read_row(
    attribute: Attribute, row: Sequence[str], levels: int, file: Path, line: int, *, has_share: bool
) -> tuple[range, float]:
    if len(row) != 1 + levels + has_share or not all(row):
        raise SchemaError(
            "{file}, line {line}: must have {columns} columns, none of them empty",
            file=file,
            line=line,
            columns=1 + levels + has_share,
        )
    try:
        found = attribute.codes(row[0])
    except SchemaError:
        raise SchemaError(
            "{file}, line {line}: {value} is no value of {name}",
            file=file,
            line=line,
            value=row[0],
            name=attribute.name,
        ) from None
    try:
        share = float(row[-1]) if has_share else 1.0
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise SchemaError("{file}, line {line}: share must be a number above 0 and at most 1", file=file, line=line)
    return found, share


def sum_areas(figures: TableFigures, areas: Areas, *, level: str, by: Sequence[str] = ()) -> Frame:
    """Sum a published table by the areas of a level, and by further attributes: count, unbiased figure, margin.

    Sums of areas add up to the total, at every level, and agree with the cells: they are sums of one table.

    Guarantee: none is spent; a function of what was published.
    Error: the true number lies within `margin` of `unbiased` in 95 of 100 cases.
    """
    schema = figures.schema
    for name in by:
        if name not in schema.names or name == areas.attribute:
            raise ParameterError("there is no other attribute {name} to sum by", name=name)
    leaves, columns = figures.cells
    keys = [areas.codes[areas.check_level(level)][columns[:, schema.names.index(areas.attribute)]]]
    keys += [columns[:, schema.names.index(name)] for name in by]
    shown, groups = np.unique(np.column_stack(keys), axis=0, return_inverse=True)
    groups = groups.reshape(-1)
    estimates, errors = figures.measured.squares.answer_groups(leaves, groups)
    sizes = np.bincount(groups)
    factors = np.array([figures.measured.factor_of(int(size)) for size in sizes])
    counts = np.bincount(groups, weights=figures.published[leaves]).astype(np.int64)
    names = np.array(areas.names[level], dtype=object)
    others = {name: schema.attribute(name).labels(np.arange(schema.attribute(name).size)) for name in by}
    margins = Margins(unbiased=estimates, margin=factors * errors).columns
    return Frame(
        {
            level: Coded(shown[:, 0], names),
            **{name: Coded(shown[:, place], others[name]) for place, name in enumerate(by, start=1)},
            COUNT: counts,
            UNBIASED: margins[UNBIASED],
            MARGIN: margins[MARGIN],
        }
    )
