"""What is promised and what is spent."""

from sudare.privacy.exact import exact, exact_epsilon
from sudare.privacy.guarantee import Guarantee, Neighbours, Promise
from sudare.privacy.ledger import Ledger
from sudare.privacy.spend import Spend, Unrecorded

__all__ = ["Guarantee", "Ledger", "Neighbours", "Promise", "Spend", "Unrecorded", "exact", "exact_epsilon"]
