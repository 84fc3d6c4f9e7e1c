"""What is promised and what is spent."""

from sudare.privacy.address import hide_password, is_server_address
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
from sudare.privacy.spend import Account, ReleaseAccount, Spend, Unrecorded

__all__ = [
    "Account",
    "ConcentratedGuarantee",
    "Currency",
    "DifferentialPrivacy",
    "Guarantee",
    "Ledger",
    "Neighbours",
    "Promise",
    "ReleaseAccount",
    "Spend",
    "Unrecorded",
    "exact",
    "exact_epsilon",
    "hide_password",
    "is_server_address",
    "promise_privacy",
    "read_guarantee",
]
