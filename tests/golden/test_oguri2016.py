"""Oguri 2016: the lattice of the paper exactly, its shares of work nearly, and what PAK misses."""

from __future__ import annotations

from pathlib import Path

import pytest
from papers.oguri2016.data import POPULATION, census, service
from papers.oguri2016.laws import normal_ks, plain_law, regression
from papers.oguri2016.reproduce import EXPECTED, NORMAL_PARTS, fitting_law, seven, shares
from papers.oguri2016.walks import Measured, best_of, literature, pak, paper_incognito, paper_ola

CENSUS = Measured.of(census())


def test_31_nodes_hold_3185_cells_and_25_different_numbers_of_them() -> None:
    assert len(CENSUS.nodes) == EXPECTED["exact"]["nodes"]
    assert CENSUS.cells(CENSUS.nodes) == EXPECTED["exact"]["cells"] == 3185
    assert len(CENSUS.points()) == 25


def test_the_census_has_the_published_people() -> None:
    assert sum(POPULATION) == pytest.approx(128_057, abs=5)
    assert CENSUS.tuples.rows == 127_794


def test_every_coarser_table_has_a_larger_k() -> None:
    for node, k in CENSUS.k.items():
        for above in CENSUS.lattice.coarser(node):
            assert CENSUS.k.get(above, k) >= k


def test_the_finest_census_keeps_2_so_that_the_papers_ola_and_pak_look_at_846_cells() -> None:
    assert CENSUS.cells(paper_ola(CENSUS, 2)) == CENSUS.cells(pak(CENSUS, 2)) == 846
    assert CENSUS.cells(paper_incognito(CENSUS, 2)) == 3185


@pytest.mark.parametrize("k", [50, 2])
def test_pak_takes_about_the_papers_share_of_work(k: int) -> None:
    ola, incognito = shares(k)

    assert ola == pytest.approx(EXPECTED["share"][f"ola_{k}"], rel=0.35)
    assert incognito == pytest.approx(EXPECTED["share"][f"incognito_{k}"], rel=0.4)


def test_pak_misses_finer_tables_that_keep_k() -> None:
    missed = [best_of(one, pak(one, 50), 50) < best_of(one, one.nodes, 50) for one in seven().values()]

    assert any(missed)


def test_the_papers_ola_is_not_that_of_the_literature() -> None:
    one = seven()["A"]

    assert literature(one, 50, "ola") < one.cells(paper_ola(one, 50)) / 3
    assert literature(CENSUS, 2, "ola") > CENSUS.cells(paper_ola(CENSUS, 2))


def test_the_power_law_comes_back_and_fits_the_census() -> None:
    found = regression(CENSUS, CENSUS.law(most_cells=5))

    assert fitting_law()
    assert found.r == pytest.approx(EXPECTED["figure10"]["correlation"], abs=0.005)


def test_a_normal_distribution_falls_with_the_printed_exponent() -> None:
    _, b, r2 = plain_law(normal_ks(NORMAL_PARTS, trials=10))

    assert b == pytest.approx(EXPECTED["figure9"]["b"], abs=0.15)
    assert r2 == pytest.approx(EXPECTED["figure9"]["r2"], abs=0.01)


def test_more_skew_makes_smaller_classes() -> None:
    ks = [Measured.of(service(200_000, skew, 3)).k[0, 1, 1] for skew in (0.1, 0.9)]

    assert ks[1] < ks[0] / 2


def test_figures_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    from papers.oguri2016.figures import draw_figures

    assert [path.name for path in draw_figures(tmp_path)] == [f"figure{number}.svg" for number in (9, 10, 13, 14, 16)]
