"""The certificate in plain words, as sections of a page."""

from __future__ import annotations

from collections.abc import Iterator

from sudare.messages import language, say
from sudare.releases import Certificate
from sudare.releases.certificate_words import chapters, making
from sudare.report.shapes import Listing, Section


def certificate_sections(paper: Certificate) -> Iterator[Section]:
    """Give the chapters of the certificate; parameters and files as tables."""
    promise, spent, errors, made, files = chapters(paper, language())
    for title, lines in (promise, spent, errors):
        yield Section(title=title, words=tuple(lines))
    rows = [(key, str(value)) for key, value in paper.parameters.items()]
    parameters = Listing(title=say("parameters"), head=(say("parameter"), say("value")), rows=rows)
    hashes = Listing(title=files[0], head=(say("file"), "SHA-256"), rows=list(paper.payload.items()), is_folded=True)
    yield Section(title=made[0], words=tuple(making(paper, language())), parts=(parameters, hashes))
