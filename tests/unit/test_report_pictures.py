"""The pictures of a page about several releases, and the words of a certificate."""

from __future__ import annotations

import itertools
import re
from fractions import Fraction

import numpy as np
import pytest

from sudare.demo.cards import (
    Card,
    PageChapter,
    draw_blind,
    draw_budget,
    draw_landscape,
    draw_levels,
    draw_pyramid,
    draw_reports,
    find_land,
    render_overview,
)
from sudare.methods.table.expected_error import warn_of_noise
from sudare.releases.certificate import describe_error
from sudare.report.maps import draw_page_map, draw_page_scale
from sudare.report.page import render_listing
from sudare.report.shapes import Listing, Marginal
from sudare.report.svg import draw_columns, draw_heat_map, draw_lines
from sudare.schema import MeshCells
from sudare.text import Text
from tests.unit.test_report import Tags


def test_a_budget_is_drawn_in_proportion_with_what_is_left() -> None:
    drawn = draw_budget([("one", Fraction(1)), ("two", Fraction(1, 2))], Fraction(2), title="t")
    shares = [float(share) for share in re.findall(r"flex:([0-9.]+) 0 0", drawn)]

    assert shares == [0.5, 0.25, 0.25]
    assert "unspent" in drawn


def test_a_budget_that_is_gone_shows_nothing_left() -> None:
    drawn = draw_budget([("one", Fraction(1))], Fraction(1), title="t")

    assert "unspent" not in drawn


def test_a_pyramid_has_a_bar_for_every_value_on_both_sides() -> None:
    drawn = draw_pyramid(["a", "b"], np.array([4.0, 2.0]), np.array([1.0, 2.0]), names=("F", "M"), title="t")
    left = [float(width) for width in re.findall(r'width="([0-9.]+)" height="12" class="bar"', drawn)]
    right = [float(width) for width in re.findall(r'width="([0-9.]+)" height="12" class="other"', drawn)]

    assert left[0] == pytest.approx(2 * left[1], abs=0.2)
    assert right[0] == pytest.approx(left[0] / 4, abs=0.2)


def test_only_the_chosen_step_of_a_ladder_is_filled() -> None:
    drawn = draw_levels([("sex", ["F", "*"], 0), ("age", ["[30,35)", "[30,40)", "*"], 2)], title="t")

    assert drawn.count('class="step taken"') == 2
    assert drawn.count('class="step"') == 3


def test_a_cell_that_is_never_reported_has_no_colour() -> None:
    grounds = np.array([[2, 2, 0], [2, 2, 0]])
    chances = np.array([[0.6, 0.3, 0.0], [0.1, 1e-9, 0.0]])
    drawn = draw_reports(grounds, chances, (0, 0), title="t")
    coloured = "".join(re.findall(r'<path d="([^"]+)" class="s\d+"', drawn))

    assert coloured.count("M") == 3
    assert 'class="here"' in drawn


def test_a_landscape_is_water_park_and_land() -> None:
    drawn = draw_landscape(np.array([[0, 1, 2]]), title="t")

    assert [drawn.count(f'class="{kind}"') for kind in ("water", "park", "land")] == [1, 1, 1]


def test_the_place_of_a_device_is_on_land() -> None:
    grounds = np.array([[0, 1, 0], [0, 0, 2]])

    assert find_land(grounds, 0.0, 0.0) == (1, 2)


@pytest.mark.parametrize("top", [0.91, 9.5, 46.0, 950.0, 999.0, 1000.0, 4999.0])
def test_the_scale_of_columns_has_a_step_for_every_height(top: float) -> None:
    drawn = draw_columns(Marginal(name="a", labels=("x", "y"), published=np.array([top, 1.0]), is_ordered=True))

    assert 2 <= drawn.count('class="rule"') <= 6


def test_a_map_of_a_page_has_one_picture_for_the_day_and_one_for_the_night() -> None:
    cells = MeshCells(level=2, area=("5339",))
    drawn = draw_page_map(cells, np.array([0, 9]), np.array([3, 40]), title="people") + draw_page_scale(40)

    assert drawn.count('class="day"') == drawn.count('class="night"') == 2
    assert 'aria-label="people"' in drawn


def test_rows_and_columns_of_a_small_matrix_are_named() -> None:
    drawn = draw_heat_map(
        np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), title="t", names=(("F", "M"), ("young", "mid", "old"))
    )

    assert all(f">{name}</text>" in drawn for name in ("F", "M", "young", "old"))
    assert ">mid<" not in drawn


def test_cells_of_numbers_stand_right_and_sentences_get_room() -> None:
    rows = [("view", "a promise that is told in a whole sentence", "1/2"), ("kanon", "another", "–")]
    drawn = render_listing(Listing(title="t", head=("release", "promise", "cost"), rows=rows))

    assert drawn.count('class="long"') == 3
    assert drawn.count('class="n"') == 3


def test_a_page_about_several_releases_is_whole_and_escapes_what_it_is_given() -> None:
    card = Card(title="<b>", words=("a & b",), picture=draw_blind(title="<i>"), links=[("<a>", "x.html")])
    chapters = [
        PageChapter(title="one", cards=[card]),
        PageChapter(title="two", commands=[("do", "cat < x")], is_secret=True),
    ]
    made = render_overview(title="t", kind="k", lead="l", mark="", facts=[], chapters=chapters, stamp="s", foot="f",
                    other=("ja", "日本語", "index.ja.html"))  # fmt: skip
    tags = Tags(made)

    assert tags.odd == tags.open == []
    assert "<b>" not in made
    assert "cat &lt; x" in made
    assert made.count('class="secret"') == 1


def test_a_figure_without_a_sentence_is_told_by_its_name() -> None:
    lines = [str(line) for line in describe_error({"cells": 4, "news": [1]})]

    assert lines == ["The complete table has 4 cells.", "news: [1]"]


def test_the_figures_of_a_map_are_sentences_in_both_languages() -> None:
    figures = {
        "tight_epsilon_per_metre": 0.018345612,
        "tight_epsilon_is_exact": True,
        "posterior_max": 0.2,
        "posterior_median": 0.15,
        "posterior_min": 0.1,
        "report_true_max": 0.5,
        "report_true_min": 0.00001,
        "expected_distance_metres": 178.73,
    }
    lines = [line for line in describe_error(figures) if isinstance(line, Text)]
    english, japanese = ([line.render(code) for line in lines] for code in ("en", "ja"))

    assert "0.0183457 per metre" in english[0]  # rounded up, never down
    assert "0.001% to 50.0%" in english[2]
    assert len(english) == len(japanese) == 4
    assert all("。" in line for line in japanese)


def test_the_names_under_columns_do_not_run_into_each_other() -> None:
    labels = tuple(
        f"[{10000 * at},{10000 * at + 10000}) … [{10000 * at + 10000},{10000 * at + 20000})" for at in range(9)
    )
    drawn = draw_columns(Marginal(name="yen", labels=labels, published=np.ones(9), is_ordered=True))
    names = re.findall(r'class="quiet" text-anchor="[a-z]+">([^<]*…)<title>', drawn)

    assert len(names) == 3  # each is shown whole where the pointer rests
    assert sum(6.6 * len(name) for name in names) < 420 - 46


def test_powers_along_an_axis_do_not_touch_one_another() -> None:
    drawn = draw_lines({"error": [(1.0, 10.0), (1.6e7, 400.0)]}, across="cells", up="error")
    places = [float(x) for x in re.findall(r'<text x="([0-9.]+)" y="223(?:\.0)?"', drawn)]

    assert len(places) >= 4
    assert min(high - low for low, high in itertools.pairwise(places)) > 60
    assert "10^8" in drawn


def test_a_page_of_far_more_cells_than_records_says_that_it_shows_noise() -> None:
    cells = {"region_standard_deviation": {"1": 11.3, "16777216": 396.0}}
    map_of_many = {"region_standard_deviation": {"1": 4.7, "4096": 75.8}}

    assert "most figures are noise" in str(warn_of_noise(cells, 1_000.0)[0])
    assert warn_of_noise(map_of_many, 40_000.0) == []
