"""A question from the command line loads what an answer needs, and nothing that makes a release."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from sudare.methods.view import View
from sudare.noise import SeededRng
from sudare.testing import Tabled
from sudare.testing.subject import even_table
from tests.processes import run

HEAVY = (
    "rich", "pyarrow", "pandas", "scipy", "sqlglot", "sudare.app", "sudare.methods.base", "sudare.methods.view.fit",
    "sudare.methods.view.model", "sudare.methods.view.residual", "sudare.methods.view.view", "sudare.noise",
    "sudare.privacy.ledger", "sudare.sources", "sudare.forms.reader", "numpy.polynomial",
)  # fmt: skip


@pytest.mark.parametrize("words", [[], ["--json"], ["--format", "csv"], ["--chart"]])
def test_a_question_loads_no_more_than_its_answer_needs(words: list[str], tmp_path: Path) -> None:
    release = View(epsilon=1).publish(Tabled(even_table()), rng=SeededRng(1))
    release.save(tmp_path / "out", even_if_not_private=True)
    question = ["query", str(tmp_path / "out"), "SELECT a0, COUNT(*) FROM view GROUP BY a0", *words]
    code = (
        "import json, sys; from sudare.cli import main\n"
        f"try: main({question!r})\n"
        "finally: print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = run([sys.executable, "-c", code])
    loaded = set(json.loads(done.stderr.splitlines()[-1]))

    assert done.returncode == 0
    assert "v0" in done.stdout
    assert loaded.intersection(HEAVY) == set()
