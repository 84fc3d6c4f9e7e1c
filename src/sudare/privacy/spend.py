"""What is spent, and the purse of a run that keeps no ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction

from sudare.errors import ParameterError
from sudare.privacy.exact import plain
from sudare.privacy.guarantee import Guarantee, Neighbours, check_neighbours

MAX_WORDS = 200  # characters of a purpose or a name: a line, not a page


@dataclass(frozen=True, kw_only=True, slots=True)
class Spend:
    """One entry of a ledger: what was promised, and what that costs in the relation of the ledger.

    `head` is the hash of the chain up to this entry; None where no ledger was kept.
    """

    seq: int
    time: str  # UTC, ISO 8601
    purpose: str
    epsilon: Fraction
    cost: Fraction
    head: str | None

    def to_dict(self) -> dict[str, int | str | None]:
        """Give the entry as JSON-able facts, fractions as exact text."""
        return {
            "seq": self.seq,
            "time": self.time,
            "purpose": self.purpose,
            "epsilon": str(self.epsilon),
            "cost": str(self.cost),
            "head": self.head,
        }


class Unrecorded:
    """The purse of a run without a ledger: it refuses nothing, and the certificate says that nobody keeps count.

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

    def spend(self, parts: Mapping[str, Fraction], *, guarantee: Guarantee) -> tuple[Spend, ...]:
        """Note the parts of a promise. Nothing is converted: there is no budget to charge."""
        parts = check_parts(parts, guarantee)
        first = len(self._entries) + 1
        spends = tuple(
            Spend(seq=seq, time=now(), purpose=purpose, epsilon=epsilon, cost=epsilon, head=None)
            for seq, (purpose, epsilon) in enumerate(parts.items(), first)
        )
        self._entries += spends
        return spends

    @property
    def spent(self) -> Fraction:
        """The sum of what this run noted."""
        return sum((entry.cost for entry in self._entries), Fraction())

    def entries(self) -> list[Spend]:
        """List what this run noted."""
        return list(self._entries)


def check_parts(parts: Mapping[str, Fraction], guarantee: Guarantee) -> dict[str, Fraction]:
    """Refuse parts that are not exact, not above 0, without a purpose, or do not add up to the promise."""
    if not parts:
        raise ParameterError("a spend must have at least one part")
    for purpose, epsilon in parts.items():
        check_words(purpose, name="purpose")
        if not isinstance(epsilon, Fraction) or epsilon <= 0:  # a part below 0 would be a refund
            raise ParameterError("the epsilon of {purpose} must be an exact fraction above 0", purpose=purpose)
    exactly = {purpose: plain(epsilon) for purpose, epsilon in parts.items()}
    if sum(exactly.values()) != guarantee.epsilon:
        raise ParameterError(
            "the parts of a spend must add up to the epsilon of its guarantee ({epsilon})",
            epsilon=guarantee.epsilon,
        )
    return exactly


def check_words(words: str, *, name: str) -> None:
    """Refuse what would not print as one line in a list of spends."""
    is_line = isinstance(words, str) and words.strip() != "" and len(words) <= MAX_WORDS
    if not is_line or not words.replace("\u3000", " ").isprintable():  # the wide space of Japanese prints too
        raise ParameterError("{name} must be one line of 1 to {most} printable characters", name=name, most=MAX_WORDS)


def now() -> str:
    """Tell the time as ledgers store it.

    >>> now()[-1]
    'Z'
    """
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
