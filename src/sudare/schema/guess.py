"""What kind of attribute a column looks like: codes, years, amounts, days, places, categories; and bins people choose.

A kind is proposed only if all rows were read under exactly the reading that the schema will use, so that a draft,
confirmed, holds for the table it was drawn from. What fits no kind is left out, with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from fractions import Fraction
from functools import partial
from typing import Literal

from sudare.forms.kinds import quote
from sudare.schema import column_names as names
from sudare.schema.column_texts import (
    LEADING_ZERO,
    LEAST_ROWS,
    MESH_CODE,
    PLAIN_INTEGER,
    SHARE_OF_CODES,
    TICKS,
    find_grain,
    find_masking,
    find_ticks,
    is_in_japan,
    order_classes,
    order_words,
)
from sudare.schema.hierarchy_rules import PREFECTURES, find_region
from sudare.schema.mesh import DIGITS
from sudare.schema.office import read_japanese_day, read_number_format
from sudare.schema.raw import to_date, to_number, write_decimal
from sudare.text import Text, Words, text

MOST_LISTED = 200  # distinct texts that a steward can still read through
MOST_IN_FILE = 5000  # distinct texts that are listed in a file
ROWS_A_VALUE = 5  # rows that a value of a listed file has on average: fewer and the values name single people
MOST_REPEATED_NAMES = 20  # different values of a column called id; fewer are codes
MOST_CODES = 10  # a run of integers this short is a code, not a measurement
MOST_CODES_SEEN = 12  # different whole numbers that are codes if each has many rows
SPAN_OF_CODES = 50
ROWS_OF_A_CODE = 10  # that each of few different numbers has on average, or at least where their span is wider
LEAST_ATOM = 0.1  # of the rows, that have 0 as the least number, before it has a bin of its own
GRAINS_OF_ATOM = 5  # that the first bin must be wide, for that
MOST_BINS = 20  # that a proposed cut has; more are hard to correct by hand
MOST_DAYS = 62  # that are cut into single days
MOST_MONTHS = 36  # that days are cut into; a longer span of days is cut into years
TAIL_OF_CROWDED = 3  # the same where more than half of the rows would share the first of even bins
LONG_TAIL = 8  # times the 95% point: a largest number beyond it is a long tail, cut by 1, 2, 5; chosen on 20 tables
LARGEST_NUMBER = Fraction(10**18)  # numbers beyond it, and spans below its inverse, are no measurements
LONGEST_VALUE = 80  # characters; longer texts are sentences
DAYS_OF_EXCEL = (20_000, 60_000)  # 1954-10-03 to 2064-04-08, as Excel counts days
MARKS = (
    *("?", "NA", "N/A", "NULL", "null", "NaN", "nan", "None", "-", "…", "不明", "***"),
    *("－", "―", "—", "−", "ー", "不詳", "無回答", "#N/A", "n/a", "."),  # dashes as offices type them
)


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """What a source saw in one column.

    `values` are all distinct texts (NULL and "" left out) if they are few, else None; then `sample` may hold some of
    them; `counts` tells how many rows each has. `low` and `high` are the smallest and the largest number or day of all
    rows, `middle` and `tail` the numbers that half and a twentieth of the rows reach. `distinct` does not count missing
    values; where `values` is None it may be a lower bound. `marks` stand for missing values. `mesh` is what mesh codes
    were seen: digits, first-level codes, rows of anything else. `grain` is what the numbers of all rows were seen to
    be multiples of. `is_given` tells whole numbers that no measurement gives (`are_given`). `words` are marks
    among its numbers that other columns do not have (`find_words`). `is_headed` tells that the first rows name
    something new now and then, and leave the rows below blank. `share_of_low` is the share of the sampled numbers that
    are the least one. `unreadable` names a type that cannot be read.
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
    counts: Mapping[str, int] | None = None
    marks: tuple[str, ...] = ()
    present: int | None = None
    is_unique: bool | None = None
    is_whole: bool | None = None
    middle: Fraction | None = None
    tail: Fraction | None = None
    number_format: str | None = None
    date_format: str | None = None
    mesh: tuple[int, tuple[str, ...], int] | None = None
    grain: Fraction | None = None
    is_given: bool = False
    words: tuple[str, ...] = ()
    is_headed: bool = False
    share_of_low: float = 0.0
    unreadable: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Guess:
    """The keys of an attribute, written as TOML, and remarks for the steward.

    Without keys the column is left out: undeclared, so never read and never published. `listed` are values for a file,
    `edges` the ends of bins.
    """

    keys: dict[str, str]
    comments: tuple[Words, ...] = ()
    hierarchy: str | None = None  # that fits the kind, if the column is a quasi-identifier
    listed: tuple[str, ...] = ()
    questions: tuple[tuple[Text, tuple[str, ...]], ...] = field(default=())
    edges: tuple[Fraction, ...] = ()


def guess(column: ColumnFacts) -> Guess:
    """Guess the kind of a column and how to cut it."""
    if column.unreadable is not None:
        return _leave_out(text("its type {type} cannot be read", type=column.unreadable))
    marks = tuple(dict.fromkeys((*(mark for mark in MARKS if mark in (column.values or column.sample)), *column.marks)))
    column = _keep_codes(find_type(_drop_marks(column, marks)))
    guesses = (_guess_mesh, partial(_guess_moments, is_named=True), _guess_identifier, _guess_moments, _guess_by_type)
    guessed = next(guessed for guess_kind in guesses if (guessed := guess_kind(column)))
    if column.type == "text" and "kind" in guessed.keys and names.PLAIN_NAME.fullmatch(column.name.strip()):
        note = text("Where these are names of people, take this attribute out.")
        guessed = replace(guessed, comments=(*guessed.comments, note))
    if "kind" in guessed.keys and (column.has_missing or marks):
        missing = write_list(marks) if marks else "true"
        comments = (*_explain_blanks(column), *guessed.comments)
        return replace(guessed, keys=guessed.keys | {"missing": missing}, comments=comments)
    return guessed


def _explain_blanks(column: ColumnFacts) -> tuple[Words, ...]:
    """Say what is read as missing, and may mean something else."""
    words = ", ".join(column.words)
    if words.startswith("-"):
        return (text("Read as missing, as survey codes are: {words}. Where it is a number, declare it.", words=words),)
    if words:
        return (text("Read as missing among numbers: {words}. Where it means a number, write it.", words=words),)
    if column.is_headed:
        return (text("Most rows are blank. Where a blank means the same as above, fill the cells, and draft again."),)
    return ()


def _leave_out(reason: Text) -> Guess:
    return Guess(keys={}, comments=(reason,))


def _drop_marks(column: ColumnFacts, marks: Sequence[str]) -> ColumnFacts:
    if not marks:
        return column
    values, sample = (
        None if texts is None else tuple(text for text in texts if text not in marks)
        for texts in (column.values, column.sample)
    )
    is_counted = column.counts is not None or column.values is None  # then marks are not among the distinct values
    distinct = column.distinct if is_counted else column.distinct - len(set(marks) & set(column.values or ()))
    return replace(column, values=values, sample=sample or (), distinct=distinct)


def find_type(column: ColumnFacts) -> ColumnFacts:
    """See numbers and days in a column of texts. A leading zero tells a code, which stays text.

    Only a complete list of values tells the type and the range; a sample would miss what comes later.
    """
    texts = column.values if column.values is not None or column.present is not None else column.sample
    if column.type != "text" or not texts:
        return column
    if set(texts) <= {"false", "true"}:
        return replace(column, type="boolean")
    if column.number_format is not None:
        reader = read_number_format(column.number_format)
        written = {amount for text in texts if (amount := reader.read(text)) is not None}
        is_whole, grain = all(amount.denominator == 1 for amount in written), find_grain(written)
        return replace(column, type="number", low=min(written), high=max(written), is_whole=is_whole, grain=grain)
    if column.date_format is not None:
        japanese = [day for text in texts if (day := read_japanese_day(text)) is not None]
        return replace(column, type="date", low=min(japanese), high=max(japanese))
    if all(PLAIN_INTEGER.fullmatch(text) for text in texts):
        wholes = [int(text) for text in texts]
        return replace(column, type="integer", low=min(wholes), high=max(wholes))
    decimals = [number for text in texts if (number := to_number(text)) is not None]
    if len(decimals) == len(texts) and not any(map(LEADING_ZERO.match, texts)):
        return replace(column, type="number", low=min(decimals), high=max(decimals))
    days = [day for text in texts if (day := to_date(text)) is not None]
    if len(days) == len(texts):
        return replace(column, type="date", low=min(days), high=max(days))
    return column


def _keep_codes(column: ColumnFacts) -> ColumnFacts:
    """Take whole numbers that are named as codes, all of one length, as texts: postal codes are no amounts."""
    texts = column.values if column.values is not None else column.sample
    is_even = len({len(text) for text in texts}) == 1 and len(texts[0]) >= 3 if texts else False
    if column.type != "integer" or not is_even or not names.CODE.search(column.name):
        return column
    return replace(column, type="text")


# --- codes and identifiers --------------------------------------------------------------------------------------------


def _guess_mesh(column: ColumnFacts) -> Guess | None:
    """See JIS mesh codes: nearly all texts have one length, are codes, and lie in Japan."""
    if column.mesh is not None:
        digits, area, others = column.mesh
        is_mesh = digits in DIGITS and area and all(map(is_in_japan, area))
        if not is_mesh or others > (1 - SHARE_OF_CODES) * (column.present or 1):
            return None
        return _write_mesh(digits, area, has_others=others > 0)
    texts = column.values if column.present is not None else column.values or column.sample
    if column.type not in ("text", "integer") or not texts:
        return None
    length = Counter(len(text) for text in texts).most_common(1)[0][0]
    codes = [text for text in texts if len(text) == length and MESH_CODE.fullmatch(text) and is_in_japan(text)]
    if len(codes) < SHARE_OF_CODES * len(texts):
        return None
    return _write_mesh(length, sorted({code[:4] for code in codes}), has_others=len(codes) < len(texts))


def _write_mesh(digits: int, area: Sequence[str], *, has_others: bool) -> Guess:
    keys = {"kind": '"mesh"', "level": str(DIGITS.index(digits) + 1), "area": write_list(area)}
    if has_others:
        keys["outside"] = '"other"'
    comment = text("Looks like JIS X 0410 mesh codes; list every first-level code of the area.")
    return Guess(keys=keys, comments=(comment,))


def _guess_identifier(column: ColumnFacts) -> Guess | None:
    if column.distinct == 0:
        return _leave_out(text("it holds nothing but missing values"))
    if column.type == "text" and column.distinct > MOST_CODES_SEEN and names.NAMES_DIRECTLY.search(column.name):
        return _leave_out(text("by its name it tells who somebody is"))
    is_long = (column.present if column.present is not None else column.rows or 0) > LEAST_ROWS
    if column.type == "text" and not (is_long and column.is_unique) and (reason := _find_people(column)):
        return _leave_out(reason)
    has_names = (column.type == "text" or _holds_whole_numbers(column)) and column.distinct > MOST_REPEATED_NAMES
    is_person = bool(names.PERSON.search(column.name)) and bool(names.ID.search(column.name))
    is_named = (is_person or bool(names.NAMES_SOMEBODY.search(column.name))) and not names.POSTAL.search(column.name)
    if has_names and is_long and column.is_unique is False and (is_named or column.is_given):
        return _leave_out(text("its values seem to name persons or things, and repeat"))
    known = column.distinct >= (column.rows or 0) if column.present is None else column.is_unique
    if not is_long or known is False or (known is None and column.type == "date"):
        return None
    if column.type == "text" and (known or known is None):
        return _name_identifier(known)
    if _holds_whole_numbers(column) and (column.is_given or _is_run(column) or names.ID.search(column.name)):
        return _name_identifier(known)
    return None


def _find_people(column: ColumnFacts) -> Text | None:
    """Say why a column of names is left out: they are names of people, or may be, with few rows each.

    A name that many rows share is one of a product, a shop or a town, unless it is seen to be a person's.
    """
    if names.NAME.search(column.name) and names.are_people(column.values or column.sample):
        return text("its values look like names of people; where they are none, declare them as a category")
    if not names.PLAIN_NAME.fullmatch(column.name.strip()) or column.distinct < 2:
        return None
    if (column.present or column.rows or 0) < ROWS_OF_A_CODE * column.distinct:
        return text("its values may name people, with few rows each; where they do not, declare them as a category")
    return None


def _holds_whole_numbers(column: ColumnFacts) -> bool:
    """Tell whether all numbers are whole, also where missing ones made tools write 7 as 7.0."""
    multiple = column.grain or _read_grain(column) if column.type in ("integer", "number") else None
    return multiple is not None and multiple.denominator == 1


def _is_run(column: ColumnFacts) -> bool:
    """Tell whether unique whole numbers follow one another without a gap, as row numbers do."""
    low, high = to_number(column.low), to_number(column.high)
    return (
        isinstance(low, Fraction) and isinstance(high, Fraction) and high - low + 1 == (column.present or column.rows)
    )


def _name_identifier(is_unique: bool | None) -> Guess:
    if is_unique is None:
        return _leave_out(text("nearly every row has a value of its own"))
    return Guess(
        keys=_IDENTIFIER, comments=(text("Every row has a different value; the column will not be published."),)
    )


_IDENTIFIER = {"role": '"identifier"'}


# --- by type ----------------------------------------------------------------------------------------------------------


def _guess_by_type(column: ColumnFacts) -> Guess:
    if column.type == "boolean":
        return Guess(keys={"kind": '"category"', "values": '["false", "true"]'}, hierarchy=STAR)
    if column.type == "date" and (days := _find_days(column)):
        return _guess_date(*days, date_format=column.date_format)
    if column.values and len(column.values) == 1 and (column.present or 0) > LEAST_ROWS:
        return _guess_text(column)  # what all have needs no bins
    low, high = to_number(column.low), to_number(column.high)
    if column.type in ("integer", "number") and isinstance(low, Fraction) and isinstance(high, Fraction):
        if column.number_format is None and _are_codes(column, low, high):
            return _guess_codes(column)
        if column.number_format is not None and _is_whole_run(column, low, high):
            return _guess_text(column)
        if max(abs(low), abs(high)) < LARGEST_NUMBER and (low == high or high - low > 1 / LARGEST_NUMBER):
            return _guess_amount(column, low, high)
    return _guess_text(column)


def _are_codes(column: ColumnFacts, low: Fraction, high: Fraction) -> bool:
    """Tell whether whole numbers are codes: a short run, or few of them with many rows each.

    Missing ones make tools write flags as 0.0 and 1.0; any more such numbers are cut into bins of one.
    """
    if not column.values:
        return False
    if column.type == "number":
        return {to_number(value) for value in column.values} == {0, 1} and len(column.values) == 2
    if high - low < MOST_CODES:
        return True
    is_near = high - low < SPAN_OF_CODES and (column.present or 0) >= ROWS_OF_A_CODE * len(column.values)
    rarest = min((column.counts or {}).values(), default=0)  # far from the others, a rare number is one person's
    return len(column.values) <= MOST_CODES_SEEN and (is_near or rarest >= ROWS_OF_A_CODE)


def _is_whole_run(column: ColumnFacts, low: Fraction, high: Fraction) -> bool:
    """Tell whether numbers with a unit (3年, 2級) are a short run of whole ones, each written in one way."""
    classes = order_classes(column.values or ())
    return classes is not None and column.is_whole is True and high - low < MOST_CODES


STAR = '{ builtin = "star" }'


def _guess_codes(column: ColumnFacts) -> Guess:
    values = sorted(column.values or (), key=lambda text: to_number(text) or 0)
    if len(values) > 2:
        return _write_ordered(values)
    return Guess(keys={"kind": '"category"', "values": write_list(values)}, hierarchy=STAR)


def _write_ordered(values: Sequence[str]) -> Guess:
    groups = "{ groups = [2, 4] }" if len(values) > 4 else "{ groups = [2] }"
    return Guess(keys={"kind": '"ordered"', "values": write_list(values)}, hierarchy=groups)


def _guess_amount(column: ColumnFacts, low: Fraction, high: Fraction) -> Guess:
    """Cut numbers: years by years, amounts with a long tail by 1, 2, 5, all else evenly."""
    multiple = column.grain or _read_grain(column)
    is_whole = multiple is not None and multiple.denominator == 1  # 2.0 too: half of a child is no bin
    least = multiple or Fraction(0)
    written = {} if column.number_format is None else {"format": quote(column.number_format)}
    if is_whole and names.YEAR.search(column.name) and low >= 1700 and high <= 2100:
        guessed = _guess_years(low, high)
    elif column.tail is not None and _is_long_tailed(column, low, high, least):
        guessed = _guess_long_tail(high, column.tail, is_whole=is_whole)
    else:
        guessed = _guess_number(low, high, least=least)
    if is_whole and names.DAY.search(column.name) and low >= DAYS_OF_EXCEL[0] and high <= DAYS_OF_EXCEL[1]:
        note = text("Looks like days that Excel counts from 1900: format the cells as dates, and draft again.")
        guessed = replace(guessed, comments=(*guessed.comments, note))
    if names.PLACE.search(column.name):
        note = text("Looks like a coordinate: others may know where somebody is. A mesh serves maps better.")
        guessed = replace(guessed, comments=(*guessed.comments, note))
    grain = {"grain": "0" if multiple is None else write_decimal(multiple)}
    if multiple is not None and low == 0 and column.share_of_low >= LEAST_ATOM:
        guessed = _part_zero(guessed, multiple)
    return replace(guessed, keys=guessed.keys | grain | written)


def _part_zero(guessed: Guess, grain: Fraction) -> Guess:
    """Give 0 a bin of its own where it is the least number and many rows have it: no income is not a small one."""
    after = [edge for edge in guessed.edges if edge > grain]
    if not after or after[0] < GRAINS_OF_ATOM * grain:
        return guessed
    keys = {key: value for key, value in guessed.keys.items() if key not in ("bins", "edges")}
    return replace(guessed, keys=keys | {"edges": _write_edges([Fraction(0), grain, *after])})


def _is_long_tailed(column: ColumnFacts, low: Fraction, high: Fraction, least: Fraction) -> bool:
    """Tell whether the largest numbers lie so far out that even bins would leave most rows in one of them."""
    if column.tail is None or low < 0 or column.tail <= 0:
        return False
    width = _round_width(high - low)
    is_crowded = column.middle is not None and width > least and column.middle < (low // width + 1) * width
    return high > (TAIL_OF_CROWDED if is_crowded else LONG_TAIL) * column.tail


def _read_grain(column: ColumnFacts) -> Fraction | None:
    """The grain of a column whose values are all known; 1 where only that they are whole is."""
    known = [to_number(value) for value in column.values or ()]
    numbers = [number for number in known if isinstance(number, Fraction)]
    grain = find_grain(numbers) if numbers and len(numbers) == len(known) else None
    return grain or (Fraction(1) if column.type == "integer" or column.is_whole is True else None)


def _guess_number(low: Fraction, high: Fraction, *, least: Fraction) -> Guess:
    """Cut a range into at most 20 bins whose width is 1, 2 or 5 times a power of ten, ends rounded outwards.

    No bin is narrower than `least`, the grain (0: unknown). Bins of single numbers end one beyond the largest, which
    would else share the closed last bin.
    """
    width = max(_round_width(high - low), least)
    first, last = low // width, -(-high // width)
    if width == least:
        last += 1
    start, stop = first * width, max(last, first + 1) * width
    comment = text("The ends were rounded outwards from the data; set them to what could occur.")
    return Guess(
        keys={"kind": '"number"', "bins": _write_bins(start, stop, width)},
        comments=(comment,),
        hierarchy=_write_intervals(start, stop, width),
        edges=tuple(start + width * step for step in range(int((stop - start) / width) + 1)),
    )


def _write_bins(start: Fraction, stop: Fraction, width: Fraction) -> str:
    return f"{{ start = {write_decimal(start)}, stop = {write_decimal(stop)}, width = {write_decimal(width)} }}"


def _write_intervals(start: Fraction, stop: Fraction, width: Fraction) -> str:
    """Join bins two by two, then four by four (five would cut the tens that people think in)."""
    count = int((stop - start) / width)
    steps = [width * factor for factor in (2, 4) if factor < count]
    return (
        f"{{ intervals = [{', '.join(map(write_decimal, steps))}] }}" if steps else f"{{ groups = [{max(2, count)}] }}"
    )


def _guess_years(low: Fraction, high: Fraction) -> Guess:
    span = high - low
    width = Fraction(1 if span <= 40 else 5 if span <= 150 else 10)
    start, stop = low // width * width, (high // width + 1) * width
    comment = text("The ends were rounded outwards from the data; set them to what could occur.")
    intervals = [step for step in (5, 10, 50) if step > width and step % width == 0 and step < stop - start]
    tree = f"{{ intervals = [{', '.join(map(str, intervals))}] }}" if intervals else "{ groups = [2] }"
    return Guess(
        keys={"kind": '"number"', "bins": _write_bins(start, stop, width)}, comments=(comment,), hierarchy=tree
    )


def _guess_long_tail(high: Fraction, tail: Fraction, *, is_whole: bool) -> Guess:
    """Cut by 1, 2, 5 of every decade, from a hundredth of the 95% point on, so that no bin holds nearly all."""
    power = 0
    while Fraction(10) ** (power + 1) <= tail:
        power += 1
    while Fraction(10) ** power > tail:
        power -= 1
    edges = [Fraction(0)]
    for exponent in range(power - 1, power + 60):
        for factor in (1, 2, 5):
            edge = Fraction(10) ** exponent * factor
            if edges[-1] < high and (not is_whole or edge >= 1):
                edges.append(edge)
    comment = text("A few numbers are far larger than the others: bins grow by 1, 2, 5.")
    keys = {"kind": '"number"', "edges": _write_edges(edges)}
    return Guess(keys=keys, comments=(comment,), hierarchy="{ groups = [3, 6] }", edges=tuple(edges))


def _write_edges(edges: Sequence[Fraction]) -> str:
    return f"[{', '.join(map(write_decimal, edges))}]"


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


def _guess_date(low: date, high: date, *, date_format: str | None = None) -> Guess:
    """Cut days into days, months or years by their span; ends are whole units."""
    months = (high.year - low.year) * 12 + high.month - low.month
    start, stop, width, units = date(low.year, 1, 1), date(high.year, 12, 31), "1 year", ['"decade"']
    if (high - low).days < MOST_DAYS:
        start, stop, width, units = low, high, "1 day", ['"month"', '"year"']
    elif months < MOST_MONTHS:
        stop = (high.replace(day=1) + timedelta(days=31)).replace(day=1) - timedelta(days=1)
        start, width, units = low.replace(day=1), "1 month", ['"quarter"', '"year"']
    bins = f'{{ start = "{start}", stop = "{stop}", width = "{width}" }}'
    comment = text("The first and last day were rounded outwards from the data; set them to what could occur.")
    written = {} if date_format is None else {"format": quote(date_format)}
    tree = f"{{ dates = [{', '.join(units)}] }}"
    return Guess(keys={"kind": '"date"', "bins": bins, **written}, comments=(comment,), hierarchy=tree)


def _guess_moments(column: ColumnFacts, *, is_named: bool = False) -> Guess | None:
    """See seconds since 1970 or parts of them by their size: first in columns named so, then if nothing else fits."""
    low, high = to_number(column.low), to_number(column.high)
    if column.type not in ("integer", "number") or not isinstance(low, Fraction) or not isinstance(high, Fraction):
        return None
    if column.number_format is not None or column.distinct <= MOST_CODES_SEEN:
        return None
    is_moment = bool(names.MOMENT.search(column.name)) and not names.NAMES_SOMEBODY.search(column.name)
    unit = find_ticks(low, high, is_named=is_named)
    if unit is None or is_named > is_moment or (not is_named and names.is_code_name(column.name)):
        return None
    ends = (date(1970, 1, 1) + timedelta(seconds=int(end / TICKS[unit])) for end in (low, high))
    guessed = _guess_date(*ends, date_format=unit)
    note = text(
        "Read as a time since 1970 ({format}), by days of UTC; for days of Japan write {japan}. If it is none, declare"
        " a number.",
        format=unit,
        japan=f"{unit}+09:00",
    )
    return replace(guessed, comments=(note, *guessed.comments))


# --- texts ------------------------------------------------------------------------------------------------------------


def _guess_text(column: ColumnFacts) -> Guess:
    values = column.values
    if values and all(find_region(value) for value in values) and len(values) > 2:
        keys = {"kind": '"category"', "hierarchy": '{ builtin = "jp-prefecture" }'}
        return Guess(keys=keys if set(values) <= set(PREFECTURES) else keys | {"values": write_list(sorted(values))})
    questions = _ask_for_others(column.name) if values and len(values) > MOST_CODES_SEEN else ()
    if values and (classes := order_classes(values) or order_words(values)):
        return replace(_write_ordered(classes), questions=questions)
    if values and len(values) <= MOST_LISTED:
        return Guess(
            keys={"kind": '"category"', "values": write_list(sorted(values))},
            hierarchy=find_masking(values, is_code=bool(names.CODE.search(column.name))) or STAR,
            questions=questions,
        )
    if _holds_sentences(column):
        return _leave_out(text("it holds sentences"))
    if values is None or len(values) > MOST_IN_FILE or not _can_be_listed(values):
        return _leave_out(text("it has too many different texts to list them"))
    if (column.present or 0) < ROWS_A_VALUE * len(values):
        return _leave_out(text("most of its texts belong to a few rows only, so a list of them would name people"))
    comment = text(
        "{count} values were read off the data: take out of the file what only one person has.", count=len(values)
    )
    return Guess(
        keys={"kind": '"category"', "outside": '"other"'},
        comments=(comment,),
        hierarchy=find_masking(values, is_code=bool(names.CODE.search(column.name))) or STAR,
        listed=tuple(sorted(values)),
    )


def _holds_sentences(column: ColumnFacts) -> bool:
    return max(map(len, column.values or column.sample), default=0) > LONGEST_VALUE


def _ask_for_others(name: str) -> tuple[tuple[Text, tuple[str, ...]], ...]:
    question = text("Can {name} hold values that are not in the list?", name=name)
    return ((question, ('outside = "other"',)),)


def _can_be_listed(values: Collection[str]) -> bool:
    return all(value == value.strip(" \t\r\n\u3000") and "\n" not in value and "\r" not in value for value in values)


def repeats(column: ColumnFacts) -> bool:
    """Tell whether it may name persons with several rows: many different texts or whole numbers, fewer than rows."""
    if column.present is None:
        is_long = column.type == "text" and (column.values is None or len(column.values) > MOST_LISTED)
        is_short = is_long and not _holds_sentences(column)
        return is_short and column.rows is not None and 1 < column.distinct < column.rows
    is_name = _holds_whole_numbers(column) or (column.type == "text" and not _holds_sentences(column))
    is_name &= not names.POSTAL.search(column.name) and not names.ADDRESS.search(column.name)
    is_named = bool(names.ID.search(column.name))
    is_long = column.type == "text" and (column.values is None or len(column.values) > MOST_LISTED)
    return is_name and column.is_unique is False and column.distinct > 20 and (is_named or is_long or column.is_given)


def rank_person(column: ColumnFacts) -> int:
    """Rank how likely a column names persons: by a word for persons, by a word for identifiers, by its shape."""
    return 2 * bool(names.PERSON.search(column.name)) + bool(names.ID.search(column.name) or column.is_given)


def write_list(texts: Sequence[str]) -> str:
    """Write texts as a list of TOML.

    >>> write_list(["a", "b"])
    '["a", "b"]'
    """
    return f"[{', '.join(map(quote, texts))}]"
