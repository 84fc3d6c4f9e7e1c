"""Releases and ledgers: the history, what is left, checks, downloads, and two releases side by side."""

from __future__ import annotations

import secrets
import shlex
import zipfile
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from starlette.responses import Response, StreamingResponse

from sudare.app import render_report
from sudare.errors import ParameterError, ReleaseError, SudareError
from sudare.privacy import Ledger
from sudare.privacy.exact import write_exact
from sudare.privacy.signatures import find_key
from sudare.releases import Release
from sudare.releases.office import export_release
from sudare.studio.ask_page import find_asked_name
from sudare.studio.project import StoredRelease
from sudare.studio.publish_page import framed_page
from sudare.studio.web import Visit, go

MOST_SHOWN = 200  # rows of a published table on the page
CHUNK = 1 << 20
COPIES = {"xlsx": ".xlsx", "csv": ".csv"}


def show_releases(visit: Visit) -> Response:
    """List ledgers with what is left of them, and all releases of the folder."""
    releases = visit.project.releases()
    ledgers = {release.ledger_file for release in releases if release.ledger_file is not None}
    ledgers |= {table.ledger_file for table in visit.project.tables() if table.ledger_file.exists()}
    return visit.show(
        "releases.html",
        step="releases",
        releases=releases,
        ledgers=[_describe_ledger(file, visit) for file in sorted(ledgers)],
    )


def _describe_ledger(file: Path, visit: Visit) -> dict[str, Any]:
    own = file.parent.name if file.name == "ledger.db" else file.stem
    name = own if file.parent != visit.project.folder or file.name != "ledger.db" else visit.project.folder.name
    try:
        with Ledger.open(file) as ledger:
            ledger.verify()
            return {
                "name": name,
                "broken": "",
                "budget": write_exact(ledger.budget),
                "left": write_exact(ledger.left),
                "spent": round(100 * float((ledger.budget - ledger.left) / ledger.budget)),
                "currency": ledger.currency.name,
                "together": str(ledger.describe(ledger.spent)),
                "head": ledger.head,
                "spends": [
                    {"day": spend.time[:10], "purpose": spend.purpose, "cost": write_exact(spend.cost)}
                    for spend in ledger.entries()
                ],
            }
    except SudareError as error:
        return {"name": name, "broken": str(error)}


def show_release(visit: Visit) -> Response:
    """One release: its promise in words, its checks, its files, its report."""
    release = visit.project.release(visit.path["release"])
    owner = next((table for table in visit.project.tables() if table.folder == release.directory.parent), None)
    return visit.show(
        "release.html",
        step="releases",
        release=release,
        owner=owner,
        is_new=visit.query.get("new") == "1",
        statement=str(release.certificate.statement),
        words=release.certificate.words(),
        is_askable=bool(find_asked_name(release.certificate.method)),
        files=sorted(release.certificate.payload),
        others=[other for other in visit.project.releases() if other.id != release.id],
        checks=[],
        commands="\n".join(
            shlex.join(["sudare", *words, str(release.directory.relative_to(visit.project.folder))])
            for words in (["verify"], ["report"])
        ),
    )


def verify_release(visit: Visit) -> Response:
    """Check a release, line by line: recomputed, signed, or only stated."""
    from sudare.verify.checks import verify_release as check

    release = visit.project.release(visit.path["release"])
    checks = check(release.directory, ledger_file=release.ledger_file)
    shown = [
        {
            "passed": found.passed,
            "name": str(found.name),
            "detail": str(found.detail),
            "basis": str(found.describe_basis()) if hasattr(found, "describe_basis") else "",
        }
        for found in checks
    ]
    return visit.show("verified.html", step="releases", release=release, checks=shown)


def sign_release(visit: Visit) -> Response:
    """Sign a release with the key of this steward (SUDARE_KEY)."""
    from sudare.verify.checks import sign_release as sign

    release = visit.project.release(visit.path["release"])
    key = find_key(None)
    if key is None:
        raise ParameterError("no key is known: make one with `sudare keys create`, and name it in SUDARE_KEY")
    sign(release.directory, key)
    return go(f"/r/{release.id}")


def show_report(visit: Visit) -> Response:
    """The page of the release, as `sudare report` writes it."""
    release = visit.project.release(visit.path["release"])
    return framed_page(render_report(Release.load(release.directory), release.directory))


def start_comparison(visit: Visit) -> Response:
    """Draw the release beside the true table, in the background."""
    release = visit.project.release(visit.path["release"])
    owner = next((table for table in visit.project.tables() if table.folder == release.directory.parent), None)
    if owner is None:
        raise ParameterError("the table of this release was not opened here; choose it on the page of tables first")
    return go(f"/jobs/{visit.jobs.start('compare', owner, {'release': release.id})}")


# --- downloads --------------------------------------------------------------------------------------------------------


def download(visit: Visit) -> Response:
    """Give a file of the release, a copy for Excel, or everything in one archive."""
    release = visit.project.release(visit.path["release"])
    kind, folder = visit.path["kind"], visit.project.upload_folder()
    name = release.directory.name
    if kind == "zip":
        return _give(_write_zip(release, folder), f"{name}.zip", "application/zip")
    if kind in COPIES:
        return _give(_export(release, COPIES[kind], folder), f"{name}{COPIES[kind]}", "application/octet-stream")
    if kind == "page":
        content = render_report(Release.load(release.directory), release.directory).encode()
        return _attach(iter([content]), f"{name}.html", "application/octet-stream")
    files = {*release.certificate.payload, "certificate.json", "certificate.md"}
    if kind not in files:
        raise ParameterError("the release has no file {kind}", kind=kind)
    path = release.directory / kind
    if path.is_symlink() or not path.is_file():
        raise ReleaseError("{file} is not a file of its own; the release is damaged", file=kind)
    return _attach(_read(path), Path(kind).name, "application/octet-stream")


def _export(release: StoredRelease, ending: str, folder: Path) -> Path:
    target = _new_name(folder, ending)
    export_release(Release.load(release.directory), target)
    return target


def _write_zip(release: StoredRelease, folder: Path) -> Path:
    Release.load(release.directory)  # checks the files against the certificate
    target = _new_name(folder, ".zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(release.directory.rglob("*")):
            if file.is_file() and not file.is_symlink() and not file.name.startswith("."):
                archive.write(file, Path(release.directory.name, file.relative_to(release.directory)))
    return target


def _new_name(folder: Path, ending: str) -> Path:
    return folder / f"copy-{secrets.token_hex(8)}{ending}"


def _give(path: Path, name: str, media: str) -> Response:
    """Send a temporary file and remove it."""

    def chunks() -> Iterator[bytes]:
        try:
            yield from _read(path)
        finally:
            path.unlink(missing_ok=True)

    return _attach(chunks(), name, media)


def _read(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


def _attach(content: Iterator[bytes], name: str, media: str) -> Response:
    from urllib.parse import quote

    disposition = f"attachment; filename*=UTF-8''{quote(name)}"
    return StreamingResponse(content, media_type=media, headers={"content-disposition": disposition})


# --- two side by side -------------------------------------------------------------------------------------------------


def compare_two(visit: Visit) -> Response:
    """Show what two releases say of themselves, and what both promise together."""
    keys = [visit.query.get("a", ""), visit.query.get("b", "")]
    pair = [visit.project.release(key) for key in keys]
    rows = _list_differences(pair[0].certificate.parameters, pair[1].certificate.parameters)
    return visit.show(
        "compare.html",
        step="releases",
        pair=pair,
        statements=[str(release.certificate.statement) for release in pair],
        rows=rows,
        together=_promise_together(pair),
    )


def _list_differences(left: Mapping[str, str], right: Mapping[str, str]) -> list[tuple[str, str, str]]:
    return [(name, left.get(name, ""), right.get(name, "")) for name in sorted({*left, *right})]


def _promise_together(pair: list[StoredRelease]) -> dict[str, str]:
    """Add up what two releases of one table cost, where both are counted in one currency and relation."""
    if pair[0].directory.parent != pair[1].directory.parent:
        return {"kind": "apart", "sum": ""}
    spends = [spend for release in pair for spend in release.certificate.spends]
    relations = {release.certificate.neighbours for release in pair}
    if not all(release.certificate.spends for release in pair) or len(relations) > 1:
        return {"kind": "unlike", "sum": ""}
    currencies = {spend.get("charged_in") or ("rho" if "rho" in spend else "epsilon") for spend in spends}
    if len(currencies) > 1:
        return {"kind": "unlike", "sum": ""}
    total = sum((Fraction(spend["cost"]) for spend in spends), Fraction())
    return {"kind": currencies.pop(), "sum": write_exact(total)}


ROUTES = (
    ("/releases", "GET", show_releases),
    ("/compare", "GET", compare_two),
    ("/r/{release}", "GET", show_release),
    ("/r/{release}/report", "GET", show_report),
    ("/r/{release}/verify", "POST", verify_release),
    ("/r/{release}/sign", "POST", sign_release),
    ("/r/{release}/compare", "POST", start_comparison),
    ("/r/{release}/file/{kind:path}", "GET", download),
)
