"""Local recoding by rounds, against a count by hand."""

from __future__ import annotations

import numpy as np
import pytest

from papers.baselines.local_rounds import recode_in_rounds
from sudare.counts import Counts
from sudare.schema import Attribute, Schema, TableHierarchy, Values

TREE = TableHierarchy.from_paths([("a", "a", "*"), ("b", "bc", "*"), ("c", "bc", "*")])
TOWN = Attribute(name="town", domain=Values(("a", "b", "c")), role="quasi", hierarchy=TREE)


@pytest.mark.parametrize(
    ("rows", "loss", "left_out"),
    [
        ((5, 2, 3), 0.25, 0),  # a stays as it is; b and c share a label for two of three values, five rows of ten
        ((5, 5, 5), 0.0, 0),
        ((5, 2, 2), 4 / 9, 4),  # four rows are left that hold no five: they are left out
    ],
)
def test_rounds_keep_what_is_fine_and_go_on_with_the_rest(
    rows: tuple[int, int, int], loss: float, left_out: int
) -> None:
    schema = Schema(name="t", attributes=(TOWN,))
    counts = Counts.from_columns(schema, np.repeat([[0], [1], [2]], rows, axis=0))

    assert recode_in_rounds(counts, ("town",), k=5) == (pytest.approx(loss), left_out)
