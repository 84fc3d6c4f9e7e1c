"""The list of faults fits the source and the tests as they are."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

import sudare
from tests.mutants.faults import FAULTS, Fault, planted

SOURCE = Path(sudare.__file__).parent
ROOT = Path(__file__).resolve().parents[2]
FEWEST = 30
ROOMS = {"schema", "sources", "counts", "privacy", "noise", "postprocess", "methods", "releases", "compare", "verify",
         "report", "recipe", "text", "cli"}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_text_of_a_fault_stands_once_in_its_file(fault: Fault) -> None:
    text = (SOURCE / fault.file).read_text(encoding="utf-8")

    assert text.count(fault.old) == 1
    assert planted(fault, text) != text
    compile(planted(fault, text), fault.file, "exec") if fault.file.endswith(".py") else None


@pytest.mark.parametrize(
    "fault", [fault for fault in FAULTS if fault.file.endswith(".py")], ids=lambda fault: fault.name
)
def test_a_fault_changes_what_runs_and_not_only_a_docstring(fault: Fault) -> None:
    text = (SOURCE / fault.file).read_text(encoding="utf-8")

    assert _statements(planted(fault, text)) != _statements(text)


def _statements(text: str) -> str:
    """The code of a file without comments and without texts that stand alone."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = None
    return ast.dump(tree)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_tests_that_must_see_a_fault_exist(fault: Fault) -> None:
    for test in fault.tests:
        file, _, name = test.partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")

        assert name == "" or re.search(rf"^def {re.escape(name.partition('[')[0])}\(", text, flags=re.MULTILINE), test


def test_there_are_thirty_faults_of_different_names_in_every_room() -> None:
    names = Counter(fault.name for fault in FAULTS)

    assert len(FAULTS) >= FEWEST
    assert max(names.values()) == 1
    assert {fault.file.split("/")[0].removesuffix(".py") for fault in FAULTS} >= ROOMS


def test_a_text_that_is_gone_or_stands_twice_is_an_error() -> None:
    fault = Fault(name="x", file="a.py", old="one", new="two", why="", tests=())
    for text in ("two", "one one"):
        with pytest.raises(ValueError, match="stands"):
            planted(fault, text)
