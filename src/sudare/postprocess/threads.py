"""Linear algebra on one thread: searches for weights and people take thousands of steps on small matrices, and least
squares with areas many small products.

For each of them OpenBLAS wakes a thread on every core, and those that have nothing to do wait by spinning: on two busy
cores the fair weights of 25 crossings took 5 to 19 seconds of CPU time, and .3 on one thread.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def on_one_thread(work: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Let a function use one thread for linear algebra; afterwards there are as many as before."""

    @functools.wraps(work)
    def limited(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        import scipy.linalg  # noqa: F401  # brings a library of its own, which can be limited only once it is there
        from threadpoolctl import threadpool_limits

        with threadpool_limits(limits=1, user_api="blas"):
            return work(*arguments, **options)

    return limited
