"""Requests for tailor-made tables: the store, the verdicts that an outsider may have, and the way to a delivery."""

from __future__ import annotations

from sudare.requests.answer import RequestAnswer, StewardAnswer, answer_request
from sudare.requests.policy import TablePolicy
from sudare.requests.store import RequestEvent, RequestState, RequestStore, StoredRequest
from sudare.requests.verdicts import VerdictFile

__all__ = [
    "RequestAnswer",
    "RequestEvent",
    "RequestState",
    "RequestStore",
    "StewardAnswer",
    "StoredRequest",
    "TablePolicy",
    "VerdictFile",
    "answer_request",
]
