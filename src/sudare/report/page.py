"""One page of HTML that holds everything: words, pictures, tables, style; no script, nothing fetched."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from html import escape

from sudare.messages import language, say
from sudare.report.heat import shade_style
from sudare.report.shapes import Listing, Picture, Section
from sudare.report.style import STYLE

LONG = 30  # letters of a cell that is read, not looked up
MOST_ROWS = 200  # of a table on the page; the files hold the rest


def page(
    *,
    title: str,
    kind: str,
    promise: str,
    notes: Sequence[str] = (),
    facts: Sequence[tuple[str, str]],
    sections: Iterable[Section],
    warnings: Sequence[str] = (),
    is_secret: bool = False,
) -> str:
    """Write the page in the language of the reader.

    >>> made = page(title="t", kind="k", promise="p", facts=[("rows", "3")], sections=[])
    >>> made.startswith("<!DOCTYPE html>"), "<script" in made
    (True, False)
    """
    stamp = say("NOT FOR PUBLICATION: this page shows the true table beside the release.") if is_secret else ""
    body = [
        f'<p class="stamp" role="alert">{escape(stamp)}</p>' if stamp else "",
        f'<p class="kind">{escape(kind)}</p><h1>{escape(title)}</h1>',
        *(f'<p class="stamp">{escape(line)}</p>' for line in warnings),
        f'<p class="promise">{escape(promise)}</p>',
        f'<p class="notes">{escape(" ".join(notes))}</p>' if notes else "",
        facts_list(facts),
        *map(_section, sections),
        f"<footer>{escape(_foot(is_secret))}</footer>",
        f'<div class="printed" aria-hidden="true">{escape(say("not for publication"))}</div>' if stamp else "",
    ]
    return document(title=title, body=body)


def document(*, title: str, body: Iterable[str]) -> str:
    """Put parts into a page that holds its own style; no script, nothing fetched."""
    return (
        f'<!DOCTYPE html>\n<html lang="{language()}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}{shade_style()}</style></head>\n"
        f"<body><main>\n{''.join(f'{part}{chr(10)}' for part in body if part)}</main></body></html>\n"
    )


def _foot(is_secret: bool) -> str:
    if is_secret:
        return say("Made by Sudare from the release and the true table; keep it with the steward.")
    return say("Made by Sudare from the release alone; it tells nothing that the release does not.")


def facts_list(facts: Sequence[tuple[str, str]]) -> str:
    """Figures with their names, side by side."""
    return '<dl class="facts">' + "".join(map(_fact, facts)) + "</dl>"


def word_list(words: Sequence[str]) -> str:
    """One sentence as a paragraph, several as a list.

    >>> word_list(["one"]), word_list(["one", "two"]), word_list([])
    ('<p>one</p>', '<ul><li>one</li><li>two</li></ul>', '')
    """
    if len(words) > 1:
        return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in words) + "</ul>"
    return "".join(f"<p>{escape(line)}</p>" for line in words)


def _fact(fact: tuple[str, str]) -> str:
    return f"<div><dt>{escape(fact[0])}</dt><dd>{escape(fact[1])}</dd></div>"


def _section(section: Section) -> str:
    told = word_list(section.words)
    pictures = "".join(_picture(part) for part in section.parts if isinstance(part, Picture) and part.drawing)
    tables = "".join(listing_table(part) for part in section.parts if isinstance(part, Listing))
    drawn = f'<div class="pictures">{pictures}</div>' if pictures else ""
    marked = f' class="secret" data-stamp="{escape(say("not for publication"))}"' if section.is_secret else ""
    heading = f' data-stamp="{escape(say("not for publication"))}"' if section.is_secret else ""
    return f"<section{marked}><h2{heading}>{escape(section.title)}</h2>{told}{drawn}{tables}</section>"


def _picture(part: Picture) -> str:
    kind = ' class="wide"' if part.is_wide else ""
    words = f"<figcaption>{escape(part.words)}</figcaption>" if part.words else ""
    return f"<figure{kind}><h3>{escape(part.title)}</h3>{part.drawing}{words}</figure>"


def listing_table(part: Listing) -> str:
    """A table to be read and copied; a folded one opens on its title."""
    is_number = [bool(part.rows) and all(_is_number(row[at]) for row in part.rows) for at in range(len(part.head))]
    kinds = [' class="n"' if one else _width(part, at) for at, one in enumerate(is_number)]
    head = "".join(f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in zip(part.head, kinds, strict=True))
    rows = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in part.rows[:MOST_ROWS]
    )
    more = len(part.rows) - MOST_ROWS
    note = f"<p>{escape(say('and {more} more rows in the files', more=more))}</p>" if more > 0 else ""
    caption = "" if part.is_folded else f"<caption>{escape(part.title)}</caption>"
    table = (
        f'<div class="listing"><table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{note}</div>'
    )
    return f"<details><summary>{escape(part.title)}</summary>{table}</details>" if part.is_folded else table


def _width(part: Listing, at: int) -> str:
    """Sentences get room; the table scrolls on a narrow screen."""
    longest = max((_read_length(row[at]) for row in part.rows[:MOST_ROWS]), default=0)
    return ' class="long"' if longest > LONG else ""


def _read_length(cell: str) -> int:
    """Count letters, wide ones twice; a hash or a code is looked up, not read.

    >>> _read_length("two words"), _read_length("言葉"), _read_length("9f86d081884c7d65")
    (9, 4, 0)
    """
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in cell)
    return len(cell) + wide if wide or " " in cell else 0


def _is_number(cell: str) -> bool:
    plain = cell.translate(str.maketrans("", "", ",%-+./e–→ "))
    return cell in ("", "–") or plain.isdecimal()
