"""Records by the values of each attribute, drawn and listed; beside the truth where the steward gave it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sudare.messages import say
from sudare.report.shapes import Listing, Marginal, Picture, Section, Truth, count, number
from sudare.report.svg import legend, marginal


def marginal_section(found: Iterable[Marginal], truth: Truth | None) -> Section:
    """Draw every attribute; with the truth the section is secret."""
    parts: list[Picture | Listing] = []
    for one in found:
        true = None if truth is None else truth.true.get(one.name)
        whole = replace(one, true=true)
        has_interval = whole.folded().low is not None
        key = legend(truth=true is not None, interval=has_interval)
        parts.append(Picture(title=one.name, drawing=key + marginal(whole)))
        parts.append(_listing(whole))
    return Section(
        title=say("Records by attribute") if truth is None else say("Records by attribute, published and true"),
        parts=tuple(parts),
        is_secret=truth is not None,
    )


def _listing(one: Marginal) -> Listing:
    head, columns = [one.name, say("published")], [one.labels, [count(x) for x in one.published]]
    if one.low is not None and one.high is not None:
        head += [say("low (95%)"), say("high (95%)")]
        columns += [[count(x) for x in ends] for ends in (one.low, one.high)]
    if one.true is not None:
        head += [say("true"), say("difference")]
        columns.append([number(float(x)) for x in one.true])
        columns.append([count(x) for x in one.published - one.true])
    title = say("numbers of {name}", name=one.name)
    return Listing(title=title, head=tuple(head), rows=list(zip(*columns, strict=True)), is_folded=True)


def figures_section(truth: Truth) -> Section:
    """List how far the release is from the truth."""
    listing = Listing(
        title=say("distance from the true table"), head=(say("measure"), say("value")), rows=truth.figures
    )
    return Section(title=say("How far from the truth"), parts=(listing,), is_secret=True)
