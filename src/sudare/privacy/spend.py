"""What is spent for a release: amounts by purpose, in the currency of its promise."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Protocol

from sudare.errors import ParameterError
from sudare.forms.numbers import plain
from sudare.privacy.currency import EPSILON, Currency
from sudare.privacy.differential import DifferentialPrivacy, Neighbours, check_neighbours
from sudare.text import Text

LONGEST_LINE = 200  # characters of a purpose or a name


@dataclass(frozen=True, kw_only=True, slots=True)
class Spend:
    """One spend of a ledger: what was promised, and what that costs in the relation and currency of the ledger.

    `release` is the id of the release that it was for. `head` is the hash of the chain up to this entry, and `total`
    what was spent up to it; both are None where no ledger was kept.
    """

    seq: int
    time: str  # UTC, ISO 8601
    purpose: str
    amount: Fraction
    currency: Currency = EPSILON
    cost: Fraction
    charged_in: Currency = EPSILON
    head: str | None
    release: str = ""
    total: Fraction | None = None

    @property
    def epsilon(self) -> Fraction:
        """The amount, of a spend that is counted in pure epsilon."""
        if self.currency is not EPSILON:
            raise AttributeError(f"the spend is counted in {self.currency.name}; ask for its amount")
        return self.amount

    def to_dict(self) -> dict[str, int | str | None]:
        """Give the entry as JSON-able facts, fractions as exact text, the amount by the name of its currency."""
        facts: dict[str, int | str | None] = {
            "seq": self.seq,
            "time": self.time,
            "purpose": self.purpose,
            self.currency.name: str(self.amount),
            "cost": str(self.cost),
            "head": self.head,
        }
        if self.charged_in is not self.currency:
            facts["charged_in"] = self.charged_in.name
        return facts


class Unrecorded:
    """Stands for the ledger of a run that keeps none: it refuses nothing, and the certificate says so.

    >>> from sudare.privacy import Guarantee
    >>> from sudare.schema.unit import Unit
    >>> promise = Guarantee(epsilon=Fraction(1, 2), neighbours="replace", unit=Unit())
    >>> (spend,) = Unrecorded().spend({"noise in every cell": Fraction(1, 2)}, guarantee=promise)
    >>> spend.cost, spend.head
    (Fraction(1, 2), None)
    """

    head: None = None

    def __init__(self, *, neighbours: Neighbours = "replace") -> None:
        check_neighbours(neighbours)
        self.neighbours: Neighbours = neighbours
        self._entries: list[Spend] = []

    def spend(
        self, parts: Mapping[str, Fraction], *, guarantee: DifferentialPrivacy, release: str | None = None
    ) -> tuple[Spend, ...]:
        """Note the parts of a promise. Nothing is converted: there is no budget to charge."""
        parts = check_parts(parts, guarantee)
        first, release, currency = len(self._entries) + 1, release or new_release_id(), guarantee.currency
        spends = tuple(
            Spend(
                seq=seq,
                time=read_clock(),
                purpose=purpose,
                amount=amount,
                currency=currency,
                cost=amount,
                charged_in=currency,
                head=None,
                release=release,
            )
            for seq, (purpose, amount) in enumerate(parts.items(), first)
        )
        self._entries += spends
        return spends

    @property
    def spent(self) -> Fraction:
        """The sum of what this run noted, all of it in one currency."""
        return sum((entry.cost for entry in self._entries), Fraction())

    def entries(self) -> list[Spend]:
        """List what this run noted."""
        return list(self._entries)


class Account(Protocol):
    """What a release is charged to: a ledger, what stands for none, or either as one release sees it."""

    @property
    def neighbours(self) -> Neighbours:
        """The relation that costs are counted in."""

    def spend(self, parts: Mapping[str, Fraction], *, guarantee: DifferentialPrivacy) -> tuple[Spend, ...]:
        """Spend all parts of a promise, or none."""


class Chargeable(Account, Protocol):
    """A ledger, or what stands for none: it takes spends of many releases."""

    def spend(
        self, parts: Mapping[str, Fraction], *, guarantee: DifferentialPrivacy, release: str | None = None
    ) -> tuple[Spend, ...]:
        """Spend all parts of a promise for a release, or none."""


class ReleaseAccount:
    """A ledger as one release sees it: its id, and what was spent for it; what others spend is not in its sums.

    >>> from sudare.privacy import Guarantee
    >>> from sudare.schema.unit import Unit
    >>> account = ReleaseAccount(Unrecorded())
    >>> promise = Guarantee(epsilon=Fraction(1, 2), neighbours="replace", unit=Unit())
    >>> spends = account.spend({"noise in every cell": Fraction(1, 2)}, guarantee=promise)
    >>> account.spent, account.spends[0].release == account.id
    (Fraction(1, 2), True)
    """

    def __init__(self, ledger: Chargeable, *, release_id: str | None = None) -> None:
        self.ledger = ledger
        self.id = release_id or new_release_id()
        self.spends: tuple[Spend, ...] = ()

    @property
    def neighbours(self) -> Neighbours:
        """The relation that costs are counted in."""
        return self.ledger.neighbours

    @property
    def spent(self) -> Fraction:
        """What was charged for this release."""
        return sum((spend.cost for spend in self.spends), Fraction())

    def spend(self, parts: Mapping[str, Fraction], *, guarantee: DifferentialPrivacy) -> tuple[Spend, ...]:
        """Spend all parts of a promise for this release, or none."""
        spends = self.ledger.spend(parts, guarantee=guarantee, release=self.id)
        self.spends += spends
        return spends

    def describe_spent(self) -> Text:
        """Say what was charged for this release, in the currency it was charged in."""
        if not self.spends:
            return EPSILON.name_amount(Fraction())
        return self.spends[0].charged_in.name_amount(self.spent, delta=getattr(self.ledger, "delta", None))


def new_release_id() -> str:
    """Draw the id of a release: random, so that it tells nothing.

    >>> len(new_release_id())
    32
    """
    return os.urandom(16).hex()


def check_parts(parts: Mapping[str, Fraction], guarantee: DifferentialPrivacy) -> dict[str, Fraction]:
    """Refuse parts that are not exact, not above 0, without a purpose, or do not add up to the promise."""
    if not parts:
        raise ParameterError("a spend must have at least one part")
    for purpose, epsilon in parts.items():
        check_line(purpose, name="purpose")
        if not isinstance(epsilon, Fraction) or epsilon <= 0:  # a part below 0 would be a refund
            raise ParameterError("the amount for {purpose} must be an exact fraction above 0", purpose=Text(purpose))
    exactly = {purpose: plain(epsilon) for purpose, epsilon in parts.items()}
    if sum(exactly.values()) != guarantee.amount:
        raise ParameterError(
            "the parts of a spend must add up to what its guarantee promises ({amount})",
            amount=guarantee.currency.describe(guarantee.amount, delta=guarantee.delta),
        )
    return exactly


def check_line(line: str, *, name: str) -> None:
    """Refuse what would not print as one line in a list of spends."""
    is_line = isinstance(line, str) and line.strip() != "" and len(line) <= LONGEST_LINE
    if not is_line or not line.replace("\u3000", " ").isprintable():  # the wide space of Japanese prints too
        raise ParameterError(
            "{name} must be one line of 1 to {most} printable characters", name=name, most=LONGEST_LINE
        )


def read_clock() -> str:
    """Tell the time as ledgers store it.

    >>> read_clock()[-1]
    'Z'
    """
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
