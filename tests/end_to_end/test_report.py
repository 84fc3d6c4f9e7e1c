"""A report of every kind of release: one page, no script, no address, stamped exactly when the truth was given."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sudare.demo.data import write_coast
from tests.end_to_end.conftest import Ran
from tests.unit.test_report import Tags

Sudare = Callable[..., Ran]

SCHEMA = """\
[sudare]
schema = 1
name = "people & places"

[[attribute]]
name = "mesh"
kind = "mesh"
level = 2
area = ["5339"]

[[attribute]]
name = "age"
kind = "number"
role = "quasi"
bins = { start = 0, stop = 100, width = 5 }
hierarchy = { intervals = [10, 50] }

[[attribute]]
name = "sex"
kind = "category"
role = "quasi"
values = ["F", "M"]
hierarchy = { masking = "right" }

[[attribute]]
name = "illness"
kind = "category"
role = "sensitive"
values = ["<none>", "flu"]
"""
PUBLISH = {
    "microdata": ("--epsilon", "2", "--by", "age,sex"),
    "table": ("--epsilon", "2", "--by", "mesh,sex"),
    "view": ("--epsilon", "2", "--by", "age,sex,illness"),
    "kanon": ("--k", "20", "--max-suppressed", "0.05"),
}
STAMP = "NOT FOR PUBLICATION"
TRUTH = ("--truth", "people.csv", "--schema", "people.toml")


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = [f"5339{k % 8}{k % 5},{(7 * k) % 100},{'FM'[k % 2]},{('<none>', 'flu')[k % 3 == 0]}" for k in range(2000)]
    (tmp_path / "people.csv").write_text("mesh,age,sex,illness\n" + "\n".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "people.toml").write_text(SCHEMA, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUDARE_LANG", "en")
    return tmp_path


def publish(sudare: Sudare, method: str, *words: str) -> None:
    done = sudare("publish", method, "people.csv", "--schema", "people.toml", "--out", "out", *PUBLISH[method], *words)
    assert done.code == 0, done.err


def checked(path: Path) -> str:
    """A page that is whole and reaches for nothing."""
    made = path.read_text(encoding="utf-8")
    tags = Tags(made)
    assert tags.odd == tags.open == []
    assert not {"script", "link", "iframe"} & set(tags.seen)
    held = re.sub(r"data:image/png;base64,[A-Za-z0-9+/=]+", "", made)  # pictures in the page itself
    assert not re.search(r"https?:|//[a-z]|@import|url\(| on[a-z]+=", held)
    assert "svg" in tags.seen
    assert "table" in tags.seen
    return made


@pytest.mark.parametrize("method", list(PUBLISH))
@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_a_page_is_stamped_exactly_when_the_truth_was_given(
    method: str, file_format: str, people: Path, sudare: Sudare
) -> None:
    publish(sudare, method, "--format", file_format)
    public = sudare("report", "out", "-o", "public.html")
    secret = sudare("report", "out", "-o", "secret.html", *TRUTH)
    first, second = checked(people / "public.html"), checked(people / "secret.html")

    assert (public.code, secret.code) == (0, 0)
    assert STAMP not in first + public.out
    assert "not for publication" not in first
    assert 'class="truth"' not in first
    assert second.index(STAMP) < second.index("<h1>")
    assert 'class="printed"' in second
    assert STAMP in secret.out
    assert "people &amp; places" in first


def test_a_page_without_the_truth_reads_only_the_release(people: Path, sudare: Sudare) -> None:
    publish(sudare, "kanon")
    (people / "people.csv").unlink()
    (people / "people.toml").unlink()

    assert sudare("report", "out").code == 0
    assert "smallest class" in checked(people / "report.html")


def test_a_location_has_maps_and_no_truth(people: Path, sudare: Sudare) -> None:
    write_coast(people, rows=12, columns=12)
    sudare("publish", "location", "coast.toml", "--epsilon-per-metre", "0.02", "--mode", "fair", "--out", "out")
    done = sudare("report", "out")
    refused = sudare("report", "out", "-o", "other.html", *TRUTH)
    made = checked(people / "report.html")

    assert done.code == 0
    assert STAMP not in made
    assert "chance that the reported cell is the true one" in made
    assert "expected distance of a report, in metres" in made
    assert refused.code == 1
    assert "leave out --truth" in refused.err
    assert not (people / "other.html").exists()


def test_a_map_of_roads_has_no_grid_and_still_a_page(people: Path, sudare: Sudare) -> None:
    roads = "from,to,metres\n" + "".join(f"p{k},p{k + 1},{100 + k}\n" for k in range(12))
    (people / "roads.csv").write_text(roads, encoding="utf-8")
    (people / "roads.toml").write_text('[grid]\nkind = "graph"\nedges = "roads.csv"\n', encoding="utf-8")
    sudare("publish", "location", "roads.toml", "--epsilon-per-metre", "0.02", "--out", "out")
    done = sudare("report", "out")

    assert done.code == 0
    assert "cells by value" in checked(people / "report.html")


def test_a_view_of_blocks_is_drawn_too(people: Path, sudare: Sudare) -> None:
    publish(sudare, "view", "--method", "mondrian")
    done = sudare("report", "out", *TRUTH)

    assert done.code == 0
    assert "blocks." in checked(people / "report.html")


@pytest.mark.parametrize("recoding", ["mondrian", "value"])
def test_the_loss_of_other_recodings_is_read_off_their_labels(recoding: str, people: Path, sudare: Sudare) -> None:
    words = ("--k", "60", "--recoding", recoding, "--out", "out")
    done = sudare("publish", "kanon", "people.csv", "--schema", "people.toml", *words)
    sudare("report", "out", *TRUTH)
    told = re.search(r"loss: (\d\.\d+)", done.out)

    assert told is not None
    assert f"Loss of all attributes together: {told[1]}" in checked(people / "report.html")


def test_risk_and_loss_are_those_that_publish_told(people: Path, sudare: Sudare) -> None:
    done = sudare("publish", "kanon", "people.csv", "--schema", "people.toml", "--out", "out", *PUBLISH["kanon"])
    sudare("report", "out", *TRUTH)
    made = checked(people / "report.html")
    told = re.search(r"loss: (\d\.\d+)", done.out)

    assert told is not None
    assert f"Loss of all attributes together: {told[1]}" in made
    assert "journalist risk" in made
    assert made.count('class="chosen"') == 1
    assert 'class="step"' in made  # a card of the lattice for a way that keeps the promise


@pytest.mark.parametrize("method", list(PUBLISH))
def test_a_certificate_in_words_has_no_figure_without_a_sentence(method: str, people: Path, sudare: Sudare) -> None:
    publish(sudare, method)
    pages = [(people / "out" / name).read_text(encoding="utf-8") for name in ("certificate.md", "certificate.ja.md")]
    chapters = [page.split("\n## ")[3] for page in pages]

    assert chapters[0].count("\n- ") == chapters[1].count("\n- ") >= 1
    assert not any(re.search(r"^- [a-z_]+: ", chapter, flags=re.MULTILINE) for chapter in chapters)


@pytest.mark.parametrize("method", list(PUBLISH))
def test_a_japanese_page_is_japanese_throughout(
    method: str, people: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(sudare, method)
    monkeypatch.setenv("SUDARE_LANG", "ja")
    sudare("report", "out", *TRUTH)
    made = checked(people / "report.html")
    words = re.sub(r"<style>.*?</style>|<[^>]+>", " ", made, flags=re.DOTALL)

    assert '<html lang="ja">' in made
    assert "公開禁止" in made
    assert not re.search(r"\b(the|of|and|published|true|records)\b(?!\.)", words)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nowhere",), "nowhere is not a release"),
        (("out", "-o", "out/report.html"), "is inside the release"),
        (("out", "-o", "people.csv"), "people.csv exists; choose another file or remove it"),
        (("out", "-o", "report.pdf"), "report.pdf is to hold a page in HTML; choose a name that ends in .html"),
        (("out", "-o", "no/report.html"), "there is no directory no"),
        (("out", "--schema", "people.toml"), "--schema needs --truth"),
        (("out", "--truth", "none.csv", "--schema", "people.toml"), "none.csv"),
        (("out", "--truth", "people.csv"), "needs --schema with --truth"),
        (("out", "--truth", "people.csv", "--schema", "other.toml"), "does not declare the attributes"),
        (("out", "--truth", "few.csv", "--schema", "people.toml"), "has fewer rows than the release"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    words: tuple[str, ...], told: str, people: Path, sudare: Sudare
) -> None:
    publish(sudare, "kanon")
    (people / "other.toml").write_text(SCHEMA.replace('"age"', '"years"'), encoding="utf-8")
    lines = (people / "people.csv").read_text(encoding="utf-8").splitlines()
    (people / "few.csv").write_text("\n".join(lines[:200]) + "\n", encoding="utf-8")
    before = sorted(path.name for path in people.rglob("*"))
    done = sudare("report", *words)

    assert done.code == 1
    assert told in done.err
    assert done.err.count("\n") == 1
    assert sorted(path.name for path in people.rglob("*")) == before


def test_a_fault_of_our_own_is_not_taken_for_a_damaged_certificate(
    people: Path, sudare: Sudare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The certificate is in order, so the error is Sudare's, and is told as such; with a damaged one it is not."""
    publish(sudare, "table")

    def fail(*given: object, **more: object) -> None:
        raise TypeError("planted")

    monkeypatch.setattr("sudare.app.render", fail)
    ours = sudare("report", "out", "-o", "page.html")
    kept = json.loads((people / "out" / "certificate.json").read_text(encoding="utf-8"))
    kept["created"] = "2020-01-01"  # the certificate in words says another day
    (people / "out" / "certificate.json").write_text(json.dumps(kept), encoding="utf-8")
    damaged = sudare("report", "out", "-o", "page.html")

    assert (ours.code, "fault in Sudare itself" in ours.err) == (1, True)
    assert "not as Sudare writes it" not in ours.err
    assert (damaged.code, damaged.err.count("\n")) == (1, 1)
    assert "the certificate of out is not as Sudare writes it" in damaged.err
    assert not (people / "page.html").exists()
