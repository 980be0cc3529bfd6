"""The kernel: how alike two configurations are expected to perform."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from pegbox.search.protocols import Floats
from pegbox.tuners.explored import Places

Groups: TypeAlias = Places
"""Of each column, the number of the length scale that it shares with others."""


def squared_distances(x: Floats, groups: Groups) -> Floats:
    """Between all rows of `x` (n, columns), apart for each group: shape (groups, n, n)."""
    distances = np.zeros((int(groups.max()) + 1, len(x), len(x)))
    for column, group in zip(x.T, groups.tolist(), strict=True):
        difference = column[:, None] - column[None, :]
        distances[group] += difference * difference
    return distances


def matern(squared: Floats) -> tuple[Floats, Floats]:
    """Matérn 5/2 of squared scaled distances, and its derivative by them.

    Twice differentiable, which is as smooth as the times of programs ever are: Snoek et al., "Practical Bayesian
    Optimization of Machine Learning Algorithms" (NeurIPS 2012).
    """
    root = np.sqrt(5.0 * squared)
    decay = np.exp(-root)
    return (1.0 + root + root * root / 3.0) * decay, (-5.0 / 6.0) * (1.0 + root) * decay


def between(a: Floats, b: Floats, inverse_lengths: Floats) -> Floats:
    """The kernel between rows of `a` and of `b`, shape (len(a), len(b)); one inverse length scale per column."""
    a, b = a * inverse_lengths, b * inverse_lengths
    squared = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1)[None, :] - 2.0 * (a @ b.T)
    return matern(np.maximum(squared, 0.0))[0]
