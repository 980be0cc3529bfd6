"""The Bayesian signed-rank test of two tuners over spaces.

Benavoli, Corani, Demšar and Zaffalon, "Time for a Change: a Tutorial for Comparing Multiple Classifiers Through
Bayesian Analysis", Journal of Machine Learning Research 18 (2017), section 4.2: the counterpart of Wilcoxon's test that
computes the probabilities of a relevant difference, and of none. The prior is a Dirichlet process whose one
pseudo-observation, half a space, is no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

ALIKE = 0.01
"""The largest irrelevant difference of two scores."""

PRIOR = 0.5
"""The weight of the pseudo-observation against that of a space."""

DRAWS = 4_000
"""The number of draws from the posterior: probabilities are within a percent."""


class SignedRanks(NamedTuple):
    """The probabilities that the first of two tuners is better, equal, and worse."""

    better: float
    alike: float
    worse: float


def signed_ranks(first: Sequence[float], second: Sequence[float], *, alike: float = ALIKE) -> SignedRanks:
    """Compare the scores of two tuners on the same spaces; higher is better. Without spaces, they are equal."""
    differences = np.array([0.0, *(one - other for one, other in zip(first, second, strict=True))])
    sums = differences[:, None] + differences[None, :]
    weights = np.random.default_rng(0).dirichlet([PRIOR, *np.ones(len(differences) - 1)], DRAWS)
    better = np.einsum("di,ij,dj->d", weights, (sums > 2 * alike).astype(np.float64), weights)
    worse = np.einsum("di,ij,dj->d", weights, (sums < -2 * alike).astype(np.float64), weights)
    shares = np.stack([better, 1.0 - better - worse, worse], axis=1)
    most = np.bincount(shares.argmax(axis=1), minlength=3) / DRAWS
    return SignedRanks(*most.tolist())
