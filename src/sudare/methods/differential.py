"""Methods under differential privacy: the parameters of the promise, in pure epsilon or in either currency."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sudare.counts import Counts
from sudare.errors import DomainError, SourceError
from sudare.forms.kinds import ChoiceOf, ExactNumber, NameList
from sudare.methods.base import Method, Payload, Plan
from sudare.methods.parameters import parameter, write_parameters
from sudare.noise import Rng
from sudare.privacy import ConcentratedGuarantee, Guarantee, Neighbours, promise_privacy
from sudare.privacy.currency import read_amount
from sudare.privacy.exact import DELTA_HIGH, DELTA_LOW, EPSILON_HIGH, EPSILON_LOW, RHO_HIGH, RHO_LOW, Number
from sudare.schema import Schema, Unit
from sudare.text import Text, text


@dataclass(frozen=True, kw_only=True)
class EpsilonMethod(Method):
    """A method under differential privacy with one epsilon, made from counts. Gives `split`, `make`, and `name`.

    Guarantee: epsilon-DP for the declared unit and neighbours, if `make` spends no more than the parts of its plan.
    """

    epsilon: Number = parameter(
        text("epsilon of this release, an exact number such as 1/2 or 0.1; smaller protects more"),
        kind=ExactNumber(low=EPSILON_LOW, high=EPSILON_HIGH, example='"1/2"'),
        metavar="NUMBER",
    )
    neighbours: Neighbours | None = parameter(
        text(
            "which tables are neighbours: one person replaced by another, or one person added or removed (default:"
            " as in the ledger, otherwise replace)"
        ),
        kind=ChoiceOf(("replace", "add-remove")),
        default=None,
    )
    by: tuple[str, ...] | None = parameter(
        text("attributes to publish, separated by commas (default: all)"),
        kind=NameList(example='["age", "sex"]'),
        default=None,
        metavar="NAMES",
    )

    def guarantee(self, *, unit: Unit | None = None, neighbours: Neighbours | None = None) -> Guarantee:
        """Tell the promise before any data is opened."""
        relation = self.neighbours or neighbours or "replace"
        return Guarantee(epsilon=Fraction(self.epsilon), neighbours=relation, unit=unit or Unit())

    def describe_error(self, schema: Schema, /, *, neighbours: Neighbours | None = None) -> Text | None:
        """Tell the noise to expect in a line of a plan."""
        error = self.expect(schema, neighbours=neighbours)
        return None if error is None else text("expected error: {words} (standard deviation)", words=error.words)

    def select(self, schema: Schema) -> Schema:
        """Choose the attributes to publish."""
        return schema if self.by is None else schema.select(self.by)

    def entries(self, plan: Plan) -> dict[str, str]:
        """Tell the parameters as the certificate holds them, with the neighbours that the promise is for."""
        return write_parameters(self, {"neighbours": plan.promise.neighbours, **plan.decided})

    def check(self, counts: Counts, plan: Plan) -> None:
        """Refuse counts over other facts than those promised for, before anything is spent."""
        check_facts(counts, plan.facts)

    def draw(self, counts: Counts, *, neighbours: Neighbours | None = None, rng: Rng) -> Any:
        """Do the private step alone: nothing is spent. Audits call it many times."""
        plan = self.plan(counts.schema, neighbours=neighbours)
        self.check(counts, plan)
        return self.make(counts, plan, rng=rng)

    def observe(self, drawn: Any, counts: Counts) -> list[float]:
        """Read off what `draw` gave the numbers that an audit looks at: the first two cells of the counts, the total.

        Here from a table that was drawn, or from a frame of labels with a column `count` or one row a record.
        """
        if isinstance(drawn, Counts):
            cells = [drawn.values[(drawn.codes == cell).all(axis=1)].sum() for cell in counts.codes[:2]]
            return [*map(float, cells), float(drawn.total)]
        return _observe_frames(drawn, counts)


@dataclass(frozen=True, kw_only=True)
class CurrencyMethod(EpsilonMethod):
    """A method under differential privacy that counts in pure epsilon or in rho, as the steward says.

    Exactly one of `epsilon`, `rho`, and `epsilon` with `delta` is given; the last is the largest rho that keeps both.

    Guarantee: epsilon-DP, or rho-zCDP, for the declared unit and neighbours, if `make` spends no more than its parts.
    """

    epsilon: Number | None = parameter(  # type: ignore[assignment]
        text(
            "epsilon of this release, an exact number such as 1/2 or 0.1; smaller protects more. Pure epsilon, unless"
            " delta is given too"
        ),
        kind=ExactNumber(low=EPSILON_LOW, high=EPSILON_HIGH, example='"1/2"'),
        default=None,
        metavar="NUMBER",
    )
    rho: Number | None = parameter(
        text("rho of this release, in place of epsilon: concentrated differential privacy"),
        kind=ExactNumber(low=RHO_LOW, high=RHO_HIGH, example='"1/50"'),
        default=None,
        metavar="NUMBER",
    )
    delta: Number | None = parameter(
        text(
            "with epsilon: count in rho, and keep this epsilon at this delta; with rho: the delta at which the"
            " certificate tells epsilon (default: 1e-9)"
        ),
        kind=ExactNumber(low=DELTA_LOW, high=DELTA_HIGH, example='"1e-9"'),
        default=None,
        metavar="NUMBER",
    )

    def __post_init__(self) -> None:
        Method.__post_init__(self)
        read_amount(epsilon=self.epsilon, rho=self.rho, delta=self.delta)  # refuses none, and more than one

    def guarantee(  # type: ignore[override]
        self, *, unit: Unit | None = None, neighbours: Neighbours | None = None
    ) -> Guarantee | ConcentratedGuarantee:
        """Tell the promise before any data is opened."""
        relation = self.neighbours or neighbours or "replace"
        return promise_privacy(
            epsilon=self.epsilon, rho=self.rho, delta=self.delta, neighbours=relation, unit=unit or Unit()
        )

    @property
    def amount_flags(self) -> str:
        """Write what the promise counts as flags of the command line, for advice."""
        given = {name: getattr(self, name) for name in ("epsilon", "delta", "rho")}
        return " ".join(f"--{name} {value}" for name, value in given.items() if value is not None)


def check_facts(counts: Counts, schema: Schema) -> None:
    """Refuse counts over other facts than those promised for, before anything is spent."""
    declared, counted = schema.without_areas, counts.schema.without_areas  # areas are no part of the cells
    if counted is not declared and counted.fingerprint != declared.fingerprint:
        raise SourceError("the source counts over another schema than it declares; it cannot be trusted")
    if schema.impossible and bool(schema.is_impossible(counts.columns()).any()):
        raise DomainError("rows fall in combinations declared impossible; see `sudare schema check`")


def _observe_frames(payload: Payload, counts: Counts) -> list[float]:
    attributes = counts.schema.attributes
    names = {attribute.name for attribute in attributes}
    frame = next((frame for frame in payload.frames.values() if names <= set(frame.columns)), None)
    if frame is None:
        raise NotImplementedError("no frame has the attributes as columns: give `observe`, which audits look at")
    columns = frame.decode()
    weights = np.asarray(columns.get("count", np.ones(frame.rows)), dtype=np.float64)
    labels = [attribute.labels(counts.columns()[:2, place]) for place, attribute in enumerate(attributes)]
    cells = [
        np.all([columns[one.name] == label[cell] for one, label in zip(attributes, labels, strict=True)], axis=0)
        for cell in range(len(labels[0]))
    ]
    return [*(float(weights[cell].sum()) for cell in cells), float(weights.sum())]
