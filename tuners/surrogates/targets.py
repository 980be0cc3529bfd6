"""From costs to what a Gaussian process learns."""

from __future__ import annotations

import math

import numpy as np

from pegbox.search.protocols import Floats
from pegbox.tuners.cost_models.training import SLOW


def targets(costs: Floats) -> Floats:
    """Logarithms of the costs (seconds, infinite for a failure), standardised: the lower, the better; shape (n,).

    A failure counts as the slowest that ran, so that it need not stand out where everything around it is slow.
    """
    ran = np.isfinite(costs)
    if not ran.any():
        return np.zeros(len(costs))
    # A cost of zero can only be a clock that did not move.
    logs = np.log(np.maximum(np.where(ran, costs, costs[ran].max()), 1e-9))
    logs = np.minimum(logs, logs.min() + math.log(SLOW))
    spread = float(logs.std())
    return (logs - logs.mean()) / spread if spread > 1e-9 else np.zeros(len(costs))
