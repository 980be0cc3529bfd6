"""Half ranks: targets of which the slower half counts by its ranks alone.

Song et al., "The Vizier Gaussian Process Bandit Algorithm" (2024). How much slower a slow configuration is than another
says little about the fastest; yet squared errors, and the scale of all targets, are mostly those of the slowest.
"""

from __future__ import annotations

import numpy as np

from pegbox.search import Floats, rank_share


def half_ranked(targets: Floats) -> Floats:
    """Spread the targets above the median as the half of a normal distribution, and standardise all; shape (n,).

    Those up to the median keep their proportions. They stay as they are where all of these are equal.
    """
    from scipy.special import ndtri  # slow to import

    middle = np.median(targets) if len(targets) else 0.0
    good = targets <= middle
    spread = float(np.sqrt(np.mean((targets[good] - middle) ** 2))) if good.any() else 0.0
    if not spread > 0:
        return targets
    quantiles = ndtri(rank_share(-targets) - 0.5 / len(targets))
    warped = np.where(good, (targets - middle) / spread, quantiles)
    return np.asarray((warped - warped.mean()) / warped.std(), dtype=np.float64)
