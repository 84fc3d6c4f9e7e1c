"""Data like the paper's: a census of 47 prefectures by its published totals, and services of many skews."""

from __future__ import annotations

from functools import cache

import numpy as np

from sudare.counts import Counts
from sudare.schema import Attribute, Schema, TableHierarchy, Values
from sudare.schema.hierarchy_rules import PREFECTURES

# population by the census of 1 October 2010, thousands (Statistics Bureau of Japan), in the order of JIS X 0401
POPULATION = (
    5506, 1373, 1330, 2348, 1086, 1169, 2029, 2970, 2008, 2008, 7195, 6216, 13159, 9048, 2374, 1093, 1170, 806, 863,
    2152, 2081, 3765, 7411, 1855, 1411, 2636, 8865, 5588, 1401, 1002, 589, 717, 1945, 2861, 1451, 785, 996, 1431, 764,
    5072, 850, 1427, 1817, 1197, 1135, 1706, 1393,
)  # fmt: skip
# millions by decade of age, and the share of men (same census; rounded shares, not its cells)
DECADES = (10.88, 11.98, 13.72, 18.13, 16.78, 16.31, 18.25, 12.90, 8.13)
MEN = (0.512, 0.512, 0.507, 0.507, 0.504, 0.497, 0.486, 0.453, 0.344)
CENSUS_PEOPLE = 127_794  # a thousandth of the census, as in the paper
REGIONS = (
    (1, "北海道"), (7, "東北"), (14, "関東"), (23, "中部"), (30, "近畿"), (35, "中国"), (39, "四国"), (46, "九州"),
    (47, "沖縄"),
)  # fmt: skip
AGES = ("0代", "10代", "20代", "30代", "40代", "50代", "60代", "70代", "80代以上")
FIVE = ("20代以下",) * 3 + ("30代", "40代", "50代") + ("60代以上",) * 3
THREE = ("若年",) * 3 + ("中年",) * 3 + ("高年",) * 3
SEED = 2016


def _attribute(name: str, paths: list[tuple[str, ...]]) -> Attribute:
    tree = TableHierarchy.from_paths(paths)
    return Attribute(name=name, domain=Values(tree.names[0]), role="quasi", hierarchy=tree)


def _region(place: int) -> tuple[str, str]:
    name = next(name for last, name in REGIONS if place < last)
    return name, "東日本" if place < 23 else "西日本"


@cache
def schema() -> Schema:
    """Sex 2, age 9/5/3, region 47/9/2, each with "left out" on top: 31 nodes and the one that tells nothing."""
    ages = [(age, five, f"{three} ", "*") for age, five, three in zip(AGES, FIVE, THREE, strict=True)]
    # levels may share a label only if it stands for the same group: decades that are a group of five keep their name
    regions = [(name, f"{_region(place)[0]} ", _region(place)[1], "*") for place, name in enumerate(PREFECTURES)]
    return Schema(
        name="members",
        attributes=(
            _attribute("sex", [("男性", "*"), ("女性", "*")]),
            _attribute("age", ages),
            _attribute("region", regions),
        ),
    )


def _counts(shares: np.ndarray, people: int, rng: np.random.Generator) -> Counts:
    drawn = rng.multinomial(people, (shares / shares.sum()).ravel())
    held = np.flatnonzero(drawn)
    return Counts.from_columns(schema(), np.column_stack(np.unravel_index(held, shares.shape)), drawn[held])


def census(seed: int = SEED) -> Counts:
    """Prefecture totals times the country's ages and sexes, a thousandth of it drawn."""
    by_age = np.array([np.array(MEN), 1 - np.array(MEN)]) * np.array(DECADES)
    return _counts(by_age[:, :, None] * np.array(POPULATION), CENSUS_PEOPLE, np.random.default_rng(seed))


def service(people: int, skew: float, seed: int) -> Counts:
    """Members around a typical age, more men than women or the reverse, and more at home in some regions.

    `skew` 0 is the census; 1 is a service for one age group and one part of the country.
    """
    rng = np.random.default_rng([SEED, seed])
    middle, width = rng.normal(4.3, 0.2), 2.0 - 0.7 * skew
    ages = np.exp(-0.5 * ((np.arange(9) - middle) / width) ** 2) * np.array(DECADES) ** (1 - skew)
    men = 0.5 + (0.15 + 0.25 * skew) * rng.choice([-1, 1], p=[0.2, 0.8])
    homes = np.array(POPULATION) ** (1 + 0.4 * skew) * np.exp(rng.normal(0, 0.2 + 0.4 * skew, 47))
    homes[46] *= 1 - 0.7 * skew  # few services reach as far as Okinawa; it is a region of its own
    shares = np.array([men, 1 - men])[:, None, None] * ages[None, :, None] * homes[None, None, :]
    return _counts(shares, people, rng)


def many(count: int, low: int, high: int, mean: float, first: int) -> list[Counts]:
    """Services of sizes between two limits, skews from 0.1 to 1."""
    rng = np.random.default_rng([SEED, first])
    sizes = np.exp(rng.uniform(np.log(low), np.log(high), count))
    sizes = np.clip(sizes * mean / sizes.mean(), low, high)
    skews = np.linspace(0.1, 1.0, count)
    rng.shuffle(skews)
    return [
        service(int(size), float(skew), first + place)
        for place, (size, skew) in enumerate(zip(sizes, skews, strict=True))
    ]
