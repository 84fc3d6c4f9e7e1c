"""What is promised and what is spent.

Names are loaded when first used: who only reads a release waits for no ledger.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sudare.privacy.exact import exact, exact_epsilon  # at once: the module has the name of the function

if TYPE_CHECKING:
    from sudare.privacy.address import hide_password, is_server_address
    from sudare.privacy.currency import Currency
    from sudare.privacy.differential import (
        ConcentratedGuarantee,
        DifferentialPrivacy,
        Guarantee,
        Neighbours,
        promise_privacy,
    )
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

_PLACES = {  # name -> module
    "hide_password": "address",
    "is_server_address": "address",
    "Currency": "currency",
    "ConcentratedGuarantee": "differential",
    "DifferentialPrivacy": "differential",
    "Guarantee": "differential",
    "Neighbours": "differential",
    "promise_privacy": "differential",
    "Ledger": "ledger",
    "Promise": "promise",
    "read_guarantee": "promise",
    "Account": "spend",
    "ReleaseAccount": "spend",
    "Spend": "spend",
    "Unrecorded": "spend",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    return found
