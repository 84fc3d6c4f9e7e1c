"""The certificate in plain words, as sections of a page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sudare.messages import language, say
from sudare.releases import Certificate
from sudare.report.shapes import Listing, Section, number

_FACT = re.compile(r"^[a-z_]+: ")  # a figure that the certificate names but has no sentence for


def certificate_sections(paper: Certificate) -> Iterator[Section]:
    """Give the chapters of the certificate; figures without a sentence there get one here."""
    promise, spent, errors, making, _ = _chapters(paper)
    yield Section(title=promise[0], words=promise[1])
    yield Section(title=spent[0], words=spent[1])
    told = (*(line for line in errors[1] if not _FACT.match(line)), *_more(paper.expected_error))
    if told:
        yield Section(title=errors[0], words=told)
    rows = [(key, str(value)) for key, value in paper.parameters.items()]
    parameters = Listing(title=say("parameters"), head=(say("parameter"), say("value")), rows=rows)
    last = [line for line in making[1] if " = " not in line]
    yield Section(title=making[0], words=tuple(last), parts=(parameters, _files(paper)))


def _files(paper: Certificate) -> Listing:
    rows = [(name, digest) for name, digest in paper.payload.items()]
    return Listing(title=say("Files"), head=(say("file"), "SHA-256"), rows=rows, is_folded=True)


def _chapters(paper: Certificate) -> list[tuple[str, tuple[str, ...]]]:
    """Cut the certificate in words at its headings."""
    parts = paper.words(language()).split("\n## ")[1:]
    cut = (part.splitlines() for part in parts)
    return [(lines[0], tuple(line[2:] for line in lines[1:] if line.startswith("- "))) for lines in cut]


def _more(expected: Mapping[str, Any]) -> Iterator[str]:
    """Sentences for the figures of views, tables and maps."""
    for key, value in expected.items():
        match key:
            case "value_standard_deviation":
                told = ", ".join(f"{name}: {number(error)}" for name, error in value.items())
                yield say(
                    "A single value of an attribute is off by {told} (standard deviation of the noise).", told=told
                )
            case "tight_epsilon_per_metre":
                yield say("What this map really needs, certified: epsilon {value} per metre.", value=f"{value:.6g}")
            case "posterior_max":
                low, high = expected.get("posterior_min", value), value
                yield say(
                    "Who sees a report is right to guess the reported cell with a chance of {low} to {high},"
                    " if everybody is equally likely everywhere.",
                    low=f"{low:.1%}",
                    high=f"{high:.1%}",
                )
            case "report_true_max":
                low, high = expected.get("report_true_min", value), value
                yield say("The true cell is reported with a chance of {low} to {high}.", low=f"{low:.1%}",
                          high=f"{high:.1%}")  # fmt: skip
            case "expected_distance_metres":
                yield say("A report is {value} m away from the truth on average.", value=number(round(value, 1)))
