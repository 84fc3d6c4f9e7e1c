"""What the papers compare with. Drawn like a method, never offered for a release: nothing here can publish or spend.

    pram        every record by itself: keep a value or draw it anew
    synthetic   records sampled from a noisy table (Synth-Lap) or from a smoothed one (Synth-MD, two readings)
    smoothing   records sampled from a table mixed with an even one (Wasserman, Zhou)
    mwem        a table learnt query by query (Hardt, Ligett, McSherry)
    recoding    a sample, recoded, small cells left out (Li, Qardaji, Su): the one that is not pure epsilon

and for views of many attributes

    identity        noise in every cell: a table if small, its expected error on a workload if not
    privtree_boxes  boxes halved where people are (Zhang, Xiao, Xie)
    dawa            a line of cells cut into buckets of like counts (Li, Hay, Miklau, Wang)
    hdmm            the expected error of strategies made for a workload (McKenna, Miklau, Hay, Machanavajjhala)
    privbayes       records sampled from a noisy Bayesian network (Zhang, Cormode, Procopiuc, Srivastava, Xiao)

Each tells its own epsilon, also where the paper that printed it was wrong. Noise that a promise rests on is drawn by
the exact mechanisms where that is easy (geometric noise, exponential mechanism, retention of a value). Multinomial,
Dirichlet and binomial samples come from NumPy's generator, seeded from the stream that is handed in: good enough for a
comparison, and one more reason why none of this may leave the building. Proofs: proofs/baselines.md
"""

from papers.baselines.base import Approximate, Baseline
from papers.baselines.dawa import Dawa
from papers.baselines.hdmm import Hdmm, Workload
from papers.baselines.identity import Identity
from papers.baselines.mwem import Mwem
from papers.baselines.pram import Pram
from papers.baselines.privbayes import PrivBayes
from papers.baselines.privtree import PrivTreeBoxes
from papers.baselines.recoding import SampledRecoding
from papers.baselines.synthetic import SynthLap, SynthMd, WassermanZhou

__all__ = [
    "Approximate",
    "Baseline",
    "Dawa",
    "Hdmm",
    "Identity",
    "Mwem",
    "Pram",
    "PrivBayes",
    "PrivTreeBoxes",
    "SampledRecoding",
    "SynthLap",
    "SynthMd",
    "WassermanZhou",
    "Workload",
]
