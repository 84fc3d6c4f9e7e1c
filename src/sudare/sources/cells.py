"""From rows to cells: the key of a row in SQL, and the counted keys as a table of counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.counts.sparse import exact_sum
from sudare.schema import Codes, Radix, Schema
from sudare.sources.coding import Coding
from sudare.sources.sql import Expression, both, choose, words


def keys_of(codings: Sequence[Coding], radix: Radix) -> list[Expression]:
    """The words of the key of a row, NULL where a value does not fit; one guard for each word."""
    keys = words([coding.inner.copy() for coding in codings], radix)
    for index, word in enumerate(radix.words):
        guards = [guard.copy() for at in word if (guard := codings[at].guard) is not None]
        if guards:
            keys[index] = choose([(both(*guards), keys[index])])
    return keys


def counted(schema: Schema, keys: list[NDArray[Any]], values: Codes) -> Counts:
    """Make a table of counts from keys that all differ, one array a word, in any order. Empties `keys`.

    >>> from sudare.schema import Attribute, Values
    >>> schema = Schema(name="t", attributes=(Attribute(name="a", domain=Values(("x", "y", "z"))),))
    >>> counted(schema, [np.array([2, 0])], np.array([5, 1])).dense()
    array([1, 0, 5])
    """
    if len(keys) > 1:
        return Counts.build(schema, np.column_stack(keys), values)
    codes, values = _sorted(keys.pop().astype(np.int64), values, schema.size)
    total = exact_sum(values)
    if codes.size and codes[0] >= 0 and codes[-1] < schema.size and total < 2**63 and values.all():
        return Counts(
            schema, codes.reshape(-1, 1), values, total
        )  # sorted, different, inside, above 0: no need to build
    return Counts.build(schema, codes.reshape(-1, 1), values)


def _sorted(codes: Codes, values: Codes, size: int) -> tuple[Codes, Codes]:
    """Sort cells with their counts as one number each where that fits: three times as quick as sorting positions.

    >>> [part.tolist() for part in _sorted(np.array([7, 2]), np.array([1, 5]), 9)]
    [[2, 7], [5, 1]]
    """
    bits = int(values.max(initial=0)).bit_length()
    if (size - 1).bit_length() + bits > 63:
        order = np.argsort(codes)
        return codes[order], values[order]
    codes <<= bits
    codes |= values
    codes.sort()
    return codes >> bits, codes & ((1 << bits) - 1)
