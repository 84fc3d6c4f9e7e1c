"""From the published table to records (step 4 of section 4.1)."""

from __future__ import annotations

from sudare.counts import Counts
from sudare.mechanisms import Rng
from sudare.methods.labels import coded
from sudare.releases import Frame


def records(table: Counts, *, rng: Rng) -> Frame:
    """Write every cell out as often as it counts, rows in random order so that their place tells nothing."""
    rows = table.expand()[rng.permutation(table.total)]
    return Frame({one.name: coded(one, rows[:, position]) for position, one in enumerate(table.schema.attributes)})
