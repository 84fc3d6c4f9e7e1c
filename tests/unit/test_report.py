"""The parts of a report: numbers, drawings, labels read back, the frame of the page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from sudare.asking.answers import AnswerTable, Estimate
from sudare.methods.kanon.compare import count_values
from sudare.methods.kanon.lattice import Lattice
from sudare.methods.kanon.lattice_picture import DrawnNode, draw_nodes
from sudare.releases import Coded
from sudare.releases.columns import read_codes, read_numbers
from sudare.report.chart import draw_chart, write_chart
from sudare.report.frames import describe_schema_size
from sudare.report.page import render_page
from sudare.report.shapes import Listing, Marginal, Section
from sudare.report.svg import draw_bars, draw_columns, draw_heat_map, draw_lines
from sudare.schema import Attribute, NumberBins, Schema, TableHierarchy, Unit, Values
from sudare.text import languages
from tests.unit.kanon_tables import halving

AGE = Attribute(name="age", domain=NumberBins.of_width(0, 100, 5))
FRUIT = Attribute(
    name="fruit",
    domain=Values(("apple", "pear", "fig")),
    hierarchy=TableHierarchy.from_paths([("apple", "pome", "*"), ("pear", "pome", "*"), ("fig", "other", "*")]),
)


class Tags(HTMLParser):
    """Every tag that is opened, and those that are left open or closed out of turn."""

    VOID = frozenset({"meta", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []
        self.odd: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.odd.append(tag)


def test_a_page_is_whole_and_escapes_what_it_is_given() -> None:
    listing = Listing(title="<t>", head=("a & b",), rows=[("<script>alert(1)</script>",)])
    made = render_page(
        title="<b>", kind="k", promise="p", facts=[("<i>", "1")], sections=[Section(title="s", parts=(listing,))]
    )
    tags = Tags(made)

    assert tags.odd == tags.open == []
    assert "script" not in tags.seen
    assert "&lt;script&gt;" in made


def test_a_long_attribute_is_added_up_and_nobody_is_lost() -> None:
    sizes = np.arange(500.0)
    labels = tuple(f"v{k}" for k in range(500))
    for is_ordered in (True, False):
        found = Marginal(name="a", labels=labels, published=sizes, true=sizes[::-1], is_ordered=is_ordered).folded()

        assert len(found.labels) <= 60
        assert found.published.sum() == sizes.sum()
        assert found.true is not None
        assert found.true.sum() == sizes.sum()


def test_the_truth_is_drawn_only_where_it_is_given() -> None:
    one = Marginal(name="a", labels=("x", "y"), published=np.array([3.0, 1.0]))
    two = Marginal(name="a", labels=("x", "y"), published=np.array([3.0, 1.0]), true=np.array([2.0, 2.0]))

    assert 'class="truth"' not in draw_bars(one) + draw_columns(one)
    assert draw_bars(two).count('class="truth"') == 2
    assert draw_columns(two).count('class="truth"') == 2


def test_a_bar_is_as_long_as_its_share_of_the_longest() -> None:
    drawn = draw_bars(Marginal(name="a", labels=("x", "y"), published=np.array([4.0, 1.0])))
    first, second = (float(width) for width in re.findall(r'width="([0-9.]+)" height="13"', drawn))

    assert first == pytest.approx(4 * second, abs=0.3)


def test_charts_of_nothing_are_drawn_without_trouble() -> None:
    empty = Marginal(name="a", labels=("x",), published=np.zeros(1))

    assert "<svg" in draw_bars(empty)
    assert "<svg" in draw_columns(empty)
    assert draw_lines({"a": [(1.0, 0.0)]}, across="x", up="y") == ""
    assert draw_heat_map(np.full((2, 2), np.nan), title="none") == ""


def test_a_large_map_is_drawn_in_blocks_and_a_blank_stays_blank() -> None:
    values = np.full((300, 300), np.nan)
    values[:150] = 1.0
    drawn = draw_heat_map(values, title="half")
    rows = {int(row) for row in re.findall(r"M0 (\d+)h", drawn)}

    assert min(rows) == 50
    assert max(rows) == 99


def test_a_lattice_shows_every_node_by_its_labels_and_rings_the_chosen_one() -> None:
    lattice = Lattice((halving("sex", 1), halving("age", 3)))
    drawn = draw_nodes(lattice, [DrawnNode(node=node, is_chosen=node == (0, 2)) for node in lattice.nodes()])

    assert drawn.count('rx="5" class="step"') == 8
    assert drawn.count('class="chosen"') == 1
    assert "age: age/1/0, age/1/1" in drawn
    assert "0,2" not in drawn


def test_a_lattice_too_wide_for_cards_shows_dots_that_name_their_levels() -> None:
    lattice = Lattice(tuple(halving(name, 2) for name in "abcd"))
    drawn = draw_nodes(lattice, [DrawnNode(node=node, is_kept=sum(node) > 3) for node in lattice.nodes()])

    assert drawn.count("<circle") == 81
    assert "a: left out, b: left out" in drawn


@pytest.mark.parametrize(
    ("attribute", "label", "level", "values"),
    [
        (AGE, "[0,15)", None, 3),
        (AGE, "*", None, 20),
        (AGE, None, None, 1),
        (AGE, "young", None, None),
        (FRUIT, "pome", 1, 2),
        (FRUIT, "other", 1, 1),
        (FRUIT, "pome|fig", None, 3),
        (FRUIT, "apple|plum", None, None),
    ],
)
def test_a_published_label_is_read_back_as_so_many_values(
    attribute: Attribute, label: str | None, level: int | None, values: int | None
) -> None:
    assert count_values(attribute, label, level=level) == values


def test_columns_of_a_text_file_are_read_as_numbers_labels_and_values() -> None:
    texts = Coded(np.array([0, 1, 2]), np.array(["7", "[95,100]", None], dtype=object))
    ages = Attribute(name="age", domain=AGE.domain, missing=True)

    assert read_codes(ages, texts).tolist() == [1, 19, 20]
    assert np.isnan(read_numbers(Coded(np.array([0]), np.array([None], dtype=object)))).all()


def test_both_languages_have_every_text_of_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDARE_LANG", "ja")
    made = render_page(title="t", kind="k", promise="p", facts=[], sections=[], is_secret=True)

    assert '<html lang="ja">' in made
    assert "公開禁止" in made
    assert "NOT FOR PUBLICATION" not in made
    assert "not for publication" in languages()["ja"].texts


def test_one_interval_that_may_be_anything_does_not_make_the_others_of_a_chart_too_short_to_be_read() -> None:
    ends = [("a", 12.0, 33.0, 53.0), ("b", 13.0, 23.0, 33.0), ("c", 0.0, 1.5, 5000.0)]
    rows = tuple(
        (name, Estimate(value=value, low=low, high=high, level=0.95, noise_deviation=1.0, model_deviation=0.0))
        for name, low, value, high in ends
    )
    answer = AnswerTable(("name", "income"), rows, 0.95, ())
    lines, drawn = write_chart(answer), draw_chart(answer)

    assert lines[1].count("▓") > 10
    assert "▸" in lines[3]
    assert lines[-1] == "▸ the interval goes on beyond the scale"
    assert "goes on beyond" in drawn
    assert "▸" not in "".join(write_chart(AnswerTable(("name", "income"), rows[:2], 0.95, ())))


def test_a_page_tells_how_many_cells_there_are_however_many() -> None:
    columns = tuple(Attribute(name=f"c{number}", domain=NumberBins.of_width(0, 100, 1)) for number in range(200))

    facts = describe_schema_size(Schema(name="t", unit=Unit(), attributes=columns))

    assert [str(value) for _, value in facts] == ["200", "1.00 × 10^400"]
