"""What is promised and what is spent."""

from sudare.privacy.chain import Spend, Unrecorded
from sudare.privacy.exact import exact, exact_epsilon
from sudare.privacy.ledger import Ledger
from sudare.privacy.promise import Guarantee, Neighbours, Promise

__all__ = ["Guarantee", "Ledger", "Neighbours", "Promise", "Spend", "Unrecorded", "exact", "exact_epsilon"]
