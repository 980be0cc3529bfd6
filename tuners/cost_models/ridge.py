"""Ridge regression on all products of two features, in NumPy alone.

Hoerl and Kennard, "Ridge Regression" (Technometrics 12, 1970), with a polynomial kernel (Saunders et al., "Ridge
Regression Learning Algorithm in Dual Variables", ICML 1998); the shrinkage is chosen by leaving out one record at a
time, which costs nothing extra (Golub, Heath and Wahba, Technometrics 21, 1979).
"""

from __future__ import annotations

import numpy as np

from pegbox.checks import check_int
from pegbox.search import Features, Floats, checked_features, checked_training, not_fitted, rank_share

NAME = "cost model 'ridge'"
SHRINKAGES = np.logspace(-4, 1, 11)
"""The shrinkages to try, as shares of the mean eigenvalue."""


class RidgeCostModel:
    """A cost model that learns the ranks of the trials.

    `degree` is the number of features in a product. The time to fit grows with the cube of the records, so at most
    `max_records` are used: the fastest half of that many, and an even selection of the others.
    """

    def __init__(self, *, seed: int = 0, degree: int = 2, max_records: int = 512) -> None:
        # `seed` has no effect, as nothing is random here.
        self._degree = check_int("degree", degree, maximum=4)
        self._max_records = check_int("max_records", max_records, minimum=2)
        self._rows: Floats | None = None
        self._width = 0

    def fit(self, features: Features, costs: Floats) -> None:
        rows, seconds = checked_training(NAME, features, costs)
        self._width = rows.shape[1]
        used = np.argsort(seconds, kind="stable")
        if len(used) > self._max_records:
            fastest, others = np.split(used, [self._max_records // 2])
            even = np.linspace(0, len(others) - 1, self._max_records - len(fastest)).astype(np.intp)
            used = np.concatenate([fastest, others[even]])
        used = np.sort(used)
        wide = rows[used].astype(np.float64)
        self._mean, deviation = wide.mean(axis=0), wide.std(axis=0)
        # Multiply a column that did not vary in training by 0, so that it has no effect elsewhere.
        self._factor = np.where(deviation > 0, 1.0 / np.where(deviation > 0, deviation, 1.0), 0.0)
        self._rows = self._scaled(wide)
        ranks = rank_share(seconds[used])
        self._offset = float(ranks.mean())
        self._weights = _dual_weights(self._kernel(self._rows, self._rows), ranks - self._offset)

    def predict(self, features: Features) -> Floats:
        if self._rows is None:
            raise not_fitted(NAME)
        rows = self._scaled(checked_features(NAME, features, width=self._width).astype(np.float64))
        scores: Floats = self._kernel(rows, self._rows) @ self._weights + self._offset
        return scores

    def _scaled(self, rows: Floats) -> Floats:
        # Far from the training rows, a polynomial is arbitrary, so clip to four deviations.
        scaled: Floats = np.clip((rows - self._mean) * self._factor, -4.0, 4.0)
        return scaled

    def _kernel(self, rows: Floats, others: Floats) -> Floats:
        varying = max(1, int(np.count_nonzero(self._factor)))
        kernel: Floats = (1.0 + rows @ others.T / varying) ** self._degree
        return kernel


def _dual_weights(kernel: Floats, targets: Floats) -> Floats:
    """Compute (kernel + shrinkage)⁻¹ targets, with the shrinkage whose errors on left-out records are least."""
    values, vectors = np.linalg.eigh(kernel)
    values = np.maximum(values, 0.0)
    turned = vectors.T @ targets
    best, chosen = np.inf, np.zeros(len(targets))
    for shrinkage in SHRINKAGES * max(float(values.mean()), 1e-12):
        weights: Floats = vectors @ (turned / (values + shrinkage))
        # The error on a left-out record is its weight divided by the diagonal of the inverse.
        errors = weights / ((vectors**2) @ (1.0 / (values + shrinkage)))
        if (loss := float((errors**2).mean())) < best:
            best, chosen = loss, weights
    return chosen
