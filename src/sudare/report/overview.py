"""One page about several releases: what went in, what came out, promises, distances, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from sudare.messages import say
from sudare.report.page import document, facts_list, listing_table, word_list
from sudare.report.shapes import Listing


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """One thing with a picture beside its words; `links` are (words, address of a file beside the page)."""

    title: str
    kind: str = ""
    words: tuple[str, ...] = ()
    picture: str = ""
    caption: str = ""
    facts: Sequence[tuple[str, str]] = ()
    listing: Listing | None = None
    links: Sequence[tuple[str, str]] = ()
    size: Literal["", "small", "wide"] = ""  # of the picture: a mere sign, or one that takes the whole width


@dataclass(frozen=True, kw_only=True, slots=True)
class Chapter:
    """A heading, a sentence, cards, a table, lines to type; `is_secret` marks what shows the true tables."""

    title: str
    lead: str = ""
    cards: Sequence[Card] = ()
    listing: Listing | None = None
    commands: Sequence[tuple[str, str]] = ()
    is_secret: bool = False


def overview(
    *, title: str, kind: str, lead: str, mark: str, facts: Sequence[tuple[str, str]], chapters: Sequence[Chapter],
    stamp: str, foot: str, other: tuple[str, str, str],
) -> str:  # fmt: skip
    """Write the page; `other` is (language, its name, address) of the same page in the other language."""
    lang, name, address = other
    body = [
        f'<nav><a href="{escape(address)}" lang="{lang}" hreflang="{lang}">{escape(name)}</a></nav>',
        f'<header class="hero"><div class="mark">{mark}</div><div><p class="kind">{escape(kind)}</p>'
        f"<h1>{escape(title)}</h1></div></header>",
        f'<p class="lead">{escape(lead)}</p>',
        facts_list(facts),
        f'<p class="stamp" role="note">{escape(stamp)}</p>',
        *(_chapter(number, one) for number, one in enumerate(chapters, start=1)),
        f"<footer>{escape(foot)}</footer>",
        f'<div class="printed" aria-hidden="true">{escape(say("not for publication"))}</div>',
    ]
    return document(title=title, body=body)


def _chapter(place: int, one: Chapter) -> str:
    stamp = escape(say("not for publication"))
    marked = f' class="secret" data-stamp="{stamp}"' if one.is_secret else ""
    heading = f' data-stamp="{stamp}"' if one.is_secret else ""
    lead = f'<p class="under">{escape(one.lead)}</p>' if one.lead else ""
    table = listing_table(one.listing) if one.listing is not None else ""
    cards = "".join(map(_card, one.cards))
    typed = "".join(_typed(words, line) for words, line in one.commands)
    return f"<section{marked}><h2{heading}>{place}. {escape(one.title)}</h2>{lead}{cards}{table}{typed}</section>"


def _card(one: Card) -> str:
    kind = f'<p class="kind">{escape(one.kind)}</p>' if one.kind else ""
    links = "".join(f'<a href="{escape(address)}">{escape(words)}</a>' for words, address in one.links)
    told = [
        f"{kind}<h3>{escape(one.title)}</h3>",
        word_list(one.words),
        facts_list(one.facts) if one.facts else "",
        listing_table(one.listing) if one.listing is not None else "",
        f'<p class="links">{links}</p>' if links else "",
    ]
    caption = f"<figcaption>{escape(one.caption)}</figcaption>" if one.caption else ""
    shown = f'<figure class="shown">{one.picture}{caption}</figure>' if one.picture else ""
    return f'<article class="card {one.size}"><div class="told">{"".join(told)}</div>{shown}</article>'


def _typed(words: str, line: str) -> str:
    return f'<p class="do">{escape(words)}</p><pre><code>{escape(line)}</code></pre>'
