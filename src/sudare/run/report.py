"""A report of a release, from files to one page; with the true table for the steward alone."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

from sudare.errors import ParameterError, ReleaseError
from sudare.releases import Release
from sudare.releases.release import cannot_write
from sudare.report.report import report
from sudare.report.shapes import Truth


def write_report(
    directory: Path, out: Path, *, truth: str | None = None, schema_file: Path | None = None, **reading: Any
) -> None:
    """Write the page of a release; it appears whole or not at all.

    `truth` is the table that was published, `reading` what `sudare.open` takes to read it.
    """
    _check(directory, out, truth, schema_file)
    release = Release.load(directory)
    told = None if truth is None else compared(release, truth, schema_file, reading)
    write_page(out, report(release, directory, truth=told))


def _check(directory: Path, out: Path, truth: str | None, schema_file: Path | None) -> None:
    if truth is None and schema_file is not None:
        raise ParameterError("--schema goes with --truth: without the true table only the release is read")
    if out.exists() or out.is_symlink():
        raise ReleaseError("{target} exists; choose another file or remove it", target=out)
    if not out.parent.is_dir():
        raise ReleaseError("{parent} is not a directory; make it first", parent=out.parent)
    if out.parent.resolve() == directory.resolve():
        raise ReleaseError(
            "{target} is inside the release, whose files are those its certificate names; choose a place outside",
            target=out,
        )


def compared(release: Release, truth: str, schema_file: Path | None, reading: dict[str, Any]) -> Truth:
    """Hold a release against the table it was made from: for the steward alone."""
    from sudare.run.report_classes import compare_classes
    from sudare.run.report_truth import compare_counts, compare_view

    match release.certificate.method:
        case "location":
            raise ParameterError("a location release is made from a map, not from a table; leave out --truth")
        case "kanon":
            return compare_classes(release, truth, schema_file, reading)
        case "view":
            return compare_view(release, truth, schema_file, reading)
        case _:
            return compare_counts(release, truth, schema_file, reading)


def write_page(out: Path, page: str) -> None:
    """Write a page whole or not at all; a file that exists is refused."""
    unfinished = out.with_name(f".sudare-{secrets.token_hex(8)}.partial")
    try:
        unfinished.write_text(page, encoding="utf-8")
        os.link(unfinished, out)  # refuses a file that has appeared meanwhile
    except FileExistsError:
        raise ReleaseError("{target} exists; choose another file or remove it", target=out) from None
    except OSError as error:
        raise cannot_write(out, error) from None
    finally:
        unfinished.unlink(missing_ok=True)
