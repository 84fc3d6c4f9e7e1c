"""Comparisons with the truth and audits of promises. What is found here stays with the steward."""

from sudare.evaluate.audit import Audit, audit, audit_outputs
from sudare.evaluate.distances import empty_cell_share, ks_distance, l2_distance
from sudare.evaluate.evaluation import Evaluation
from sudare.evaluate.published import counts_of

__all__ = [
    "Audit",
    "Evaluation",
    "audit",
    "audit_outputs",
    "counts_of",
    "empty_cell_share",
    "ks_distance",
    "l2_distance",
]
