"""A uniform real number whose bits are drawn when a comparison needs them."""

from __future__ import annotations

from collections.abc import Callable

from sudare.mechanisms.rng import Rng

FIRST_BITS = 64


class LazyUniform:
    """U uniform in [0, 1), of which the first `bits` bits are known: word <= U * 2**bits < word + 1.

    Comparing U with a real number asks for bits until they decide. So an event "U < t" has probability t exactly, and
    several comparisons of one U agree with each other.
    """

    __slots__ = ("_rng", "bits", "word")

    def __init__(self, rng: Rng, *, word: int | None = None, bits: int = FIRST_BITS) -> None:
        self._rng = rng
        self.bits = bits
        self.word = rng.bits(bits) if word is None else word

    def is_below(self, threshold: Callable[[int], tuple[int, int]]) -> bool:
        """Tell whether U < t, where threshold(bits) bounds 2**bits * t by integers.

        >>> from sudare.mechanisms.rng import SeededRng
        >>> LazyUniform(SeededRng(1), word=2, bits=2).is_below(lambda bits: (3 * 2**bits // 4, 3 * 2**bits // 4))
        True
        """
        while True:
            low, high = threshold(self.bits)
            if self.word < low:
                return True
            if self.word >= high:
                return False
            self._refine()

    def _refine(self) -> None:
        self.word = self.word << self.bits | self._rng.bits(self.bits)
        self.bits *= 2
