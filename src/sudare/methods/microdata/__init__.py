"""Records with the same columns as the original, under epsilon-DP (Terada, Yamaguchi, Hongo 2017)."""

from sudare.methods.microdata.expected_error import MicrodataPreview
from sudare.methods.microdata.microdata import Microdata

__all__ = ["Microdata", "MicrodataPreview"]
