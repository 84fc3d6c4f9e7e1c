"""The way of a steward through the pages, without a script: forms and redirects only."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from sudare.privacy import Ledger
from sudare.releases import Release
from sudare.schema import Schema
from sudare.studio.jobs import Jobs
from tests.studio.pages import Browser, read

PEOPLE = "age,sex,town\n" + "".join(
    f"{18 + row % 70},{'FM'[row % 2]},{['Aoi', 'Kita', 'Minami'][row % 3]}\n" for row in range(900)
)


def prepare(folder: Path) -> tuple[Browser, str]:
    """Open a studio on a table, confirm its schema, and check that the table fits."""
    (folder / "people.csv").write_text(PEOPLE)
    studio = Browser(folder / "project")
    studio.open()
    table = studio.read_table(folder / "people.csv")
    studio.confirm_all(table)
    checked = studio.await_job(studio.post(f"{table}/schema/finish"))
    assert checked.url.path == f"{table}/choose", read(checked)
    return studio, table


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> tuple[Browser, str]:
    """A table that is ready to be published; its budget is large enough for every test here."""
    return prepare(tmp_path_factory.mktemp("ready"))


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Browser, str]:
    """Another one, whose budget is small."""
    return prepare(tmp_path_factory.mktemp("alone"))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Browser, str]:
    """A table that takes long enough to read to be stopped in the middle."""
    studio, table = prepare(tmp_path_factory.mktemp("large"))
    (studio.project.folder.parent / "people.csv").write_text(PEOPLE * 2000)
    return studio, table


def publish(studio: Browser, table: str, name: str, **form: str) -> str:
    """Publish what was chosen; gives the path of the release."""
    done = studio.await_job(studio.post(f"{table}/publish", {"name": name, "budget": "20", **form}))
    assert done.url.path.startswith("/r/"), read(done)
    return done.url.path


def count_releases(file: Path) -> int:
    """How many releases a ledger has paid for."""
    if not file.exists():
        return 0
    with Ledger.open(file) as ledger:
        return len({spend.release for spend in ledger.entries()})


def test_from_a_file_to_a_release_and_an_answer(ready: tuple[Browser, str]) -> None:
    studio, table = ready
    chosen = studio.post(f"{table}/choose", {"need": "queries", "rows": "900", "epsilon": "1"})
    assert "epsilon = 1" in read(chosen)
    assert "1" in read(studio.get(f"{table}/publish"))

    release = publish(studio, table, "first")
    asked = studio.post(f"{release}/ask", {"build": "1", "measure": "count", "group": "sex"})

    directory = studio.project.release(release.removeprefix("/r/")).directory
    assert Release.load(directory).certificate.private
    with Ledger.open(directory.parent / "ledger.db") as ledger:
        assert [spend.amount for spend in ledger.entries()][-1:] == [1]
    assert "F" in read(asked)
    assert studio.get(f"{release}/file/zip").content.startswith(b"PK")
    assert studio.get(f"{release}/file/xlsx").content.startswith(b"PK")
    assert "ok" in read(studio.post(f"{release}/verify"))
    assert "first" in read(studio.get("/releases"))


def test_a_name_that_is_taken_spends_nothing(ready: tuple[Browser, str]) -> None:
    studio, table = ready
    studio.post(f"{table}/choose", {"need": "records", "rows": "900", "epsilon": "1/2"})
    file = studio.project.table(table.removeprefix("/t/")).ledger_file
    before = count_releases(file)
    publish(studio, table, "once")

    again = studio.post(f"{table}/publish", {"name": "once"})

    assert again.status_code == 400
    assert "That name is taken" in read(again)
    assert count_releases(file) == before + 1


def test_a_bad_name_and_too_large_a_cost_are_refused_and_a_broken_ledger_pays_nothing(
    alone: tuple[Browser, str],
) -> None:
    studio, table = alone
    own = studio.project.table(table.removeprefix("/t/"))
    studio.post(f"{table}/choose", {"need": "records", "rows": "900", "epsilon": "1"})
    for name in ("", "../up", "a/b", ".hidden", "x" * 99, "a b"):
        assert studio.post(f"{table}/publish", {"name": name, "budget": "2"}).status_code == 400, name
    assert not own.ledger_file.exists()
    publish(studio, table, "first", budget="3/2")

    done = studio.await_job(studio.post(f"{table}/publish", {"name": "second"}))

    assert not done.url.path.startswith("/r/")
    assert not (own.folder / "second").exists()
    assert count_releases(own.ledger_file) == 1
    break_chain(own.ledger_file)
    page = studio.get(f"{table}/publish")
    assert "chain is broken" in read(page)
    assert "disabled" in page.text


def break_chain(file: Path) -> None:
    """Take the last entries out of a ledger, behind its back."""
    with contextlib.closing(sqlite3.connect(file)) as store, store:
        for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            store.execute(f'DROP TRIGGER "{name}"')
        (entries,) = store.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE '%entr%'"
        ).fetchone()
        store.execute(f"DELETE FROM {entries}")


def test_k_anonymity_by_hand_and_the_truth_beside_it(ready: tuple[Browser, str]) -> None:
    studio, table = ready
    form = {"k": "5", "quasi": "age,sex,town"}
    chosen = studio.post(f"{table}/method/kanon", form)
    assert chosen.url.path == f"{table}/publish", read(chosen)

    release = publish(studio, table, "classes")
    compared = studio.await_job(studio.post(f"{release}/compare"))

    assert "not for publication" in read(compared)
    page = studio.get(f"{compared.url.path}/page")
    assert page.status_code == 200
    assert "script" not in page.headers["content-security-policy"]


def test_what_is_wrong_with_a_parameter_is_told_and_stays(ready: tuple[Browser, str]) -> None:
    studio, table = ready

    answer = studio.post(f"{table}/method/kanon", {"k": "one"})

    assert answer.status_code == 400
    assert "one" in read(answer)
    assert 'value="one"' in answer.text


def test_two_windows_do_not_overwrite_each_other(alone: tuple[Browser, str]) -> None:
    studio, table = alone
    form = {"version": studio.version(table), "role": "plain", "kind": "category", "values": "F\nM\nX"}
    number = [card.name for card in studio.project.table(table[3:]).cards.cards].index("sex")  # type: ignore[union-attr]
    assert studio.post(f"{table}/schema/column/{number}", form).status_code == 200

    second = studio.post(f"{table}/schema/column/{number}", {**form, "values": "F\nM\nY"})

    assert second.status_code == 400
    assert "another window" in read(second)
    assert "F\nM\nY" in second.text  # what was typed is kept
    assert 'values = ["F", "M", "X"]' in studio.project.table(table[3:]).schema_file.read_text()


def test_a_table_that_does_not_fit_is_told_to_the_steward_alone(alone: tuple[Browser, str]) -> None:
    studio, table = alone
    (studio.project.folder.parent / "people.csv").write_text(PEOPLE + "200,F,Aoi\n")
    studio.confirm_all(table)

    checked = studio.await_job(studio.post(f"{table}/schema/finish"))

    assert "not for publication" in read(checked)
    assert "age" in read(checked)


def test_a_killed_worker_is_told(large: tuple[Browser, str]) -> None:
    studio, table = large
    started = studio.post(f"{table}/schema/finish")
    jobs = Jobs(studio.project)
    key = started.url.path.removeprefix("/jobs/")
    pid = jobs.get(key).pid
    assert pid is not None

    os.kill(pid, signal.SIGKILL)
    while jobs.get(key).is_running:  # ended by whoever waits for the process
        time.sleep(0.02)

    assert jobs.get(key).state == "interrupted"
    assert "interrupted before its end" in read(studio.get(started.url.path))


def test_one_piece_of_work_at_a_time(large: tuple[Browser, str]) -> None:
    studio, table = large
    first = studio.post(f"{table}/schema/finish")

    second = studio.post(f"{table}/schema/finish")

    assert second.status_code == 400
    studio.post(f"{first.url.path}/stop")
    stopped = studio.await_job(first)
    assert "stopped" in read(stopped).lower()


def test_the_pages_speak_japanese(ready: tuple[Browser, str]) -> None:
    studio, table = ready
    studio.post("/language", {"language": "ja"})

    for path in ("/", f"{table}/schema", f"{table}/choose", "/releases"):
        page = studio.get(path)
        assert 'lang="ja"' in page.text
        assert "スキーマ" in page.text
    studio.post("/language", {"language": "en"})


def test_a_table_is_asked_by_point_and_click_and_on_a_map(ready: tuple[Browser, str]) -> None:
    studio, table = ready
    studio.post(f"{table}/method/table", {"epsilon": "2", "by": "age,town"})
    release = publish(studio, table, "counts")
    assert f"{release}/ask" in studio.get(release).text

    answer = studio.post(f"{release}/ask", {"build": "1", "measure": "count", "group": "age", "group2": "town"})
    total = studio.post(f"{release}/ask", {"sql": "SELECT SUM(count) FROM cells WHERE age >= 30"})

    towns, tiles = (
        {"Aoi", "Kita", "Minami"},
        re.findall(r"<title>([^<]+)</title><rect class=\"tile-(\d)\"", answer.text),
    )
    assert {words.split("・")[1].split(":")[0] for words, _ in tiles} == towns
    assert len({shade for _, shade in tiles}) > 1
    assert "across: age; from the bottom up: town" in read(answer)
    assert total.status_code == 200
    assert 'class="tiles"' not in total.text
    assert "sudare query counts" in read(total)


def test_a_release_that_cannot_be_asked_says_so(ready: tuple[Browser, str]) -> None:
    studio, table = ready
    studio.post(f"{table}/method/kanon", {"k": "3"})
    release = publish(studio, table, "groups")
    assert f"{release}/ask" not in studio.get(release).text
    assert "cannot be asked" in read(studio.get(f"{release}/ask"))


def test_errors_stand_beside_sizes_of_an_earlier_release_and_never_of_the_table(ready: tuple[Browser, str]) -> None:
    studio, table = ready
    chosen = {"need": "queries", "rows": "900", "epsilon": "1"}
    studio.post(f"{table}/choose", chosen)
    name = publish(studio, table, "sizes").removeprefix("/r/")

    page = studio.post(f"{table}/choose", {**chosen, "sizes": name})
    even = studio.post(f"{table}/choose", {**chosen, "sizes": "even"})
    halved = studio.post(f"{table}/choose", {**chosen, "epsilon": "1/2", "sizes": "even"})

    assert "the release sizes" in read(page)
    assert len(re.findall(r'class="reach" d="M', page.text)) == 3  # towns: the middle attribute
    assert even.text.count('<td class="n">300</td>') == 3
    errors = [float(re.findall(r"\(± ([\d,]+)\)", read(each))[0].replace(",", "")) for each in (even, halved)]
    assert errors[1] > 1.4 * errors[0]


@pytest.mark.parametrize("land", ["##", "#" * 15, "\n".join(["." * 15] * 12), "\n".join(["x" * 15] * 12)])
def test_a_drawing_that_does_not_fit_is_told_and_stays(ready: tuple[Browser, str], land: str) -> None:
    studio, _ = ready
    refused = studio.post("/places", {"show": "1", "land": land})
    assert refused.status_code == 400
    assert "land" in read(refused)
    assert land.splitlines()[0] in refused.text


def test_a_combination_that_cannot_occur_is_typed_and_taken_back(alone: tuple[Browser, str]) -> None:
    studio, table = alone
    form = {"column1": "age", "values1": "0-20", "column2": "town", "values2": "Aoi, Kita"}

    refused = studio.post(
        f"{table}/schema/impossible", {**form, "values2": "Nowhere", "version": studio.version(table)}
    )
    studio.post(f"{table}/schema/impossible", {**form, "version": studio.version(table)})

    place = studio.project.table(table.removeprefix("/t/"))
    assert refused.status_code == 400
    assert 'value="Nowhere"' in refused.text
    assert len(Schema.read(place.schema_file).impossible) == 1
    studio.post(f"{table}/schema/impossible/0", {"version": studio.version(table)})
    assert not Schema.read(place.schema_file).impossible


def test_every_page_says_what_does_the_same_by_command(ready: tuple[Browser, str]) -> None:
    studio, table = ready
    (first, second, *_) = studio.project.releases()
    paths = ["/", f"{table}/header", f"{table}/schema", f"{table}/choose", f"{table}/publish", f"{table}/method/view"]
    paths += ["/releases", "/places", f"/r/{first.id}", f"/compare?a={first.id}&b={second.id}"]
    pages = [studio.get(path) for path in paths] + [studio.post(f"/r/{first.id}/verify")]
    pages.append(studio.post(f"{table}/schema/finish"))
    for page in pages:
        assert page.status_code == 200, page.url
        (command, python) = re.findall(r"<pre><code>(.*?)</code></pre>", page.text, re.DOTALL)[-2:]
        assert command.startswith(("sudare ", "diff ")), page.url
        assert "import sudare as sd" in python or "subprocess" in python, page.url
    studio.await_job(pages[-1])
