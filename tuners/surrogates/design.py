"""The choice of the first points, before there are results to learn from.

Cohn, "Neural Network Exploration Using Optimal Experiment Design" (Neural Networks 9, 1996); for Gaussian processes,
Seo et al., "Gaussian Process Regression: Active Data Selection and Test Point Rejection" (IJCNN 2000).
"""

from __future__ import annotations

import numpy as np

from pegbox.search import Floats
from pegbox.tuners.rows import Places
from pegbox.tuners.surrogates.gaussian_process import DIGITS


def informative_places(covariance: Floats, n: int, *, noise: float, known: int = 0) -> Places:
    """Choose at most `n` points, each the one whose measurement leaves the least variance given those before it.

    The variance is the mean over all points, with the prior `covariance`, (m, m). A measurement has the variance
    `noise`; the first `known` points have one already. So a point amid many others precedes one at the border.
    """
    left, chosen = covariance, list(range(known))
    for place in chosen:
        left = _measured(left, place, noise)
    while len(chosen) < min(known + n, len(left)):
        gains = np.round((left * left).sum(axis=0) / (np.diag(left) + noise), DIGITS)
        gains[chosen] = -np.inf
        chosen.append(int(np.argmax(gains)))
        left = _measured(left, chosen[-1], noise)
    return np.array(chosen[known:], dtype=np.intp)


def _measured(covariance: Floats, place: int, noise: float) -> Floats:
    """Return the covariance after a measurement of the point at `place`."""
    own = covariance[:, place]
    left: Floats = covariance - np.outer(own, own) / (own[place] + noise)
    return left
