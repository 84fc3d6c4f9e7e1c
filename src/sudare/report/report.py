"""The page of a release: what its method says about it, the promise above, the certificate in plain words below."""

from __future__ import annotations

from collections.abc import Iterator

from sudare.releases import Certificate, Release
from sudare.releases.certificate import describe_making, write_chapters
from sudare.report.page import render_page
from sudare.report.shapes import Listing, ReportPage, Section
from sudare.text import text


def render_report(release: Release, described: ReportPage, *, name: str, is_secret: bool = False) -> str:
    """Write the page of a release as HTML, in the language of the reader; with the truth (`is_secret`) it is stamped.

    `described` is what its method says; `name` is the title of a release without a schema.
    """
    certificate = release.certificate
    promise, *rest = _describe_certificate(certificate)
    warnings = [] if certificate.private else [text("NOT PRIVATE: made with a seeded generator, for tests only.")]
    return render_page(
        title=text("Report: {name}", name=certificate.schema.get("name") or name),
        kind=described.kind,
        promise=certificate.statement,
        notes=promise.words[1:],
        facts=described.facts,
        sections=[*described.sections, *rest],
        warnings=[*warnings, *described.warnings],
        is_secret=is_secret,
    )


def _describe_certificate(certificate: Certificate) -> Iterator[Section]:
    """Give the chapters of the certificate; parameters and files as tables."""
    promise, spent, errors, made, files = write_chapters(certificate)
    for title, lines in (promise, spent, errors):
        yield Section(title=title, words=tuple(lines))
    rows = [(name, str(value)) for name, value in certificate.parameters.items()]
    parameters = Listing(title=text("parameters"), head=(text("parameter"), text("value")), rows=rows)
    hashes = Listing(
        title=files[0], head=(text("file"), "SHA-256"), rows=list(certificate.payload.items()), is_folded=True
    )
    yield Section(title=made[0], words=tuple(describe_making(certificate)), parts=(parameters, hashes))
