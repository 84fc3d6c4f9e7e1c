"""What is spent, and the hash chain of a ledger: every entry seals all before it.

The head of an entry is the SHA-256 of the canonical JSON of the entry and of the head before it; the first head covers
what the ledger is: budget, neighbours, unit, name, time, a random id. Whoever changes, drops, swaps or inserts an entry
changes every later head, so one head kept elsewhere (in a certificate) gives them away. The hash is over the text that
is stored, not over what it means: "2/4" is not "1/2" here.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import NamedTuple

from sudare.errors import LedgerError, ParameterError, SudareError
from sudare.forms.numbers import plain
from sudare.privacy.differential import DifferentialPrivacy, Guarantee, Neighbours, check_neighbours, steps_between
from sudare.schema.unit import Unit
from sudare.text import Text

# --- what is spent --------------------------------------------------------------------------------------------------

LONGEST_LINE = 200  # characters of a purpose or a name


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
    """Stands for the ledger of a run that keeps none: it refuses nothing, and the certificate says so.

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

    def spend(self, parts: Mapping[str, Fraction], *, guarantee: DifferentialPrivacy) -> tuple[Spend, ...]:
        """Note the parts of a promise. Nothing is converted: there is no budget to charge."""
        parts = check_parts(parts, guarantee)
        first = len(self._entries) + 1
        spends = tuple(
            Spend(seq=seq, time=read_clock(), purpose=purpose, epsilon=epsilon, cost=epsilon, head=None)
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


# --- the chain ------------------------------------------------------------------------------------------------------

FORMAT = 1
MAX_FRACTION_BITS = 3000  # of the numerator and the denominator of a running total: some 900 digits each

_FRACTION_TEXT = re.compile(r"[1-9][0-9]*(?:/[1-9][0-9]*)?")


class Genesis(NamedTuple):
    """What a ledger is, as its file stores it; `head` is the first of the chain."""

    id: str
    name: str
    created: str
    budget: str
    neighbours: str
    unit: str | None
    head: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Tip:
    """The end of a chain: how many entries, what they cost together, and the head."""

    seq: int
    total: Fraction
    head: str


class Entry(NamedTuple):
    """One spend as the file stores it."""

    seq: int
    time: str
    purpose: str
    neighbours: str
    unit: str
    epsilon: str
    cost: str
    total: str
    head: str

    def to_spend(self) -> Spend:
        """Read the entry; its text has been checked."""
        return Spend(
            seq=self.seq,
            time=self.time,
            purpose=self.purpose,
            epsilon=Fraction(self.epsilon),
            cost=Fraction(self.cost),
            head=self.head,
        )

    def to_tip(self) -> Tip:
        """See the entry as the end of its chain; its text has been checked."""
        return Tip(seq=self.seq, total=Fraction(self.total), head=self.head)


def begin_chain(*, name: str, budget: Fraction, neighbours: str, unit: Unit | None) -> Genesis:
    """Start a chain.

    >>> first = begin_chain(name="", budget=Fraction(2), neighbours="replace", unit=None)
    >>> check_genesis(first, where="a ledger")
    """
    unsealed = Genesis(
        id=os.urandom(16).hex(),
        name=name,
        created=read_clock(),
        budget=str(budget),
        neighbours=neighbours,
        unit=None if unit is None else write_unit(unit),
        head="",
    )
    return unsealed._replace(head=seal(unsealed, previous=""))


def extend_chain(tip: Tip, parts: Mapping[str, Fraction], *, guarantee: Guarantee, factor: int) -> list[Entry]:
    """Add one entry a part behind the tip; the caller has checked that the budget allows it."""
    time, unit, entries = read_clock(), write_unit(guarantee.unit), []
    for purpose, epsilon in parts.items():
        unsealed = Entry(
            seq=tip.seq + 1,
            time=time,
            purpose=purpose,
            neighbours=guarantee.neighbours,
            unit=unit,
            epsilon=write_fraction(epsilon),
            cost=write_fraction(factor * epsilon),
            total=write_fraction(tip.total + factor * epsilon),
            head="",
        )
        entries.append(unsealed._replace(head=seal(unsealed, previous=tip.head)))
        tip = entries[-1].to_tip()
    return entries


def seal(row: Genesis | Entry, *, previous: str) -> str:
    """Hash a row with the head before it.

    Canonical: the columns without `head`, plus `previous`, `format` and `row` ("Genesis" or "Entry"); keys sorted,
    no spaces, everything beyond ASCII escaped. Anybody can recompute it with a JSON writer and SHA-256.
    """
    from hashlib import sha256

    facts: dict[str, object] = row._asdict()
    del facts["head"]
    facts |= {"previous": previous, "format": FORMAT, "row": type(row).__name__}
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256(text.encode("ascii")).hexdigest()


def check_genesis(genesis: Genesis, *, where: object) -> None:
    """Refuse a ledger whose first row is not the one it was made with."""
    texts = [value for value in genesis if value is not None]
    if not all(isinstance(text, str) for text in texts) or genesis.head != seal(genesis, previous=""):
        raise LedgerError(
            "{where} was altered: its budget, neighbours, unit or name is not what it was made with; "
            "restore a copy whose head a certificate names",
            where=where,
        )
    try:
        read_fraction(genesis.budget)
        check_neighbours(genesis.neighbours)
        read_unit(genesis.unit)
    except (ValueError, SudareError):
        raise LedgerError("{where} is not a ledger this version can read; use a newer Sudare", where=where) from None


def check_seal(entry: Entry, *, previous: str, where: object) -> None:
    """Refuse an entry that does not fit its head and the head before it."""
    seq, *texts = entry
    is_sound = isinstance(seq, int) and all(isinstance(text, str) for text in (*texts, previous))
    if not is_sound or entry.head != seal(entry, previous=previous):
        raise LedgerError(
            "{where} was altered: entry {seq} does not fit the chain of hashes; nothing can be spent from it, "
            "restore a copy whose head a certificate names",
            where=where,
            seq=seq,
        )


def read_tip(genesis: Genesis, newest: list[Entry], *, where: object) -> Tip:
    """Read the end of a chain off its last two entries, newest first, if it fits its hash."""
    if not newest:
        return Tip(seq=0, total=Fraction(), head=genesis.head)
    last, *before = newest
    after, previous = (before[0].seq, before[0].head) if before else (0, genesis.head)
    if last.seq != after + 1:
        raise LedgerError(
            "{where} was altered: entry {seq} is missing; restore a copy whose head a certificate names",
            where=where,
            seq=after + 1,
        )
    check_seal(last, previous=previous, where=where)
    try:
        read_fraction(last.total)
    except ValueError:
        raise _name_wrong_entry(last, where) from None
    return last.to_tip()


def check_history(genesis: Genesis, entries: Iterable[Entry], *, where: object) -> list[str]:
    """Recompute a whole ledger and give every head of it, the first row's included.

    The order without gaps, every hash, every conversion, every running total, the budget and the unit.
    """
    check_genesis(genesis, where=where)
    budget, unit = Fraction(genesis.budget), read_unit(genesis.unit)
    tip, heads = Tip(seq=0, total=Fraction(), head=genesis.head), [genesis.head]
    for entry in entries:
        if entry.seq != tip.seq + 1:
            raise LedgerError(
                "{where} was altered: entry {seq} is missing; restore a copy whose head a certificate names",
                where=where,
                seq=tip.seq + 1,
            )
        check_seal(entry, previous=tip.head, where=where)
        tip, unit = _follow(genesis, tip, entry, unit, where)
        if tip.total > budget:
            raise LedgerError(
                "{where} is overspent: {total} of {budget}; publish nothing more about this table",
                where=where,
                total=tip.total,
                budget=budget,
            )
        heads.append(tip.head)
    return heads


def _follow(genesis: Genesis, tip: Tip, entry: Entry, unit: Unit | None, where: object) -> tuple[Tip, Unit]:
    """Move the tip over one entry, if its sums and its unit are right."""
    try:
        factor = steps_between(entry.neighbours, genesis.neighbours)
        cost, total = read_fraction(entry.cost), read_fraction(entry.total)
        protected = read_unit(entry.unit)
        is_right = cost == factor * read_fraction(entry.epsilon) and total == tip.total + cost
    except (ValueError, SudareError):
        is_right = False
    if not is_right or protected is None or not protected.protects_the_same(unit or protected):
        raise _name_wrong_entry(entry, where)
    return entry.to_tip(), unit or protected


def _name_wrong_entry(entry: Entry, where: object) -> LedgerError:
    return LedgerError(
        "{where} was altered: the sums or the unit of entry {seq} are wrong; restore a copy whose"
        " head a certificate names",
        where=where,
        seq=entry.seq,
    )


def write_unit(unit: Unit) -> str:
    """Write a unit as canonical JSON."""
    return json.dumps(unit.to_dict(), sort_keys=True, separators=(",", ":"))


def read_unit(text: str | None) -> Unit | None:
    """Read what `write_unit` wrote; ValueError or SudareError for anything else."""
    if text is None:
        return None
    try:
        facts = json.loads(text)
    except RecursionError:
        raise ValueError from None
    if not isinstance(facts, dict):
        raise ValueError
    return Unit.from_dict(facts)


def write_fraction(number: Fraction) -> str:
    """Write a fraction, unless sums of odd denominators have made it longer than any reader wants."""
    if max(number.numerator, number.denominator).bit_length() > MAX_FRACTION_BITS:
        raise ParameterError(
            "the sum of the fractions in the ledger has too many digits; spend decimals or simple fractions"
        )
    return str(number)


def read_fraction(text: str) -> Fraction:
    """Read what `write_fraction` wrote; ValueError for anything else.

    >>> read_fraction("1/2")
    Fraction(1, 2)
    """
    if len(text) > MAX_FRACTION_BITS or not _FRACTION_TEXT.fullmatch(text):
        raise ValueError
    number = Fraction(text)
    if str(number) != text:
        raise ValueError
    return number
