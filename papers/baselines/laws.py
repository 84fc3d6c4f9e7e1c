"""The laws of the baselines written out for tables small enough to list: what each promise is checked against.

Never used to draw. A law maps every table that can come out to its probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np

from papers.baselines.pram import Pram
from sudare.schema import Schema
from sudare.schema.arrays import Reals

CellTuple = tuple[int, ...]
TableLaw = Mapping[CellTuple, float]


def tables(records: int, cells: int) -> Iterator[CellTuple]:
    """List all tables of so many records.

    >>> list(tables(2, 2))
    [(0, 2), (1, 1), (2, 0)]
    """
    if cells == 1:
        yield (records,)
        return
    for first in range(records + 1):
        yield from ((first, *rest) for rest in tables(records - first, cells - 1))


def neighbours(table: CellTuple) -> Iterator[CellTuple]:
    """List the tables with one record replaced.

    >>> list(neighbours((1, 0)))
    [(0, 1)]
    """
    places = range(len(table))
    for source in (place for place in places if table[place]):
        for target in (place for place in places if place != source):
            moved = list(table)
            moved[source] -= 1
            moved[target] += 1
            yield tuple(moved)


def largest_log_ratio(law: Callable[[CellTuple], TableLaw], *, records: int, cells: int) -> float:
    """Find the largest ln P[y | v]/P[y | v'] over all neighbours v, v' and outputs y: the epsilon that is kept.

    >>> largest_log_ratio(lambda table: {(1,): 1.0}, records=1, cells=1)
    0.0
    """
    known = {table: law(table) for table in tables(records, cells)}
    return max((_loss(known[one], known[other]) for one in known for other in neighbours(one)), default=0.0)


def multinomial_law(shares: Reals | Sequence[float], records: int) -> TableLaw:
    """The law of independent records with the given shares.

    >>> multinomial_law([0.5, 0.5], 2)[(1, 1)]
    0.5
    """
    return {
        table: math.prod(_ways(table)) * math.prod(share**count for share, count in zip(shares, table, strict=True))
        for table in tables(records, len(shares))
    }


def dirichlet_multinomial_law(weights: Reals | Sequence[float], records: int) -> TableLaw:
    """The law of records sampled from one draw of a Dirichlet distribution.

    P[y] = (ways of y) * prod_i w_i (w_i + 1) ... (w_i + y_i - 1) / (W (W + 1) ... (W + n - 1)),  W = sum w_i

    >>> round(dirichlet_multinomial_law([1.0, 1.0], 2)[(1, 1)], 9)
    0.333333333
    """
    whole = _rising(float(sum(weights)), records)
    return {
        table: math.prod(_ways(table)) * math.prod(map(_rising, map(float, weights), table)) / whole
        for table in tables(records, len(weights))
    }


def pram_law(method: Pram, schema: Schema, table: CellTuple) -> TableLaw:
    """The law of post-randomisation: every record moves by itself, so laws of single records are added up."""
    moves = pram_moves(method, schema)
    law: dict[CellTuple, float] = {(0,) * len(table): 1.0}
    for cell, count in enumerate(table):
        for _ in range(count):
            law = _with_one_more(law, [float(share) for share in moves[cell]])
    return law


def pram_moves(method: Pram, schema: Schema) -> list[list[Fraction]]:
    """The exact probability that a record of one cell is published as each cell."""
    keeps = method.retention(schema)
    values = schema.radix.decode(np.arange(schema.size, dtype=np.int64)[:, None]).tolist()
    parts = list(zip(keeps, schema.sizes, strict=True))
    return [[_move(old, new, parts) for new in values] for old in values]


def _move(old: list[int], new: list[int], parts: list[tuple[Fraction, int]]) -> Fraction:
    found = Fraction(1)
    for (keep, size), before, after in zip(parts, old, new, strict=True):
        found *= (1 - keep) / size + (keep if before == after else 0)
    return found


def _with_one_more(law: Mapping[CellTuple, float], moves: list[float]) -> dict[CellTuple, float]:
    grown: dict[CellTuple, float] = {}
    for table, probability in law.items():
        for cell, share in enumerate(moves):
            more = (*table[:cell], table[cell] + 1, *table[cell + 1 :])
            grown[more] = grown.get(more, 0.0) + probability * share
    return grown


def _loss(one: TableLaw, other: TableLaw) -> float:
    return max(math.log(probability / other[table]) if probability else 0.0 for table, probability in one.items())


def _ways(table: CellTuple) -> Iterator[int]:
    left = sum(table)
    for count in table:
        yield math.comb(left, count)
        left -= count


def _rising(start: float, steps: int) -> float:
    return math.prod(start + step for step in range(steps))
