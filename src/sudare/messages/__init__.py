"""What Sudare says, in the language of the one who reads it.

The English text is the key; `messages/ja/*.toml` hold the Japanese. A text without translation is said in English,
and a test fails for it.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import os
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources

_SPOKEN: contextvars.ContextVar[str | None] = contextvars.ContextVar("spoken", default=None)


def language() -> str:
    """Tell which language to speak: SUDARE_LANG, else the locale; 'ja' or 'en'.

    >>> language() in ("en", "ja")
    True
    """
    if (spoken := _SPOKEN.get()) is not None:
        return spoken
    for variable in ("SUDARE_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        chosen = os.environ.get(variable)
        if chosen:
            return "ja" if chosen.lower().startswith("ja") else "en"
    return "en"


@contextlib.contextmanager
def speaking(lang: str) -> Iterator[None]:
    """Speak one language for a while, whatever the reader's is: a page may be written in both.

    >>> with speaking("ja"):
    ...     language()
    'ja'
    """
    before = _SPOKEN.set(lang)
    try:
        yield
    finally:
        _SPOKEN.reset(before)


def say(text: str, /, *, lang: str | None = None, **values: object) -> str:
    """Render a template in the reader's language.

    >>> say("k ({k}) must be at least 2", lang="en", k=1)
    'k (1) must be at least 2'
    """
    return render(text, values, lang=lang)


def render(text: str, values: Mapping[str, object], *, lang: str | None = None) -> str:
    """Render a template whose values come as one thing, as those of an error do.

    >>> render("{n} rows", {"n": 3}, lang="en")
    '3 rows'
    """
    if (lang or language()) == "ja":
        text = catalogue().get(text, text)
    return text.format(**values) if values else text


class Inside:
    """An error's text inside the line of another one. A translated line asks for it in its own language: {problem:ja}.

    >>> "{problem}".format(problem=Inside("{n} rows", {"n": 3}))
    '3 rows'
    """

    def __init__(self, text: str, values: Mapping[str, object]) -> None:
        self.text = text
        self.values = values

    def __format__(self, lang: str) -> str:
        return render(self.text, self.values, lang=lang or "en")


@functools.cache
def catalogue() -> dict[str, str]:
    """Read the Japanese texts, keyed by the English ones."""
    texts: dict[str, str] = {}
    for page in sorted(resources.files(__name__).joinpath("ja").iterdir(), key=lambda page: page.name):
        if page.name.endswith(".toml"):
            texts.update(tomllib.loads(page.read_text(encoding="utf-8")))
    return texts
