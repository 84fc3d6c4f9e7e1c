"""The notebook of the tutorial is the one its text file makes, it runs in a real kernel, and it does not flood."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.docs.pages import ROOT

MOST_LINES = 40  # of one output: a progress bar that prints a line for every step would pass this at once


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    """docs/site/notebook.py, which is no package."""
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    spec = importlib.util.spec_from_file_location("notebook_maker", ROOT / "docs" / "site" / "notebook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def ran(maker: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUDARE_LANG", "en")
        patch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
        return maker.run(maker.build(), tmp_path_factory.mktemp("notebook"))


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def test_the_stored_notebook_has_the_cells_of_its_text_file(maker: ModuleType) -> None:
    stored = json.loads(maker.NOTEBOOK.read_text(encoding="utf-8"))
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in stored["cells"]]

    assert cells == maker.read_cells(maker.TEXT.read_text(encoding="utf-8"))


def test_every_object_the_notebook_shows_is_drawn(ran: Any) -> None:
    shown = [output for output in outputs(ran) if output.output_type == "execute_result"]

    assert len(shown) >= 12
    assert all("text/html" in output.data for output in shown)


def test_no_cell_floods_the_notebook_or_writes_to_the_error_stream(ran: Any) -> None:
    streams = [output for output in outputs(ran) if output.output_type == "stream"]

    assert [stream.name for stream in streams if stream.name == "stderr"] == []
    assert all(stream.text.count("\n") + stream.text.count("\r") <= MOST_LINES for stream in streams)


def test_nothing_of_the_machine_stands_in_the_stored_notebook(maker: ModuleType) -> None:
    stored = maker.NOTEBOOK.read_text(encoding="utf-8")

    assert str(Path.home()) not in stored
    assert "/tmp" not in stored
