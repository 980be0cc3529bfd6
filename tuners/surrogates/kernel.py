"""The kernel of a Gaussian process: the similarity of two configurations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from pegbox.search import Floats
from pegbox.tuners.rows import Places

Groups: TypeAlias = Places
"""Of each column, the number of the length scale that it shares with others."""


def squared_distances(x: Floats, groups: Groups) -> Floats:
    """Between all rows of `x` (n, columns), apart for each group: shape (groups, n, n)."""
    distances = np.zeros((int(groups.max(initial=-1)) + 1, len(x), len(x)))
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


def covariances(a: Floats, b: Floats) -> Floats:
    """The kernel between rows of `a` and of `b`, divided by their length scales: shape (len(a), len(b))."""
    squared = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1)[None, :] - 2.0 * (a @ b.T)
    return matern(np.maximum(squared, 0.0))[0]


@dataclass(frozen=True)
class Points:
    """Rows as the process sees them: `coordinates` (m, c) divided by their length scales, and `trends` (m, t).

    A trend says how the targets may run across the whole space; the `trends` here are multiplied by the standard
    deviation of what is not known of their slopes. That makes a linear kernel beside the other one (Rasmussen and
    Williams, section 2.7).
    """

    coordinates: Floats
    trends: Floats

    def covariance(self, others: Points) -> Floats:
        """The covariance with `others`, shape (m, len(others)), relative to the variance of the process."""
        found: Floats = covariances(self.coordinates, others.coordinates) + self.trends @ others.trends.T
        return found

    def variance(self) -> Floats:
        """The variance of each, shape (m,)."""
        variance: Floats = 1.0 + (self.trends * self.trends).sum(axis=1)
        return variance

    def only(self, place: int) -> Points:
        """One of them."""
        return Points(self.coordinates[place : place + 1], self.trends[place : place + 1])
