"""Releases that the first version made are read, verified, asked, reported and recognised by the second.

first_version/ holds one release of each method as version 0.1.0 (commit cbc6541) saved it, with its table and ledger.
Its certificates call `method` what is called `algorithm` now.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import sudare as sd
from sudare.app import compare_release, render_report
from sudare.methods.registry import method_of
from sudare.text import use_language
from sudare.verify.checks import verify_release

HERE = Path(__file__).with_name("first_version")
CHARGED = ("microdata", "table", "view")
METHODS: dict[str, Any] = {
    "microdata": sd.Microdata(epsilon="1/2", algorithm="projection"),
    "table": sd.Table(epsilon=1, algorithm="tree"),
    "view": sd.View(epsilon=1, algorithm="product"),
    "kanon": sd.KAnonymity(k=5),
    "location": sd.Location(epsilon_per_metre="0.02"),
}


def facts(name: str) -> Any:
    if METHODS[name].takes != "map":
        return sd.Schema.read(HERE / "members.toml")
    device = sd.load_device_file(HERE / name)
    return METHODS[name].__class__(epsilon_per_metre="0.02", grid=device.mechanism.places)


def plan(name: str, method: Any) -> Any:
    known = facts(name)
    return known.plan() if method.takes == "map" else method.plan(known)


@pytest.mark.parametrize("name", METHODS)
def test_a_release_of_the_first_version_is_verified(name: str, tmp_path: Path) -> None:
    ledger = shutil.copyfile(HERE / "members.ledger", tmp_path / "members.ledger")
    checks = verify_release(HERE / name, ledger_file=ledger if name in CHARGED else None)

    assert [str(check.name) for check in checks if not check.passed] == []


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("name", METHODS)
def test_its_page_is_written(name: str, language: str) -> None:
    with use_language(language):
        page = render_report(sd.Release.load(HERE / name), HERE / name)

    assert f'lang="{language}"' in page


@pytest.mark.parametrize("name", ["microdata", "table", "view", "kanon"])
def test_it_is_compared_with_the_truth(name: str) -> None:
    release = sd.Release.load(HERE / name)
    compared = compare_release(release, str(HERE / "members.csv"), HERE / "members.toml", {})

    assert compared is not None
    assert method_of(release.certificate) is type(METHODS[name])


def test_a_view_is_asked() -> None:
    found = sd.open_view(HERE / "view").count(town="a1")

    assert found.low <= found.value <= found.high


@pytest.mark.parametrize("name", METHODS)
def test_a_recipe_recognises_it_as_done(name: str) -> None:
    release = sd.Release.load(HERE / name)
    found = METHODS[name].differences(release.certificate, plan(name, METHODS[name]), place=HERE / name)

    assert [str(difference) for difference in found] == []


def test_another_algorithm_is_seen_under_its_old_name() -> None:
    release = sd.Release.load(HERE / "view")
    method = sd.View(epsilon=1, algorithm="model")
    found = method.differences(release.certificate, plan("view", method), place=HERE / "view")

    assert [str(difference) for difference in found] == ["algorithm: product there, model in the recipe"]
