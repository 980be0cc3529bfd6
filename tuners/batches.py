"""Batches: the choice of good configurations that differ from each other.

Measuring is done in batches, and a batch of near twins teaches a model little more than one of them would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pegbox.search import Floats
from pegbox.tuners.rows import Digits, Places

if TYPE_CHECKING:
    from pegbox.tuners.surrogates.gaussian_process import Posterior


def pick_diverse(rows: Digits, scores: Floats, n: int, *, weight: float) -> Places:
    """Indices of `n` rows that are good and differ, the first the best.

    Maximises the sum of scores plus `weight` times the number of distinct knob values covered, greedily, which is
    within 1 - 1/e of the best because the objective is submodular: Chen et al., "Learning to Optimize Tensor Programs"
    (NeurIPS 2018), section 5. Scores are taken relative to the spread of `scores`; covering a new value of every
    knob counts as much as that whole spread.
    """
    spread = float(np.ptp(scores)) if len(scores) else 0.0
    gains = (scores - scores.min(initial=np.inf)) / spread if spread > 0 else np.zeros(len(scores))
    uncovered = np.ones(rows.shape, dtype=bool)
    chosen: list[int] = []
    left = np.ones(len(rows), dtype=bool)
    for _ in range(min(n, len(rows))):
        total = gains + weight * uncovered.sum(axis=1) / max(1, rows.shape[1])
        place = int(np.argmax(np.where(left, total, -np.inf)))
        chosen.append(place)
        left[place] = False
        uncovered &= rows != rows[place]
    return np.array(chosen, dtype=np.intp)


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
