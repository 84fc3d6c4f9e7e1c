"""What a release promises: epsilon, for whom, and between which tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any, Literal, Protocol, get_args

from sudare.errors import ParameterError, RelationMismatch
from sudare.privacy.exact import Number, exact, exact_epsilon
from sudare.schema.unit import Unit
from sudare.text import say

Neighbours = Literal["replace", "add-remove"]


def check_neighbours(neighbours: str) -> None:
    """Refuse a relation that is not one of the two.

    >>> check_neighbours("replace")
    """
    if neighbours not in get_args(Neighbours):
        raise ParameterError('neighbours ({neighbours}) must be "replace" or "add-remove"', neighbours=neighbours)


def factor_between(promised: str, kept: str) -> int:
    """Tell how many times its epsilon a promise for `promised` costs where `kept` is the relation.

    Replacing a unit is removing one and adding another, so add/remove counts twice under replace-one. The
    other way there is no factor: a replace-one release may publish how many units there are.

    >>> factor_between("add-remove", "replace")
    2
    """
    check_neighbours(promised)
    check_neighbours(kept)
    if promised == kept:
        return 1
    if promised == "replace":
        raise RelationMismatch(
            "the release promises privacy for replace-one neighbours, which is no promise for add/remove; "
            "spend from a ledger kept for replace, or choose add-remove for the release"
        )
    return 2


class Promise(Protocol):
    """What a certificate needs of any promise, be it differential privacy or another."""

    @property
    def neighbours(self) -> str:
        """The relation between tables that it holds for; empty if it compares no tables."""

    def to_dict(self) -> dict[str, Any]:
        """Give the promise as JSON-able facts, with `statement`: one line in each language."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Guarantee:
    """Differential privacy with one epsilon, for one unit, between neighbours of one relation.

    P[M(D) in S] <= exp(epsilon) * P[M(D') in S]   for every set S of outputs and all neighbours D, D'

    where D' is D with one unit replaced by any other ("replace") or with one more or less ("add-remove").
    Source: Dwork, McSherry, Nissim, Smith 2006. Proof of what it costs: proofs/composition.md

    >>> Guarantee(epsilon=Fraction(1, 2), neighbours="add-remove", unit=Unit()).cost("replace")
    Fraction(1, 1)
    """

    epsilon: Fraction
    neighbours: Neighbours
    unit: Unit

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))
        check_neighbours(self.neighbours)

    def factor(self, neighbours: Neighbours) -> int:
        """Tell how many times its epsilon this guarantee costs in a ledger kept for `neighbours`.

        >>> Guarantee(epsilon=Fraction(1), neighbours="replace", unit=Unit()).factor("replace")
        1
        """
        return factor_between(self.neighbours, neighbours)

    def cost(self, neighbours: Neighbours) -> Fraction:
        """Charge for this guarantee in a ledger kept for `neighbours`.

        >>> Guarantee(epsilon=Fraction(1), neighbours="replace", unit=Unit()).cost("replace")
        Fraction(1, 1)
        """
        return self.factor(neighbours) * self.epsilon

    @property
    def statement(self) -> str:
        """The promise in one English line."""
        return self.words(lang="en")

    def words(self, *, lang: str | None = None) -> str:
        """State the promise in one line of the reader's language, its factor rounded up.

        >>> Guarantee(epsilon=Fraction(1), neighbours="replace", unit=Unit()).words(lang="en")[:56]
        'Differential privacy with epsilon = 1 for a row: replaci'
        """
        return say(
            "Differential privacy with epsilon = {epsilon} for {unit}: {change} changes the probability of "
            "every possible output by a factor of at most {factor} (exp({epsilon}), rounded up).",
            lang=lang,
            epsilon=self.epsilon,
            unit=self.unit.words(lang=lang),
            change=self._change(lang),
            factor=_exp_rounded_up(self.epsilon),
        )

    def _change(self, lang: str | None) -> str:
        """Say what one of two neighbouring tables has and the other has not."""
        if self.neighbours == "replace" and self.unit.kind == "row":
            return say("replacing any one row by any other", lang=lang)
        if self.neighbours == "replace":
            return say("replacing all rows of any one person by those of any other", lang=lang)
        if self.unit.kind == "row":
            return say("adding or removing any one row", lang=lang)
        return say("adding or removing all rows of any one person", lang=lang)

    def to_dict(self) -> dict[str, Any]:
        """Give the promise as JSON-able facts, and in words for those who read no JSON.

        >>> facts = Guarantee(epsilon=Fraction(1, 2), neighbours="replace", unit=Unit()).to_dict()
        >>> facts["epsilon"], facts["unit"], sorted(facts["statement"])
        ('1/2', {'kind': 'row'}, ['en', 'ja'])
        """
        return {
            "epsilon": str(self.epsilon),
            "neighbours": self.neighbours,
            "unit": self.unit.to_dict(),
            "statement": {lang: self.words(lang=lang) for lang in ("en", "ja")},
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Guarantee:
        """Read what `to_dict` gave. The words are not read: they follow from the facts.

        >>> promise = Guarantee(epsilon=Fraction(1, 2), neighbours="replace", unit=Unit())
        >>> Guarantee.from_dict(promise.to_dict()) == promise
        True
        """
        odd = {"epsilon", "neighbours", "unit"} ^ (set(facts) - {"statement"})
        if odd or not isinstance(facts["unit"], Mapping):
            raise ParameterError("a guarantee must have epsilon, neighbours, unit and nothing else")
        unit = Unit.from_dict(facts["unit"])
        return cls(epsilon=facts["epsilon"], neighbours=facts["neighbours"], unit=unit)


def _exp_rounded_up(epsilon: Fraction) -> str:
    """Print exp(epsilon) so that the figure is never below it: three digits of what it has above 1.

    >>> [_exp_rounded_up(Fraction(one)) for one in ("1/1000", "1/2", "3", "1000")]
    ['1.00101', '1.649', '20.1', '1.98E+434']
    """
    fine = Context(prec=50, rounding=ROUND_CEILING)
    factor = fine.exp(fine.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator)))
    place = Decimal(1).scaleb(fine.subtract(factor, Decimal(1)).adjusted() - 2)
    rounded = Context(prec=500, rounding=ROUND_CEILING).quantize(factor, place)
    return f"{rounded:f}" if rounded < 10**6 else f"{rounded:.2E}"


# The promise of k-anonymity: about the classes of one release, and about nothing else.


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassGuarantee:
    """Every combination of quasi-identifiers that is published is shared by at least k units.

    `criteria` are those beyond k, as they describe themselves. The promise compares no tables, so it has no
    neighbours; it does not compose. Proof: proofs/kanon.md

    >>> ClassGuarantee(k=5, quasi=("age", "sex"), unit=Unit()).words(lang="en")[:58]
    'k-anonymity with k = 5: every published combination of age'
    """

    k: int
    quasi: tuple[str, ...]
    unit: Unit
    criteria: tuple[str, ...] = ()
    max_suppressed: Fraction = Fraction(0)

    @property
    def neighbours(self) -> str:
        """None: the promise is about one table."""
        return ""

    @property
    def rows(self) -> int:
        """Tell how many rows a class holds at least: a person may bring several."""
        return self.k * (self.unit.max_rows if self.unit.kind == "person" else 1)

    def words(self, *, lang: str | None = None) -> str:
        """State the promise in the reader's language: k, criteria, suppression, and what is not promised."""
        quasi = ", ".join(self.quasi) if self.quasi else say("the quasi-identifiers", lang=lang)
        parts = [self._sizes(quasi, lang)]
        if self.criteria:
            told = "; ".join(self.criteria)
            parts.append(say("Every such class also keeps: {criteria}.", lang=lang, criteria=told))
        if self.max_suppressed:
            share = f"{float(self.max_suppressed):.4g}"
            parts.append(say("Up to {share} of the rows may have been left out.", lang=lang, share=share))
        parts.append(
            say(
                "This is no differential privacy: it does not compose (a second release of the same table can undo it),"
                " and it does not hide what the rows of a class have in common.",
                lang=lang,
            )
        )
        return ("" if lang == "ja" else " ").join(parts)

    def _sizes(self, quasi: str, lang: str | None) -> str:
        if self.unit.kind == "person":
            return say(
                "k-anonymity with k = {k}: every published combination of {quasi} is shared by at least {rows} rows,"
                " which are those of at least {k} persons.",
                lang=lang,
                k=self.k,
                quasi=quasi,
                rows=self.rows,
            )
        return say(
            "k-anonymity with k = {k}: every published combination of {quasi} is shared by at least {k} rows.",
            lang=lang,
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
            "criteria": list(self.criteria),
            "max_suppressed": str(self.max_suppressed),
            "composes": False,
            "unit": self.unit.to_dict(),
            "statement": {lang: self.words(lang=lang) for lang in ("en", "ja")},
        }


# The promise of a location mechanism: epsilon per metre, for one report.


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
