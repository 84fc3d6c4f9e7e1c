"""What a release promises: differential privacy, k-anonymity, or epsilon per metre; for whom, and what it costs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from sudare.errors import ParameterError
from sudare.privacy.differential import ConcentratedGuarantee, Guarantee, write_statement
from sudare.privacy.exact import Number, exact
from sudare.schema.unit import Unit
from sudare.text import Text, join, join_sentences, text


class Promise(Protocol):
    """What a certificate needs of any promise, be it differential privacy or another."""

    @property
    def neighbours(self) -> str:
        """The relation between tables that it holds for; empty if it compares no tables."""

    def describe(self) -> Text:
        """State the promise in words."""

    def to_dict(self) -> dict[str, Any]:
        """Give the promise as JSON-able facts, with `statement`: the words in each language of a certificate."""


def read_guarantee(facts: Mapping[str, Any]) -> Guarantee | ConcentratedGuarantee | MetricGuarantee:
    """Read the promise of a certificate: pure, concentrated, or per metre; those of classes are told, not read.

    >>> read_guarantee({"epsilon": "1", "neighbours": "replace", "unit": {"kind": "row"}}).currency
    <Currency epsilon>
    """
    if "rho" in facts:
        return ConcentratedGuarantee.from_dict(facts)
    if "epsilon_per_metre" in facts:
        return MetricGuarantee.from_dict(facts)
    return Guarantee.from_dict(facts)


# --- k-anonymity: about the classes of one release, and about nothing else ------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassGuarantee:
    """Every combination of quasi-identifiers that is published is shared by at least k units.

    `criteria` are those beyond k, as they describe themselves. The promise compares no tables, so it has no
    neighbours; it does not compose. Proof: proofs/kanon.md

    >>> str(ClassGuarantee(k=5, quasi=("age", "sex"), unit=Unit()).describe())[:58]
    'k-anonymity with k = 5: every published combination of age'
    """

    k: int
    quasi: tuple[str, ...]
    unit: Unit
    criteria: tuple[Text, ...] = ()
    max_suppressed: Fraction = Fraction(0)

    @property
    def neighbours(self) -> str:
        """Empty: the promise is about one table."""
        return ""

    @property
    def rows(self) -> int:
        """Tell how many rows a class holds at least: a person may bring several."""
        return self.k * (self.unit.max_rows if self.unit.kind == "person" else 1)

    def describe(self) -> Text:
        """State the promise: k, criteria, suppression, and what is not promised."""
        parts = [self._sizes(", ".join(self.quasi) if self.quasi else text("the quasi-identifiers"))]
        if self.criteria:
            parts.append(text("Every such class also keeps: {criteria}.", criteria=join(self.criteria, text("; "))))
        if self.max_suppressed:
            share = f"{float(self.max_suppressed):.4g}"
            parts.append(text("Up to {share} of the rows may have been left out.", share=share))
        parts.append(
            text(
                "This is no differential privacy: it does not compose (a second release of the same table can undo it),"
                " and it does not hide what the rows of a class have in common.",
            )
        )
        return join_sentences(parts)

    def _sizes(self, quasi: Text | str) -> Text:
        if self.unit.kind == "person":
            return text(
                "k-anonymity with k = {k}: every published combination of {quasi} is shared by at least {rows} rows,"
                " which are those of at least {k} persons.",
                k=self.k,
                quasi=quasi,
                rows=self.rows,
            )
        return text(
            "k-anonymity with k = {k}: every published combination of {quasi} is shared by at least {k} rows.",
            k=self.k,
            quasi=quasi,
        )

    def to_dict(self) -> dict[str, Any]:
        """Give the promise as JSON-able facts, and in words.

        >>> facts = ClassGuarantee(k=5, quasi=("age",), unit=Unit()).to_dict()
        >>> facts["k"], facts["composes"], sorted(facts["statement"])
        (5, False, ['en', 'ja'])
        """
        return {
            "k": self.k,
            "quasi": list(self.quasi),
            "criteria": [criterion.render("en") for criterion in self.criteria],
            "max_suppressed": str(self.max_suppressed),
            "composes": False,
            "unit": self.unit.to_dict(),
            "statement": write_statement(self.describe()),
        }


# A criterion as a class promise tells it. Certificates store the English words, and they are read back from these.

ROWS_ALIKE = "k = {k}"
DISTINCT_VALUES = "distinct l = {l} of {attribute}"
ENTROPY = "entropy l = {l} of {attribute}"
RECURSIVE = "recursive c = {c}, l = {l} of {attribute}"
EQUAL_DISTANCE = "t = {t} of {attribute}, equal distance"
ORDERED_DISTANCE = "t = {t} of {attribute}, ordered distance"
HIERARCHICAL_DISTANCE = "t = {t} of {attribute}, hierarchical distance"
PRESENCE = "presence in [{low}, {high}]"
_CRITERIA = (
    ROWS_ALIKE,
    DISTINCT_VALUES,
    ENTROPY,
    RECURSIVE,
    EQUAL_DISTANCE,
    ORDERED_DISTANCE,
    HIERARCHICAL_DISTANCE,
    PRESENCE,
)


def recognise_criterion(words: str) -> Text:
    """Read the English words of a criterion in a certificate, so that they can be shown in other languages.

    >>> recognise_criterion("distinct l = 2 of disease").values["attribute"]
    'disease'
    """
    for template in _CRITERIA:
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+)", re.escape(template))
        if match := re.fullmatch(pattern, words):
            return Text(template, match.groupdict())
    return Text("{words}", {"words": words})


# --- a location mechanism: epsilon per metre, for one report --------------------------------------------------------

EPSILON_PER_METRE_LOW, EPSILON_PER_METRE_HIGH = Fraction(1, 10**9), Fraction(10)
METRICS = ("plane", "points", "graph", "elastic")


def exact_epsilon_per_metre(value: Number) -> Fraction:
    """Read an epsilon per metre, between 1e-9 (a whole country cannot be told apart) and 10 (a few steps can).

    >>> exact_epsilon_per_metre("0.02")
    Fraction(1, 50)
    """
    return exact(value, name="epsilon_per_metre", low=EPSILON_PER_METRE_LOW, high=EPSILON_PER_METRE_HIGH)


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

    def describe(self) -> Text:
        """State the promise in one line.

        >>> str(MetricGuarantee(epsilon_per_metre=Fraction(1, 50)).describe())[:61]
        'One report: for any two places d metres apart, the probabilit'
        """
        return text(
            "One report: for any two places d metres apart, the probability of every report differs by a factor of"
            " at most exp({epsilon} d); d is {metric}. Fresh draws by one device: at most {reports} a day.",
            epsilon=self.epsilon_per_metre,
            metric=self._metric(),
            reports=self.reports_per_day,
        )

    def _metric(self) -> Text:
        if self.metric == "graph":
            return text("the length of the shortest way along the roads of the map")
        if self.metric == "elastic":
            return text("the straight distance, shortened around places with a stricter level")
        return text("the straight distance between the centres of two cells")

    def to_dict(self) -> dict[str, Any]:
        """Give the promise as JSON-able facts, and in words for those who read no JSON."""
        return {
            "epsilon_per_metre": str(self.epsilon_per_metre),
            "metric": self.metric,
            "reports_per_day": self.reports_per_day,
            "statement": write_statement(self.describe()),
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
