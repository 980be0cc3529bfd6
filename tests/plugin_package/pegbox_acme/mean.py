"""A cost model that takes the mean of the measured configurations that are alike in every feature."""

from __future__ import annotations

import numpy as np

from pegbox.search import Features, Floats, checked_features, checked_training, not_fitted, rank_share

_NAME = "cost model 'acme_mean'"


class MeanModel:
    def __init__(self, *, seed: int = 0) -> None:
        self._ranks: dict[bytes, list[float]] | None = None
        self._columns = 0

    def fit(self, features: Features, costs: Floats, /) -> None:
        rows, seconds = checked_training(_NAME, features, costs)
        self._ranks, self._columns = {}, rows.shape[1]
        for row, rank in zip(rows, rank_share(seconds).tolist(), strict=True):
            self._ranks.setdefault(row.tobytes(), []).append(rank)

    def predict(self, features: Features, /) -> Floats:
        if self._ranks is None:
            raise not_fitted(_NAME)
        known = [
            self._ranks.get(row.tobytes(), [0.5]) for row in checked_features(_NAME, features, width=self._columns)
        ]
        return np.array([sum(ranks) / len(ranks) for ranks in known])
