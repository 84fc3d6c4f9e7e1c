"""A request from draft to delivery: what data users and stewards do, each one call, for command line and web page.

The data user's calls read the store and the verdict file; the steward's may open the table and its history.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from sudare import app
from sudare.atomic import held_file
from sudare.counts.relabelling import Recodable
from sudare.errors import Infeasible, ParameterError, RequestError
from sudare.methods.kanon.approve import Approval, approve
from sudare.methods.kanon.grouping_words import describe_option
from sudare.methods.kanon.history import History, read_history
from sudare.methods.kanon.joint import (
    JointSize,
    ReleasedClasses,
    add_classes,
    check_joint,
    measure_joint,
    read_classes,
)
from sudare.methods.kanon.nearby import find_nearest
from sudare.methods.kanon.pairs import PairCounts
from sudare.methods.kanon.predict import predict
from sudare.methods.kanon.request import Request, RequestOption
from sudare.releases import Release
from sudare.requests.answer import RequestAnswer, StewardAnswer, answer_request
from sudare.requests.measure import (
    CountedTable,
    MeasuredOption,
    add_measured,
    make_verdicts,
    propose_measurements,
)
from sudare.requests.policy import TablePolicy
from sudare.requests.store import RequestStore, StoredRequest
from sudare.requests.verdicts import VerdictFile
from sudare.schema import Schema
from sudare.sources import open as open_source
from sudare.text import Text, text

OPEN_STATES = ("asked", "answered", "granted")
MAX_COARSER_TRIED = 40  # groupings near a request that are measured for a joint k that would hold

OpenSource = Callable[[], contextlib.AbstractContextManager[Recodable]]


# --- what a data user does: public facts only -------------------------------------------------------------------------


def read_verdicts(store: RequestStore) -> VerdictFile:
    """Read the verdict file of a store."""
    return VerdictFile.read(store.verdicts_path, store.schema, store.policy)


def draft_request(
    store: RequestStore, request: Request, *, user: str, purpose: str = "", replaces: str | None = None
) -> tuple[StoredRequest, RequestAnswer]:
    """Write a request down and answer it at once, from public facts and the verdict file.

    Error: RequestError if the request names another k than the table's.
    """
    if replaces is None:
        stored = store.draft(request, user=user, purpose=purpose)
    elif store.find(replaces).user != user:
        raise RequestError("there is no request {id}; `sudare request list` names those that are", id=replaces)
    else:
        stored = store.redraft(replaces, request, purpose=purpose)
    return stored, answer_request(read_verdicts(store), stored.request)


def ask_request(
    store: RequestStore, id: str, *, user: str, reason: str = "", version: int | None = None
) -> StoredRequest:
    """Send a draft to the steward."""
    return store.advance(id, "asked", actor=user, role="user", reason=reason, version=version)


def withdraw_request(
    store: RequestStore, id: str, *, actor: str, role: str = "user", reason: str = "", version: int | None = None
) -> StoredRequest:
    """Take a request back; the steward may take back what was delivered, and says why."""
    if role not in ("user", "steward"):
        raise ParameterError("role ({role}) must be user or steward", role=role)
    return store.advance(id, "withdrawn", actor=actor, role=role, reason=reason, version=version)  # type: ignore[arg-type]


# --- what a steward does ----------------------------------------------------------------------------------------------


def answer_stored(
    store: RequestStore,
    id: str,
    *,
    steward: str,
    reason: str = "",
    history: Path | None = None,
    version: int | None = None,
) -> StewardAnswer:
    """Answer a request: the data user's answer goes into the store, the figures to the steward alone."""
    stored = store.find(id)
    told = predict_stored(store, stored, history)
    store.advance(
        id, "answered", actor=steward, role="steward", reason=reason, facts=told.outside.to_value(), version=version
    )
    return told


def predict_stored(store: RequestStore, stored: StoredRequest, history: Path | None = None) -> StewardAnswer:
    """Predict a request with all that the steward has; nothing is written."""
    file, policy = read_verdicts(store), store.policy
    pairs = None if history is None else PairCounts.read(History(path=history).pairs_path)
    return StewardAnswer(
        outside=answer_request(file, stored.request),
        prediction=predict(
            stored.request,
            store.schema,
            [] if history is None else read_history(history),
            k=policy.k,
            pairs=pairs,
            max_suppressed=policy.max_suppressed,
            criteria=policy.method.criteria,
            settle=file.settle,
        ),
        bits=file.describe_bits(),
        notes=_note_uncounted(stored.request, pairs),
    )


def _note_uncounted(request: Request, pairs: PairCounts | None) -> tuple[Text, ...]:
    """Say which columns of a request the pair counts do not know."""
    names = dict.fromkeys(name for option in request.options for name in option)
    uncounted = [name for name in names if pairs is not None and name not in pairs.singles]
    if not uncounted:
        return ()
    return (
        text(
            "not counted yet: {names}; `sudare request measure` with --history counts the columns of open requests",
            names=", ".join(uncounted),
        ),
    )


def refuse_request(
    store: RequestStore, id: str, *, steward: str, reason: str, version: int | None = None
) -> StoredRequest:
    """Refuse a request; a reason is needed, and must hold no count."""
    if not reason.strip():
        raise ParameterError("a refusal needs a reason; say what the data user could ask for instead")
    return store.advance(id, "refused", actor=steward, role="steward", reason=reason, version=version)


def measure_table(store: RequestStore, source: Recodable, *, history: Path | None = None) -> VerdictFile:
    """Measure the public groupings and those of open requests, and write the verdict file; a history learns too.

    What was measured before is measured again, whatever became of the request: who read it knows that bit.
    """
    requests = _list_open(store)
    with held_file(store.path, error=RequestError):
        again = _read_measured(store)
        table = CountedTable(source, store.policy, _names_to_count(store.schema, requests, again))
        file, measured = make_verdicts(table, requests, again=again)
        file.write(store.verdicts_path)
    _learn(history, store.schema, measured, None if history is None else table.count_pairs())
    return file


def measure_options(
    store: RequestStore, source: Recodable, options: Iterable[RequestOption], *, history: Path | None = None
) -> VerdictFile:
    """Measure a few groupings more, each one bit of the verdict file."""
    wanted = list(options)
    table = CountedTable(source, store.policy, {name for option in wanted for name in option})
    measured = [table.measure(option) for option in wanted]
    with held_file(store.path, error=RequestError):
        file = add_measured(read_verdicts(store), measured)
        file.write(store.verdicts_path)
    _learn(history, store.schema, measured, None)
    return file


def propose_next(store: RequestStore) -> list[tuple[RequestOption, int]]:
    """Propose which measurements would decide most open requests, and how many options each decides at least."""
    return propose_measurements(read_verdicts(store), _list_open(store))


def _list_open(store: RequestStore) -> list[Request]:
    return [stored.request for stored in store.list_requests() if stored.state in OPEN_STATES]


def _read_measured(store: RequestStore) -> list[RequestOption]:
    """List the groupings that the verdict file tells of; none if it cannot be read, since it is then made anew."""
    try:
        return [bit.option for bit in read_verdicts(store).measured]
    except RequestError:
        return []


def _names_to_count(schema: Schema, requests: Iterable[Request], again: Iterable[RequestOption]) -> set[str]:
    quasi = {attribute.name for attribute in schema.attributes if attribute.role == "quasi"}
    options = [*again, *(option for request in requests for option in request.options)]
    return quasi | {name for option in options for name in option}


def _learn(history: Path | None, schema: Schema, measured: Iterable[MeasuredOption], pairs: PairCounts | None) -> None:
    if history is None:
        return
    kept = History.open(history)
    kept.add(entry.to_measurement(schema) for entry in measured)
    if pairs is not None:
        pairs.write(kept.pairs_path)


@dataclass(frozen=True, kw_only=True)
class GrantedRequest:
    """What the steward learns when a request is granted. `joint` is of all releases and grants together."""

    stored: StoredRequest
    option: int
    joint: JointSize | None

    @property
    def lines(self) -> list[Text]:
        """Say it to the steward."""
        lines = [
            text(
                "request {id} is granted: option {number}, {groupings}",
                id=self.stored.id,
                number=self.option + 1,
                groupings=describe_option(self.stored.request.options[self.option]),
            )
        ]
        return lines if self.joint is None else [*lines, self.joint.describe()]


def grant_request(
    store: RequestStore,
    id: str,
    source: Recodable,
    *,
    steward: str,
    reason: str = "",
    history: Path | None = None,
    version: int | None = None,
) -> GrantedRequest:
    """Grant the first option that keeps the policy, measured on the table, and joint k with it.

    Joint k counts every release of the history and every request that is granted and not delivered yet.
    Error: Infeasible if no option keeps the policy, or joint k would be below the bound; it says what would do.
    """
    store.check_step(id, "granted", actor=steward, role="steward", version=version)
    _require_history(store.policy, history)
    with contextlib.ExitStack() as stack:  # grants and releases are counted one after the other
        stack.enter_context(held_file(store.path, error=RequestError))
        if history is not None:
            stack.enter_context(History(path=history).hold())
        stored = store.check_step(id, "granted", actor=steward, role="steward", version=version)
        number, joint = _choose_option(store, stored, source, history)
        granted = store.advance(
            id, "granted", actor=steward, role="steward", reason=reason, facts={"option": number}, version=version
        )
    return GrantedRequest(stored=granted, option=number, joint=joint)


def _choose_option(
    store: RequestStore, stored: StoredRequest, source: Recodable, history: Path | None
) -> tuple[int, JointSize | None]:
    """Choose the first option that keeps the policy and the bound of joint k; all are measured and learned."""
    policy = store.policy
    approvals = [_approve(source, policy, (option,)) for option in stored.request.options]
    measured = [CountedTable(source, policy, option).measure(option) for option in stored.request.options]
    add_measured(read_verdicts(store), measured).write(store.verdicts_path)
    if history is not None:
        History.open(history).add(entry for approval in approvals for entry in approval.measurements)
    feasible = [number for number, approval in enumerate(approvals) if approval.option is not None]
    if not feasible:
        _approve(source, policy, stored.request.options).require_approved()  # refuses
    tried: list[JointSize] = []
    for number in feasible:
        joint = _measure_joint(store, stored.id, source, approvals[number], history)
        if joint is None or policy.joint_k is None or _keeps_joint(store, joint):
            return number, joint
        tried.append(joint)
    _refuse_joint(store, stored.id, source, stored.request.options[feasible[0]], history, tried[0])


def _require_history(policy: TablePolicy, history: Path | None) -> None:
    """Refuse what a bound of joint k could not be kept for: a release that no history knows is not counted later."""
    if policy.joint_k is not None and history is None:
        raise ParameterError("the policy bounds joint k; name the history of the table, which knows earlier releases")


def _approve(source: Recodable, policy: TablePolicy, options: tuple[RequestOption, ...]) -> Approval:
    schema = source.schema
    return approve(
        source,
        Request(name="", options=options),
        criteria=policy.all_criteria(schema),
        max_suppressed=policy.max_suppressed,
        find_sensitive=lambda quasi: policy.method.sensitive(schema, quasi),
    )


def _measure_joint(
    store: RequestStore, id: str, source: Recodable, approval: Approval, history: Path | None
) -> JointSize | None:
    """Measure what the option tells together with earlier releases and other grants; None if it is the first."""
    known = [] if history is None else read_classes(History(path=history).classes_path)
    earlier = [release for release in known if release.is_of(store.schema)]
    for other in store.list_requests(state="granted"):
        if other.id != id:
            granted = _approve(source, store.policy, (other.request.options[other.granted_option or 0],))
            earlier.append(ReleasedClasses.of(store.schema, granted.require_approved()[1].recoded))
    return measure_joint(source, approval.require_approved()[1].recoded, earlier) if earlier else None


def _least_joint(store: RequestStore) -> int:
    """Give the bound of joint k in rows of the unit."""
    return store.policy.rows(store.schema) // store.policy.k * (store.policy.joint_k or 1)


def _keeps_joint(store: RequestStore, joint: JointSize) -> bool:
    return joint.k is not None and joint.k >= _least_joint(store)


def _refuse_joint(
    store: RequestStore, id: str, source: Recodable, option: RequestOption, history: Path | None, joint: JointSize
) -> NoReturn:
    """Refuse a grant below the bound of joint k, with the nearest groupings that would keep it."""
    policy, least = store.policy, _least_joint(store)
    if joint.k is None:
        check_joint(joint, least)

    def keeps_both(tried: RequestOption) -> bool:
        approval = _approve(source, policy, (tried,))
        if approval.option is None:
            return False
        again = _measure_joint(store, id, source, approval, history)
        return again is None or _keeps_joint(store, again)

    near = find_nearest(option, keeps_both, max_visited=MAX_COARSER_TRIED)
    if not near:
        if not joint.is_exact:
            check_joint(joint, least)
        raise Infeasible(
            "together with the earlier releases and grants fewer than {least} rows would stay alike, and nothing near"
            " the request keeps the bound; refuse it, or ask for the groups of an earlier release",
            least=least,
        )
    raise Infeasible(
        "together with the earlier releases and grants fewer than {least} rows would stay alike; this would do: {near}",
        least=least,
        near=describe_option(near[0]),
    )


@dataclass(frozen=True, kw_only=True)
class DeliveredRequest:
    """A request that was delivered. `published` is None if the release was there already, whole, from a run before."""

    stored: StoredRequest
    published: app.Published | None


def deliver_request(
    store: RequestStore,
    id: str,
    data: str | Path,
    *,
    out: Path,
    steward: str,
    schema_file: Path,
    reason: str = "",
    history: Path | None = None,
    version: int | None = None,
    **publishing: Any,
) -> DeliveredRequest:
    """Publish a granted request, and write down which certificate it was delivered with.

    A run that was killed after the release was written is finished by the next one: the release is recognised.
    """
    stored = store.find(id)
    if stored.state != "granted" or (version is not None and version != stored.version):
        return DeliveredRequest(stored=_deliver(store, stored, out, steward, reason, version), published=None)
    _require_history(store.policy, history)
    if Schema.read(schema_file).fingerprint != store.schema.fingerprint:
        raise RequestError("{file} is not the schema of this request store", file=schema_file)
    number, published = stored.granted_option or 0, None
    option = stored.request.options[number]
    request = Request(name=stored.request.name, options=(option,), first_number=number + 1)
    if not _is_delivered_in(out, store, option):
        extras: dict[str, Any] = {"request": request, **({} if history is None else {"history": history})}
        published = app.publish(
            store.policy.method, data, out=out, schema_file=schema_file, extras=extras, **publishing
        )
    elif history is not None:
        with (
            History(path=history).hold(),
            contextlib.closing(open_source(data, store.schema, same_rows=True)) as source,
        ):
            _remember_release(store, source, option, history)
    return DeliveredRequest(stored=_deliver(store, stored, out, steward, reason, version), published=published)


def _deliver(
    store: RequestStore, stored: StoredRequest, out: Path, steward: str, reason: str, version: int | None
) -> StoredRequest:
    file = out / "certificate.json"
    digest = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
    facts = {"certificate_sha256": digest, "release": out.name}
    return store.advance(
        stored.id, "delivered", actor=steward, role="steward", reason=reason, facts=facts, version=version
    )


def _is_delivered_in(out: Path, store: RequestStore, option: RequestOption) -> bool:
    """Tell whether a directory holds the release of an option, whole, from a run that was killed after it."""
    if not (out / "certificate.json").is_file():
        return False
    certificate = Release.load(out).certificate
    mapping = json.loads((out / "mapping.json").read_text(encoding="utf-8"))
    return bool(
        certificate.method == "kanon"
        and certificate.guarantee.get("k") == store.policy.k
        and mapping.get("recoding") == "request"
        and mapping.get("asked") == _write_option(option)
    )


def _write_option(option: RequestOption) -> Mapping[str, Any]:
    return {name: grouping.to_value() for name, grouping in option.items()}


def _remember_release(store: RequestStore, source: Recodable, option: RequestOption, history: Path) -> None:
    """Let the history know of a release whose run was killed before it could; one that is known is not added again."""
    approval, kept = _approve(source, store.policy, (option,)), History.open(history)
    release = ReleasedClasses.of(store.schema, approval.require_approved()[1].recoded)
    known = read_classes(kept.classes_path)
    if not any(_is_same(release, other) for other in known):
        add_classes(kept.classes_path, release)
        kept.add([replace(approval.measurements[-1], kind="released")])


def _is_same(release: ReleasedClasses, other: ReleasedClasses) -> bool:
    return (
        release.schema == other.schema
        and release.names == other.names
        and release.codes.tolist() == other.codes.tolist()
        and release.class_of.tolist() == other.class_of.tolist()
    )
