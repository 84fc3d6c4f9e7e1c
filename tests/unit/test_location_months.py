"""Months of one person: lasting answers, budgets, zones, the clock, and two processes at once; Python and device.js."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sudare.errors import BudgetExceeded, ParameterError, ReleaseError
from sudare.methods.location import Location, attack
from sudare.methods.location.attack import Attacker, find_chances
from sudare.methods.location.device import Device, DeviceState
from sudare.methods.location.device_file import DeviceFile, RepeatUse
from sudare.methods.location.grid import PlaneGrid
from sudare.methods.location.mechanism import FULL_WEIGHT, Mechanism
from sudare.methods.location.posterior import share_people
from sudare.noise import SeededRng
from tests.unit.location_maps import PAPER
from tests.unit.test_location_trust import run_node


def file_with(**rule: Any) -> DeviceFile:
    law = Mechanism(places=PAPER, beta_per_metre=Fraction(1, 100), weights=np.full(225, FULL_WEIGHT))
    return DeviceFile(
        mechanism=law, epsilon_per_metre=Fraction(1, 50), tight_epsilon_per_metre=0.02, repeat=RepeatUse(**rule)
    )


LASTING: dict[str, Any] = {"answers": "lasting", "within_metres": 300, "fresh_reports": 1, "month": 2, "life": 3}


def test_a_place_keeps_its_answer_for_years() -> None:
    device = Device.start(file_with(**LASTING))
    days = [f"20{year}-{month:02d}-11" for year in (26, 27, 28) for month in range(1, 13)]

    reports = {device.report(112, day=day) for day in days}

    assert len(reports) == 1
    assert device.state.drawn["life"] == 1


def test_a_cell_beside_a_known_place_is_that_place() -> None:
    device = Device.start(file_with(**LASTING))
    home = device.report(112, day="2026-11-16")

    assert device.report(113, day="2026-11-16") == home  # 141.5 m away
    assert device.report(112 + 15, day="2026-11-16") == home
    with pytest.raises(BudgetExceeded, match="this day"):
        device.report(112 + 3, day="2026-11-16")  # 424.5 m away: a new place


def test_budgets_of_month_and_life_hold() -> None:
    device = Device.start(file_with(**LASTING))
    device.report(0, day="2026-11-16")
    device.report(7, day="2026-11-17")

    with pytest.raises(BudgetExceeded, match="this month"):
        device.report(14, day="2026-11-18")
    device.report(14, day="2026-12-01")
    with pytest.raises(BudgetExceeded, match="for ever"):
        device.report(210, day="2027-01-01")
    assert device.report(7, day="2027-01-01") is not None


def test_a_place_counts_after_its_dwell_in_a_row() -> None:
    device = Device.start(file_with(**LASTING, dwell=3))

    first = [device.report(cell, day="2026-11-16") for cell in (112, 113, 0, 112, 113)]
    settled = device.report(112, day="2026-11-16")

    assert first == [None] * 5
    assert settled is not None
    assert device.state.answers[0][0] == 112


def test_a_zone_is_one_place_and_a_silent_one_gives_no_report() -> None:
    device = Device.start(file_with(**LASTING | {"within_metres": 0, "fresh_reports": 5, "month": 9}))
    device.add_zone(112, metres=450)
    device.add_zone(0, metres=200, silent=True)

    inside = {device.report(cell, day="2026-11-16") for cell in (112, 113, 115, 112 + 15)}

    assert len(inside) == 1
    assert device.report(1, day="2026-11-16") is None
    assert device.state.answers == [(112, next(iter(inside)).cell)]  # type: ignore[union-attr]


@pytest.mark.parametrize("metres", [2.5, True, "100", -1, 100_001])
def test_a_zone_reaches_a_whole_number_of_metres_as_in_javascript(metres: object) -> None:
    device = Device.start(file_with(**LASTING))

    with pytest.raises(ParameterError, match="metres"):
        device.add_zone(112, metres=metres)  # type: ignore[arg-type]

    assert device.state.zones == []


def test_a_clock_that_was_set_back_brings_no_budget_back() -> None:
    device = Device.start(file_with(**LASTING))
    device.report(0, day="2026-12-01")

    for day in ("2026-11-30", "2025-01-01", "2026-12-01"):
        with pytest.raises(BudgetExceeded):
            device.report(100, day=day)
    assert device.state.day == "2026-12-01"


@pytest.mark.parametrize("day", ["2026-99-99", "2026-02-30", "0000-01-01", "tomorrow", "2026-1-1", "9999-13-01"])
def test_a_day_that_is_none_is_refused_by_both(day: str) -> None:
    script = f"""
      const device = new d.Device(file);
      try {{ device.report(0, "{day}"); console.log("taken"); }} catch (error) {{ console.log(error.message); }}
    """

    with pytest.raises(ReleaseError, match="2026-11-16"):
        Device.start(file_with()).report(0, day=day)
    assert "2026-11-16" in run_node(script, file_with().to_dict())


@pytest.mark.parametrize("change", [{"seal": "0" * 64}, {"drawn": {"day": 0, "month": 0, "life": 0}}, {"answers": []}])
def test_a_state_that_was_changed_is_refused_by_both(change: dict[str, Any]) -> None:
    device = Device.start(file_with(**LASTING))
    device.report(0, day="2026-11-16")
    damaged = device.state.to_dict() | change
    script = f"try {{ new d.Device(file, {json.dumps(damaged)}); }} catch (error) {{ console.log(error.message); }}"

    with pytest.raises(ReleaseError, match="damaged"):
        DeviceState.from_dict(damaged)
    assert "damaged" in run_node(script, file_with(**LASTING).to_dict())


def test_both_follow_one_rule_through_a_life() -> None:
    """The same cells on the same days give the same places, silences and budgets; the draws differ."""
    rng = np.random.default_rng(5)
    visits = [
        (int(rng.choice([112, 113, 0, 20, 200, 224])), f"2026-{1 + k // 28:02d}-{1 + k % 28:02d}") for k in range(90)
    ]
    file = file_with(**LASTING | {"dwell": 2, "fresh_reports": 2, "month": 3})
    device, pattern = Device.start(file), []
    device.add_zone(224, metres=150, silent=True)
    for cell, day in visits:
        try:
            pattern.append(device.report(cell, day=day, rng=SeededRng(1)) is not None)
        except BudgetExceeded:
            pattern.append(False)
    script = f"""
      const device = new d.Device(file);
      device.addZone(224, {{ metres: 150, silent: true }});
      const pattern = {json.dumps(visits)}.map(([cell, day]) => device.report(cell, day) !== null);
      console.log(JSON.stringify([pattern, device.state]));
    """

    told, state = json.loads(run_node(script, file.to_dict()))

    assert told == pattern
    assert [place for place, _ in DeviceState.from_dict(state).answers] == [place for place, _ in device.state.answers]
    assert state["drawn"] == device.state.drawn
    assert sum(pattern) > 10


def test_a_state_of_the_first_version_goes_on() -> None:
    first = {"artefact": file_with().identity[:16], "period": "2026-11-16", "answers": {"4": 7}}

    device = Device.start(file_with(), state=first)

    assert device.report(4, day="2026-11-16").cell == 7  # type: ignore[union-attr]
    with pytest.raises(BudgetExceeded):
        device.report(5, day="2026-11-16")


def test_rules_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(ParameterError, match="lasting"):
        RepeatUse(within_metres=300)


def test_eight_processes_at_once_draw_once(tmp_path: Path) -> None:
    """Each starts before any has stored; without the lock several would draw afresh."""
    file = file_with(**LASTING | {"within_metres": 0})
    file.write(tmp_path / "mechanism.json")
    script = (
        "import sys; from pathlib import Path; from sudare.methods.location.reports import draw_report\n"
        "sys.stdin.readline()\n"
        "try:\n"
        "    place = {'cell': sys.argv[1], 'state': Path('state.json'), 'day': '2026-11-16'}\n"
        "    print(draw_report(Path('mechanism.json'), **place))\n"
        "except Exception as error:\n    print(type(error).__name__)\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(100 + number)],
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(8)
    ]
    for process in running:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    told = [process.communicate()[0].strip() for process in running]

    assert sorted(text.startswith("Report") for text in told) == [False] * 7 + [True]
    assert set(told) - {text for text in told if text.startswith("Report")} == {"BudgetExceeded"}


# --- days of 23 and 25 hours, and of people who travel ---------------------------------------------------------------

CLOCKS = {  # zone and UTC, then the day that the device must be on
    "23 hours": [
        ("Europe/Berlin", "2026-03-28T22:59", "2026-03-28"), ("Europe/Berlin", "2026-03-28T23:00", "2026-03-29"),
        ("Europe/Berlin", "2026-03-29T21:59", "2026-03-29"), ("Europe/Berlin", "2026-03-29T22:00", "2026-03-30"),
    ],
    "25 hours": [
        ("Europe/Berlin", "2026-10-24T21:59", "2026-10-24"), ("Europe/Berlin", "2026-10-24T22:00", "2026-10-25"),
        ("Europe/Berlin", "2026-10-25T00:30", "2026-10-25"), ("Europe/Berlin", "2026-10-25T01:30", "2026-10-25"),
        ("Europe/Berlin", "2026-10-25T22:59", "2026-10-25"), ("Europe/Berlin", "2026-10-25T23:00", "2026-10-26"),
    ],
    "no midnight": [("America/Santiago", "2026-09-06T03:59", "2026-09-05"),
                    ("America/Santiago", "2026-09-06T04:00", "2026-09-06")],
    "a flight back by a day": [
        ("Asia/Tokyo", "2026-10-26T15:00", "2026-10-27"), ("Pacific/Honolulu", "2026-10-26T20:00", "2026-10-27"),
        ("Pacific/Honolulu", "2026-10-28T09:59", "2026-10-27"), ("Pacific/Honolulu", "2026-10-28T10:00", "2026-10-28"),
    ],
}  # fmt: skip
DAILY = {"answers": "daily", "fresh_reports": 1}
LIVE = """
const [deviceFile, clock] = file;
const TrueDate = Date;
const device = new d.Device(deviceFile);
const told = clock.map(([zone, instant], number) => {
  process.env.TZ = zone;
  globalThis.Date = class extends TrueDate {
    constructor(...given) { super(...(given.length ? given : [`${instant}Z`])); }
  };
  const report = device.report(number % 2);
  return [device.state.day, device.state.drawn.life, report !== null];
});
console.log(JSON.stringify(told));
"""


def live_in_python(clock: list[tuple[str, str, str]], monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    device, told = Device.start(file_with(**DAILY)), []
    for number, (zone, instant, _) in enumerate(clock):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        stamp = datetime.datetime.fromisoformat(f"{instant}+00:00").timestamp()
        local = datetime.datetime.fromtimestamp(stamp)
        fixed = SimpleNamespace(now=lambda local=local: local)
        monkeypatch.setattr(
            "sudare.methods.location.device.datetime", SimpleNamespace(datetime=fixed, date=datetime.date)
        )
        try:
            is_sent = device.report(number % 2) is not None
        except BudgetExceeded:
            is_sent = False
        told.append([device.state.day, device.state.drawn["life"], is_sent])
    return told


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="zones are set as on Unix")
@pytest.mark.parametrize("clock", CLOCKS)
def test_days_turn_at_local_midnight_whatever_their_hours(clock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fixes in two cells in turn: one fresh draw in each local day, none for a day that comes twice."""
    days = [day for _, _, day in CLOCKS[clock]]
    expected = [[day, len(set(days[: number + 1])), day not in days[:number]] for number, day in enumerate(days)]
    with monkeypatch.context() as patched:
        in_python = live_in_python(CLOCKS[clock], patched)
    time.tzset()
    in_javascript = json.loads(run_node(LIVE, [file_with(**DAILY).to_dict(), CLOCKS[clock]]))

    for told in (in_python, in_javascript):
        assert [entry[:2] for entry in told] == [entry[:2] for entry in expected]
        assert all(sent for (_, _, sent), (_, _, is_fresh) in zip(told, expected, strict=True) if is_fresh)


# --- what an attacker finds ---------------------------------------------------------------------------------------


def test_the_chance_of_one_report_is_the_sum_over_reports_of_the_likeliest_place() -> None:
    law = Location(grid=PAPER, epsilon_per_metre="0.01", mode="sharp").mechanism()
    prior = np.random.default_rng(1).pareto(1.2, 225) + 0.01
    people = share_people(law, prior)
    joint = np.array([people[cell] * law.report_law(cell) for cell in range(225)])

    chance = Attacker(law, people).chance_of_one()

    assert chance == pytest.approx(joint.max(axis=0).sum(), rel=1e-9)


def test_lasting_answers_hide_the_home_for_a_year_and_daily_ones_do_not() -> None:
    """Homes are counted (600 and 150): a chance has a standard error of .02 and .04, so .57 and .9 are told apart."""
    law = Location(grid=PAPER, epsilon_per_metre="0.01", mode="sharp").mechanism()

    lasting = find_chances(law, RepeatUse(**LASTING | {"life": 30}))
    daily = find_chances(law, RepeatUse())

    assert [found.days for found in lasting] == [1, 30, 365]
    assert lasting[0].chance == pytest.approx(0.283, abs=0.001)
    assert lasting[2].chance < 2 * lasting[0].chance
    assert daily[1].chance > 0.7
    assert daily[2].chance > 0.85


def test_the_told_chance_of_lasting_answers_hangs_little_on_which_homes_were_simulated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With 150 homes it varied by .04: .34 was told where a home is found in .22."""
    law = Location(grid=PAPER, epsilon_per_metre="0.01", mode="sharp").mechanism()
    attacker = Attacker(law, share_people(law, np.ones(225)))

    told = []
    for seed in range(8):
        monkeypatch.setattr(attack, "SEED", 7 + 1000 * seed)
        told.append(attacker.simulate(RepeatUse(**LASTING | {"life": 30, "within_metres": 100}), 30))

    assert np.std(told, ddof=1) < 0.03


def test_previews_and_certificates_tell_the_chance() -> None:
    grid = PlaneGrid(rows=6, columns=6, cell_height_metres=115, cell_width_metres=140)
    preview = Location(grid=grid, epsilon_per_metre="0.01", answers="daily").preview()
    release = Location(grid=grid, epsilon_per_metre="0.01").publish()

    assert "365 days" in " ".join(str(line) for line in preview.lines())
    assert any("more than twice" in str(warning) for warning in preview.warnings)
    assert {"home_found_1_days", "home_found_30_days", "home_found_365_days"} <= set(release.certificate.measures)
