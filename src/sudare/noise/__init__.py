"""The only room that draws noise: what is private goes in, what may be published comes out.

    rng          words of a cryptographic stream, and a uniform number whose bits are drawn as needed
    uniform      uniform draws by name: numbers, cells, orders, subsets, values inside a bin
    enclosure    real numbers caught between integers, to any precision
    laws         the distributions, as certified bounds of their cumulative probabilities
    machine      draws from any law, exactly, by a table of 65,536 cells that is refined where it must be
    geometric    integer noise for counts: the noise of pure epsilon
    gaussian     integer noise for counts: the noise of concentrated privacy
    normal       standard normal numbers as exact reals, whose bits are drawn as needed
    matrix       noise for the tables of all pairs of attributes at once, of pure epsilon
    counting     either of them as a value, and the better one for a step that may cost rho
    exponential  the choice of one candidate by score
    rows         the same draws for many rows at once, each with a law of its own
    zeros        the noise of empty cells that nobody stores
    distance     reports of places, which grow rarer with distance
    witness      the mark of samplers that take private numbers, and a stream whose draws can be watched
    public       draws around numbers that are already public, in floats
    selfcheck    tests of fit for large samples, and what `sudare verify` shows about the noise

No other room draws; a test of the rooms refuses it. No float decides about a private number: parameters are exact
rationals, probabilities are enclosed by integers, and a draw that the bits at hand cannot decide asks for more bits.
Proofs: proofs/geometric.md, gaussian.md, exponential.md, randomness.md, rows.md, zeros.md, matrix.md,
location-sampling.md.
"""

from sudare.noise.counting import CountNoise, GaussianNoise, GeometricNoise
from sudare.noise.exponential import bernoulli_exp, exponential, permute_and_flip
from sudare.noise.gaussian import add_gaussian, gaussian_noise, gaussian_tail, gaussian_variance
from sudare.noise.geometric import add_geometric, geometric, geometric_noise, geometric_tail, geometric_variance
from sudare.noise.laws import DiscreteGaussian, TwoSidedGeometric
from sudare.noise.machine import TableMachine
from sudare.noise.matrix import MatrixNoise, add_matrix
from sudare.noise.rng import Rng, SeededRng, SystemRng, system_rng

__all__ = [
    "CountNoise",
    "DiscreteGaussian",
    "GaussianNoise",
    "GeometricNoise",
    "MatrixNoise",
    "Rng",
    "SeededRng",
    "SystemRng",
    "TableMachine",
    "TwoSidedGeometric",
    "add_gaussian",
    "add_geometric",
    "add_matrix",
    "bernoulli_exp",
    "exponential",
    "gaussian_noise",
    "gaussian_tail",
    "gaussian_variance",
    "geometric",
    "geometric_noise",
    "geometric_tail",
    "geometric_variance",
    "permute_and_flip",
    "system_rng",
]
