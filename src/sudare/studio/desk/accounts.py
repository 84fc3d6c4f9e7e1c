"""Who may enter the desk: accounts by invitation, passwords by scrypt, sessions that end, limits on wrong passwords."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from dataclasses import dataclass

from sudare.errors import ParameterError
from sudare.studio.desk.store import ROLES, DeskStore, Role

SESSION_SECONDS = 12 * 3600
IDLE_SECONDS = 3600
INVITATION_SECONDS = 7 * 24 * 3600
MOST_FAILURES = 5  # wrong passwords in a quarter of an hour, for an account and for an address
FAILURE_SECONDS = 900
LEAST_LENGTH = 10  # of a password
MOST_LENGTH = 200
COST, BLOCK, LANES = 1 << 15, 8, 1  # of scrypt: 32 MB and some 100 ms


@dataclass(frozen=True, kw_only=True, slots=True)
class DeskAccount:
    """Who is at the desk."""

    name: str
    role: Role


def hash_password(password: str) -> str:
    """Hash a password with a salt of its own."""
    salt = secrets.token_bytes(16)
    return f"scrypt${b64encode(salt).decode()}${b64encode(_derive(password, salt)).decode()}"


def _derive(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=COST, r=BLOCK, p=LANES, maxmem=1 << 26, dklen=32)


def is_password(password: str, hashed: str) -> bool:
    """Tell whether a password is the one that was hashed."""
    kind, salt, derived = hashed.split("$")
    return kind == "scrypt" and hmac.compare_digest(_derive(password, b64decode(salt)), b64decode(derived))


_NOBODY = hash_password(secrets.token_hex(16))  # an unknown name takes as long as a known one


def check_new_password(password: str) -> None:
    """Refuse a password that is too short or far too long."""
    if not LEAST_LENGTH <= len(password) <= MOST_LENGTH:
        raise ParameterError("a password has at least {least} and at most {most} characters", least=LEAST_LENGTH,
                             most=MOST_LENGTH)  # fmt: skip


def invite(store: DeskStore, name: str, role: str, *, actor: str) -> str:
    """Make an invitation; its code is told once and works for a week."""
    if role not in ROLES:
        raise ParameterError("role ({role}) must be user, steward or auditor", role=role)
    if not name.strip() or len(name) > 80 or not name.isprintable():
        raise ParameterError("name ({name}) must be a line of at most 80 characters", name=name[:80])
    code = secrets.token_urlsafe(24)
    with store.work() as rows:
        if rows.find("SELECT name FROM account WHERE name = ?", name) is not None:
            raise ParameterError("there is an account named {name} already", name=name)
        ends = store.clock() + INVITATION_SECONDS
        rows.run("INSERT INTO invitation VALUES (?, ?, ?, ?)", _fingerprint(code), name, role, ends)
    store.note(actor, "invited", f"{role} {name}")
    return code


def accept(store: DeskStore, code: str, password: str) -> str:
    """Make the account of an invitation; gives a session.

    Error: ParameterError if the code is unknown, used or old.
    """
    check_new_password(password)
    hashed = hash_password(password)
    with store.work(alone=True) as rows:
        found = rows.find("SELECT * FROM invitation WHERE hash = ?", _fingerprint(code))
        if found is None or found["ends"] < store.clock():
            raise ParameterError("this invitation is unknown, used or older than a week; ask for another")
        rows.run("DELETE FROM invitation WHERE hash = ?", found["hash"])
        if rows.find("SELECT name FROM account WHERE name = ?", found["name"]) is not None:
            raise ParameterError("there is an account named {name} already", name=found["name"])
        rows.run("INSERT INTO account VALUES (?, ?, ?, 'active', ?)", found["name"], found["role"], hashed, store.today)
    store.note(found["name"], "accepted")
    return _begin(store, found["name"])


def log_in(store: DeskStore, name: str, password: str, *, address: str) -> str:
    """Check a password and begin a session.

    Error: ParameterError, in the same words and the same time whether the name or the password is wrong.
    """
    subjects = (f"name {name}", f"from {address}")
    if any(_count_failures(store, subject) >= MOST_FAILURES for subject in subjects):
        raise ParameterError("too many wrong passwords; wait a quarter of an hour")
    with store.work() as rows:
        found = rows.find("SELECT * FROM account WHERE name = ? AND state = 'active'", name)
    hashed = _NOBODY if found is None else found["password"]
    if not is_password(password[:MOST_LENGTH], hashed) or found is None:
        with store.work() as rows:
            for subject in subjects:
                rows.run("INSERT INTO failure VALUES (?, ?)", subject, store.clock())
        store.note(name if found is not None else "-", "wrong password")
        raise ParameterError("name or password is wrong")
    store.note(name, "entered")
    return _begin(store, name)


def _count_failures(store: DeskStore, subject: str) -> int:
    with store.work() as rows:
        rows.run("DELETE FROM failure WHERE at < ?", store.clock() - FAILURE_SECONDS)
        return len(rows.list("SELECT at FROM failure WHERE subject = ?", subject))


def _begin(store: DeskStore, name: str) -> str:
    session, now = secrets.token_urlsafe(32), store.clock()
    with store.work() as rows:
        rows.run("DELETE FROM session WHERE made < ? OR used < ?", now - SESSION_SECONDS, now - IDLE_SECONDS)
        rows.run("INSERT INTO session VALUES (?, ?, ?, ?)", _fingerprint(session), name, now, now)
    return session


def find_account(store: DeskStore, session: str) -> DeskAccount | None:
    """Find who a session belongs to, if it has not ended."""
    if not session:
        return None
    now = store.clock()
    with store.work() as rows:
        found = rows.find(
            "SELECT account.name, role, made, used, hash FROM session JOIN account ON account.name = session.account"
            " WHERE hash = ? AND state = 'active'",
            _fingerprint(session),
        )
        if found is None or now - found["made"] > SESSION_SECONDS or now - found["used"] > IDLE_SECONDS:
            return None
        if now - found["used"] > 60:  # a write for every answer would make the desk slow
            rows.run("UPDATE session SET used = ? WHERE hash = ?", now, found["hash"])
    return DeskAccount(name=found["name"], role=found["role"])


def log_out(store: DeskStore, session: str) -> None:
    """End a session."""
    with store.work() as rows:
        rows.run("DELETE FROM session WHERE hash = ?", _fingerprint(session))


def _fingerprint(secret: str) -> str:
    """What is kept of a secret: who reads the store cannot use it."""
    return hashlib.sha256(secret.encode()).hexdigest()
