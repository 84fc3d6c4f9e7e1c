"""What is promised and what is spent."""

from sudare.privacy.chain import Spend, Unrecorded
from sudare.privacy.currency import Currency
from sudare.privacy.differential import (
    ConcentratedGuarantee,
    DifferentialPrivacy,
    Guarantee,
    Neighbours,
    promise_privacy,
)
from sudare.privacy.exact import exact, exact_epsilon
from sudare.privacy.ledger import Ledger
from sudare.privacy.promise import Promise, read_guarantee

__all__ = [
    "ConcentratedGuarantee",
    "Currency",
    "DifferentialPrivacy",
    "Guarantee",
    "Ledger",
    "Neighbours",
    "Promise",
    "Spend",
    "Unrecorded",
    "exact",
    "exact_epsilon",
    "promise_privacy",
    "read_guarantee",
]
