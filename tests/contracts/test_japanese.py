"""No English stands inside Japanese: certificates, previews, pages and translations hold no words but names.

A name is what is written alike in every language: a column and its values, a parameter and its choices, a command, a
file, a package, a unit. Everything else in Latin letters is a sentence that somebody forgot.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import sudare as sd
from sudare.app import render_report
from sudare.methods.registry import find_method, method_entries
from sudare.noise import SeededRng
from sudare.releases import Release
from sudare.text import Text, languages, use_language
from sudare.verify.checks import verify_release
from tests.golden.test_seeded_releases import OF_MAPS, OF_TABLES, SEED, Tables

WORD = re.compile(r"[A-Za-z][A-Za-z_-]*[A-Za-z]")
NAMES = {"sudare", "exp", "log", "sha", "SHA", "RMSE", "head", "L", "certificate", "md", "ja", "json", "sql", "SQL"}
SENTENCE = re.compile(  # words that no name has, and hardly an English sentence does without
    r"(?<![\w-])(the|of|is|are|an|and|or|not|was|were|than|that|this|must|cannot|its|has|have|with|which|only|no|least)(?![\w-])"
)
CRITERIA = ("l=2,illness", "entropy-l=1.1,illness", "recursive-l=2,c=9,illness", "t=0.9,illness")
RELEASES: dict[str, tuple[type, dict[str, Any], str, str]] = {
    **{
        name: OF_TABLES[name]
        for name in (
            "microdata",
            "microdata-inside",
            "table-cells",
            "table-squares",
            "table-wavelet",
            "view",
            "view-mondrian",
            "kanon",
        )
    },
    "persons": (sd.Microdata, {"epsilon": 1, "neighbours": "add-remove"}, "persons", "people.csv"),
    "criteria": (sd.KAnonymity, {"k": 5, "max_suppressed": "0.1", "criteria": CRITERIA}, "persons", "people.csv"),
}


def words(shown: str) -> set[str]:
    """Everything in Latin letters but single ones and digests."""
    return set(WORD.findall(re.sub("[0-9a-f]{64}", "", shown)))


def names_in(facts: object) -> set[str]:
    """Every word that public facts hold: names of attributes and values, parameters, files, versions."""
    return words(json.dumps(facts, ensure_ascii=False, default=str))


def public_names(release: Release) -> set[str]:
    """What may stand in Latin letters in the words about a release."""
    certificate = release.certificate
    facts = (certificate.schema, certificate.parameters, certificate.versions, certificate.unit, certificate.method)
    files = (*certificate.payload, *release.frames, *release.files, certificate.neighbours, certificate.created)
    return NAMES | names_in(facts) | names_in(files) | words(str(certificate.ledger_head))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """The made-up tables of the golden releases."""
    return Tables(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module", params=[*RELEASES, "location", "location-roads"])
def stored(request: pytest.FixtureRequest, tables: Tables, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small release of every method and of its variants that say other things."""
    out = tmp_path_factory.mktemp("releases") / "out"
    if request.param in OF_MAPS:
        sd.Location(**OF_MAPS[request.param]).publish().save(out)
        return out
    method, parameters, schema, data = RELEASES[request.param]
    with tables.open(schema, data) as source:
        method(**parameters).publish(source, rng=SeededRng(SEED)).save(out, even_if_not_private=True)
    return out


@pytest.fixture(scope="module")
def release(stored: Path) -> Release:
    """The same, read back."""
    return Release.load(stored)


def test_a_japanese_certificate_holds_no_english(stored: Path, release: Release) -> None:
    shown = (stored / "certificate.ja.md").read_text(encoding="utf-8")

    assert words(shown) - public_names(release) == set()
    assert words(str(release.certificate.guarantee["statement"]["ja"])) - public_names(release) == set()


def test_a_japanese_page_holds_no_english(stored: Path, release: Release) -> None:
    with use_language("ja"):
        page = render_report(release, stored)
    body = re.sub(r"<style>.*?</style>|<[^>]*>", "\n", page, flags=re.DOTALL)

    assert words(html.unescape(body)) - public_names(release) - {"Sudare", stored.name} == set()


def test_checks_of_a_release_hold_no_english(stored: Path, release: Release) -> None:
    checks = verify_release(stored)
    shown = "\n".join(f"{check.name.render('ja')}: {check.detail.render('ja')}" for check in checks)

    assert words(shown) - public_names(release) == set()


@pytest.mark.parametrize("name", RELEASES)
def test_a_japanese_preview_holds_no_english(name: str, tables: Tables) -> None:
    kind, parameters, file, _ = RELEASES[name]
    method, schema = kind(**parameters), sd.Schema.read(tables.folder / f"{file}.toml")
    rows = {"": (), "number": 1000, "range": (1000,)}[kind.preview_rows]
    with use_language("ja"):
        found = method.preview(schema, **({"rows": rows} if rows else {}))
        shown = "\n".join(map(str, [method.promise(schema).describe(), *method.explain(found)]))

    assert words(bare(shown)) - names_in((schema.to_dict(), parameters)) - NAMES == set()


# --- translations -------------------------------------------------------------------------------------------------


def bare(translation: str) -> str:
    """A translation without what is written alike everywhere: code, quoted values, placeholders."""
    return re.sub(r"`[^`]*`|\{[^{}]*\}|\"[^\"]*\"|'[^']*'|--[a-z-]+", " ", translation)


def test_no_translation_holds_a_piece_of_an_english_sentence() -> None:
    found = {key: words for key, words in languages()["ja"].texts.items() if SENTENCE.search(bare(words))}

    assert found == {}


def test_a_name_in_a_translation_stands_in_the_english_too() -> None:
    odd = {
        key: sorted(extra)
        for key, translation in languages()["ja"].texts.items()
        if (extra := _names(bare(translation.replace(".ja.md", ".md"))) - words(key) - ALIKE)
    }

    assert odd == {}


ALIKE = {  # choices that the English describes and the Japanese names, a key of the keyboard, letters of formulas
    *("head", "Enter", "Schema", "Sudare", "log", "presence", "replace", "add-remove", "trusted", "devices"),
    *(
        "strict",
        "relaxed",
        "clamp",
        "left",
        "right",
        "tree",
        "wavelet",
        "cells",
        "regions",
        "both",
        "epsilon",
        "noise",
        "error",
    ),
}


def _names(shown: str) -> set[str]:
    return {word for word in words(shown) if not word.isupper()}


# --- the check itself can fail ------------------------------------------------------------------------------------


@pytest.mark.parametrize("planted", ["distinct l = 2 of disease", "k は at least 5", "the table です"])
def test_an_english_piece_in_a_translation_is_found(planted: str) -> None:
    assert SENTENCE.search(bare(planted))


def test_an_english_value_in_japanese_words_is_found() -> None:
    line = Text("Every such class also keeps: {criteria}.", {"criteria": "distinct l = 2 of disease"}).render("ja")

    assert words(line) - NAMES == {"distinct", "of", "disease"}


def test_every_built_in_method_is_looked_at() -> None:
    looked: Iterable[type] = {*(kind for kind, *_ in RELEASES.values()), sd.Location}

    assert {find_method(name) for name in method_entries()} <= set(looked)
