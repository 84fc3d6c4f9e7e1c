"""Privelet, Privelet+ and the nominal wavelet: whole-number transforms, exact sensitivities, variance of blocks."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from papers.baselines.privelet import Haar, Nominal, NoTransform, Privelet, Transform, block_variance
from sudare.counts import Counts
from sudare.errors import ParameterError
from sudare.noise import SeededRng
from sudare.schema import Attribute, NumberBins, Schema, TableHierarchy, Values

TRANSFORMS: list[Transform] = [
    NoTransform(5),
    Haar(1),
    Haar(5),
    Haar(8),
    Nominal((np.array([0, 0, 0, 1, 1]),)),
    Nominal((np.array([0, 0, 1, 2, 2, 2]), np.array([0, 0, 1]))),
    Nominal((np.zeros(4, dtype=np.int64),)),
    Nominal((np.array([0, 1, 1]),)),  # an only child
]
SIZES = [5, 1, 5, 8, 5, 6, 4, 3]


def line(size: int) -> Schema:
    values = Values(tuple(str(value) for value in range(size)), is_ordered=True)
    return Schema(name="line", attributes=(Attribute(name="cell", domain=values),))


@pytest.mark.parametrize(("transform", "size"), list(zip(TRANSFORMS, SIZES, strict=True)))
def test_every_transform_is_undone_by_its_inverse(transform: Transform, size: int) -> None:
    values = np.random.default_rng(1).integers(0, 100, size)
    back = transform.inverse(transform.forward(values).astype(float))

    assert back == pytest.approx(values)


@pytest.mark.parametrize(("transform", "size"), list(zip(TRANSFORMS, SIZES, strict=True)))
def test_one_record_costs_exactly_what_is_stated(transform: Transform, size: int) -> None:
    """sum |c|/w over all cells a record may be in: the largest is the cost; weight 0 goes with coefficients of 0."""
    weights = transform.weights
    found = []
    for cell in range(size):
        coefficients = transform.forward(np.eye(size, dtype=np.int64)[cell])
        assert not coefficients[weights == 0].any()

        found.append(float((np.abs(coefficients[weights > 0]) / weights[weights > 0]).sum()))

    assert max(found) == pytest.approx(transform.cost)


def test_haar_noise_is_that_of_the_paper() -> None:
    method = Privelet(epsilon="1/10")

    assert method.scale(line(2**19), "replace") == 400  # 2 (1 + 19)/0.1
    assert method.scale(line(2**19), "add-remove") == 200


def test_attributes_with_a_hierarchy_take_the_nominal_wavelet() -> None:
    paths = [(f"m{k}", f"p{k // 4}", f"r{k // 8}") for k in range(16)]
    town = Attribute(name="town", domain=Values(tuple(p[0] for p in paths)), hierarchy=TableHierarchy.from_paths(paths))
    method = Privelet(epsilon=1)
    schema = Schema(name="towns", attributes=(town,))

    assert isinstance(method.transforms(schema)[0], Nominal)
    assert method.scale(schema, "add-remove") == 4  # root, region, prefecture, town


def test_privelet_plus_leaves_small_attributes_alone() -> None:
    sex = Attribute(name="sex", domain=Values(("F", "M")))
    schema = Schema(name="both", attributes=(sex, *line(4096).attributes))
    kinds = [type(one) for one in Privelet(epsilon=1, kind="privelet+").transforms(schema)]

    assert kinds == [NoTransform, Haar]


def test_the_variance_of_blocks_is_the_stated_one() -> None:
    """256 cells, epsilon 1, 600 runs: variances of blocks of 1, 16, 128 and 256 cells within 12 %."""
    counts = Counts.build(line(256), [3], [1000])
    method, rng = Privelet(epsilon=1), SeededRng(1)
    outs = np.array([method.estimate(counts, rng=rng) for _ in range(600)]) - counts.dense()
    scale = float(method.scale(counts.schema))
    for block_levels in (0, 4, 7, 8):
        sums = outs.reshape(600, -1, 2**block_levels).sum(axis=2)
        stated = block_variance(8, block_levels, scale)

        assert float(sums.var()) == pytest.approx(stated, rel=0.12)
    assert abs(float(outs.mean())) < 1.0


def test_several_attributes_are_unbiased_and_have_the_noise_of_their_product() -> None:
    sizes = (4, 3)
    attributes = tuple(Attribute(name=f"a{s}", domain=NumberBins.of_width(0, s, 1)) for s in sizes)
    counts = Counts.build(Schema(name="grid", attributes=attributes), [[5]], [100])
    method, rng = Privelet(epsilon=2), SeededRng(2)
    outs = np.array([method.estimate(counts, rng=rng) for _ in range(1500)])

    assert method.scale(counts.schema) == 9  # 2 * 3 * 3/2
    assert np.abs(outs.mean(axis=0) - counts.dense()).max() < 5 * outs.std() / 1500**0.5


def test_the_drawn_table_is_never_negative_and_the_promise_is_for_either_relation() -> None:
    counts = Counts.build(line(20), [3], [40])
    method = Privelet(epsilon=1)

    assert (method.draw(counts, neighbours="add-remove", rng=SeededRng(1)).values > 0).all()
    assert method.guarantee(neighbours="add-remove").epsilon == Fraction(1)
    with pytest.raises(ParameterError):
        Privelet(epsilon=1, kind="other")  # type: ignore[arg-type]
