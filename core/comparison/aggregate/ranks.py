"""Ranks of tuners over spaces, with the tests of Friedman and Nemenyi.

Demšar, "Statistical comparisons of classifiers over multiple data sets", Journal of Machine Learning Research 7 (2006):
Friedman's test (1937) in the less conservative form of Iman and Davenport (1980) tests whether the tuners differ at
all; two of them differ if their mean ranks differ by more than Nemenyi's (1963) critical difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pegbox.comparison.statistics import ranks_of

LEVEL = 0.05


@dataclass(frozen=True)
class Ranking:
    """Mean ranks of tuners, 1 for the best, over `spaces`.

    `chi_square` is Friedman's statistic, `f` that of Iman and Davenport, and `p` its probability if all tuners were
    equal; `critical_difference` is Nemenyi's. NaN if there is nothing to test.
    """

    ranks: tuple[float, ...]
    spaces: int
    chi_square: float = math.nan
    f: float = math.nan
    p: float = math.nan
    critical_difference: float = math.nan

    def differ(self, one: int, other: int) -> bool:
        """Decide if two tuners differ: the overall test finds a difference, and their ranks are far apart."""
        return self.p < LEVEL and abs(self.ranks[one] - self.ranks[other]) > self.critical_difference


def ranking(values: Sequence[Sequence[float]], *, level: float = LEVEL) -> Ranking:
    """Rank the tuners (columns) in each space (a row); lower values are better, infinite ones tie."""
    table = np.array([ranks_of(row) for row in values])
    spaces, tuners = table.shape
    ranks = tuple(table.mean(axis=0).tolist())
    if spaces < 2 or tuners < 2:
        return Ranking(ranks, spaces)
    from scipy.stats import f as f_distribution  # slow to load
    from scipy.stats import studentized_range

    squares = sum(rank**2 for rank in ranks)
    chi_square = 12.0 * spaces / (tuners * (tuners + 1)) * (squares - tuners * (tuners + 1) ** 2 / 4)
    left = spaces * (tuners - 1) - chi_square
    f = (spaces - 1) * chi_square / left if left > 1e-12 else math.inf
    p = float(f_distribution.sf(f, tuners - 1, (tuners - 1) * (spaces - 1)))
    quantile = float(studentized_range.ppf(1 - level, tuners, math.inf)) / math.sqrt(2)
    difference = quantile * math.sqrt(tuners * (tuners + 1) / (6.0 * spaces))
    return Ranking(ranks, spaces, chi_square, f, p, difference)


def cliques(ranking: Ranking) -> list[tuple[int, int]]:
    """List the longest groups of tuners within the critical difference, as places in rank order."""
    order = sorted(ranking.ranks)
    found: list[tuple[int, int]] = []
    for first, rank in enumerate(order):
        last = max(place for place, other in enumerate(order) if other - rank <= ranking.critical_difference)
        if last > first and not any(last <= end for _, end in found):
            found.append((first, last))
    return found
