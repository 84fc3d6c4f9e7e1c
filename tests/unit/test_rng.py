"""The random stream: every byte once, in every process its own, and exact uniform draws made of it."""

from __future__ import annotations

import hashlib
import itertools
import multiprocessing
import os
import pickle
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from sudare.errors import ParameterError
from sudare.noise import rng as rng_module
from sudare.noise.rng import Rng, SeededRng, SystemRng, system_rng
from sudare.noise.selfcheck import fit

forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
quiet = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def replay(stream: bytes, **options: int) -> Rng:
    """A stream of given bytes, which fails where they end."""
    left = memoryview(stream)

    def generate(out: memoryview) -> None:
        nonlocal left
        if len(out) > len(left):
            raise EOFError
        out[:], left = left[: len(out)], left[len(out) :]

    return Rng(generate, buffer_bytes=1, **options)


def words(*values: int) -> bytes:
    return np.array(values, dtype="<u8").tobytes()


def key_stream(seed: int, size: int) -> bytes:
    """The stream of a seed, written down without the code under test."""
    key = hashlib.sha256(f"sudare test stream {seed} key 1".encode()).digest()
    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(size))


# --- the stream -----------------------------------------------------------------------------------------------------


def test_the_cipher_is_aes_256_with_a_counter_from_zero() -> None:
    stream = rng_module._aes_ctr(bytes(32)).update(bytes(16))

    assert stream.hex() == "dc95c078a2408989ad48a21492842087"  # FIPS 197: AES-256 of a zero block under a zero key


def is_whole(make: Callable[[int], Rng]) -> bool:
    """Whether draws of mixed sizes, strung together, are the key stream: nothing dropped, nothing twice."""
    sizes = [1, 2, 3, 5, 8, 13, 40, 7, 64, 1, 0, 100, 31]
    for buffer_bytes in (1, 2, 3, 7, 16, 33, 64, 4096):
        rng = make(buffer_bytes)
        drawn = b"".join(rng.bytes(size) for size in sizes)
        if drawn != key_stream(5, sum(sizes)):
            return False
    return True


def test_every_byte_is_handed_out_once_and_in_order_whatever_the_buffer() -> None:
    assert is_whole(lambda buffer_bytes: SeededRng(5, buffer_bytes=buffer_bytes))


class DropsAtTheEnd(SeededRng):
    """A mutant: throws away the rest of the buffer when a draw does not fit in it."""

    def _read(self, out: memoryview) -> None:
        if len(out) > len(self._buffer) - self._next:
            self._next = len(self._buffer)
        super()._read(out)


class RepeatsAtTheEnd(SeededRng):
    """A mutant: starts the buffer again when it is used up, once."""

    def _read(self, out: memoryview) -> None:
        if self._next == len(self._buffer) and not hasattr(self, "_was_reused"):
            self._was_reused = True
            self._generate(self._buffer)
            self._next = 0
            super()._read(out)
            self._next = 0
            return
        super()._read(out)


@pytest.mark.parametrize("mutant", [DropsAtTheEnd, RepeatsAtTheEnd])
def test_a_stream_that_drops_or_repeats_at_the_end_of_its_buffer_is_found(mutant: type[SeededRng]) -> None:
    assert not is_whole(lambda buffer_bytes: mutant(5, buffer_bytes=buffer_bytes))


def test_words_of_all_widths_read_the_same_bytes() -> None:
    stream = key_stream(5, 64)

    rng = SeededRng(5, buffer_bytes=3)
    drawn = [rng.words16(3).tobytes(), rng.words64(2).tobytes(), rng.bytes(5), rng.words16(1).tobytes()]

    assert b"".join(drawn) == stream[: 6 + 16 + 5 + 2]


def test_a_key_is_replaced_at_the_end_of_its_lifetime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rng_module, "KEY_LIFETIME_BYTES", 24)
    keys = [hashlib.sha256(f"sudare test stream 5 key {i}".encode()).digest() for i in (1, 2, 3)]
    streams = [rng_module._aes_ctr(key).update(bytes(24)) for key in keys]

    drawn = SeededRng(5, buffer_bytes=10).bytes(72)

    assert drawn == b"".join(streams)


def test_two_system_streams_differ_and_are_private() -> None:
    first, second = SystemRng(), SystemRng()

    assert first.is_private
    assert first.bytes(32) != second.bytes(32)


def test_the_same_seed_gives_the_same_stream_which_is_not_private() -> None:
    first, second = SeededRng(3), SeededRng(3)

    assert not first.is_private
    assert first.bytes(99) == second.bytes(99) != SeededRng(4).bytes(99)


def test_an_interrupted_draw_never_hands_out_its_bytes_again() -> None:
    rng = SeededRng(5, buffer_bytes=16)
    read_only = memoryview(bytes(4))

    with pytest.raises(TypeError):
        rng._read(read_only)

    assert rng.bytes(4) == key_stream(5, 8)[4:]


def test_without_the_cipher_bytes_come_from_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers", None)
    monkeypatch.setattr(os, "urandom", lambda size: b"\x07" * size)

    rng = SystemRng()

    assert rng.is_private
    assert rng.bytes(5000) == b"\x07" * 5000
    with pytest.raises(ParameterError, match="needs the package cryptography"):
        SeededRng(1)


def test_the_shared_stream_is_one_object() -> None:
    assert system_rng() is system_rng()


def test_a_system_stream_sent_elsewhere_arrives_with_another_key() -> None:
    rng = SystemRng()

    there = pickle.loads(pickle.dumps(rng))

    assert there.is_private
    assert there.bytes(32) != rng.bytes(32)


def test_a_seeded_stream_cannot_be_copied() -> None:
    with pytest.raises(TypeError, match="cannot be copied"):
        pickle.dumps(SeededRng(1))


# --- processes and threads ------------------------------------------------------------------------------------------


def in_child(draw: Callable[[], bytes]) -> bytes:
    """What a forked child draws."""
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(there, draw())
        finally:
            os._exit(0)
    os.close(there)
    with os.fdopen(here, "rb") as pipe:
        drawn = pipe.read()
    os.waitpid(child, 0)
    return drawn


@forking
@quiet
@pytest.mark.parametrize("cipher", [True, False])
def test_a_forked_child_draws_other_words_than_its_parent_and_its_siblings(cipher: bool) -> None:
    rng = SystemRng(cipher=cipher)
    rng.bytes(10)  # leaves a buffer that a naive child would share

    drawn = {in_child(lambda: rng.bytes(32)), in_child(lambda: rng.bytes(32)), rng.bytes(32)}

    assert len(drawn) == 3
    assert all(len(each) == 32 for each in drawn)


@forking
@quiet
def test_a_child_copied_behind_pythons_back_draws_other_words(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = SystemRng()
    rng.bytes(10)
    with monkeypatch.context() as patch:
        patch.setattr(rng_module, "_alive", ())  # the hook after fork finds no stream, as if it had not been called

        drawn = {in_child(lambda: rng.bytes(32)), in_child(lambda: rng.bytes(32)), rng.bytes(32)}

    assert len(drawn) == 3


@forking
@quiet
def test_a_child_can_draw_though_a_thread_of_the_parent_was_drawing() -> None:
    rng = SystemRng()

    with rng._lock:
        drawn = in_child(lambda: rng.bytes(32))

    assert len(drawn) == 32


def draw_in_worker(_: int) -> bytes:
    return system_rng().bytes(32)


@forking
@quiet
def test_workers_of_a_pool_draw_different_words() -> None:
    mine = system_rng().bytes(32)

    with multiprocessing.get_context("fork").Pool(3) as pool:
        drawn = pool.map(draw_in_worker, range(12), chunksize=1)

    assert len({mine, *drawn}) == 13


def test_threads_share_the_stream_without_losing_or_repeating_a_block() -> None:
    rng = SeededRng(5, buffer_bytes=48)
    drawn: list[list[bytes]] = [[] for _ in range(8)]

    def draw(mine: list[bytes]) -> None:
        mine.extend(rng.bytes(16) for _ in range(500))

    threads = [threading.Thread(target=draw, args=(mine,)) for mine in drawn]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stream = key_stream(5, 8 * 500 * 16)

    assert sorted(itertools.chain(*drawn)) == sorted(stream[i : i + 16] for i in range(0, len(stream), 16))


# --- exact draws ----------------------------------------------------------------------------------------------------


def test_below_gives_every_value_the_same_number_of_inputs() -> None:
    # every first byte that is accepted, of all 256: width 3 of 5 values
    drawn = []
    for octet in range(256):
        try:
            drawn.append(replay(bytes([octet])).below(5))
        except EOFError:  # rejected: asks for the next byte
            continue

    assert [drawn.count(value) for value in range(5)] == [32] * 5


def test_a_bound_of_any_size_is_kept() -> None:
    bound = 3**400

    drawn = [SeededRng(seed).below(bound) for seed in range(50)]

    assert all(0 <= value < bound for value in drawn)
    assert max(drawn) > bound // 2
    assert SeededRng(1).below(1) == 0


def test_bits_are_as_many_as_asked_for() -> None:
    drawn = [SeededRng(seed).bits(13) for seed in range(200)]

    assert SeededRng(1).bits(0) == 0
    assert max(drawn).bit_length() == 13


def test_a_word_beyond_the_last_whole_multiple_is_drawn_again() -> None:
    # 2**64 = 1 (mod 3): the word 2**64 - 1 would make 0 more likely than 1 and 2
    drawn = replay(words(2**64 - 1, 5)).uniform_below(3, 1)

    assert drawn.tolist() == [2]


def test_a_power_of_two_rejects_no_word() -> None:
    drawn = replay(words(2**64 - 1, 2**62)).uniform_below(2**62, 2)

    assert drawn.tolist() == [2**62 - 1, 0]


@pytest.mark.parametrize("bound", [1, 2, 7, 1000])
def test_uniform_draws_are_uniform(bound: int) -> None:
    drawn = SeededRng(11).uniform_below(bound, 1_000_000)

    assert drawn.dtype == np.int64
    assert fit(np.bincount(drawn), np.full(bound, 1 / bound)).p_value > 1e-4


def test_uniform_draws_reach_up_to_the_largest_bound() -> None:
    drawn = SeededRng(11).uniform_below(2**63 - 1, 1000)

    assert drawn.min() >= 0
    assert drawn.max() > 2**62


@pytest.mark.parametrize("bound", [0, -1])
def test_a_bound_below_one_is_refused(bound: int) -> None:
    with pytest.raises(ParameterError, match="must be at least 1"):
        SeededRng(1).below(bound)
    with pytest.raises(ParameterError, match="must be at least 1"):
        SeededRng(1).uniform_below(bound, 3)


def test_a_bound_beyond_64_bits_is_refused_for_arrays() -> None:
    with pytest.raises(ParameterError, match="below 2"):
        SeededRng(1).uniform_below(2**63, 3)


def test_every_permutation_is_as_likely() -> None:
    rng = SeededRng(12)
    orders = {order: place for place, order in enumerate(itertools.permutations(range(4)))}

    drawn = [orders[tuple(rng.permutation(4).tolist())] for _ in range(24_000)]

    assert fit(np.bincount(drawn, minlength=24), np.full(24, 1 / 24)).p_value > 1e-4


def test_equal_keys_are_drawn_again() -> None:
    drawn = replay(words(5, 9, 5) + words(7, 2, 9)).permutation(3)

    assert drawn.tolist() == [1, 0, 2]


def test_permutations_of_none_and_one() -> None:
    assert SeededRng(1).permutation(0).tolist() == []
    assert SeededRng(1).permutation(1).tolist() == [0]


@pytest.mark.parametrize(("n", "k"), [(6, 1), (6, 2), (6, 3), (6, 4), (6, 5)])
def test_every_subset_is_as_likely(n: int, k: int) -> None:
    rng = SeededRng(13)
    subsets = {subset: place for place, subset in enumerate(itertools.combinations(range(n), k))}

    drawn = [subsets[tuple(rng.subset(n, k).tolist())] for _ in range(10_000)]

    law = np.full(len(subsets), 1 / len(subsets))
    assert fit(np.bincount(drawn, minlength=len(subsets)), law).p_value > 1e-4


@pytest.mark.parametrize(("n", "k"), [(0, 0), (5, 0), (5, 5), (1000, 1), (1000, 700), (2**62, 2000), (2**63 - 1, 3)])
def test_subsets_are_sorted_distinct_and_inside(n: int, k: int) -> None:
    drawn = SeededRng(14).subset(n, k)

    assert drawn.dtype == np.int64
    assert len(drawn) == k
    assert np.all(np.diff(drawn) > 0)
    assert k == 0 or 0 <= drawn[0] <= drawn[-1] < n


def test_subsets_of_more_than_64_bits_are_python_integers() -> None:
    drawn = SeededRng(15).subset(10**30, 500).tolist()

    assert drawn == sorted(set(drawn))
    assert len(drawn) == 500
    assert all(type(member) is int for member in drawn)
    assert 10**29 < max(drawn) < 10**30


@pytest.mark.parametrize(("n", "k"), [(3, 4), (3, -1), (2**70, 2**71)])
def test_a_subset_that_does_not_exist_is_refused(n: int, k: int) -> None:
    with pytest.raises(ParameterError, match="must be between 0 and n"):
        SeededRng(1).subset(n, k)
