"""Numbers and days as offices write them (1,234円, △5, 令和6年4月1日, R6.4.1): read here, and written as labels.

Nothing is guessed at: an attribute says how its numbers are written by an example (`format = "1,234円"`), and that its
days are written the Japanese way (`format = "japanese"`). Full-width characters mean the same as half-width ones then.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from functools import lru_cache

from sudare.errors import SchemaError
from sudare.schema.raw import BLANKS, MISSING_LABEL, OTHER_LABEL, TOP_LABEL, to_date, to_number

JAPANESE = "japanese"
"""The format of days in eras, or with 年, 月 and 日."""

_LONGEST_TEXT = 100  # characters of a number or day; longer texts are none
_EXAMPLE = re.compile(r"(?P<prefix>[^0-9]*)1(?P<group>[,.' ]?)234((?P<point>[.,])5)?(?P<suffix>[^0-9]*)")
_MINUS = {"-": "-", "−": "-", "‐": "-", "–": "-", "△": "-", "▲": "-", "+": "+"}  # NFKC leaves these apart


def fold(value: str) -> str:
    """Write full-width characters as half-width ones, without blanks around.

    >>> fold("　１，２３４円 ")
    '1,234円'
    """
    return unicodedata.normalize("NFKC", value).strip(BLANKS)


# --- numbers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class NumberFormat:
    """How numbers are written: what stands before and behind, what parts thousands, what marks the decimals."""

    prefix: str
    group: str
    point: str
    suffix: str

    def read(self, value: str) -> Fraction | None:
        """Read a number exactly; None if the text is written another way.

        What stands before and behind must be there; thousands stand in groups of three, or without any mark. An
        exponent of ten may follow, as programs write it (7.5e-05).

        >>> price = read_number_format("1,234円")
        >>> [price.read(text) for text in ("1,234円", "１２３円", "△5円", "(1,200円)", "12,34円", "5千円", "5")]
        [Fraction(1234, 1), Fraction(123, 1), Fraction(-5, 1), Fraction(-1200, 1), None, None, None]
        """
        text = fold(value) if len(value) <= _LONGEST_TEXT else ""
        is_negative = text.startswith("(") and text.endswith(")")
        sign, text = self._take_sign(text[1:-1].strip() if is_negative else text)
        if not text.startswith(self.prefix) or not text.endswith(self.suffix):
            return None
        text = text.removeprefix(self.prefix).removesuffix(self.suffix).strip()
        second, text = self._take_sign(text)  # ¥-5 as well as -¥5
        match = _compile_number(self.group, self.point).fullmatch(text)
        if match is None or is_negative + bool(sign) + bool(second) > 1:
            return None
        digits = match.group(1).replace(self.group, "") if self.group else match.group(1)
        number = Fraction(f"{digits}.{match.group(2) or '0'}e{match.group(3) or '0'}")
        return -number if is_negative or "-" in (sign, second) else number

    def _take_sign(self, text: str) -> tuple[str, str]:
        return (_MINUS[text[0]], text[1:].lstrip()) if text[:1] in _MINUS else ("", text)


@lru_cache(maxsize=64)
def _compile_number(group: str, point: str) -> re.Pattern[str]:
    whole = rf"[0-9]{{1,3}}(?:{re.escape(group)}[0-9]{{3}})+|[0-9]+" if group else r"[0-9]+"
    return re.compile(rf"({whole})(?:{re.escape(point)}([0-9]*))?(?:[eE]([+-]?[0-9]{{1,3}}))?")


@lru_cache(maxsize=256)
def read_number_format(example: str) -> NumberFormat:
    """Read how numbers are written from an example of 1234 or 1234.5, such as "1,234円", "¥1234" or "1.234,5".

    Error: SchemaError if the example is no such number.

    >>> read_number_format("1.234,5 kg")
    NumberFormat(prefix='', group='.', point=',', suffix=' kg')
    """
    match = _EXAMPLE.fullmatch(unicodedata.normalize("NFKC", example).strip(BLANKS))
    if match is None:
        raise SchemaError(
            "format ({format}) must show how the number 1234 or 1234.5 is written, such as 1,234円, ¥1234 or 1.234,5",
            format=example,
        )
    group = match["group"]
    point = match["point"] or ("," if group == "." else ".")
    if point == group:
        raise SchemaError(
            "format ({format}) has one mark for thousands and for decimals; write it like 1,234.5 or 1.234,5",
            format=example,
        )
    return NumberFormat(prefix=match["prefix"].strip(), group=group, point=point, suffix=match["suffix"])


_LEADING_ZERO = re.compile(r"0[0-9]+")
_CURRENCY = re.compile(r"[¥\\$€£₩]|US\$|円|")
_UNIT = re.compile(
    r"[千百万億]*[円人名件歳才年月日回個台本枚点戸冊]|[千百万億]*円|世帯|時間|分|秒|ヶ月|か月|ポイント|%|℃|‰"
    r"|[kcm]?m[23]?|[km]?g|t|ha|k?W|kWh|[km]?[lL]|ドル|ユーロ|[¥$€£₩]|USD|EUR|JPY|",
)
_MARKED = re.compile(
    r"\(?[-−‐–△▲+]?([^0-9+−‐–△▲().,-]*)[-−‐–△▲+]?\s*([0-9][0-9., ']*(?:[eE][+-]?[0-9]{1,3})?)([^0-9()]*)\)?"
)


def find_number_format(values: Collection[str]) -> str | None:
    """Find the one example by which all texts are read as numbers; None if there is none, or plain reading does.

    All must have the same currency before and the same unit behind: 千円 beside 円 would not mean the same, and other
    letters make a code of a number.

    >>> find_number_format(["1,234円", "980円"]), find_number_format(["12", "3"]), find_number_format(["3円", "3千円"])
    ('1,234円', None, None)
    >>> find_number_format(["1.234,50 €", "7,25 €"])
    '1.234,5€'
    >>> find_number_format(["p1", "p2"]) is None, find_number_format(["０００１", "０００２"]) is None
    (True, True)
    """
    if any(_LEADING_ZERO.fullmatch(fold(value)) for value in values):
        return None  # a code, as with half-width digits
    shapes = [_MARKED.fullmatch(fold(value)) for value in values]
    matches = [shape for shape in shapes if shape is not None]
    if not matches or len(matches) < len(shapes) or all(to_number(value) is not None for value in values):
        return None
    prefixes = {match.group(1).strip() for match in matches}
    suffixes = {match.group(3).rstrip() for match in matches}
    is_amount = all(map(_CURRENCY.fullmatch, prefixes)) and all(_UNIT.fullmatch(mark.strip()) for mark in suffixes)
    if len(prefixes) > 1 or len(suffixes) > 1 or not is_amount:
        return None
    for core in ("1,234.5", "1234.5", "1.234,5", "1234,5", "1 234.5"):
        example = f"{prefixes.copy().pop()}{core}{suffixes.copy().pop()}"
        if all(read_number_format(example).read(value) is not None for value in values):
            return example.replace("234.5", "234")
    return None


# --- days -------------------------------------------------------------------------------------------------------------

ERAS = {"明治": (1868, 45), "大正": (1912, 15), "昭和": (1926, 64), "平成": (1989, 31), "令和": (2019, 9999)}
"""The first year of each era and its last year, counted in it."""

_ERA_OF = {**{name: name for name in ERAS}, **dict(zip("MTSHR", ERAS, strict=True)),
           **dict(zip("明大昭平令", ERAS, strict=True))}  # fmt: skip
_JAPANESE = re.compile(
    r"(?P<era>明治|大正|昭和|平成|令和|[MTSHR明大昭平令])?\s*(?P<year>元|[0-9]{1,4})\s*(?:年度?|[./-])"
    r"(?:\s*(?P<month>[0-9]{1,2})\s*(?:月|[./-]|$)(?:\s*(?P<day>[0-9]{1,2})\s*日?)?)?"
    r"(?:\s*\([月火水木金土日]\))?(?:[ T]\s*[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?)?"
)


def read_japanese_day(value: str) -> date | None:
    """Read a day in an era, or with 年, 月 and 日; without a day or month it is the first of it. None if it is none.

    >>> [str(read_japanese_day(text)) for text in ("令和６年４月１日", "R6.4.1", "S55/3/2", "2024年4月")]
    ['2024-04-01', '2024-04-01', '1980-03-02', '2024-04-01']
    >>> read_japanese_day("昭和70年1月1日"), read_japanese_day("2024/4/1")
    (None, datetime.date(2024, 4, 1))
    """
    text = fold(value).upper() if len(value) <= _LONGEST_TEXT else ""
    match = _JAPANESE.fullmatch(text)
    if match is None:
        return to_date(text)
    era, year = match["era"], 1 if match["year"] == "元" else int(match["year"])
    if era is None:
        if match["year"] == "元" or len(match["year"]) != 4:
            return None
    else:
        first, last = ERAS[_ERA_OF[era]]
        if not 1 <= year <= last:
            return None
        year += first - 1
    try:
        return date(year, int(match["month"] or 1), int(match["day"] or 1))
    except ValueError:
        return None


def write_era(day: date) -> str:
    """Name the year of a day in its era.

    >>> write_era(date(2024, 4, 1)), write_era(date(2019, 4, 30)), write_era(date(2019, 5, 1))
    ('令和6年', '平成31年', '令和元年')
    """
    for name, begin in _ERA_BEGINS:
        if day >= begin:
            year = day.year - ERAS[name][0] + 1
            return f"{name}{'元' if year == 1 else year}年"
    return f"{day.year}年"


_ERA_BEGINS = (
    ("令和", date(2019, 5, 1)),
    ("平成", date(1989, 1, 8)),
    ("昭和", date(1926, 12, 25)),
    ("大正", date(1912, 7, 30)),
    ("明治", date(1868, 10, 23)),
)


# --- labels as offices write them -------------------------------------------------------------------------------------

_INTERVAL = re.compile(r"\[(-?[0-9.]+),(-?[0-9.]+)([)\]])")
_DAY_INTERVAL = re.compile(r"\[([0-9]{4}-[0-9]{2}-[0-9]{2}),([0-9]{4}-[0-9]{2}-[0-9]{2})([)\]])")
_PERIOD = re.compile(r"([0-9]{4})(?:-([0-9]{2}))?(?:-([0-9]{2}))?")
_QUARTER = re.compile(r"([0-9]{4})-Q([1-4])")
_DECADE = re.compile(r"([0-9]{4})s")
_AGE = re.compile(r"(^|[_ .-])age([_ .-]|$)|年齢|満年|齢", re.IGNORECASE)
_SPECIAL = {MISSING_LABEL: "不明", OTHER_LABEL: "その他", TOP_LABEL: "すべて"}


def write_office_label(label: str | None, *, kind: str, name: str = "", suffix: str = "") -> str:
    """Write a label as Japanese offices do. Ages are counted in whole years, so their intervals name the last age.

    >>> write_office_label("[30,40)", kind="number", name="age")
    '30〜39歳'
    >>> write_office_label("[0,5.5)", kind="number", suffix="円")
    '0円以上5.5円未満'
    >>> write_office_label("2024-04", kind="date"), write_office_label("2019", kind="date")
    ('令和6年4月', '平成31年・令和元年')
    """
    if label is None or label in _SPECIAL:
        return _SPECIAL[MISSING_LABEL if label is None else label]
    if kind == "number" and (match := _INTERVAL.fullmatch(label)):
        is_age = bool(_AGE.search(name)) or suffix in ("歳", "才")
        return _write_numbers(match.group(1), match.group(2), match.group(3) == "]", "歳" if is_age else suffix, is_age)
    return _write_days(label) if kind == "date" else label


def _write_numbers(low: str, high: str, is_closed: bool, unit: str, is_age: bool) -> str:
    if is_age and low.isdecimal() and high.isdecimal():
        last = int(high) - (not is_closed)
        return f"{low}{unit}" if last == int(low) else f"{low}〜{last}{unit}"
    return f"{low}{unit}以上{high}{unit}{'以下' if is_closed else '未満'}"


def _write_days(label: str) -> str:
    if interval := _DAY_INTERVAL.fullmatch(label):
        first, last = date.fromisoformat(interval.group(1)), date.fromisoformat(interval.group(2))
        last -= timedelta(days=interval.group(3) == ")")
        return f"{_write_day(first)}〜{_write_day(last)}"
    if quarter := _QUARTER.fullmatch(label):
        month = int(quarter.group(2)) * 3 - 2
        return f"{write_era(date(int(quarter.group(1)), month, 1))}{month}〜{month + 2}月"
    if decade := _DECADE.fullmatch(label):
        return f"{decade.group(1)}年代"
    match = _PERIOD.fullmatch(label)
    if match is None:
        return label
    year, month, day = int(match.group(1)), int(match.group(2) or 0), int(match.group(3) or 0)
    if not month:
        return "・".join(dict.fromkeys((write_era(date(year, 1, 1)), write_era(date(year, 12, 31)))))
    return _write_day(date(year, month, day)) if day else f"{write_era(date(year, month, 1))}{month}月"


def _write_day(day: date) -> str:
    return f"{write_era(day)}{day.month}月{day.day}日"
