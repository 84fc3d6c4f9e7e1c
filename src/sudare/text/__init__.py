"""Texts for people: a text is a value, rendered when it is shown, in the language of whoever looks.

    text("k ({k}) must be at least 2", k=1)     a Text: may be stored, returned, raised, put inside another text
    str(that), f"{that}", that.render("ja")     words: in the current language, or in the one that is named
    say("...", **values)                        words at once, at an edge that prints them

The current language is decided at the moment of rendering: that of `with use_language("ja")`, which holds for its own
thread or asyncio task, else SUDARE_LANG, else the locale.

English templates are the keys; a language is a folder of TOML files (`text/ja/`) of English = translation, with a
`language.toml` that holds its own name. A folder elsewhere is added with `add_language("de", folder)`, or by naming it
in SUDARE_TEXTS; its name is then the code. A text without translation is shown in English.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import locale
import os
import re
import string
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

__all__ = [
    "Language",
    "Readable",
    "StoredText",
    "Text",
    "Words",
    "add_language",
    "current_language",
    "describe_refusal",
    "find_language",
    "join",
    "join_clauses",
    "join_items",
    "join_sentences",
    "language_problems",
    "languages",
    "missing_texts",
    "say",
    "text",
    "use_language",
]

ENGLISH = "en"
ABOUT = "language.toml"
MARKS = ("between_sentences", "between_clauses", "between_items")
FOLDERS = "SUDARE_TEXTS"
VARIABLES = ("SUDARE_LANG", "LC_ALL", "LC_MESSAGES", "LANG")  # the first that is set decides


# --- texts --------------------------------------------------------------------------------------------------------


class Readable:
    """What is read in some language: a text, or an error that carries one. Inside a text it takes the text's."""

    __slots__ = ()

    def render(self, language: str | None = None) -> str:
        """Give the words in a language; in the current one if none is named."""
        raise NotImplementedError


Words: TypeAlias = Readable | str  # what an edge shows: rendered with str()


class Text(Readable):
    """A template in English and its values; the words come when it is rendered.

    Values are formatted as `str.format` does; a value that is a Text or an error is rendered in the same language. A
    text without values is shown as it stands, braces and all. Two texts are equal if template and values are.

    >>> size = Text("{n} rows", {"n": 3})
    >>> str(Text("{file}: {problem}", {"file": "a.csv", "problem": size}))
    'a.csv: 3 rows'
    """

    __slots__ = ("_template", "_values")
    _template: str
    _values: Mapping[str, object]

    def __init__(self, template: str, values: Mapping[str, object] | None = None) -> None:
        object.__setattr__(self, "_template", template)
        object.__setattr__(self, "_values", MappingProxyType(dict(values or {})))

    @property
    def template(self) -> str:
        """The English template: the key of its translations."""
        return self._template

    @property
    def values(self) -> Mapping[str, object]:
        """What fills the template, by name."""
        return self._values

    def render(self, language: str | None = None) -> str:
        """Give the words in a language; in the current one if none is named.

        >>> Text("a row").render("en")
        'a row'
        """
        return _fill(self._template, self._values, _chosen(language))

    def __str__(self) -> str:
        return self.render()

    def __format__(self, spec: str) -> str:
        return format(self.render(), spec)

    def __repr__(self) -> str:
        values = "".join(f", {name}={value!r}" for name, value in self._values.items())
        return f"text({self._template!r}{values})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Text):
            return NotImplemented
        return self._template == other._template and self._values == other._values

    def __hash__(self) -> int:
        return hash(self._template)

    def __bool__(self) -> bool:
        return bool(self._template)

    def __add__(self, other: Text | str) -> Text:
        return _join((self, other), "")

    def __radd__(self, other: str) -> Text:
        return _join((other, self), "")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a text cannot be changed ({name})")

    def __reduce__(self) -> tuple[Any, ...]:
        return Text, (self._template, dict(self._values))


def text(template: str, /, **values: object) -> Text:
    """Make a text that is stored, returned or put inside another one.

    >>> text("k ({k}) must be at least 2", k=1).render("en")
    'k (1) must be at least 2'
    """
    return Text(template, values)


def say(template: str, /, **values: object) -> str:
    """Give words at once, in the current language, where they are printed and not kept.

    >>> say("{n} rows", n=3)
    '3 rows'
    """
    return Text(template, values).render()


def join_sentences(parts: Iterable[Words]) -> Text:
    """Put whole sentences one after the other, with the space that the language has between them.

    >>> join_sentences(["One.", "Two."]).render("en")
    'One. Two.'
    """
    return _join(parts, _Mark("between_sentences"))


def join_clauses(parts: Iterable[Words]) -> Text:
    """Put parts of a line one after the other, with the mark that the language has between them.

    >>> join_clauses(["one", "two"]).render("en")
    'one; two'
    """
    return _join(parts, _Mark("between_clauses"))


def join_items(parts: Iterable[Words]) -> Text:
    """List things in words, with the mark that the language has between them.

    >>> join_items(["one", "two"]).render("en")
    'one, two'
    """
    return _join(parts, _Mark("between_items"))


def join(parts: Iterable[Words], mark: Words) -> Text:
    """Put texts one after the other with a mark between them; a mark that is a text is translated too.

    >>> join(["one", "two"], "; ").render("en")
    'one; two'
    """
    return _join(parts, mark)


@dataclass(frozen=True, slots=True)
class StoredText(Readable):
    """Words that were stored in several languages, by code: the statement in a certificate. English for others.

    >>> StoredText({"en": "a row", "ja": "1 行"}).render("ja")
    '1 行'
    """

    words: Mapping[str, str]

    def render(self, language: str | None = None) -> str:
        """Give the words in a language; in the current one if none is named."""
        return self.words.get(_chosen(language).code) or self.words.get(ENGLISH, "")

    def __str__(self) -> str:
        return self.render()


@dataclass(frozen=True, slots=True)
class _Mark(Readable):
    """A mark that each language writes its own way."""

    name: Literal["between_sentences", "between_clauses", "between_items"]

    def render(self, language: str | None = None) -> str:
        return str(getattr(_chosen(language), self.name))


def _join(parts: Iterable[Words], mark: Words) -> Text:
    """A text whose template has no words of its own, so that it needs no translation."""
    values: dict[str, object] = {f"part{number}": part for number, part in enumerate(parts)}
    return Text("{mark}".join(f"{{{name}}}" for name in values), {**values, "mark": mark} if values else {})


def _fill(template: str, values: Mapping[str, object], language: Language) -> str:
    """Fill the translation; the English template if the translation cannot be filled, so that a line is always told."""
    translation = language.translate(template)
    if not values:
        return translation
    shown = {
        name: value.render(language.code) if isinstance(value, Readable) else value for name, value in values.items()
    }
    try:
        return translation.format(**shown)
    except (LookupError, ValueError, AttributeError, TypeError):
        if translation == template:
            raise
        return template.format(**shown)


SYSTEM_REASONS = (  # what the system says most often when it refuses a file; others are shown in its own words
    "No such file or directory",
    "Permission denied",
    "Operation not permitted",
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
    "Read-only file system",
    "Is a directory",
    "Not a directory",
    "Directory not empty",
    "File exists",
    "File name too long",
    "Too many levels of symbolic links",
    "Too many open files",
    "Input/output error",
    "Stale file handle",
    "Device or resource busy",
    "Interrupted system call",
    "Cannot allocate memory",
)


def describe_refusal(error: OSError) -> Text:
    """Say why the system refused a file.

    >>> str(describe_refusal(PermissionError(13, "Permission denied", "private.csv")))
    'Permission denied'
    """
    return Text(os.strerror(error.errno) if error.errno else type(error).__name__)


# --- the current language -----------------------------------------------------------------------------------------

_CURRENT: contextvars.ContextVar[str | None] = contextvars.ContextVar("sudare_language", default=None)


def current_language() -> str:
    """Tell the code of the language in which a text is shown now.

    >>> with use_language("ja"):
    ...     current_language()
    'ja'
    """
    return _chosen(None).code


@contextlib.contextmanager
def use_language(code: str) -> Iterator[None]:
    """Show texts in one language, in this thread or asyncio task alone; in English if it is not known.

    >>> with use_language("ja"):
    ...     with use_language("en-GB"):
    ...         current_language()
    'en'
    """
    before = _CURRENT.set(code)
    try:
        yield
    finally:
        _CURRENT.reset(before)


def find_language(wanted: str) -> Language:
    """Find the language for a code, a tag or the name of a locale; English if there is none.

    >>> [find_language(name).code for name in ("ja", "ja-JP", "ja_JP.UTF-8", "Japanese_Japan.932", "C", "tlh")]
    ['ja', 'ja', 'ja', 'ja', 'en', 'en']
    """
    known, tag = languages(), _tag(wanted)
    parts = tag.split("-")
    for length in range(len(parts), 0, -1):
        if (shorter := "-".join(parts[:length])) in known:
            return known[shorter]
    spelt_out = _tag(locale.normalize(parts[0])).split("-")[0]  # "japanese": so Windows calls its locales
    return known.get(spelt_out, known[ENGLISH])


def _chosen(language: str | None) -> Language:
    return find_language(language or _CURRENT.get() or _of_environment())


def _of_environment() -> str:
    chosen = next((os.environ[name] for name in VARIABLES if os.environ.get(name)), None)
    return chosen or _windows_locale() or ENGLISH


def _windows_locale() -> str | None:
    """Ask for the locale where no variable tells it."""
    return locale.getlocale()[0] if sys.platform == "win32" else None


def _tag(name: str) -> str:
    return name.partition(".")[0].partition("@")[0].replace("_", "-").strip().lower()


# --- languages ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Language:
    """A language: its code, its own name, its marks and its texts, keyed by the English ones.

    >>> languages()["ja"].name
    '日本語'
    """

    code: str
    name: str
    between_sentences: str = " "
    between_clauses: str = "; "
    between_items: str = ", "
    folder: Traversable | None = None
    base: Language | None = field(default=None, repr=False)  # the language of the same code that this one adds to

    @functools.cached_property
    def texts(self) -> Mapping[str, str]:
        """The translations, read when the first one is needed."""
        own = {} if self.folder is None else _read_texts(self.folder)
        return own if self.base is None else {**self.base.texts, **own}

    def translate(self, template: str) -> str:
        """Give the translation of a template; the template itself where there is none.

        >>> languages()["en"].translate("{n} rows")
        '{n} rows'
        """
        return self.texts.get(template, template)


_ADDED: dict[str, Language] = {}


def languages() -> dict[str, Language]:
    """List the languages that are known, by code: the built-in ones, those of SUDARE_TEXTS, those that were added.

    >>> {"en", "ja"} <= set(languages())
    True
    """
    return {**_built_in(), **_from_environment(os.environ.get(FOLDERS, ""))[0], **_ADDED}


def add_language(code: str, folder: str | os.PathLike[str]) -> Language:
    """Add the language of a folder; for a code that is known, its texts replace the known ones, one by one.

    Error: ValueError if the folder holds no language; it tells the file and what to write.
    """
    code = _tag(code)
    added = _ADDED[code] = _read_language(code, Path(folder), languages().get(code))
    return added


def language_problems() -> list[ValueError]:
    """Tell which folders of SUDARE_TEXTS could not be used, and why; texts are shown without them.

    >>> language_problems()
    []
    """
    return _from_environment(os.environ.get(FOLDERS, ""))[1]


def missing_texts(code: str) -> list[str]:
    """List the English texts that a language does not translate yet, for whoever translates.

    >>> missing_texts("ja")
    []
    """
    return [template for template in _built_in()["ja"].texts if template not in languages()[code].texts]


# --- folders ------------------------------------------------------------------------------------------------------


@functools.cache
def _built_in() -> dict[str, Language]:
    folders = sorted(resources.files("sudare.text").iterdir(), key=lambda one: one.name)
    found = {one.name: _describe(one.name, one, None) for one in folders if one.joinpath(ABOUT).is_file()}
    return {ENGLISH: Language(code=ENGLISH, name="English"), **found}


@functools.lru_cache(maxsize=8)
def _from_environment(folders: str) -> tuple[dict[str, Language], list[ValueError]]:
    """Read the folders of SUDARE_TEXTS once; one that holds no language is told of, and left out."""
    found: dict[str, Language] = {}
    problems: list[ValueError] = []
    for folder in filter(None, folders.split(os.pathsep)):
        code = _tag(Path(folder).resolve().name)
        try:
            found[code] = _read_language(code, Path(folder), found.get(code) or _built_in().get(code))
        except ValueError as problem:
            problems.append(problem)
    return found, problems


def _read_language(code: str, folder: Path, base: Language | None) -> Language:
    """Read a folder that is not ours: all of it now, so that whoever adds it hears what is wrong."""
    if not code.replace("-", "").isalnum():
        raise ValueError(text("{code} is no code of a language; take one such as de or zh-tw", code=code))
    described = _describe(code, folder, base)
    for template, translation in _read_texts(folder).items():
        if odd := _placeholders(translation) - _placeholders(template):
            raise ValueError(
                text(
                    "{folder}: the translation of {template} asks for {odd}, which is not given to it",
                    folder=folder,
                    template=template,
                    odd=", ".join(sorted(odd)),
                )
            )
    return described


def _describe(code: str, folder: Traversable, base: Language | None) -> Language:
    about = folder.joinpath(ABOUT)
    if not about.is_file():
        raise ValueError(text('{file} is missing; write there the name of the language: name = "Deutsch"', file=about))
    marks = _read_toml(about)
    odd = set(marks) - {"name", *MARKS}
    if odd or "name" not in marks:
        raise ValueError(
            text(
                "{file} must hold name and, where they differ, {marks}, and nothing else",
                file=about,
                marks=", ".join(MARKS),
            )
        )
    return Language(code=code, folder=folder, base=base, **marks)


def _read_texts(folder: Traversable) -> dict[str, str]:
    texts: dict[str, str] = {}
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        if file.name.endswith(".toml") and file.name != ABOUT:
            texts |= _read_toml(file)
    return texts


def _read_toml(file: Traversable) -> dict[str, str]:
    try:
        entries: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        if place := re.search(r"at line (\d+), column", str(error)):
            raise ValueError(text("{file}, line {line}: not TOML; correct it", file=file, line=place[1])) from None
        raise ValueError(text("{file} is not whole TOML in UTF-8; correct it", file=file)) from None
    odd = [key for key, value in entries.items() if not isinstance(value, str)]
    if odd:
        raise ValueError(
            text('{file}: {key} must be a text; write it like: "English" = "translation"', file=file, key=odd[0])
        )
    return entries


def _placeholders(template: str) -> frozenset[str]:
    """The names in braces; none where braces are no placeholders.

    >>> sorted(_placeholders("{a} of {b:.2f}")), sorted(_placeholders("{odd"))
    (['a', 'b'], [])
    """
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError:
        return frozenset()
    names = (name.split(".")[0].split("[")[0] for _, name, _, _ in parts if name)
    return frozenset(name for name in names if name.isidentifier())
