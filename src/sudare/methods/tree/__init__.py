"""Tables too large to visit, published from the top down: a tree over the domain, opened where records are."""

from sudare.methods.tree.grow import TopDownTree
from sudare.methods.tree.levels import Tree, ValueGroups, attribute_order, group_values, make_tree
from sudare.methods.tree.possible import Possible

__all__ = ["Possible", "TopDownTree", "Tree", "ValueGroups", "attribute_order", "group_values", "make_tree"]
