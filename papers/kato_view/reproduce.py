"""Table 1, figures 3 to 6, tables 4 and 5 in one run; written to results.md and pictures/."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from papers.kato_view.data import SETS, is_here, load
from papers.kato_view.errors import QUERIES, WORKLOADS, Run, is_possible, run
from papers.kato_view.makers import METHODS, is_expected
from papers.kato_view.store import fingerprint, kept
from papers.kato_view.tables import (
    EXPECTED,
    MARKED,
    Found,
    class_lines,
    error_lines,
    mean,
    relative_lines,
    size_lines,
    time_lines,
)

HERE = Path(__file__).parent
SEEDS = 15
FIGURE4 = ("0.25", "0.5", "2", "4")  # and 1
QUICK = ("small-adult", "phoneme")
MORE = 3  # times as many seeds on these two: they are cheap, and one noisy number moves all prefixes of a small table
Job = tuple[str, str, str, int, bool]  # set, method, epsilon, seed, whether tables of three attributes are measured


def reproduce(*, seeds: int = SEEDS) -> bool:
    """Run everything, write results.md and the pictures, and tell whether the marks of expected.toml are reached."""
    if not is_here():
        print("the data are not beside the project (../shared/data); see papers/kato_view/README.md")
        return True
    found = collect(list(plan(seeds)))
    write(found)
    write(found, [*size_lines(), *time_lines()])
    write(found, [*size_lines(), *time_lines(), *class_lines(min(3, seeds))])
    from papers.kato_view.figures import draw_figures

    draw_figures(found)
    missed = surprises(found)
    print("\n".join(missed) or "every mark is reached")
    return not missed


def quick() -> Found:
    """Every method once on the two small sets, with few queries; nothing is written."""
    jobs = [(name, method, "1", 1, False) for name in QUICK for method in METHODS if method != "hdmm, kron"]
    return collect(jobs, queries=300)


def plan(seeds: int) -> Iterator[Job]:
    """What is run: everything at epsilon 1; model and product also at 0.1 and 10; numeric Adult for figure 4."""
    for name in sorted(SETS, key=lambda one: load(one).schema.size):
        for method in (one for one in METHODS if is_possible(name, one)):
            is_ours = method in ("model", "product")
            most = seeds * (MORE if name in QUICK else 1) if is_ours else min(3, seeds)
            many = 1 if is_expected(method) else most
            three = most if is_ours and name in QUICK else 1
            yield from ((name, method, "1", seed, seed <= three) for seed in range(1, many + 1))
            if is_ours:
                yield from ((name, method, one, seed, False) for one in ("0.1", "10") for seed in range(1, many + 1))
            if name == "numeric-adult":
                yield from ((name, method, one, seed, False) for one in FIGURE4 for seed in (1, 2)[:many])


def collect(jobs: Sequence[Job], *, queries: int = QUERIES) -> Found:
    """Run the jobs, or read what the same code has found before."""
    found: Found = {}
    for name, method, epsilon, seed, three in jobs:

        def make(job: Job = (name, method, epsilon, seed, three)) -> list[float]:
            made = run(*job[:4], three=job[4], queries=queries)
            return [made.cpu, made.covered, *made.errors.tolist()]

        code = fingerprint(method)
        cpu, covered, *errors = kept((name, method, epsilon, seed, three, queries, code), make)
        found.setdefault((name, method, epsilon), []).append(Run(errors=np.array(errors), cpu=cpu, covered=covered))
    return found


def write(found: Found, more: Sequence[str] = ()) -> None:
    """Write what is known so far: a long run that is interrupted has told something."""
    lines = ["# Results", "", *relative_lines(found), *error_lines(found), *more]
    (HERE / "results.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def surprises(found: Found) -> list[str]:
    """Where the model misses its mark, or is more than 5 % above the product."""
    told = []
    for (name, method, epsilon), runs in found.items():
        if method != "model" or epsilon not in ("0.1", "1", "10"):
            continue
        errors, product = mean(runs), mean(found[name, "product", epsilon])
        marks = np.array(EXPECTED["model"][name]) * (1 + EXPECTED["tolerance"])
        for place, workload in enumerate(WORKLOADS[:MARKED]):
            if epsilon == "1" and errors[place] > marks[place]:
                told.append(f"{name} {workload}: {errors[place]:.3g} is above {marks[place]:.3g}")
            if errors[place] > 1.05 * product[place]:
                told.append(
                    f"{name} {workload}, epsilon {epsilon}: {errors[place] / product[place]:.2f} of the product"
                )
    return told
