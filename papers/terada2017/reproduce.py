"""Tables 1-6 of Terada 2017: L2 and KS distance of the proposed method, three sizes, six epsilons."""

import tomllib
from pathlib import Path

import numpy as np

from sudare.counts import Counts
from sudare.evaluate import ks_distance, l2_distance
from sudare.mechanisms import Rng, system_rng
from sudare.methods.microdata import Microdata
from sudare.repair import largest_remainder, nearest_point
from sudare.run.sales import sales
from sudare.schema import Attribute, Schema, Unit, Values

EPSILONS = {"ln2": "0.693147180559945", "ln3": "1.098612288668110"}


def schema(items: int) -> Schema:
    names = [
        ("item", [f"h{k}" for k in range(1, items + 1)]),
        ("sex", ["M", "F"]),
        ("age", ["20", "30", "40", "50", "60"]),
    ]
    attributes = [Attribute(name=name, domain=Values(values=tuple(values))) for name, values in names]
    return Schema(name="sales", unit=Unit(), attributes=tuple(attributes))


def laplace(truth: Counts, method: Microdata, seed: int) -> Counts:
    """The paper as printed: Laplace noise in floats, then its three steps. For comparison only, never for a release."""
    noise = np.random.default_rng(seed).laplace(scale=2 / float(method.epsilon), size=truth.schema.size)
    nearest = nearest_point(truth.dense() + noise, total=float(truth.total))
    table = largest_remainder(nearest, total=truth.total, rng=system_rng())
    return Counts.build(truth.schema, np.flatnonzero(table)[:, None], table[table > 0])


def distances(size: dict, epsilon: str, *, trials: int, rng: Rng | None = None) -> tuple[float, float, float, float]:
    """Mean L2 and KS over trials, with Laplace noise as printed and with ours; data are drawn anew in each trial."""
    method = Microdata(epsilon=EPSILONS.get(epsilon, epsilon), method="projection")
    table = schema(size["items"])
    found = []
    for trial in range(trials):
        truth = Counts.from_columns(table, sales(items=size["items"], records=size["records"], seed=trial))
        outputs = (laplace(truth, method, trial), method.draw(truth, rng=rng or system_rng()))
        found.append([f(truth, out).value for out in outputs for f in (l2_distance, ks_distance)])
    l2, ks, our_l2, our_ks = np.mean(found, axis=0)
    return float(l2), 100 * float(ks), float(our_l2), 100 * float(our_ks)


def reproduce(*, share: float = 1.0) -> bool:
    """Print the paper's figures, its method run again, and ours; tell whether the second is within tolerance."""
    expected = tomllib.loads(Path(__file__).with_name("expected.toml").read_text(encoding="utf-8"))
    print("Terada 2017, proposed method: printed / run again with Laplace noise / ours with exact geometric noise")
    good = True
    for size in expected["size"]:
        trials = max(1, round(size["trials"] * share))
        print(f"items {size['items']}, records {size['records']}, mean of {trials} trials")
        for position, epsilon in enumerate(expected["epsilons"]):
            found = distances(size, epsilon, trials=trials)
            near = is_near(size, position, *found[:2])
            good &= near
            print(line(size, position, epsilon, found) + ("" if near else "   <- beyond tolerance"))
    return good


def line(size: dict, position: int, epsilon: str, found: tuple[float, float, float, float]) -> str:
    l2, ks, our_l2, our_ks = found
    return (
        f"  epsilon {epsilon:>4}: L2 {size['l2'][position]:8.1f} / {l2:8.1f} / {our_l2:8.1f}"
        f"   KS% {size['ks'][position]:5.1f} / {ks:6.2f} / {our_ks:6.2f}"
    )


def is_near(size: dict, position: int, l2: float, ks: float) -> bool:
    printed_l2, printed_ks = size["l2"][position], size["ks"][position]
    l2_is_near = abs(l2 - printed_l2) <= size["within_l2"] * printed_l2 + 0.05
    return bool(l2_is_near and abs(ks - printed_ks) <= size["within_ks"] * min(1.0, 0.1 + printed_ks / 5) + 0.05)
