"""The tables of results.md."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from papers.kato_view.data import CLASSES, SETS, load
from papers.kato_view.errors import WORKLOADS, Run
from papers.kato_view.makers import METHODS
from papers.kato_view.store import fingerprint, kept
from papers.kato_view.times import DOMAINS, FILLED, TIMED, domain_seconds, filled_seconds, view_bytes

EXPECTED = tomllib.loads(Path(__file__).with_name("expected.toml").read_text(encoding="utf-8"))
Found = dict[tuple[str, str, str], list[Run]]
MARKED = 6  # workloads that have marks
LEARNT = ("model", "mondrian", "hdpview", "privbayes", None)
PRINTED = {
    "mondrian": "dp-mondrian",
    "identity": "identity",
    "identity, expected": "identity-expected",
    "dawa, authors' script": "dawa",
    "hdmm, kron": "hdmm",
    "privbayes": "privbayes",
}


def mean(runs: Sequence[Run]) -> np.ndarray:
    """Mean errors over the seeds."""
    errors = np.stack([one.errors for one in runs])
    counted = (~np.isnan(errors)).sum(axis=0)
    return np.where(counted > 0, np.nansum(errors, axis=0) / np.maximum(counted, 1), np.nan)


def sets_in(found: Found) -> list[str]:
    """The sets that were run, in the order of the paper."""
    return [name for name in SETS if (name, "model", "1") in found]


def error_lines(found: Found) -> list[str]:
    """RMSE on every workload: figures 3 and 4 in numbers."""
    lines = []
    for epsilon in sorted({key[2] for key in found}, key=float):
        lines += [
            f"## RMSE at epsilon = {epsilon}",
            "",
            f"| set | method | {' | '.join(WORKLOADS)} | CPU s | covered |",
        ]
        lines.append("|---|---|" + "---:|" * (len(WORKLOADS) + 2))
        for name in SETS:
            lines += [_error_line(found, name, way, epsilon) for way in METHODS if (name, way, epsilon) in found]
            if epsilon == "1" and (name, "model", "1") in found:
                told = " | ".join(map(str, EXPECTED["mst"][name]))
                lines.append(f"| {name} | MST (other run) | {told} | | | | |")
        lines.append("")
    return lines


def _error_line(found: Found, name: str, method: str, epsilon: str) -> str:
    runs = found[name, method, epsilon]
    cells = " | ".join("" if np.isnan(one) else short(one) for one in mean(runs))
    covered = np.mean([one.covered for one in runs])
    shown = "" if np.isnan(covered) else f"{covered:.1%}"
    return f"| {name} | {method} | {cells} | {np.median([r.cpu for r in runs]):.2f} | {shown} |"


def short(value: float) -> str:
    """Three digits, or whole numbers with separators."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}" if value < 1e6 else f"{value:.2e}"


def relative(found: Found, method: str, skip: Sequence[str] = ()) -> tuple[float, int]:
    """The mean over sets and workloads of RMSE relative to DP-Mondrian, and over how many sets."""
    names = [name for name in sets_in(found) if (name, method, "1") in found and name not in skip]
    if not names:
        return float("nan"), 0
    ratios = [mean(found[name, method, "1"]) / mean(found[name, "mondrian", "1"]) for name in names]
    return float(np.nanmean(ratios)), len(names)


def relative_lines(found: Found) -> list[str]:
    """Table 1."""
    lines = [
        "## Average relative RMSE at epsilon = 1 (table 1)",
        "",
        "The mean, over sets and the eight workloads, of RMSE over that of DP-Mondrian in the same run.",
        "",
        "| method | sets | ours | printed |",
        "|---|---:|---:|---:|",
    ]
    for method in METHODS:
        ratio, many = relative(found, method)
        printed = EXPECTED["table1"].get(PRINTED.get(method, ""), "")
        lines.append(f"| {method} | {many} | {short(ratio)} | {f'{printed:,.2f}' if printed else ''} |")
    ratio, many = relative(found, "privbayes", ("small-adult", "numeric-adult"))
    lines.append(f"| privbayes without small and numeric Adult | {many} | {short(ratio)} | 1.31 |")
    return [*lines, ""]


def size_lines() -> list[str]:
    """Table 5: the files of a view."""
    lines = [
        "## Size of a view at epsilon = 1, bytes (table 5)",
        "",
        "| set | all cells, 4 bytes each | model | mondrian | all cells, printed | DP-Mondrian, printed |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name in ("adult", "electricity", "phoneme"):
        sizes = [view_bytes(name, method) for method in ("model", "mondrian")]
        whole, printed = EXPECTED["table5"][name]
        cells = 4 * load(name).schema.size
        lines.append(f"| {name} | {cells:.3g} | {sizes[0]:,} | {sizes[1]:,} | {whole:.3g} | {printed:,.0f} |")
    return [*lines, ""]


def time_lines() -> list[str]:
    """Figure 5 in numbers."""
    lines = [
        "## Run time (figure 5), CPU seconds",
        "",
        "100,000 made-up records over 10^k cells (k attributes of ten values); 1,000,000 in 10^k of 1e10 cells.",
        "",
        f"| method | {' | '.join(f'1e{power}' for power in DOMAINS)} |",
        "|---|" + "---:|" * len(DOMAINS),
    ]
    lines += [f"| {one} | {' | '.join(f'{domain_seconds(one, power):.2f}' for power in DOMAINS)} |" for one in TIMED]
    lines += [
        "",
        f"| method | {' | '.join(f'1e{power} filled' for power in FILLED)} |",
        "|---|" + "---:|" * len(FILLED),
    ]
    lines += [f"| {one} | {' | '.join(f'{filled_seconds(one, power):.2f}' for power in FILLED)} |" for one in TIMED]
    return [*lines, ""]


def class_lines(seeds: int) -> list[str]:
    """Table 4, if scikit-learn is here."""
    try:
        from papers.kato_view.classify import names
    except ImportError:
        return ["Table 4 needs scikit-learn, which is not installed.", ""]
    lines = [
        "## Classification from sampled records at epsilon = 1 (table 4)",
        "",
        f"AUROC, then AUPRC: mean of {', '.join(names())} over {seeds} splits and views. Printed:"
        " DP-Mondrian, PrivBayes, DP-GAN, original.",
        "",
        f"| set | measure | {' | '.join(str(one or 'original') for one in LEARNT)} | printed |",
        "|---|---|" + "---:|" * len(LEARNT) + "---|",
    ]
    apart = [
        "By classifier, AUROC:",
        "",
        f"| set | method | {' | '.join(names())} |",
        "|---|---|" + "---:|" * len(names()),
    ]
    for name in CLASSES:
        scores = {one: class_scores(name, one, seeds) for one in LEARNT}
        for place, measure in enumerate(("AUROC", "AUPRC")):
            printed = ", ".join(f"{one:.3f}" for one in EXPECTED["table4"][name][place])
            cells = " | ".join(f"{scores[one][:, place].mean():.3f}" for one in LEARNT)
            lines.append(f"| {name} | {measure} | {cells} | {printed} |")
        for one in LEARNT:
            cells = " | ".join(f"{value:.3f}" for value in scores[one][:, 0])
            apart.append(f"| {name} | {one or 'original'} | {cells} |")
    return [*lines, "", *apart, ""]


def class_scores(name: str, method: str | None, seeds: int) -> np.ndarray:
    """Mean AUROC and AUPRC of every classifier over the seeds, (classifiers, 2)."""
    from papers.kato_view.classify import names, scores

    code = fingerprint(method) if method else "original"
    found = [
        kept(
            ("class", name, method or "original", seed, len(names()), code),
            lambda seed=seed: [part for pair in scores(name, method, seed=seed) for part in pair],  # type: ignore[misc]
        )
        for seed in range(1, seeds + 1)
    ]
    return np.mean(found, axis=0).reshape(-1, 2)
