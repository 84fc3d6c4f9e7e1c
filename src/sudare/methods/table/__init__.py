"""Counts over huge sparse domains, with region sums people can use: the wavelet of the paper and the tree."""

from sudare.methods.table.expected_error import TablePreview
from sudare.methods.table.table import Table

__all__ = ["Table", "TablePreview"]
