"""The certificate in plain words, as sections of a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from sudare.methods.kanon.page import class_facts, class_sections, class_warnings
from sudare.methods.location.page import place_facts, place_sections
from sudare.methods.view.page import view_facts, view_sections
from sudare.releases import Certificate, Release
from sudare.releases.certificate import chapters, making
from sudare.report.page import page
from sudare.report.shapes import Listing, Section, TruthComparison
from sudare.report.tabular import cell_facts, cell_sections, record_facts, record_sections
from sudare.text import language, say


def certificate_sections(paper: Certificate) -> Iterator[Section]:
    """Give the chapters of the certificate; parameters and files as tables."""
    promise, spent, errors, made, files = chapters(paper, language())
    for title, lines in (promise, spent, errors):
        yield Section(title=title, words=tuple(lines))
    rows = [(key, str(value)) for key, value in paper.parameters.items()]
    parameters = Listing(title=say("parameters"), head=(say("parameter"), say("value")), rows=rows)
    hashes = Listing(title=files[0], head=(say("file"), "SHA-256"), rows=list(paper.payload.items()), is_folded=True)
    yield Section(title=made[0], words=tuple(making(paper, language())), parts=(parameters, hashes))


# The report of a release: one page for each of the five kinds.


def report(release: Release, directory: Path, *, truth: TruthComparison | None = None) -> str:
    """Write the page of a release, in the language of the reader; with the truth it is stamped.

    `directory` is where the release was read from: a map's grid is in a file beside its tables.
    """
    paper = release.certificate
    kind, facts, sections = _by_kind(release, directory, truth)
    warnings = [] if paper.private else [say("NOT PRIVATE: made with a seeded generator, for tests only.")]
    if paper.method == "kanon":
        warnings += class_warnings(release)
    statement = paper.guarantee.get("statement", {})
    promise, *rest = certificate_sections(paper)
    return page(
        title=say("Report: {name}", name=paper.schema.get("name") or directory.resolve().name),
        kind=kind,
        promise=statement.get(language(), statement.get("en", "")),
        notes=promise.words[1:],
        facts=facts,
        sections=[*sections, *rest],
        warnings=warnings,
        is_secret=truth is not None,
    )


def _by_kind(
    release: Release, directory: Path, truth: TruthComparison | None
) -> tuple[str, list[tuple[str, str]], Iterable[Section]]:
    match release.certificate.method:
        case "microdata":
            told = say("Published records (microdata), differential privacy")
            return told, record_facts(release), record_sections(release, truth)
        case "table":
            told = say("Published counts (table), differential privacy")
            return told, cell_facts(release), cell_sections(release, truth)
        case "view":
            told = say("A view that answers counts (view), differential privacy")
            return told, view_facts(release), view_sections(release, truth)
        case "kanon":
            told = say("Generalised records (kanon), k-anonymity")
            return told, class_facts(release), class_sections(release, truth)
        case _:
            told = say("A mechanism for devices (location), epsilon per metre")
            return told, place_facts(release), place_sections(release, directory)
