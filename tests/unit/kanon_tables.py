"""Small tables with hierarchies, for the tests of the k-anonymity searches."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sudare.counts import Counts
from sudare.methods.kanon.criteria import Criterion, MinimumSize
from sudare.methods.kanon.lattice import Lattice
from sudare.methods.kanon.problem import Problem
from sudare.methods.kanon.quality import QUALITIES
from sudare.methods.kanon.tuples import Tuples
from sudare.schema import Attribute, Schema, TableHierarchy, Values


def attribute(
    name: str, levels: Sequence[Sequence[int]], role: str = "quasi", *, is_ordered: bool = False
) -> Attribute:
    """levels[l][code] is the group of a code at level l + 1; a group's label tells its level."""
    size = len(levels[0])
    paths = [
        (f"{name}{code}", *(f"{name}/{i}/{level[code]}" for i, level in enumerate(levels))) for code in range(size)
    ]
    return Attribute(
        name=name,
        domain=Values(tuple(path[0] for path in paths), is_ordered=is_ordered),
        role=role,  # type: ignore[arg-type]
        hierarchy=TableHierarchy.from_paths(paths),
    )


def halving(name: str, bits: int, role: str = "quasi") -> Attribute:
    """2**bits values; each level joins pairs, the top is one group."""
    return attribute(name, [[code >> level for code in range(2**bits)] for level in range(1, bits + 1)], role)


def random_counts(seed: int, *, bits: Sequence[int] = (2, 2, 1), rows: int = 60, values: int = 4) -> Counts:
    """A skewed table of quasi-identifiers a, b, ... and a sensitive attribute s of a few values."""
    rng = np.random.default_rng(seed)
    attributes = [halving("abcdefghijklmnop"[place], each) for place, each in enumerate(bits)]
    low, two = [code // 2 for code in range(values)], [0] * values
    attributes.append(attribute("s", [low, two], "sensitive", is_ordered=True))
    columns = [np.minimum(rng.geometric(0.45, rows) - 1, one.size - 1) for one in attributes]
    return Counts.from_columns(Schema(name="random", attributes=tuple(attributes)), np.column_stack(columns))


def problem_of(
    counts: Counts,
    *criteria: Criterion,
    k: int | None = 3,
    quality: str = "loss",
    max_suppressed: Fraction | int = 0,
    **more: object,
) -> Problem:
    lattice = Lattice.of(counts.schema)
    sensitive = [one.name for one in counts.schema.attributes if one.role == "sensitive"]
    promises = (*criteria, MinimumSize(k=k)) if k is not None else criteria
    return Problem(
        tuples=Tuples.of(counts, lattice.names, sensitive),
        lattice=lattice,
        criteria=promises,
        quality=QUALITIES[quality],
        max_suppressed=Fraction(max_suppressed),
        **more,  # type: ignore[arg-type]
    )
