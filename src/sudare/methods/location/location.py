"""A mechanism for devices: its parameters, and how a map becomes a release."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from sudare.errors import ParameterError
from sudare.forms.kinds import ChoiceOf, ExactNumber, WholeNumber
from sudare.methods.base import Expected, Made, Method, Payload, Plan, Progress, Summary
from sudare.methods.certify import to_plain
from sudare.methods.figures import write_figure
from sudare.methods.location.capped import build_capped_mechanism, is_capped
from sudare.methods.location.capped_large import MAX_PLANE_CELLS
from sudare.methods.location.device_file import (
    DEVICE_FILE,
    MAX_DRAWS,
    MAX_DWELL,
    MAX_FRESH_REPORTS,
    MAX_WITHIN_METRES,
    Answers,
    DeviceFile,
    RepeatUse,
    load_device_file,
)
from sudare.methods.location.effort import estimate_seconds, tell_effort
from sudare.methods.location.grid import Places, PlaneGrid
from sudare.methods.location.hidden import HiddenMechanism, measure_told
from sudare.methods.location.kernel import MAX_DENSE_CELLS
from sudare.methods.location.map_file import Inputs, Map, read_map
from sudare.methods.location.mechanism import Mechanism
from sudare.methods.location.metric import check_metric
from sudare.methods.location.near import MAX_NEAR_CELLS, MAX_NEAR_PAIRS, build_near_mechanism
from sudare.methods.location.nearby import MAX_PAIRS, require_few_pairs
from sudare.methods.location.posterior import PosteriorModel, share_prior
from sudare.methods.location.preview import LocationPreview, make_cell_table, preview_mechanism, require_kept
from sudare.methods.location.weights import Mode, Slack, build_mechanism, build_sharp_for_inputs
from sudare.methods.parameters import parameter, write_parameters
from sudare.methods.registry import summary_of
from sudare.noise import Rng
from sudare.postprocess.threads import on_one_thread
from sudare.privacy import Neighbours
from sudare.privacy.exact import Number
from sudare.privacy.promise import EPSILON_PER_METRE_HIGH, EPSILON_PER_METRE_LOW, MetricGuarantee
from sudare.releases import Certificate, Release
from sudare.releases.claims import CheckedClaim
from sudare.report.shapes import Listing, ReportPage, TruthComparison
from sudare.schema import Unit
from sudare.schema.arrays import Booleans, Reals
from sudare.text import Text, Words, join_clauses, text

MONTH_LASTING, LIFE_LASTING = 10, 30  # new places in a month and for ever, for each a day
MONTH_DAILY = 31  # draws in a month, for each a day
MOST_OVER_PRIOR, LARGE_PRIOR = 1.3, 0.2  # greatest posterior over the greatest prior; a prior that is told as a limit


# --- the method ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Location(Method):
    """Make the mechanism by which a device reports a cell of a map instead of the true one.

    mode "grid" gives every cell the same weight (GridE), "weighted" takes the given weights (WGridE), "fair" finds
    weights under which people at edges are found out no more often than others, "sharp" finds those with the least
    noise. With a prior "fair" caps the posterior of busy places instead (on a plane up to 20,000 cells), and
    "near" brings reports as near to people spread like the prior as epsilon allows. A cell of weight 0 is never
    reported, in any mode. The map goes to `preview` and `publish`, or its parts (`grid`, `weights`, `prior`, `inputs`)
    are given here.

    Guarantee: epsilon per metre for one report: P[y|x] <= exp(epsilon d(x,x')) P[y|x']. Proof: proofs/location.md
    Error: the certificate tells the expected distance between report and truth.
    Source: Hiraishi, Yoshikawa, Cao, Fujita, Gomi, sections 4 and 5.

    >>> from sudare.methods.location.grid import PlaneGrid
    >>> grid = PlaneGrid(rows=15, columns=15, cell_height_metres="115.6", cell_width_metres="141.5")
    >>> preview = Location(grid=grid, epsilon_per_metre="0.02", mode="sharp").preview()
    >>> round(preview.figures["expected_distance_metres"], 1)
    46.9
    """

    name: ClassVar[str] = "location"
    summary: ClassVar[Text] = summary_of("location")
    title: ClassVar[Text] = text("A mechanism for devices (location), epsilon per metre")
    publish_help: ClassVar[Text] = text("Publish the mechanism by which devices report a cell of MAP.")
    preview_help: ClassVar[Text] = text(
        "Show the certified epsilon, the posteriors and the expected distance of a map."
    )
    takes = "map"

    epsilon_per_metre: Number = parameter(
        text("epsilon of one report per metre, exact: 0.02 or 1/50; a smaller value protects more"),
        kind=ExactNumber(low=EPSILON_PER_METRE_LOW, high=EPSILON_PER_METRE_HIGH, example='"0.02"'),
        metavar="NUMBER",
    )
    mode: Mode = parameter(
        text(
            "weights of the cells: equal (grid), those of the map (weighted), fair at edges (fair), with the least"
            " noise (sharp), or hidden reports that come nearest to people spread like the prior of the map (near)"
        ),
        default="grid",
    )
    slack: Slack | None = parameter(
        text(
            "what to do with epsilon that the map does not need: show it in the certificate (epsilon), or use"
            " it for less noise (noise, the default of sharp)"
        ),
        default=None,
    )
    extra_distance: Number = parameter(
        text("mode fair: the share by which reports may be farther from the true place, such as 1/10"),
        kind=ExactNumber(low=0, high=10, example='"1/10"'),
        default=Fraction(1, 10),
        used_with={"mode": ("fair",)},
    )
    posterior_model: PosteriorModel = parameter(
        text("how people are assumed to be spread, for the posteriors in the certificate"), default="uniform"
    )
    reports_per_day: int = parameter(
        text("how many fresh reports a device may draw in a day"),
        kind=WholeNumber(low=1, high=MAX_FRESH_REPORTS, example="1"),
        default=1,
    )
    answers: Answers = parameter(
        text(
            "how long an answer holds: lasting (a place is drawn once and keeps its answer) or daily (every day draws"
            " anew, and a home is found after some weeks)"
        ),
        default="lasting",
    )
    within_metres: Number = parameter(
        text("answers lasting: a cell so near to a known place counts as that place, in metres"),
        kind=ExactNumber(low=0, high=MAX_WITHIN_METRES, example='"300"'),
        default=300,
        used_with={"answers": ("lasting",)},
    )
    dwell: int = parameter(
        text("answers lasting: how many fixes in a row make a new place; 3 for an app that measures all day"),
        kind=WholeNumber(low=1, high=MAX_DWELL, example="3"),
        default=1,
        used_with={"answers": ("lasting",)},
    )
    reports_per_month: int | None = parameter(
        text("how many fresh reports a device may draw in a month (default: 10 times those of a day, daily 31 times)"),
        kind=WholeNumber(low=1, high=MAX_DRAWS, example="10"),
        default=None,
    )
    reports_per_life: int | None = parameter(
        text("how many fresh reports a device may draw for ever (default: 30 times those of a day; daily: no limit)"),
        kind=WholeNumber(low=1, high=MAX_DRAWS, example="30"),
        default=None,
    )
    # The map, where it is given with the parameters.
    grid: Places | None = None
    weights: Reals | None = None  # in [0, 1], one per cell: the share of it where a person can be
    prior: Reals | None = None  # how many people are where, for the measures; even by default
    inputs: Inputs = "reportable"  # "all": people can also be where nothing is reported

    def __post_init__(self) -> None:
        Method.__post_init__(self)
        object.__setattr__(self, "inputs", ChoiceOf(("reportable", "all")).check("inputs", self.inputs))
        if self.grid is None:
            return
        if self.weights is not None:
            object.__setattr__(self, "weights", _check_weights(self.weights, self.grid.size))
        elif self.mode == "weighted":
            raise ParameterError("mode weighted needs weights; give them in the map file or use mode grid")

    # --- the map ----------------------------------------------------------------------------------------------------

    @classmethod
    def read_facts(cls, path: str | Path) -> Map:
        """Read a map file."""
        return read_map(path)

    @classmethod
    def of_map(cls, path: str | Path, **parameters: Any) -> Location:
        """Read a map file, and take the other parameters as given."""
        return cls(**parameters).on(read_map(path))

    def on(self, map: Map | None) -> Location:
        """Give the same method with its map."""
        if map is not None:
            return replace(self, grid=map.places, weights=map.weights, inputs=map.inputs, prior=map.prior)
        if self.grid is None:
            raise ParameterError("a mechanism needs a map; give one that `sudare.read_map` read, or a grid")
        return self

    @property
    def places(self) -> Places:
        """The cells of the map."""
        return self.on(None).grid  # type: ignore[return-value]

    # --- before the devices -----------------------------------------------------------------------------------------

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> MetricGuarantee:
        """Tell the promise before anything is built; without a map, for the straight distance."""
        metric = "plane" if self.grid is None else self.grid.to_dict()["kind"]
        epsilon = Fraction(self.epsilon_per_metre)
        return MetricGuarantee(epsilon_per_metre=epsilon, metric=metric, reports_per_day=self.reports_per_day)

    def promise(self, map: Map | None = None, /, *, neighbours: Neighbours | None = None) -> MetricGuarantee:
        """Tell the promise for a map."""
        return self.on(map).guarantee()

    def plan(self, map: Map | None = None, /, *, neighbours: Neighbours | None = None) -> Plan:
        """Take the map; a map is public, so nothing is spent."""
        bound = self.on(map)
        decided = {
            "grid": bound.places.to_dict()["kind"],
            "cells": bound.places.size,
            "slack": bound._slack,
            "inputs": bound.inputs,
            "prior": "even" if bound.prior is None else "given",
        }
        return Plan(promise=bound.guarantee(), decided=decided, steps=bound)

    def preview(
        self,
        map: Map | None = None,
        /,
        *,
        rows: int | tuple[int, ...] = (),
        neighbours: Neighbours | None = None,
        progress: Progress | None = None,
    ) -> LocationPreview:
        """Tell the certified epsilon, posteriors and expected distance; nothing is spent, since no table is used."""
        bound = self.on(map)
        measured = bound.measure(bound.mechanism(progress=progress))
        require_kept(measured)
        return measured

    def announce(self, map: Map | None = None, /) -> Text | None:
        """Tell that making the map takes a minute or more; what would take hours is refused."""
        bound = self.on(map)
        bound._require_capped()
        bound._require_size()
        return tell_effort(estimate_seconds(bound))

    def explain(self, preview: LocationPreview) -> list[Words | Listing]:
        """Tell a preview in lines, with its warnings."""
        return [*preview.lines(), *(text("warning: {warning}", warning=warning) for warning in preview.warnings)]

    def preview_entries(self, preview: LocationPreview) -> dict[str, Any]:
        """Give a preview as plain values."""
        return preview.to_dict()

    def expect(
        self, map: Map | None = None, /, *, rows: int | None = None, neighbours: Neighbours | None = None
    ) -> Expected:
        """Tell how far a report is from the truth and what it gives away; not small if it looks like a mistake."""
        preview = self.preview(map)
        words = text(
            "a report is {metres} m from the truth on average; a collector can be {share} sure that the reported"
            " cell is the true one",
            metres=write_figure(preview.figures["expected_distance_metres"]),
            share=f"{preview.figures['posterior_median']:.0%}",
        )
        return Expected(
            words=join_clauses([words, *preview.warnings]),
            figures={**preview.to_dict(), "across_metres": preview.across_metres},
            is_small=not preview.warnings,
        )

    @on_one_thread
    def mechanism(self, *, progress: Progress | None = None) -> Mechanism | HiddenMechanism:
        """Build the mechanism: weights of the mode, beta, both exact; the map proves its metric first."""
        self._require_capped()
        self._require_size()
        check_metric(self.places)
        reportable = self._reportable
        inputs = np.ones_like(reportable) if self.inputs == "all" else reportable
        if self.mode == "near":
            people = share_prior(inputs, self.prior)
            epsilon = Fraction(self.epsilon_per_metre)
            return build_near_mechanism(self.places, epsilon, people=people, cells=reportable, inputs=inputs)
        if self.mode == "fair" and self.prior is not None:
            return build_capped_mechanism(
                self.places,
                Fraction(self.epsilon_per_metre),
                people=share_prior(inputs, self.prior),
                cells=reportable,
                inputs=inputs,
                extra_distance=float(self.extra_distance),
                progress=progress,
            )
        return build_mechanism(
            self.places,
            Fraction(self.epsilon_per_metre),
            mode=self.mode,
            slack=self._slack,
            weights=self.weights,
            inputs=inputs,
            extra_distance=float(self.extra_distance),
            progress=progress,
        )

    def _require_capped(self) -> None:
        """Refuse mode fair with a prior on a map too large for a cap, before any work."""
        if self.mode == "fair" and self.prior is not None and not is_capped(self.places):
            raise ParameterError(
                "mode fair with a prior needs a plane map of at most {most} cells, not {cells}; use larger cells, leave"
                " the prior out to even out edges only, or take mode near",
                most=MAX_PLANE_CELLS,
                cells=self.places.size,
            )

    def _require_size(self) -> None:
        """Refuse a map that would take more than some minutes, before any work."""
        is_near = self.mode == "near"
        if isinstance(self.places, PlaneGrid):
            if is_near and self.places.size > MAX_NEAR_CELLS:
                raise ParameterError(
                    "mode near needs a map of at most {most} cells, not {cells}; use larger cells, or take mode sharp",
                    most=MAX_NEAR_CELLS,
                    cells=self.places.size,
                )
        elif self.places.size > MAX_DENSE_CELLS:
            beta = float(Fraction(self.epsilon_per_metre)) / 2  # or more, where the certificate allows it
            require_few_pairs(self.places, beta, MAX_NEAR_PAIRS if is_near else MAX_PAIRS)

    # --- the release ------------------------------------------------------------------------------------------------

    def make(self, counts: None, plan: Plan, *, rng: Rng) -> Payload:
        """Build and measure: `mechanism.json` for devices, a table of cells for people. Nothing is drawn here."""
        bound: Location = plan.steps
        mechanism = bound.mechanism(progress=plan.progress)
        measured = bound.measure(mechanism)
        require_kept(measured)
        device_file = DeviceFile(
            mechanism=mechanism,
            epsilon_per_metre=measured.epsilon_per_metre,
            tight_epsilon_per_metre=measured.tight.epsilon,
            repeat=self.repeat_use,
        )
        decided = {**plan.decided, "beta_per_metre": mechanism.beta_per_metre, "id": device_file.identity}
        return Payload(
            frames={"weights": make_cell_table(mechanism, model=self.posterior_model, prior=bound.prior)},
            files={DEVICE_FILE: device_file.write},
            measures=measured.measures(),
            plan=replace(plan, expected_error=measured.measures(), decided=decided),
            steward=measured,
        )

    def entries(self, plan: Plan) -> dict[str, str]:
        """Tell the map first, then the parameters."""
        return {name: str(plan.decided[name]) for name in ("grid", "cells")} | write_parameters(self, plan.decided)

    def summarise(self, made: Made, *, out: Path) -> Summary:
        """Tell for how many cells, and what was certified."""
        measured: LocationPreview = made.payload.steward
        headline = text(
            "a mechanism for {cells} cells published in {out}; devices read {file}",
            cells=measured.reportable,
            out=out,
            file=DEVICE_FILE,
        )
        return Summary(headline=headline, rows=measured.cells, lines=measured.lines(), warnings=measured.warnings)

    def differences(self, certificate: Certificate, plan: Plan, *, place: Path) -> list[Text]:
        """Tell in what a finished release differs; if in nothing else, whether it is for another map."""
        differences = Method.differences(self, _fill_first_version(certificate, plan, self), plan, place=place)
        if differences:
            return differences
        bound: Location = plan.steps
        built = load_device_file(place).mechanism
        is_same = to_plain(built.places.to_dict()) == to_plain(bound.places.to_dict())
        is_told = built.weights > 0
        if self.mode == "fair" and bound.prior is not None and isinstance(built, Mechanism):
            is_told |= bound._reportable  # a cap leaves reports out
        if is_same and bool((is_told == bound._reportable).all()):
            return []
        return [text("the map differs")]

    @classmethod
    def page(
        cls, release: Release, *, directory: Path | None = None, truth: TruthComparison | None = None
    ) -> ReportPage:
        """Describe a mechanism cell by cell."""
        from sudare.methods.location.page import describe_page

        return describe_page(release, title=cls.title, directory=directory)

    @classmethod
    def recheck(cls, certificate: Certificate, directory: Path) -> list[CheckedClaim]:
        """Certify the law in the device file again, with all its figures."""
        from sudare.methods.location.recheck import recheck_device_file

        return recheck_device_file(cls, certificate, directory)

    def measure(self, mechanism: Mechanism | HiddenMechanism, *, repeat: RepeatUse | None = None) -> LocationPreview:
        """Measure a mechanism by these parameters; `repeat` is the rule of its device file, if it has one already."""
        epsilon, rule = Fraction(self.epsilon_per_metre), repeat or self.repeat_use
        measured = preview_mechanism(mechanism, epsilon, model=self.posterior_model, prior=self.prior, repeat=rule)
        if self.mode != "fair" or self.prior is None:
            return measured
        if isinstance(mechanism, Mechanism) and mechanism.told is None:
            return measured  # of the first version, which knew no cap
        return self._tell_price(measured, share_prior(mechanism.can_enter, self.prior), mechanism)

    def _tell_price(
        self, measured: LocationPreview, people: Reals, capped: Mechanism | HiddenMechanism
    ) -> LocationPreview:
        """Tell what the cap on posteriors costs, and where the prior itself is the limit."""
        cells, inputs = self._reportable, capped.can_enter
        sharp = build_sharp_for_inputs(self.places, Fraction(self.epsilon_per_metre), cells=cells, inputs=inputs)
        free = measure_told(sharp, people)
        price = text(
            "what the cap on posteriors costs: reports are {metres} m from the truth; in mode sharp {other} m, with a"
            " greatest posterior of {posterior}",
            metres=f"{measured.figures['expected_distance_metres']:.1f}",
            other=f"{free.expected_distance:.1f}",
            posterior=f"{float(free.largest_posterior.max()):.3f}",
        )
        most, posterior = float(people.max()), measured.figures["posterior_max"]
        if posterior > MOST_OVER_PRIOR * most and most < LARGE_PRIOR:
            return replace(measured, remarks=(price,))
        limit = text(
            "by the prior one cell holds {share} of all people, and no mechanism can make anybody less sure of it than"
            " that: the greatest posterior cannot be below {share}, and here it is {posterior}",
            share=f"{most:.3f}",
            posterior=f"{posterior:.3f}",
        )
        return replace(measured, remarks=(price,), notes=(limit,))

    @property
    def _reportable(self) -> Booleans:
        """The cells that the map allows to be reported."""
        return np.ones(self.places.size, dtype=np.bool_) if self.weights is None else self.weights > 0

    @property
    def repeat_use(self) -> RepeatUse:
        """The rule of repeat use that the device file carries."""
        is_lasting, day = self.answers == "lasting", self.reports_per_day
        return RepeatUse(
            fresh_reports=day,
            month=self.reports_per_month or day * (MONTH_LASTING if is_lasting else MONTH_DAILY),
            life=self.reports_per_life or (day * LIFE_LASTING if is_lasting else None),
            answers=self.answers,
            within_metres=Fraction(self.within_metres) if is_lasting else Fraction(0),
            dwell=self.dwell if is_lasting else 1,
        )

    @property
    def _slack(self) -> Literal["epsilon", "noise"]:
        return self.slack or ("noise" if self.mode in ("sharp", "near") else "epsilon")


REPEAT_PARAMETERS = ("answers", "within_metres", "dwell", "reports_per_month", "reports_per_life")


def _fill_first_version(certificate: Certificate, plan: Plan, method: Location) -> Certificate:
    """Take what the first version did not know (the rule of lasting answers) as it is now: its releases hold."""
    if "answers" in certificate.parameters:
        return certificate
    now = write_parameters(method, plan.decided)
    known = {name: now[name] for name in REPEAT_PARAMETERS if name in now}
    return replace(certificate, parameters={**known, **certificate.parameters})


def _check_weights(weights: Reals, size: int) -> Reals:
    given = np.asarray(weights, dtype=np.float64).reshape(-1)
    if given.shape != (size,):
        raise ParameterError(
            "there must be one weight for each of the {cells} cells, not {found}", found=given.size, cells=size
        )
    if not np.isfinite(given).all() or given.min() < 0 or given.max() > 1:
        raise ParameterError("weights must be between 0 and 1: the share of the cell where a person can be")
    if not given.any():
        raise ParameterError("all weights are 0: no cell could be reported; give one cell a weight above 0")
    return given
