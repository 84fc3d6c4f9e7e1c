"""Random words of cryptographic quality, and exact uniform draws made of them.

The words are the key stream of AES-256 in counter mode under a key of the operating system. A stream hands out every
byte once, in order: bytes left in the buffer are read before new ones are made, so that no draw is dropped or
repeated where a buffer ends. What is assumed and what is not covered: proofs/randomness.md.
"""

from __future__ import annotations

import functools
import hashlib
import os
import threading
import weakref
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sudare.errors import ParameterError
from sudare.noise.enclosure import exp_minus

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

Octets = bytes  # the name `bytes` belongs to a method below
Fill = Callable[[memoryview], None]  # writes the next bytes of a stream

WORD_BITS = 64  # of the words that samplers read
BUFFER_BYTES = 4096
KEY_BYTES = 32
KEY_LIFETIME_BYTES = 2**26  # under one key: 2**22 blocks, 2**-85 away from random words by the birthday bound
LARGEST_BOUND = 2**63 - 1
SPARSE_SUBSET = 16  # a subset of less than one in so many is drawn member by member
_ZEROS = memoryview(bytes(2**16))


class Rng:
    """A stream of random bytes and the exact draws made of it; safe to share between threads.

    Subclasses say where the bytes come from: `SystemRng` for releases, `SeededRng` for tests.
    """

    is_private = False

    def __init__(self, generate: Fill, *, buffer_bytes: int = BUFFER_BYTES) -> None:
        self._generate = generate
        self._lock = threading.Lock()
        self._buffer = memoryview(bytearray(buffer_bytes))
        self._next = buffer_bytes  # the first unread byte of the buffer
        _alive.add(self)

    def fill(self, out: NDArray[Any]) -> None:
        """Overwrite a one-dimensional contiguous array with the next bytes of the stream."""
        if out.size:
            with self._lock:
                self._read(memoryview(out.view(np.uint8)))  # type: ignore[arg-type]  # stubs before Python 3.12

    def _read(self, out: memoryview) -> None:
        self._check_process()
        while len(out):
            if self._next == len(self._buffer) and len(out) >= len(self._buffer):
                return self._generate(out)
            if self._next == len(self._buffer):
                self._generate(self._buffer)
                self._next = 0
            start, self._next = self._next, min(self._next + len(out), len(self._buffer))
            # the bytes count as read before they are copied: an interrupt may lose them, never hand them out twice
            taken = self._next - start
            out[:taken] = self._buffer[start : self._next]
            out = out[taken:]

    def _check_process(self) -> None:
        """Start a stream of its own where the process was copied; by default nothing changes."""

    def _after_fork(self) -> None:
        self._lock = threading.Lock()  # the old one may be held by a thread that does not exist in the child

    def bytes(self, n: int) -> Octets:
        """Draw n bytes.

        >>> len(SeededRng(1).bytes(5))
        5
        """
        out = np.empty(n, dtype=np.uint8)
        self.fill(out)
        return out.tobytes()

    def words16(self, n: int) -> NDArray[np.uint16]:
        """Draw n words of 16 bits."""
        out = np.empty(n, dtype="<u2")  # little-endian everywhere, so that a seed means the same on every machine
        self.fill(out)
        return out.astype(np.uint16, copy=False)

    def words64(self, n: int) -> NDArray[np.uint64]:
        """Draw n words of 64 bits."""
        out = np.empty(n, dtype="<u8")
        self.fill(out)
        return out.astype(np.uint64, copy=False)

    def bits(self, n: int) -> int:
        """Draw a uniform integer of n bits.

        >>> 0 <= SeededRng(1).bits(10) < 2**10
        True
        """
        octets = -(-n // 8)
        return int.from_bytes(self.bytes(octets), "little") >> (8 * octets - n)

    def below(self, bound: int) -> int:
        """Draw a uniform integer of range(bound), for a bound of any size.

        Exact: integers of as many bits as bound - 1 has are drawn until one is below the bound.

        >>> 0 <= SeededRng(1).below(10**30) < 10**30
        True
        """
        _require_positive(bound)
        width = (bound - 1).bit_length()
        while True:
            drawn = self.bits(width)
            if drawn < bound:
                return drawn

    def uniform_below(self, bound: int, size: int) -> NDArray[np.int64]:
        """Draw `size` independent uniform integers of range(bound), bound < 2**63.

        Exact: a 64-bit word counts if it is below the largest multiple of the bound, and is then reduced.

        >>> bool((SeededRng(1).uniform_below(6, 1000) < 6).all())
        True
        """
        _require_positive(bound)
        if bound > LARGEST_BOUND:
            raise ParameterError("bound ({bound}) must be below 2**63; use below() one by one", bound=bound)
        top = np.uint64(2**64 // bound * bound - 1)
        out = np.empty(size, dtype=np.int64)
        filled = 0
        while filled < size:
            words = self.words64(size - filled)
            words = words[words <= top]
            out[filled : filled + len(words)] = words % np.uint64(bound)
            filled += len(words)
        return out

    def permutation(self, n: int) -> NDArray[np.int64]:
        """Draw a uniform permutation of range(n).

        Exact: the order of n random keys, all of them drawn again if two are equal. Given that they differ, every order
        has the same probability.

        >>> sorted(SeededRng(1).permutation(5).tolist())
        [0, 1, 2, 3, 4]
        """
        while True:
            keys = self.words64(n)
            order = np.argsort(keys)
            ordered = keys[order]
            if not np.any(ordered[1:] == ordered[:-1]):
                return order.astype(np.int64, copy=False)

    def subset(self, n: int, k: int) -> NDArray[Any]:
        """Draw a uniform subset of k members of range(n), sorted; int64, or Python integers when n exceeds 2**63.

        Exact: the first k distinct values of independent uniform draws, or the places of the k least of n random keys
        (drawn again where the k-th is not less than the next); any k-subset is as likely as another.

        >>> len(set(SeededRng(1).subset(2**70, 3).tolist()))
        3
        """
        if not 0 <= k <= n:
            raise ParameterError("k ({k}) must be between 0 and n ({n})", k=k, n=n)
        if n > LARGEST_BOUND:
            return self._subset_of_many(n, k)
        if SPARSE_SUBSET * k > n:
            return self._subset_by_keys(n, k)
        drawn = np.empty(0, dtype=np.int64)
        first_places = drawn
        while len(first_places) < k:
            more = self.uniform_below(n, k - len(first_places) + 8)
            drawn = np.concatenate([drawn, more])
            first_places = np.unique(drawn, return_index=True)[1]  # where each value was drawn first
        return np.sort(drawn[np.sort(first_places)[:k]])

    def _subset_by_keys(self, n: int, k: int) -> NDArray[np.int64]:
        while True:
            keys = self.words64(n)
            members = np.flatnonzero(keys <= np.partition(keys, k - 1)[k - 1])
            if len(members) == k:
                return members.astype(np.int64, copy=False)

    def _subset_of_many(self, n: int, k: int) -> NDArray[Any]:
        seen: set[int] = set()
        while len(seen) < k:
            seen.add(self.below(n))
        members = np.empty(k, dtype=object)
        members[:] = sorted(seen)
        return members


class SystemRng(Rng):
    """The stream for releases: AES-256-CTR under keys of the operating system, fresh in every process.

    Without the package `cryptography` (or with cipher=False) every byte comes from os.urandom: slower, as safe.

    >>> SystemRng().is_private
    True
    """

    is_private = True

    def __init__(self, *, cipher: bool = True, buffer_bytes: int = BUFFER_BYTES) -> None:
        self._cipher = cipher and _has_cipher()
        self._process = os.getpid()
        super().__init__(self._new_stream(), buffer_bytes=buffer_bytes)

    def _new_stream(self) -> Fill:
        return _KeyStream(lambda: os.urandom(KEY_BYTES)).generate if self._cipher else _read_system

    def _check_process(self) -> None:
        # os.register_at_fork misses processes copied by C code; their number gives them away
        if self._process != os.getpid():
            self._rekey()

    def _rekey(self) -> None:
        self._process = os.getpid()
        self._next = len(self._buffer)
        self._generate = self._new_stream()

    def _after_fork(self) -> None:
        super()._after_fork()
        self._rekey()

    def __reduce__(self) -> tuple[object, ...]:
        """Arrive in another process (or as a copy) with a stream of its own."""
        return _rebuild, (self._cipher, len(self._buffer))


class SeededRng(Rng):
    """The same stream under a key made of a seed, for tests only: what it draws protects nobody.

    >>> SeededRng(7).bits(64) == SeededRng(7).bits(64)
    True
    """

    def __init__(self, seed: int, *, buffer_bytes: int = BUFFER_BYTES) -> None:
        if not _has_cipher():
            raise ParameterError("a seeded stream needs the package cryptography; install it")
        self.seed = seed
        self._keys = 0
        super().__init__(_KeyStream(self._next_key).generate, buffer_bytes=buffer_bytes)

    def _next_key(self) -> Octets:
        self._keys += 1
        return hashlib.sha256(f"sudare test stream {self.seed} key {self._keys}".encode()).digest()

    def __reduce__(self) -> tuple[object, ...]:
        """Refuse to be copied: two copies would draw the same noise."""
        raise TypeError("a SeededRng cannot be copied")


@functools.cache
def system_rng() -> SystemRng:
    """Give the process's shared stream for releases.

    >>> system_rng() is system_rng()
    True
    """
    return SystemRng()


class _KeyStream:
    """The key stream of AES-256-CTR; a key serves KEY_LIFETIME_BYTES and is then replaced."""

    def __init__(self, new_key: Callable[[], Octets]) -> None:
        self._new_key = new_key
        self._left = 0
        self._context: CipherContext

    def generate(self, out: memoryview) -> None:
        while len(out):
            if self._left == 0:
                self._context, self._left = _aes_ctr(self._new_key()), KEY_LIFETIME_BYTES
            size = min(len(out), self._left, len(_ZEROS))
            self._left -= size
            self._context.update_into(_ZEROS[:size], out[:size])
            out = out[size:]


def _aes_ctr(key: Octets) -> CipherContext:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    # a key is used for one stream only, so that the counter may start at zero
    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()


def _has_cipher() -> bool:
    try:
        import cryptography.hazmat.primitives.ciphers  # noqa: F401
    except ImportError:
        return False
    return True


def _read_system(out: memoryview) -> None:
    out[:] = os.urandom(len(out))


def _rebuild(cipher: bool, buffer_bytes: int) -> SystemRng:
    return SystemRng(cipher=cipher, buffer_bytes=buffer_bytes)


def _require_positive(bound: int) -> None:
    if bound < 1:
        raise ParameterError("bound ({bound}) must be at least 1", bound=bound)


_alive: weakref.WeakSet[Rng] = weakref.WeakSet()


def _start_anew_in_child() -> None:
    for rng in list(_alive):
        rng._after_fork()


if hasattr(os, "register_at_fork"):  # nothing forks where it is missing
    os.register_at_fork(after_in_child=_start_anew_in_child)


# --- a uniform real number whose bits are drawn when a comparison needs them ----------------------------------------

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

        >>> from sudare.noise.rng import SeededRng
        >>> LazyUniform(SeededRng(1), word=2, bits=2).is_below(lambda bits: (3 * 2**bits // 4, 3 * 2**bits // 4))
        True
        """
        while True:
            low, high = threshold(self.bits)
            if self.word < low:
                return True
            if self.word >= high:
                return False
            self.refine(2 * self.bits)

    def is_below_exp(self, x: Fraction) -> bool:
        """Tell whether U < exp(-x), x >= 0: yes with probability exp(-x), exactly.

        >>> from sudare.noise.rng import SeededRng
        >>> LazyUniform(SeededRng(1)).is_below_exp(Fraction(0))
        True
        """

        def enclose_exp(bits: int) -> tuple[int, int]:
            bounds = exp_minus(x, bits)
            return bounds.low, bounds.high

        return self.is_below(enclose_exp)

    def refine(self, bits: int) -> None:
        """Draw bits until at least so many are known, doubling them."""
        while self.bits < bits:
            self.word = self.word << self.bits | self._rng.bits(self.bits)
            self.bits *= 2
