"""What is known of a k-anonymous release before the data: the size of the search, and what is published unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sudare.methods.figures import ShownPreview
from sudare.methods.kanon.steward import describe_unchanged
from sudare.text import Text, text

MANY_WAYS = 10**7  # 10^5 are searched in seconds; after seven CPU minutes a search of 2^53 went on


@dataclass(frozen=True, kw_only=True, slots=True)
class KAnonymityPreview(ShownPreview):
    """The size of the search, and what is published unchanged.

    `finest` and `coarsest` count the combinations of quasi-identifiers at the ends of the lattice. `most_cells`, for
    a number of rows, is how many combinations can hold k rows each if rows were spread evenly; real tables are not.
    """

    quasi: tuple[str, ...]
    unchanged: tuple[str, ...]
    nodes: int | None  # None: Mondrian searches no lattice
    finest: int
    coarsest: int
    most_cells: int | None = None

    def lines(self) -> list[Text]:
        """Say it in a few lines."""
        lines = [text("quasi-identifiers: {names}", names=", ".join(self.quasi))]
        if self.nodes is not None:
            lines.append(text("ways to generalise: {nodes}", nodes=self.nodes))
        if self.nodes is not None and self.nodes > MANY_WAYS:
            lines.append(
                text(
                    "a search of so many ways may take hours: --deadline-seconds 60 ends it with the best so far, and"
                    " says how much better another could be; with fewer quasi-identifiers (--quasi) more detail is left"
                )
            )
        lines.append(
            text(
                "combinations: {finest} as declared, {coarsest} at the coarsest",
                finest=self.finest,
                coarsest=self.coarsest,
            )
        )
        if self.most_cells is not None:
            lines.append(text("at most {cells} combinations can hold k rows each", cells=self.most_cells))
        return [*lines, *([describe_unchanged(self.unchanged)] if self.unchanged else [])]

    def to_dict(self) -> dict[str, Any]:
        """Give plain values for a program."""
        return {
            "quasi": list(self.quasi),
            "unchanged": list(self.unchanged),
            "nodes": self.nodes,
            "finest_cells": self.finest,
            "coarsest_cells": self.coarsest,
            "most_cells": self.most_cells,
        }
