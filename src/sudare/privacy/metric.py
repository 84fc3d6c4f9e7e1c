"""The promise of a location mechanism: epsilon per metre, for one report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sudare.errors import ParameterError
from sudare.messages import say
from sudare.privacy.exact import Number, exact

LOW, HIGH = Fraction(1, 10**9), Fraction(10)
METRICS = ("plane", "points", "graph", "elastic")


def exact_epsilon_per_metre(value: Number) -> Fraction:
    """Read an epsilon per metre, between 1e-9 (a country is one blur) and 10 (a step outside shows).

    >>> exact_epsilon_per_metre("0.02")
    Fraction(1, 50)
    """
    return exact(value, name="epsilon_per_metre", low=LOW, high=HIGH)


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricGuarantee:
    """Privacy that fades with distance: places near each other cannot be told apart by one report.

    P[report = y | place x] <= exp(epsilon_per_metre * d(x, x')) * P[report = y | place x']   for all x, x', y

    Source: Andres, Bordenabe, Chatzikokolakis, Palamidessi 2013; proof: proofs/location.md

    >>> MetricGuarantee(epsilon_per_metre=Fraction(1, 50)).to_dict()["epsilon_per_metre"]
    '1/50'
    """

    epsilon_per_metre: Fraction
    metric: str = "plane"
    reports_per_day: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon_per_metre", exact_epsilon_per_metre(self.epsilon_per_metre))
        if self.metric not in METRICS:
            raise ParameterError(
                "metric ({metric}) must be one of {known}", metric=self.metric, known=", ".join(METRICS)
            )

    @property
    def neighbours(self) -> str:
        """Empty: no tables are compared, but places."""
        return ""

    @property
    def statement(self) -> str:
        """The promise in one English line."""
        return self.words(lang="en")

    def words(self, *, lang: str | None = None) -> str:
        """State the promise in one line of the reader's language.

        >>> MetricGuarantee(epsilon_per_metre=Fraction(1, 50)).words(lang="en")[:61]
        'One report: for any two places d metres apart, the probabilit'
        """
        return say(
            "One report: for any two places d metres apart, the probability of every report differs by a factor of"
            " at most exp({epsilon} d); d is {metric}. Fresh draws by one device: at most {reports} a day.",
            lang=lang,
            epsilon=self.epsilon_per_metre,
            metric=self._metric(lang),
            reports=self.reports_per_day,
        )

    def _metric(self, lang: str | None) -> str:
        if self.metric == "graph":
            return say("the length of the shortest way along the roads of the map", lang=lang)
        if self.metric == "elastic":
            return say("the straight distance, shortened around places with a stricter level", lang=lang)
        return say("the straight distance between the centres of two cells", lang=lang)

    def to_dict(self) -> dict[str, Any]:
        """The promise as JSON-able facts, and in words for those who read no JSON."""
        return {
            "epsilon_per_metre": str(self.epsilon_per_metre),
            "metric": self.metric,
            "reports_per_day": self.reports_per_day,
            "statement": {lang: self.words(lang=lang) for lang in ("en", "ja")},
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> MetricGuarantee:
        """Read what `to_dict` gave. The words are not read: they follow from the facts.

        >>> promise = MetricGuarantee(epsilon_per_metre=Fraction(1, 50), metric="graph", reports_per_day=3)
        >>> MetricGuarantee.from_dict(promise.to_dict()) == promise
        True
        """
        if set(facts) - {"statement"} != {"epsilon_per_metre", "metric", "reports_per_day"}:
            raise ParameterError(
                "a promise per metre must have epsilon_per_metre, metric, reports_per_day and nothing else"
            )
        return cls(**{name: facts[name] for name in ("epsilon_per_metre", "metric", "reports_per_day")})
