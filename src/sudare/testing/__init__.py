"""Contracts that ship with Sudare: what every method and every source must keep, as checks anyone can run."""

from sudare.testing.methods import METHOD_CHECKS, CheckedSentence, check_method
from sudare.testing.sources import SOURCE_CHECKS, check_source
from sudare.testing.subject import Tabled

__all__ = ["METHOD_CHECKS", "SOURCE_CHECKS", "CheckedSentence", "Tabled", "check_method", "check_source"]
