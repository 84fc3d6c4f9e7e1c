"""Risk and loss before and after, checked by hand, and the picture of a small lattice."""

from __future__ import annotations

import numpy as np
import pytest

from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.methods.kanon import KAnonymity
from sudare.methods.kanon.lattice import Lattice
from sudare.methods.kanon.risk import compare_recoding, measure_lattice, measure_risk, measure_table_risk
from sudare.methods.kanon.tuples import Tuples
from sudare.schema import Attribute, Schema, TableHierarchy, Values
from sudare.schema.hierarchy_rules import ordered_groups

TREE = TableHierarchy.from_paths([("a", "ab", "*"), ("b", "ab", "*"), ("c", "c", "*")])
LETTER = Attribute(name="letter", domain=Values(("a", "b", "c")), role="quasi", hierarchy=TREE)
SCHEMA = Schema(name="t", attributes=(LETTER,))
COUNTS = Counts.from_columns(SCHEMA, [[0], [1], [2]], [1, 4, 5])


def test_risk_is_that_of_class_sizes_one_four_and_five() -> None:
    found = measure_table_risk(COUNTS, ["letter"])

    assert (found.rows, found.classes, found.smallest) == (10, 3, 1)
    assert (found.prosecutor, found.journalist, found.marketer, found.uniques) == (1.0, 1.0, 0.3, 0.1)
    assert dict(found.histogram)[1] == 1
    assert dict(found.histogram)[3] == 1
    assert found.to_dict()["average_class"] == pytest.approx(10 / 3)


def test_a_register_of_the_population_lowers_the_journalists_risk() -> None:
    register = Counts.from_columns(SCHEMA, [[0], [1], [2]], [10, 40, 50])
    found = measure_table_risk(COUNTS, ["letter"], register)

    assert found.prosecutor == 1.0
    assert found.journalist == pytest.approx(0.1)
    assert found.marketer == pytest.approx(0.03)


def test_an_empty_table_has_no_risk() -> None:
    assert measure_risk(np.array([], dtype=np.int64)).prosecutor == 0


def test_loss_counts_the_values_a_label_stands_for_and_a_row_left_out_as_one() -> None:
    coarse = compare_recoding(KAnonymity(k=5).outcome(COUNTS, ("letter",)).recoded)
    out = compare_recoding(KAnonymity(k=4, max_suppressed="0.1").outcome(COUNTS, ("letter",)).recoded)

    assert coarse.loss == {"letter": pytest.approx(0.25)}  # half the rows at (2 - 1) / (3 - 1)
    assert coarse.costliest == "letter"
    assert (coarse.after.smallest, coarse.suppressed_rows) == (5, 0)
    assert out.loss == {"letter": pytest.approx(0.1)}
    assert out.suppressed_rows == 1
    assert out.to_dict()["stamp"] == "not for publication"


def test_a_small_lattice_is_drawn_with_what_each_node_keeps() -> None:
    outcome = KAnonymity(k=5).outcome(COUNTS, ("letter",))
    assert outcome.result is not None
    lattice = Lattice((LETTER,))
    drawn = measure_lattice(
        Tuples.of(COUNTS, ["letter"]), lattice, k=5, trace=outcome.result.trace, chosen=outcome.result.node
    )

    assert [(one.node, one.k, one.is_kept, one.is_chosen) for one in drawn.nodes] == [
        ((0,), 1, False, False),
        ((1,), 5, True, True),
        ((2,), 10, True, False),
    ]
    assert drawn.edges == (((0,), (1,)), ((1,), (2,)))
    assert drawn.to_dict()["nodes"][1]["chosen"] is True


def test_a_large_lattice_is_not_drawn() -> None:
    domain = Values(tuple(map(str, range(64))), is_ordered=True)
    tree = ordered_groups(domain, [2, 4, 8, 16, 32])
    wide = Lattice(tuple(Attribute(name=f"a{number}", domain=domain, hierarchy=tree) for number in range(8)))
    with pytest.raises(ParameterError, match="too large to draw"):
        measure_lattice(Tuples.of(COUNTS, ["letter"]), wide, k=2)
