"""Records with the same columns as the original, under epsilon-DP (Terada, Yamaguchi, Hongo 2017)."""

from sudare.methods.microdata.microdata import Microdata
from sudare.methods.microdata.preview import Preview

__all__ = ["Microdata", "Preview"]
