"""Places: make or name a map, see what a report hides, publish the mechanism for devices, and try it in the page."""

from __future__ import annotations

import hashlib
import re
from importlib import resources
from pathlib import Path

from starlette.responses import Response

from sudare.app import preview
from sudare.atomic import replace_file
from sudare.errors import ParameterError, SudareError
from sudare.methods.location import Location
from sudare.studio.web import Visit, go, read_folder, tell

MODES = ("grid", "fair", "sharp", "near", "weighted")
MOST_CELLS = 10_000  # of a map that is made on the page; larger ones are files
FIELDS = ("rows", "columns", "height", "width", "path", "epsilon", "mode", "land")
START = {"rows": "12", "columns": "15", "height": "100", "width": "100", "epsilon": "1/100", "mode": "grid", "path": "",
         "land": ""}  # fmt: skip
NUMBER = re.compile(r"[0-9]{1,7}(\.[0-9]{1,6})?")
LAND, SEA = "#", "."
LEAST_LAND = 2  # cells; one alone hides nothing


def show_places(visit: Visit) -> Response:
    """Ask for the map and the strength of the noise; with "show", tell what that gives."""
    given = {**START, **{name: visit.form[name].strip() for name in FIELDS if name in visit.form}}
    lines: list[str] = []
    error = ""
    if "show" in visit.form or "publish" in visit.form:
        try:
            file = _find_map(visit, given)
            method = Location(epsilon_per_metre=given["epsilon"], mode=given["mode"])  # type: ignore[arg-type]
            if "publish" in visit.form:
                return _publish(visit, file, given)
            previewed = preview(method, file)
            lines = [str(previewed.promise.describe()), *tell(previewed.expected)]
        except SudareError as refusal:
            error = str(refusal)
    return visit.show(
        "places.html",
        step="places",
        given=given,
        modes=MODES,
        lines=lines,
        error=error,
        status=400 if error else 200,
        releases=[each for each in visit.project.releases() if each.certificate.method == "location"],
    )


def _find_map(visit: Visit, given: dict[str, str]) -> Path:
    """Take the map file that was named, or write one of equal cells."""
    if given["path"]:
        return read_folder(given["path"]).absolute()
    for name in ("rows", "columns"):
        if not (given[name].isdecimal() and 2 <= int(given[name][:7]) <= MOST_CELLS and len(given[name]) < 7):
            raise ParameterError("{name} ({value}) must be a whole number of at least 2", name=name, value=given[name])
    if int(given["rows"]) * int(given["columns"]) > MOST_CELLS:
        raise ParameterError("a map made here has at most {most} cells; write a map file for more", most=MOST_CELLS)
    for name in ("height", "width"):
        if not NUMBER.fullmatch(given[name]):
            raise ParameterError("{name} ({value}) must be a number of metres", name=name, value=given[name])
    drawn = read_drawing(given["land"], rows=int(given["rows"]), columns=int(given["columns"]))
    folder = visit.project.folder / "places"
    folder.mkdir(exist_ok=True)
    mark = "" if drawn is None else "-" + hashlib.sha256(drawn.encode()).hexdigest()[:8]
    name = f"map-{given['rows']}x{given['columns']}-{given['height']}x{given['width']}{mark}"
    keys = {"rows": "rows", "columns": "columns", "height": "cell_height_metres", "width": "cell_width_metres"}
    lines = ["[grid]", 'kind = "plane"', *(f"{key} = {given[field]}" for field, key in keys.items())]
    if drawn is not None:
        replace_file(folder / f"{name}.csv", drawn)
        lines.append(f'weights = "{name}.csv"')
    replace_file(folder / f"{name}.toml", "\n".join(lines) + "\n")
    return folder / f"{name}.toml"


def read_drawing(land: str, *, rows: int, columns: int) -> str | None:
    """Read land and sea as signs, a line for each row; gives the weights of the land as CSV, None if nothing is drawn.

    >>> print(read_drawing("#.\\n##", rows=2, columns=2), end="")
    row,column,weight
    0,0,1
    1,0,1
    1,1,1

    Error: ParameterError if the signs do not fit the map.
    """
    lines = land.split()
    if not lines:
        return None
    if len(lines) != rows or any(len(line) != columns or set(line) - {LAND, SEA} for line in lines):
        raise ParameterError(
            "land must be {rows} lines of {columns} signs, # for land and . for sea; empty it to begin anew",
            rows=rows,
            columns=columns,
        )
    cells = [
        f"{row},{column},1"
        for row, line in enumerate(lines)
        for column, sign in enumerate(line)
        if sign == LAND
    ]  # fmt: skip
    if len(cells) < LEAST_LAND:
        raise ParameterError("a map needs at least {least} cells of land", least=LEAST_LAND)
    return "\n".join(["row,column,weight", *cells]) + "\n"


def _publish(visit: Visit, file: Path, given: dict[str, str]) -> Response:
    table = visit.project.table(visit.project.add_table(str(file)))
    table.folder.mkdir(parents=True, exist_ok=True)
    parameters = {"epsilon_per_metre": given["epsilon"], "mode": given["mode"]}
    fields = {"name": "location", "method": "location", "parameters": parameters}
    return go(f"/jobs/{visit.jobs.start('publish', table, fields)}")


def show_device(visit: Visit) -> Response:
    """Try a device in the page: the file that devices read, proven by the code that devices run."""
    release = visit.project.release(visit.path["release"])
    if release.certificate.method != "location":
        raise ParameterError("only a mechanism for devices can be tried; this release was made by {method}",
                             method=release.certificate.method)  # fmt: skip
    measures = release.certificate.measures
    found = {days: measures.get(f"home_found_{days}_days") for days in (1, 30, 365)}
    return visit.show("device.html", step="places", release=release, found=found)


def give_device_code(visit: Visit) -> Response:
    """Give the code that devices run."""
    code = (resources.files("sudare.methods.location") / "device.js").read_bytes()
    return Response(code, media_type="text/javascript")


ROUTES = (
    ("/places", "GET", show_places),
    ("/places", "POST", show_places),
    ("/r/{release}/device", "GET", show_device),
    ("/code/device.js", "GET", give_device_code),
)
