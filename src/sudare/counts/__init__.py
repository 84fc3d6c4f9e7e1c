"""Private values: the sparse contingency table every method starts from. Pure NumPy, no randomness."""

from sudare.counts.counts import Countable, Counts

__all__ = ["Countable", "Counts"]
