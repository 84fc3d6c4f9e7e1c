"""Hierarchies: nested by construction, read from files as other tools write them, holes named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sudare.errors import HierarchyError, ParameterError, SchemaError
from sudare.schema import NumberBins, TableHierarchy, Values
from sudare.schema.hierarchy_rules import from_csv

LETTERS = Values(("a", "b", "c"))
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(text: str, encoding: str = "utf-8") -> Path:
        path = tmp_path / "letters.csv"
        path.write_bytes(text.encode(encoding))
        return path

    return written


def lifted(tree: TableHierarchy, level: int) -> list[str]:
    return tree.labels(tree.lift(np.arange(tree.size(0)), level), level).tolist()


# --- tables -------------------------------------------------------------------------------------------------------


def test_lifting_twice_is_lifting_to_the_second_level() -> None:
    tree = TableHierarchy.from_paths([("a", "x", "p"), ("b", "y", "p"), ("c", "z", "q")])

    assert (lifted(tree, 0), lifted(tree, 1), lifted(tree, 2)) == (["a", "b", "c"], ["x", "y", "z"], ["p", "p", "q"])


def test_a_hierarchy_cannot_be_changed() -> None:
    tree = TableHierarchy.from_paths([("a", "*")])

    with pytest.raises(ValueError, match="read-only"):
        tree.parents[0][0] = 1


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        ([("a", "x"), ("b",)], "same number of levels"),
        ([], "same number of levels"),
        ([("a", "x"), ("b", "")], "level 1 has a hole"),
        ([("a", "x"), ("a", "y")], "two rows"),
        ([("a", "x", "p"), ("b", "x", "q")], "level 1 x lies under two labels of level 2"),
    ],
)
def test_paths_that_make_no_tree_are_refused(paths: list[tuple[str, ...]], reason: str) -> None:
    with pytest.raises(HierarchyError, match=reason):
        TableHierarchy.from_paths(paths)


@pytest.mark.parametrize(
    ("parents", "names"),
    [
        (([0, 1],), (("a", "b"), ("*",))),  # a parent that is not there
        (([0, 0],), (("a", "b"), ("x", "y"))),  # a parent without child
        (([0],), (("a", "b"), ("*",))),  # a code without parent
        (([0, 0],), (("a", "b"),)),  # a level without names
        (([0, 1],), (("a", "b"), ("x", "x"))),  # one name for two nodes
    ],
)
def test_tables_with_holes_are_refused(parents: tuple[list[int], ...], names: tuple[tuple[str, ...], ...]) -> None:
    with pytest.raises(HierarchyError):
        TableHierarchy(parents=tuple(np.array(level) for level in parents), names=names)


def test_a_level_that_is_not_there_is_refused() -> None:
    tree = TableHierarchy.from_paths([("a", "*")])

    for level in (-1, 2):
        with pytest.raises(ParameterError, match="between 0 and 1"):
            tree.size(level)


def test_branches_join_a_single_star_and_stand_alone_under_any_other_top() -> None:
    starred = TableHierarchy.from_paths([("a", "x", "*"), ("b", "y", "*")]).with_branches(["(missing)"])
    named = TableHierarchy.from_paths([("a", "x", "all"), ("b", "y", "all")]).with_branches(["(other)", "(missing)"])

    assert (lifted(starred, 1), lifted(starred, 2)) == (["x", "y", "(missing)"], ["*", "*", "*"])
    assert lifted(named, 2) == ["all", "all", "(other)", "(missing)"]


def test_equal_hierarchies_are_equal_and_hash_alike() -> None:
    one, same = (TableHierarchy.from_paths([("a", "x"), ("b", "y")]) for _ in range(2))
    other = TableHierarchy.from_paths([("a", "x"), ("b", "x")])

    assert (one == same, hash(one) == hash(same), one == other, one == "x") == (True, True, False, False)


# --- files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("a;母音;*\nb;子音;*\nc;子音;*\n", "utf-8"),
        ("a,母音,*\r\nb,子音,*\r\nc,子音,*", "utf-8-sig"),
        ("a;母音;*\r\nb;子音;*\r\n\r\nc;子音;*\r\n", "cp932"),
        ('"a","母音","*"\n"b","子音","*"\n"c","子音","*"\n', "utf-8"),
        ("c;子音;*\nb;子音;*\na;母音;*\nb;子音;*\n", "utf-8"),
    ],
)
def test_files_are_read_in_the_forms_offices_keep_them_in(write: Write, text: str, encoding: str) -> None:
    tree = from_csv(write(text, encoding), LETTERS)

    assert (lifted(tree, 0), lifted(tree, 1)) == (["a", "b", "c"], ["母音", "子音", "子音"])


def test_without_a_domain_the_first_column_is_the_list_of_values(write: Write) -> None:
    assert from_csv(write("b;x;*\na;x;*\n")).names[0] == ("b", "a")


HOLES = [
    ("a;x;*\nb;x;*\n", r"letters\.csv: column 1 \(level 0\) has a hole, no row for c;"),
    ("a;x;*\nb;;*\nc;x;*\n", r"letters\.csv, line 2: column 2 \(level 1\) has a hole"),
    ("a;x;*\nb;x\nc;x;*\n", r"letters\.csv, line 2: 2 columns, but the first row has 3"),
    ("a;x;*\nb;x;*\nc;x;*\na;y;*\n", r"two rows with different paths for a;"),
    ("a;x;*\nb;x;*\nc;x;*\nd;x;*\ne;x;*\n", r"column 1 \(level 0\) holds d, e, which the attribute does not declare"),
    ("a;x;p\nb;x;q\nc;y;q\n", r"column 2 \(level 1\) does not nest, x lies under two labels of column 3"),
    ("", r"letters\.csv: the file is empty"),
    ("a\nb\nc\n", r"letters\.csv: only one column"),
    ('a;"x;*\nb;x;*\n', r"letters\.csv, line 2: not valid CSV"),
]


@pytest.mark.parametrize(("text", "reason"), HOLES)
def test_a_file_with_a_hole_is_refused_with_its_name_column_and_level(write: Write, text: str, reason: str) -> None:
    with pytest.raises(HierarchyError, match=reason):
        from_csv(write(text), LETTERS)


def test_at_most_five_values_are_shown(write: Write) -> None:
    with pytest.raises(HierarchyError, match=r"no row for 1, 2, 3, 4, 5, \.\.\.;"):
        from_csv(write("0;*\n"), Values(tuple("0123456789")))


def test_a_file_that_is_not_there_or_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "picture.csv").write_bytes(b"\xff\xfe\x00\x81\xfd")

    with pytest.raises(SchemaError, match=r"none\.csv: cannot be read"):
        from_csv(tmp_path / "none.csv", LETTERS)
    with pytest.raises(SchemaError, match=r"picture\.csv: neither UTF-8 nor Shift_JIS"):
        from_csv(tmp_path / "picture.csv", LETTERS)


def test_rows_for_missing_and_other_are_used_where_the_file_has_them(write: Write) -> None:
    text = "a;x;*\nb;x;*\nc;x;*\n?;unknown;*\n(other);x;*\n"
    tree = from_csv(write(text), LETTERS, other=True, missing=True, missing_marks=["?", "NA"])

    assert (lifted(tree, 0)[3:], lifted(tree, 1)[3:]) == (["(other)", "(missing)"], ["x", "unknown"])


def test_missing_without_a_row_is_a_branch_that_joins_the_star(write: Write) -> None:
    tree = from_csv(write("a;x;*\nb;x;*\nc;y;*\n"), LETTERS, missing=True)

    assert (lifted(tree, 1), lifted(tree, 2)) == (["x", "x", "y", "(missing)"], ["*"] * 4)


def test_two_rows_for_missing_with_different_paths_are_refused(write: Write) -> None:
    text = "a;x;*\nb;x;*\nc;x;*\n?;x;*\nNA;y;*\n"

    with pytest.raises(HierarchyError, match=r"different paths for \(missing\)"):
        from_csv(write(text), LETTERS, missing=True, missing_marks=["?", "NA"])


def test_bins_take_their_rows_by_interval_or_by_integer(write: Write) -> None:
    tree = from_csv(write("0;young;*\n[1,2);young;*\n[2,3];old;*\n"), NumberBins.of_width(0, 3, 1))

    assert (lifted(tree, 0), lifted(tree, 1)) == (["[0,1)", "[1,2)", "[2,3]"], ["young", "young", "old"])


@pytest.mark.parametrize(
    ("column", "sizes"),
    [
        ("age", [100, 20, 10, 5, 1]),
        ("education", [16, 5, 3, 1]),
        ("marital-status", [7, 2, 1]),
        ("native-country", [41, 5, 1]),
        ("occupation", [14, 3, 1]),
        ("race", [5, 1]),
        ("salary-class", [2, 1]),
        ("sex", [2, 1]),
        ("workclass", [8, 3, 1]),
    ],
)
def test_the_files_of_arx_are_read_as_they_are(shared: Path, column: str, sizes: list[int]) -> None:
    path = shared / "data" / "adult-arx" / f"adult_hierarchy_{column}.csv"
    if not path.is_file():
        pytest.skip("no adult-arx folder among the public data sets")
    tree = from_csv(path, NumberBins.of_width(1, 101, 1) if column == "age" else None)

    assert [tree.size(level) for level in range(tree.height + 1)] == sizes
