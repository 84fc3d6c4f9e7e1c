"""Comparisons with the truth. What is found here stays with the steward."""

from sudare.compare.distances import Evaluation, counts_of, empty_cell_share, ks_distance, l2_distance

__all__ = ["Evaluation", "counts_of", "empty_cell_share", "ks_distance", "l2_distance"]
