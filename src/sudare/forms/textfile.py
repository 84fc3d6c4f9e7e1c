"""Text files as Japanese offices keep them: UTF-8, with or without its mark, or CP932 (Shift_JIS)."""

from __future__ import annotations

from pathlib import Path

from sudare.errors import SchemaError


def read_bytes(path: Path) -> bytes:
    """Read a file that a schema needs; SchemaError, with the system's reason, if that fails."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SchemaError(
            "{file}: cannot be read ({reason}); check the path", file=path, reason=error.strerror
        ) from None


def read_text(path: Path) -> str:
    """Read a text in UTF-8 or CP932; SchemaError if it is neither."""
    raw = read_bytes(path)
    for encoding in ("utf-8-sig", "cp932"):
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise SchemaError("{file}: neither UTF-8 nor Shift_JIS (CP932) text; save it as UTF-8", file=path)


def read_lines(path: Path) -> list[str]:
    """Read a list, one entry a line; empty lines are skipped, blanks inside lines are kept."""
    lines = [line for line in read_text(path).replace("\r\n", "\n").split("\n") if line]
    if not lines:
        raise SchemaError("{file}: the file is empty; write one value a line", file=path)
    return lines
