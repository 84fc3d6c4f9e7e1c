"""What the edges ask of a stored view: answers to statements, and files of records."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import numpy as np

from sudare.errors import ReleaseError
from sudare.mechanisms import Rng, SeededRng, system_rng
from sudare.methods.view import OpenedView, open_view
from sudare.methods.view.opened import Table
from sudare.methods.view.sql import split
from sudare.releases.release import cannot_write

Progress = Callable[[float], None]


def ask(directory: Path, text: str, *, level: float, many: bool) -> list[tuple[str, Table]]:
    """Answer one statement, or every statement of a text."""
    view = open_view(directory)
    statements = split(text) if many else [text]
    return [(statement, view.sql(statement, level=level)) for statement in statements]


def write_sample(
    directory: Path, size: int, out: Path | TextIO, *, seed: int | None = None, progress: Progress | None = None
) -> None:
    """Write records as CSV, chunk by chunk; a file appears whole or not at all."""
    view = open_view(directory)
    rng = system_rng() if seed is None else SeededRng(seed)
    if not isinstance(out, Path):
        _stream(view, size, out, rng, progress)
        return
    if out.exists():
        raise ReleaseError("{target} exists; choose another file or remove it", target=out)
    unfinished = out.with_name(f".{out.name}.partial")
    try:
        with unfinished.open("w", encoding="utf-8", newline="") as stream:
            _stream(view, size, stream, rng, progress)
        os.rename(unfinished, out)
    except OSError as error:
        raise cannot_write(out, error) from None
    finally:
        unfinished.unlink(missing_ok=True)


def _stream(view: OpenedView, size: int, stream: TextIO, rng: Rng, progress: Progress | None) -> None:
    attributes = view.schema.attributes
    fields = [[_field(label) for label in one.labels(np.arange(one.size)).tolist()] for one in attributes]
    records = view.records(size, rng=rng)  # refuses a size before anything is written
    stream.write(",".join(_field(one.name) for one in attributes) + "\n")
    done = 0
    for codes in records:
        columns = [np.array(texts, dtype=object)[codes[:, place]].tolist() for place, texts in enumerate(fields)]
        stream.write("\n".join(map(",".join, zip(*columns, strict=True))) + "\n")
        done += len(codes)
        if progress is not None:
            progress(done / max(size, 1))


def _field(label: str | None) -> str:
    """A label as a field of CSV, quoted where it must be."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([label])
    return line.getvalue() if label is not None else ""
