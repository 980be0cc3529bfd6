"""Statistics of a comparison: medians, bootstrap intervals, and exact rank tests for few seeds.

Everything works on ranks, so that a run that never reached a target, or found nothing valid, can take part: it is
infinitely slow, and ties with others like it. Lower is better throughout.

- Interval of a median: the percentile bootstrap (Efron, "Bootstrap methods: another look at the jackknife", 1979).
- Two tuners: the U test of Mann and Whitney ("On a test of whether one of two random variables is stochastically larger
  than the other", 1947), two-sided. For samples as small as these its distribution is counted out, ties included, by
  the shift algorithm (Streitberg and Röhmel, "Exact distributions for permutation and rank tests", 1986); SciPy's exact
  method ignores ties, and tuners that find the same configuration tie often. Larger samples go to SciPy.
- Several pairs: Holm's correction ("A simple sequentially rejective multiple test procedure", 1979).
- The size of a difference: the frequency with which a run of one beats a run of the other (Vargha and Delaney, "A
  critique and improvement of the CL common language effect size statistics of McGraw and Wong", 2000).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

EXACT_LIMIT = 60
"""The largest number of observations of both samples for counting out the distribution."""

RESAMPLES = 10_000


def median(values: Sequence[float]) -> float:
    """Compute the median; of an even number the mean of the two in the middle, infinite when one of them is."""
    ordered = sorted(values)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return low if low == high else (low + high) / 2


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Compute the 95% bootstrap interval of the median; it is always the same for the same values."""
    sample = np.sort(np.asarray(values, dtype=np.float64))
    drawn = np.random.default_rng(0).integers(len(sample), size=(RESAMPLES, len(sample)))
    drawn.sort(axis=1)  # places in the sorted sample: a median of places is a median of values
    low, high = drawn[:, (len(sample) - 1) // 2], drawn[:, len(sample) // 2]
    medians = np.sort((sample[low] + sample[high]) / 2)
    tail = int(0.025 * RESAMPLES)
    return float(medians[tail]), float(medians[-1 - tail])


def quantile(values: Sequence[float], q: float) -> float:
    """Find the smallest value that a share `q` of the values, including infinite ones, does not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(q * len(ordered)) - 1, 0)]


def mann_whitney(first: Sequence[float], second: Sequence[float]) -> float:
    """Compute the two-sided p of the hypothesis that both samples have one distribution; 1 if all values are equal."""
    both = [*first, *second]
    if not first or not second or min(both) == max(both):
        return 1.0
    if len(both) <= EXACT_LIMIT:
        return _exact(first, second)
    from scipy.stats import mannwhitneyu  # slow to load

    # Ranks in place of the values, because SciPy does not accept infinities everywhere.
    ranks = ranks_of(both)
    tested = mannwhitneyu(ranks[: len(first)], ranks[len(first) :], alternative="two-sided", method="asymptotic")
    return float(tested.pvalue)


def superiority(first: Sequence[float], second: Sequence[float]) -> float:
    """Compute the share of pairs of values in which the first is lower; a tie counts half."""
    wins = sum((a < b) + 0.5 * (a == b) for a in first for b in second)
    return wins / (len(first) * len(second))


def smallest_p(first: int, second: int) -> float:
    """Compute the lowest p for samples of these sizes, that of two which do not overlap."""
    return min(1.0, 2.0 / math.comb(first + second, first))


def rank_correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Compute Spearman's rank correlation; NaN if all values of one are equal."""
    one, other = ranks_of(first), ranks_of(second)
    one, other = one - one.mean(), other - other.mean()
    spread = math.sqrt(float(one @ one) * float(other @ other))
    return float(one @ other) / spread if spread else math.nan


def holm(ps: Sequence[float]) -> list[float]:
    """Correct the p values of a family of tests, so that each keeps its level."""
    corrected = [0.0] * len(ps)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[place]))
        corrected[place] = highest
    return corrected


def _exact(first: Sequence[float], second: Sequence[float]) -> float:
    """Compute the share of all assignments of ranks in which the first's sum is at least as far from its mean."""
    ranks = (2 * ranks_of([*first, *second])).astype(np.int64)  # midranks are halves
    size, total = len(first), int(ranks.sum())
    ways = np.zeros((size + 1, total + 1))  # by the number of ranks dealt to the first, and their sum
    ways[0, 0] = 1.0
    for rank in ranks.tolist():
        ways[1:, rank:] += ways[:-1, : total + 1 - rank]
    centre = size * (len(ranks) + 1)
    far = np.abs(np.arange(total + 1) - centre) >= abs(int(ranks[:size].sum()) - centre)
    return min(1.0, float(ways[size, far].sum()) / math.comb(len(ranks), size))


def ranks_of(values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Rank from 1; equal values share the mean of their ranks. Infinities count as values."""
    _, inverse, counts = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray(ends - (counts - 1) / 2)[inverse]
