"""Differential privacy as a promise: for whom, between which tables, how much, and what it costs in a ledger.

Pure and concentrated privacy are two classes of one kind: they add up, are compared and are charged alike, each in its
currency. `currency.py` has what differs.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self, get_args

from sudare.errors import ParameterError, RelationMismatch
from sudare.privacy.conversion import epsilon_at_delta
from sudare.privacy.currency import DEFAULT_DELTA, EPSILON, RHO, Currency, read_amount
from sudare.privacy.exact import Number, exact_delta, exact_epsilon, exact_rho, write_exact
from sudare.schema.unit import Unit
from sudare.text import Text, join_sentences, text

Neighbours = Literal["replace", "add-remove"]


def check_neighbours(neighbours: str) -> None:
    """Refuse a relation that is not one of the two.

    >>> check_neighbours("replace")
    """
    if neighbours not in get_args(Neighbours):
        raise ParameterError('neighbours ({neighbours}) must be "replace" or "add-remove"', neighbours=neighbours)


def steps_between(promised: str, kept: str) -> int:
    """Tell how many neighbours in a row of `promised` a change of the relation `kept` takes.

    Replacing a unit is removing one and adding another, so add/remove takes two steps under replace-one. The
    other way there is no number: a replace-one release may publish how many units there are.

    >>> steps_between("add-remove", "replace")
    2
    """
    check_neighbours(promised)
    check_neighbours(kept)
    if promised == kept:
        return 1
    if promised == "replace":
        raise RelationMismatch(
            "the release promises privacy for neighbours replace, which promises nothing for add-remove; use a"
            " ledger kept for replace, or choose add-remove for the release"
        )
    return 2


def write_statement(words: Text) -> dict[str, str]:
    """Write a promise in the languages in which certificates are stored.

    >>> write_statement(text("a row"))["en"]
    'a row'
    """
    return {language: words.render(language) for language in ("en", "ja")}


def charge(amount: Fraction, currency: Currency, neighbours: str, *, charged_in: Currency, kept_for: str) -> Fraction:
    """Tell what an amount, promised in one currency for one relation, costs in another currency and relation.

    Error: RelationMismatch if such a promise says nothing there.
    """
    return charged_in.exchange(currency.group(amount, steps_between(neighbours, kept_for)), currency)


class DifferentialPrivacy(ABC):
    """A promise about two neighbouring tables, counted in one currency: what a ledger can be charged for.

    `amount` is in `currency`; `unit` and `neighbours` say whom it protects and which tables are neighbours.
    """

    __slots__ = ()
    currency: ClassVar[Currency]
    neighbours: Neighbours
    unit: Unit
    exact: tuple[str, ...]  # numbers of the table that are published as they are, about which nothing is promised

    @property
    @abstractmethod
    def amount(self) -> Fraction:
        """How much is promised, in the currency of the promise."""

    @property
    @abstractmethod
    def delta(self) -> Fraction | None:
        """The delta at which the promise is told as epsilon; None where it holds without one."""

    @abstractmethod
    def with_amount(self, amount: Fraction) -> Self:
        """Promise another amount to the same unit for the same neighbours."""

    @abstractmethod
    def describe(self) -> Text:
        """State the promise in words."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Give the promise as JSON-able facts, and in words."""

    def factor(self, neighbours: Neighbours) -> int:
        """Tell how many times its amount this promise costs where `neighbours` is the relation.

        >>> Guarantee(epsilon=Fraction(1), neighbours="add-remove", unit=Unit()).factor("replace")
        2
        >>> ConcentratedGuarantee(rho=Fraction(1), neighbours="add-remove", unit=Unit()).factor("replace")
        4
        """
        return self.currency.group_factor(steps_between(self.neighbours, neighbours))

    def cost(self, neighbours: Neighbours, currency: Currency | None = None) -> Fraction:
        """Charge for this promise in a ledger kept for `neighbours`, in `currency` (its own if none is named).

        Error: RelationMismatch if a promise of this relation or currency says nothing in that of the ledger.

        >>> Guarantee(epsilon=Fraction(1), neighbours="replace", unit=Unit()).cost("replace")
        Fraction(1, 1)
        """
        charged_in = currency or self.currency
        return charge(self.amount, self.currency, self.neighbours, charged_in=charged_in, kept_for=neighbours)

    def group(self, rows: int) -> Self:
        """Tell what is promised to a group of so many units together.

        >>> Guarantee(epsilon=Fraction(1), neighbours="replace", unit=Unit()).group(3).epsilon
        Fraction(3, 1)
        """
        return self.with_amount(self.currency.group(self.amount, rows))

    def __add__(self, other: DifferentialPrivacy) -> DifferentialPrivacy:
        """Tell what two releases promise together; in the wider currency if they differ.

        >>> pure = Guarantee(epsilon=Fraction(1), neighbours="replace", unit=Unit())
        >>> float((pure + ConcentratedGuarantee(rho=Fraction(1, 2), neighbours="replace", unit=Unit())).amount)
        0.96211716
        """
        kept = self if self.currency.accepts(other.currency) else other
        if not self.unit.protects_the_same(other.unit):
            raise RelationMismatch("the two promises protect other units: {left} and {right}",
                                   left=self.unit.describe(), right=other.unit.describe())  # fmt: skip
        relation: Neighbours = "replace" if "replace" in (self.neighbours, other.neighbours) else "add-remove"
        total = self.cost(relation, kept.currency) + other.cost(relation, kept.currency)
        exact = tuple(dict.fromkeys((*self.exact, *other.exact)))
        return dataclasses.replace(kept.with_amount(total), neighbours=relation, exact=exact)  # type: ignore[type-var]

    def implies(self, other: DifferentialPrivacy) -> bool:
        """Tell whether whoever keeps this promise keeps the other one too.

        >>> pure = Guarantee(epsilon=Fraction(1), neighbours="replace", unit=Unit())
        >>> pure.implies(ConcentratedGuarantee(rho=Fraction(1, 2), neighbours="replace", unit=Unit()))
        True
        """
        try:
            cost = self.cost(other.neighbours, other.currency)
        except RelationMismatch:
            return False
        is_for_all = set(self.exact) <= set(other.exact)
        return is_for_all and self.unit.protects_the_same(other.unit) and cost <= other.amount

    def _state(self, words: Text) -> Text:
        """Add to a promise what it does not cover."""
        if not self.exact:
            return words
        left_out = text(
            "These numbers are published exactly as they are in the table, and nothing is promised about them: {names}."
            " The promise compares tables that agree in them; for two such tables that differ by several such changes"
            " it holds as for a group of as many.",
            names=", ".join(self.exact),
        )
        return join_sentences([words, left_out])

    def _exact_facts(self) -> dict[str, Any]:
        return {"exact": list(self.exact)} if self.exact else {}

    def _change(self) -> Text:
        """Say what one of two neighbouring tables has and the other has not."""
        if self.neighbours == "replace" and self.unit.kind == "row":
            return text("replacing any one row by any other")
        if self.neighbours == "replace":
            return text("replacing all rows of any one person by those of any other")
        if self.unit.kind == "row":
            return text("adding or removing any one row")
        return text("adding or removing all rows of any one person")


@dataclass(frozen=True, kw_only=True, slots=True)
class Guarantee(DifferentialPrivacy):
    """Differential privacy with one epsilon, for one unit, between neighbours of one relation.

    P[M(D) in S] <= exp(epsilon) * P[M(D') in S]   for every set S of outputs and all neighbours D, D'

    where D' is D with one unit replaced by any other ("replace") or with one more or less ("add-remove").
    Source: Dwork, McSherry, Nissim, Smith 2006. Proof of what it costs: proofs/composition.md

    >>> Guarantee(epsilon=Fraction(1, 2), neighbours="add-remove", unit=Unit()).cost("replace")
    Fraction(1, 1)
    """

    currency = EPSILON
    epsilon: Fraction
    neighbours: Neighbours
    unit: Unit
    exact: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact_epsilon(self.epsilon))
        check_neighbours(self.neighbours)
        _check_exact(self.exact)

    @property
    def amount(self) -> Fraction:
        """The epsilon."""
        return self.epsilon

    @property
    def delta(self) -> Fraction | None:
        """None: the promise holds without exception."""
        return None

    def with_amount(self, amount: Fraction) -> Guarantee:
        """Promise another epsilon to the same unit for the same neighbours."""
        return dataclasses.replace(self, epsilon=amount)

    def describe(self) -> Text:
        """State the promise in one line, its factor rounded up.

        >>> str(Guarantee(epsilon=Fraction(1), neighbours="replace", unit=Unit()).describe())[:56]
        'Differential privacy with epsilon = 1 for a row: replaci'
        """
        words = text(
            "Differential privacy with epsilon = {epsilon} for {unit}: {change} changes the probability of "
            "every possible output by a factor of at most {factor} (exp({epsilon}), rounded up).",
            epsilon=self.epsilon,
            unit=self.unit.describe(),
            change=self._change(),
            factor=_exp_rounded_up(self.epsilon),
        )
        return self._state(words)

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
            **self._exact_facts(),
            "statement": write_statement(self.describe()),
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Guarantee:
        """Read what `to_dict` gave. The words are not read: they follow from the facts.

        >>> promise = Guarantee(epsilon=Fraction(1, 2), neighbours="replace", unit=Unit())
        >>> Guarantee.from_dict(promise.to_dict()) == promise
        True
        """
        odd = {"epsilon", "neighbours", "unit"} ^ (set(facts) - {"statement", "exact"})
        if odd or not isinstance(facts["unit"], Mapping):
            raise ParameterError("a guarantee must have epsilon, neighbours, unit and nothing else")
        unit = Unit.from_dict(facts["unit"])
        return cls(epsilon=facts["epsilon"], neighbours=facts["neighbours"], unit=unit, exact=_read_exact(facts))


@dataclass(frozen=True, kw_only=True, slots=True)
class ConcentratedGuarantee(DifferentialPrivacy):
    """Zero-concentrated differential privacy with one rho, for one unit, between neighbours of one relation.

    D_alpha(M(D) || M(D')) <= rho * alpha   for every order alpha > 1 and all neighbours D, D'

    where D_alpha is the Renyi divergence. It implies (epsilon, delta)-DP for every delta, with an epsilon that grows as
    delta falls; it is told at the one `delta` that the steward names. Only rho is ever added up.

    Source: Bun, Steinke 2016; Canonne, Kamath, Steinke 2020. Proof: proofs/concentrated.md

    >>> promise = ConcentratedGuarantee(rho=Fraction(1, 100), neighbours="replace", unit=Unit())
    >>> float(promise.epsilon_at_delta)
    0.810175
    """

    currency = RHO
    rho: Fraction
    neighbours: Neighbours
    unit: Unit
    delta: Fraction = DEFAULT_DELTA
    exact: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", exact_rho(self.rho))
        object.__setattr__(self, "delta", exact_delta(self.delta))
        check_neighbours(self.neighbours)
        _check_exact(self.exact)

    @property
    def amount(self) -> Fraction:
        """The rho."""
        return self.rho

    @property
    def epsilon_at_delta(self) -> Fraction:
        """The epsilon that is kept at `delta`, rounded up."""
        return epsilon_at_delta(self.rho, self.delta)

    def with_amount(self, amount: Fraction) -> ConcentratedGuarantee:
        """Promise another rho to the same unit for the same neighbours."""
        return dataclasses.replace(self, rho=amount)

    def describe(self) -> Text:
        """State the promise in one line, its epsilon rounded up.

        >>> str(ConcentratedGuarantee(rho=Fraction(1, 100), neighbours="replace", unit=Unit()).describe())[:63]
        'Concentrated differential privacy with rho = 1/100 for a row, w'
        """
        words = text(
            "Concentrated differential privacy with rho = {rho} for {unit}, which implies epsilon = {epsilon} (rounded"
            " up) at delta = {delta}: {change} changes the probability of every possible set of outputs by a factor of"
            " at most {factor} (exp({epsilon}), rounded up), and by at most {delta} beyond that factor.",
            rho=write_exact(self.rho),
            unit=self.unit.describe(),
            epsilon=write_exact(self.epsilon_at_delta),
            delta=write_exact(self.delta),
            change=self._change(),
            factor=_exp_rounded_up(self.epsilon_at_delta),
        )
        return self._state(words)

    def to_dict(self) -> dict[str, Any]:
        """Give the promise as JSON-able facts, and in words for those who read no JSON.

        >>> facts = ConcentratedGuarantee(rho=Fraction(1, 100), neighbours="replace", unit=Unit()).to_dict()
        >>> facts["rho"], facts["delta"], facts["epsilon_at_delta"]
        ('1/100', '1/1000000000', '32407/40000')
        """
        return {
            "rho": str(self.rho),
            "delta": str(self.delta),
            "epsilon_at_delta": str(self.epsilon_at_delta),
            "neighbours": self.neighbours,
            "unit": self.unit.to_dict(),
            **self._exact_facts(),
            "statement": write_statement(self.describe()),
        }

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> ConcentratedGuarantee:
        """Read what `to_dict` gave; its epsilon is computed again, and a smaller one is refused.

        >>> promise = ConcentratedGuarantee(rho=Fraction(1, 2), neighbours="replace", unit=Unit(), delta="1e-6")
        >>> ConcentratedGuarantee.from_dict(promise.to_dict()) == promise
        True
        """
        odd = {"rho", "delta", "epsilon_at_delta", "neighbours", "unit"} ^ (set(facts) - {"statement", "exact"})
        if odd or not isinstance(facts["unit"], Mapping):
            raise ParameterError(
                "a concentrated guarantee must have rho, delta, epsilon_at_delta, neighbours, unit and nothing else"
            )
        unit = Unit.from_dict(facts["unit"])
        given = {name: facts[name] for name in ("rho", "delta", "neighbours")}
        promise = cls(**given, unit=unit, exact=_read_exact(facts))
        if facts["epsilon_at_delta"] != str(promise.epsilon_at_delta):
            raise ParameterError(
                "epsilon_at_delta of the guarantee must be {epsilon}, which follows from rho and delta",
                epsilon=promise.epsilon_at_delta,
            )
        return promise


def _check_exact(names: tuple[str, ...]) -> None:
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        raise ParameterError("exact must name the numbers that are published as they are, each once")


def _read_exact(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Read which numbers are published exactly; an entry that names none is refused."""
    if "exact" not in facts:
        return ()
    names = facts["exact"]
    if not isinstance(names, list) or not names:
        raise ParameterError("exact must name the numbers that are published as they are, each once")
    return tuple(names)


def promise_privacy(
    *,
    epsilon: Number | None = None,
    rho: Number | None = None,
    delta: Number | None = None,
    neighbours: Neighbours,
    unit: Unit,
) -> Guarantee | ConcentratedGuarantee:
    """Promise what a steward may write: epsilon, or rho, or epsilon with a delta (the largest rho that keeps them).

    >>> promise_privacy(epsilon=1, delta="1e-9", neighbours="replace", unit=Unit()).amount
    Fraction(14973057, 1000000000)
    """
    currency, amount, told_at = read_amount(epsilon=epsilon, rho=rho, delta=delta)
    if told_at is None:
        return Guarantee(epsilon=amount, neighbours=neighbours, unit=unit)
    return ConcentratedGuarantee(rho=currency.read(amount), neighbours=neighbours, unit=unit, delta=told_at)


def _exp_rounded_up(epsilon: Fraction) -> str:
    """Print exp(epsilon) so that the figure is never below it: three digits of what it has above 1.

    >>> [_exp_rounded_up(Fraction(epsilon)) for epsilon in ("1/1000", "1/2", "3", "1000")]
    ['1.00101', '1.649', '20.1', '1.98E+434']
    """
    fine = Context(prec=50, rounding=ROUND_CEILING)
    factor = fine.exp(fine.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator)))
    place = Decimal(1).scaleb(fine.subtract(factor, Decimal(1)).adjusted() - 2)
    rounded = Context(prec=500, rounding=ROUND_CEILING).quantize(factor, place)
    return f"{rounded:f}" if rounded < 10**6 else f"{rounded:.2E}"
