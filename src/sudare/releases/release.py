"""A release: published tables and their certificate, saved whole or not at all."""

from __future__ import annotations

import datetime
import hashlib
import html
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sudare.atomic import new_directory, replace_file
from sudare.errors import ParameterError, ReleaseError
from sudare.privacy.signatures import SIGNATURE, SigningKey
from sudare.releases.certificate import Certificate
from sudare.releases.consistency import check_certificate, check_signature, check_sizes
from sudare.releases.files import CERTIFICATE, CERTIFICATE_PAGES, digest, read_signature, read_verified
from sudare.releases.frame import Frame
from sudare.releases.parquet import Format, read_frames, write_frame
from sudare.text import text
from sudare.text.cards import card

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from sudare.privacy import Ledger

FORMATS = ("parquet", "csv")
MEASUREMENTS = "measurements"  # the noisy numbers that the published tables are made of


@dataclass(frozen=True)
class HtmlPage:
    """One page of HTML that holds everything: words, pictures, tables, style; no script, nothing fetched."""

    html: str

    def save(self, path: str | Path) -> Path:
        """Write the page to a file."""
        target = Path(path)
        replace_file(target, self.html)
        return target

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a frame of its own so that its style stays inside."""
        return f"<iframe srcdoc='{html.escape(self.html)}' style='width:100%;height:40em;border:0'></iframe>"


@dataclass(frozen=True, eq=False)
class Release:
    """What may leave the building.

    `save` writes a whole directory or nothing.
    `files` are written by their own functions, each given the path to fill: a table too large for memory, a map, a
    document. A name without an ending is a table and gets that of the chosen format.
    """

    frames: Mapping[str, Frame]
    certificate: Certificate
    files: Mapping[str, Callable[[Path], object]] = field(default_factory=dict)

    def __repr__(self) -> str:
        sizes = [f"{name}: {frame.rows} rows" for name, frame in self.frames.items()]
        return f"<Release by {self.certificate.method} ({', '.join(sizes or self.files)})>"

    @property
    def frame(self) -> Frame:
        """The published table, where there is exactly one; measurements stand beside it."""
        tables = [frame for name, frame in self.frames.items() if name != MEASUREMENTS]
        if len(tables) != 1:
            raise ReleaseError(
                "the release holds several tables ({names}) or none; name one: release.frames[...]",
                names=", ".join(self.frames) or "-",
            )
        return tables[0]

    def to_pandas(self, table: str | None = None) -> pandas.DataFrame:
        """Give a published table as a pandas frame; `table` names it where there are several."""
        return self._table(table).to_pandas()

    def to_polars(self, table: str | None = None) -> polars.DataFrame:
        """Give a published table as a Polars frame; `table` names it where there are several."""
        return self._table(table).to_polars()

    def to_arrow(self, table: str | None = None) -> pyarrow.Table:
        """Give a published table as Arrow; `table` names it where there are several."""
        return self._table(table).to_arrow()

    def _table(self, name: str | None) -> Frame:
        if name is None:
            return self.frame
        if name not in self.frames:
            raise ReleaseError(
                "the release has no table {name}; it has {names}", name=name, names=", ".join(self.frames) or "-"
            )
        return self.frames[name]

    def report(self) -> HtmlPage:
        """Show the page of the release: certificate, pictures, tables; `save` writes it to a file."""
        from sudare.app import render_report  # the one way back from a release to its method

        return HtmlPage(render_report(self))

    def _repr_html_(self) -> str:
        """Show the promise and the tables in a notebook: all of it may leave."""
        certificate = self.certificate
        sizes = [(name, f"{frame.rows:,}", ", ".join(frame.columns)) for name, frame in self.frames.items()]
        sizes += [(name, "", "") for name in self.files]
        return card(
            text("Release by {method}", method=certificate.method),
            notes=[certificate.statement],
            columns=[text("file"), text("rows"), text("columns")],
            rows=sizes,
            warning="" if certificate.private else text("NOT PRIVATE: made with a seeded generator, for tests only."),
        )

    def save(
        self,
        directory: str | Path,
        *,
        file_format: Format = "parquet",
        even_if_not_private: bool = False,
        key: SigningKey | None = None,
        ledger: Ledger | None = None,
    ) -> Certificate:
        """Write the release and return the certificate with the hashes of its files.

        With a `key` it is signed. With the `ledger` that paid for it, the hash of the certificate is written there
        before the release has its name. A release made with a seeded generator is refused unless the caller says
        `even_if_not_private=True`, and never signed.
        """
        target = Path(directory)
        if file_format not in FORMATS:
            raise ParameterError("file_format ({file_format}) must be parquet or csv", file_format=file_format)
        if not self.certificate.private and not even_if_not_private:
            raise ReleaseError(
                "the release was made with a seeded generator and protects nobody; it is not saved."
                " Publish without a seed"
            )
        if key is not None and not self.certificate.private:
            raise ReleaseError("a release made with a seeded generator protects nobody, so it is not signed")
        with new_directory(target) as temporary:
            certificate = self._fill(temporary, file_format)
            content = (temporary / CERTIFICATE).read_bytes()
            if key is not None:
                (temporary / SIGNATURE).write_text(key.sign(content).to_json(), encoding="utf-8")
            tell_day_only(temporary, certificate.created)
            if ledger is not None:
                bind_certificate(ledger, certificate, content)
            return certificate

    def _fill(self, directory: Path, file_format: Format) -> Certificate:
        payload = {}
        for name, frame in self.frames.items():
            file = directory / f"{name}.{file_format}"
            write_frame(frame, file, file_format=file_format)
            payload[file.name] = digest(file)
        for name, write in self.files.items():
            file = directory / (name if Path(name).suffix else f"{name}.{file_format}")
            write(file)
            payload[file.name] = digest(file)
        certificate = replace(self.certificate, payload=payload)
        for page, language in CERTIFICATE_PAGES.items():
            (directory / page).write_text(certificate.words(language), encoding="utf-8")
            payload = {**payload, page: digest(directory / page)}
        certificate = replace(certificate, payload=payload)
        (directory / CERTIFICATE).write_text(certificate.to_json(), encoding="utf-8")
        return certificate

    @classmethod
    def load(cls, directory: str | Path) -> Release:
        """Read a release; files that changed, are missing or were added are refused.

        So is a certificate that contradicts itself or is not what was signed, and what unpacks to more than it can
        hold. `sudare verify` works out far more.
        """
        folder = Path(directory)
        certificate, content = read_verified(folder)
        check_signature(content, read_signature(folder))
        check_certificate(certificate)
        return cls.read(folder, certificate)

    @classmethod
    def read(cls, directory: Path, certificate: Certificate) -> Release:
        """Read the tables of a release whose files were checked, and nothing that cannot be in it."""
        payload = [directory / name for name in certificate.payload if name not in CERTIFICATE_PAGES]
        tables = [file for file in payload if file.suffix[1:] in FORMATS]
        frames = read_frames(tables, check=partial(check_sizes, certificate))
        files = {file.name: partial(shutil.copyfile, file) for file in payload if file.suffix[1:] not in FORMATS}
        return cls(frames, certificate, files)


def bind_certificate(ledger: Ledger, certificate: Certificate, content: bytes) -> None:
    """Write the hash of certificate.json into the ledger that paid for the release, where it knows the release."""
    release = find_release(ledger, certificate)
    if release is not None:
        ledger.bind(release, hashlib.sha256(content).hexdigest())


def find_release(ledger: Ledger, certificate: Certificate) -> str | None:
    """Find the id under which a ledger knows a release, by the head after its spend; None if it was not charged."""
    if certificate.ledger_head is None:
        return None
    return next((spend.release for spend in ledger.entries() if spend.head == certificate.ledger_head), None)


def tell_day_only(directory: Path, day: str) -> None:
    """Give every file the beginning of the day as its time: archives and copies carry such times along."""
    moment = datetime.datetime.fromisoformat(day[:10]).replace(tzinfo=datetime.UTC).timestamp()
    for path in (*directory.iterdir(), directory):
        os.utime(path, (moment, moment))
