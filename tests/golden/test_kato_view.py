"""The marks of papers/kato_view on the two quickest sets; `python -m papers kato_view` runs all of them."""

from __future__ import annotations

import numpy as np
import pytest
from papers.baselines import Hdmm, Identity, Workload
from papers.kato_view.data import is_here, load
from papers.kato_view.errors import WORKLOADS, run
from papers.kato_view.makers import is_possible
from papers.kato_view.tables import EXPECTED, MARKED, mean

pytestmark = pytest.mark.skipif(not is_here(), reason="the data of the paper are not beside the project")


@pytest.mark.parametrize("name", ["small-adult", "phoneme"])
def test_the_model_reaches_its_marks_and_beats_product_and_blocks(name: str) -> None:
    """Two seeds: a third above the mark is allowed for, where five seeds are held to a tenth."""
    found = {
        method: mean([run(name, method, "1", seed, queries=500) for seed in (1, 2)])[:MARKED]
        for method in ("model", "product", "mondrian")
    }
    marks = np.array(EXPECTED["model"][name])
    prefix = WORKLOADS.index("Prefix-2D")  # one noisy number, that of all records, decides it: its spread is large

    assert (np.delete(found["model"] / marks, prefix) < 1.34).all()
    assert (found["model"] < found["product"]).all()
    assert (found["model"] < found["mondrian"]).all()


def test_table_1_on_phoneme_has_the_order_of_the_paper_where_it_reproduces() -> None:
    """Printed over phoneme and small Adult: Identity 1.39, DAWA 3.95, both relative to DP-Mondrian."""
    methods = ("mondrian", "identity", "dawa, authors' script", "privtree", "privbayes", "model")
    found = {one: run("phoneme", one, "1", 1, three=False, queries=500).errors for one in methods}
    relative = {one: float(np.nanmean(errors / found["mondrian"])) for one, errors in found.items()}

    assert 0.5 < relative["identity"] < 1.6
    assert 2.5 < relative["dawa, authors' script"] < 6
    assert relative["model"] < relative["privbayes"] < relative["mondrian"] < relative["privtree"]


def test_expected_errors_of_wide_sets_grow_as_the_paper_says() -> None:
    """Identity is hopeless on many attributes; marginals are far nearer than products, which is what the paper ran."""
    wide, small = (Workload.of(load(name).schema, "marginals", 2) for name in ("jm1", "phoneme"))
    marginals = Hdmm(epsilon=1, template="marginals")

    assert Identity(epsilon=1).expected_rmse(wide) > 1e6 * marginals.expected_rmse(wide)
    assert Hdmm(epsilon=1).expected_rmse(small) > 2 * marginals.expected_rmse(small)
    assert not is_possible("jm1", "dawa")
