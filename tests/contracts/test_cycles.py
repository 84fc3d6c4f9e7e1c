"""No module needs itself: the graph of imports that run at start-up has no cycle. Class names are unique."""

from __future__ import annotations

import ast
import graphlib
from collections import Counter
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "sudare"


def modules(package: Path) -> dict[str, ast.Module]:
    """Every module of the tree by its dotted name."""
    names = {}
    for path in sorted(package.rglob("*.py")):
        dotted = ".".join([package.name, *path.relative_to(package).with_suffix("").parts]).removesuffix(".__init__")
        names[dotted] = ast.parse(path.read_text(encoding="utf-8"))
    return names


def graph(package: Path) -> dict[str, set[str]]:
    """What every module needs before it is there: imports at the top, not those inside functions or for types."""
    trees = modules(package)
    needs: dict[str, set[str]] = {name: set() for name in trees}
    for name, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module in trees:
                inside = {f"{node.module}.{alias.name}" for alias in node.names}
                needs[name] |= (inside & trees.keys()) or {node.module}
    return needs


def cycle(package: Path) -> list[str]:
    """The modules of a cycle; none if there is none."""
    try:
        graphlib.TopologicalSorter(graph(package)).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_needs_itself() -> None:
    assert cycle(SOURCE) == []


def test_a_planted_cycle_is_found(tmp_path: Path) -> None:
    package = tmp_path / "house"
    package.mkdir()
    for name, text in {
        "a": "from house.b import x",
        "b": "from house.c import x",
        "c": "from house.a import x",
    }.items():
        (package / f"{name}.py").write_text(text, encoding="utf-8")

    assert set(cycle(package)) == {"house.a", "house.b", "house.c"}


def doubles(package: Path) -> list[str]:
    """Public class names that stand for two things."""
    names = Counter(
        node.name
        for tree in modules(package).values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    return sorted(name for name, times in names.items() if times > 1)


def test_a_class_name_stands_for_one_thing() -> None:
    assert doubles(SOURCE) == []


@pytest.mark.parametrize("text", ["class Step:\n    pass", "def make():\n    class Step:\n        pass"])
def test_a_class_name_with_two_meanings_is_found(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.py").write_text("class Step:\n    pass", encoding="utf-8")
    (tmp_path / "b.py").write_text(text, encoding="utf-8")

    assert doubles(tmp_path) == ["Step"]
