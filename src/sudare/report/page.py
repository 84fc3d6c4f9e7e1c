"""The look of a page: paper and ink, light and dark, wide, narrow and printed. Nothing is fetched."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from sudare.report.shapes import Listing, Picture, Section
from sudare.report.svg import escape, write_shade_style
from sudare.text import Text, Words, current_language, join_sentences, text

STYLE = """
:root{--paper:#faf8f3;--card:#fffdf8;--ink:#24323a;--quiet:#5b6a72;--rule:#dcd7ca;--bar:#2f8f83;
--truth:#c2410c;--reach:#12444a;--link:#1d6f66;--sea:#ece8dd;--other:#c08a4e;--land:#e6e1d3;
--park:#cfdcc0;--water:#d3e3ea;--slat:#d3c6a2;--rod:#9a8557;--warn:#9a3412;--warnpaper:#fff1e6;
--lost:#c9c3b4}
@media (prefers-color-scheme:dark){:root{
--paper:#12181c;--card:#1a2228;--ink:#e6ebe8;--quiet:#9fb0b5;--rule:#334047;--bar:#3fa796;
--truth:#ff9d5c;--reach:#d6f2ea;--link:#6fcbb9;--sea:#0d1215;--other:#d8a468;--land:#2b353b;
--park:#2f4539;--water:#122a37;--slat:#6d6347;--rod:#a59668;--warn:#ffb684;--warnpaper:#3a2114;
--lost:#5a666d}}
*{box-sizing:border-box}
html{color-scheme:light dark;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);line-height:1.6;
font-family:system-ui,'Segoe UI','Hiragino Sans','Yu Gothic','Noto Sans JP','Noto Sans CJK JP',sans-serif}
main{max-width:62rem;margin:0 auto;padding:1.5rem 1.25rem 4rem}
h1{font-size:1.7rem;line-height:1.25;margin:.2rem 0 .4rem}
h2{font-size:1.2rem;margin:2.4rem 0 .6rem;padding-bottom:.3rem;border-bottom:1px solid var(--rule)}
h3{font-size:.98rem;margin:0 0 .5rem}
.kind{color:var(--quiet);margin:0;letter-spacing:.02em}
.promise{font-size:1.06rem;background:var(--card);border-left:4px solid var(--bar);padding:.9rem 1.1rem;margin:1rem 0}
.notes{color:var(--quiet);font-size:.9rem;margin:-.4rem 0 1rem}
.stamp{background:var(--warnpaper);color:var(--warn);border:2px solid var(--warn);padding:.6rem 1rem;font-weight:700}
.secret h2::after{content:attr(data-stamp);float:right;font-size:.75rem;font-weight:700;color:var(--warn);
border:1px solid var(--warn);padding:0 .5em;border-radius:.3em}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.7rem;margin:1.2rem 0;padding:0}
.facts div{background:var(--card);border:1px solid var(--rule);border-radius:.5rem;padding:.6rem .8rem}
.facts dt{color:var(--quiet);font-size:.82rem}.facts dd{margin:0;font-size:1.25rem;font-weight:600;
overflow-wrap:anywhere}
.pictures{columns:24rem 2;column-gap:1rem;margin:1rem 0}
figure{margin:0 0 1rem;break-inside:avoid;background:var(--card);
border:1px solid var(--rule);border-radius:.5rem;padding:.9rem 1rem}
figure.wide{column-span:all;overflow-x:auto}figure.wide>svg{min-width:40rem}
figure svg{display:block;width:100%;height:auto}figure:not(.wide) svg{max-width:34rem}
figcaption{color:var(--quiet);font-size:.86rem;margin-top:.5rem}
svg text{font-size:12px;font-family:inherit}svg .ink{fill:var(--ink)}svg .quiet{fill:var(--quiet)}
svg .bar{fill:var(--bar)}svg .sea{fill:var(--sea)}svg .rule{stroke:var(--rule);fill:none}
svg .truth{stroke:var(--truth);stroke-width:2.6;fill:none}svg .reach{stroke:var(--reach);stroke-width:1.6;fill:none}
svg .line path{stroke:var(--bar);stroke-width:2;fill:none}svg .line circle{fill:var(--bar)}
svg .second path{stroke:var(--truth)}svg .second circle{fill:var(--truth)}
svg .edge{stroke:var(--rule);stroke-width:1;fill:none}svg .node{fill:var(--quiet)}svg .kept{fill:var(--bar)}
svg .lost{fill:var(--card);stroke:var(--quiet);stroke-width:1.4}
svg .chosen{fill:none;stroke:var(--truth);stroke-width:2.6}
svg .other{fill:var(--other)}svg .land{fill:var(--land)}svg .park{fill:var(--park)}svg .water{fill:var(--water)}
svg .here{fill:none;stroke:var(--truth);stroke-width:2.6}svg .card{fill:var(--card);font-weight:600}
svg .step{fill:var(--paper);stroke:var(--rule)}svg .taken{fill:var(--bar);stroke:none}
svg .slat{fill:var(--slat)}svg .rod{fill:var(--rod)}svg .behind{fill:var(--quiet);opacity:.45}
svg .cord{stroke:var(--rod);stroke-width:1.6;fill:none}svg .night{display:none}
.maps{display:flex;flex-wrap:wrap;gap:.4rem 1.2rem}.maps>div{flex:1 1 16rem;min-width:0}
.scale{max-width:27rem;margin-top:.6rem}.under{color:var(--quiet);margin:.2rem 0 .4rem}.maps .under{font-size:.86rem}
.legend{margin:.2rem 0 .4rem;color:var(--quiet);font-size:.84rem;display:flex;flex-wrap:wrap;gap:.2rem 1.1rem}
.key{display:inline-block;width:1.1em;height:.75em;margin-right:.4em;vertical-align:-.05em}
.key.bar{background:var(--bar)}.key.truth{background:var(--truth);height:.22em;vertical-align:.22em}
.key.second{background:var(--truth);border-radius:1em;width:.75em}.key.reach{background:var(--reach);height:.14em;vertical-align:.25em}
.listing{overflow-x:auto;margin:.8rem 0}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
caption{text-align:left;white-space:nowrap;color:var(--quiet);font-size:.86rem;padding-bottom:.3rem}
th,td{padding:.28rem .9rem .28rem 0;text-align:left;border-bottom:1px solid var(--rule);vertical-align:top}
th{color:var(--quiet);font-weight:600;white-space:nowrap}td.long{min-width:9.5rem}td.n,th.n{text-align:right;white-space:nowrap}
details{margin:.6rem 0}summary{cursor:pointer;color:var(--quiet);font-size:.9rem}
ul{padding-left:1.2rem}li{margin:.25rem 0;overflow-wrap:anywhere}
nav{text-align:right;font-size:.9rem}a{color:var(--link);text-underline-offset:.18em}
.hero{display:flex;gap:1.2rem;align-items:center;margin:.4rem 0 1rem}.hero h1{font-size:2.1rem;margin:.1rem 0 0}
.mark{flex:0 0 7rem}.mark svg{display:block;width:100%;height:auto}
.lead{font-size:1.12rem;max-width:46rem;margin:.4rem 0 1.2rem}
.card{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,26rem);gap:.4rem 2rem;align-items:start;
background:var(--card);border:1px solid var(--rule);border-radius:.7rem;padding:1.2rem 1.4rem;margin:1rem 0}
.card h3{font-size:1.12rem;margin:.1rem 0 .5rem}.card .kind{font-size:.82rem;letter-spacing:.04em}
.card p,.card ul{margin:.3rem 0 .6rem}
.card.small{grid-template-columns:minmax(0,1fr) minmax(0,14rem)}.card.wide{grid-template-columns:minmax(0,1fr)}
.card .facts{margin:.8rem 0;grid-template-columns:repeat(auto-fit,minmax(7.5rem,1fr))}
.card .facts div{border:0;border-left:3px solid var(--bar);border-radius:0;padding:.05rem .7rem;background:none}
.card .facts dd{font-size:1.08rem}.card .shown{border:0;padding:0;margin:0;background:none}
.card .shown svg{margin:0 auto}.words{min-width:0}
.links{display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;font-size:.92rem}
.budget{padding:.5rem 0}.shares{display:flex;gap:2px;height:1.7rem;border-radius:.4rem;overflow:hidden}
.budget ul{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.1rem 1.4rem;font-size:.92rem;margin:.6rem 0 0}
.part.p0{background:var(--bar)}.part.p1{background:var(--other)}.part.p2{background:var(--reach)}
.part.unspent{background:repeating-linear-gradient(-45deg,var(--sea),var(--sea) 5px,var(--rule) 5px,var(--rule) 7px)}
.do{margin:1.1rem 0 .3rem}pre{background:var(--card);border:1px solid var(--rule);border-radius:.5rem;
padding:.7rem .9rem;margin:0;overflow-x:auto;font-size:.88rem;line-height:1.55}
code{font-family:ui-monospace,'SF Mono',Menlo,Consolas,monospace}
.secret .card{border-color:var(--warn);border-style:dashed}
footer{margin-top:3rem;color:var(--quiet);font-size:.84rem}
.printed{display:none}
@media screen and (max-width:52rem){.card,.card.small{grid-template-columns:minmax(0,1fr)}
.card.small .shown svg{max-width:10rem;margin:0}}
@media screen and (prefers-color-scheme:dark){svg .night{display:inline}svg .day{display:none}}
@media screen and (max-width:30rem){.hero{gap:.8rem}.hero h1{font-size:1.5rem}
.mark{flex-basis:4.5rem}.card{padding:.9rem .8rem}
main{padding:1rem .8rem 3rem}h1{font-size:1.35rem}figure{padding:.7rem .6rem}
.secret h2::after{float:none;display:table;margin-top:.3rem}}
@media print{.listing{overflow-x:visible}td{overflow-wrap:anywhere}
:root{--paper:#fff;--card:#fff;--ink:#000;--quiet:#444;--rule:#bbb;--bar:#2f8f83;--truth:#c2410c;
--reach:#12444a;--link:#1d6f66;--sea:#eee;--other:#c08a4e;--land:#e6e1d3;--park:#cfdcc0;--water:#d3e3ea;--slat:#c9b98f;--rod:#8f7a4d;--warn:#9a3412;--warnpaper:#fff;--lost:#ccc}
html{color-scheme:light;font-size:12.5px}body{print-color-adjust:exact;-webkit-print-color-adjust:exact}
main{max-width:none;padding:0}figure,tr,.facts div,.card{break-inside:avoid}nav{display:none}h2,h3{break-after:avoid}
details::details-content{content-visibility:visible;display:block}
.card{border-color:#999;grid-template-columns:minmax(0,1fr) 21rem}
.card.small{grid-template-columns:minmax(0,1fr) 11rem}.card.wide{grid-template-columns:minmax(0,1fr)}
.printed{display:block;position:fixed;bottom:0;right:0;color:var(--warn);font-weight:700;font-size:9pt}}
"""


# One page of HTML that holds everything: words, pictures, tables, style; no script, nothing fetched.


LONG = 30  # letters of a cell that is read, not looked up
MOST_ROWS = 200  # of a table on the page; the files hold the rest


def render_page(
    *,
    title: Words,
    kind: Words,
    promise: Words,
    notes: Sequence[Words] = (),
    facts: Sequence[tuple[Words, Words]],
    sections: Iterable[Section],
    warnings: Sequence[Words] = (),
    is_secret: bool = False,
    origin: Words = "",
) -> str:
    """Write the page in the language of the reader; `origin` is its last line, if it is not made from a release.

    >>> made = render_page(title="t", kind="k", promise="p", facts=[("rows", "3")], sections=[])
    >>> made.startswith("<!DOCTYPE html>"), "<script" in made
    (True, False)
    """
    stamp = text("NOT FOR PUBLICATION: this page shows the true table beside the release.") if is_secret else ""
    body = [
        f'<p class="stamp" role="alert">{escape(stamp)}</p>' if stamp else "",
        f'<p class="kind">{escape(kind)}</p><h1>{escape(title)}</h1>',
        *(f'<p class="stamp">{escape(line)}</p>' for line in warnings),
        f'<p class="promise">{escape(promise)}</p>',
        f'<p class="notes">{escape(join_sentences(notes))}</p>' if notes else "",
        render_facts(facts) if facts else "",
        *map(_render_section, sections),
        f"<footer>{escape(origin or _describe_origin(is_secret))}</footer>",
        f'<div class="printed" aria-hidden="true">{escape(text("not for publication"))}</div>' if stamp else "",
    ]
    return render_document(title=title, body=body)


def render_document(*, title: Words, body: Iterable[str]) -> str:
    """Put parts into a page that holds its own style; no script, nothing fetched."""
    return (
        f'<!DOCTYPE html>\n<html lang="{current_language()}"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}{write_shade_style()}</style></head>\n"
        f"<body><main>\n{''.join(f'{part}{chr(10)}' for part in body if part)}</main></body></html>\n"
    )


def _describe_origin(is_secret: bool) -> Text:
    if is_secret:
        return text("Made by Sudare from the release and the true table; keep it with the steward.")
    return text("Made by Sudare from the release alone; it tells nothing that the release does not.")


def render_facts(facts: Sequence[tuple[Words, Words]]) -> str:
    """Figures with their names, side by side."""
    return '<dl class="facts">' + "".join(map(_render_fact, facts)) + "</dl>"


def render_words(words: Sequence[Words]) -> str:
    """One sentence as a paragraph, several as a list.

    >>> render_words(["one"]), render_words(["one", "two"]), render_words([])
    ('<p>one</p>', '<ul><li>one</li><li>two</li></ul>', '')
    """
    if len(words) > 1:
        return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in words) + "</ul>"
    return "".join(f"<p>{escape(line)}</p>" for line in words)


def _render_fact(fact: tuple[Words, Words]) -> str:
    return f"<div><dt>{escape(fact[0])}</dt><dd>{escape(fact[1])}</dd></div>"


def _render_section(section: Section) -> str:
    words = render_words(section.words)
    pictures = "".join(_render_picture(part) for part in section.parts if isinstance(part, Picture))
    tables = "".join(render_listing(part) for part in section.parts if isinstance(part, Listing))
    drawn = f'<div class="pictures">{pictures}</div>' if pictures else ""
    marked = f' class="secret" data-stamp="{escape(text("not for publication"))}"' if section.is_secret else ""
    heading = f' data-stamp="{escape(text("not for publication"))}"' if section.is_secret else ""
    return f"<section{marked}><h2{heading}>{escape(section.title)}</h2>{words}{drawn}{tables}</section>"


def _render_picture(part: Picture) -> str:
    drawn = part.draw()
    if not drawn:
        return ""
    kind = ' class="wide"' if part.is_wide else ""
    words = f"<figcaption>{escape(part.words)}</figcaption>" if part.words else ""
    return f"<figure{kind}><h3>{escape(part.title)}</h3>{drawn}{words}</figure>"


def render_listing(part: Listing) -> str:
    """A table to be read and copied; a folded one opens on its title."""
    is_number = [bool(part.rows) and all(_is_number(str(row[at])) for row in part.rows) for at in range(len(part.head))]
    kinds = [' class="n"' if is_one else _choose_width(part, at) for at, is_one in enumerate(is_number)]
    head = "".join(f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in zip(part.head, kinds, strict=True))
    rows = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in part.rows[:MOST_ROWS]
    )
    more = len(part.rows) - MOST_ROWS
    note = f"<p>{escape(text('and {more} more rows in the files', more=more))}</p>" if more > 0 else ""
    caption = "" if part.is_folded else f"<caption>{escape(part.title)}</caption>"
    table = (
        f'<div class="listing"><table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{note}</div>'
    )
    return f"<details><summary>{escape(part.title)}</summary>{table}</details>" if part.is_folded else table


def _choose_width(part: Listing, at: int) -> str:
    """Sentences get room; the table scrolls on a narrow screen."""
    longest = max((_measure_sentence(str(row[at])) for row in part.rows[:MOST_ROWS]), default=0)
    return ' class="long"' if longest > LONG else ""


def _measure_sentence(cell: str) -> int:
    """Count letters, wide ones twice; a hash or a code is looked up, not read.

    >>> _measure_sentence("two words"), _measure_sentence("言葉"), _measure_sentence("9f86d081884c7d65")
    (9, 4, 0)
    """
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in cell)
    return len(cell) + wide if wide or " " in cell else 0


def _is_number(cell: str) -> bool:
    plain = cell.translate(str.maketrans("", "", ",%-+./e–→ "))
    return cell in ("", "–") or plain.isdecimal()
