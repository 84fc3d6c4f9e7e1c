"""A mechanism a device uses to report a cell of a map, with epsilon per metre (Hiraishi and others).

grid, graph, elastic   cells and metrics: one protocol, `Places`
mechanism, kernel      the law P(y|x) = alpha(x) w(y) exp(-beta d(x, y)), and sums over the map
posterior              what a collector learns from a report, and how far reports are from the truth
greedy, fair, sharp    weights: the paper's algorithm 1, fairness by a smooth optimiser, less noise
tight                  the epsilon a map really needs
artefact, map_file     what goes in and what comes out
"""

from sudare.methods.location.device_file import Artefact, load_artefact
from sudare.methods.location.location import Location, LocationPreview

__all__ = ["Artefact", "Location", "LocationPreview", "load_artefact"]
