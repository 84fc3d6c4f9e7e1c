"""A made-up table of sales with a long tail, after section 5.1 of Terada 2017. No person is in it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def sales(*, items: int, records: int, seed: int) -> NDArray[np.int64]:
    """Draw records (item, sex, decade): codes of `items` items, 2 sexes and 5 decades of age.

    Item k sells with Zipf probability 1/k; men buy the odd ones twice as often as women and the other way round; ages
    are uniform.

    >>> sales(items=100, records=5, seed=1).shape
    (5, 3)
    """
    generator = np.random.default_rng(seed)  # the data are made up: nothing here needs to be secret
    weights = 1.0 / np.arange(1, items + 1)
    item = generator.choice(items, size=records, p=weights / weights.sum())
    woman = generator.random(records) < np.where(item % 2 == 0, 1 / 3, 2 / 3)
    decade = generator.integers(0, 5, size=records)
    return np.column_stack([item, woman.astype(np.int64), decade]).astype(np.int64)
