"""From the published table to records (step 4 of section 4.1)."""

from __future__ import annotations

from sudare.counts import Counts
from sudare.mechanisms import Rng
from sudare.methods.labels import coded, drawn_inside
from sudare.releases import Frame


def records(table: Counts, *, rng: Rng, inside: bool = False) -> Frame:
    """Write every cell out as often as it counts, rows in random order so that their place tells nothing.

    With `inside`, numbers and dates are drawn within their bins; else bins are published as labels.
    """
    rows = table.expand()[rng.permutation(table.total)]
    columns = {}
    for position, one in enumerate(table.schema.attributes):
        codes = rows[:, position]
        columns[one.name] = drawn_inside(one, codes, rng=rng) if inside else coded(one, codes)
    return Frame(columns)
