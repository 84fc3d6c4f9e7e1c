"""The job reads the bounds as pip does, and stops at what it cannot read."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.matrix.bounds import Bound, declared, lowest, order, read_bound


def wheel_of(place: Path, *requirements: str) -> Path:
    lines = ["Metadata-Version: 2.4", "Name: thing", "Version: 1", *(f"Requires-Dist: {line}" for line in requirements)]
    path = place / "thing-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as files:
        files.writestr("thing-1.dist-info/METADATA", "\n".join([*lines, "", "numpy>=9 in the description is no bound"]))
    return path


@pytest.mark.parametrize(
    ("line", "bound"),
    [
        ("duckdb<3,>=1.4.1", Bound(name="duckdb", limits=(("<", "3"), (">=", "1.4.1")))),
        ("numpy (>=2.0)", Bound(name="numpy", limits=((">=", "2.0"),))),
        ("psycopg[binary]>=3.2; extra == 'postgres'", Bound(name="psycopg", limits=((">=", "3.2"),), extra="postgres")),
        (
            'Typing_Extensions >= 4 ; extra == "dev"',
            Bound(name="typing-extensions", limits=((">=", "4"),), extra="dev"),
        ),
    ],
)
def test_a_requirement_is_read(line: str, bound: Bound) -> None:
    assert read_bound(line) == bound


@pytest.mark.parametrize(
    "line", ["numpy~=2.0", "numpy>=2.0; python_version < '3.13'", "numpy>=2.0rc1", "numpy @ file:x"]
)
def test_a_form_that_is_not_known_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="does not read"):
        read_bound(line)


def test_the_bounds_of_a_wheel_are_those_of_its_head(tmp_path: Path) -> None:
    bounds = declared(wheel_of(tmp_path, "numpy>=2.0", 'shapely>=2.0; extra == "geo"', 'shapely>=2.0; extra == "dev"'))

    assert [(bound.name, bound.text, bound.extra) for bound in bounds] == [
        ("numpy", ">=2.0", ""),
        ("shapely", ">=2.0", "geo"),
        ("shapely", ">=2.0", "dev"),
    ]


@pytest.mark.parametrize(
    ("requirements", "reason"),
    [
        (['shapely>=2.0; extra == "geo"', 'shapely>=2.1; extra == "dev"'], "two bounds"),
        (["numpy"], "no lowest version"),
        (["numpy<3"], "no lowest version"),
    ],
)
def test_bounds_that_cannot_be_tested_are_refused(tmp_path: Path, requirements: list[str], reason: str) -> None:
    wheel = wheel_of(tmp_path, *requirements)

    with pytest.raises(ValueError, match=reason):
        declared(wheel)


def test_versions_are_ordered_as_numbers() -> None:
    versions = ["1.9", "1.10", "1.10.0.post1", "1.10.1", "2.0", "10.0"]

    assert sorted(versions, key=lambda version: order(version) or ()) == versions


@pytest.mark.parametrize(
    ("bound", "available", "version"),
    [
        (">=1.4.1,<3", ["1.4.0", "1.4.1", "1.5.0", "3.0"], "1.4.1"),
        (">=2.0", ["2.1.0", "2.2.0rc1", "2.3.0"], "2.1.0"),  # 2.0 has no wheel for this Python
        (">=2.0", ["2.0.0rc1", "2.0.0"], "2.0.0"),
        (">=2.0,!=2.0.0", ["2.0", "2.0.1"], "2.0.1"),
    ],
)
def test_the_lowest_version_is_the_first_that_can_be_had(bound: str, available: list[str], version: str) -> None:
    assert lowest(read_bound(f"thing{bound}"), available) == version


def test_a_bound_that_no_version_keeps_is_refused() -> None:
    with pytest.raises(ValueError, match="no wheel of thing"):
        lowest(read_bound("thing>=1.4,<3"), ["3.0", "1.3.9"])
