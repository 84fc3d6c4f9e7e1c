"""The npm package: one source, a short form under 10 kB gzipped, and its tests in node and in Chromium."""

from __future__ import annotations

import functools
import gzip
import http.server
import json
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


def test_three_frames_of_chromium_draw_one_place_between_them(tmp_path: Path) -> None:
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("Chromium is not installed; the package is not run in a browser")
    shutil.copytree(PACKAGE, tmp_path / "site")
    (tmp_path / "site" / "index.html").write_text(PAGE, encoding="utf-8")
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

    cells = QuietHandler.told
    assert len(cells) == 6
    assert len({cell for cell in cells if cell is not None}) == 1  # one place was drawn; the other had no budget left
    assert cells.count(None) == 3


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files without a word, and hears what the page found."""

    is_done = threading.Event()
    told: ClassVar[list[int | None]] = []

    def do_POST(self) -> None:
        """Keep what the page found."""
        QuietHandler.told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        QuietHandler.is_done.set()

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""
