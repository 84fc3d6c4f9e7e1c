"""What is wrong with a text that is not TOML, in words of an author who never read its grammar.

tomllib says "Invalid value (at line 3, column 8)", in English. Here the place where the walk stopped, and the text
around it, tell the usual slips apart: a word without quotes, a bracket left open, full-width marks, the backslashes of
Windows, a colon as in YAML, a fraction, a key in Japanese.
"""

from __future__ import annotations

import re
import unicodedata

from sudare.forms.form import FileForm
from sudare.forms.kinds import find_near, quote
from sudare.forms.mistake import Mistake
from sudare.forms.toml import MOST_PARTS, KeyPlaces, SyntaxStop, is_scalar
from sudare.text import Text, text

MOST_WORD = 30  # characters of the file that are repeated in a message
_WORD = re.compile(r"[^\s,\[\]{}#=]+")
_REST = re.compile(r"[^\n#]*")
_DAY = re.compile(r"[0-9]{4}[-/][0-9]{1,2}[-/][0-9]{1,2}")
_LONG_NUMBER = re.compile(r"[0-9_]{1000,}|[eE][+-]?[0-9_]{15,}")
_ODD = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")  # what TOML allows nowhere
_BAD_ESCAPE = re.compile(
    r'"(?:[^"\\]|\\[btnfr"\\]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*?'
    r'(\\)(?![btnfr"\\]|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8})'
)
_ENTRY = re.compile(r"[\"'\[{0-9+-]|[^\W\d][^=\n]*[,\]]")
_HEADER = re.compile(r"\[+[A-Za-z0-9_\". -]+\]+\s*$")
# Marks that an input method puts in place of the ASCII ones; the full-width forms of ASCII itself are found by rule.
_MARKS = {
    **dict.fromkeys("“”„「」『』", '"'),
    **dict.fromkeys("‘’", "'"),
    **dict.fromkeys("−–—ー", "-"),
    **dict.fromkeys("\u3000\u00a0", " "),
    **{"、": ",", "。": ".", "【": "[", "】": "]"},
}
_TRUTH = {"true": "true", "false": "false", "yes": "true", "no": "false", "on": "true", "off": "false"}


def explain(stop: SyntaxStop, written: str, form: FileForm) -> Mistake:
    """Say what is wrong where the walk along a file stopped."""
    slip = _Slip(stop, written, form)
    problem = slip.explain()
    places = KeyPlaces(written)
    at = min(slip.offset, len(written))
    return Mistake(problem, places.line_at(at), places.column_at(at))


class _Slip:
    """One place where a file is not TOML. `offset` is where it is told, which may be earlier than the stop."""

    def __init__(self, stop: SyntaxStop, written: str, form: FileForm) -> None:
        self.stop = stop
        self.written = written
        self.form = form
        self.key = stop.key
        self.opened = stop.offset if stop.opened is None else stop.opened
        self.offset = min(stop.offset, len(written))
        self.line_start = written.rfind("\n", 0, self.offset) + 1
        self.line = written[self.line_start :].partition("\n")[0]
        rest, word = _REST.match(written, self.offset), _WORD.match(written, self.offset)
        self.here = rest[0].rstrip() if rest else ""
        self.word = word[0] if word else self.here[:1]

    def explain(self) -> Text:
        """Find the usual slip that it is, else show what cannot be understood."""
        by_cause = {
            "twice": self._explain_twice,
            "header": self._explain_header,
            "after header": self._explain_after_header,
            "key": self._explain_key,
            "equals": self._explain_equals,
            "value": self._explain_value,
            "string": self._explain_string,
            "after value": self._explain_after_value,
            "array": self._explain_array,
            "inline": self._explain_inline,
            "refused": self._explain_refused,
            "long key": self._explain_long_key,
        }
        problem = self._explain_mark() or by_cause[self.stop.cause]()
        if problem is not None:
            return problem
        if not self.here:
            return text("the line ends too early; write key = value")
        return text("{shown} cannot be understood here; write key = value", shown=_cut(self.here))

    def _explain_mark(self) -> Text | None:
        """Tell of a mark that only looks like the one of TOML, or cannot be seen at all."""
        mark = self.written[self.offset : self.offset + 1]
        plain = _find_plain(mark)
        if plain is None or (plain.isalpha() and self.stop.cause in ("key", "header")):
            is_hidden = mark and not mark.isprintable() and mark not in "\n\t"
            return _tell_hidden(mark) if is_hidden else None
        if plain == " ":
            return text("there is a full-width space here; type an ordinary space")
        word = "".join(_find_plain(letter) or letter for letter in self.word)
        if self.stop.cause == "value" and is_scalar(word):
            return text("{word} is written in full width; write {plain}", word=_cut(self.word), plain=word)
        return text("{mark} is a full-width character; write {plain} instead", mark=mark, plain=plain)

    def _explain_refused(self) -> Text | None:
        if hidden := _ODD.search(self.line):
            return _tell_hidden(hidden[0])
        if _LONG_NUMBER.search(self.line):
            return text("a number in this line has too many digits; shorten it")
        days = _DAY.findall(self.line)
        return self._explain_escape() or (_tell_day(days[-1]) if days else None)

    def _explain_long_key(self) -> Text:
        return text("a key has more than {most} parts between dots; write key = value", most=MOST_PARTS)

    def _explain_twice(self) -> Text:
        if self.stop.opened is None:
            return text("a table or key of this name was written before, in another way; keep one of the two")
        first = self.written.count("\n", 0, self.opened) + 1
        if not self.written.startswith("[", self.offset):
            return text("{key} was written before, in line {first}; keep one of the two", key=self.key, first=first)
        if any(self.key == table.name and table.many for table in self.form.tables):
            return text("write {table}, in double brackets, before each of them", table=f"[[{self.key}]]")
        header = f"[{self.key}]"
        return text("{table} was written before, in line {first}; put all its keys there", table=header, first=first)

    # --- tables and keys

    def _explain_header(self) -> Text:
        self.offset = self.opened
        headers = {table.name: table.header for table in self.form.tables}
        near = find_near(re.sub(r"[\[\]\s]|#.*", "", self.line), headers)
        example = headers[near] if near else ", ".join(headers.values())
        return text("a table begins with its name in brackets, on a line of its own: {example}", example=example)

    def _explain_after_header(self) -> Text:
        if self.here.startswith("]"):
            self.opened = self.line_start
            return self._explain_header()
        return text("{shown} follows the name of a table; move it to a line of its own", shown=_cut(self.here))

    def _explain_key(self) -> Text | None:
        if self.here.startswith(("//", ";", "--", "/*", "%")):
            return text("a comment begins with #")
        if self.here.startswith("="):
            return text("the key before = is missing; write key = value")
        match = re.match(r"([^=:\n\[\]{}\"']+?)\s*[=:]", self.here)
        return self._tell_key(match[1]) if match and not match[1].isascii() else None

    def _explain_equals(self) -> Text:
        shown = _cut(self.key)
        if self.here.startswith(":"):
            return text("write = instead of : after the key: {example}", example=f"{shown} = ...")
        self.offset = self.opened
        if re.match(r"[^=\n\"']*=", self.here):  # a blank inside the key
            return self._tell_key(self.written[self.opened : self.written.index("=", self.opened)].strip())
        return text("{key} has no = and no value; write it like: {example}", key=shown, example=f"{shown} = ...")

    def _tell_key(self, key: str) -> Text:
        if near := find_near(key, [name for table in self.form.tables for name in table.all_keys]):
            return text("unknown key {key}; did you mean {near}?", key=_cut(key), near=near)
        example = f"{quote(_cut(key))} = ..."
        return text("put a key with other characters than A-Z, a-z, 0-9, _ and - in quotes: {example}", example=example)

    # --- values

    def _explain_value(self) -> Text | None:
        if self.stop.is_entry and (re.match(r"[\w-]+\s*=", self.here) or _HEADER.match(self.line)):
            self.offset = self.opened  # the next key or table, swallowed by a list that was left open
            return text("the list of {key} has no closing ]", key=self.key)
        if self.stop.is_entry and self.here.startswith(","):
            return text("an entry of the list of {key} is missing; remove the comma", key=self.key)
        if not self.here or self.here.startswith((",", "]", "}")):
            return text("the value after {key} = is missing", key=self.key)
        if self.here.startswith(("=", ">")):
            return text("write one = between a key and its value: {example}", example=f"{self.key} = ...")
        word = self.word.casefold()
        if word in _TRUTH:
            return text("{word} is not a value; did you mean {near}?", word=self.word, near=_TRUTH[word])
        if word in ("none", "null", "nil"):
            return text("{word} is not a value; leave the key out, or put a text in quotes", word=self.word)
        return self._explain_number() or self._explain_bare_word()

    def _explain_number(self) -> Text | None:
        word, shown = self.word, _cut(self.word)
        if word.endswith(";") and is_scalar(word[:-1]):
            return text("a semicolon follows the value; remove it")
        if re.fullmatch(r"[+-]?[0-9]+/[0-9]+", word):
            return text("put a fraction in quotes: {example}", example=quote(word))
        if _DAY.match(word):
            return _tell_day(word)
        if re.fullmatch(r"[+-]?0[0-9]+", word):
            plain, code = word.lstrip("+-0") or "0", quote(word)
            return text("a number does not begin with 0; write {plain}, or {code} for a code", plain=plain, code=code)
        if re.fullmatch(r"[+-]?(?:\.[0-9]+|[0-9]+\.)", word):
            plain = f"0{word}" if word.startswith(".") else f"{word}0"
            return text("{word} is not a number; did you mean {near}?", word=shown, near=plain)
        if re.fullmatch(r"[+-]?[0-9.]+%", word):
            return text("{word} is not a number; write a share between 0 and 1, such as 0.05", word=shown)
        if re.match(r"[+-]?[0-9]", word):
            example = quote(_cut(self.here))
            return text("{word} is not a number; put a text in quotes: {example}", word=shown, example=example)
        return None

    def _explain_bare_word(self) -> Text | None:
        match = re.match(r"[^\W\d][^,\]}#\"'=\n]*", self.here)
        if match is None:
            return None
        quoted = quote(_cut(match[0].strip()))
        return text(
            "put the text in quotes: {example}", example=quoted if self.stop.is_entry else f"{self.key} = {quoted}"
        )

    def _explain_string(self) -> Text:
        self.offset = self.opened
        for mark in ('"""', "'''"):
            if self.written.startswith(mark, self.opened):
                return text("the text that begins here has no closing {mark}", mark=mark)
        escape = self._explain_escape()
        return escape or text("the text that begins here has no closing {mark}", mark=self.written[self.opened])

    def _explain_escape(self) -> Text | None:
        r"""Find a backslash that begins no special character: C:\data, or \ before the closing quote."""
        found = _BAD_ESCAPE.search(self.line) or re.search(r'(\\)"\s*$', self.line)
        if found is None:
            return None
        self.offset = self.line_start + found.start(1)
        path = re.search(r'"([^"]*)"?', self.line)
        example = f"'{path[1]}'" if path and "'" not in path[1] else quote("C:/data")
        what = "a backslash in a text means a special character; write / instead, or use single quotes: {example}"
        return Text(what, {"example": _cut(example)})

    def _explain_after_value(self) -> Text:
        here, shown = self.here, _cut(self.here)
        before = self.written[self.opened : self.offset].rstrip()
        if here.startswith(("//", ";")):
            return text("{shown} follows the value; a comment begins with #", shown=shown)
        if re.fullmatch(r"[0-9]{1,3}", before) and re.match(r",[0-9]{3}\b", here):
            self.offset = self.opened
            return text("write numbers without commas: {plain}", plain=re.sub(r"[^0-9.]", "", before + here))
        if re.fullmatch(r"[0-9]+", before) and here.startswith("/"):
            self.offset = self.opened
            return text("put a fraction in quotes: {example}", example=quote(before + here))
        if here.startswith(","):
            return text("a comma follows the value; put several values in brackets, like: {example}", example="[1, 2]")
        if before[:1] == '"':
            return text(
                "{shown} follows the closing quote; write a quote inside a text as {quote}",
                shown=shown,
                quote='\\"',
            )
        return text("{shown} follows the value; remove it, or move it to a line of its own", shown=shown)

    # --- brackets

    def _explain_array(self) -> Text:
        if _ENTRY.match(self.here) and not _HEADER.match(self.here):
            return text("a comma is missing before {shown}", shown=_cut(self.here))
        self.offset = self.opened
        return text("the list of {key} has no closing ]", key=self.key)

    def _explain_inline(self) -> Text | None:
        mark = self.written[self.offset : self.offset + 1]
        if mark == "}":
            return text("a comma precedes the closing brace; remove it")
        if re.match(r"[A-Za-z0-9_\"'-]+\s*=", self.here):
            return text("a comma is missing before {shown}", shown=_cut(self.here))
        if mark not in ("", "\n", "#", "]"):
            return None
        self.offset = self.opened
        if mark == "]":
            return text("the table of {key} has no closing brace", key=self.key)
        return text("the braces of {key} must open and close on one line", key=self.key)


def _tell_hidden(mark: str) -> Text:
    code = f"U+{ord(mark):04X}"
    return text("this line holds an invisible character ({code}); remove it", code=code)


def _tell_day(word: str) -> Text:
    return text("{word} is not a day; write it like: {example}", word=_cut(word), example='"2024-01-31"')


def _find_plain(mark: str) -> str | None:
    """Give the ASCII mark in place of which a full-width one was typed.

    >>> _find_plain("＝"), _find_plain("“"), _find_plain("３"), _find_plain("年"), _find_plain("a")
    ('=', '"', '3', None, None)
    """
    if mark in _MARKS:
        return _MARKS[mark]
    return unicodedata.normalize("NFKC", mark) if "\uff01" <= mark <= "\uff5e" else None


def _cut(words: str) -> str:
    shown = "".join(mark if mark.isprintable() else f"\\u{ord(mark):04x}" for mark in words[:MOST_WORD])
    return shown + ("..." if len(words) > MOST_WORD else "")
