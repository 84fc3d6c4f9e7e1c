"""Requests that need suppression are approved wherever the rare value stands."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pyarrow as pa
import pytest

import sudare as sd
from sudare.methods.kanon.approve import approve
from sudare.methods.kanon.criteria import MinimumSize
from sudare.methods.kanon.request import Request
from sudare.schema import Attribute, Schema, Values


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_a_rare_value_is_left_out_in_any_order_of_values(order: tuple[str, ...]) -> None:
    schema = Schema(name="t", attributes=(Attribute(name="town", domain=Values(order), role="quasi"),))
    table = pa.table({"town": ["a"] + ["b"] * 20 + ["c"] * 20})
    request = Request.from_dict({"request": {"k": 5}, "option": [{"town": 0}]}, schema)
    with sd.open(table, schema) as source:
        approval = approve(
            source,
            request,
            criteria=(MinimumSize(k=5),),
            max_suppressed=Fraction(1, 10),
            find_sensitive=lambda quasi: (),
        )
    recoded = approval.require_approved()[1].recoded

    assert sorted(recoded.class_sizes.tolist()) == [20, 20]
    assert recoded.suppressed_rows == 1
