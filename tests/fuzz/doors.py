"""The doors, and what a fuzzer brings to each: one bad input at a time, drawn by seeded dice from good ones."""

from __future__ import annotations

import contextlib
import io
import json
import random
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.fuzz.endless import CIRCLE, TAKEN, TARGETS
from tests.fuzz.ground import HEADER, MAP, OTHER_MAPS, RECIPE, REQUEST, SCHEMA, Ground, rows_of_members
from tests.fuzz.spoil import (
    LONG,
    NASTY_BYTES,
    NASTY_NUMBERS,
    NASTY_TEXTS,
    nest_json,
    spoil_bytes,
    spoil_json,
    spoil_lines,
    spoil_toml,
)
from tests.fuzz.watch import Attempt

Door = Callable[[random.Random, Ground], Attempt]

PUBLISH = "publish microdata {data} --schema {schema} --epsilon 1 --ledger members.ledger --out out"


def fill(command: str, **names: str) -> tuple[str, ...]:
    """Split a command into words, then put names in: they may hold blanks."""
    return tuple(word.format(**names) for word in command.split())


# --- files that a steward writes --------------------------------------------------------------------------------------


def try_schema(dice: random.Random, ground: Ground) -> Attempt:
    """A schema with something wrong, or a file that it names."""
    command = dice.choice(
        (
            "schema show {schema}",
            "schema show {schema} --json",
            "preview microdata --schema {schema} --epsilon 1",
            PUBLISH.replace("{data}", "members.csv"),
            "publish kanon members.csv --schema {schema} --k 5 --out out",
            "choose {schema} --need records --rows 100 --people-may-repeat no --truthful no --collector trusted --json",
            "schema check members.csv --schema {schema} --no-examples",
        )
    )
    if dice.randrange(6) == 0:
        name = dice.choice(("item.csv", "grades.txt"))
        content = (ground.pristine / name).read_text(encoding="utf-8")
        spoilt = spoil_bytes(content.encode(), dice) if dice.randrange(2) else spoil_lines(content, dice).encode()
        files = {f"x{name}": spoilt, "bad.toml": SCHEMA.replace(name, f"x{name}").encode()}
    else:
        files = {"bad.toml": spoil_toml(SCHEMA, dice)}
    return Attempt(door="schema", words=fill(command, schema="bad.toml"), files=files)


def try_recipe(dice: random.Random, ground: Ground) -> Attempt:
    """A recipe with something wrong."""
    words = ("run", "bad.toml", "--dry-run") if dice.randrange(4) else ("run", "bad.toml", "--dry-run", "--json")
    return Attempt(door="recipes", words=words, files={"bad.toml": spoil_toml(RECIPE, dice)})


def try_request(dice: random.Random, ground: Ground) -> Attempt:
    """A request with something wrong, or the history that answers it."""
    command = dice.choice(
        (
            "predict {request} --schema members.toml --history {history}",
            "predict {request} --schema members.toml --history {history} --json",
            "publish kanon members.csv --schema members.toml --k 5 --out out --request {request} --history {history}",
        )
    )
    files = {"bad.toml": spoil_toml(REQUEST, dice)}
    names = {"request": "bad.toml", "history": "h.jsonl"}
    if dice.randrange(3) == 0:
        names = {"request": "request.toml", "history": "bad.jsonl"}
        files = {"bad.jsonl": _spoil_history((ground.pristine / "h.jsonl").read_text(encoding="utf-8"), dice)}
        if dice.randrange(3) == 0:
            ending = dice.choice((".pairs", ".classes"))
            files = {
                "bad.jsonl": (ground.pristine / "h.jsonl").read_bytes(),
                f"bad.jsonl{ending}": _spoil_archive((ground.pristine / f"h.jsonl{ending}").read_bytes(), dice),
            }
    return Attempt(door="requests", words=fill(command, **names), files=files)


def _spoil_history(content: str, dice: random.Random) -> bytes:
    lines = content.splitlines()
    at = dice.randrange(len(lines))
    lines[at] = spoil_json(lines[at], dice).decode("utf-8", "surrogateescape").replace("\n", " ")
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")


def _spoil_archive(content: bytes, dice: random.Random) -> bytes:
    """Spoil the bytes of an archive, or of a file in it."""
    if dice.randrange(2):
        return spoil_bytes(content, dice)
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(packed, "w") as target:
        names = source.namelist()
        chosen = dice.choice(names)
        for name in names:
            inside = source.read(name)
            target.writestr(name, spoil_bytes(inside, dice) if name == chosen else inside)
    return packed.getvalue()


# --- data -------------------------------------------------------------------------------------------------------------

BAD_CELLS = (
    *(f"Qzx{text}" for text in ("", "'", '""', ",", "\t", "\x00", "\x1b[31m", "; DROP TABLE", "{}", "%s", "\\", "é")),
    "7731042", "-7731042.5", "7731042e300", "7731042/1/1", "2020-7731042-01", "'7731042", "７7731042",
)  # fmt: skip


def try_data(dice: random.Random, ground: Ground) -> Attempt:
    """A table with something wrong: cells, lines, bytes, columns; as text or as another kind of file."""
    command = dice.choice(
        (
            PUBLISH,
            PUBLISH,
            "publish table {data} --schema {schema} --rho 1 --ledger rho.ledger --out out",
            "publish kanon {data} --schema {schema} --k 5 --out out --history bad.jsonl",
            "publish view {data} --schema plain.toml --epsilon 1 --out out",
            "schema check {data} --schema {schema} --no-examples",
            "schema check {data} --schema {schema} --no-examples --json",
            "report records --truth {data} --schema {schema} --out page.html",
        )
    )
    name, content = dice.choice((_bad_csv, _bad_csv, _bad_csv, _bad_lines, _bad_kinds))(dice)
    return Attempt(door="data", words=fill(command, data=name, schema="members.toml"), files={name: content})


def _bad_csv(dice: random.Random) -> tuple[str, bytes]:
    lines = [HEADER, *rows_of_members()]
    how = dice.randrange(9)
    at = 1 + dice.randrange(len(lines) - 1)
    cells = lines[at].split(",")
    if how <= 3:
        cells[dice.randrange(4)] = dice.choice(BAD_CELLS)
        lines[at] = ",".join(cells)
    elif how == 4:
        lines[at] = ",".join(cells[: dice.randrange(6)] + ["Qzx"] * dice.choice((0, 9)))
    elif how == 5:
        lines[0] = dice.choice(
            (",".join(reversed(lines[0].split(","))).upper(), "item,item,age,joined,grade", "", "a" * LONG, "Qzx,1")
        )
    elif how == 6:
        del lines[0]  # the first row is taken for the names of the columns
    else:
        ending = dice.choice((".csv", ".tsv", ".txt", ".csv.gz"))
        return f"bad{ending}", spoil_bytes("\n".join(lines).encode(), dice)
    return "bad.csv", "\n".join(lines).encode("utf-8")


def _bad_lines(dice: random.Random) -> tuple[str, bytes]:
    rows = [dict(zip(HEADER.split(","), line.split(","), strict=True)) for line in rows_of_members()[:50]]
    lines = [json.dumps(row) for row in rows]
    lines[dice.randrange(50)] = dice.choice(
        (
            nest_json(), '{"item":' * 3000 + "1" + "}" * 3000, "{", '{"item": "Qzx"}',
            '{"item": {"Qzx": 1}, "age": [7731042]}', "7731042", '"Qzx"', "null", '{"age": 1e999}',
            '{"item": "h1", "age": ' + "7731042" * 1000 + "}", '{"item": "\\ud800Qzx"}', "[]",
            spoil_bytes(lines[0].encode(), dice).decode("utf-8", "replace").replace("\n", " "),
        )
    )  # fmt: skip
    return "bad.jsonl", "\n".join(lines).encode("utf-8", "surrogatepass")


def _bad_kinds(dice: random.Random) -> tuple[str, bytes]:
    name, content = dice.choice(list(other_kinds().items()))
    return name, spoil_bytes(content, dice)


@cache
def other_kinds() -> Mapping[str, bytes]:
    """The table as Parquet, as Arrow and as a workbook."""
    import pyarrow
    from pyarrow import feather, parquet
    from xlsxwriter import Workbook

    names = HEADER.split(",")
    rows = [line.split(",") for line in rows_of_members()]
    table = pyarrow.table({name: [row[at] for row in rows] for at, name in enumerate(names)})
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        parquet.write_table(table, place / "bad.parquet")
        feather.write_feather(table, str(place / "bad.arrow"))
        with Workbook(str(place / "bad.xlsx")) as book:
            sheet = book.add_worksheet()
            for number, row in enumerate([names, *rows]):
                sheet.write_row(number, 0, row)
        for file in place.iterdir():
            found[file.name] = file.read_bytes()
    return dict(sorted(found.items()))


# --- maps, device files and reports -----------------------------------------------------------------------------------


NAMED_FILES = {
    "map.toml": "land.csv",
    "roads.toml": "roads.geojson",
    "mesh.toml": "land.geojson",
    "graphml.toml": "roads.graphml",
    "edges.toml": "edges.csv",
}


def try_map(dice: random.Random, ground: Ground) -> Attempt:
    """A map with something wrong, or a file that it names."""
    name, text = dice.choice((("map.toml", MAP), ("map.toml", MAP), *OTHER_MAPS.items()))
    files = {"bad.toml": spoil_toml(text, dice)}
    if dice.randrange(3) == 0:
        named = NAMED_FILES[name]
        content = (ground.pristine / named).read_text(encoding="utf-8")
        spoilt = spoil_json(content, dice) if named.endswith("json") else _spoil_table(content, dice)
        files = {"bad.toml": text.replace(named, f"x{named}").encode(), f"x{named}": spoilt}
    command = dice.choice(
        (
            "preview location bad.toml --epsilon-per-metre 0.02",
            "publish location bad.toml --epsilon-per-metre 0.02 --mode weighted --out out",
            "choose bad.toml --need places --json",
        )
    )
    return Attempt(door="maps", words=fill(command), files=files)


def _spoil_table(content: str, dice: random.Random) -> bytes:
    if dice.randrange(3) == 0:
        return spoil_bytes(content.encode(), dice)
    lines = content.splitlines()
    at = dice.randrange(len(lines))
    cells = lines[at].split(",")
    cells[dice.randrange(len(cells))] = dice.choice((*NASTY_NUMBERS, *NASTY_TEXTS))
    lines[at] = ",".join(cells)
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def try_device(dice: random.Random, ground: Ground) -> Attempt:
    """A device file, a state, a file of reports or of cells with something wrong."""
    how = dice.randrange(5)
    if how == 4:
        flag, name = dice.choice((("--regions", "regions.csv"), ("--prior", "people.csv")))
        files = {"bad.csv": _spoil_table((ground.pristine / name).read_text(encoding="utf-8"), dice)}
        command = f"locate estimate reports.csv --device-file places --out out {flag} bad.csv"
    elif how <= 1:
        files = {"bad.json": spoil_json((ground.pristine / "places/mechanism.json").read_text(encoding="utf-8"), dice)}
        command = dice.choice(
            (
                "locate draw --device-file bad.json --cell 3",
                "locate estimate reports.csv --device-file bad.json --out out",
            )
        )
    elif how == 2:
        files = {
            "bad.csv": _spoil_table((ground.pristine / dice.choice(("reports.csv", "cells.csv"))).read_text(), dice)
        }
        command = dice.choice(
            (
                "locate estimate bad.csv --device-file places --out out",
                "locate draw --device-file places --cells bad.csv --out out.csv",
            )
        )
        if dice.randrange(4) == 0:
            line = '{"artefact": "0123456789abcdef", "cell": 3}'
            files = {"bad.csv": spoil_json(line, dice).replace(b"\n", b" ")}
    else:
        files = {"bad.json": spoil_json((ground.pristine / "state.json").read_text(encoding="utf-8"), dice)}
        command = "locate draw --device-file places --cell 3 --state bad.json --day 2026-11-17"
    return Attempt(door="devices", words=fill(command), files=files)


# --- flags ------------------------------------------------------------------------------------------------------------

CALLS = (
    "publish microdata members.csv --schema members.toml --epsilon 1"
    " --ledger members.ledger --out out --neighbours replace --memory-limit 1GB --encoding utf-8 --format csv",
    "publish microdata members.csv --schema members.toml --epsilon 1 --delta 1e-9"
    " --ledger rho.ledger --out out --count age",
    "publish table members.csv --schema members.toml --rho 1/2 --ledger rho.ledger --out out",
    "publish view members.csv --schema plain.toml --epsilon 1 --out out --method hdpview",
    "publish kanon members.csv --schema members.toml --k 5 --max-suppressed 0.2 --out out"
    " --criteria l=2,grade --quasi item,age --recoding value --history h.jsonl",
    "publish location map.toml --epsilon-per-metre 0.02 --mode fair --extra-distance 1/10 --out out"
    " --within-metres 300 --dwell 1 --reports-per-day 3 --reports-per-month 30 --reports-per-life 90 --answers lasting",
    "preview microdata --schema members.toml --epsilon 1",
    "preview table --schema members.toml --rho 1/2",
    "preview location map.toml --epsilon-per-metre 0.02",
    "schema init members.csv --out new.toml --encoding utf-8",
    "schema check members.csv --schema members.toml --no-examples --count age",
    "schema show members.toml --json",
    "schema example --of map",
    "choose members.toml --need records --rows 1000 --people-may-repeat no --truthful no"
    " --collector trusted --hide-number no --epsilons 0.1,1 --data x.csv --recipe new.toml",
    "run recipe.toml --dry-run",
    "predict request.toml --schema members.toml --history h.jsonl --max-suppressed 0.1 --criteria l=2,grade",
    "locate draw --device-file places --cell 3 --state state.json --max-epsilon 1 --max-reports-per-day 3"
    " --day 2026-11-17",
    "locate draw --device-file places --latitude 35.1 --longitude 139.2",
    "locate estimate reports.csv --device-file places --out out",
    "query view SELECT --level 0.9",
    "sample view -n 5 --out new.csv --seed-for-tests 1",
    "report records --out page.html --truth members.csv --schema members.toml --count age --encoding utf-8",
    "export records --out new.xlsx --table records --labels office",
    "ledger create new.ledger --epsilon 1 --delta 1e-9 --neighbours add-remove --name x",
    "ledger create new.ledger --rho 1",
    "ledger show members.ledger",
    "ledger verify members.ledger --head abc",
    "ledger migrate members.ledger --out new.ledger",
    "keys create new.key",
    "keys show steward.key",
    "keys sign records --key steward.key",
    "verify records --ledger members.ledger --key steward.key.pub",
    "verify --promise nothing --schema members.toml --pairs 1",
)
KINDS_OF_FLAGS = (
    "--unknown",
    "--",
    "-x",
    "--epsilon",
    "--out",
    "--k",
    "--json",
    "--help=1",
    "--schema",
    "--seed-for-tests",
    "-o",
)


def try_flags(dice: random.Random, ground: Ground) -> Attempt:
    """A good call with a flag or a name changed, dropped, doubled or unknown."""
    words = list(dice.choice(CALLS).split())
    if words[0] == "query":
        words[2] = "SELECT COUNT(*) FROM view"
    at = dice.randrange(1, len(words))
    how = dice.randrange(8)
    value = dice.choice((*NASTY_NUMBERS, *NASTY_TEXTS)).replace("\x00", "")
    if how == 0:
        del words[at]
    elif how == 1:
        words.insert(at, dice.choice(KINDS_OF_FLAGS))
    elif how == 2:
        words += [dice.choice(KINDS_OF_FLAGS), value]
    elif how == 3 and len(words) > 3:
        other = dice.randrange(1, len(words))
        words[at], words[other] = words[other], words[at]
    else:
        values = [number for number, word in enumerate(words) if number > 1 and not word.startswith("-")]
        words[dice.choice(values) if values else at] = value
    return Attempt(door="flags", words=tuple(words), may_show=words[:2] == ["schema", "init"])


# --- SQL --------------------------------------------------------------------------------------------------------------

STATEMENTS = (
    "SELECT COUNT(*) FROM view",
    "SELECT item, COUNT(*) FROM view WHERE age >= 20 GROUP BY item",
    "SELECT SUM(age), AVG(age) FROM view WHERE item IN ('h1', 'h2') AND NOT (grade = 'a' OR joined IS NULL)",
    "SELECT COUNT(*) FROM view WHERE age BETWEEN 20 AND 60 AND joined < '2022-01-01'",
)
SQL_PARTS = (
    "UNION SELECT 1", "; DROP TABLE view", "JOIN view ON 1=1", "(SELECT 1)", "COUNT(DISTINCT item)", "ORDER BY 1",
    "HAVING 1", "CAST(age AS INT)", "read_csv('members.csv')", "FROM 'members.csv'", "age + 1", "age / 0", "-age",
    "NULL", "TRUE", "1e999", "'none'", "*", "/*", "--", "$1", "?", "WITH x AS (SELECT 1)", "LIKE '%h%'", "AND", "NOT",
    "(", ")", "IN ()", "= NULL", "view.item", "\x1b[31m", "'" + "a" * 3000 + "'", "9" * 3000, "BETWEEN 'x' AND 3",
    "MIN(age)", "COUNT(*) OVER ()", "LIMIT -1", "OFFSET 3", "ＳＥＬＥＣＴ", "INTERVAL '1' DAY", "DATE '2020-99-01'",
    "[1, 2]", "{'a': 1}", "CASE WHEN 1 THEN 2 END", "@@version", "age::int",
)  # fmt: skip


def try_sql(dice: random.Random, ground: Ground) -> Attempt:
    """A statement that is none, or one that a view does not answer."""
    words = dice.choice(STATEMENTS).split(" ")
    how = dice.randrange(8)
    at = dice.randrange(len(words))
    if how == 0:
        del words[at]
    elif how <= 3:
        words.insert(at, dice.choice(SQL_PARTS))
    elif how <= 5:
        words[at] = dice.choice((*SQL_PARTS, *NASTY_NUMBERS, *NASTY_TEXTS))
    elif how == 6:
        depth = dice.choice((40, 900, 20000))
        words = [
            f"SELECT COUNT(*) FROM view WHERE {dice.choice(('(', 'NOT ', 'NOT (', '-', '(SELECT ')) * depth}age = 1"
        ]
    else:
        words = [
            "SELECT COUNT(*) FROM view WHERE "
            + dice.choice((" AND ", " OR ")).join(["age = 1"] * dice.choice((30, 500, 9000)))
        ]
        if dice.randrange(2):
            words.append(dice.choice(SQL_PARTS))
    statement = " ".join(words).replace("\x00", "")
    release = dice.choice(("view", "view", "blocks"))
    if dice.randrange(5) == 0:
        content = statement.encode("utf-8", "surrogatepass") + dice.choice(NASTY_BYTES)
        return Attempt(door="sql", words=("query", release, "--file", "bad.sql"), files={"bad.sql": content})
    return Attempt(door="sql", words=("query", release, statement[:100_000]))


# --- releases and ledgers ---------------------------------------------------------------------------------------------

RELEASES = ("records", "table", "view", "blocks", "classes", "places")


def try_release(dice: random.Random, ground: Ground) -> Attempt:
    """A release whose certificate, signature or payload was changed."""
    name = dice.choice(RELEASES)
    files = {f"bad/{file.name}": file.read_bytes() for file in sorted((ground.pristine / name).iterdir())}
    how = dice.randrange(6)
    if how == 0:
        chosen = dice.choice(sorted(files))
        files[chosen] = spoil_bytes(files[chosen], dice)
    elif how == 1 and name in ("view", "places", "classes"):
        chosen = {"view": "bad/signature.json", "places": "bad/mechanism.json", "classes": "bad/mapping.json"}[name]
        files[chosen] = spoil_json(files[chosen].decode(), dice)
    elif how == 2:
        del files[dice.choice(sorted(files))]
    else:
        files["bad/certificate.json"] = spoil_json(files["bad/certificate.json"].decode(), dice)
    command = dice.choice(
        (
            "verify bad", "verify bad", "verify bad --ledger members.ledger", "verify bad --key steward.key.pub",
            "verify bad --json", "report bad --out page.html", "export bad --out new.csv", "query bad SELECT_COUNT",
            "sample bad -n 3 --out new.csv", "keys sign bad --key steward.key",
            "locate draw --device-file bad --cell 2",
        )
    )  # fmt: skip
    words = tuple("SELECT COUNT(*) FROM view" if word == "SELECT_COUNT" else word for word in fill(command))
    return Attempt(door="certificates", words=words, files=files)


COLUMNS = (
    "time",
    "kind",
    "release",
    "about",
    "neighbours",
    "unit",
    "currency",
    "promised",
    "amount",
    "cost",
    "total",
    "head",
    "seq",
)


def try_ledger(dice: random.Random, ground: Ground) -> Attempt:
    """A ledger whose bytes or rows were changed, or a key file."""
    command = dice.choice(
        (
            "ledger show bad.ledger", "ledger show bad.ledger --json", "ledger verify bad.ledger",
            "ledger migrate bad.ledger --out new.ledger", "verify records --ledger bad.ledger",
            "publish microdata members.csv --schema members.toml --epsilon 1 --ledger bad.ledger --out out",
        )
    )  # fmt: skip
    if dice.randrange(6) == 0:
        key = dice.choice(("steward.key", "steward.key.pub"))
        files = {"bad.key": spoil_bytes((ground.pristine / key).read_bytes(), dice)}
        command = dice.choice(("keys show bad.key", "keys sign records --key bad.key", "verify view --key bad.key"))
        return Attempt(door="ledgers", words=fill(command), files=files)
    content = (ground.pristine / dice.choice(("members.ledger", "rho.ledger"))).read_bytes()
    spoilt = _change_rows(content, dice) if dice.randrange(2) else spoil_bytes(content, dice)
    if dice.randrange(8) == 0:
        spoilt = spoil_bytes(content[: dice.choice((0, 16, 100, 4096))] or b"x", dice)
    return Attempt(door="ledgers", words=fill(command), files={"bad.ledger": spoilt})


def _change_rows(content: bytes, dice: random.Random) -> bytes:
    """Change a row as somebody with an editor of databases would, triggers put back afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "changed")
        file.write_bytes(content)
        with contextlib.closing(sqlite3.connect(file)) as base, base:
            triggers = base.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for name, _ in triggers:
                base.execute(f"DROP TRIGGER {name}")
            value = dice.choice((*NASTY_NUMBERS, *NASTY_TEXTS, 0, -1, 2**62, None, b"\x00\xff", 1.5))
            with contextlib.suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
                how = dice.randrange(4)
                if how == 0:
                    column = dice.choice(
                        ("id", "name", "created", "currency", "budget", "delta", "neighbours", "unit", "head", "format")
                    )
                    base.execute(f"UPDATE genesis SET {column} = ?", (value,))
                elif how == 1:
                    base.execute("DELETE FROM entries WHERE seq = ?", (dice.randrange(1, 7),))
                else:
                    base.execute(
                        f"UPDATE entries SET {dice.choice(COLUMNS)} = ? WHERE seq = ?", (value, dice.randrange(1, 7))
                    )
            for _, text in triggers[: len(triggers) - (dice.randrange(8) == 0)]:
                base.execute(text)
        return file.read_bytes()


def try_endless(dice: random.Random, ground: Ground) -> Attempt:
    """A file that never ends, or that is no file."""
    command, name = dice.choice(TAKEN)
    words = fill(command, file=name)
    kind = dice.choice(("pipe", "huge", *TARGETS))
    given: dict[str, Any] = {"links": {name: name if kind == CIRCLE else kind}}
    if kind in ("pipe", "huge"):
        given = {kind: name}
    return Attempt(door="endless", words=words, may_show="init" in words, must_refuse=True, **given)


DOORS: Mapping[str, Door] = {
    "schema": try_schema,
    "data": try_data,
    "flags": try_flags,
    "maps": try_map,
    "devices": try_device,
    "recipes": try_recipe,
    "requests": try_request,
    "sql": try_sql,
    "certificates": try_release,
    "ledgers": try_ledger,
    "endless": try_endless,
}
