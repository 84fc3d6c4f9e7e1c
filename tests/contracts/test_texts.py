"""Every text a person may read is translated in every language that is shipped; no translation is left over."""

from __future__ import annotations

import ast
import re
import string
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import jinja2
import jinja2.nodes
import pytest

import sudare
from sudare.methods.microdata import Microdata
from sudare.privacy import Neighbours, Unrecorded
from sudare.sources import base
from sudare.testing import Tabled
from sudare.testing.subject import even_table
from sudare.text import Text, languages

SOURCE = Path(sudare.__file__).parent

# Calls whose argument at these places is a text to be said, besides the errors of errors.py.
SPEAKERS: Mapping[str, tuple[int | str, ...]] = {
    "say": (0,),
    "text": (0,),
}


@dataclass(frozen=True, kw_only=True)
class Template:
    """A template in the source; `values` are the names handed to it, None when they cannot be read there."""

    where: str
    text: str
    values: frozenset[str] | None

    @property
    def placeholders(self) -> frozenset[str]:
        """What the template asks for; a text without values is said as it stands."""
        return placeholders(self.text) if self.values is None or self.values else frozenset()


def placeholders(text: str) -> frozenset[str]:
    """The names in braces.

    >>> sorted(placeholders("{a} of {b:.2f}"))
    ['a', 'b']
    """
    return frozenset(name.split(".")[0].split("[")[0] for _, name, _, _ in string.Formatter().parse(text) if name)


def faults(package: Path) -> list[str]:
    """Everything wrong with the texts of the tree below `package`, one line each."""
    errors = error_names(package)
    trees = {path.relative_to(package).as_posix(): _parsed(path) for path in sorted(package.rglob("*.py"))}
    found = [fault for path, tree in trees.items() for fault in _unreadable(tree, path, errors)]
    constants = {name: text for tree in trees.values() for name, text in _constants(tree)}
    texts = [
        text for path, tree in trees.items() for text in spoken(tree, path, errors, constants | dict(_constants(tree)))
    ]
    pages = list(page_texts(package))
    texts += pages
    literals = {text for tree in trees.values() for text in _literals(tree)} | {text.text for text in pages}
    for folder in shipped(package):
        known = translations(folder)
        found += [*_wrong_texts(texts, folder.name, known), *_wrong_pages(known, literals)]
    return found


def page_texts(package: Path) -> Iterator[Template]:
    """What the templates of pages say with `t("...")`."""
    environment = jinja2.Environment()
    for path in sorted(package.rglob("templates/**/*.html")):
        parsed = environment.parse(path.read_text(encoding="utf-8"))
        for call in parsed.find_all(jinja2.nodes.Call):
            if isinstance(call.node, jinja2.nodes.Name) and call.node.name == "t":
                spoken = call.args[0].as_const() if isinstance(call.args[0], jinja2.nodes.Const) else "not a literal"
                where = f"{path.relative_to(package).as_posix()}:{call.lineno}"
                yield Template(where=where, text=spoken, values=frozenset(word.key for word in call.kwargs))


def error_names(package: Path) -> set[str]:
    """The classes of errors.py."""
    return {node.name for node in ast.walk(_parsed(package / "errors.py")) if isinstance(node, ast.ClassDef)}


def shipped(package: Path) -> list[Path]:
    """The folders of the languages that come with the package."""
    return sorted(about.parent for about in (package / "text").glob("*/language.toml"))


def translations(folder: Path) -> list[tuple[str, str, str]]:
    """(page, English, translation) of every entry of a language."""
    pages = sorted(page for page in folder.glob("*.toml") if page.name != "language.toml")
    entries = ((f"{folder.name}/{page.name}", tomllib.loads(page.read_text(encoding="utf-8"))) for page in pages)
    return [(name, english, translation) for name, texts in entries for english, translation in texts.items()]


def spoken(tree: ast.AST, path: str, errors: set[str], constants: Mapping[str, str]) -> Iterator[Template]:
    """Every template that is raised or said: a literal, or for what is passed on the name of a constant."""
    for call, argument in _arguments(tree, path, errors):
        names = [keyword.arg for keyword in call.keywords]
        is_open = None in names  # **values
        for text in _choices(argument):
            said = text.value if isinstance(text, ast.Constant) else constants.get(_name(text))
            if isinstance(said, str) and said:
                values = None if is_open else frozenset(name for name in names if name)
                yield Template(where=f"{path}:{call.lineno}", text=said, values=values)


def _unreadable(tree: ast.AST, path: str, errors: set[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name) and node.exc.id in errors:
            yield f"{path}:{node.lineno}: {node.exc.id} is raised without a text"
        if isinstance(node, ast.ClassDef) and path != "errors.py" and {_name(base) for base in node.bases} & errors:
            yield f"{path}:{node.lineno}: {node.name} belongs in errors.py, where the tree of errors is drawn"
    for call, argument in _arguments(tree, path, errors):
        for text in _choices(argument):
            is_literal = isinstance(text, ast.Constant) and isinstance(text.value, str)
            is_passed_on = _called(call) in SPEAKERS and isinstance(
                text, ast.Name | ast.Attribute | ast.Call | ast.Subscript
            )
            if not (is_literal or is_passed_on):
                yield f"{path}:{call.lineno}: the text of {_called(call)} must be one literal, values as keywords"


def _arguments(tree: ast.AST, path: str, errors: set[str]) -> Iterator[tuple[ast.Call, ast.expr]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if _called(node) == "text" and not isinstance(node.func, ast.Name):
            continue  # a method of that name: domain.text(value)
        places = SPEAKERS.get(_called(node), (0,) if _called(node) in errors and path != "errors.py" else ())
        by_place = dict(enumerate(node.args)) | {word.arg: word.value for word in node.keywords if word.arg}
        yield from ((node, by_place[place]) for place in places if place in by_place)


def _choices(text: ast.expr) -> list[ast.expr]:
    return [*_choices(text.body), *_choices(text.orelse)] if isinstance(text, ast.IfExp) else [text]


def _wrong_texts(texts: list[Template], code: str, pages: list[tuple[str, str, str]]) -> Iterator[str]:
    known = {english: translation for _, english, translation in pages}
    for text in texts:
        missing = sorted(text.placeholders - text.values) if text.values is not None else []
        if missing:
            yield f"{text.where}: no value is given for {', '.join(missing)}"
        if text.text not in known:
            yield f"{text.where}: not in {code}: {text.text!r}"
        elif text.values != frozenset() and placeholders(known[text.text]) != text.placeholders:
            yield f"{text.where}: {text.text!r} has other placeholders in {code}"


def _wrong_pages(pages: list[tuple[str, str, str]], literals: set[str]) -> Iterator[str]:
    seen: dict[str, str] = {}
    for page, english, translation in pages:
        if english not in literals:
            yield f"{page}: nobody says {english!r}"
        if seen.setdefault(english, translation) != translation:
            yield f"{page}: {english!r} is translated in two ways"
        words = "".join(part for part, *_ in string.Formatter().parse(english) if part) if "{" in english else english
        if translation == english and any(len(word) > 1 for word in re.findall("[a-z]+", words, re.IGNORECASE)):
            yield f"{page}: {english!r} is not translated"


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Module-level names in capitals that stand for a text."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from ((_name(one), node.value.value) for one in node.targets if _name(one).isupper())


def _literals(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _called(node: ast.Call) -> str:
    return _name(node.func)


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_every_text_is_a_literal_with_one_translation_in_every_language_and_none_is_left_over() -> None:
    found = faults(SOURCE)

    assert "ja" in {folder.name for folder in shipped(SOURCE)}
    assert not found, "\n".join(found)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_every_purpose_a_method_spends_on_has_its_japanese(neighbours: Neighbours) -> None:
    purse = Unrecorded(neighbours=neighbours)

    Microdata(epsilon=1).publish(Tabled(even_table()), ledger=purse)

    assert {spend.purpose for spend in purse.entries()} <= set(languages()["ja"].texts)


def test_every_problem_a_source_can_tell_has_its_japanese() -> None:
    problems = {one.template for name, one in vars(base).items() if name.isupper() and isinstance(one, Text)}

    assert len(problems) >= 9
    assert problems <= set(languages()["ja"].texts)


# --- the check itself can fail ------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small package with one translated error and no fault."""
    package = tmp_path / "sudare"
    (package / "text" / "ja").mkdir(parents=True)
    (package / "errors.py").write_text((SOURCE / "errors.py").read_text(encoding="utf-8"), encoding="utf-8")
    (package / "one.py").write_text('raise ParameterError("k ({k}) is small", k=k)', encoding="utf-8")
    (package / "text" / "ja" / "language.toml").write_text('name = "日本語"', encoding="utf-8")
    (package / "text" / "ja" / "one.toml").write_text('"k ({k}) is small" = "k（{k}）が小さいです"', "utf-8")
    return package


def test_a_sound_tree_has_no_fault(tree: Path) -> None:
    assert faults(tree) == []


WRONG_SOURCE = [
    ('raise ParameterError("never translated")', "not in ja"),
    ('say("never said")', "not in ja"),
    ('text.say("never said")', "not in ja"),
    ('@click.option("--k", help=say("never said"))\ndef f(): ...', "not in ja"),
    ('error = DomainError("kept for later")', "not in ja"),
    ('text("never said")', "not in ja"),
    ('text(f"k ({k}) is small")', "one literal"),
    ('ODD = text("an odd row")\nMisfit(attribute="a", problem=ODD, rows=1)', "not in ja"),
    ('ODD = "an odd row"\ntext(ODD)', "not in ja"),
    ('raise ParameterError("never" if x else "neither")', "not in ja"),
    ('raise ParameterError(f"k ({k}) is small")', "one literal"),
    ("raise ParameterError(text)", "one literal"),
    ('raise ParameterError("k (%s)" % k)', "one literal"),
    ('raise errors.SchemaError("a" + b)', "one literal"),
    ('say(f"k ({k}) is small")', "one literal"),
    ("raise BudgetExceeded", "without a text"),
    ("class Mine(ParameterError): ...", "belongs in errors.py"),
    ('raise ParameterError("k ({k}) is small", n=1)', "no value is given"),
]


@pytest.mark.parametrize(("source", "reason"), WRONG_SOURCE)
def test_a_faulty_text_in_the_source_is_found(tree: Path, source: str, reason: str) -> None:
    (tree / "two.py").write_text(source, encoding="utf-8")

    assert any(fault.startswith("two.py") and reason in fault for fault in faults(tree))


WRONG_PAGES = [
    ('"k ({k}) is small" = "k（{n}）が小さいです"', "other placeholders"),
    ('"k ({k}) is small" = "小さいです"', "other placeholders"),
    ('"k ({k}) is small" = "k ({k}) is small"', "not translated"),
    ('"k ({k}) is small" = "k（{k}）が小さいです"\n"old text" = "古い文"', "nobody says"),
]


@pytest.mark.parametrize(("page", "reason"), WRONG_PAGES)
def test_a_faulty_translation_is_found(tree: Path, page: str, reason: str) -> None:
    (tree / "text" / "ja" / "one.toml").write_text(page, encoding="utf-8")

    assert any(reason in fault for fault in faults(tree))


def test_a_text_translated_in_two_ways_is_found(tree: Path) -> None:
    (tree / "text" / "ja" / "two.toml").write_text('"k ({k}) is small" = "k（{k}）は小さい"', encoding="utf-8")

    assert any("two ways" in fault for fault in faults(tree))


def test_a_language_that_is_shipped_half_translated_is_found(tree: Path) -> None:
    (tree / "text" / "de").mkdir()
    (tree / "text" / "de" / "language.toml").write_text('name = "Deutsch"', encoding="utf-8")

    assert [fault for fault in faults(tree) if "not in de" in fault]


def test_a_text_of_a_page_without_translation_is_found(tree: Path) -> None:
    (tree / "templates").mkdir()
    (tree / "templates" / "page.html").write_text('<p>{{ t("k ({k}) is small", k=3) }}{{ t("never said") }}</p>')

    assert faults(tree) == ["templates/page.html:1: not in ja: 'never said'"]
