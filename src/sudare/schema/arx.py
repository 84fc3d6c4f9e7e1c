"""Hierarchies in the CSV format of ARX: `value;level 1;level 2;...;*`, one row a value, no header, `;` or `,`."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np

from sudare.errors import HierarchyError
from sudare.schema.domain import Domain, Values
from sudare.schema.hierarchy import TableHierarchy
from sudare.schema.labels import MISSING_LABEL, OTHER_LABEL, TOP_LABEL, shown
from sudare.schema.textfile import read_text

Row = tuple[str, ...]


def from_csv(
    path: str | Path,
    domain: Domain | None = None,
    *,
    other: bool = False,
    missing: bool = False,
    missing_marks: Sequence[str] = (),
) -> TableHierarchy:
    """Read a hierarchy. Without a domain, the first column (less the rows below) is the list of values.

    `other` and `missing` say which codes the attribute has behind its values. They take the path of a row called
    "(other)", "(missing)" or like one of the marks; without such a row they are branches of their own, or join a single
    "*" on top.

    Error: HierarchyError, with file, column and level, for a value without a row or a row without a value, an empty
    cell, rows of different length, a value with two paths, or levels that do not nest.
    """
    path = Path(path)
    rows = _rows(path)
    branches = ((OTHER_LABEL,) if other else (), (MISSING_LABEL, *missing_marks) if missing else ())
    kept = [row for row in rows if not any(row[0] in names for names in branches)]
    if domain is None:
        domain = Values(tuple(dict.fromkeys(row[0] for row in kept)))
    paths = _paths(kept, domain, path)
    top = {each[-1] for each in paths}
    for names in filter(None, branches):
        own = (names[0],) * (len(rows[0]) - 1)
        paths.append(_branch_path(rows, names, path) or (*own, TOP_LABEL if top == {TOP_LABEL} else names[0]))
    _check_nests(paths, path)
    return TableHierarchy.from_paths(paths)


def _rows(path: Path) -> list[Row]:
    text = read_text(path)
    delimiter = ";" if ";" in text.partition("\n")[0] else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[Row] = []
    try:
        for row in reader:
            if row:
                rows.append(tuple(row))
                _check_row(rows, path, reader.line_num)
    except csv.Error:
        raise HierarchyError(
            "{file}, line {line}: not valid CSV; check the quotes", file=path, line=reader.line_num
        ) from None
    if not rows:
        raise HierarchyError("{file}: the file is empty; write one row a value: value;level 1;...;*", file=path)
    if len(rows[0]) < 2:
        raise HierarchyError("{file}: only one column; write one row a value: value;level 1;...;*", file=path)
    return rows


def _check_row(rows: Sequence[Row], path: Path, line: int) -> None:
    row, first = rows[-1], rows[0]
    if len(row) != len(first):
        raise HierarchyError(
            "{file}, line {line}: {found} columns, but the first row has {expected}; give every value the same levels",
            file=path,
            line=line,
            found=len(row),
            expected=len(first),
        )
    if "" in row:
        column = row.index("")
        raise HierarchyError(
            "{file}, line {line}: column {column} (level {level}) has a hole, an empty cell; fill it in",
            file=path,
            line=line,
            column=column + 1,
            level=column,
        )


def _branch_path(rows: Sequence[Row], names: Sequence[str], path: Path) -> Row | None:
    """Find the path of "(other)" or "(missing)", by any of its names; None if the file has no such row."""
    paths = {(names[0], *row[1:]) for row in rows if row[0] in names}
    if len(paths) > 1:
        _refuse_two_paths(names[0], path)
    return paths.pop() if paths else None


def _paths(rows: Sequence[Row], domain: Domain, path: Path) -> list[Row]:
    """Put the rows in the order of the codes, first cells replaced by the labels of the domain."""
    labels = domain.labels(np.arange(domain.size)).tolist()
    by_code: dict[int, Row] = {}
    unknown: list[str] = []
    for row in rows:
        try:
            code = domain.code(row[0])
        except KeyError:
            unknown.append(row[0])
            continue
        if by_code.setdefault(code, (labels[code], *row[1:]))[1:] != row[1:]:
            _refuse_two_paths(row[0], path)
    _check_complete(unknown, by_code, labels, path)
    return [by_code[code] for code in range(domain.size)]


def _check_complete(unknown: Sequence[str], by_code: Mapping[int, Row], labels: Sequence[str], path: Path) -> None:
    if unknown:
        raise HierarchyError(
            "{file}: column 1 (level 0) holds {shown}, which the attribute does not declare; "
            "declare these values or take their rows out",
            file=path,
            shown=shown(unknown),
        )
    holes = [label for code, label in enumerate(labels) if code not in by_code]
    if holes:
        raise HierarchyError(
            "{file}: column 1 (level 0) has a hole, no row for {shown}; add a row for every value",
            file=path,
            shown=shown(holes),
        )


def _refuse_two_paths(value: str, path: Path) -> NoReturn:
    raise HierarchyError(
        "{file}: column 1 (level 0) has two rows with different paths for {value}; keep one", file=path, value=value
    )


def _check_nests(paths: Sequence[Row], path: Path) -> None:
    columns = list(zip(*paths, strict=True))
    for level in range(1, len(columns) - 1):
        above: dict[str, str] = {}
        pairs = zip(columns[level], columns[level + 1], strict=True)
        split = dict.fromkeys(name for name, parent in pairs if above.setdefault(name, parent) != parent)
        if split:
            raise HierarchyError(
                "{file}: column {column} (level {level}) does not nest, {shown} lies under two labels of "
                "column {above}; rename one of them",
                file=path,
                column=level + 1,
                level=level,
                shown=shown(list(split)),
                above=level + 2,
            )
