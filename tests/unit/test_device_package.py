"""The npm package: one source, a short form under 10 kB gzipped, and its tests in node and in Chromium."""

from __future__ import annotations

import functools
import gzip
import http.server
import json
import runpy
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest

import sudare.methods.location

PACKAGE = Path(__file__).parents[2] / "packages" / "device"
PAGE = """<!doctype html><title>wait</title><body><script type="module">
import { openDevice, browserStore, proveFile } from "./device.min.js";
const maps = await (await fetch("./test/maps.json")).json();
const frame = new URLSearchParams(location.search).get("frame");
for (const file of Object.values(maps)) proveFile(file);
const device = openDevice(maps.plane, { store: browserStore("two tabs") });
// both frames ask for different places at once, on a budget of one place a day
const reports = await Promise.all([0, 19].map((cell) => device.report(cell, "2026-11-16")));
if (frame) parent.postMessage(reports.map((report) => report?.cell ?? null), "*");
else {
  const heard = [];
  addEventListener("message", ({ data }) => {
    heard.push(...data);
    const cells = heard.concat(reports.map((report) => report?.cell ?? null));
    if (heard.length === 4) fetch("/done", { method: "POST", body: JSON.stringify(cells) });
  });
  for (const name of ["a", "b"])
    document.body.append(Object.assign(document.createElement("iframe"), { src: "?frame=" + name }));
}
</script>"""


def test_the_package_and_the_wheel_hold_one_source() -> None:
    wheel = Path(sudare.methods.location.__file__).with_name("device.js")

    assert (PACKAGE / "device.js").read_bytes() == wheel.read_bytes()


def test_the_short_form_is_under_10_kb_gzipped() -> None:
    assert len(gzip.compress((PACKAGE / "device.min.js").read_bytes(), 9)) < 10_000


def test_the_short_form_is_what_the_source_becomes() -> None:
    node = shutil.which("node")
    if node is None or not (PACKAGE / "node_modules" / "terser").is_dir():
        pytest.skip("terser is not installed (npm install in packages/device); the short form is not built again")

    done = subprocess.run([node, "build.mjs", "--check"], cwd=PACKAGE, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_its_tests_pass_in_node() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed; the package is not run")

    done = subprocess.run([node, "--test", "test/"], cwd=PACKAGE, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout[-2000:]


EXAMPLE = """<!doctype html><title>wait</title><body><script type="module">
const read = (language) => new Promise((done) => {
  const frame = Object.assign(document.createElement("iframe"), { src: "example/index.html?send=1&lang=" + language });
  frame.style = "width: 1100px; height: 900px";
  document.body.append(frame);
  const look = () => {
    const page = frame.contentDocument;
    if (page?.body?.dataset.ready !== "yes") return setTimeout(look, 50);
    const texts = ["fall", "sent", "protects", "months"].map((id) => page.getElementById(id).textContent);
    done([...texts, String(page.querySelectorAll("rect.chance").length), page.documentElement.lang]);
  };
  look();
});
const english = await read("en");
fetch("/done", { method: "POST", body: JSON.stringify([english, await read("ja")]) });
</script>"""


def test_the_example_page_shows_where_a_report_may_fall_in_both_languages(tmp_path: Path) -> None:
    english, japanese = open_in_chromium(tmp_path, EXAMPLE)

    assert "Half of the reports fall within 361 m" in english[0]
    assert english[1].startswith("Reported: the red point, ")
    assert "1/4.5 as likely" in english[2]
    assert "報告の半分は今いる場所から 361 m 以内" in japanese[0]
    assert "前と同じ答えです" in japanese[1]  # the second frame finds the answer that the first one drew
    assert int(english[4]) > 100
    assert (english[5], japanese[5]) == ("en", "ja")


def test_the_map_of_the_example_page_is_what_its_script_writes(tmp_path: Path) -> None:
    script = (PACKAGE / "example" / "make_town.py").read_text(encoding="utf-8")
    (tmp_path / "make_town.py").write_text(script, encoding="utf-8")

    runpy.run_path(str(tmp_path / "make_town.py"), run_name="__main__")

    made, kept = ([json.loads((place / name).read_bytes()) for name in ("town.json", "figures.json")]
                  for place in (tmp_path, PACKAGE / "example"))  # fmt: skip
    same = ("sudare", "format", "grid", "repeat", "epsilon_per_metre", "inputs", "law")
    assert [made[0][name] for name in same] == [kept[0][name] for name in same]
    assert made[0]["weights"] == pytest.approx(kept[0]["weights"], rel=1e-4)  # transforms round by the processor
    assert made[1]["home_found"] == pytest.approx(kept[1]["home_found"], abs=0.02)


def test_the_store_for_node_of_the_readme_draws_once(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    block = (PACKAGE / "README.md").read_text(encoding="utf-8").rpartition("```js\n")[2].partition("```")[0]
    here = block.replace("@sudare/device", (PACKAGE / "device.js").as_uri()).replace("35.68", "35.01")
    here = here.replace("139.76", "135.01") + "console.log(JSON.stringify(report));"
    (tmp_path / "app.mjs").write_text(here, encoding="utf-8")
    shutil.copy(PACKAGE / "example" / "town.json", tmp_path / "mechanism.json")

    runs = [subprocess.run([node, "app.mjs"], cwd=tmp_path, capture_output=True, text=True, check=True) for _ in "12"]

    assert runs[0].stdout == runs[1].stdout != "null\n"
    assert json.loads((tmp_path / "state.json").read_text(encoding="utf-8"))["drawn"]["life"] == 1


def test_three_frames_of_chromium_draw_one_place_between_them(tmp_path: Path) -> None:
    cells = open_in_chromium(tmp_path, PAGE)

    assert len(cells) == 6
    assert len({cell for cell in cells if cell is not None}) == 1  # one place was drawn; the other had no budget left
    assert cells.count(None) == 3


def open_in_chromium(tmp_path: Path, page: str) -> Any:
    """Open a page beside the package in Chromium, and give what it posts."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("Chromium is not installed; the package is not run in a browser")
    shutil.copytree(PACKAGE, tmp_path / "site", ignore=shutil.ignore_patterns("node_modules"))
    (tmp_path / "site" / "index.html").write_text(page, encoding="utf-8")
    QuietHandler.is_done.clear()
    handler = functools.partial(QuietHandler, directory=str(tmp_path / "site"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/index.html"
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
        silent: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        running = subprocess.Popen([browser, *options, "--remote-debugging-port=0", address], **silent)
        try:
            while not QuietHandler.is_done.wait(1.0):  # as long as it takes: a browser that ended tells nothing more
                assert running.poll() is None, "the browser ended before the page had told what it found"
        finally:
            running.kill()
            running.wait()
            server.shutdown()

    return QuietHandler.told


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files without a word, and hears what the page found."""

    is_done = threading.Event()
    told: ClassVar[Any] = None

    def do_POST(self) -> None:
        """Keep what the page found."""
        QuietHandler.told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        QuietHandler.is_done.set()

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""
