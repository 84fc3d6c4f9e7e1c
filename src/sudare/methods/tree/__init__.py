"""Tables too large to visit, published from the top down: a tree over the domain, opened where records are."""

from sudare.methods.tree.grow import Descent
from sudare.methods.tree.levels import Ladder, Tree, attribute_order, ladder, make_tree
from sudare.methods.tree.possible import Possible

__all__ = ["Descent", "Ladder", "Possible", "Tree", "attribute_order", "ladder", "make_tree"]
