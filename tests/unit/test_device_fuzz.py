"""Every field of a device file is changed in turn, with an id that fits: Python and JavaScript judge the same files."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from sudare.errors import SudareError
from sudare.forms.jsontext import read_json
from sudare.methods.location.device_file import DeviceFile
from tests.unit.device_fuzz import list_forgeries, make_files, make_slopes, write_forged
from tests.unit.test_location_trust import run_node

JUDGE = """
// what the drawn law needs, by the definition: the worst pair of places and the worst report of all rows
const need = (law) => {
  const inputs = [...Array(law.size).keys()].filter(law.canEnter);
  const rows = inputs.map((cell) => {
    const { reports, terms } = law.rowOf(cell);
    const total = terms.reduce((sum, term) => sum + term);
    return new Map(reports.map((report, place) => [report, Math.log(terms[place] / total)]));
  });
  let worst = 0;
  inputs.forEach((cell, i) => {
    const squares = law.map.squares(cell);
    inputs.forEach((other, j) => {
      const metres = Math.sqrt(Number(squares(other))) * Number(law.map.unit.up) / Number(law.map.unit.down);
      for (const [report, log] of rows[i]) if (i !== j) worst = Math.max(worst, (log - rows[j].get(report)) / metres);
    });
  });
  return worst;
};
const verdicts = file.map((text) => {
  let law, facts;
  try {
    facts = JSON.parse(text);
    law = new d.Sampler(facts);
    new d.Device(facts, null, { sampler: law });
  } catch (error) { return `refused: ${error.message}`; }
  const [up, down] = String(facts.epsilon_per_metre).split("/");
  return need(law) <= (up / (down ?? 1)) * (1 + 1e-7) ? "taken" : "taken, and its law needs more than it promises";
});
console.log(JSON.stringify([verdicts, ({}).x ?? null]));
"""
# What device.js may take though Python, which writes every byte anew, does not: it changes neither law nor promise.
# Names, words, units and rows beside levels are not read, `told` is post-processing, null and true are 0 and 1 in proof
# and draw alike, a vector less proves less; a report that says nothing stands nowhere, points have no columns, and a
# point or cone between those of the vectors is another law with a promise that is proven for it; limits, epsilon and
# inputs are what the file then says and the app caps. Whatever it takes, its law needs no more than the file promises,
# by the definition: JUDGE computes it.
HARMLESS = re.compile(
    r"(law|grid\.mesh|grid\.names\.\d+|grid\.unit_metres|grid\.grid\.rows|told.*|inputs|vectors.*|column_vectors.*"
    r"|repeat\.\w+|epsilon_per_metre|weights\.\d+|grid\.levels\.\d+) = |a key |beta twice, the false one first"
    r"|(shapes|columns)\.[\d.]+ = (None|True|False)"
    r"|(shapes\.[\d.]+|columns\.[012]|grid\.points\.\d+\.\d) = "
)


def judge_in_python(text: str) -> bool:
    """Tell whether Python takes a file; whatever is wrong with it must be said in one line."""
    try:
        facts: Any = read_json(text)
    except ValueError:
        return False
    try:
        return isinstance(facts, dict) and bool(DeviceFile.from_dict(facts))
    except SudareError:
        return False


@pytest.mark.parametrize(
    "kind",
    [
        "plane sharp",
        "elastic sharp",
        "graph sharp",
        "points sharp",
        "plane weighted",
        "plane near",
        "plane slopes",
        "points slopes",
        "mesh fair",
        "globe near",
    ],
)
def test_a_changed_field_is_refused_or_changes_no_law_in_both_languages(kind: str) -> None:
    facts = make_files()[kind]
    names, texts = zip(*list_forgeries(facts), strict=True)
    verdicts, polluted = json.loads(run_node(JUDGE, texts[::STEP]))
    wrong = []
    for name, text, verdict in zip(names[::STEP], texts[::STEP], verdicts, strict=True):
        in_python, in_javascript = judge_in_python(text), verdict == "taken"
        if "needs more" in verdict:
            wrong.append(f"device.js takes {name}: {verdict}")
        if in_python and not in_javascript:
            wrong.append(f"Python takes {name}, device.js: {verdict}")
        if in_javascript and not in_python and not HARMLESS.match(name) and not _is_same_number(facts, name):
            wrong.append(f"device.js takes {name}, Python does not")

    assert len(verdicts) > 200
    assert wrong == []
    assert polluted is None


STEP = 5  # every fifth forgery, so that the test takes seconds; `python -m tests.unit.test_device_fuzz` judges all


def _is_same_number(facts: dict[str, Any], name: str) -> bool:
    """Tell whether a field was only written otherwise: a text for its number, or in a list by itself."""
    path, _, new = name.partition(" = ")
    old: Any = facts
    for key in path.split("."):
        old = old[int(key) if isinstance(old, list) else key]
    plain = new.strip("[]'")
    return plain == str(old)[:36].strip("[]'") or (str(old) in ("0", "1") and plain in ("", "False", "True", str(old)))


@pytest.mark.parametrize("kind", ["plane", "points"])
def test_a_weight_of_a_hidden_report_that_is_no_count_is_refused_by_both(kind: str) -> None:
    texts = []
    for report in (0, 1):
        for weight in ("5", [5], True, 1.5, -5, "0x5", 0, -(2**63)):
            forged = make_slopes(kind)
            forged["columns"][4 * report + 3] = weight
            forged["column_vectors"] = []
            texts.append(write_forged(forged))
    verdicts = json.loads(run_node(JUDGE, texts))[0]

    assert [text for text in texts if judge_in_python(text)] == []
    assert {verdict[:7] for verdict in verdicts} == {"refused"}


@pytest.mark.parametrize("at", [1, 2])
def test_a_hidden_report_whose_place_has_no_size_in_64_bits_is_refused(at: int) -> None:
    forged = make_slopes("plane")
    forged["columns"][at] = -(2**63)

    assert not judge_in_python(write_forged(forged))


@pytest.mark.parametrize("metres", ["/3", "1/", "300.", ".", "1.5/2", "3e2", ""])
def test_a_reach_that_is_no_number_is_refused_by_both(metres: str) -> None:
    facts = make_files()["points sharp"]
    text = write_forged(facts | {"repeat": facts["repeat"] | {"within_metres": metres}})
    verdict = json.loads(run_node(JUDGE, [text]))[0][0]

    assert not judge_in_python(text)
    assert verdict.startswith("refused")


def test_files_as_they_were_written_are_taken_by_both() -> None:
    files = make_files()
    texts = [json.dumps(facts) for facts in files.values()]

    assert json.loads(run_node(JUDGE, texts))[0] == ["taken"] * len(files)
    assert all(judge_in_python(text) for text in texts)


if __name__ == "__main__":
    STEP = 1
    for each in make_files():
        test_a_changed_field_is_refused_or_changes_no_law_in_both_languages(each)
