"""The only room that draws noise: what is private goes in, what may be published comes out.

    rng          words of a cryptographic stream, and exact uniform draws from them
    enclosure    real numbers caught between integers, to any precision
    laws         the distributions, as certified bounds of their cumulative probabilities
    machine      draws from any law, exactly, by a table of 65,536 cells that is refined where it must be
    geometric    integer noise for counts
    exponential  the choice of one candidate by score
    rows         the same draws for many rows at once, each with a law of its own
    goodness     tests of fit for large samples
    selfcheck    what `sudare verify` shows about the noise

No float touches a private number here: parameters are exact rationals, probabilities are enclosed by integers, and a
draw that the bits at hand cannot decide asks for more bits. Proofs: proofs/geometric.md, proofs/exponential.md,
proofs/randomness.md, proofs/rows.md.
"""

from sudare.noise.exponential import bernoulli_exp, exponential, permute_and_flip
from sudare.noise.geometric import geometric, geometric_noise, geometric_tail, geometric_variance
from sudare.noise.laws import TwoSidedGeometric
from sudare.noise.machine import TableMachine
from sudare.noise.rng import Rng, SeededRng, SystemRng, system_rng

__all__ = [
    "Rng",
    "SeededRng",
    "SystemRng",
    "TableMachine",
    "TwoSidedGeometric",
    "bernoulli_exp",
    "exponential",
    "geometric",
    "geometric_noise",
    "geometric_tail",
    "geometric_variance",
    "permute_and_flip",
    "system_rng",
]
