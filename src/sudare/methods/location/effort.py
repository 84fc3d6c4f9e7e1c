"""How long a map takes to make, told before the work: from its cells, its pairs within reach and the mode.

CPU seconds of one thread for each cell (planes) or pair (other maps), measured on maps of 225 to a million cells of
100 m at 0.004 to 0.02 per metre (docs/measurements/location.md). Times go with the square of the cells where a whole
table of distances is used. A guess of seconds, so that it is told as a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sudare.methods.location.capped_large import MAX_OTHER_CELLS
from sudare.methods.location.grid import Places, PlaneGrid
from sudare.methods.location.kernel import MAX_DENSE_CELLS
from sudare.methods.location.near import MAX_PROGRAMME_CELLS
from sudare.methods.location.nearby import count_pairs
from sudare.text import Text, text

if TYPE_CHECKING:
    from sudare.methods.location.location import Location

PER_CELL = {"grid": 1e-5, "weighted": 1e-5, "sharp": 1e-4, "fair": 1e-3, "near": 1.6e-3, "capped": 7e-3}
PER_PAIR = {"grid": 3e-7, "weighted": 3e-7, "sharp": 4e-6, "fair": 1.5e-5, "near": 2e-6, "capped": 1.5e-5}
PER_PAIR_BY_WEIGHTS = 2.5e-6  # of fair with a prior on the largest maps, which has weights alone
PER_PROGRAMME = 3e-6  # for each cell cubed: near and fair with a prior on small maps
SHORT, LONG = 30.0, 120.0  # seconds below which nothing is said, and from which minutes are told


def estimate_seconds(method: Location) -> float:
    """Estimate the CPU seconds of making and measuring a map, to within a factor of about three."""
    places = method.places
    mode = "capped" if method.mode == "fair" and method.prior is not None else method.mode
    if mode in ("near", "capped") and places.size <= MAX_PROGRAMME_CELLS:
        return PER_PROGRAMME * places.size**3
    if isinstance(places, PlaneGrid):
        are_named = mode == "sharp" and method.inputs == "all" and method.weights is not None  # reports of the sea
        return PER_CELL["near" if are_named else mode] * places.size
    per_pair = PER_PAIR_BY_WEIGHTS if mode == "capped" and places.size > MAX_OTHER_CELLS else PER_PAIR[mode]
    return per_pair * _count_pairs(places, float(method.epsilon_per_metre))


def _count_pairs(places: Places, epsilon: float) -> float:
    """Count the pairs that are summed: all of a small map, of others those within reach at beta = epsilon / 2."""
    return places.size**2 / 2 if places.size <= MAX_DENSE_CELLS else count_pairs(places, epsilon / 2)


def tell_effort(seconds: float) -> Text | None:
    """Tell a time as a word; None for what takes seconds only.

    >>> tell_effort(2) is None, str(tell_effort(60))
    (True, 'making this map takes about a minute of one processor')
    """
    if seconds < SHORT:
        return None
    if seconds < LONG:
        return text("making this map takes about a minute of one processor")
    return text("making this map takes some minutes of one processor")
