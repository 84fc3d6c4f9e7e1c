"""A release: published tables and their certificate, saved whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from sudare.errors import ParameterError, ReleaseError
from sudare.releases.certificate import Certificate
from sudare.releases.frame import Frame
from sudare.releases.parquet import Format, read_frame, write_frame

CERTIFICATE = "certificate.json"
WORDS = {"certificate.md": "en", "certificate.ja.md": "ja"}
FORMATS = ("parquet", "csv")


@dataclass(frozen=True, eq=False)
class Release:
    """What may leave the building.

    `save` writes beside the target and moves at the end, so a directory is a whole release or does not exist.
    """

    frames: Mapping[str, Frame]
    certificate: Certificate

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {frame.rows} rows" for name, frame in self.frames.items())
        return f"<Release by {self.certificate.method} ({sizes})>"

    def save(
        self, directory: str | Path, *, file_format: Format = "parquet", even_if_not_private: bool = False
    ) -> Certificate:
        """Write the release and return the certificate with the hashes of its files.

        A release made with a seeded generator is refused unless the caller says `even_if_not_private=True`.
        """
        target = Path(directory)
        if file_format not in FORMATS:
            raise ParameterError("file_format ({file_format}) must be parquet or csv", file_format=file_format)
        if not self.certificate.private and not even_if_not_private:
            raise ReleaseError("the release was made with a seeded generator and protects nobody; it is not saved")
        check_place(target)
        try:
            partial = target.parent / f".sudare-{secrets.token_hex(8)}.partial"
            partial.mkdir()
            try:
                made = self._fill(partial, file_format)
                os.rename(partial, target)
            except BaseException:
                shutil.rmtree(partial, ignore_errors=True)
                raise
        except OSError as error:
            raise _cannot_write(target, error) from None
        return made

    def _fill(self, partial: Path, file_format: Format) -> Certificate:
        payload = {}
        for name, frame in self.frames.items():
            file = partial / f"{name}.{file_format}"
            write_frame(frame, file, file_format=file_format)
            payload[file.name] = digest(file)
        certificate = replace(self.certificate, payload=payload)
        for page, lang in WORDS.items():
            (partial / page).write_text(certificate.words(lang), encoding="utf-8")
            payload = {**payload, page: digest(partial / page)}
        certificate = replace(certificate, payload=payload)
        (partial / CERTIFICATE).write_text(certificate.to_json(), encoding="utf-8")
        for file in partial.iterdir():
            _flush(file)
        return certificate

    @classmethod
    def load(cls, directory: str | Path) -> Release:
        """Read a release; files that changed, are missing or were added are refused."""
        place = Path(directory)
        certificate = verify_files(place)
        tables = [name for name in certificate.payload if name not in WORDS]
        return cls({Path(name).stem: read_frame(place / name) for name in tables}, certificate)


def verify_files(place: Path) -> Certificate:
    """Check every file of a saved release against its certificate, and return the certificate."""
    try:
        certificate = Certificate.from_json((place / CERTIFICATE).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise ReleaseError("{place} is not a release: it has no readable certificate.json", place=place) from None
    found = {file.name for file in place.iterdir()} - {CERTIFICATE}
    if found != set(certificate.payload):
        odd = ", ".join(sorted(found ^ set(certificate.payload)))
        raise ReleaseError(
            "{place} has files its certificate does not name, or lacks some: {odd}", place=place, odd=odd
        )
    for name, expected in certificate.payload.items():
        if digest(place / name) != expected:
            raise ReleaseError("{file} is not the file the certificate names: its hash differs", file=place / name)
    return certificate


def check_place(target: Path) -> None:
    """Refuse a place where a release cannot be written, before anything is spent for it."""
    try:
        is_taken = target.exists() or target.is_symlink()
    except OSError as error:
        raise _cannot_write(target, error) from None
    if is_taken:
        raise ReleaseError("{target} exists; choose another directory or remove it", target=target)
    if not target.parent.is_dir():
        raise ReleaseError("{parent} is not a directory; make it first", parent=target.parent)
    try:
        target.mkdir()  # the very name must be possible
        target.rmdir()
        with tempfile.TemporaryFile(dir=target.parent) as probe:
            probe.write(bytes(4096))
            probe.flush()
    except OSError as error:
        raise _cannot_write(target, error) from None


def digest(file: Path) -> str:
    """SHA-256 of a file, as hex."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _flush(file: Path) -> None:
    with file.open("rb") as stream:
        os.fsync(stream.fileno())


def _cannot_write(target: Path, error: OSError) -> ReleaseError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return ReleaseError(
            "no space is left to write {target}; free some and try again; nothing was left there",
            target=target,
        )
    return ReleaseError(
        "{target} cannot be written ({reason}); nothing was left there",
        target=target,
        reason=os.strerror(error.errno or 0),
    )
