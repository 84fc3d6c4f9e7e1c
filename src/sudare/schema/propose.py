"""A first draft of a schema, from facts a source tells about its columns; a steward reads, corrects and confirms it.

The draft holds values of the table, so it is marked `inferred = true` and no private release takes it before it is
confirmed. Ends of ranges are rounded outwards; the comments say what to look at.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Literal

from sudare.atomic import write_new_file
from sudare.errors import SchemaError
from sudare.forms.kinds import quote
from sudare.schema.hierarchy_rules import PREFECTURES, find_region
from sudare.schema.mesh import DIGITS, MESH_TEXT
from sudare.schema.raw import to_date, to_number, write_decimal
from sudare.text import Words, text
from sudare.text.cards import Preformatted, card

__all__ = ["ColumnFacts", "SchemaDraft", "propose"]


_INFERRED = re.compile(r"(?m)^[ \t]*inferred[ \t]*=[ \t]*true[ \t]*(#[^\n]*)?$")


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """What a source saw in one column.

    `values` are all distinct texts (NULL and "" left out) if they are few, else None; then `sample` may hold some of
    them. `low` and `high` are the smallest and the largest number or day. `distinct` does not count missing values.
    """

    name: str
    type: Literal["text", "integer", "number", "date", "boolean"]
    distinct: int
    values: tuple[str, ...] | None = None
    low: object = None
    high: object = None
    has_missing: bool = False
    rows: int | None = None
    sample: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaDraft:
    """A proposed schema file: text for a steward to read, correct and confirm. It holds values of the table."""

    name: str
    toml: str

    def __str__(self) -> str:
        return self.toml

    def save(self, path: str | Path, *, confirmed: bool = False) -> Path:
        """Write the draft to a new file; `confirmed=True` says that every line of it was read and is public."""
        wanted = mark_confirmed(self.toml) if confirmed else self.toml
        write_new_file(Path(path), wanted, error=SchemaError)
        return Path(path)

    def _repr_html_(self) -> str:
        """Show the text of the draft in a notebook."""
        return card(
            text("Draft of a schema for {name}", name=self.name),
            rows=[(Preformatted(self.toml),)],
            warning=text("Inferred from the data: correct it and confirm it before anything is published."),
        )


def mark_confirmed(toml: str) -> str:
    """Mark the text of a draft as read and confirmed; everything else stays as it was written.

    >>> mark_confirmed("[sudare]\\ninferred = true  # when all is right\\n")
    '[sudare]\\ninferred = "confirmed"\\n'
    """
    marked, count = _INFERRED.subn('inferred = "confirmed"', toml, count=1)
    if not count:
        raise SchemaError("the schema is no draft: it has no line inferred = true; nothing is left to confirm")
    return marked


def propose(columns: Sequence[ColumnFacts], name: str) -> str:
    """Write a schema file for a steward to correct.

    >>> text = propose([ColumnFacts("sex", "text", 2, values=("F", "M"))], "people")
    >>> print(text[text.index("[[attribute]]") :].strip())
    [[attribute]]
    name = "sex"
    kind = "category"
    values = ["F", "M"]
    """
    if not columns:
        raise SchemaError("the data have no columns; nothing can be proposed. The first line must name them")
    person = next((column.name for column in columns if repeats(column)), "...")
    return (
        "\n".join([*_write_head(name, person), *(line for column in columns for line in _write_table(column))]) + "\n"
    )


def _write_head(name: str, person: str) -> list[str]:
    return [
        f"# {text('Proposed from the data: values below may tell about people.')}",
        f"# {text('Read every line, correct it, add values that could occur, and take out what only one person has.')}",
        "",
        "[sudare]",
        "schema = 1",
        f"name = {quote(name or 'data')}",
        f'inferred = true  # {text("when all is right, write")}: inferred = "confirmed"',
        "",
        f"[unit]  # {text('who is protected')}",
        f'kind = "row"  # {text("if a person can have several rows, take these three lines instead")}:',
        '# kind = "person"',
        f"# column = {quote(person)}",
        "# max_rows = 5",
        "",
    ]


def _write_table(column: ColumnFacts) -> list[str]:
    guessed: Guess = guess(column)
    lines = [f"# {comment}" for comment in guessed.comments]
    lines += ["[[attribute]]", f"name = {quote(column.name)}"]
    lines += [f"{key} = {value}" for key, value in guessed.keys.items()]
    return [*lines, ""]


# --- what kind of attribute a column looks like -----------------------------------------------------------------------


MOST_LISTED = 200  # distinct texts that a steward can still read through
MOST_CODES = 10  # a run of integers this short is a code, not a measurement
LEAST_ROWS = 50  # a column of fewer rows may be unique by chance
MOST_BINS = 20  # that a proposed cut has; more are hard to correct by hand
MOST_MONTHS = 36  # that days are cut into; a longer span of days is cut into years
SHARE_OF_CODES = 0.95  # of the texts of a column that must be mesh codes; the rest are slips and marks
LARGEST_NUMBER = Fraction(10**25)  # numbers beyond it, and spans below its inverse, are no measurements
MARKS = ("?", "NA", "N/A", "NULL", "null")

_MESH = re.compile(MESH_TEXT)
_PLAIN_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Guess:
    """The keys of an attribute, written as TOML, and remarks for the steward."""

    keys: dict[str, str]
    comments: tuple[Words, ...] = ()


def guess(column: ColumnFacts) -> Guess:
    """Guess the kind of a column and how to cut it."""
    marks = tuple(mark for mark in MARKS if mark in (column.values or column.sample))
    column = _find_type(_drop_marks(column, marks))
    guessed = _guess_mesh(column) or _guess_identifier(column) or _guess_by_type(column)
    if "kind" in guessed.keys and (column.has_missing or marks):
        missing = _write_list(marks) if marks else "true"
        return replace(guessed, keys=guessed.keys | {"missing": missing})
    return guessed


def _drop_marks(column: ColumnFacts, marks: Sequence[str]) -> ColumnFacts:
    if not marks:
        return column
    values, sample = (
        None if texts is None else tuple(text for text in texts if text not in marks)
        for texts in (column.values, column.sample)
    )
    return replace(column, values=values, sample=sample or (), distinct=column.distinct - len(marks))


def _find_type(column: ColumnFacts) -> ColumnFacts:
    """See numbers and days in a column of texts. A leading zero tells a code, which stays text."""
    texts = column.values or column.sample
    if column.type != "text" or not texts:
        return column
    if all(_PLAIN_INTEGER.fullmatch(text) for text in texts):
        numbers = [int(text) for text in texts]
        return replace(column, type="integer", low=min(numbers), high=max(numbers))
    decimals = [number for text in texts if (number := to_number(text)) is not None]
    if len(decimals) == len(texts) and not any(re.match(r"\s*[+-]?0[0-9]", text) for text in texts):
        return replace(column, type="number", low=min(decimals), high=max(decimals))
    days = [day for text in texts if (day := to_date(text)) is not None]
    if len(days) == len(texts):
        return replace(column, type="date", low=min(days), high=max(days))
    return column


def _guess_mesh(column: ColumnFacts) -> Guess | None:
    """See JIS mesh codes: nearly all texts have one length, are codes, and lie in Japan."""
    texts = column.values or column.sample
    if column.type not in ("text", "integer") or not texts:
        return None
    length = Counter(len(text) for text in texts).most_common(1)[0][0]
    codes = [text for text in texts if len(text) == length and _MESH.fullmatch(text) and _is_in_japan(text)]
    if len(codes) < SHARE_OF_CODES * len(texts):
        return None
    area = sorted({code[:4] for code in codes})
    keys = {"kind": '"mesh"', "level": str(DIGITS.index(length) + 1), "area": _write_list(area)}
    if len(codes) < len(texts):
        keys["outside"] = '"other"'
    return Guess(
        keys=keys, comments=(text("Looks like JIS X 0410 mesh codes; list every first-level code of the area."),)
    )


def _is_in_japan(code: str) -> bool:
    return 30 <= int(code[:2]) <= 68 and 22 <= int(code[2:4]) <= 53


def _guess_identifier(column: ColumnFacts) -> Guess | None:
    if column.distinct == 0:
        return Guess(
            keys=_IDENTIFIER, comments=(text("Only missing values were seen; the column will not be published."),)
        )
    is_unique = column.rows is not None and column.rows > LEAST_ROWS and column.distinct >= column.rows
    if is_unique and column.type in ("text", "integer"):
        return Guess(
            keys=_IDENTIFIER, comments=(text("Every row has a different value; the column will not be published."),)
        )
    return None


_IDENTIFIER = {"role": '"identifier"'}


def _guess_by_type(column: ColumnFacts) -> Guess:
    if column.type == "boolean":
        return Guess(keys={"kind": '"category"', "values": '["false", "true"]'})
    if column.type == "date" and (days := _find_days(column)):
        return _guess_date(*days)
    low, high = to_number(column.low), to_number(column.high)
    if column.type in ("integer", "number") and isinstance(low, Fraction) and isinstance(high, Fraction):
        if column.type == "integer" and high - low < MOST_CODES and column.values:
            return _guess_codes(column)
        if max(abs(low), abs(high)) < LARGEST_NUMBER and (low == high or high - low > 1 / LARGEST_NUMBER):
            return _guess_number(low, high, is_whole=column.type == "integer")
    return _guess_text(column)


def _guess_codes(column: ColumnFacts) -> Guess:
    values = sorted(column.values or (), key=lambda text: to_number(text) or 0)
    kind = '"ordered"' if len(values) > 2 else '"category"'
    return Guess(keys={"kind": kind, "values": _write_list(values)})


def _guess_number(low: Fraction, high: Fraction, *, is_whole: bool) -> Guess:
    """Cut a range into at most 20 bins whose width is 1, 2 or 5 times a power of ten, ends rounded outwards.

    Bins of single whole numbers end one beyond the largest, which would else share the closed last bin.
    """
    width = max(_round_width(high - low), Fraction(is_whole))
    first, last = low // width, -(-high // width)
    if is_whole and width == 1:
        last += 1
    start, stop = first * width, max(last, first + 1) * width
    bins = f"{{ start = {write_decimal(start)}, stop = {write_decimal(stop)}, width = {write_decimal(width)} }}"
    comment = text("The ends were rounded outwards from the data; set them to what could occur.")
    return Guess(keys={"kind": '"number"', "bins": bins}, comments=(comment,))


def _round_width(span: Fraction) -> Fraction:
    width = Fraction(1)
    while span / width > MOST_BINS - 2:  # rounding outwards may add one bin at each end
        width *= 10
    while span and span / width * 10 <= MOST_BINS - 2:
        width /= 10
    for factor in (Fraction(1, 5), Fraction(1, 2)):
        if span and span / (width * factor) <= MOST_BINS - 2:
            return width * factor
    return width


def _find_days(column: ColumnFacts) -> tuple[date, date] | None:
    low, high = (to_date(end) if isinstance(end, date | str) else None for end in (column.low, column.high))
    return (low, high) if low and high else None


def _guess_date(low: date, high: date) -> Guess:
    """Cut days into months, or a long span into years; ends are whole months or years."""
    by_month = (high.year - low.year) * 12 + high.month - low.month < MOST_MONTHS
    start = low.replace(day=1) if by_month else date(low.year, 1, 1)
    stop = (high.replace(day=1) + timedelta(days=31)).replace(day=1) - timedelta(days=1)
    stop = stop if by_month else date(high.year, 12, 31)
    width = "1 month" if by_month else "1 year"
    bins = f'{{ start = "{start}", stop = "{stop}", width = "{width}" }}'
    comment = text("The first and last day were rounded outwards from the data; set them to what could occur.")
    return Guess(keys={"kind": '"date"', "bins": bins}, comments=(comment,))


def _guess_text(column: ColumnFacts) -> Guess:
    values = column.values
    if values and all(find_region(value) for value in values) and len(values) > 2:
        keys = {"kind": '"category"', "hierarchy": '{ builtin = "jp-prefecture" }'}
        return Guess(keys=keys if set(values) <= set(PREFECTURES) else keys | {"values": _write_list(sorted(values))})
    if values and len(values) <= MOST_LISTED:
        return Guess(keys={"kind": '"category"', "values": _write_list(sorted(values))})
    comment = text("There are too many different texts; to publish the column, list its values in a file and write")
    comments: tuple[Words, ...] = (comment + ': kind = "category", values_file = "values.txt"',)
    if repeats(column):
        comments = (text("Values repeat: if the column names a person, take the three lines under [unit]."), *comments)
    return Guess(keys=_IDENTIFIER, comments=comments)


def repeats(column: ColumnFacts) -> bool:
    """Tell whether it may name persons with several rows: too many texts for a category, fewer than rows."""
    is_long = column.type == "text" and (column.values is None or len(column.values) > MOST_LISTED)
    return is_long and column.rows is not None and 1 < column.distinct < column.rows


def _write_list(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(quote, texts))}]"
