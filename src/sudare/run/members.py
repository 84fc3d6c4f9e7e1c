"""A made-up table of the members of a chain of sports clubs. No person is in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]
Reals = NDArray[np.float64]

SEXES = ("F", "M")
PLANS = ("student", "daytime", "standard", "premium")
YOUNGEST, OLDEST = 15, 89
VISITS = (0, 1, 2, 4, 8, 12, 20, 31)  # edges of the bins of visits in a month; the last is closed

# name, region, people in units of 100,000 (rounded): the prefectures as the members are spread over them
PREFECTURES = """\
Hokkaido Hokkaido 51;Aomori Tohoku 12;Iwate Tohoku 12;Miyagi Tohoku 23;Akita Tohoku 9;Yamagata Tohoku 10
Fukushima Tohoku 18;Ibaraki Kanto 28;Tochigi Kanto 19;Gunma Kanto 19;Saitama Kanto 73;Chiba Kanto 63
Tokyo Kanto 141;Kanagawa Kanto 92;Niigata Chubu 21;Toyama Chubu 10;Ishikawa Chubu 11;Fukui Chubu 7
Yamanashi Chubu 8;Nagano Chubu 20;Gifu Chubu 19;Shizuoka Chubu 36;Aichi Chubu 75;Mie Kinki 17
Shiga Kinki 14;Kyoto Kinki 25;Osaka Kinki 88;Hyogo Kinki 54;Nara Kinki 13;Wakayama Kinki 9
Tottori Chugoku 5;Shimane Chugoku 6;Okayama Chugoku 18;Hiroshima Chugoku 27;Yamaguchi Chugoku 13
Tokushima Shikoku 7;Kagawa Shikoku 9;Ehime Shikoku 13;Kochi Shikoku 7;Fukuoka Kyushu 51;Saga Kyushu 8
Nagasaki Kyushu 13;Kumamoto Kyushu 17;Oita Kyushu 11;Miyazaki Kyushu 10;Kagoshima Kyushu 15;Okinawa Kyushu 15
"""

SCHEMA = """\
# Public facts about the table of members: written down without looking at the rows.
[sudare]
schema = 1
name = "members"

[unit]                  # who is protected: a member, who has one row
kind = "person"
column = "member_id"    # never published
max_rows = 1

[[attribute]]
name = "sex"
kind = "category"
role = "quasi"
values = ["F", "M"]
hierarchy = {{ masking = "right" }}

[[attribute]]
name = "age"
kind = "number"
role = "quasi"
bins = {{ start = 15, stop = 90, width = 5 }}
hierarchy = {{ intervals = [10, 20] }}

[[attribute]]
name = "prefecture"
kind = "category"
role = "quasi"
values = [{prefectures}]
hierarchy = "prefectures.csv"

[[attribute]]
name = "plan"
kind = "category"
role = "sensitive"
values = [{plans}]

[[attribute]]
name = "visits"         # in the last month
kind = "number"
edges = [{visits}]
"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Members:
    """Columns of codes and numbers, one row a member."""

    sex: Codes
    age: Codes
    prefecture: Codes
    plan: Codes
    visits: Codes


def members(*, rows: int, seed: int) -> Members:
    """Draw members: young and old by sex, plans by age, visits by plan and age.

    >>> made = members(rows=1000, seed=1)
    >>> len(made.age), bool(made.age.min() >= 15), bool(made.age[made.plan == 0].max() < 30)
    (1000, True, True)
    """
    generator = np.random.default_rng(seed)  # the data are made up: nothing here needs to be secret
    people = np.array([float(size) for _, _, size in prefectures()])
    sex = (generator.random(rows) < 0.46).astype(np.int64)
    age = _ages(generator, sex)
    plan = _plans(generator, age, sex)
    often = np.array([5.0, 9.0, 5.5, 11.0])[plan] * np.where(age >= 60, 1.3, 1.0) * generator.gamma(1.6, 0.6, rows)
    visits = np.minimum(generator.poisson(often), VISITS[-1])
    prefecture = generator.choice(len(people), size=rows, p=people / people.sum())
    return Members(sex=sex, age=age, prefecture=prefecture, plan=plan, visits=visits.astype(np.int64))


def prefectures() -> list[tuple[str, str, str]]:
    """Give name, region and size of every prefecture.

    >>> len(prefectures()), prefectures()[12]
    (47, ('Tokyo', 'Kanto', '141'))
    """
    lines = PREFECTURES.replace("\n", ";").strip(";").split(";")
    return [(name, region, size) for name, region, size in (line.split() for line in lines)]


def write_members(folder: Path, *, rows: int, seed: int) -> tuple[Path, Path]:
    """Write members.csv and members.toml with the regions beside it, and return both."""
    made = members(rows=rows, seed=seed)
    data, schema = folder / "members.csv", folder / "members.toml"
    names = np.array([name for name, _, _ in prefectures()])
    columns = (
        np.array(SEXES)[made.sex].tolist(),
        made.age.tolist(),
        names[made.prefecture].tolist(),
        np.array(PLANS)[made.plan].tolist(),
        made.visits.tolist(),
    )
    lines = (f"M{number:06d},{','.join(map(str, row))}" for number, row in enumerate(zip(*columns, strict=True), 1))
    data.write_text("member_id,sex,age,prefecture,plan,visits\n" + "\n".join(lines) + "\n", encoding="utf-8")
    regions = (f"{name};{region};*" for name, region, _ in prefectures())
    (folder / "prefectures.csv").write_text("\n".join(regions) + "\n", encoding="utf-8")
    schema.write_text(_schema(), encoding="utf-8")
    return data, schema


def _schema() -> str:
    return SCHEMA.format(
        prefectures=", ".join(f'"{name}"' for name, _, _ in prefectures()),
        plans=", ".join(f'"{plan}"' for plan in PLANS),
        visits=", ".join(map(str, VISITS)),
    )


def _ages(generator: np.random.Generator, sex: Codes) -> Codes:
    """Two humps: people who start to work, and people who stop; women more in the second."""
    rows = len(sex)
    is_old = generator.random(rows) < np.where(sex == 0, 0.48, 0.34)
    age = np.where(is_old, generator.normal(63, 9.5, rows), 15 + generator.gamma(2.2, 7.4, rows))
    return np.clip(np.rint(age), YOUNGEST, OLDEST).astype(np.int64)


def _plans(generator: np.random.Generator, age: Codes, sex: Codes) -> Codes:
    """Students are below 30; the daytime is for those who do not work."""
    weights: Reals = np.column_stack(
        [
            np.where(age < 25, 2.4, np.where(age < 30, 0.3, 0.0)),
            np.where(age >= 60, 2.2, np.where(sex == 0, 0.45, 0.12)),
            np.full(len(age), 1.3),
            np.where((age >= 30) & (age < 60), 0.8, 0.35),
        ]
    )
    steps = np.cumsum(weights, axis=1)
    drawn = generator.random(len(age)) * steps[:, -1]
    return np.asarray((drawn[:, None] >= steps).sum(axis=1), dtype=np.int64)
