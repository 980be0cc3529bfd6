"""Reports on a tuner's model: its accuracy on unseen trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pegbox.errors import ArgumentError
from pegbox.search.protocols import Floats
from pegbox.shown import value_text

FEWEST_PAIRS = 100
"""The smallest number of pairs to judge a model by, since fewer are a matter of luck."""

_TRUST = ((0.8, "good"), (0.65, "fair"), (0.55, "weak"), (0.0, "no better than chance"))
"""The words for the model's trust, by the smallest share of pairs in the right order."""


@dataclass(frozen=True)
class ModelReport:
    """The agreement of a model's scores with later measurements.

    `trials` were scored before they were measured, and `pairs` of them compared within batches that one state of the
    model scored. `pairwise_accuracy` is the share of pairs in the right order (0.5: guessing; ties in the measured
    costs leave a pair out, ties in the scores count half), and `rank_correlation` is twice the accuracy minus one:
    Somers' D, which is Kendall's tau without ties. Both are NaN without pairs.
    """

    trials: int = 0
    pairs: int = 0
    pairwise_accuracy: float = math.nan

    @property
    def rank_correlation(self) -> float:
        return 2.0 * self.pairwise_accuracy - 1.0

    @property
    def trust(self) -> str:
        """The trust that the model deserves, in words; empty if too few pairs were compared."""
        if self.pairs < FEWEST_PAIRS:
            return ""
        return next(words for least, words in _TRUST if self.pairwise_accuracy >= least)

    def __str__(self) -> str:
        if not self.pairs:
            return f"model: {self.trials} trials scored, no two of them comparable yet"
        return f"model: {self.pairwise_accuracy:.0%} of {self.pairs} unseen pairs in order"


def _floats(name: str, values: object) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"{name}={value_text(values)} is not a list of numbers; give one for each trial") from None


class ModelJudge:
    """A judge of a model that collects scores and costs batch by batch."""

    def __init__(self) -> None:
        self._trials = self._pairs = 0
        self._right = 0.0

    def add(self, scores: Sequence[float] | Floats, costs: Sequence[float] | Floats) -> None:
        """Add a batch that one state of the model scored (higher is faster) before `costs` (seconds) were known.

        Raises `ArgumentError` unless there are as many scores as costs.
        """
        right, pairs = pairs_in_order(_floats("scores", scores), _floats("costs", costs))
        self._trials += len(scores)
        self._pairs += pairs
        self._right += right

    def report(self) -> ModelReport | None:
        """Report on all batches; None if nothing was scored."""
        if not self._trials:
            return None
        return ModelReport(self._trials, self._pairs, self._right / self._pairs if self._pairs else math.nan)


def pairs_in_order(scores: Floats, costs: Floats) -> tuple[float, int]:
    """Count the pairs of trials that the scores put in the right order (a tie counts half), and all pairs.

    `scores` (higher is faster) and `costs` (seconds, infinite for a failure) have shape (n,). Pairs of equal costs,
    such as two failures, have no order and don't count. A NaN score ties with every other. Raises `ArgumentError` for
    other shapes.
    """
    if scores.ndim != 1 or scores.shape != costs.shape:
        raise ArgumentError(f"scores of shape {scores.shape} do not match costs of shape {costs.shape}")
    one, other = np.triu_indices(len(costs), k=1)
    # Compare instead of subtracting, as the difference of two infinities is NaN. A NaN cost has no order.
    faster, slower = costs[one] < costs[other], costs[one] > costs[other]
    above, below = scores[one] > scores[other], scores[one] < scores[other]
    counted = faster | slower
    right = counted & np.where(faster, above, below)
    return float(right.sum() + 0.5 * (counted & ~above & ~below).sum()), int(counted.sum())
