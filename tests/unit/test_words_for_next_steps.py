"""Words that name the next step: confirming without input, and groups that have not one width."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from sudare.methods.kanon.grouping_words import describe_level
from sudare.methods.kanon.preview import MANY_WAYS, KAnonymityPreview
from sudare.schema import Attribute, NumberBins, TableHierarchy

DRAFT = """[sudare]
schema = 1
name = "t"
inferred = true

[[attribute]]
name = "sex"
kind = "category"
values = ["F", "M"]
"""


def test_confirming_without_input_names_the_option_that_needs_none(tmp_path: Path) -> None:
    schema = tmp_path / "t.toml"
    schema.write_text(DRAFT, encoding="utf-8")
    command = [sys.executable, "-m", "sudare", "schema", "confirm", str(schema)]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    assert ended.returncode == 1
    assert "--yes" in ended.stderr
    assert "interrupted" not in ended.stderr
    assert schema.read_text(encoding="utf-8") == DRAFT


def test_few_groups_of_unequal_width_are_named_one_by_one() -> None:
    domain = NumberBins.of_width(15, 95, 1)
    names = ["[15,65)"] * 50 + ["[65,95]"] * 30
    paths = [(str(label), name, "*") for label, name in zip(domain.labels(range(80)), names, strict=True)]  # type: ignore[arg-type]
    age = Attribute(name="age", domain=domain, hierarchy=TableHierarchy.from_paths(paths))

    assert str(describe_level(age, 1)) == "[15,65), [65,95]"


def test_groups_of_one_width_are_named_by_it_though_the_first_and_the_last_are_cut() -> None:
    weight = Attribute(name="weight", domain=NumberBins((30, *range(40, 190, 20), 190)))

    assert str(describe_level(weight, 0)) == "steps of 20"


def test_a_preview_tells_how_to_end_a_search_of_very_many_ways() -> None:
    def lines(nodes: int) -> str:
        preview = KAnonymityPreview(quasi=("age",), unchanged=(), nodes=nodes, finest=9, coarsest=1)
        return " ".join(map(str, preview.lines()))

    assert "--deadline-seconds" in lines(MANY_WAYS + 1)
    assert "--deadline-seconds" not in lines(MANY_WAYS)
