"""One release from files to files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

from sudare.counts import Countable
from sudare.errors import ParameterError, ReleaseError, SudareError
from sudare.mechanisms import Rng, SeededRng, system_rng
from sudare.messages import Inside
from sudare.privacy import Ledger, Unrecorded
from sudare.releases import Certificate, Release
from sudare.releases.parquet import Format
from sudare.releases.release import FORMATS, check_place
from sudare.run.table_map import with_map
from sudare.schema import Schema
from sudare.sources import open as open_source
from sudare.sources.table import TableSource


class Method(Protocol):
    """What every method can do."""

    def publish(
        self, source: Countable, *, ledger: Ledger | Unrecorded | None = None, rng: Rng | None = None
    ) -> Release:
        """Count, spend, draw, and return the release."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """What is told after a release: all of it public."""

    out: Path
    rows: int
    certificate: Certificate
    left: str | None
    budget: str | None

    @property
    def cost(self) -> str:
        """What was charged, in the relation of the ledger."""
        return str(sum(Fraction(spend["cost"]) for spend in self.certificate.spends))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a program."""
        return {
            "out": str(self.out),
            "rows": self.rows,
            "method": self.certificate.method,
            "guarantee": self.certificate.guarantee,
            "spends": self.certificate.spends,
            "left": self.left,
            "budget": self.budget,
            "ledger_head": self.certificate.ledger_head,
            "private": self.certificate.private,
            "payload": self.certificate.payload,
        }


def publish_release(
    method: Method,
    data: str,
    *,
    schema_file: Path,
    out: Path,
    ledger_file: Path | None = None,
    count_column: str | None = None,
    encoding: str | None = None,
    file_format: Format = "parquet",
    memory_limit: str | None = None,
    spill_directory: Path | None = None,
    seed_for_tests: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Published:
    """Publish a table of a file: everything that can be refused is refused before the spend."""
    check_place(out)
    check_format(file_format)
    if seed_for_tests is not None and ledger_file is not None:
        raise ParameterError(
            "a release with a seed protects nobody and must not spend; leave out the ledger or the seed"
        )
    schema = Schema.read(schema_file)
    schema.require_confirmed()
    rng = system_rng() if seed_for_tests is None else SeededRng(seed_for_tests)
    with _budget(ledger_file) as ledger:
        source = open_source(
            data,
            schema,
            encoding=encoding,
            count_column=count_column,
            memory_limit=memory_limit,
            spill_directory=spill_directory,
            progress=progress,
        )
        keep = {"file_format": file_format, "even_if_not_private": seed_for_tests is not None}
        return _publish(method, source, ledger, rng, out, keep)


def check_format(file_format: str) -> None:
    """Refuse a format that a release cannot be written in, before anything is spent for it."""
    if file_format not in FORMATS:
        raise ParameterError("file_format ({file_format}) must be parquet or csv", file_format=file_format)


def _publish(
    method: Method, source: TableSource, ledger: Ledger | Unrecorded, rng: Rng, out: Path, keep: dict[str, Any]
) -> Published:
    """Publish and save; a failure after the spend says that the budget is gone."""
    before = ledger.spent
    try:
        with contextlib.closing(source):
            release = with_map(method.publish(source, ledger=ledger, rng=rng), source.schema)
            certificate = release.save(out, **keep)  # a large table is written through the source
    except (SudareError, OSError, MemoryError) as error:
        raise _told(error, ledger.spent - before) from None
    return Published(
        out=out,
        rows=sum(frame.rows for frame in release.frames.values()),
        certificate=certificate,
        left=str(ledger.left) if isinstance(ledger, Ledger) else None,
        budget=str(ledger.budget) if isinstance(ledger, Ledger) else None,
    )


def _told(error: Exception, spent: Fraction) -> Exception:
    """Add to what went wrong that the budget is gone, if it is."""
    if not spent:
        return error
    reason = Inside(error.text, error.values) if isinstance(error, SudareError) else Inside(type(error).__name__, {})
    return ReleaseError("{reason} (epsilon {spent} was spent before that, and stays spent)", reason=reason, spent=spent)


@contextlib.contextmanager
def _budget(ledger_file: Path | None) -> Iterator[Ledger | Unrecorded]:
    if ledger_file is None:
        yield Unrecorded()
        return
    with Ledger.open(ledger_file) as ledger:
        yield ledger
