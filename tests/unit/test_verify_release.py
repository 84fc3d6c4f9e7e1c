"""Forged releases are found: by working them out again where that can be done, and by the signature everywhere.

The forger of these tests knows the format: after a change all hashes and the certificate in words are written anew, so
that nothing but the content itself, or a signature, can give the change away.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sudare as sd
from sudare.app import write_report
from sudare.errors import ReleaseError
from sudare.methods.location.device_file import DeviceFile
from sudare.methods.location.grid import PlaneGrid
from sudare.releases import Certificate, Coded, Frame, consistency
from sudare.releases.claims import CheckedClaim
from sudare.releases.files import CERTIFICATE, CERTIFICATE_PAGES, digest
from sudare.releases.parquet import write_frame
from sudare.text import use_language
from sudare.verify.checks import sign_release, verify_release
from tests.golden.test_seeded_releases import OF_MAPS, OF_TABLES, SEED, SeededRng, Tables

METHODS: dict[str, tuple[Any, str, str]] = {
    "microdata": (sd.Microdata(epsilon=1, by=("sex", "town")), "people", "people.csv"),
    "table": (sd.Table(epsilon=1, by=("sex", "town")), "people", "people.csv"),
    "map": (sd.Table(epsilon=1, by=("mesh",)), "mesh", "mesh.csv"),
    "view": (sd.View(epsilon=1, by=("sex", "town")), "people", "people.csv"),
    "kanon": (sd.KAnonymity(k=5, criteria=("l=2,illness",)), "people", "people.csv"),
}
GRID = PlaneGrid(rows=3, columns=4, cell_height_metres=100, cell_width_metres=100)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return Tables(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def key() -> sd.SigningKey:
    return sd.SigningKey.generate()


@pytest.fixture(scope="module")
def releases(tables: Tables, key: sd.SigningKey, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One signed release of every method, with secret randomness."""
    place = tmp_path_factory.mktemp("releases")
    for name, (method, schema, data) in METHODS.items():
        with tables.open(schema, data) as source:
            method.publish(source).save(place / name, file_format="csv", key=key)
    sd.Location(epsilon_per_metre="0.02", grid=GRID).publish().save(place / "location", file_format="csv", key=key)
    return place


Take = Callable[[str], Path]


@pytest.fixture
def take(releases: Path, tmp_path: Path) -> Take:
    """Give a copy of a release that a test may change."""
    return lambda name: shutil.copytree(releases / name, tmp_path / name)


def failed(claims: list[CheckedClaim]) -> list[str]:
    return [str(claim.name) for claim in claims if not claim.passed]


def read(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / CERTIFICATE).read_text(encoding="utf-8"))
    return found


def forge(directory: Path, entries: dict[str, Any]) -> None:
    """Write a certificate that fits the files as they are now, its pages too."""
    payload = {name: digest(directory / name) for name in entries["payload"] if name not in CERTIFICATE_PAGES}
    certificate = Certificate(**{**entries, "spends": tuple(entries["spends"]), "payload": payload})
    for page, language in CERTIFICATE_PAGES.items():
        (directory / page).write_text(certificate.words(language), encoding="utf-8")
        payload = {**payload, page: digest(directory / page)}
    (directory / CERTIFICATE).write_text(dataclasses.replace(certificate, payload=payload).to_json(), encoding="utf-8")


def verify_both(directory: Path, key: sd.SigningKey) -> tuple[list[str], list[str]]:
    """What fails for a reader with the key of the steward, and what for one of a copy whose signature was removed."""
    signed = failed(verify_release(directory, key=key.public))
    (directory / "signature.json").unlink()
    return signed, failed(verify_release(directory))


# --- what is right passes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*METHODS, "location"])
def test_a_signed_release_has_no_line_that_is_only_stated(name: str, releases: Path, key: sd.SigningKey) -> None:
    claims = verify_release(releases / name, key=key.public)

    assert failed(claims) == []
    assert {claim.basis for claim in claims} == {"recomputed", "signed"}


@pytest.mark.parametrize("name", [*METHODS, "location"])
def test_an_unsigned_release_verifies_and_says_so(name: str, take: Take) -> None:
    place = take(name)
    (place / "signature.json").unlink()
    claims = verify_release(place)

    assert failed(claims) == []
    assert {claim.basis for claim in claims} == {"recomputed", "stated"}
    assert [str(claim.detail) for claim in claims if str(claim.name) == "signature"] == [
        "the release is not signed: for what is only stated, nobody vouches"
    ]


@pytest.mark.parametrize("name", [*OF_TABLES, *OF_MAPS])
def test_releases_of_every_kind_are_worked_out_again(name: str, tables: Tables, tmp_path: Path) -> None:
    if name in OF_MAPS:
        sd.Location(**OF_MAPS[name]).publish().save(tmp_path / "out")
    else:
        method, parameters, schema, data = OF_TABLES[name]
        with tables.open(schema, data) as source:
            method(**parameters).publish(source, rng=SeededRng(SEED)).save(tmp_path / "out", even_if_not_private=True)
    claims = verify_release(tmp_path / "out")

    assert set(failed(claims)) <= {"made with secret randomness"}
    assert {str(claim.name) for claim in claims if claim.basis == "recomputed"} >= {"files", "promise"}


def test_without_a_key_a_signature_is_no_proof(releases: Path, key: sd.SigningKey) -> None:
    claims = verify_release(releases / "microdata")

    assert failed(claims) == []
    assert {claim.basis for claim in claims} == {"recomputed", "stated"}
    assert key.public.fingerprint in str(next(claim for claim in claims if str(claim.name) == "signature").detail)


def test_a_program_is_told_what_every_line_rests_on(releases: Path, key: sd.SigningKey) -> None:
    told = [claim.to_dict() for claim in verify_release(releases / "kanon", key=key.public)]

    assert {entry["name"]: entry["basis"] for entry in told} == {
        "files": "recomputed",
        "certificate": "recomputed",
        "signature": "signed",
        "made with secret randomness": "signed",
        "promise": "recomputed",
        "parameters": "recomputed",
        "class sizes": "recomputed",
        "criterion": "recomputed",
        "labels": "recomputed",
        "mapping": "recomputed",
        "measures": "signed",
        "day and version": "signed",
    }
    json.dumps(told)


def test_in_japanese_too(releases: Path, key: sd.SigningKey) -> None:
    with use_language("ja"):
        shown = [
            f"{claim.name}: {claim.detail}（{claim.describe_basis()}）" for claim in verify_release(releases / "view")
        ]

    assert "署名: 鍵" in shown[2]
    assert shown[2].endswith("（記載のみ）")
    assert any(line.endswith("（再計算）") for line in shown)


# --- the five attacks on the first version ----------------------------------------------------------------------------


def test_swapped_labels_of_a_view_are_found(take: Take, key: sd.SigningKey) -> None:
    entries = read(place := take("view"))
    sex = next(attribute for attribute in entries["schema"]["attributes"] if attribute["name"] == "sex")
    sex["domain"]["values"].reverse()
    forge(place, entries)

    assert verify_both(place, key) == (["signature", "labels of the view"], ["labels of the view"])


def test_a_class_of_one_row_is_found(take: Take, key: sd.SigningKey) -> None:
    place = take("kanon")
    lines = (place / "records.csv").read_text(encoding="utf-8").splitlines()
    alone = next(line for line in lines[1:] if lines.count(line) < 5)
    group = alone.rsplit(",", 1)[0]
    kept = [lines[0], *(line for line in lines[1:] if not line.startswith(group) or line == alone)]
    (place / "records.csv").write_text("\n".join(kept) + "\n", encoding="utf-8")
    forge(place, read(place))
    signed, unsigned = verify_both(place, key)

    assert signed == ["signature", *unsigned]
    assert "class sizes" in unsigned


def test_a_class_with_one_illness_is_found(take: Take, key: sd.SigningKey) -> None:
    place = take("kanon")
    head, *rows = (place / "records.csv").read_text(encoding="utf-8").splitlines()
    group = rows[0].rsplit(",", 1)[0]
    forged = [f"{group},cold" if row.startswith(group + ",") else row for row in rows]
    (place / "records.csv").write_text("\n".join([head, *forged]) + "\n", encoding="utf-8")
    forge(place, read(place))

    assert verify_both(place, key) == (["signature", "criterion"], ["criterion"])


def test_a_raised_beta_in_a_device_file_is_found(take: Take, key: sd.SigningKey) -> None:
    """The forger makes a device file that is whole in itself, and a certificate that names it."""
    place, method = take("location"), sd.Location(epsilon_per_metre="1/2", grid=GRID)
    weak = method.publish()
    loud = method.mechanism()
    device = DeviceFile(
        mechanism=loud,
        epsilon_per_metre=sd.load_device_file(place).epsilon_per_metre,
        tight_epsilon_per_metre=sd.load_device_file(place).tight_epsilon_per_metre,
        repeat=sd.load_device_file(place).repeat,
    )
    device.write(place / "mechanism.json")
    entries = read(place)
    entries["parameters"] |= {"beta_per_metre": str(loud.beta_per_metre), "id": device.identity}
    entries["measures"] = entries["expected_error"] = dict(weak.certificate.measures)
    forge(place, entries)
    signed, unsigned = verify_both(place, key)

    assert signed == ["signature", *unsigned]
    assert unsigned == ["method"]  # the device file is opened, works out its promise anew, and is refused


@pytest.mark.parametrize("name", ["location", "view", "kanon"])
def test_emptied_measures_are_found(name: str, take: Take, key: sd.SigningKey) -> None:
    entries = read(place := take(name))
    forge(place, {**entries, "measures": {}})
    signed, unsigned = verify_both(place, key)

    assert signed == ["signature", *unsigned]
    assert set(unsigned) <= {"measures", "mapping", "method"}
    assert unsigned != []


def _outside(place: Path) -> Path:
    secret = place.parent / "secret.csv"
    secret.write_bytes((place / "records.csv").read_bytes())
    return secret


def _link(place: Path) -> None:
    secret = _outside(place)
    (place / "records.csv").unlink()
    (place / "records.csv").symlink_to(secret)


def _pipe(place: Path) -> None:
    (place / "records.csv").unlink()
    os.mkfifo(place / "records.csv")


def _directory(place: Path) -> None:
    (place / "records.csv").unlink()
    (place / "records.csv").mkdir()


def _rename_payload(name: str, place: Path) -> None:
    entries = read(place)
    entries["payload"] = {name if file == "records.csv" else file: hash for file, hash in entries["payload"].items()}
    (place / CERTIFICATE).write_text(json.dumps(entries), encoding="utf-8")


def _climb(place: Path) -> None:
    _rename_payload(f"../{_outside(place).name}", place)


def _absolute(place: Path) -> None:
    _rename_payload(str(_outside(place)), place)


@pytest.mark.parametrize("attack", [_link, _pipe, _directory, _climb, _absolute])
def test_what_is_no_plain_file_of_the_release_is_refused_and_not_opened(
    attack: Callable[[Path], None], take: Take
) -> None:
    attack(place := take("microdata"))
    for look in (verify_release, sd.Release.load):
        with pytest.raises(
            ReleaseError, match=r"is a link, a pipe or a directory|names a file that is not in the release"
        ):
            look(place)


def test_a_pipe_for_a_certificate_is_refused_and_not_waited_for(take: Take) -> None:
    place = take("microdata")
    (place / CERTIFICATE).unlink()
    os.mkfifo(place / CERTIFICATE)

    with pytest.raises(ReleaseError, match="is not a release"):
        verify_release(place)


# --- other lies -------------------------------------------------------------------------------------------------------


def _raise_epsilon_in_words(entries: dict[str, Any]) -> None:
    entries["guarantee"]["statement"]["en"] = entries["guarantee"]["statement"]["en"].replace(
        "epsilon = 1", "epsilon = 0.1"
    )


def _lower_epsilon(entries: dict[str, Any]) -> None:
    entries["guarantee"]["epsilon"] = "1/10"


def _flatter_the_error(entries: dict[str, Any]) -> None:
    entries["expected_error"]["cell_standard_deviation"] /= 2


def _lose_a_spend(entries: dict[str, Any]) -> None:
    entries["spends"] = entries["spends"][:-1]


def _change_the_relation(entries: dict[str, Any]) -> None:
    entries["neighbours"] = "add-remove"


def _add_a_parameter(entries: dict[str, Any]) -> None:
    entries["parameters"]["audited_by"] = "us"


def _add_to_the_promise(entries: dict[str, Any]) -> None:
    entries["guarantee"]["delta"] = "0"


def _drop_a_value(entries: dict[str, Any]) -> None:
    entries["schema"]["attributes"][-1]["domain"]["values"].pop()
    entries["schema"]["attributes"][-1].pop("hierarchy", None)


LIES: dict[Callable[[dict[str, Any]], None], set[str]] = {
    _raise_epsilon_in_words: {"promise"},
    _lower_epsilon: {"promise"},
    _flatter_the_error: {"expected error"},
    _lose_a_spend: {"spends"},
    _change_the_relation: {"promise"},
    _add_a_parameter: {"parameters"},
    _add_to_the_promise: {"promise"},
    _drop_a_value: {"labels", "expected error"},
}


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_a_certificate_that_does_not_follow_from_itself_is_found(
    lie: Callable[[dict[str, Any]], None], take: Take, key: sd.SigningKey
) -> None:
    entries = read(place := take("microdata"))
    lie(entries)
    forge(place, entries)
    signed, unsigned = verify_both(place, key)

    assert signed == ["signature", *unsigned]
    assert LIES[lie] & set(unsigned)


def _edit(file: Path, old: str, new: str) -> None:
    content = file.read_text(encoding="utf-8")
    assert old in content
    file.write_text(content.replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "file", "old", "new", "found"),
    [
        ("microdata", "records.csv", "\nF,", "\nX,", "labels"),
        ("table", "cells.csv", "\nF,", "\nX,", "labels"),
        ("kanon", "records.csv", "cold", "warm", "labels"),
        ("map", "map.geojson", '"count":', '"count":1', "maps"),
        ("map", "map.geojson", '"margin":', '"margin":1', "maps"),
        ("map", "map.geojson", '"unbiased":', '"unbiased":1000000, "other":', "maps"),
    ],
)
def test_a_changed_value_is_found(
    name: str, file: str, old: str, new: str, found: str, take: Take, key: sd.SigningKey
) -> None:
    place = take(name)
    _edit(place / file, old, new)
    forge(place, read(place))
    signed, unsigned = verify_both(place, key)

    assert signed == ["signature", *unsigned]
    assert found in unsigned


@pytest.mark.parametrize("file", ["cells.csv", "rollups.csv"])
def test_sums_that_do_not_add_up_are_found(file: str, take: Take, key: sd.SigningKey) -> None:
    place = take("table")
    head, first, *rows = (place / file).read_text(encoding="utf-8").splitlines()
    label, count, unbiased, margin = first.rsplit(",", 3)
    changed = f"{label},{int(count) + 1},{unbiased},{margin}"
    (place / file).write_text("\n".join([head, changed, *rows]) + "\n", encoding="utf-8")
    forge(place, read(place))
    found = ["margins of error", "sums of groups"] if file == "cells.csv" else ["sums of groups"]

    assert verify_both(place, key) == (["signature", *found], found)


def test_a_margin_or_a_noisy_sum_that_was_changed_is_found(take: Take, key: sd.SigningKey) -> None:
    place = take("table")
    *rows, last = (place / "measurements.csv").read_text(encoding="utf-8").splitlines()
    level, node, noisy = last.split(",")
    changed = "\n".join([*rows, f"{level},{node},{int(noisy) + 40}"]) + "\n"
    (place / "measurements.csv").write_text(changed, encoding="utf-8")
    forge(place, read(place))
    _, unsigned = verify_both(place, key)

    assert "margins of error" in unsigned


def test_a_count_of_a_view_that_is_not_that_of_its_model_is_found(take: Take, key: sd.SigningKey) -> None:
    place = take("view")
    head, first, *rows = (place / "pairs.csv").read_text(encoding="utf-8").splitlines()
    label, count = first.rsplit(",", 1)
    forged = "\n".join([head, f"{label},{float(count) + 1}", *rows]) + "\n"
    (place / "pairs.csv").write_text(forged, encoding="utf-8")
    forge(place, read(place))

    assert verify_both(place, key) == (["signature", "counts of the view"], ["counts of the view"])


def test_what_cannot_be_worked_out_again_is_found_by_the_signature(take: Take, key: sd.SigningKey) -> None:
    """A day, and a version: for a reader without the key they are only stated, and that is said."""
    entries = read(place := take("microdata"))
    forge(place, {**entries, "created": "2020-01-01"})

    assert verify_both(place, key) == (["signature"], [])


def test_a_release_that_another_signs_anew_is_found(take: Take, key: sd.SigningKey) -> None:
    place = take("microdata")
    forge(place, {**read(place), "created": "2020-01-01"})
    (place / "signature.json").unlink()
    sign_release(place, sd.SigningKey.generate())

    assert failed(verify_release(place, key=key.public)) == ["signature"]
    assert failed(verify_release(place)) == []


# --- certificates that are none -------------------------------------------------------------------------------------


def test_an_unknown_entry_fails_closed_and_says_what_to_do(take: Take) -> None:
    place = take("microdata")
    (place / CERTIFICATE).write_text(json.dumps({**read(place), "audited": True}), encoding="utf-8")

    with pytest.raises(
        ReleaseError, match=r"does not know \(audited\), so nothing of it is believed; use a newer Sudare"
    ):
        verify_release(place)


@pytest.mark.parametrize(
    "content",
    ["[" * 100_000, '{"a":' * 100_000, "{}", "[]", "null", '{"format": 1, "format": 1}', "\0", "9" * 5_000],
    ids=["lists", "objects", "empty", "list", "null", "twice", "zero", "digits"],
)
def test_whatever_is_no_certificate_is_refused_in_one_line(content: str, take: Take) -> None:
    place = take("microdata")
    (place / CERTIFICATE).write_text(content, encoding="utf-8")

    with pytest.raises(ReleaseError, match=r"certificate\.json"):
        verify_release(place)


def _nest(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = {"deeper": value}
    return value


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("measures", _nest({}, 60)),
        ("parameters", {"epsilon": 1}),
        ("payload", {"records.csv": None}),
        ("created", 5),
        ("spends", [5]),
        ("neighbours", None),
    ],
)
def test_entries_of_the_wrong_kind_are_refused(entry: str, value: Any, take: Take) -> None:
    place = take("microdata")
    (place / CERTIFICATE).write_text(json.dumps({**read(place), entry: value}), encoding="utf-8")

    with pytest.raises(ReleaseError, match=r"certificate\.json"):
        verify_release(place)


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("schema", {}),
        ("schema", {"attributes": [{"name": ["sex"]}]}),
        ("guarantee", {}),
        ("parameters", {}),
        ("parameters", {"epsilon": "nan", "neighbours": "replace"}),
        ("parameters", {"epsilon": "1/0"}),
        ("spends", [{}]),
        ("spends", [{"purpose": "noise", "epsilon": "1/0"}]),
        ("spends", [{"purpose": "noise", "epsilon": "1e999999999"}]),
        ("parameters", {"epsilon": "1e999999999"}),
        ("method", "histogram"),
        ("method", "kanon"),
        ("method", "location"),
        ("unit", {"kind": "family"}),
    ],
)
def test_a_certificate_that_says_what_cannot_be_fails_and_is_no_fault(entry: str, value: Any, take: Take) -> None:
    place = take("microdata")
    (place / "signature.json").unlink()
    (place / CERTIFICATE).write_text(json.dumps({**read(place), entry: value}), encoding="utf-8")

    assert failed(verify_release(place)) != []


# --- what is read at all ----------------------------------------------------------------------------------------------

READ_LIES = set(LIES) - {_flatter_the_error, _add_a_parameter, _drop_a_value}  # these take the plan to be found


@pytest.mark.parametrize(
    ("name", "lie"),
    [(name, lie) for lie in LIES for name in ("microdata", "table", "view") if name == "microdata" or lie in READ_LIES],
    ids=lambda given: getattr(given, "__name__", given),
)
def test_a_release_is_not_read_whose_certificate_contradicts_itself_or_its_signature(
    name: str, lie: Callable[[dict[str, Any]], None], take: Take
) -> None:
    entries = read(place := take(name))
    lie(entries)
    forge(place, entries)

    with pytest.raises(ReleaseError, match="changed after it was signed"):
        sd.Release.load(place)
    (place / "signature.json").unlink()
    if lie not in READ_LIES:
        assert sd.Release.load(place).certificate.method == name
        return
    with pytest.raises(ReleaseError, match="contradicts itself"):
        sd.Release.load(place)


def test_a_promise_whose_figures_agree_in_a_smaller_epsilon_is_held_against_what_was_spent(take: Take) -> None:
    entries = read(place := take("microdata"))
    entries["guarantee"] = sd.Guarantee(epsilon="1/10", neighbours="replace", unit=sd.Unit()).to_dict()
    entries["parameters"]["epsilon"] = "1/10"
    forge(place, entries)
    (place / "signature.json").unlink()

    with pytest.raises(ReleaseError, match="the spends do not add up to the promise"):
        sd.Release.load(place)


def test_a_report_shows_no_error_that_does_not_follow_from_the_promise(take: Take, tmp_path: Path) -> None:
    entries = read(place := take("microdata"))
    _flatter_the_error(entries)
    forge(place, entries)
    (place / "signature.json").unlink()

    with pytest.raises(ReleaseError, match="expected error: these figures are not those"):
        write_report(place, tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("memory", "message"),
    [(10**5, "unpacks to 5000 rows, some 1 GB, and this machine reads up to 0 GB"), (10**12, "has 2 cells")],
)
def test_a_table_that_unpacks_to_more_than_it_can_hold_is_not_read(
    memory: int, message: str, tables: Tables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "table"
    with tables.open("people", "people.csv") as source:
        sd.Table(epsilon=1, by=("sex",), algorithm="tree").publish(source).save(place)
    many = Frame({"sex": Coded(np.zeros(5000, dtype=np.int64), np.array(["f"], dtype=object)), "count": np.ones(5000)})
    write_frame(many, place / "cells.parquet", file_format="parquet")
    forge(place, read(place))
    monkeypatch.setattr(consistency, "find_memory", lambda: memory)

    with pytest.raises(ReleaseError, match=message):
        sd.Release.load(place)
