"""The power transformation of costs that brings them closest to a normal distribution.

Yeo and Johnson, "A New Family of Power Transformations to Improve Normality or Symmetry" (Biometrika 87, 2000). A
Gaussian process learns more from such targets: Cowen-Rivers et al., "HEBO: Pushing the Limits of Sample-Efficient
Hyperparameter Optimisation" (JAIR 74, 2022). Times of programs are close to normal on a logarithmic scale; costs of
other functions may have any scale and minimum.
"""

from __future__ import annotations

import math

import numpy as np

from pegbox.search import Floats

POWERS = (0.0, 2.0)
"""The bounds of the exponent: 1 leaves targets unchanged, and below 0 smooth valleys become sharp."""

LARGEST = 150.0
"""The largest logarithm of a scaled cost, whose fourth power is still a float."""


def standardised_powers(costs: Floats) -> Floats:
    """Transform and standardise costs (infinite for a failure); lower is better; shape (n,).

    A failure counts as the worst that ran.
    """
    from scipy.optimize import minimize_scalar  # slow to import

    ran = np.isfinite(costs)
    values = np.where(ran, costs, costs[ran].max(initial=-math.inf))
    if not ran.any() or not np.ptp(values) > 1e-12 * np.abs(values).max():
        return np.zeros(len(costs))
    apart = values - np.median(values)
    apart /= np.abs(apart).max()  # the squares of large costs would overflow
    scaled: Floats = apart / (np.median(np.abs(apart)) or apart.std())
    logs = np.sign(scaled) * np.minimum(np.log1p(np.abs(scaled)), LARGEST)

    def loss(power: float) -> float:
        """Compute the negative log-likelihood of a normal distribution."""
        return float(0.5 * len(logs) * math.log(_powers(logs, power).var()) - (power - 1.0) * logs.sum())

    best = minimize_scalar(loss, bounds=POWERS, method="bounded", options={"xatol": 0.01}).x
    powers = _powers(logs, round(float(best), 2))
    return np.asarray((powers - powers.mean()) / powers.std(), dtype=np.float64)


def _powers(logs: Floats, power: float) -> Floats:
    """Return the transformation, given the logarithms of 1 + |value| with the values' signs."""
    above, below = np.maximum(logs, 0.0), np.maximum(-logs, 0.0)
    return _power(above, power) - _power(below, 2.0 - power)


def _power(logs: Floats, power: float) -> Floats:
    return np.asarray(np.expm1(power * logs) / power if abs(power) > 1e-6 else logs, dtype=np.float64)
