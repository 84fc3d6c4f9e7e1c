"""The requests of one table and what became of each: a store that is only added to.

    draft      written, not sent              asked      sent to the steward
    answered   has its answer                 granted    the steward will deliver it
    refused    will not be had                delivered  published, with the hash of its certificate
    withdrawn  taken back by the data user or the steward

Every state has its day, who brought it about, and a reason. Nothing here is of the table: options are levels and groups
of public values, answers are words (answer.py), and a reason that counts people is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from sudare.errors import ParameterError, RequestError, SchemaError
from sudare.methods.kanon.criteria import read_criteria
from sudare.methods.kanon.request import Request
from sudare.requests.policy import TablePolicy
from sudare.requests.store_file import StoredEvent, StoreFile, make_store_file
from sudare.schema import Schema
from sudare.text import Text, text

RequestState = Literal["draft", "asked", "answered", "granted", "refused", "delivered", "withdrawn"]
Role = Literal["user", "steward"]

STATES: tuple[RequestState, ...] = get_args(RequestState)
# what may follow a state, and who brings it about; "" is a request that is not there yet
MAY_FOLLOW: Mapping[str, Mapping[RequestState, tuple[Role, ...]]] = {
    "": {"draft": ("user",)},
    "draft": {"draft": ("user",), "asked": ("user",), "withdrawn": ("user",)},
    "asked": {"answered": ("steward",), "refused": ("steward",), "withdrawn": ("user",)},
    "answered": {
        "draft": ("user",),
        "answered": ("steward",),
        "granted": ("steward",),
        "refused": ("steward",),
        "withdrawn": ("user",),
    },
    "granted": {"delivered": ("steward",), "refused": ("steward",), "withdrawn": ("user",)},
    "refused": {},
    "delivered": {"withdrawn": ("steward",)},
    "withdrawn": {},
}
LONGEST_NAME, LONGEST_REASON = 100, 1000  # letters
# a number before or behind a word for people or rows, or k itself: what a reason must not tell
_COUNTED = "people|persons?|men|women|rows?|records?|individuals?|patients?|customers?|人|名|件|行|世帯|レコード"
COUNT_IN_WORDS = re.compile(
    rf"[0-9０-９][0-9０-９,，.]*\s*({_COUNTED})|\bk\s*(=|＝|is|was|of|は|が)\s*[0-9０-９]|(only|just)\s+[0-9]",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class RequestEvent:
    """One thing that happened to a request."""

    seq: int
    time: str  # UTC, ISO 8601
    actor: str
    state: RequestState
    reason: str
    facts: Mapping[str, Any]

    @property
    def day(self) -> str:
        """The day, UTC."""
        return self.time[:10]


@dataclass(frozen=True, kw_only=True)
class StoredRequest:
    """A request as it stands. `version` is the number of its last event: a change names the one that it has seen."""

    id: str
    user: str
    request: Request
    events: tuple[RequestEvent, ...]

    @property
    def state(self) -> RequestState:
        """The state now."""
        return self.events[-1].state

    @property
    def version(self) -> int:
        """The number of the last event."""
        return self.events[-1].seq

    @property
    def purpose(self) -> str:
        """What the data user wrote with the last draft."""
        return next(event.reason for event in reversed(self.events) if event.state == "draft")

    def find_last(self, state: RequestState) -> RequestEvent | None:
        """Find the last event of a state."""
        return next((event for event in reversed(self.events) if event.state == state), None)

    @property
    def granted_option(self) -> int | None:
        """The option that was granted, from 0, if one was since the last draft."""
        drafted, granted = self.find_last("draft"), self.find_last("granted")
        if granted is None or (drafted is not None and drafted.seq > granted.seq):
            return None
        return int(granted.facts["option"])

    def describe_event(self, event: RequestEvent) -> Text | None:
        """Say beside an event which option was granted; None for others."""
        if event.state != "granted" or "option" not in event.facts:
            return None
        return text("option {number}", number=int(event.facts["option"]) + 1)

    @property
    def answer(self) -> Mapping[str, Any] | None:
        """The last answer to the request as it stands now (as JSON-able facts), if it has one."""
        drafted, answered = self.find_last("draft"), self.find_last("answered")
        is_newer = answered is not None and drafted is not None and answered.seq > drafted.seq
        return answered.facts if answered is not None and is_newer else None

    def to_dict(self) -> dict[str, Any]:
        """Give plain values for a program; all of them are for the data user too."""
        return {
            "id": self.id,
            "user": self.user,
            "state": self.state,
            "version": self.version,
            "purpose": self.purpose,
            "request": self.request.to_value(),
            "events": [
                {
                    "seq": event.seq,
                    "day": event.day,
                    "actor": event.actor,
                    "state": event.state,
                    "reason": event.reason,
                    **({"facts": dict(event.facts)} if event.facts and event.state != "draft" else {}),
                }
                for event in self.events
            ],
        }


class RequestStore:
    """The requests of one table, its public schema and its policy, in one file.

    Guarantee: nothing is changed or removed, and every entry is sealed by the hash of all before it; what a file holds
    is checked whenever it is read. A change by somebody who has not seen the last one is refused.
    """

    def __init__(self, file: StoreFile, *, clock: Callable[[], datetime] | None = None) -> None:
        self._file = file
        self._clock = clock or (lambda: datetime.now(UTC))
        genesis, _ = file.read()
        facts = json.loads(genesis.facts)
        self.schema = Schema.from_dict(facts["schema"])
        self.policy = TablePolicy.from_value(facts["policy"])

    @classmethod
    def create(cls, path: str | Path, schema: Schema, policy: TablePolicy) -> RequestStore:
        """Make a store for a table: its schema and policy are public, and stay as they are.

        Error: RequestError if the name is taken; SchemaError if the schema is not confirmed.
        """
        schema.require_confirmed()
        policy.method.sensitive(schema, ())  # refuses criteria that no table of this schema keeps
        facts = json.dumps({"schema": schema.to_dict(), "policy": policy.to_value()}, ensure_ascii=False)
        make_store_file(Path(path), datetime.now(UTC).isoformat(timespec="seconds"), facts)
        return cls.open(path)

    @classmethod
    def open(cls, path: str | Path) -> RequestStore:
        """Open a store.

        Error: RequestError for what is none, or was altered.
        """
        return cls(StoreFile(Path(path)))

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    @property
    def verdicts_path(self) -> Path:
        """Where the verdict file of the table is kept, beside the store."""
        return self.path.with_name(f"{self.path.name}.verdicts")

    @property
    def head(self) -> str:
        """The hash of everything in the store: keep it elsewhere, and a store that was cut short is found."""
        genesis, events = self._file.read()
        return events[-1].head if events else genesis.head

    def list_requests(self, *, user: str | None = None, state: RequestState | None = None) -> list[StoredRequest]:
        """List the requests in the order of their drafts; those of one data user, or in one state, if named."""
        requests = self._gather(self._file.read()[1])
        return [
            request
            for request in requests.values()
            if (user is None or request.user == user) and (state is None or request.state == state)
        ]

    def find(self, id: str) -> StoredRequest:
        """Find a request.

        Error: RequestError if there is none of this id.
        """
        return _require(self._gather(self._file.read()[1]), id)

    def draft(self, request: Request, *, user: str, purpose: str = "") -> StoredRequest:
        """Write a new request down, not sent yet."""
        _check_line("user", user, LONGEST_NAME, required=True)
        self._check_request(request)
        return self._add("draft", None, role="user", actor=user, reason=purpose, facts={"request": request.to_value()})

    def redraft(self, id: str, request: Request, *, purpose: str = "", version: int | None = None) -> StoredRequest:
        """Change a request that is a draft, or was answered: it is a draft again."""
        self._check_request(request)
        user, facts = self.find(id).user, {"request": request.to_value()}
        return self._add("draft", id, role="user", actor=user, reason=purpose, facts=facts, version=version)

    def advance(
        self,
        id: str,
        state: RequestState,
        *,
        actor: str,
        role: Role,
        reason: str = "",
        facts: Mapping[str, Any] | None = None,
        version: int | None = None,
    ) -> StoredRequest:
        """Bring a request into another state.

        `version` is that of the request as the actor has seen it; if it has changed since, nothing is written.
        Error: RequestError if the state cannot follow, if it is not for this role to bring about, or if it changed.
        """
        if state == "draft":
            raise ParameterError("state (draft) must be reached by draft or redraft, which name the request")
        _check_line("actor", actor, LONGEST_NAME, required=True)
        return self._add(state, id, role=role, actor=actor, reason=reason, facts=facts or {}, version=version)

    def check_step(
        self, id: str, state: RequestState, *, actor: str, role: Role, version: int | None = None
    ) -> StoredRequest:
        """Find a request that may be brought into a state; refuse others before any work is done for it."""
        stored = self.find(id)
        _check_step(stored, state, role=role, actor=actor, version=version)
        return stored

    def _check_request(self, request: Request) -> None:
        if request.k is not None and request.k != self.policy.k:
            raise RequestError(
                "the request names k = {asked}; k belongs to the table, for which it is {k}: leave it out",
                asked=request.k,
                k=self.policy.k,
            )
        names = {name for option in request.options for name in option}
        if not request.options or not names <= set(self.schema.names):
            raise RequestError("the request is not one for this table; draft it with the schema of the store")
        for criterion in self.policy.method.criteria:
            for name in read_criteria((criterion,))[0].sensitive:
                if name in names:
                    raise RequestError(
                        "the request groups {name}, which a criterion of the table protects; it comes with every"
                        " option as it is: leave it out",
                        name=name,
                    )

    def _add(
        self,
        state: RequestState,
        id: str | None,
        *,
        role: Role,
        actor: str,
        reason: str,
        facts: Mapping[str, Any],
        version: int | None = None,
    ) -> StoredRequest:
        check_reason(reason)
        with self._file.writing() as writer:
            known = self._gather(writer.events)
            new = f"r{len(known) + 1}"
            if id is not None:
                _check_step(_require(known, id), state, role=role, actor=actor, version=version)
            written = json.dumps({"reason": reason, **facts}, ensure_ascii=False)
            time = self._clock().astimezone(UTC).isoformat(timespec="seconds")
            writer.add(time=time, request=id or new, actor=actor, kind=state, facts=written)
            return self._gather(writer.events)[id or new]

    def _gather(self, events: Sequence[StoredEvent]) -> dict[str, StoredRequest]:
        """Gather the events of every request, in the order of their first."""
        by_request: dict[str, list[tuple[StoredEvent, dict[str, Any]]]] = {}
        for event in events:
            if event.kind not in STATES:
                raise RequestError(
                    "{where} holds an entry that this Sudare does not know; use a newer one", where=self.path
                )
            by_request.setdefault(event.request, []).append((event, json.loads(event.facts)))
        return {id: self._read_request(id, entries) for id, entries in by_request.items()}

    def _read_request(self, id: str, entries: Sequence[tuple[StoredEvent, dict[str, Any]]]) -> StoredRequest:
        written = next(facts["request"] for event, facts in reversed(entries) if event.kind == "draft")
        try:
            request = Request.from_value(written, self.schema)
        except (KeyError, TypeError, AttributeError, ParameterError, SchemaError):
            raise RequestError(
                "{where}: the stored request {id} cannot be read; restore the store from a copy", where=self.path, id=id
            ) from None
        return StoredRequest(
            id=id,
            user=entries[0][0].actor,
            request=request,
            events=tuple(
                RequestEvent(
                    seq=event.seq,
                    time=event.time,
                    actor=event.actor,
                    state=event.kind,  # type: ignore[arg-type]  # one of STATES
                    reason=facts["reason"],
                    facts={name: value for name, value in facts.items() if name != "reason"},
                )
                for event, facts in entries
            ),
        )


def _require(known: Mapping[str, StoredRequest], id: str) -> StoredRequest:
    if id not in known:
        raise RequestError("there is no request {id}; `sudare request list` names those that are", id=id)
    return known[id]


def _check_step(request: StoredRequest, state: RequestState, *, role: Role, actor: str, version: int | None) -> None:
    if version is not None and version != request.version:
        raise RequestError(
            "request {id} was changed meanwhile: it is {state} now (version {version}); look at it again",
            id=request.id,
            state=describe_state(request.state),
            version=request.version,
        )
    roles = MAY_FOLLOW[request.state].get(state, ())
    if not roles:
        raise RequestError(
            "request {id} is {now}; it cannot become {next}: {step}",
            id=request.id,
            now=describe_state(request.state),
            next=describe_state(state),
            step=describe_next_step(request.state),
        )
    if role not in roles or (role == "user" and actor != request.user):
        raise RequestError(
            "request {id} cannot become {next} by {actor}: {step}",
            id=request.id,
            next=describe_state(state),
            actor=actor,
            step=text("the data user who drafted it does that") if "user" in roles else text("a steward does that"),
        )


def _check_line(name: str, value: str, longest: int, *, required: bool = False) -> None:
    if (required and not value.strip()) or len(value) > longest or not value.isprintable():
        raise ParameterError("{name} must be one line of 1 to {longest} letters", name=name, longest=longest)


def check_reason(reason: str) -> None:
    """Refuse a reason that is too long or tells a count: the data user reads it.

    >>> check_reason("the groups are too small; ask for 10-year groups")
    """
    if len(reason) > LONGEST_REASON or any(not letter.isprintable() and letter != "\n" for letter in reason):
        raise ParameterError("the reason must be a text of at most {longest} letters", longest=LONGEST_REASON)
    if COUNT_IN_WORDS.search(reason):
        raise ParameterError("the reason holds a count of people; counts must not be told. Say it without the number")


def describe_next_step(state: RequestState) -> Text:
    """Say what can be done with a request in a state, and by whom."""
    match state:
        case "draft":
            return text("the data user sends it to the steward first (`sudare request ask`)")
        case "asked":
            return text("the steward answers it first (`sudare request answer`) or refuses it")
        case "answered":
            return text("the steward grants it first (`sudare request grant`) or refuses it")
        case "granted":
            return text("the steward delivers it next (`sudare request deliver`) or refuses it")
        case "delivered":
            return text("it is delivered already; for another table, draft a new request (`sudare request draft`)")
        case _:
            return text("it is closed; draft a new request (`sudare request draft`)")


def describe_state(state: RequestState) -> Text:
    """Name a state."""
    match state:
        case "draft":
            return text("a draft")
        case "asked":
            return text("asked")
        case "answered":
            return text("answered")
        case "granted":
            return text("granted")
        case "refused":
            return text("turned down")
        case "delivered":
            return text("delivered")
        case _:
            return text("withdrawn")
