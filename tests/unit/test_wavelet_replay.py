"""The wavelet on a table with impossible combinations keeps its promise by the replay, and half its noise is found."""

from __future__ import annotations

from typing import Any

import pytest

from sudare.methods.table import Table
from sudare.methods.table import wavelet as wavelet_module
from sudare.noise import GeometricNoise
from sudare.schema import Attribute, Impossible, NumberBins, Schema
from sudare.verify.replay import replay_method

LINES = tuple(Attribute(name=name, domain=NumberBins.of_width(0, 8, 1)) for name in "xy")
CORNER = Impossible((("x", frozenset(range(3))), ("y", frozenset(range(5)))))


def run() -> list[bool]:
    schema = Schema(name="corner", attributes=LINES, impossible=(CORNER,))
    results = list(replay_method(Table(epsilon=1, algorithm="wavelet"), schema=schema, pairs=6))
    assert all(result.pairs >= 1 for result in results)  # it stops at the first pair that breaks the promise
    return [result.holds for result in results]


def test_the_wavelet_keeps_its_promise_beside_impossible_cells_and_half_its_noise_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = run()
    whole = wavelet_module.wavelet_noise

    def halved(levels: int, budget: Any) -> GeometricNoise:
        return GeometricNoise(scale=whole(levels, budget).scale / 2)

    monkeypatch.setattr(wavelet_module, "wavelet_noise", halved)

    assert all(held)
    assert not any(run())
