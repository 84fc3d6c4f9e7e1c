"""Public facts about a table, declared before anyone looks at it."""

from sudare.schema.areas import Areas
from sudare.schema.arrays import Codes
from sudare.schema.attribute import MISSING_LABEL, OTHER_LABEL, Attribute, Outside, Role
from sudare.schema.bins import DateBins, NumberBins
from sudare.schema.domain import Domain, Values
from sudare.schema.hierarchy import Hierarchy, MeshHierarchy, TableHierarchy
from sudare.schema.impossible import Impossible
from sudare.schema.mesh import MeshCells
from sudare.schema.radix import Radix
from sudare.schema.schema import Origin, Schema
from sudare.schema.unit import Unit

__all__ = [
    "MISSING_LABEL",
    "OTHER_LABEL",
    "Areas",
    "Attribute",
    "Codes",
    "DateBins",
    "Domain",
    "Hierarchy",
    "Impossible",
    "MeshCells",
    "MeshHierarchy",
    "NumberBins",
    "Origin",
    "Outside",
    "Radix",
    "Role",
    "Schema",
    "TableHierarchy",
    "Unit",
    "Values",
]
