"""A table of counts as it will be published: which rows look alike, and what each value is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.counts.relabelling import LEFT_OUT, Relabelling
from sudare.methods.kanon.grouping import grouped
from sudare.methods.kanon.tuples import Joint, Tuples
from sudare.schema import Attribute

Codes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Pieces:
    """Distinct combinations of quasi-identifiers and sensitive attributes, with how many rows each stands for.

    A combination may stand in several pieces, where its rows go to different classes.
    """

    attributes: tuple[Attribute, ...]
    quasi: int  # so many of the attributes, the first ones, are quasi-identifiers
    codes: Codes  # (pieces, attributes)
    weights: Codes

    @classmethod
    def of(cls, counts: Counts, quasi: Sequence[str], sensitive: Sequence[str] = ()) -> Pieces:
        """Read counts over (at least) these attributes.

        >>> from sudare.schema import Schema, Values
        >>> sex = Attribute(name="sex", domain=Values(("F", "M")))
        >>> counts = Counts.from_columns(Schema(name="s", attributes=(sex,)), [[0], [1], [1]])
        >>> Pieces.of(counts, ["sex"]).weights.tolist()
        [1, 2]
        """
        chosen = counts.project([*quasi, *sensitive])
        return cls(
            attributes=chosen.schema.attributes,
            quasi=len(quasi),
            codes=chosen.columns(),
            weights=np.asarray(chosen.values, dtype=np.int64),
        )

    def __repr__(self) -> str:
        return f"<Pieces over {', '.join(self.names)}>"

    @property
    def names(self) -> tuple[str, ...]:
        """Name the attributes, quasi-identifiers first."""
        return tuple(attribute.name for attribute in self.attributes)

    @property
    def rows(self) -> int:
        """Count the rows."""
        return int(self.weights.sum())

    def take(self, chosen: NDArray[Any], weights: Codes | None = None) -> Pieces:
        """Keep some pieces, with other weights if they are cut."""
        kept = self.weights[chosen] if weights is None else weights
        return Pieces(attributes=self.attributes, quasi=self.quasi, codes=self.codes[chosen], weights=kept)

    def tuples(self, class_of: Codes | None = None) -> Tuples:
        """Give the pieces as tuples of a search; with classes, only those that are in one."""
        kept = self if class_of is None else self.take(class_of != LEFT_OUT)
        places = np.arange(len(kept.weights), dtype=np.int64)
        joints = {
            attribute.name: Joint(
                attribute=attribute, tuple_of=places, value=kept.codes[:, kept.quasi + at], weight=kept.weights
            )
            for at, attribute in enumerate(kept.attributes[kept.quasi :])
        }
        return Tuples(
            attributes=kept.attributes[: kept.quasi],
            codes=kept.codes[:, : kept.quasi],
            weights=kept.weights,
            joints=joints,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Recoded:
    """The outcome of a recoding. Private: it stays with the steward, who writes the table with `relabelling`.

    `class_of[p]` is the class of a piece, LEFT_OUT where its rows are not published; `spread[p, q]` tells how many
    declared values the label of a quasi-identifier stands for. `mapping` is what may be published of the recoding:
    levels and groups of values, no combination.
    """

    pieces: Pieces
    class_of: Codes
    spread: Codes
    relabelling: Relabelling
    mapping: Mapping[str, Any] = field(default_factory=dict)

    @property
    def class_sizes(self) -> Codes:
        """Count the rows of every class."""
        kept = self.class_of != LEFT_OUT
        return np.bincount(self.class_of[kept], weights=self.pieces.weights[kept]).astype(np.int64)

    @property
    def left_out(self) -> int:
        """Count the rows that are not published."""
        return int(self.pieces.weights[self.class_of == LEFT_OUT].sum())

    def coarseness(self) -> dict[str, float]:
        """Tell how much of its attribute a published value stands for, on average: 0 one value, 1 all of them.

        Of the published rows alone, so that whoever has the release can compute it too.
        """
        pieces, kept = self.pieces, self.class_of != LEFT_OUT
        weights = pieces.weights[kept].astype(np.float64)
        rows = max(1.0, float(weights.sum()))
        found = {}
        for axis, attribute in enumerate(pieces.attributes[: pieces.quasi]):
            others = (self.spread[kept, axis] - 1) / max(1, attribute.size - 1)
            found[attribute.name] = round(float((others * weights).sum()) / rows, 4)
        return found


def class_numbers(columns: Codes) -> Codes:
    """Number rows of codes (m, d) by equality: 0, 1, ...

    >>> class_numbers(np.array([[1, 5], [0, 2], [1, 5]])).tolist()
    [1, 0, 1]
    """
    rank, places = np.zeros(len(columns), dtype=np.int64), 1
    for column in columns.T:
        size = 1 + int(column.max(initial=0))
        if places > 2**62 // size:
            column, size = np.unique(column, return_inverse=True)[1].reshape(-1), len(columns)
        found = grouped(rank * size + column, places * size)
        rank, places = found.ids, max(1, found.count)
    return np.asarray(rank, dtype=np.int64)
