"""How much noise HDPView's stop tests need: the exact worst loss of all tests of a path, and the scale that spends it.

A test goes on if b + Z > 0, b = max(AE - delta * depth, 2 - delta). One record more or less changes AE by at most 2,
and AE falls along a path, so b falls by at least delta a level until it reaches its floor, where neighbours are alike.
The paper of PrivTree bounds the sum of the losses by 4 * 2 / scale. The largest sum there is can be computed instead;
it is a quarter to two thirds of that, and the noise is as much smaller. Proof: proofs/view.md, "Blocks: HDPView"
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

from sudare.methods.view.cuts import AE_SENSITIVITY
from sudare.noise.rows import bound_log_exceeding

BRANCHES = 2
GRAIN = 256  # scales are tried in steps of 1/256 of sensitivity/epsilon: so near does the loss come to what is charged
LARGEST_FACTOR = 4  # times sensitivity/epsilon: the bound of the paper, at which the loss is less than epsilon
NEGLIGIBLE = 64  # scales above 0 from which all tests of a path together lose less than REST
REST = Fraction(1, 2**90)


def stop_decay(scale: Fraction) -> int:
    """delta = lambda * ln a, up to the next whole number, and at least what lets an empty block rather stop than go on.

    Without a least one, empty blocks would double at every level where epsilon is large.
    """
    return max(AE_SENSITIVITY, math.ceil(float(scale) * math.log(BRANCHES)))


@functools.lru_cache(maxsize=256)
def stop_scale(epsilon: Fraction, *, tests: int) -> Fraction:
    """Find a scale whose tests lose at most epsilon along any path, and nearly that: found in floats, proven exactly.

    >>> scale = stop_scale(Fraction(81, 100), tests=20)
    >>> float(scale), float(bound_path_loss(scale, tests=20)) < 0.81
    (4.0798..., True)
    """
    unit = AE_SENSITIVITY / Fraction(epsilon) / GRAIN
    low, high = GRAIN - 1, LARGEST_FACTOR * GRAIN
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _estimate_path_loss(middle * unit, tests) <= epsilon else (middle, high)
    while bound_path_loss(high * unit, tests=tests) > epsilon:
        high += 1
    return high * unit


def bound_path_loss(scale: Fraction, *, tests: int) -> Fraction:
    """Bound the loss of all stop tests of a path from above, within 2**-90: the largest over all pairs of tables.

    With F = 2 - delta the floor, g(b) = ln (1 + a) P[b + Z > 0] and h(b) = g(b + 2) - g(b), it is the largest of

        sum over k >= 0 of h(F + k delta)                             all tests go on, the last one from the floor
        g(F + 1) - g(F) + sum over k >= 1 of h(F - 1 + k delta)       the same, one below
        g(1 - max(b - 2, F)) - g(1 - b) + sum over k >= 1 of h(b + k delta)      the last one stops at b

    For 4 - delta <= b <= 0 the last is convex in b, and for b >= 3 it falls: a few b are enough.
    """
    decay = stop_decay(scale)
    floor = AE_SENSITIVITY - decay
    losses = [
        _add_up(floor, decay, scale, tests),
        _gain(floor, floor + 1, scale) + _add_up(floor - 1 + decay, decay, scale, tests - 1),
    ]
    for last in {*range(floor, floor + 3), *range(4)}:
        stop = _gain(1 - last, 1 - max(last - AE_SENSITIVITY, floor), scale)
        losses.append(stop + _add_up(last + decay, decay, scale, tests - 1))
    return max(losses)


def _add_up(start: int, decay: int, scale: Fraction, terms: int) -> Fraction:
    """Bound h(start) + h(start + decay) + ... from above; what is left out beyond 64 scales is less than REST."""
    total, level = REST, start
    for _ in range(max(0, terms)):
        if level > NEGLIGIBLE * scale:
            break
        total += _gain(level, level + AE_SENSITIVITY, scale)
        level += decay
    return total


def _gain(low: int, high: int, scale: Fraction) -> Fraction:
    """Bound g(high) - g(low) from above."""
    return bound_log_exceeding(high, scale)[1] - bound_log_exceeding(low, scale)[0]


def _estimate_path_loss(scale: Fraction, tests: int) -> float:
    """The first and the third sum of `bound_path_loss` in floats, to find a scale."""
    size, decay = float(scale), stop_decay(scale)
    a = math.exp(-1 / size)

    def log_exceeding(level: int) -> float:
        return (level - 1) / size if level <= 0 else math.log1p(a - math.exp(-level / size))

    def add_up(start: int, terms: int) -> float:
        levels = range(start, start + decay * min(terms, 2 * NEGLIGIBLE), decay)
        return sum(log_exceeding(level + AE_SENSITIVITY) - log_exceeding(level) for level in levels)

    stops = max(
        log_exceeding(1 - max(last - AE_SENSITIVITY, AE_SENSITIVITY - decay))
        - log_exceeding(1 - last)
        + add_up(last + decay, tests - 1)
        for last in range(4)
    )
    return max(add_up(AE_SENSITIVITY - decay, tests), stops)
