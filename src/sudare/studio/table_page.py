"""Choose a table: a file that is dropped or named, or a table in a database; then the line that holds the names."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from sudare.errors import SourceError, SudareError
from sudare.sources import is_address
from sudare.sources.files import find_files
from sudare.sources.look import read_first_lines
from sudare.studio.project import StudioTable
from sudare.studio.safety import MOST_UPLOAD_BYTES
from sudare.studio.web import Visit, find_reader_language, go, read_folder
from sudare.text import text, use_language

if TYPE_CHECKING:
    from sudare.studio.web import Studio

ENDINGS = ".xlsx,.xlsm,.xls,.csv,.tsv,.txt,.gz,.parquet,.jsonl,.arrow,.feather"
PREFIX = "upload-"


def show_home(visit: Visit) -> Response:
    """The first page: choose a table, or go on with one."""
    return _show_tables(visit, typed="")


def _show_tables(visit: Visit, *, typed: str, error: str = "") -> Response:
    return visit.show(
        "table.html",
        step="table",
        tables=visit.project.tables(),
        endings=ENDINGS,
        most=MOST_UPLOAD_BYTES,
        typed=typed,
        error=error,
        status=400 if error else 200,
    )


def add_by_path(visit: Visit) -> Response:
    """Take a table by its path or address."""
    typed = visit.form.get("path", "").strip()
    try:
        address = typed if is_address(typed) else str(_check_file(typed))
        return go(f"/t/{visit.project.add_table(address)}/header")
    except SudareError as error:
        return _show_tables(visit, typed=typed, error=str(error))


def _check_file(typed: str) -> Path:
    if not typed:
        raise SourceError("name a file or an address")
    path = read_folder(typed)
    find_files(str(path))
    return path.absolute()


def upload_endpoint(studio: Studio) -> Callable[[Request], Any]:
    """Take a dropped file as it streams in; it stays in a folder of this user alone until the studio ends."""

    async def endpoint(request: Request) -> Response:
        with use_language(find_reader_language(request)):
            name = _name_upload(unquote(request.headers.get("x-file-name", "")))
            folder = studio.project.upload_folder()
            target = folder / name
            number = 1
            while target.exists():
                number += 1
                target = folder / f"{number}-{name}"
            try:
                with target.open("xb") as file:
                    async for chunk in request.stream():
                        file.write(chunk)
                find_files(str(target))
            except ClientDisconnect:
                target.unlink(missing_ok=True)
                return JSONResponse({"error": str(text("the file did not arrive whole; drop it again"))}, 400)
            except OSError:
                target.unlink(missing_ok=True)
                return JSONResponse({"error": str(text("the file cannot be kept: is the disk full?"))}, 507)
            except SudareError as error:
                target.unlink(missing_ok=True)
                return JSONResponse({"error": str(error).replace(str(folder) + "/", "")}, 400)
            return JSONResponse({"go": f"/t/{studio.project.add_table(str(target))}/header"})

    return endpoint


def _name_upload(name: str) -> str:
    """Take the last part of a name, without signs that mean something to a file system."""
    last = re.split(r"[\\/]", name)[-1].replace("\0", "")
    safe = re.sub(r"[^\w.() -]+", "_", last).strip(". ")[:120]
    return safe or f"{PREFIX}table.csv"


# --- the line of names ------------------------------------------------------------------------------------------------


def show_header(visit: Visit) -> Response:
    """Show the first lines; a file that names its columns itself needs no choice."""
    table = visit.table()
    sheet = visit.query.get("sheet") or None
    try:
        found = None if is_address(table.address) else read_first_lines(_bare(table), sheet=sheet)
    except SudareError as error:
        return visit.show("header.html", table=table, step="table", found=None, problem=str(error), status=400)
    return visit.show("header.html", table=table, step="table", found=found, problem="")


def _bare(table: StudioTable) -> str:
    """Name the file without the sheet and the line that were chosen before."""
    return _split(table.address)[0]


def _split(address: str) -> tuple[str, str]:
    if Path(address).exists():
        return address, ""
    file, _, place = address.rpartition("#")
    return (file, place) if file else (address, "")


def choose_header(visit: Visit) -> Response:
    """Take the sheet and the line of names, and draft the schema in the background."""
    table = visit.table()
    if not is_address(table.address):
        sheet, line = visit.form.get("sheet", ""), visit.form.get("line", "")
        place = sheet + (f"!{int(line) + 1}" if line.isdecimal() and len(line) < 7 else "")
        encoding = visit.form.get("encoding") or None
        visit.project.set_address(table.id, _bare(table) + (f"#{place}" if place else ""), encoding)
    job = visit.jobs.start("draft", visit.project.table(table.id), {})
    return go(f"/jobs/{job}")


ROUTES = (
    ("/", "GET", show_home),
    ("/table", "GET", show_home),
    ("/table", "POST", add_by_path),
    ("/t/{table}/header", "GET", show_header),
    ("/t/{table}/header", "POST", choose_header),
)
