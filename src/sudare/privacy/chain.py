"""The hash chain of a ledger: every entry seals all before it.

The head of an entry is the SHA-256 of the canonical JSON of the entry and of the head before it; the first head covers
what the ledger is: currency, budget, neighbours, unit, name, time, a random id. Whoever changes, drops, swaps or
inserts an entry changes every later head, so one head kept elsewhere (in a certificate) gives them away. The hash is
over the text that is stored, not over what it means: "2/4" is not "1/2" here.

Entries of the first version, which knew neither currencies nor releases, keep their own hash: a ledger that was
migrated begins with them, and every head that a certificate of that time names is still in its chain.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from sudare.errors import LedgerError, ParameterError, SudareError
from sudare.privacy.currency import Currency, find_currency
from sudare.privacy.differential import DifferentialPrivacy, charge, check_neighbours
from sudare.privacy.exact import exact_delta
from sudare.privacy.spend import Spend, read_clock
from sudare.schema.unit import Unit

FORMAT = 2
FIRST_FORMAT = 1
SPEND, BIND, MIGRATE = "spend", "bind", "migrate"  # kinds of entries
MAX_FRACTION_BITS = 3000  # of the numerator and the denominator of a running total: some 900 digits each

_FRACTION_TEXT = re.compile(r"[1-9][0-9]*(?:/[1-9][0-9]*)?")
_RELEASE_ID = re.compile(r"[0-9a-f]{32}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Genesis(NamedTuple):
    """What a ledger is, as it is stored; `head` is the first of the chain."""

    format: int
    id: str
    name: str
    created: str
    currency: str
    budget: str
    delta: str | None
    neighbours: str
    unit: str | None
    head: str


class Entry(NamedTuple):
    """One entry as it is stored.

    A spend says what was promised (`currency`, `promised`, `neighbours`, `unit`), which part of that it is (`amount`),
    and what the part costs in the ledger. The other kinds cost nothing: `bind` names in `about` the SHA-256 of the
    certificate of a release, `migrate` the version that the entries before it were written by.
    """

    seq: int
    format: int
    time: str
    salt: str  # random: heads are published, and must not tell the time that they seal
    kind: str
    release: str
    about: str  # the purpose of a spend
    neighbours: str
    unit: str
    currency: str
    promised: str
    amount: str
    cost: str
    total: str
    head: str

    def to_spend(self, charged_in: Currency) -> Spend:
        """Read a spend; its text has been checked."""
        return Spend(
            seq=self.seq,
            time=self.time,
            purpose=self.about,
            amount=Fraction(self.amount),
            currency=find_currency(self.currency),
            cost=Fraction(self.cost),
            charged_in=charged_in,
            head=self.head,
            release=self.release,
            total=Fraction(self.total),
        )


@dataclass(kw_only=True, slots=True)
class ChainState:
    """What is known at the end of a chain, after every entry of it was checked."""

    seq: int = 0
    total: Fraction = Fraction()
    head: str
    unit: Unit | None
    format: int
    heads: set[str] = field(default_factory=set)
    certificates: dict[str, str | None] = field(default_factory=dict)  # of every release: the hash that was bound to it


# --- making ---------------------------------------------------------------------------------------------------------


def begin_chain(
    *, name: str, currency: Currency, budget: Fraction, delta: Fraction | None, neighbours: str, unit: Unit | None
) -> Genesis:
    """Start a chain.

    >>> first = begin_chain(
    ...     name="", currency=find_currency("epsilon"), budget=Fraction(2), delta=None, neighbours="replace", unit=None
    ... )
    >>> check_genesis(first, where="a ledger")
    """
    unsealed = Genesis(
        format=FORMAT,
        id=_draw_salt(),
        name=name,
        created=read_clock(),
        currency=currency.name,
        budget=str(budget),
        delta=None if delta is None else str(delta),
        neighbours=neighbours,
        unit=None if unit is None else write_unit(unit),
        head="",
    )
    return unsealed._replace(head=seal(unsealed, previous=""))


def add_spends(
    genesis: Genesis, state: ChainState, parts: Mapping[str, Fraction], *, guarantee: DifferentialPrivacy, release: str
) -> list[Entry]:
    """Make one entry a part, to stand behind the chain; the caller has checked that the budget allows it.

    The whole promise is charged, each part for its share of it: under rho a pure epsilon costs its square, which is
    more than the squares of its parts.
    """
    cost = guarantee.cost(genesis.neighbours, find_currency(genesis.currency))  # type: ignore[arg-type]
    time, unit, entries, total = read_clock(), write_unit(guarantee.unit), [], state.total
    previous = state.head
    for number, (purpose, amount) in enumerate(parts.items(), 1):
        part = cost * amount / guarantee.amount
        total += part
        unsealed = Entry(
            seq=state.seq + number,
            format=FORMAT,
            time=time,
            salt=_draw_salt(),
            kind=SPEND,
            release=release,
            about=purpose,
            neighbours=guarantee.neighbours,
            unit=unit,
            currency=guarantee.currency.name,
            promised=write_fraction(guarantee.amount),
            amount=write_fraction(amount),
            cost=write_fraction(part),
            total=write_fraction(total),
            head="",
        )
        entries.append(unsealed._replace(head=seal(unsealed, previous=previous)))
        previous = entries[-1].head
    return entries


def add_note(state: ChainState, kind: str, *, release: str, about: str) -> Entry:
    """Make an entry that costs nothing, to stand behind the chain."""
    empty = dict.fromkeys(("neighbours", "unit", "currency", "promised", "amount", "cost", "head"), "")
    unsealed = Entry(
        seq=state.seq + 1,
        format=FORMAT,
        time=read_clock(),
        salt=_draw_salt(),
        kind=kind,
        release=release,
        about=about,
        total=write_fraction(state.total),
        **empty,
    )
    return unsealed._replace(head=seal(unsealed, previous=state.head))


def _draw_salt() -> str:
    return os.urandom(16).hex()


def seal(row: Genesis | Entry, *, previous: str) -> str:
    """Hash a row with the head before it.

    Canonical: the columns without `head`, plus `previous` and `row` ("Genesis" or "Entry"); keys sorted, no spaces,
    everything beyond ASCII escaped. Anybody can recompute it with a JSON writer and SHA-256.
    """
    from hashlib import sha256

    facts: dict[str, object] = row._asdict()
    del facts["head"]
    if row.format == FIRST_FORMAT:
        facts = _name_as_first_version(facts, is_entry=isinstance(row, Entry))
    facts |= {"previous": previous, "row": type(row).__name__}
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return sha256(text.encode("ascii")).hexdigest()


def _name_as_first_version(facts: dict[str, object], *, is_entry: bool) -> dict[str, object]:
    """Give the columns of a row of the first version under the names they had; all others must be as filled in."""
    fixed = {"salt": "", "kind": SPEND, "release": "", "currency": "epsilon", "promised": ""}
    if not is_entry:
        fixed = {"currency": "epsilon", "delta": None}  # type: ignore[dict-item]
    for name, value in fixed.items():
        if facts.pop(name) != value:
            facts["altered"] = name  # no row of the first version has such a column: its hash cannot fit
    return {{"about": "purpose", "amount": "epsilon"}.get(name, name): value for name, value in facts.items()}


# --- checking -------------------------------------------------------------------------------------------------------


def check_genesis(genesis: Genesis, *, where: object) -> None:
    """Refuse a ledger whose first row is not the one it was made with."""
    version, *texts = genesis
    is_sound = version in (FIRST_FORMAT, FORMAT) and type(version) is int
    is_text = all(isinstance(text, str) for text in texts if text is not None)
    if not is_sound or not is_text or genesis.head != seal(genesis, previous=""):
        raise LedgerError(
            "{where} was altered: its budget, neighbours, unit or name is not what it was made with; "
            "restore a copy whose head a certificate names",
            where=where,
        )
    try:
        find_currency(genesis.currency)
        read_fraction(genesis.budget)
        check_neighbours(genesis.neighbours)
        read_unit(genesis.unit)
        if find_currency(genesis.currency).has_delta != (genesis.delta is not None):
            raise ValueError
        if genesis.delta is not None:
            exact_delta(genesis.delta)
    except (ValueError, SudareError):
        raise LedgerError("{where} is not a ledger this version can read; use a newer Sudare", where=where) from None


def begin_state(genesis: Genesis) -> ChainState:
    """Know what is known before the first entry; the genesis has been checked."""
    return ChainState(head=genesis.head, unit=read_unit(genesis.unit), format=genesis.format, heads={genesis.head})


def follow_chain(genesis: Genesis, state: ChainState, entries: Iterable[Entry], *, where: object) -> ChainState:
    """Move over entries that follow the state, and check each: place, hash, conversion, running total, budget, unit.

    Error: LedgerError that names the first entry that does not fit.
    """
    budget = Fraction(genesis.budget)
    for entry in entries:
        if entry.seq != state.seq + 1:
            raise LedgerError(
                "{where} was altered: entry {seq} is missing; restore a copy whose head a certificate names",
                where=where,
                seq=state.seq + 1,
            )
        _check_seal(entry, previous=state.head, where=where)
        try:
            _follow(genesis, state, entry)
        except (ValueError, SudareError):
            raise LedgerError(
                "{where} was altered: the sums or the unit of entry {seq} are wrong; restore a copy whose"
                " head a certificate names",
                where=where,
                seq=entry.seq,
            ) from None
        if state.total > budget:
            raise LedgerError(
                "{where} is overspent: {total} of {budget}; publish nothing more about this table",
                where=where,
                total=state.total,
                budget=budget,
            )
    return state


def _check_seal(entry: Entry, *, previous: str, where: object) -> None:
    """Refuse an entry that does not fit its head and the head before it."""
    seq, version, *texts = entry
    is_sound = type(seq) is int and type(version) is int and all(isinstance(text, str) for text in texts)
    if not is_sound or entry.head != seal(entry, previous=previous):
        raise LedgerError(
            "{where} was altered: entry {seq} does not fit the chain of hashes; nothing can be spent from it, "
            "restore a copy whose head a certificate names",
            where=where,
            seq=seq,
        )


def _follow(genesis: Genesis, state: ChainState, entry: Entry) -> None:
    """Move the state over one entry; ValueError or SudareError if anything in it is wrong."""
    total = state.total
    if entry.kind == SPEND:
        total += _check_spend(genesis, state, entry)
    elif entry.kind == BIND:
        _check_binding(state, entry)
        state.certificates[entry.release] = entry.about
    elif entry.kind != MIGRATE or (entry.about, state.format) != (str(FIRST_FORMAT), FIRST_FORMAT):
        raise ValueError
    if entry.format != (FORMAT if entry.kind == MIGRATE else state.format):
        raise ValueError
    if read_total(entry.total) != total:
        raise ValueError
    state.format, state.seq, state.total, state.head = entry.format, entry.seq, total, entry.head
    state.heads.add(entry.head)


def _check_spend(genesis: Genesis, state: ChainState, entry: Entry) -> Fraction:
    """Give the cost of a spend, if it is what its promise costs in this ledger and protects the same unit."""
    amount, cost, unit = read_fraction(entry.amount), read_fraction(entry.cost), read_unit(entry.unit)
    promised = amount if entry.format == FIRST_FORMAT else read_fraction(entry.promised)
    price = charge(
        promised,
        find_currency(entry.currency),
        entry.neighbours,
        charged_in=find_currency(genesis.currency),
        kept_for=genesis.neighbours,
    )
    if cost != price * amount / promised or unit is None or not unit.protects_the_same(state.unit or unit):
        raise ValueError
    if entry.format != FIRST_FORMAT:
        if not _RELEASE_ID.fullmatch(entry.release):
            raise ValueError
        state.certificates.setdefault(entry.release, None)
    state.unit = state.unit or unit
    return cost


def _check_binding(state: ChainState, entry: Entry) -> None:
    """Refuse the certificate of a release that nothing was spent for, and a second one."""
    if state.certificates.get(entry.release, entry.about) is not None or not _SHA256.fullmatch(entry.about):
        raise ValueError


def is_sha256(text: str) -> bool:
    """Tell whether a text is a SHA-256 as it is written here: 64 small hexadecimal digits.

    >>> is_sha256("0" * 64), is_sha256("0" * 40)
    (True, False)
    """
    return isinstance(text, str) and _SHA256.fullmatch(text) is not None


# --- texts of numbers and units -------------------------------------------------------------------------------------


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


def read_total(text: str) -> Fraction:
    """Read a running total: a fraction, or 0 where nothing was spent yet.

    >>> read_total("0")
    Fraction(0, 1)
    """
    return Fraction() if text == "0" else read_fraction(text)
