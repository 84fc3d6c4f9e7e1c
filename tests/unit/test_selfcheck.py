"""What `sudare verify` shows about the noise: all of it passes, it can fail, and it is said in both languages."""

from __future__ import annotations

import importlib
import json
import re
from fractions import Fraction

import numpy as np
import pytest

from sudare.noise import MatrixNoise, geometric_noise, selfcheck
from sudare.noise.rng import Rng
from sudare.noise.selfcheck import CheckResult, check_noise
from sudare.text import languages


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same checks with fewer draws, too few to tell a scale from one 2 % off."""
    monkeypatch.setattr(selfcheck, "DRAWS", 400_000)
    monkeypatch.setattr(selfcheck, "SPLIT_DRAWS", 400_000)
    monkeypatch.setattr(selfcheck, "NORMAL_DRAWS", 400_000)
    monkeypatch.setattr(selfcheck, "CHOICE_DRAWS", 2000)
    monkeypatch.setattr(selfcheck, "SCALES", (Fraction(1, 1000), Fraction(20), Fraction(1000)))


@pytest.fixture
def telling(short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many draws as it takes to tell a scale from one 2 % off."""
    monkeypatch.setattr(selfcheck, "DRAWS", 4_000_000)
    monkeypatch.setattr(selfcheck, "SPLIT_DRAWS", 4_000_000)


def failures(checks: list[CheckResult]) -> list[str]:
    return [check.name.template for check in checks if not check.passed]


def test_every_check_passes_and_progress_reaches_the_end(telling: None) -> None:
    shares: list[float] = []

    checks = check_noise(shares.append)

    assert failures(checks) == []
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_every_text_has_its_japanese_and_every_value_its_place(short: None) -> None:
    checks = check_noise()

    known = languages()["ja"].texts
    assert all(check.name.template in known and check.detail.template in known for check in checks)
    assert all("{" not in words.render(code) for check in checks for words in (check.name, check.detail)
               for code in ("en", "ja"))  # fmt: skip
    assert not any(re.search("scale|bit|epsilon|cell", check.detail.render("ja")) for check in checks)
    assert json.dumps([check.to_dict() for check in checks])


def test_noise_of_a_scale_2_percent_too_small_fails(telling: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def weak(size: int, *, scale: Fraction, rng: Rng) -> np.ndarray:
        return geometric_noise(size, scale=scale * Fraction(98, 100), rng=rng)

    monkeypatch.setattr(selfcheck, "geometric_noise", weak)

    assert "the noise has the stated law" in failures(check_noise())


def test_noise_of_all_pairs_of_two_thirds_of_its_scale_fails(short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    right = MatrixNoise.add
    monkeypatch.setattr(MatrixNoise, "add", lambda noise, table, rng: right(noise, table, rng=rng) * 2 / 3)

    failed = [check for check in check_noise() if not check.passed]

    assert "noise of all pairs" in " ".join(check.detail.render("en") for check in failed)


def test_a_spoilt_table_fails(short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = selfcheck.split_scale(Fraction(20)).top
    table = machine.table.copy()
    table[40_000] += 1
    monkeypatch.setattr(machine, "table", table)

    failed = [check for check in check_noise() if not check.passed]

    assert failed[0].name.template == "the tables of the noise are the stated law"
    assert "cell 40000" in failed[0].detail.render("en")
    assert "セル 40000" in failed[0].detail.render("ja")


def test_choices_of_twice_the_epsilon_fail(short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    bold = importlib.import_module("sudare.noise.exponential").exponential
    monkeypatch.setattr(
        selfcheck, "exponential", lambda *args, epsilon, **rest: bold(*args, epsilon=2 * epsilon, **rest)
    )

    assert "the exponential mechanism has the stated law" in failures(check_noise())
