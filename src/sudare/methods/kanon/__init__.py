"""k-anonymity: predict, search, recode (Sweeney 2002; Oguri et al. 2016)."""

from sudare.methods.kanon.kanonymity import KAnonymity, KAnonymityPreview
from sudare.methods.kanon.relabel import Outcome

__all__ = ["KAnonymity", "KAnonymityPreview", "Outcome"]
