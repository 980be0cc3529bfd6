"""What to measure next, given what a model believes."""

from __future__ import annotations

import numpy as np

from pegbox.tuners.surrogates.gaussian_process import Posterior
from pegbox.tuners.visited_set import Places


def optimistic_batch(posterior: Posterior, n: int, rng: np.random.Generator, *, boldness: float) -> Places:
    """Places of `n` different rows, each the one of lowest `mean - b * deviation` after those before it.

    The first is the one that looks fastest, b = 0: what is tried must not keep from using what is known already. Each
    other draws its own b, exponential with mean `boldness`, so that a batch has careful and bold members: Berk et al.,
    "Randomised Gaussian Process Upper Confidence Bound for Bayesian Optimisation" (IJCAI 2020). A chosen one is
    observed at its mean before the next is chosen, which keeps a batch from crowding in one place.
    """
    chosen: list[int] = []
    for bold in [0.0, *rng.exponential(boldness, n)][: min(n, len(posterior.mean))]:
        bounds = posterior.bounds(bold)
        bounds[chosen] = np.inf
        chosen.append(int(np.argmin(bounds)))
        posterior = posterior.observe(chosen[-1])
    return np.array(chosen, dtype=np.intp)
