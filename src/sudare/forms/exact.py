"""Numbers as people write them: exact fractions, never rounded floats.

"0.1" means one tenth and "1/2" one half, also when typed in full width (１／２). A float is taken by its shortest text.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from numbers import Integral

# Long enough for every float and every number a person types; short enough that sums of them stay cheap.
MAX_CHARACTERS = 100
MAX_DIGITS = 60

_FRACTION = re.compile(r"([+-]?[0-9]+)\s*/\s*([0-9]+)")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
# A plain shift of the full-width forms of ASCII, so that "1²" stays no number, as str.isdigit would not have it.
HALF_WIDTH = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)}


def parse_exact(value: object) -> Fraction | None:
    """Give the exact number that was written, or None for what is no finite number of a sensible length.

    >>> parse_exact("1/2"), parse_exact(0.1), parse_exact("1e-3"), parse_exact("１／２")
    (Fraction(1, 2), Fraction(1, 10), Fraction(1, 1000), Fraction(1, 2))
    >>> parse_exact("x"), parse_exact("1/0"), parse_exact(True)
    (None, None, None)
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, Fraction):
        return plain(value)
    if isinstance(value, Integral):
        return Fraction(int(value))
    if isinstance(value, float):
        return _parse_text(float.__repr__(value))  # NumPy's own repr is "np.float64(0.1)"
    if isinstance(value, Decimal):
        return _parse_text(str(value))  # Fraction(Decimal("1e999999999")) would fill the memory
    if isinstance(value, str):
        return _parse_text(value)
    return None


def plain(number: Fraction) -> Fraction:
    """Give the fraction with Python's own integers: one made of NumPy's would overflow without a word.

    >>> plain(Fraction(1, 2))
    Fraction(1, 2)
    """
    return Fraction(int(number.numerator), int(number.denominator))


def _parse_text(text: str) -> Fraction | None:
    if len(text) > MAX_CHARACTERS:
        return None
    text = text.translate(HALF_WIDTH).strip()
    if ratio := _FRACTION.fullmatch(text):
        above, below = int(ratio[1]), int(ratio[2])
        return Fraction(above, below) if below else None
    return Fraction(text) if _DECIMAL.fullmatch(text) else None
