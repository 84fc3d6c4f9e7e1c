"""One person's reports on one device: lasting answers for places, budgets, zones, and caps that the app sets.

The rule stands in the device file (RepeatUse). It turns the cells that the device measures into places without any
randomness, and every place is drawn once:

    a cell in a zone            is the place in the middle of the zone, or gives no report (a silent zone)
    a cell near a known place   (within_metres) is that place: its answer is given again, which costs nothing
    any other cell              is a new place once it was measured `dwell` times in a row, if the budgets last

With daily answers a place is one cell and its answer is forgotten at local midnight. Proof: proofs/location-months.md.
device.js keeps the same rule and the same state.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from sudare.errors import BudgetExceeded, ParameterError, ReleaseError
from sudare.methods.location.device_file import MAX_WITHIN_METRES, DeviceFile, RepeatUse, hash_facts
from sudare.methods.location.grid import Places
from sudare.methods.location.sampler import Sampler
from sudare.noise.rng import Rng, system_rng
from sudare.privacy.exact import Number, exact
from sudare.privacy.promise import exact_epsilon_per_metre

SHORT_IDENTITY = 16  # characters of the hash of a device file that a report carries: 64 bits tell maps apart
STATE = 2  # the version of the stored state
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What leaves the device: the short identity of the device file it was drawn with, and a cell.

    In files the identity is called `artefact`, its name in the first version of the format. A report that was drawn
    from a seed protects nobody and says so.

    >>> Report(device_file="9f0c", cell=3).to_dict()
    {'artefact': '9f0c', 'cell': 3}
    """

    device_file: str
    cell: int
    is_seeded: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Give the report as JSON-able facts."""
        stamp = {"seeded_for_tests": True} if self.is_seeded else {}
        return {"artefact": self.device_file, "cell": self.cell, **stamp}


def short_identity(device_file: DeviceFile) -> str:
    """Give the name of a device file that reports carry: the first 16 characters of its hash."""
    return device_file.identity[:SHORT_IDENTITY]


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceCaps:
    """What an app allows a device file, whoever wrote it; None sets no cap.

    >>> DeviceCaps(epsilon_per_metre="0.01", reports_per_day=1).epsilon_per_metre
    Fraction(1, 100)
    """

    epsilon_per_metre: Number | None = None
    reports_per_day: int | None = None
    reports_per_month: int | None = None
    reports_per_life: int | None = None

    def __post_init__(self) -> None:
        if self.epsilon_per_metre is not None:
            object.__setattr__(self, "epsilon_per_metre", exact_epsilon_per_metre(self.epsilon_per_metre))
        for name in ("reports_per_day", "reports_per_month", "reports_per_life"):
            count = getattr(self, name)
            if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 0):
                raise ParameterError("{name} ({value}) must be a whole number of at least 0", name=name, value=count)

    def check(self, device_file: DeviceFile) -> None:
        """Refuse a device file that promises less than the app demands."""
        cap = self.epsilon_per_metre
        if cap is not None and device_file.epsilon_per_metre > Fraction(cap):
            raise ReleaseError(
                "the device file promises epsilon {promised} per metre, and this app allows at most {cap}; report"
                " nothing with it",
                promised=device_file.epsilon_per_metre,
                cap=cap,
            )

    def limits(self, repeat: RepeatUse) -> dict[str, int | None]:
        """Give the draws of a day, a month and a life: the smaller of the file's and the app's."""
        pairs = {
            "day": (repeat.fresh_reports, self.reports_per_day),
            "month": (repeat.month, self.reports_per_month),
            "life": (repeat.life, self.reports_per_life),
        }
        known = {name: [count for count in pair if count is not None] for name, pair in pairs.items()}
        return {name: min(counts) if counts else None for name, counts in known.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Zone:
    """A circle around home or work, by its cell: all of it is one place, or gives no report if it is silent."""

    cell: int
    metres: int
    is_silent: bool = False

    def __post_init__(self) -> None:
        exact(self.metres, name="metres", low=Fraction(0), high=Fraction(MAX_WITHIN_METRES))
        if isinstance(self.metres, bool) or not isinstance(self.metres, int):  # device.js reads whole numbers only
            facts = {"name": "metres", "value": self.metres}
            raise ParameterError("{name} ({value}) must be a whole number of at least 0", **facts)


@dataclass(kw_only=True, slots=True)
class DeviceState:
    """What an app keeps between reports, and never sends: the day, the draws so far, the answers and the zones.

    `answers` lists (cell, report) in the order of drawing. The seal is a hash of the rest: a state that was damaged, or
    written by halves, is refused, since a lost state would give the budget anew. It does not stop the owner.

    >>> DeviceState(device_file="9f0c", day="2026-11-16", answers=[(4, 7)]).to_dict()["answers"]
    [[4, 7]]
    """

    device_file: str
    day: str = ""
    drawn: dict[str, int] = field(default_factory=lambda: {"day": 0, "month": 0, "life": 0})
    answers: list[tuple[int, int]] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    zones: list[Zone] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Give the state as JSON-able facts; device.js writes the same."""
        facts: dict[str, Any] = {
            "artefact": self.device_file,
            "state": STATE,
            "day": self.day,
            "drawn": dict(self.drawn),
            "answers": [list(answer) for answer in self.answers],
            "waiting": list(self.waiting),
            "zones": [[zone.cell, zone.metres, int(zone.is_silent)] for zone in self.zones],
        }
        return {**facts, "seal": hash_facts(facts)}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> DeviceState:
        """Read what `to_dict` gave, or a state of the first version; anything else is refused."""
        try:
            state = cls._read_first(facts) if "period" in facts else cls._read(facts)
        except (KeyError, TypeError, ValueError, AttributeError, ParameterError):
            state = None
        if state is None or not (state.day == "" or _is_day(state.day)):
            raise ReleaseError("the stored state of the device is damaged; report nothing until the next day")
        return state

    @classmethod
    def _read(cls, facts: Mapping[str, Any]) -> DeviceState | None:
        state = cls(
            device_file=str(facts["artefact"]),
            day=str(facts["day"]),
            drawn={name: int(facts["drawn"][name]) for name in ("day", "month", "life")},
            answers=[(int(cell), int(report)) for cell, report in facts["answers"]],
            waiting=[int(cell) for cell in facts["waiting"]],
            zones=[Zone(cell=int(cell), metres=metres, is_silent=bool(flag)) for cell, metres, flag in facts["zones"]],
        )
        return state if state.to_dict() == dict(facts) and min(state.drawn.values()) >= 0 else None

    @classmethod
    def _read_first(cls, facts: Mapping[str, Any]) -> DeviceState | None:
        """Read the state of the first version: artefact, period, answers of that day."""
        answers = [(int(cell), int(report)) for cell, report in facts["answers"].items()]
        if set(facts) != {"artefact", "period", "answers"}:
            return None
        drawn = dict.fromkeys(("day", "month", "life"), len(answers))
        return cls(device_file=str(facts["artefact"]), day=str(facts["period"]), drawn=drawn, answers=answers)


@dataclass(kw_only=True, slots=True)
class Device:
    """Reports of one person, by the rule of the device file and within the caps of the app.

    Guarantee: for two lives that the rule turns into the same pattern of places, every sequence of reports differs in
    probability by a factor of at most exp(epsilon * sum of d(place, other place)) over all places ever drawn. If the
    home alone is moved by d metres that is exp(epsilon d), for ever. With daily answers every day draws anew and days
    add up. The pattern (how many places, when again at the same one) is not hidden. Proof: proofs/location-months.md
    """

    device_file: DeviceFile
    state: DeviceState
    caps: DeviceCaps = field(default_factory=DeviceCaps)

    @classmethod
    def start(
        cls, device_file: DeviceFile, *, state: Mapping[str, Any] | None = None, caps: DeviceCaps | None = None
    ) -> Device:
        """Begin, or go on from a stored state; a state of another device file is refused."""
        name = short_identity(device_file)
        kept = DeviceState(device_file=name) if state is None else DeviceState.from_dict(state)
        if kept.device_file != name:
            raise ReleaseError(
                "the stored state belongs to another device file ({other}); this one is {name}",
                other=kept.device_file,
                name=name,
            )
        allowed = caps or DeviceCaps()
        allowed.check(device_file)
        return cls(device_file=device_file, state=kept, caps=allowed)

    def add_zone(self, cell: int, *, metres: int, silent: bool = False) -> None:
        """Declare a zone, around home or work; store `state` afterwards. A silence tells that the person is in one."""
        Sampler(mechanism=self.device_file.mechanism).check_cells([cell])
        self.state.zones.append(Zone(cell=int(cell), metres=metres, is_silent=silent))

    def report(self, cell: int, *, day: datetime.date | str | None = None, rng: Rng | None = None) -> Report | None:
        """Give the report for a cell on a day (default: today, local time); store `state` before sending it.

        None: nothing is to be sent, since the person is in a silent zone or has not stayed long enough for a place.
        Error: BudgetExceeded where the draws are used up; then nothing may be sent for a new place.
        """
        self._begin_day(str(day if day is not None else datetime.datetime.now().astimezone().date()))
        Sampler(mechanism=self.device_file.mechanism).check_cells([cell])
        zone = self._find_zone(cell)
        if zone is not None and zone.is_silent:
            return None
        place = zone.cell if zone is not None else cell
        known = self._find_answer(place)
        if known is not None:
            self.state.waiting = []
            return Report(device_file=self.state.device_file, cell=known)
        if zone is None:
            settled = self._wait(cell)
            if settled is None:
                return None
            place = settled
        return Report(device_file=self.state.device_file, cell=self._draw(place, rng))

    def _find_zone(self, cell: int) -> Zone | None:
        inside = [zone for zone in self.state.zones if is_within(self._places, cell, zone.cell, Fraction(zone.metres))]
        return inside[0] if inside else None

    def _find_answer(self, cell: int) -> int | None:
        """Give the answer of the nearest known place that reaches this cell; the oldest of equally near ones."""
        within = Fraction(self.device_file.repeat.within_metres)
        squares = self._places.squares(cell) if self.state.answers else None
        near = [
            (int(squares[place]), number)
            for number, (place, _) in enumerate(self.state.answers)
            if squares is not None and _reaches(int(squares[place]), self._places.unit_metres, within)
        ]
        return self.state.answers[min(near)[1]][1] if near else None

    def _wait(self, cell: int) -> int | None:
        """Count fixes in a row; give the middle one of them when there are enough."""
        repeat, waiting = self.device_file.repeat, self.state.waiting
        if waiting and not is_within(self._places, cell, waiting[0], Fraction(repeat.within_metres)):
            waiting = []
        self.state.waiting = waiting = [*waiting, int(cell)][-repeat.dwell :]
        if len(waiting) < repeat.dwell:
            return None
        return find_middle(self._places, waiting)

    def _draw(self, place: int, rng: Rng | None) -> int:
        limits = self.caps.limits(self.device_file.repeat)
        for period, most in limits.items():
            if most is not None and self.state.drawn[period] >= most:
                raise _used_up(period, most)
        drawn = int(Sampler(mechanism=self.device_file.mechanism).draw([place], rng=rng or system_rng())[0])
        self.state.answers.append((int(place), drawn))
        self.state.waiting = []
        for period in self.state.drawn:
            self.state.drawn[period] += 1
        return drawn

    def _begin_day(self, day: str) -> None:
        """Begin a new day or month, if it is one; a clock that was set back does not bring a budget back."""
        if not _is_day(day):
            raise ReleaseError("the day ({day}) must be a day of the calendar, written like 2026-11-16", day=day)
        if day <= self.state.day:
            return
        if day[:7] > self.state.day[:7]:
            self.state.drawn["month"] = 0
        self.state.drawn["day"] = 0
        self.state.day = day
        if self.device_file.repeat.answers == "daily":
            self.state.answers = []

    @property
    def _places(self) -> Places:
        return self.device_file.mechanism.places


def _used_up(period: str, most: int) -> BudgetExceeded:
    if period == "day":
        return BudgetExceeded(
            "the {most} draws of this day are used up; report nothing for a new cell until tomorrow", most=most
        )
    if period == "month":
        return BudgetExceeded(
            "the {most} draws of this month are used up; report nothing for a new place until the next month", most=most
        )
    return BudgetExceeded("the {most} draws of this device are used up for ever; report known places only", most=most)


def is_within(places: Places, cell: int, other: int, metres: Fraction) -> bool:
    """Tell whether two cells are at most so many metres apart, exactly."""
    return cell == other or _reaches(int(places.squares(cell)[other]), places.unit_metres, metres)


def _reaches(square: int, unit: Fraction, metres: Fraction) -> bool:
    return square * unit * unit <= metres * metres


def find_middle(places: Places, cells: Sequence[int]) -> int:
    """Find the cell whose farthest other one is nearest; of equals the first.

    >>> from sudare.methods.location.grid import PlaneGrid
    >>> find_middle(PlaneGrid(rows=1, columns=9, cell_height_metres=9, cell_width_metres=9), [7, 3, 4])
    4
    """
    farthest = [max(int(places.squares(cell)[other]) for other in cells) for cell in cells]
    return int(cells[farthest.index(min(farthest))])


def _is_day(text: str) -> bool:
    """Tell whether a text is a day of the calendar: one that is none could be later than every day to come."""
    try:
        return bool(_DAY.fullmatch(text)) and datetime.date.fromisoformat(text) is not None
    except ValueError:
        return False
