"""The files of a saved release: read as plain files only, and held against the certificate that names them.

A certificate comes from anywhere, so nothing in it is trusted as a path: a payload is a plain name, and stands in the
directory as a regular file. A link, a pipe, a device or a directory in its place is refused and never opened.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from sudare.errors import ReleaseError
from sudare.privacy.signatures import SIGNATURE, Signature
from sudare.releases.certificate import Certificate
from sudare.text import describe_refusal

CERTIFICATE = "certificate.json"
CERTIFICATE_PAGES = {"certificate.md": "en", "certificate.ja.md": "ja"}
MOST_BYTES = 2**30  # of a certificate: the schema of a million cells has a tenth of it


def read_certificate(directory: Path) -> tuple[Certificate, bytes]:
    """Read the certificate of a saved release, also as the bytes that a signature covers.

    Error: ReleaseError for a directory without one, and for one that is damaged or unknown.
    """
    try:
        content = read_plain(directory / CERTIFICATE)
        words = content.decode("utf-8")
    except (ReleaseError, UnicodeDecodeError):
        raise ReleaseError(
            "{directory} is not a release: it has no readable certificate.json; name a directory that"
            " `sudare publish` made",
            directory=directory,
        ) from None
    return Certificate.from_json(words), content


def read_signature(directory: Path) -> Signature | None:
    """Read the signature of a saved release; None for one that is not signed."""
    if not os.path.lexists(directory / SIGNATURE):
        return None
    return Signature.from_json(read_plain(directory / SIGNATURE))


def verify_files(directory: Path) -> Certificate:
    """Check every file of a saved release against its certificate, and return the certificate."""
    return read_verified(directory)[0]


def read_verified(directory: Path) -> tuple[Certificate, bytes]:
    """Check every file of a saved release against its certificate; the certificate, and the bytes that are signed."""
    certificate, content = read_certificate(directory)
    for name in certificate.payload:
        if name != Path(name).name or name in ("", ".", "..", CERTIFICATE, SIGNATURE) or "\\" in name or "\0" in name:
            raise ReleaseError(
                "the certificate in {directory} names a file that is not in the release; do not use it, get the"
                " release again",
                directory=directory,
            )
    present = {file.name for file in directory.iterdir()} - {CERTIFICATE, SIGNATURE}
    if present != set(certificate.payload):
        odd = ", ".join(sorted(present ^ set(certificate.payload)))
        raise ReleaseError(
            "{directory} has files that its certificate does not name, or lacks some that it names: {odd}; take out"
            " what does not belong there, or get the release again",
            directory=directory,
            odd=odd,
        )
    for name, expected in certificate.payload.items():
        if digest(directory / name) != expected:
            raise ReleaseError(
                "{file} is not the file that the certificate names: its hash differs; do not use it, get the release"
                " again",
                file=directory / name,
            )
    return certificate, content


DAMAGED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)
"""What a certificate can cause that is not as Sudare writes it."""


def digest(file: Path) -> str:
    """Compute the SHA-256 of a regular file, as hex."""
    with open_plain(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_plain(file: Path, most: int = MOST_BYTES) -> bytes:
    """Read a regular file of bounded size."""
    with open_plain(file) as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise ReleaseError("{file} is too large to be what its name says; get the release again", file=file)
    return content


@contextmanager
def open_plain(file: Path) -> Iterator[BufferedReader]:
    """Open a regular file, and nothing else: no link is followed, no pipe is waited for.

    Error: ReleaseError in one line.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        if not stat.S_ISREG(os.lstat(file).st_mode):
            raise _is_no_file(file)
        handle = os.open(file, flags)
        with os.fdopen(handle, "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise _is_no_file(file)
            yield stream
    except OSError as problem:
        raise ReleaseError(
            "{file} cannot be read ({reason}); get the release again", file=file, reason=describe_refusal(problem)
        ) from None


def _is_no_file(file: Path) -> ReleaseError:
    return ReleaseError(
        "{file} is a link, a pipe or a directory, not a file of the release; do not use it, get the release again",
        file=file,
    )
