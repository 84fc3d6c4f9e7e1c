"""One person's reports on one device: a budget a day, and the same answer for the same cell."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sudare.errors import BudgetExceeded, ReleaseError
from sudare.methods.location.device_file import DeviceFile
from sudare.methods.location.sampler import Sampler
from sudare.noise.rng import Rng, system_rng

SHORT_IDENTITY = 16  # characters of the hash of a device file that a report carries: 64 bits tell maps apart
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What leaves the device: the short identity of the device file it was drawn with, and a cell.

    In files the identity is called `artefact`, its name in the first version of the format.

    >>> Report(device_file="9f0c", cell=3).to_dict()
    {'artefact': '9f0c', 'cell': 3}
    """

    device_file: str
    cell: int

    def to_dict(self) -> dict[str, Any]:
        """Give the report as JSON-able facts."""
        return {"artefact": self.device_file, "cell": self.cell}


def short_identity(device_file: DeviceFile) -> str:
    """Give the name of a device file that reports carry: the first 16 characters of its hash."""
    return device_file.identity[:SHORT_IDENTITY]


@dataclass(kw_only=True, slots=True)
class DeviceState:
    """What an app keeps between reports, and never sends: the day, and the answers given on it.

    >>> DeviceState(device_file="9f0c", period="2026-11-16", answers={4: 7}).to_dict()
    {'artefact': '9f0c', 'period': '2026-11-16', 'answers': {'4': 7}}
    """

    device_file: str
    period: str = ""
    answers: dict[int, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Give the state as JSON-able facts; device.js writes the same."""
        return {
            "artefact": self.device_file,
            "period": self.period,
            "answers": {str(cell): report for cell, report in self.answers.items()},
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> DeviceState:
        """Read what `to_dict` gave; anything else is refused, since a lost state would give the budget anew."""
        try:
            answers = {int(cell): int(report) for cell, report in facts["answers"].items()}
            state = cls(device_file=str(facts["artefact"]), period=str(facts["period"]), answers=answers)
            is_sound = state.to_dict() == dict(facts)
        except (KeyError, TypeError, ValueError, AttributeError):
            is_sound = False
        if not is_sound:
            raise ReleaseError("the stored state of the device is damaged; report nothing until the next day")
        return state


@dataclass(kw_only=True, slots=True)
class Device:
    """Reports of one person: at most `fresh_reports` draws a day, and a cell drawn for keeps its answer that day.

    Guarantee: fresh_reports * epsilon per metre for all reports of a day together; a repeated answer tells nothing that
    the first did not, except that the person was in one cell twice. Days add up. Proof: proofs/location-sampling.md
    """

    device_file: DeviceFile
    state: DeviceState

    @classmethod
    def start(cls, device_file: DeviceFile, *, state: Mapping[str, Any] | None = None) -> Device:
        """Begin, or go on from a stored state; a state of another device file is refused."""
        name = short_identity(device_file)
        kept = DeviceState(device_file=name) if state is None else DeviceState.from_dict(state)
        if kept.device_file != name:
            raise ReleaseError(
                "the stored state belongs to another device file ({other}); this one is {name}",
                other=kept.device_file,
                name=name,
            )
        return cls(device_file=device_file, state=kept)

    def report(self, cell: int, *, day: datetime.date | str | None = None, rng: Rng | None = None) -> Report:
        """Give the report for a cell on a day (default: today, UTC); store `state` before sending it.

        Error: BudgetExceeded where the draws of the day are used up; then nothing may be sent for this cell.
        """
        self._begin_day(str(day if day is not None else datetime.datetime.now(datetime.UTC).date()))
        if cell not in self.state.answers:
            most = self.device_file.repeat.fresh_reports
            if len(self.state.answers) >= most:
                raise BudgetExceeded(
                    "the {most} draws of this day are used up; report nothing for a new cell until tomorrow", most=most
                )
            drawn = Sampler(mechanism=self.device_file.mechanism).draw([cell], rng=rng or system_rng())
            self.state.answers[cell] = int(drawn[0])
        return Report(device_file=self.state.device_file, cell=self.state.answers[cell])

    def _begin_day(self, day: str) -> None:
        """Begin a new day, if it is one; a clock that was set back does not bring the budget back."""
        if not _is_day(day):
            raise ReleaseError("the day ({day}) must be written like 2026-11-16", day=day)
        if day > self.state.period:
            self.state.period, self.state.answers = day, {}


def _is_day(text: str) -> bool:
    """Tell whether a text is a day of the calendar: one that is none could be later than every day to come."""
    try:
        return bool(_DAY.fullmatch(text)) and datetime.date.fromisoformat(text) is not None
    except ValueError:
        return False
