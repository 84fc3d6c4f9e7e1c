"""k-anonymity: the table itself, generalised (Sweeney 2002; Oguri et al. 2016).

kanonymity               the method; steward: what only the steward is told
lattice, tuples          the nodes of all generalisations, and the classes of a node (equal_keys groups them fast)
criteria, quality        what a class must satisfy, and how much a generalised table has lost
problem, check           what a search is given, and the check of one node
optimal, searches        branch and bound with a proven gap; the searches of the literature
power_law                how k falls with the number of cells: where a search starts, what a history predicts
recode, local, top_down, mondrian  classes and labels: levels, levels by value, by class, ranges
relabel                  the recodings put together, and the last check
request, approve         tailor-made requests, and the first option that keeps the promise
history, predict         what was measured of a table, and what that says of a request
choices, lattice_picture what every level costs, and pictures of it
risk, compare, page      risk and loss beside the truth, and the page about a release
"""

from sudare.methods.kanon.kanonymity import KAnonymity
from sudare.methods.kanon.preview import KAnonymityPreview
from sudare.methods.kanon.relabel import Outcome

__all__ = ["KAnonymity", "KAnonymityPreview", "Outcome"]
