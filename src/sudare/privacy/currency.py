"""The two currencies in which differential privacy is counted: pure epsilon, and rho of concentrated privacy.

All arithmetic that differs between them stands here, on the type: what a group of rows costs, what a step under pure
epsilon costs, how much noise an amount buys. Other files ask a `Currency` and never its name.

Proof: proofs/composition.md and proofs/concentrated.md. Source: Bun, Steinke 2016; Canonne, Kamath, Steinke 2020.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction

from sudare.errors import ParameterError, RelationMismatch
from sudare.privacy.conversion import RHO_DIGITS, bound_tanh, epsilon_at_delta, largest_rho, root_down, round_up
from sudare.privacy.exact import Number, exact_delta, exact_epsilon, exact_rho, write_exact
from sudare.text import Text, text

DEFAULT_DELTA = Fraction(1, 10**9)  # at which an epsilon is told where nobody named another

SHARE_PARTS = 10**5  # shares of rho are whole multiples of one in so many parts


class Currency(ABC):
    """What a promise of differential privacy is counted in. Amounts add up over releases; all are exact fractions.

    >>> EPSILON.group(Fraction(1, 2), 3), RHO.group(Fraction(1, 2), 3)
    (Fraction(3, 2), Fraction(9, 2))
    """

    name: str
    has_delta: bool  # whether an amount is also told as epsilon at a delta

    def __repr__(self) -> str:
        return f"<Currency {self.name}>"

    def __reduce__(self) -> tuple[object, ...]:
        """Stay the one object of its name in other processes."""
        return find_currency, (self.name,)

    @abstractmethod
    def read(self, value: Number) -> Fraction:
        """Read an amount as it was written, and check its range."""

    @abstractmethod
    def group_factor(self, rows: int) -> int:
        """Tell how many times its amount a promise costs for a group of so many neighbours in a row."""

    @abstractmethod
    def charge_pure(self, epsilon: Fraction) -> Fraction:
        """Tell what a step under pure epsilon costs."""

    @abstractmethod
    def charge_exponential(self, epsilon: Fraction) -> Fraction:
        """Tell what the exponential mechanism with weights exp(epsilon * score / (2 * sensitivity)) costs."""

    @abstractmethod
    def exponential_within(self, amount: Fraction) -> Fraction:
        """Tell the largest epsilon of an exponential mechanism that costs at most `amount`."""

    @abstractmethod
    def gaussian_variance(self, amount: Fraction, *, sensitivity_squared: int) -> Fraction | None:
        """Tell the variance parameter of Gaussian noise that costs `amount`; None where no Gaussian noise keeps it.

        `sensitivity_squared` bounds the square of the L2 distance between what two neighbours are measured as.
        """

    @abstractmethod
    def accepts(self, other: Currency) -> bool:
        """Tell whether amounts of the other currency can be charged in this one."""

    @abstractmethod
    def describe(self, amount: Fraction, *, delta: Fraction | None = None) -> Text:
        """Say an amount as an equation, with the epsilon at a delta where there is one."""

    @abstractmethod
    def name_amount(self, amount: Fraction, *, delta: Fraction | None = None) -> Text:
        """Say an amount in the middle of a sentence, with the epsilon at a delta where there is one."""

    def group(self, amount: Fraction, rows: int) -> Fraction:
        """Tell what a promise of `amount` is worth for a group of so many neighbours in a row."""
        return self.group_factor(rows) * amount

    def reshare(self, shares: Sequence[Fraction | int]) -> tuple[Fraction, ...]:
        """Turn shares that were chosen for pure epsilon into shares of this currency; they add up to 1.

        A share f of epsilon gives noise a variance of c/f^2. Where it is chosen to make a weighted sum of variances
        least, the weight is in proportion to f^3, and the same weights are served best by these shares.

        >>> EPSILON.reshare([1, 4]), [round(float(share), 3) for share in RHO.reshare([1, 4])]
        ((Fraction(1, 5), Fraction(4, 5)), [0.111, 0.889])
        """
        return tuple(Fraction(share) / sum(shares) for share in shares)

    def exchange(self, amount: Fraction, paid_in: Currency) -> Fraction:
        """Tell what an amount of another currency costs in this one.

        Error: RelationMismatch where it has no price: rho does not bound pure epsilon.

        >>> float(RHO.exchange(Fraction(1), EPSILON))
        0.46211716
        """
        if paid_in is self:
            return amount
        if not self.accepts(paid_in):
            raise RelationMismatch(
                "the release is counted in {paid}, which cannot be charged to a ledger in {kept}; use a ledger made"
                " with --rho, or with --epsilon and --delta",
                paid=paid_in.name,
                kept=self.name,
            )
        return self.charge_pure(amount)


class PureCurrency(Currency):
    """Pure epsilon: exp(epsilon) bounds every ratio of probabilities.

    >>> EPSILON.charge_exponential(Fraction(1, 2))
    Fraction(1, 2)
    """

    name = "epsilon"
    has_delta = False

    def read(self, value: Number) -> Fraction:
        """Read an epsilon."""
        return exact_epsilon(value)

    def group_factor(self, rows: int) -> int:
        """The epsilons of the steps add up."""
        return rows

    def charge_pure(self, epsilon: Fraction) -> Fraction:
        """Itself."""
        return epsilon

    def charge_exponential(self, epsilon: Fraction) -> Fraction:
        """Its epsilon."""
        return epsilon

    def exponential_within(self, amount: Fraction) -> Fraction:
        """Itself."""
        return amount

    def gaussian_variance(self, amount: Fraction, *, sensitivity_squared: int) -> Fraction | None:
        """None: the tails of a Gaussian fall too fast for any epsilon."""
        return None

    def accepts(self, other: Currency) -> bool:
        """Only itself: rho leaves every epsilon possible, if seldom."""
        return other is self

    def describe(self, amount: Fraction, *, delta: Fraction | None = None) -> Text:
        """Say the epsilon."""
        return text("epsilon = {epsilon}", epsilon=write_exact(amount))

    def name_amount(self, amount: Fraction, *, delta: Fraction | None = None) -> Text:
        """Say the epsilon."""
        return text("epsilon {epsilon}", epsilon=write_exact(amount))


class ConcentratedCurrency(Currency):
    """rho of zero-concentrated differential privacy: D_alpha(M(D) || M(D')) <= rho * alpha for all alpha > 1.

    >>> RHO.gaussian_variance(Fraction(1, 8), sensitivity_squared=2)
    Fraction(8, 1)
    """

    name = "rho"
    has_delta = True

    def read(self, value: Number) -> Fraction:
        """Read a rho."""
        return exact_rho(value)

    def group_factor(self, rows: int) -> int:
        """The square: the square roots of the rhos of the steps add up (Bun, Steinke 2016, Proposition 1.9)."""
        return rows * rows

    def charge_pure(self, epsilon: Fraction) -> Fraction:
        """epsilon * tanh(epsilon / 2), rounded up to eight digits: the least that covers every pure step.

        Less than epsilon^2 / 2 (Bun, Steinke 2016, Proposition 1.4): by 8 % at epsilon 1, by half at 4.
        """
        return round_up(epsilon * bound_tanh(epsilon / 2)[1], RHO_DIGITS) if epsilon else epsilon

    def charge_exponential(self, epsilon: Fraction) -> Fraction:
        """epsilon^2 / 8: its privacy losses lie in a range of width epsilon (Rogers, Steinke 2021)."""
        return epsilon * epsilon / 8

    def exponential_within(self, amount: Fraction) -> Fraction:
        """sqrt(8 rho), rounded down."""
        return root_down(8 * amount)

    def gaussian_variance(self, amount: Fraction, *, sensitivity_squared: int) -> Fraction | None:
        """sensitivity^2 / (2 rho), for the discrete Gaussian too (Canonne, Kamath, Steinke 2020, Theorem 14)."""
        return sensitivity_squared / (2 * amount)

    def reshare(self, shares: Sequence[Fraction | int]) -> tuple[Fraction, ...]:
        """The power 3/2: variances are c/f here, so that the root of a weight is its best share.

        Shares are rounded to hundred thousandths, so that they are short to write; the largest takes the rest.
        """
        weights = [float(share) ** 1.5 for share in shares]
        whole = max(SHARE_PARTS, 1000 * len(weights))
        parts = [max(1, round(weight / sum(weights) * whole)) if weight else 0 for weight in weights]
        parts[parts.index(max(parts))] += whole - sum(parts)
        return tuple(Fraction(part, whole) for part in parts)

    def accepts(self, other: Currency) -> bool:
        """Itself and pure epsilon."""
        return other is self or other is EPSILON

    def describe(self, amount: Fraction, *, delta: Fraction | None = None) -> Text:
        """Say rho, and the epsilon that it keeps at the delta."""
        return text("rho = {rho} (epsilon = {epsilon} at delta = {delta})", **_tell_rho(amount, delta))

    def name_amount(self, amount: Fraction, *, delta: Fraction | None = None) -> Text:
        """Say rho, and the epsilon that it keeps at the delta."""
        return text("rho {rho} (epsilon {epsilon} at delta {delta})", **_tell_rho(amount, delta))


def _tell_rho(amount: Fraction, delta: Fraction | None) -> dict[str, str]:
    """Write a rho, the delta at which it is told, and the epsilon that it keeps there."""
    asked = delta or DEFAULT_DELTA
    epsilon = epsilon_at_delta(amount, asked) if amount else Fraction()
    return {"rho": write_exact(amount), "epsilon": write_exact(epsilon), "delta": write_exact(asked)}


EPSILON, RHO = PureCurrency(), ConcentratedCurrency()
_CURRENCIES = {currency.name: currency for currency in (EPSILON, RHO)}


def find_currency(name: str) -> Currency:
    """Find a currency by the name that a file stores.

    >>> find_currency("rho") is RHO
    True
    """
    try:
        return _CURRENCIES[name]
    except (KeyError, TypeError):
        raise ParameterError("the currency must be one of {known}", known=", ".join(_CURRENCIES)) from None


def read_amount(
    *, epsilon: Number | None = None, rho: Number | None = None, delta: Number | None = None
) -> tuple[Currency, Fraction, Fraction | None]:
    """Read what a steward may write: epsilon, or rho, or epsilon with a delta (the largest rho that keeps them).

    Gives the currency, the amount in it, and the delta at which it is told (None in pure epsilon).

    >>> read_amount(epsilon="1/2")
    (<Currency epsilon>, Fraction(1, 2), None)
    >>> read_amount(epsilon=1, delta="1e-9")[:2]
    (<Currency rho>, Fraction(14973057, 1000000000))
    """
    if (epsilon is None) == (rho is None):
        raise ParameterError("give epsilon, or epsilon and delta, or rho: one of the three")
    if rho is not None:
        return RHO, exact_rho(rho), DEFAULT_DELTA if delta is None else exact_delta(delta)
    pure = exact_epsilon(epsilon)  # type: ignore[arg-type]
    if delta is None:
        return EPSILON, pure, None
    asked = exact_delta(delta)
    return RHO, largest_rho(pure, asked), asked
