"""When devices report places to somebody they do not trust: a mechanism for a map."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from sudare.messages import say
from sudare.methods.location import Location, Preview
from sudare.privacy.metric import exact_epsilon_per_metre
from sudare.run.choose import Advice, Answers, Choice
from sudare.run.choose_error import Expected, joined, number

EPSILONS = ("0.005", "0.02", "0.05")
NEAR = 0.05  # of the way across the map: a report that is off by no more tells where somebody is, roughly


def advise_places(map_file: Path, answers: Answers) -> Advice:
    """Recommend a mode and an epsilon per metre for a map."""
    epsilons = [exact_epsilon_per_metre(one) for one in answers.epsilons or EPSILONS]
    told = [(one, _preview(map_file, one)) for one in epsilons]
    epsilon = _epsilon(told)
    first = told[0][1]
    return Advice(
        choice=Choice(publish="location", parameters={"epsilon_per_metre": str(epsilon), "mode": "sharp"}),
        runner_up=Choice(publish="location", parameters={"epsilon_per_metre": str(epsilon), "mode": "fair"}),
        runner_up_if=say("if people at edges, on coasts and islands, must be found out no more often than others"),
        why=(
            say("nobody who is trusted holds the true places, so each device draws the noise itself."),
            say("mode sharp: of all modes it has the least noise for the same promise on this map."),
        ),
        lost=(
            say("single places: a report is a cell near the true one. Counts over many reports can be estimated."),
            say("reports of one person add up: the promise is for one report."),
        ),
        notes=(
            say("the map has {cells} cells, {reportable} of which can be reported", cells=number(first.cells),
                reportable=number(first.reportable)),
            say("if an office may hold the true places, a table by mesh tells far more: choose with a schema instead"),
        ),
        expected=tuple((str(one), _expected(preview)) for one, preview in told),
        name="epsilon_per_metre",
    )  # fmt: skip


def _preview(map_file: Path, epsilon: Fraction) -> Preview:
    return Location.of_map(map_file, epsilon_per_metre=epsilon, mode="sharp").preview()


def _epsilon(told: list[tuple[Fraction, Preview]]) -> Fraction:
    """The smallest epsilon whose reports are near; else the largest that still hides somebody."""
    ordered = sorted(told, key=lambda one: one[0])
    sound = [one for one in ordered if not one[1].warnings] or ordered
    near = [one for one in sound if one[1].figures["expected_distance_metres"] <= NEAR * one[1].across_metres]
    return near[0][0] if near else sound[-1][0]


def _expected(told: Preview) -> Expected:
    words = say(
        "a report is {metres} m from the truth in the mean; a collector can be {share} sure of the reported cell",
        metres=number(told.figures["expected_distance_metres"]),
        share=f"{told.figures['posterior_median']:.0%}",
    )
    return Expected(words=joined(words, *told.warnings), figures=told.to_dict(), is_small=not told.warnings)
