"""What can be known of a k-anonymous release before the table is opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sudare.messages import say


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
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

    def lines(self, *, lang: str | None = None) -> list[str]:
        """Tell it in a few lines."""
        told = [say("quasi-identifiers: {names}", lang=lang, names=", ".join(self.quasi))]
        if self.nodes is not None:
            told.append(say("ways to generalise: {nodes}", lang=lang, nodes=self.nodes))
        told.append(
            say(
                "combinations: {finest} as declared, {coarsest} at the coarsest",
                lang=lang,
                finest=self.finest,
                coarsest=self.coarsest,
            )
        )
        if self.most_cells is not None:
            told.append(say("at most {cells} combinations can hold k rows each", lang=lang, cells=self.most_cells))
        if self.unchanged:
            names = ", ".join(self.unchanged)
            told.append(
                say("published as they are, for those who know them no protection: {names}", lang=lang, names=names)
            )
        return told

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a program."""
        return {
            "quasi": list(self.quasi),
            "unchanged": list(self.unchanged),
            "nodes": self.nodes,
            "finest_cells": self.finest,
            "coarsest_cells": self.coarsest,
            "most_cells": self.most_cells,
        }
