"""The ledger: what may be spent on one protected data set, and everything that was."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import cast

from sudare.errors import BudgetExceeded, LedgerError, RelationMismatch
from sudare.privacy.chain import (
    Spend,
    Tip,
    Unrecorded,
    begin_chain,
    check_genesis,
    check_history,
    check_line,
    check_parts,
    check_seal,
    extend_chain,
    read_tip,
    read_unit,
)
from sudare.privacy.differential import Guarantee, Neighbours, check_neighbours
from sudare.privacy.exact import Number, exact_epsilon
from sudare.privacy.ledger_file import LedgerFile, make_file
from sudare.schema.unit import Unit
from sudare.text import Text, join, text
from sudare.text.cards import bar, card

__all__ = ["Ledger", "Spend", "Unrecorded"]

WAIT_SECONDS = 30.0  # for a lock that another process holds
MERGE_EVERY = 500  # entries: a log of about 4 MB, at which SQLite would merge it by itself


class Ledger:
    """The budget of one data set in one SQLite file, for one neighbour relation and one unit.

    Spends are only ever added, as exact fractions in a chain of hashes. Many processes may spend at once: a spend
    is checked and written under one lock and is on the disk before the caller draws any noise, so that a crash
    never refunds and nothing is spent twice over. Keep the head of the chain elsewhere: it shows a truncation.

    The file lives with its `-wal` and `-shm` beside it, on a local disk: move and mount the directory, not the
    file alone, and not over a network.

    Guarantee: all releases together keep `budget` for every unit. Proof: proofs/composition.md

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> promise = Guarantee(epsilon=Fraction(1, 2), neighbours="replace", unit=Unit())
    >>> with Ledger.create(Path(folder.name) / "people.ledger", epsilon="0.6") as ledger:
    ...     spends = ledger.spend({"noise in every cell": Fraction(1, 2)}, guarantee=promise)
    ...     print(ledger.left, "of", ledger.budget, "is left")
    1/10 of 3/5 is left
    >>> folder.cleanup()
    """

    def __init__(self, path: str | Path, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self.path = Path(path)
        self._file = LedgerFile(self.path, wait_seconds=wait_seconds)
        try:
            self._genesis = self._file.genesis()
            check_genesis(self._genesis, where=self.path)
            self._unit = read_unit(self._genesis.unit)
            self._known = Tip(seq=0, total=Fraction(), head=self._genesis.head)
            self._known = self._tip()
        except BaseException:
            self._file.close()
            raise

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        epsilon: Number,
        neighbours: Neighbours = "replace",
        unit: Unit | None = None,
        name: str = "",
    ) -> Ledger:
        """Make a ledger and open it; a file of that name is never overwritten, and a failure leaves none.

        Without a unit the first spend decides who is protected.
        """
        budget = exact_epsilon(epsilon)
        check_neighbours(neighbours)
        if name:
            check_line(name, name="name")
        make_file(Path(path), begin_chain(name=name, budget=budget, neighbours=neighbours, unit=unit))
        return cls(path)

    @classmethod
    def open(cls, path: str | Path, *, wait_seconds: float = WAIT_SECONDS) -> Ledger:
        """Open a ledger; whatever is not one, or is damaged at its ends, is refused."""
        return cls(path, wait_seconds=wait_seconds)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        """Travel to another process as a path: every process opens the file itself."""
        return Ledger, (self.path.absolute(),)

    def __repr__(self) -> str:
        return f"<Ledger {self.path} (epsilon {self.budget}, {self.neighbours})>"

    def _repr_html_(self) -> str:
        """Show the budget and what was spent of it in a notebook."""
        spent = self.spent
        share = float(spent / self.budget)
        gauge = bar(share, label=text("{spent} of {budget} spent, {left} left", spent=spent, budget=self.budget,
                                      left=self.budget - spent))  # fmt: skip
        rows = [(spend.purpose, spend.epsilon, spend.cost, spend.time[:10]) for spend in self.entries()]
        columns = [text("purpose"), "epsilon", text("charged"), text("day")]
        return card(
            text("Ledger {name}", name=self.name or self.path.name),
            notes=[gauge, text("neighbours: {neighbours}", neighbours=self.neighbours)],
            columns=columns,
            rows=rows,
        )

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def name(self) -> str:
        """The name given when the ledger was made."""
        return self._genesis.name

    @property
    def created(self) -> str:
        """When the ledger was made, UTC."""
        return self._genesis.created

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
        if self._unit is None and (first := self._file.entry(1)):
            check_seal(first, previous=self._genesis.head, where=self.path)
            self._unit = read_unit(first.unit)
        return self._unit

    @property
    def spent(self) -> Fraction:
        """The sum of all costs so far, those of other processes included."""
        return self._tip().total

    @property
    def left(self) -> Fraction:
        """What may still be spent."""
        return self.budget - self.spent

    @property
    def head(self) -> str:
        """The hash that seals everything so far. Kept elsewhere, it shows whether entries were removed."""
        return self._tip().head

    def spend(self, parts: Mapping[str, Fraction], *, guarantee: Guarantee) -> tuple[Spend, ...]:
        """Spend all parts of a promise, or none, before any noise is drawn.

        `parts` tells the epsilon of each purpose; they add up to `guarantee.epsilon`. What is charged is converted
        to the relation of the ledger. When this returns, the spends are on the disk.

        Error: BudgetExceeded when not enough is left, RelationMismatch for a promise that cannot be converted or
        protects another unit, LedgerError when the file is damaged, locked for long, full or not writable.
        """
        parts = check_parts(parts, guarantee)
        factor = guarantee.factor(self.neighbours)
        with self._file.lock:
            with self._file.writing():
                tip = self._tip()
                self._check_unit(guarantee.unit)
                self._check_left(tip, parts, factor)
                entries = extend_chain(tip, parts, guarantee=guarantee, factor=factor)
                self._file.append(entries)
            self._known = entries[-1].to_tip()
            if tip.seq // MERGE_EVERY != self._known.seq // MERGE_EVERY:
                self._file.merge()
        return tuple(entry.to_spend() for entry in entries)

    def entries(self) -> list[Spend]:
        """List every spend, oldest first; a chain that does not fit is refused."""
        entries = self._file.entries()
        check_history(self._genesis, entries, where=self.path)
        return [entry.to_spend() for entry in entries]

    def verify(self, *, head: str | None = None) -> None:
        """Recompute the whole ledger: pages, chain, order, conversions, running totals, budget, unit.

        With `head`, one that was kept elsewhere, also check that it is in the chain: whoever truncates a ledger or
        writes a new one can make the rest fit, but not this.

        Error: LedgerError that names the first thing that does not fit.
        """
        known_head = self._known.head  # before the entries are read: another thread may add some meanwhile
        self._file.check_pages()
        heads = check_history(self._file.genesis(), self._file.entries(), where=self.path)
        for wanted in (known_head, head):
            if wanted is not None and wanted.strip().lower() not in heads:
                raise LedgerError(
                    "{where} does not hold the head {head}: entries were removed, or it is another"
                    " ledger; look for the copy that holds it",
                    where=self.path,
                    head=wanted.strip()[:64],
                )

    def _tip(self) -> Tip:
        """Read the end of the chain, sure that it fits and still holds what this process saw before."""
        with self._file.lock:
            tip = read_tip(self._genesis, self._file.last_two(), where=self.path)
            if tip.seq < self._known.seq or self._head_at(self._known.seq, tip) != self._known.head:
                raise LedgerError(
                    "{where} was altered: entries that were there are gone; restore a copy that holds the head {head}",
                    where=self.path,
                    head=self._known.head,
                )
            self._known = tip
            return tip

    def _head_at(self, seq: int, tip: Tip) -> str | None:
        if seq == tip.seq:
            return tip.head
        if seq == 0:
            return self._genesis.head
        entry = self._file.entry(seq)
        return entry.head if entry else None

    def _check_unit(self, unit: Unit) -> None:
        if self.unit is not None and not self.unit.protects_the_same(unit):
            raise RelationMismatch(
                "the ledger protects {kept}, but the release protects {unit}; keep one ledger for each",
                kept=self.unit.describe(),
                unit=unit.describe(),
            )

    def _check_left(self, tip: Tip, parts: Mapping[str, Fraction], factor: int) -> None:
        cost, left = factor * sum(parts.values(), Fraction()), self.budget - tip.total
        if cost <= left:
            return
        purpose = join((Text(purpose) for purpose in parts), " + ")
        values = {"purpose": purpose, "cost": cost, "left": left, "budget": self.budget}
        if factor == 1:
            raise BudgetExceeded("{purpose} asks for epsilon = {cost}, but {left} of {budget} is left", **values)
        raise BudgetExceeded(
            "{purpose} asks for epsilon = {cost} ({factor} times {epsilon}: add/remove under replace-one), "
            "but {left} of {budget} is left",
            factor=factor,
            epsilon=cost / factor,
            **values,
        )
