"""Tables too large to visit, published from the top down: a tree over the domain, opened where records are."""

from sudare.methods.descent.descend import Descent
from sudare.methods.descent.ladders import Ladder, ladder
from sudare.methods.descent.possible import Possible
from sudare.methods.descent.tree import Tree, attribute_order, make_tree

__all__ = ["Descent", "Ladder", "Possible", "Tree", "attribute_order", "ladder", "make_tree"]
