"""The ledger: what may be spent on one protected data set, and everything that was."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from fractions import Fraction
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Protocol, cast

from sudare.errors import BudgetExceeded, LedgerError, RelationMismatch
from sudare.privacy.address import is_server_address
from sudare.privacy.chain import (
    BIND,
    FIRST_FORMAT,
    FORMAT,
    MIGRATE,
    SPEND,
    ChainState,
    Entry,
    Genesis,
    add_note,
    add_spends,
    begin_chain,
    begin_state,
    check_genesis,
    follow_chain,
    is_sha256,
)
from sudare.privacy.currency import Currency, find_currency, read_amount
from sudare.privacy.differential import DifferentialPrivacy, Neighbours, check_neighbours
from sudare.privacy.exact import Number, write_exact
from sudare.privacy.ledger_file import LedgerFile, make_file
from sudare.privacy.spend import Spend, check_line, check_parts, new_release_id
from sudare.schema.unit import Unit
from sudare.text import Text, join, text
from sudare.text.cards import bar, card

WAIT_SECONDS = 30.0  # for a lock that another process holds
MERGE_EVERY = 500  # entries: a log of about 4 MB, at which SQLite would merge it by itself


class LedgerStore(Protocol):
    """Where a chain is kept: a file of SQLite, or a schema of a PostgreSQL server."""

    lock: RLock

    @property
    def where(self) -> object:
        """The place, as messages name it; never with a password."""

    @property
    def version(self) -> int:
        """The version that the place is kept in."""

    def genesis(self) -> Genesis:
        """Read what the ledger is."""

    def entries(self, *, after: int | None = None) -> list[Entry]:
        """Read the chain behind an entry as it stands at one moment; all of it if none is named."""

    def look(self, *, after: int | None) -> tuple[object, list[Entry]]:
        """Read the chain behind an entry, and a fingerprint that changes whenever more was done than adding entries."""

    def check_format(self) -> None:
        """Refuse a place that is not kept as a ledger is, such as one whose triggers are gone."""

    def check_pages(self) -> None:
        """Check the place itself, as far as it can be checked."""

    def writing(self, *, after: int | None) -> AbstractContextManager[None]:
        """Hold the lock that lets one process write; at the end all is on the disk, or nothing happened.

        The first look is `after` an entry: a server can answer it together with the lock.
        """

    def append(self, entries: list[Entry]) -> None:
        """Add entries at the end; only inside `writing`."""

    def rewrite(self, genesis: Genesis, entries: list[Entry]) -> None:
        """Write a ledger of an older version as one of ours; only inside `writing`."""

    def merge(self) -> None:
        """Tidy up; called now and then."""

    def close(self) -> None:
        """Let go of the place."""


class Ledger:
    """The budget of one data set, for one currency, one neighbour relation and one unit.

    It is kept in one SQLite file, or for several machines on a PostgreSQL server (`postgresql://user@host/database`).
    Spends are only ever added, as exact fractions in a chain of hashes. Many processes may spend at once: a spend
    is checked and written under one lock and is on the disk before the caller draws any noise, so that a crash
    never refunds and nothing is spent twice over. A chain that is broken anywhere is refused, also by a ledger that is
    open. Keep the head of the chain elsewhere: it shows a truncation.

    The file lives with its `-wal` and `-shm` beside it, on a local disk: move and mount the directory, not the
    file alone, and not over a network.

    Guarantee: all releases together keep `budget` for every unit. Proof: proofs/composition.md

    >>> import tempfile
    >>> from sudare.privacy import Guarantee
    >>> folder = tempfile.TemporaryDirectory()
    >>> promise = Guarantee(epsilon=Fraction(1, 2), neighbours="replace", unit=Unit())
    >>> with Ledger.create(Path(folder.name) / "people.ledger", epsilon="0.6") as ledger:
    ...     spends = ledger.spend({"noise in every cell": Fraction(1, 2)}, guarantee=promise)
    ...     print(ledger.left, "of", ledger.budget, "is left")
    1/10 of 3/5 is left
    >>> folder.cleanup()
    """

    def __init__(self, path: str | Path, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self._address = str(path) if is_server_address(path) else str(Path(path).absolute())
        self._file = _open_store(path, wait_seconds)
        try:
            self._restart()
        except BaseException:
            self._file.close()
            raise

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        delta: Number | None = None,
        neighbours: Neighbours = "replace",
        unit: Unit | None = None,
        name: str = "",
    ) -> Ledger:
        """Make a ledger and open it; a file of that name is never overwritten, and a failure leaves none.

        The budget is an epsilon, or a rho, or an epsilon with a delta: then it is the largest rho that keeps both.
        Without a unit the first spend decides who is protected.
        """
        currency, budget, told_at = read_amount(epsilon=epsilon, rho=rho, delta=delta)
        check_neighbours(neighbours)
        if name:
            check_line(name, name="name")
        genesis = begin_chain(
            name=name, currency=currency, budget=budget, delta=told_at, neighbours=neighbours, unit=unit
        )
        if is_server_address(path):
            from sudare.privacy.ledger_server import make_on_server

            make_on_server(str(path), genesis)
        else:
            make_file(Path(path), genesis)
        return cls(path)

    @classmethod
    def open(cls, path: str | Path, *, wait_seconds: float = WAIT_SECONDS) -> Ledger:
        """Open a ledger; whatever is not one, or is damaged anywhere in its chain, is refused."""
        return cls(path, wait_seconds=wait_seconds)

    @classmethod
    def exists(cls, path: str | Path) -> bool:
        """Tell whether something stands where a ledger would be made; whether it is one, only opening it tells."""
        if not is_server_address(path):
            return os.path.lexists(path)
        from sudare.privacy.ledger_server import exists_on_server

        return exists_on_server(str(path))

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        """Travel to another process as its place: every process opens it itself."""
        return Ledger, (self._address,)

    def __repr__(self) -> str:
        return f"<Ledger {self.where} ({self.currency.name} {self.budget}, {self.neighbours})>"

    def _repr_html_(self) -> str:
        """Show the budget and what was spent of it in a notebook."""
        spent, currency = self.spent, self.currency.name
        share = float(spent / self.budget)
        gauge = bar(share, label=text("{spent} of {budget} spent, {left} left", spent=spent, budget=self.budget,
                                      left=self.budget - spent))  # fmt: skip
        rows = [
            (spend.purpose, f"{spend.currency.name} {spend.amount}", spend.cost, spend.time[:10])
            for spend in self.entries()
        ]
        columns = [text("purpose"), text("promised"), text("charged"), text("day")]
        return card(
            text("Ledger {name}", name=self.name or Path(str(self.where)).name),
            notes=[
                gauge,
                text("currency: {currency}", currency=currency),
                text("neighbours: {neighbours}", neighbours=self.neighbours),
            ],
            columns=columns,
            rows=rows,
        )

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    # --- what it is -----------------------------------------------------------------------------------------------

    @property
    def where(self) -> object:
        """The place of the ledger, as messages name it."""
        return self._file.where

    @property
    def path(self) -> Path:
        """The file of the ledger; of one on a server, its address without a password."""
        return Path(str(self.where))

    @property
    def version(self) -> int:
        """The version that the ledger is kept in; one of version 1 can be read, and spends after `migrate`."""
        return self._file.version

    @property
    def name(self) -> str:
        """The name given when the ledger was made."""
        return self._genesis.name

    @property
    def created(self) -> str:
        """When the ledger was made, UTC."""
        return self._genesis.created

    @property
    def currency(self) -> Currency:
        """What the budget and all costs are counted in."""
        return find_currency(self._genesis.currency)

    @property
    def delta(self) -> Fraction | None:
        """The delta at which the budget is told as epsilon; None in pure epsilon."""
        return None if self._genesis.delta is None else Fraction(self._genesis.delta)

    @property
    def budget(self) -> Fraction:
        """All that may ever be spent."""
        return Fraction(self._genesis.budget)

    @property
    def neighbours(self) -> Neighbours:
        """The relation that costs are counted in."""
        return cast(Neighbours, self._genesis.neighbours)

    @property
    def unit(self) -> Unit | None:
        """Who is protected; None until the first spend decides it."""
        return self._read_state().unit

    @property
    def spent(self) -> Fraction:
        """The sum of all costs so far, those of other processes included."""
        return self._read_state().total

    @property
    def left(self) -> Fraction:
        """What may still be spent."""
        return self.budget - self.spent

    @property
    def head(self) -> str:
        """The hash that seals everything so far. Kept elsewhere, it shows whether entries were removed."""
        return self._read_state().head

    @property
    def length(self) -> int:
        """How many entries the chain has: spends, certificates bound, migrations."""
        return self._read_state().seq

    def describe(self, amount: Fraction) -> Text:
        """Say an amount of this ledger in words, in its currency."""
        return self.currency.describe(amount, delta=self.delta)

    # --- spending -------------------------------------------------------------------------------------------------

    def spend(
        self, parts: Mapping[str, Fraction], *, guarantee: DifferentialPrivacy, release: str | None = None
    ) -> tuple[Spend, ...]:
        """Spend all parts of a promise, or none, before any noise is drawn.

        `parts` tells the amount of each purpose, in the currency of the promise; they add up to `guarantee.amount`.
        What is charged is converted to the currency and relation of the ledger. `release` is the id of the release;
        a new one is drawn if none is given. When this returns, the spends are on the disk.

        Error: BudgetExceeded when not enough is left, RelationMismatch for a promise that cannot be converted or
        protects another unit, LedgerError when the ledger is damaged, locked for long, full or not writable.
        """
        parts = check_parts(parts, guarantee)
        cost = guarantee.cost(self.neighbours, self.currency)
        with self._file.lock:
            with self._file.writing(after=self._before_tip):
                state = self._read_state()
                self._check_version()
                self._check_unit(state, guarantee.unit)
                self._check_left(state, parts, guarantee, cost)
                entries = add_spends(
                    self._genesis, state, parts, guarantee=guarantee, release=release or new_release_id()
                )
                self._file.append(entries)
            self._advance(entries)
        return tuple(entry.to_spend(self.currency) for entry in entries)

    def bind(self, release: str, certificate: str) -> None:
        """Seal the SHA-256 of the certificate of a release into the chain; it costs nothing, and stays.

        Binding the same certificate again changes nothing.

        Error: LedgerError if nothing was spent for the release, or it has another certificate.
        """
        if not is_sha256(certificate):
            raise LedgerError("the hash of a certificate must be a SHA-256: 64 small hexadecimal digits")
        with self._file.lock:
            with self._file.writing(after=self._before_tip):
                state = self._read_state()
                self._check_version()
                bound = state.certificates.get(release, "")
                if bound == certificate:
                    return
                if bound == "":
                    raise LedgerError(
                        "{where} holds no spend of release {release}; use the ledger that was charged for it",
                        where=self.where,
                        release=release[:64],
                    )
                if bound is not None:
                    raise LedgerError(
                        "{where} holds another certificate of release {release}; a release has one",
                        where=self.where,
                        release=release,
                    )
                entry = add_note(state, BIND, release=release, about=certificate)
                self._file.append([entry])
            self._advance([entry])

    def certificate_of(self, release: str) -> str | None:
        """Tell the SHA-256 of the certificate of a release; None if none was bound, or nothing spent for it."""
        return self._read_state().certificates.get(release)

    def entries(self) -> list[Spend]:
        """List every spend, oldest first; a chain that does not fit is refused."""
        return [entry.to_spend(self.currency) for entry in self._read_all() if entry.kind == SPEND]

    def verify(self, *, head: str | None = None) -> None:
        """Recompute the whole ledger: pages, chain, order, conversions, running totals, budget, unit.

        With `head`, one that was kept elsewhere, also check that it is in the chain: whoever truncates a ledger or
        writes a new one can make the rest fit, but not this.

        Error: LedgerError that names the first thing that does not fit.
        """
        known_head = self._state.head  # before the entries are read: another thread may add some meanwhile
        self._file.check_pages()
        genesis = self._file.genesis()
        check_genesis(genesis, where=self.where)
        heads = follow_chain(genesis, begin_state(genesis), self._file.entries(), where=self.where).heads
        for wanted in (known_head, head):
            if wanted is not None and wanted.strip().lower() not in heads:
                raise LedgerError(
                    "{where} does not hold the head {head}: entries were removed, or it is another"
                    " ledger; look for the copy that holds it",
                    where=self.where,
                    head=wanted.strip()[:64],
                )

    def migrate(self) -> None:
        """Write a ledger of version 1 as one of this version, wholly or not at all; every head stays in the chain.

        One that is of this version already is left as it is.
        """
        with self._file.lock:
            with self._file.writing(after=self._before_tip):
                if self._file.version == FORMAT:
                    return
                state, entries = self._read_state(), self._file.entries()
                note = add_note(state, MIGRATE, release="", about=str(FIRST_FORMAT))
                self._file.rewrite(self._genesis, [*entries, note])
            self._restart()

    # --- the chain ------------------------------------------------------------------------------------------------

    def _restart(self) -> None:
        """Check the whole chain from its beginning, and that it still holds what was seen of it before."""
        known = getattr(self, "_state", None)
        self._file.check_format()
        fingerprint, entries = self._file.look(after=None)
        self._genesis = self._file.genesis()
        check_genesis(self._genesis, where=self.where)
        state = follow_chain(self._genesis, begin_state(self._genesis), entries, where=self.where)
        if known is not None and known.head not in state.heads:
            raise self._name_loss(known)
        self._state, self._fingerprint = state, fingerprint

    def _read_state(self) -> ChainState:
        """Check what was added since the last look; all of it, if more than that was done to the place."""
        with self._file.lock:
            state = self._state
            fingerprint, added = self._file.look(after=self._before_tip)
            if fingerprint != self._fingerprint:
                self._restart()
                return self._state
            if state.seq:
                if not added or (added[0].seq, added[0].head) != (state.seq, state.head):
                    raise self._name_loss(state)
                del added[0]
            return follow_chain(self._genesis, state, added, where=self.where)

    @property
    def _before_tip(self) -> int | None:
        """The place before the last entry that is known; None before the first."""
        return self._state.seq - 1 if self._state.seq else None

    def _read_all(self) -> list[Entry]:
        with self._file.lock:
            entries = self._file.entries()
            follow_chain(self._genesis, begin_state(self._genesis), entries, where=self.where)
            return entries

    def _advance(self, entries: list[Entry]) -> None:
        """Move over what this process has written, and tidy up now and then."""
        before = self._state.seq
        follow_chain(self._genesis, self._state, entries, where=self.where)
        if before // MERGE_EVERY != self._state.seq // MERGE_EVERY:
            self._file.merge()

    def _name_loss(self, known: ChainState) -> LedgerError:
        return LedgerError(
            "{where} was altered: entries that were there are gone; restore a copy that holds the head {head}",
            where=self.where,
            head=known.head,
        )

    def _check_version(self) -> None:
        if self._file.version != FORMAT:
            raise LedgerError(
                "{where} is a ledger of version {version}: it can be read, but not spent from; write it as version"
                " {current} with: sudare ledger migrate {where}",
                where=self.where,
                version=self._file.version,
                current=FORMAT,
            )

    def _check_unit(self, state: ChainState, unit: Unit) -> None:
        if state.unit is not None and not state.unit.protects_the_same(unit):
            raise RelationMismatch(
                "the ledger protects {kept}, but the release protects {unit}; keep one ledger for each",
                kept=state.unit.describe(),
                unit=unit.describe(),
            )

    def _check_left(
        self, state: ChainState, parts: Mapping[str, Fraction], guarantee: DifferentialPrivacy, cost: Fraction
    ) -> None:
        left = self.budget - state.total
        if cost <= left:
            return
        values = {
            "purpose": join((Text(purpose) for purpose in parts), " + "),
            "cost": self.describe(cost),
            "left": write_exact(left),
            "budget": write_exact(self.budget),
        }
        if guarantee.currency is self.currency and cost == guarantee.amount:
            raise BudgetExceeded(
                "{purpose} asks for {cost}, but {left} of {budget} is left; ask for less, since nothing spent comes"
                " back",
                **values,
            )
        raise BudgetExceeded(
            "{purpose} asks for {cost}, which is what {promised} between neighbours {neighbours} costs in this ledger,"
            " but {left} of {budget} is left; ask for less, since nothing spent comes back",
            promised=guarantee.currency.describe(guarantee.amount, delta=guarantee.delta),
            neighbours=guarantee.neighbours,
            **values,
        )


def _open_store(place: str | Path, wait_seconds: float) -> LedgerStore:
    if is_server_address(place):
        from sudare.privacy.ledger_server import ServerLedger

        return ServerLedger(str(place), wait_seconds=wait_seconds)
    return LedgerFile(Path(place), wait_seconds=wait_seconds)
