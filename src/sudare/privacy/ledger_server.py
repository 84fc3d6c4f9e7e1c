"""A ledger on a PostgreSQL server, for machines that share one: the same chain, kept in a schema of a database.

One writer at a time, by a lock that PostgreSQL holds for a transaction; the primary key lets no two entries have one
place even without it. A spend counts when PostgreSQL says that it is committed, and this connection insists that it
says so only once it is on the disk, whatever the server does by default. Triggers refuse every change of what is
written; who takes them away leaves a trace that `fingerprint` sees.

A role that only publishes needs USAGE of the schema and SELECT and INSERT on its two tables.
"""

from __future__ import annotations

import os
import threading
import weakref
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sudare.errors import LedgerError, SudareError
from sudare.privacy.address import ServerAddress, name_form, read_address
from sudare.privacy.chain import FORMAT, Entry, Genesis

if TYPE_CHECKING:
    import psycopg

LEAST_SEQ = -(2**63)
CONNECT_SECONDS = 10  # libpq tries every address of a host for as long

FUNCTION = "BEGIN RAISE EXCEPTION 'nothing in a ledger is ever changed'; END"
COLUMNS = {
    "genesis": "format integer NOT NULL, id text NOT NULL, name text NOT NULL, created text NOT NULL,"
    " currency text NOT NULL, budget text NOT NULL, delta text, neighbours text NOT NULL, unit text,"
    " head text NOT NULL, alone boolean NOT NULL DEFAULT true PRIMARY KEY CHECK (alone)",
    "entries": "seq bigint PRIMARY KEY CHECK (seq > 0), format integer NOT NULL, time text NOT NULL,"
    " salt text NOT NULL, kind text NOT NULL, release text NOT NULL, about text NOT NULL,"
    " neighbours text NOT NULL, unit text NOT NULL, currency text NOT NULL, promised text NOT NULL,"
    " amount text NOT NULL, cost text NOT NULL, total text NOT NULL, head text NOT NULL",
}
# Everything that stands in the schema of a ledger, with its state.
CONTENT = """
SELECT 'table', c.relname::text, c.relkind::text, ''::text, c.oid FROM pg_class c
WHERE c.relnamespace = %(schema)s::regnamespace AND c.relkind IN ('r', 'v', 'm', 'p', 'f')
UNION ALL SELECT 'trigger', t.tgname::text, t.tgenabled::text, c.relname::text, t.oid
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = %(schema)s::regnamespace AND NOT t.tgisinternal
UNION ALL SELECT 'function', p.proname::text, p.prokind::text, p.prosrc, p.oid
FROM pg_proc p WHERE p.pronamespace = %(schema)s::regnamespace
UNION ALL SELECT 'rule', r.rulename::text, r.ev_enabled::text, c.relname::text, r.oid
FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class WHERE c.relnamespace = %(schema)s::regnamespace
"""
# What PostgreSQL changes whenever those tables, triggers or their function are touched: the transaction that wrote
# their rows in the catalogue. Read together with the entries: one way to the server and back. It is planned once.
LOOK = """
PREPARE sudare_look(bigint) AS
SELECT ARRAY(SELECT c.xmin::text FROM pg_class c WHERE c.oid = ANY('{{{tables}}}'::oid[]) ORDER BY c.oid)
    || ARRAY(SELECT t.xmin::text FROM pg_trigger t WHERE t.tgrelid = ANY('{{{tables}}}'::oid[]) ORDER BY t.oid)
    || ARRAY(SELECT p.xmin::text FROM pg_proc p WHERE p.oid = ANY('{{{functions}}}'::oid[]) ORDER BY p.oid), e.*
FROM (VALUES (1)) AS one LEFT JOIN (SELECT {columns} FROM {entries} WHERE seq > $1) AS e ON true ORDER BY e.seq
"""
# Reasons that PostgreSQL gives: postgresql.org/docs/current/errcodes-appendix.html
# Several statements at once: one way to the server and back. After the lock, every query sees what is committed.
BEGIN_WRITING = (
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = on;"
    " SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL lock_timeout = {wait};"
    " SELECT pg_advisory_xact_lock({ours}, {ledger}); {look}"
)
UNDEFINED = ("3F000", "42P01", "42703")
DUPLICATE = ("42P06", "42P07")
DENIED = ("42501",)
READ_ONLY = ("25006",)
FULL = ("53100", "53200")
LOCKED = ("55P03", "57014", "23505")  # the last: one who does not ask for the lock was faster
ENDED = ("", "08", "57", "53")  # classes: the connection, the server going down


def make_on_server(place: str, genesis: Genesis) -> None:
    """Make a ledger in a schema of its own, wholly or not at all; one that is there is never overwritten."""
    address = read_address(place)
    if exists_on_server(place):
        raise _name_taken(address)
    with explain_errors(address), _connect(address) as connection, connection.transaction():
        schema = _quote(address.ledger)
        connection.execute(f"CREATE SCHEMA {schema}")
        for table, columns in COLUMNS.items():
            connection.execute(f"CREATE TABLE {schema}.{table} ({columns})")
        body = FUNCTION.replace("'", "''")
        connection.execute(f"CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS '{body}'")
        for table in COLUMNS:
            connection.execute(
                f"CREATE TRIGGER refuse_{table} BEFORE UPDATE OR DELETE OR TRUNCATE ON {schema}.{table}"
                f" FOR EACH STATEMENT EXECUTE FUNCTION {schema}.refuse()"
            )
            connection.execute(f"ALTER TABLE {schema}.{table} ENABLE ALWAYS TRIGGER refuse_{table}")
        connection.execute(_write_insert(connection, f"{schema}.genesis", Genesis._fields, [genesis]))


def exists_on_server(place: str) -> bool:
    """Tell whether the schema of a ledger is there."""
    address = read_address(place)
    with explain_errors(address), _connect(address) as connection:
        found = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (address.ledger,))
        return found.fetchone() is not None


class ServerLedger:
    """An open ledger on a server: few queries, one way to write, every error in one line."""

    def __init__(self, place: str, *, wait_seconds: float) -> None:
        self.address = read_address(place)
        self.lock = threading.RLock()
        self._wait_seconds = wait_seconds
        self._connection: psycopg.Connection[Any] | None = None
        self._process = os.getpid()
        self._closed = False
        self._is_writing = False
        self._look = ""  # the statement that prepares it, for every new connection
        self._answered: list[Any] | None = None  # to the first look of a transaction
        self._added: list[str] = []  # statements that go with the COMMIT
        _ledgers.add(self)
        self.check_format()

    def __del__(self) -> None:
        with suppress(Exception):  # half made, or the interpreter is going down
            self.close()

    @property
    def where(self) -> str:
        """The address, without a password."""
        return self.address.shown

    @property
    def version(self) -> int:
        """The version that ledgers on servers are kept in: there was none before."""
        return FORMAT

    def genesis(self) -> Genesis:
        """Read what the ledger is."""
        rows = self._query(f"SELECT {', '.join(Genesis._fields)} FROM {self._table('genesis')} LIMIT 2")
        if len(rows) != 1:
            raise LedgerError("{where} is damaged; restore a copy whose head a certificate names", where=self.where)
        return Genesis(*rows[0])

    def entries(self, *, after: int | None = None) -> list[Entry]:
        """Read the chain behind an entry as it stands at one moment; all of it if none is named."""
        columns = ", ".join(Entry._fields)
        statement = f"SELECT {columns} FROM {self._table('entries')} WHERE seq > %s ORDER BY seq"
        return [Entry(*row) for row in self._query(statement, (LEAST_SEQ if after is None else after,))]

    def look(self, *, after: int | None) -> tuple[object, list[Entry]]:
        """Read the chain behind an entry, and what changes whenever tables or triggers are touched.

        Triggers forbid everything but adding entries, and who takes them away leaves a trace in the catalogue.
        """
        answered, self._answered = self._answered, None
        rows = self._query(_write_look(after)) if answered is None else answered
        return rows[0][0], [Entry(*row[1:]) for row in rows if row[1] is not None]

    def check_format(self) -> None:
        """Check that the tables stand there with all their triggers, and nothing beside them."""
        content = self._query(CONTENT, {"schema": _quote(self.address.ledger)})
        if not content:
            raise LedgerError("{where} does not exist; make it with: sudare ledger create", where=self.where)
        tables = {("table", table, "r", "") for table in COLUMNS}
        triggers = {("trigger", f"refuse_{table}", "A", table) for table in COLUMNS}
        wanted = tables | triggers | {("function", "refuse", "f", FUNCTION)}
        if {row[:4] for row in content} != wanted or len(content) != len(wanted):
            raise LedgerError(
                "{where} was altered: its tables and triggers are not those of a ledger; "
                "restore a copy whose head a certificate names",
                where=self.where,
            )
        with self._connected() as connection, explain_errors(self.address):
            self._prepare(connection, content)

    def _prepare(self, connection: psycopg.Connection[Any], content: list[Any]) -> None:
        """Let the server plan the look at the tables, triggers and function that were found."""
        numbers = {
            f"{kind}s": ",".join(str(number) for found, *_, number in content if found == kind)
            for kind in ("table", "function")
        }
        self._look = LOOK.format(columns=", ".join(Entry._fields), entries=self._table("entries"), **numbers)
        connection.execute("DEALLOCATE ALL")
        connection.execute(self._look)

    def check_pages(self) -> None:
        """Check the format; the pages are the server's to check."""
        self.check_format()

    @contextmanager
    def writing(self, *, after: int | None = None) -> Iterator[None]:
        """Hold the lock that lets one process write; at the end all is on the disk, or nothing happened.

        Two ways to the server and back: for the lock with the first look, and for what is added with its COMMIT. A
        COMMIT is never tried twice: whoever gets an error draws no noise, whether or not the spend arrived.
        """
        with self._connected() as connection, explain_errors(self.address):
            self._is_writing = True
            try:
                self._answered = self._begin(connection, after)
                yield
                connection.execute("; ".join([*self._added, "COMMIT"]))
            except BaseException:
                with suppress(Exception):
                    connection.execute("ROLLBACK")
                raise
            finally:
                self._is_writing, self._answered, self._added = False, None, []

    def _begin(self, connection: psycopg.Connection[Any], after: int | None) -> list[Any]:
        """Begin a transaction, wait for the lock, and look."""
        wait, (ours, ledger) = max(1, int(1000 * self._wait_seconds)), self._lock_key
        cursor = connection.execute(BEGIN_WRITING.format(wait=wait, ours=ours, ledger=ledger, look=_write_look(after)))
        while cursor.nextset():
            pass
        return cursor.fetchall()

    def append(self, entries: Sequence[Entry]) -> None:
        """Add entries at the end; only inside `writing`, which sends them with its COMMIT."""
        with self._connected() as connection:
            self._added.append(_write_insert(connection, self._table("entries"), Entry._fields, entries))

    def rewrite(self, genesis: Genesis, entries: Sequence[Entry]) -> None:
        """Never asked for: there is no older version on servers."""
        raise NotImplementedError

    def merge(self) -> None:
        """Nothing to tidy up: the server does it."""

    def close(self) -> None:
        """Close the connection."""
        with self.lock:
            self._closed = True
            self._disconnect()

    @property
    def _lock_key(self) -> tuple[int, int]:
        """Two numbers of 32 bits: ours, and that of the ledger; ledgers that share them only wait for each other."""
        return 0x53756461, zlib.crc32(self.address.ledger.encode()) - 2**31

    def _table(self, name: str) -> str:
        return f"{_quote(self.address.ledger)}.{name}"

    def _query(self, statement: str, values: Any = ()) -> list[Any]:
        with self._connected() as connection, explain_errors(self.address):
            return connection.execute(statement, values).fetchall()

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        with self.lock:
            if self._closed:
                raise LedgerError("{where} is closed; open it again", where=self.where)
            if self._connection is not None and (self._process != os.getpid() or self._connection.closed):
                self._disconnect()
                if self._is_writing:  # a new connection would not hold the lock
                    raise _name_lost_connection(self.where)
            if self._connection is None:
                self._process = os.getpid()
                with explain_errors(self.address):
                    self._connection = _connect(self.address)
                    if self._look:
                        self._connection.execute(self._look)
            yield self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._process == os.getpid():
            with suppress(Exception):
                connection.close()
        else:
            _of_other_processes.append(connection)  # closing it here would end the session of the process that has it


_ledgers: weakref.WeakSet[ServerLedger] = weakref.WeakSet()
_of_other_processes: list[psycopg.Connection[Any]] = []


def _after_fork_in_child() -> None:
    """Let the child begin anew: a lock may be held by a thread that it does not have."""
    for ledger in list(_ledgers):
        ledger.lock = threading.RLock()
        ledger._is_writing = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _connect(address: ServerAddress) -> psycopg.Connection[Any]:
    try:
        import psycopg
    except ImportError:
        raise LedgerError(
            "a ledger on a server needs psycopg; install it with: pip install 'sudare[postgres]'"
        ) from None
    try:
        given = psycopg.conninfo.conninfo_to_dict(address.connection)
    except psycopg.Error:
        raise name_form() from None
    options: dict[str, Any] = {"application_name": "sudare", "connect_timeout": CONNECT_SECONDS, **given}
    try:
        return psycopg.connect(psycopg.conninfo.make_conninfo(**options), autocommit=True, prepare_threshold=None)
    except (psycopg.Error, UnicodeError):
        raise _explain_no_connection(address) from None


def _write_insert(
    connection: psycopg.Connection[Any], table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
) -> str:
    """Write the statement that adds rows, with their values quoted by the driver."""
    import psycopg

    places = ", ".join(f"({', '.join(['%s'] * len(columns))})" for _ in rows)
    statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES {places}"
    return psycopg.ClientCursor(connection).mogrify(statement, [value for row in rows for value in row])


def _write_look(after: int | None) -> str:
    return f"EXECUTE sudare_look({LEAST_SEQ if after is None else after})"


def _quote(name: str) -> str:
    return f'"{name}"'  # the name of a ledger is made of small letters, digits and _ (address.py)


@contextmanager
def explain_errors(address: ServerAddress) -> Iterator[None]:
    """Turn what the server and the driver report into one line that says what to do; nothing of theirs is quoted."""
    try:
        yield
    except SudareError:
        raise
    except Exception as error:
        import psycopg

        if not isinstance(error, psycopg.Error | UnicodeError):
            raise
        raise _explain(address, error) from None


def _explain(address: ServerAddress, error: Exception) -> LedgerError:
    code = getattr(error, "sqlstate", None) or ""
    where = address.shown
    if code in UNDEFINED:
        return LedgerError("{where} does not exist; make it with: sudare ledger create", where=where)
    if code in DUPLICATE:
        return _name_taken(address)
    if code in DENIED:
        return LedgerError(
            "{where}: the server denies permission; grant this role USAGE of the schema {schema}, and SELECT and INSERT"
            " on its tables (to make a ledger: CREATE in the database)",
            where=where,
            schema=address.ledger,
        )
    if code in READ_ONLY:
        return LedgerError("{where}: the server may only be read now; use the address of the main server", where=where)
    if code in FULL:
        return LedgerError(
            "{where}: the disk is full, so nothing was written; free some space and try again", where=where
        )
    if code in LOCKED:
        return LedgerError("{where} is locked by another process; try again when it is done", where=where)
    if code[:2] in ENDED:
        return _name_lost_connection(where)
    return LedgerError("{where}: the server refused the query (code {code}); please report it", where=where, code=code)


def _name_taken(address: ServerAddress) -> LedgerError:
    return LedgerError(
        "{where} exists already, and a ledger is never overwritten; choose another name", where=address.shown
    )


def _explain_no_connection(address: ServerAddress) -> LedgerError:
    """Say why there is no connection: the server tells it in words of its own language only, so it is asked again."""
    import psycopg

    status = psycopg.pq.PGconn.ping(address.connection.encode())
    if status == psycopg.pq.Ping.OK:
        return LedgerError(
            "{where}: the server refuses the login; the user, the password or the name of the database is wrong (a"
            " password belongs into PGPASSWORD or a file that PGPASSFILE names)",
            where=address.shown,
        )
    if status == psycopg.pq.Ping.REJECT:
        return LedgerError("{where}: the server is starting or stopping; try again in a moment", where=address.shown)
    return LedgerError(
        "{where}: no server answers there; start it, or correct the host and the port", where=address.shown
    )


def _name_lost_connection(where: str) -> LedgerError:
    return LedgerError(
        "{where}: the server ended the connection; what was being spent may be recorded, and then it is spent:"
        " look with `sudare ledger show` when the server is back",
        where=where,
    )
