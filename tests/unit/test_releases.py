"""A release is written whole or not at all, and what is not as certified is refused."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import json
import os
import re
import resource
import signal
from pathlib import Path

import numpy as np
import pytest

import sudare as sd
from sudare.errors import ParameterError, ReleaseError
from sudare.releases import Certificate, Coded, Frame, Release
from sudare.releases.certificate import describe_error, write_chapters
from sudare.releases.frame import check_names
from sudare.verify.checks import verify_release

LABELS = np.array(["[0,5)", "東京,都", 'a "b"', None], dtype=object)


def certificate(**changed: object) -> Certificate:
    facts = {
        "method": "microdata",
        "parameters": {"epsilon": "1/2"},
        "guarantee": {
            "epsilon": "1/2",
            "neighbours": "replace",
            "unit": {"kind": "row"},
            "statement": {"en": "promise", "ja": "約束"},
        },
        "neighbours": "replace",
        "unit": {"kind": "row"},
        "spends": ({"purpose": "noise in every cell", "epsilon": "1/2", "cost": "1/2"},),
        "schema": {"origin": "declared"},
        "expected_error": {"cell_standard_deviation": 5.6},
        "measures": {},
        "versions": {"sudare": "0"},
        "created": "2026-01-01T00:00:00+00:00",
        "private": True,
        "ledger_head": "ab",
    }
    return Certificate(**{**facts, **changed})  # type: ignore[arg-type]


def release(rows: int = 6, **changed: object) -> Release:
    frame = Frame({"label": Coded(np.arange(rows) % 4, LABELS), "count": np.arange(rows)})
    return Release({"records": frame}, certificate(**changed))


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_a_saved_release_loads_as_it_was(tmp_path: Path, file_format: str) -> None:
    release().save(tmp_path / "out", file_format=file_format)  # type: ignore[arg-type]
    found = Release.load(tmp_path / "out").frames["records"].decode()

    assert found["label"].tolist() == [*LABELS.tolist(), *LABELS.tolist()[:2]]
    assert [int(count) for count in found["count"]] == list(range(6))


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_an_empty_table_can_be_published(tmp_path: Path, file_format: str) -> None:
    release(0).save(tmp_path / "out", file_format=file_format)  # type: ignore[arg-type]

    assert Release.load(tmp_path / "out").frames["records"].rows == 0


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_days_that_were_drawn_within_their_bins_are_written_and_verified(tmp_path: Path, file_format: str) -> None:
    bins = sd.DateBins.of_width("2024-01-01", "2024-12-31", "1 month")
    schema = sd.Schema(name="visits", attributes=(sd.Attribute(name="day", domain=bins, missing=True),))
    (tmp_path / "visits.csv").write_text("day\n" + "2024-02-29\n" * 40 + '""\n' * 20)
    with sd.open(tmp_path / "visits.csv", schema) as source:
        made = sd.Microdata(epsilon=8, values="inside").publish(source)
        made.save(tmp_path / "out", file_format=file_format)  # type: ignore[arg-type]
    days = Release.load(tmp_path / "out").frames["records"].decode()["day"]
    written = {str(value)[:7] for value in np.ma.asarray(days).tolist() if value is not None}

    assert "2024-02" in written
    assert all(claim.passed for claim in verify_release(tmp_path / "out"))


def test_missing_numbers_stay_missing(tmp_path: Path) -> None:
    column = np.ma.array([1, 2, 3], mask=[False, True, False])
    Release({"records": Frame({"n": column})}, certificate()).save(tmp_path / "out")
    found = Release.load(tmp_path / "out").frames["records"].decode()["n"]

    assert np.ma.getmaskarray(found).tolist() == [False, True, False]
    assert found[2] == 3


def test_a_run_over_midnight_does_not_tell_how_long_it_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sudare.privacy.spend.read_clock", lambda: "2026-01-31T23:59:59.900000Z")
    schema = sd.Schema(name="pets", attributes=(sd.Attribute(name="pet", domain=sd.Values(("cat", "dog"))),))
    (tmp_path / "pets.csv").write_text("pet\ncat\ndog\n")
    with sd.open(tmp_path / "pets.csv", schema) as source:
        told = sd.Microdata(epsilon=1).publish(source).certificate

    assert (told.created, [spend["time"] for spend in told.spends]) == ("2026-01-31", ["2026-01-31"])


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_a_release_tells_days_and_no_times(tmp_path: Path, file_format: str) -> None:
    """Neither a text nor the times of files tell when in the day it was made, so nobody learns how long it took."""
    schema = sd.Schema(name="pets", attributes=(sd.Attribute(name="pet", domain=sd.Values(("cat", "dog"))),))
    (tmp_path / "pets.csv").write_text("pet\ncat\ndog\n")
    with (
        sd.Ledger.create(tmp_path / "pets.ledger", epsilon=1) as ledger,
        sd.open(tmp_path / "pets.csv", schema) as source,
    ):
        sd.Microdata(epsilon=1).publish(source, ledger=ledger).save(tmp_path / "out", file_format=file_format)  # type: ignore[arg-type]
        (spend,) = ledger.entries()
    content = b"".join(file.read_bytes() for file in (tmp_path / "out").iterdir())
    moments = {path.stat().st_mtime for path in (tmp_path / "out", *(tmp_path / "out").iterdir())}
    told = Release.load(tmp_path / "out").certificate

    assert re.search(rb"[0-9]{2}:[0-9]{2}", content) is None
    assert [moment % 86_400 for moment in moments] == [0]
    assert told.created == told.spends[0]["time"] == spend.time[:10]
    assert len(spend.time) > len("2026-11-17T01:53:09")  # the ledger keeps the time


def test_row_order_is_kept_as_given(tmp_path: Path) -> None:
    order = np.random.default_rng(1).permutation(300_000)
    Release({"records": Frame({"n": order})}, certificate()).save(tmp_path / "out")

    assert np.array_equal(Release.load(tmp_path / "out").frames["records"].decode()["n"], order)


def test_a_directory_that_exists_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(ReleaseError, match="exists"):
        release().save(tmp_path / "out")

    assert list(tmp_path.rglob("*")) == [tmp_path / "out"]


def test_a_seeded_release_is_not_saved_unless_one_says_so(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="protects nobody"):
        release(private=False).save(tmp_path / "out")
    release(private=False).save(tmp_path / "out", even_if_not_private=True)

    assert "NOT PRIVATE" in (tmp_path / "out" / "certificate.md").read_text()


def test_an_interrupt_in_the_middle_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("sudare.releases.release.digest", interrupted)
    with pytest.raises(KeyboardInterrupt):
        release().save(tmp_path / "out")

    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing_and_says_so(tmp_path: Path) -> None:
    """A file size limit stands in for the full disk: the write fails in the same place."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(ReleaseError, match="no space is left"):
            Release({"records": Frame({"n": np.random.default_rng(1).random(500_000)})}, certificate()).save(
                tmp_path / "out"
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_place_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    with pytest.raises(ReleaseError, match="cannot be written"):
        release().save(tmp_path / "out")


def test_a_missing_parent_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="there is no directory"):
        release().save(tmp_path / "none" / "out")


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="must be parquet or csv"):
        release().save(tmp_path / "out", file_format="xlsx")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["records.parquet", "certificate.md"])
def test_a_changed_file_is_refused(tmp_path: Path, name: str) -> None:
    release().save(tmp_path / "out")
    with (tmp_path / "out" / name).open("ab") as file:
        file.write(b" ")

    with pytest.raises(ReleaseError, match="hash differs"):
        Release.load(tmp_path / "out")


def test_an_added_or_missing_file_is_refused(tmp_path: Path) -> None:
    release().save(tmp_path / "out")
    (tmp_path / "out" / "more.parquet").write_bytes(b"")
    with pytest.raises(ReleaseError, match=r"more\.parquet"):
        Release.load(tmp_path / "out")
    (tmp_path / "out" / "more.parquet").unlink()
    (tmp_path / "out" / "records.parquet").unlink()

    with pytest.raises(ReleaseError, match=r"records\.parquet"):
        Release.load(tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": 2}, "format this version does not know"),
        ({"method": 5}, "method"),
        ({"surprise": 1}, "surprise"),
        ({"payload": None}, "payload"),
    ],
)
def test_a_certificate_from_elsewhere_is_refused(tmp_path: Path, change: dict[str, object], told: str) -> None:
    release().save(tmp_path / "out")
    file = tmp_path / "out" / "certificate.json"
    changed = {**json.loads(file.read_text()), **change}
    file.write_text(
        json.dumps({key: value for key, value in changed.items() if value is not None or key == "ledger_head"})
    )

    with pytest.raises(ReleaseError, match=told):
        Release.load(tmp_path / "out")


def test_what_is_not_a_release_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="is not a release"):
        Release.load(tmp_path)
    (tmp_path / "certificate.json").write_text("{")

    with pytest.raises(ReleaseError, match="not JSON"):
        Release.load(tmp_path)


def test_the_certificate_survives_json() -> None:
    paper = certificate()

    assert Certificate.from_json(paper.to_json()) == dataclasses.replace(paper)


def test_the_words_are_in_both_languages() -> None:
    assert "What was spent" in certificate().words("en")
    assert "使ったプライバシー予算" in certificate().words("ja")


def test_a_directory_named_like_a_pattern_is_read_itself(tmp_path: Path) -> None:
    release(4).save(tmp_path / "o1")
    release(6).save(tmp_path / "o[1]")
    release(3).save(tmp_path / "o*")

    assert Release.load(tmp_path / "o[1]").frames["records"].rows == 6
    assert Release.load(tmp_path / "o*").frames["records"].rows == 3


def test_names_that_differ_in_case_only_are_refused() -> None:
    with pytest.raises(ReleaseError, match="differ in case only"):
        Frame({"a": np.arange(2), "A": np.arange(2)})


def test_an_attribute_that_is_called_as_a_column_of_the_method_is_told_so() -> None:
    with pytest.raises(ReleaseError, match="two columns of the release would be called count"):
        check_names(["sex", "count", "count"])


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ReleaseError, match="one length"):
        Frame({"a": np.arange(2), "b": np.arange(3)})


def test_a_file_with_its_own_writer_is_part_of_the_release(tmp_path: Path) -> None:
    made = Release({}, certificate(), {"map.geojson": lambda path: path.write_text("{}", encoding="utf-8")})
    made.save(tmp_path / "out")
    Release.load(tmp_path / "out").save(tmp_path / "copy")

    assert (tmp_path / "copy" / "map.geojson").read_text(encoding="utf-8") == "{}"


def test_a_failing_writer_leaves_nothing(tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        path.write_text("half", encoding="utf-8")
        raise ReleaseError("no space is left to write {file}; free some and try again", file=path.name)

    with pytest.raises(ReleaseError):
        Release({}, certificate(), {"map.geojson": fail}).save(tmp_path / "out")

    assert list(tmp_path.iterdir()) == []


def test_a_release_of_a_method_that_is_not_installed_opens_and_has_no_page(tmp_path: Path) -> None:
    made = release()
    foreign = dataclasses.replace(made, certificate=dataclasses.replace(made.certificate, method="magic"))
    foreign.save(tmp_path / "out")
    opened = Release.load(tmp_path / "out")

    assert opened.frames["records"].rows == made.frames["records"].rows
    with pytest.raises(ReleaseError, match=r"method \(magic\) that is not known here; use a newer Sudare, or install"):
        opened.report()


def rewrite_words(directory: Path, change: str, version: str) -> None:
    """Write the sentences of a certificate as another version would have, with the right hashes."""
    file = directory / "certificate.json"
    entries = json.loads(file.read_text(encoding="utf-8"))
    entries["versions"]["sudare"] = version
    for page in ("certificate.md", "certificate.ja.md"):
        words = (directory / page).read_text(encoding="utf-8") + change
        (directory / page).write_text(words, encoding="utf-8")
        entries["payload"][page] = hashlib.sha256(words.encode("utf-8")).hexdigest()
    file.write_text(json.dumps(entries), encoding="utf-8")


@pytest.mark.parametrize(("version", "passes"), [("0.0.1", True), (importlib.metadata.version("sudare"), False)])
def test_words_that_differ_are_found_unless_another_version_wrote_them(
    tmp_path: Path, version: str, passes: bool
) -> None:
    release().save(tmp_path / "out")
    rewrite_words(tmp_path / "out", "- One sentence more.\n", version)
    check = next(check for check in verify_release(tmp_path / "out") if check.name.template == "certificate")

    assert check.passed is passes
    assert ("0.0.1" in str(check.detail)) is passes


def test_the_error_of_further_tables_is_told_in_words() -> None:
    tables = [
        {"table": "市*sex", "share": "1/10", "exact": False, "figures": 10, "standard_deviation": 20.348},
        {"table": "県", "share": "0", "exact": True, "figures": 2, "standard_deviation": 0.0},
    ]

    assert [str(line) for line in describe_error({"tables": tables})] == [
        "Standard deviation of a figure of a further table, by table: 市*sex: 20.3, 県: 0.0."
    ]


@pytest.mark.parametrize(
    ("unit", "is_told"), [({"kind": "row"}, False), ({"kind": "person", "column": "id", "max_rows": 4}, True)]
)
def test_a_certificate_says_that_rows_beyond_the_cap_of_a_person_are_in_no_figure(
    unit: dict[str, object], is_told: bool
) -> None:
    words = " ".join(str(line) for _, lines in write_chapters(certificate(unit=unit)) for line in lines)

    assert ("Of the rows of a person at most 4 are counted" in words) == is_told


def test_a_spend_is_called_charged_only_where_a_ledger_was() -> None:
    kept, alone = certificate().words("en"), certificate(ledger_head=None).words("en")

    assert "- epsilon 1/2 for noise in every cell (charged 1/2)" in kept
    assert "- ε = 1/2 for noise in every cell\n" in alone
    assert "charged" not in alone


def test_an_error_is_told_by_four_digits() -> None:
    figures = {"total_standard_deviation": 113.136348, "l2_before_repair": 2828427.1, "block_standard_deviation": 6.77}
    words = " ".join(map(str, describe_error(figures)))

    assert re.findall(r"off by ([0-9.]+)", words) == ["113.1", "2828000", "6.77"]


def test_japanese_certificates_say_what_repeated_releases_do_in_plain_words() -> None:
    folder = Path(sd.__file__).parent / "text" / "ja"
    texts = "".join(file.read_text(encoding="utf-8") for file in folder.glob("*.toml"))

    assert "合成でき" not in texts  # reads as "cannot be synthesised"
    assert "合成も" not in texts
