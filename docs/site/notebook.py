"""Make the notebook of the tutorial from its text file: `python docs/site/notebook.py` runs it and writes it."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

TUTORIAL = Path(__file__).parents[1] / "tutorial"
TEXT = TUTORIAL / "notebook.txt"
NOTEBOOK = TUTORIAL / "notebook.ipynb"
_CELL = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)


def read_cells(written: str) -> list[tuple[str, str]]:
    """Cut the text at its marks into cells: ("markdown" | "code", source).

    >>> read_cells("# %% [markdown]\\n# # A\\n#\\n# b\\n\\n# %%\\n1 + 1\\n")
    [('markdown', '# A\\n\\nb'), ('code', '1 + 1')]
    """
    _, *parts = _CELL.split(written)
    kinds = ["markdown" if mark else "code" for mark in parts[::2]]
    return [
        (kind, re.sub(r"(?m)^# ?", "", source).strip() if kind == "markdown" else source.strip())
        for kind, source in zip(kinds, parts[1::2], strict=True)
    ]


def build() -> Any:
    """Make the notebook, without outputs."""
    import nbformat

    cells = []
    for number, (kind, source) in enumerate(read_cells(TEXT.read_text(encoding="utf-8"))):
        make = nbformat.v4.new_markdown_cell if kind == "markdown" else nbformat.v4.new_code_cell
        cells.append(make(source, id=f"cell-{number}"))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def run(notebook: Any, place: Path) -> Any:
    """Run every cell in a folder; an error in a cell is raised."""
    from nbclient import NotebookClient

    return NotebookClient(notebook, timeout=None, resources={"metadata": {"path": str(place)}}).execute()


def main() -> None:
    """Run the notebook in an empty folder and write it with its outputs."""
    import nbformat

    with tempfile.TemporaryDirectory() as place:
        done = run(build(), Path(place))
    for cell in done.cells:
        cell.metadata.pop("execution", None)  # when a cell ran is nobody's business
    done.metadata = {"kernelspec": done.metadata["kernelspec"]}
    NOTEBOOK.write_text(nbformat.writes(done) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
