"""`python -m papers oguri2016`: figures 9, 10, 13, 14, 16 and tables 5, 6, 9, ours beside the paper's, in one run.

Writes results.md and pictures/*.svg beside this file, always from the same seeds.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

import numpy as np

from papers.oguri2016.data import census, many, service
from papers.oguri2016.laws import Fit, fits, mean, normal_ks, plain_law, regression
from papers.oguri2016.walks import Measured, best_of, literature, pak, pak_start, paper_incognito, paper_ola
from sudare.methods.kanon.power_law import fit_power_law

HERE = Path(__file__).parent
EXPECTED = tomllib.loads((HERE / "expected.toml").read_text(encoding="utf-8"))
SKEWS = (0.9, 0.5, 0.7, 0.6, 0.8, 0.4)  # of services A to F
LIMITS = ((100_001, 400_000), (50_001, 100_000), (10_001, 50_000), (5_001, 10_000))
NORMAL_PARTS = 26
Line = list[str]


@cache
def seven() -> dict[str, Measured]:
    """The census and services A to F, with the paper's numbers of people."""
    names, people = EXPECTED["table9"]["names"], EXPECTED["table9"]["people"]
    found = {"census": Measured.of(census())}
    for place, (name, size) in enumerate(zip(names[1:], people[1:], strict=True)):
        found[name] = Measured.of(service(size, SKEWS[place], place))
    return found


@cache
def groups() -> list[list[Measured]]:
    """The tables of table 5: the census, and 96 services in four sizes."""
    table = EXPECTED["table5"]
    found = [[seven()["census"]]]
    for place, (low, high) in enumerate(LIMITS):
        tables = many(table["services"][place + 1], low, high, table["mean_people"][place + 1], 100 * (place + 1))
        found.append([Measured.of(one) for one in tables])
    return found


def costs(measured: Measured, k: int) -> dict[str, int]:
    """Cells looked at by each search for one k."""
    return {
        "PAK": measured.cells(pak(measured, k, goes_on=False)),
        "PAK, then finer": measured.cells(pak(measured, k)),
        "OLA": measured.cells(paper_ola(measured, k)),
        "Incognito": measured.cells(paper_incognito(measured, k)),
        "OLA of the literature": literature(measured, k, "ola"),
        "Incognito of the literature": literature(measured, k, "incognito"),
        "Sudare auto": literature(measured, k, "auto"),
    }


def shares(k: int, reading: str = "PAK") -> tuple[float, float]:
    """PAK's cells as a share of the paper's OLA's and Incognito's, mean over the seven."""
    found = [costs(one, k) for one in seven().values()]
    ola, incognito = (float(np.mean([one[reading] / one[name] for one in found])) for name in ("OLA", "Incognito"))
    return ola, incognito


def correlated() -> list[tuple[float, float]]:
    """Figure 16: for the 50 largest services, how well the law fits and PAK's share of the paper's OLA at k >= 2."""
    services = [one for group in groups()[1:] for one in group]
    services.sort(key=lambda one: -one.tuples.rows)
    return [
        (regression(one, one.law()).r, one.cells(pak(one, 2, goes_on=False)) / one.cells(paper_ola(one, 2)))
        for one in services[:50]
    ]


def _table(head: Line, rows: list[Line]) -> Line:
    return [
        f"| {' | '.join(head)} |",
        "|---|" + "---:|" * (len(head) - 1),
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
    ]


def _pairs(title: str, ours: list[float], paper: list[float], form: str) -> list[Line]:
    return [[title, *(format(one, form) for one in ours)], ["paper", *(format(one, form) for one in paper)]]


def lattice_lines() -> Line:
    one = seven()["census"]
    return [f"The lattice: {len(one.nodes)} nodes, {one.cells(one.nodes)} cells; paper: 3185.", ""]


def figure9_lines() -> Line:
    a, b, r2 = plain_law(normal_ks(NORMAL_PARTS))
    paper = EXPECTED["figure9"]
    return [
        f"## Figure 9: a normal distribution in 2 to {NORMAL_PARTS} parts\n",
        f"k = {a:,.0f} x^{b:.2f}, R^2 = {r2:.4f}; paper: {paper['a']:,} x^{paper['b']}, R^2 = {paper['r2']}.",
        "",
    ]


def figure10_lines() -> Line:
    one = seven()["census"]
    law = one.law(most_cells=5)
    found, paper = regression(one, law), EXPECTED["figure10"]
    return [
        "## Figure 10: census, fitted on nodes of up to 5 cells\n",
        f"k = {law.a:,.0f} x^{law.b:.3f} + 1, correlation {found.r:.4f}, standard error {found.standard_error:,.0f};"
        f" paper: {paper['correlation']}, {paper['standard_error']:,}.",
        "",
    ]


FIELDS = (
    ("R", "r", ".5f"), ("R^2", "r2", ".5f"), ("adjusted R^2", "adjusted", ".5f"),
    ("standard error", "standard_error", ",.0f"), ("significance of F", "f", ".1e"),
    ("error ratio", "error_ratio", ".2f"),
)  # fmt: skip


def table5_lines() -> Line:
    found: list[list[Fit]] = [fits(group, lambda one: one.points(9)) for group in groups()]
    paper = EXPECTED["table5"]
    rows = [
        row
        for title, field, form in FIELDS
        for row in _pairs(title, [mean(one, field) for one in found], paper[field], form)
    ]
    head = ["means over services", *(f"{name} ({len(one)})" for name, one in zip(paper["groups"], found, strict=True))]
    return ["## Table 5: fitted on nodes of up to 9 cells\n", *_table(head, rows)]


def table6_lines() -> Line:
    tables, paper = [one for group in groups() for one in group], EXPECTED["table6"]
    found = [fits(tables, lambda one, width=width: one.points(width=width)) for width in (1, 2, 3)]
    rows = [
        row
        for title, field, form in FIELDS
        if field in paper
        for row in _pairs(title, [mean(one, field) for one in found], paper[field], form)
    ]
    return ["## Table 6: fitted on nodes of 1, 2 or 3 attributes\n", *_table(["", "1", "2", "3"], rows)]


def table9_lines() -> Line:
    found, paper = [regression(one, one.law()) for one in seven().values()], EXPECTED["table9"]
    rows = [
        *_pairs("a", [one.law.a for one in found], paper["a"], ",.0f"),
        *_pairs("b", [one.law.b for one in found], paper["b"], ".3f"),
        *_pairs("correlation", [one.r for one in found], paper["correlation"], ".4f"),
    ]
    return ["## Table 9: the laws of the seven\n", *_table(["", *paper["names"]], rows)]


def cost_lines(number: int, k: int) -> Line:
    found = {name: costs(one, k) for name, one in seven().items()}
    rows = [[title, *(f"{one[title]:,}" for one in found.values())] for title in next(iter(found.values()))]
    measured = seven().values()
    starts = [one.lattice.cells(pak_start(one, k)) for one in measured]
    rows.append(["cells of PAK's start", *map(str, starts)])
    rows.append(["most cells PAK found", *(str(best_of(one, pak(one, k, goes_on=False), k)) for one in measured)])
    rows.append(["most cells PAK, then finer, found", *(str(best_of(one, pak(one, k), k)) for one in measured)])
    rows.append(["most cells there are", *(str(best_of(one, one.nodes, k)) for one in measured)])
    rows.append(["cells measured for PAK's fit", *(str(one.cells(one.small(9))) for one in measured)])
    (ola, incognito), (more_ola, more_incognito) = shares(k), shares(k, "PAK, then finer")
    paper = EXPECTED["share"]
    return [
        f"## Figure {number}: cells looked at for k >= {k}, of 3185\n",
        *_table(["", *found], rows),
        f"PAK looks at {ola:.1%} of the paper's OLA (paper: {paper[f'ola_{k}']:.1%}) and {incognito:.1%} of its"
        f" Incognito (paper: {paper[f'incognito_{k}']:.1%}), mean over the seven;"
        f" if it goes on to finer nodes, {more_ola:.1%} and {more_incognito:.1%}.",
        "",
    ]


def figure16_lines() -> Line:
    found = correlated()
    slope = float(np.corrcoef(np.array(found).T)[0, 1])
    return [
        "## Figure 16: the fit and PAK's share of the paper's OLA, 50 services, k >= 2\n",
        f"Shares from {min(one for _, one in found):.1%} to {max(one for _, one in found):.1%}; their correlation with"
        f" the correlation of the fit is {slope:+.2f} (paper: rising, without a figure).",
        "",
    ]


def fitting_law() -> bool:
    """The power law itself comes back from points on it."""
    law = fit_power_law([(x, 114659 * x**-1.414 + 1) for x in (2, 3, 4, 5, 9)])
    return law is not None and abs(law.b + 1.414) < 1e-9


def reproduce() -> bool:
    """Run everything, write results.md and the pictures; tell whether the exact figures came out."""
    from papers.oguri2016.figures import draw_figures

    header = (
        "# Oguri 2016: results of one run\n\nWritten by `python -m papers oguri2016`. The data are made (README.md):"
        ' only the lattice must equal the print. "paper" lines are printed values.\n'
    )
    lines = [header, *lattice_lines(), *figure9_lines(), *figure10_lines(), *table5_lines(), *table6_lines()]
    lines += [*table9_lines(), *cost_lines(13, 50), *cost_lines(14, 2), *figure16_lines()]
    text = "\n".join(lines)
    print(text)
    (HERE / "results.md").write_text(text.rstrip() + "\n", encoding="utf-8")
    draw_figures()
    one, exact = seven()["census"], EXPECTED["exact"]
    return (len(one.nodes), one.cells(one.nodes)) == (exact["nodes"], exact["cells"]) and fitting_law()
