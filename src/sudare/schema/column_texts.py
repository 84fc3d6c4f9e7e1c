"""What the texts of a column look like: whole numbers that were given, marks among numbers, mesh codes, steps, classes.

Nothing here knows a schema: these are facts about texts, which a draft makes attributes of.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from fractions import Fraction

from sudare.schema.mesh import MESH_TEXT
from sudare.schema.office import find_number_format, fold, read_japanese_day
from sudare.schema.raw import to_number

LEAST_ROWS = 50  # a column of fewer rows may be unique by chance
LEAST_BY_CHANCE = (
    20  # repeated numbers, or gaps, that measured numbers would have: where there are none, they were given
)
MOST_WORDS = 3  # different words among the numbers of a column that are marks of missing ones
LEAST_NUMBERS = 20  # different numbers beside them: words among fewer are values as these are
LONGEST_WORD = 20  # characters of such a word
SHARE_OF_CODES = 0.95  # of the texts of a column that must be mesh codes; the rest are slips and marks
MISSING_CODES = frozenset(-int(digit * length) for digit in "789" for length in (2, 3, 4, 5))  # of surveys
MOST_CLASSES = 30  # different texts that are taken for classes in order, such as 20-29
GRAINS = tuple(
    Fraction(step)
    for step in (
        "1000000",
        "100000",
        "10000",
        "1000",
        "100",
        "10",
        "1",
        "0.5",
        "0.25",
        "0.1",
        "0.05",
        "0.01",
        "0.005",
        "0.001",
    )
)
LEAST_OF_TENS = (
    20  # different numbers, before tens, hundreds, thousands are taken for their grain: few may be so by chance
)

LEADING_ZERO = re.compile(r"\s*[+-]?0[0-9]")
PLAIN_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
MESH_CODE = re.compile(MESH_TEXT)


def are_given(texts: Sequence[str]) -> bool:
    """Tell whole numbers that were given to rows, persons or households from measured ones, by the rows of a sample.

    Numbers spread over a span of s leave s exp(-n/s) of it out in n rows, and n(n - 1)/2s pairs of rows share one, or
    more of both if they are spread unevenly. Where there should be many and there is none, somebody counted.

    >>> are_given([str(5 * row + 1) for row in range(500)]), are_given([str(n // 2) for n in range(900)])
    (True, True)
    """
    if len(texts) <= LEAST_ROWS or not all(map(PLAIN_INTEGER.fullmatch, texts)):
        return False
    numbers = {int(text) for text in texts}
    rows, span = len(texts), max(numbers) - min(numbers) + 1
    if len(numbers) == rows:
        return rows * (rows - 1) > 2 * LEAST_BY_CHANCE * span
    return len(numbers) == span and span * math.exp(-rows / span) > LEAST_BY_CHANCE


def find_words(texts: Sequence[str]) -> tuple[str, ...]:
    """Find the few words that stand among the numbers or days of a column, by the rows of a sample: X, withheld.

    The column would else be a list of texts. Words among few numbers are values as the numbers are.

    >>> find_words([*map(str, range(50)), "X"]), find_words(["1", "2", "ground"])
    (('X',), ())
    """
    counts = Counter(texts)
    words = tuple(
        sorted(value for value in counts if not any(map(str.isdigit, value)) and not read_japanese_day(value))
    )
    numbers = set(counts) - set(words)
    if not 0 < len(words) <= MOST_WORDS or len(numbers) < LEAST_NUMBERS or max(map(len, words)) > LONGEST_WORD:
        return ()
    is_plain = all(to_number(number) is not None and not LEADING_ZERO.match(number) for number in numbers)
    is_read = is_plain or find_number_format(numbers) is not None or all(map(read_japanese_day, numbers))
    return words if is_read else ()


def find_missing_codes(texts: Sequence[str]) -> tuple[str, ...]:
    """Find the codes of surveys for missing answers (-99), by the rows of a sample.

    They are the only numbers below 0, and each has several rows, so that no measurement gives them.

    >>> find_missing_codes(["3", "-99", "41", "-99", "7"]), find_missing_codes(["3", "-99", "-99", "-5"])
    (('-99',), ())
    """
    counts = Counter(texts)
    numbers = {text: to_number(text) for text in counts if text.startswith("-")}
    codes = tuple(sorted(text for text, number in numbers.items() if number in MISSING_CODES and counts[text] > 1))
    others = [text for text in counts if text not in numbers]
    is_read = len(others) > 1 and all(to_number(text) is not None for text in others)
    return codes if codes and len(codes) == len(numbers) and len(codes) <= MOST_WORDS and is_read else ()


TICKS = {"unix-seconds": 1, "unix-milliseconds": 10**3, "unix-microseconds": 10**6, "unix-nanoseconds": 10**9}
SECONDS_NAMED = 10**8, 41 * 10**8  # 1973 to 2099: numbers of a column that is named as moments are
SECONDS_UNNAMED = 10**9, 21 * 10**8  # September 2001 to 2036, where only the numbers tell


def find_ticks(low: Fraction, high: Fraction, *, is_named: bool) -> str | None:
    """Tell which part of a second since 1970 numbers count, by their ends; None if they seem to count none.

    >>> find_ticks(Fraction(1577836800), Fraction(1638316800), is_named=False)
    'unix-seconds'
    >>> find_ticks(Fraction(874724710000), Fraction(893286638000), is_named=True)
    'unix-milliseconds'
    """
    least, most = SECONDS_NAMED if is_named else SECONDS_UNNAMED
    return next((unit for unit, a_second in TICKS.items() if least <= low / a_second and high / a_second <= most), None)


def are_mesh_codes(texts: Collection[str], digits: int) -> bool:
    """Tell whether nearly all texts are mesh codes of so many digits that lie in Japan.

    >>> are_mesh_codes(["53394526", "53394527"], 8), are_mesh_codes(["99999999"], 8)
    (True, False)
    """
    codes = [text for text in texts if len(text) == digits and MESH_CODE.fullmatch(text) and is_in_japan(text)]
    return len(codes) >= SHARE_OF_CODES * len(texts)


def is_in_japan(code: str) -> bool:
    """Tell whether a mesh code lies in Japan, by its first four digits."""
    return 30 <= int(code[:2]) <= 68 and 22 <= int(code[2:4]) <= 53


def find_grain(numbers: Collection[Fraction]) -> Fraction | None:
    """The largest usual step that all of these different numbers are multiples of.

    >>> str(find_grain([Fraction("18.5"), Fraction("24.9")])), find_grain([Fraction(1, 3)])
    ('1/10', None)
    """
    steps = [step for step in GRAINS if step <= 1 or len(numbers) >= LEAST_OF_TENS]
    return next((step for step in steps if all((number / step).denominator == 1 for number in numbers)), None)


SCALES = (
    ("strongly disagree", "disagree", "somewhat disagree", "slightly disagree", "neutral", "neither agree nor disagree",
     "slightly agree", "somewhat agree", "agree", "strongly agree"),
    ("never", "rarely", "seldom", "sometimes", "occasionally", "often", "usually", "always"),
    ("very low", "low", "medium", "moderate", "middle", "high", "very high"),
    ("very poor", "poor", "bad", "fair", "average", "good", "very good", "excellent", "outstanding"),
    ("none", "mild", "moderate", "severe", "very severe"),
    ("xs", "s", "m", "l", "xl", "xxl"),
    ("small", "medium", "large"),
    ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
     "december"),
    ("mon", "tue", "wed", "thu", "fri", "sat", "sun"),
    ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"),
    ("月", "火", "水", "木", "金", "土", "日"),
    ("低い", "やや低い", "普通", "ふつう", "やや高い", "高い"),
    ("不満", "やや不満", "どちらともいえない", "普通", "ふつう", "やや満足", "満足"),
    ("そう思わない", "あまりそう思わない", "どちらともいえない", "ややそう思う", "そう思う"),
)  # fmt: skip
"""Words that people put in one order; a column may use some of a line."""

_FIGURE = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_CODE_TEXT = re.compile(r"[0-9]+|[^0-9]*[^\W0-9][^0-9]*[0-9]+")  # of a place, a group: its number is a name
_BELOW = re.compile(r"未満|以下|以前|under|below|less|younger|before|up to|[<≦≤]", re.IGNORECASE)
_ABOVE = re.compile(r"以上|以降|over|above|more|older|after|超|[>≧≥+]", re.IGNORECASE)


def order_classes(texts: Collection[str]) -> tuple[str, ...] | None:
    """Put the classes of a number into its order; None if the texts are none, or some stand beside each other.

    All but the two ends must say the same beside their numbers.

    >>> order_classes(["20-29", "100+", "under 20", "30-99"]), order_classes(["１級", "１０級", "２級"])
    (('under 20', '20-29', '30-99', '100+'), ('１級', '２級', '１０級'))
    >>> order_classes(["1 tea", "2 milk", "3 jam", "4 rice"]), order_classes(["plot 1", "plot 2", "plot 3"])
    (None, None)
    """
    folded = {text: re.sub(r"(?<=[0-9]),(?=[0-9]{3})", "", fold(text)) for text in texts}
    words = Counter(_FIGURE.sub("", text) for text in folded.values())
    if not 3 <= len(folded) <= MOST_CLASSES or len(folded) - max(words.values()) > 2:
        return None
    if all(map(_CODE_TEXT.fullmatch, folded.values())):
        return None
    places = {text: _place_class(text_folded) for text, text_folded in folded.items()}
    if None in places.values() or len(set(places.values())) < len(places):
        return None
    return tuple(sorted(places, key=lambda text: places[text] or (0, 0)))


def order_words(texts: Collection[str]) -> tuple[str, ...] | None:
    """Put words of a usual scale into its order; None if they are of none, or fewer than three.

    >>> order_words(["Very_High", "Low", "High"]), order_words(["tea", "milk", "jam"])
    (('Low', 'High', 'Very_High'), None)
    """
    words = {text: re.sub(r"[\s_-]+", " ", fold(text).casefold()) for text in texts}
    for scale in SCALES:
        if len(words) >= 3 and set(words.values()) <= set(scale) and len(set(words.values())) == len(words):
            return tuple(sorted(words, key=lambda text: scale.index(words[text])))
    return None


def _place_class(folded: str) -> tuple[float, float] | None:
    """Give the ends of a class, as its text tells them; None if it tells no number, or more than two."""
    figures = [float(figure) for figure in _FIGURE.findall(folded)]
    if not 1 <= len(figures) <= 2:
        return None
    if len(figures) == 1 and _BELOW.search(folded):
        return -math.inf, figures[0]
    if len(figures) == 1 and _ABOVE.search(folded):
        return figures[0], math.inf
    return figures[0], figures[-1]


def find_masking(values: Collection[str], *, is_code: bool) -> str | None:
    """Hide codes of one length from the right: postal codes, towns, classes of diseases.

    >>> find_masking(["13101", "13102", "27100", "27102"], is_code=False)
    '{ masking = "right", characters = 1 }'
    """
    lengths = {len(value) for value in values}
    are_codes = all(re.fullmatch(r"[A-Z]{0,2}[0-9]+[.-]?[0-9]*", value) for value in values)
    if len(lengths) > 1 or not are_codes or len(values) < 4:
        return None
    length = lengths.pop()
    if length < 3 and not is_code:
        return None
    return f'{{ masking = "right", characters = {2 if length >= 6 else 1} }}'
