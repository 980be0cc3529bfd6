"""Choosing what to measure together: a batch of good guesses that differ.

Measuring is done in batches, and a batch of near twins teaches a model little more than one of them would.
"""

from __future__ import annotations

import numpy as np

from pegbox.search.protocols import Floats
from pegbox.tuners.visited_set import Digits, Places


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
        total = gains + weight * uncovered.mean(axis=1)
        place = int(np.argmax(np.where(left, total, -np.inf)))
        chosen.append(place)
        left[place] = False
        uncovered &= rows != rows[place]
    return np.array(chosen, dtype=np.intp)
