"""The tree of a table: which sums are measured on the way from the total to the cells."""

from __future__ import annotations

from collections.abc import Sequence

from sudare.methods.descent import Ladder, Tree, ladder, make_tree
from sudare.methods.descent.tree import Heights
from sudare.schema import Schema

WIDEST = 256  # children of a node: fewer levels leave more of epsilon to each


def table_tree(schema: Schema) -> Tree:
    """Make the tree of a table: all attributes come down together, declared groups first seen as declared.

    >>> from sudare.schema import Attribute, NumberBins
    >>> x = Attribute(name="x", domain=NumberBins.of_width(0, 1024, 1))
    >>> y = Attribute(name="y", domain=NumberBins.of_width(0, 512, 1))
    >>> tree = table_tree(Schema(name="grid", attributes=(x, y)))
    >>> [tree.size(level) for level in range(len(tree.levels))]
    [1, 8, 2048, 524288]
    """
    ladders = [ladder(each) for each in schema.attributes]
    return make_tree(schema, interleave(ladders), ladders)


def interleave(ladders: Sequence[Ladder]) -> list[Heights]:
    """List the levels: at every step those attributes come down one rung that have most rungs left.

    So all arrive at their values together. They come down in one step as long as a node then has at most 256 children;
    those that have to wait come first at the next.
    """
    heights = [each.top for each in ladders]
    levels = [tuple(heights)]
    turn = list(range(len(ladders)))
    while any(heights):
        moved: list[int] = []
        children, highest = 1.0, max(heights)
        for each in turn:
            fan = _fan(ladders[each], heights[each])
            if heights[each] == highest and (not moved or children * fan <= WIDEST):
                children *= fan
                moved.append(each)
        for each in moved:
            heights[each] -= 1
        turn = [each for each in turn if each not in moved] + moved
        levels.append(tuple(heights))
    return levels


def _fan(one: Ladder, height: int) -> float:
    """Children that a node of a height has, in the mean."""
    return one.nodes(height - 1) / one.nodes(height) if height else 1.0
