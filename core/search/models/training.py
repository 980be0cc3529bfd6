"""Training data of cost models: checks, and the conversion of costs to learning targets."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from pegbox.errors import ArgumentError
from pegbox.search.protocols import Features, Floats

SLOW = 8.0
"""The largest ratio to the best that counts, since larger ones would only set the scale."""

FEWEST = 2
"""The smallest number of records for a model: a single one has no order."""


def checked_training(model: str, features: npt.ArrayLike, costs: npt.ArrayLike) -> tuple[Features, Floats]:
    """Check the arguments of `fit`; return arrays of shape (n, d) and (n,).

    Raises `ArgumentError` for fewer than two records, shapes that do not fit together, features that are NaN or
    infinite, and costs that are NaN or negative. Infinite costs are failed trials.
    """
    seconds = np.asarray(costs, dtype=np.float64)
    rows = checked_features(model, features)
    if seconds.ndim != 1 or len(seconds) != len(rows):
        raise ArgumentError(
            f"{model}: features of shape {rows.shape} do not match costs of shape {seconds.shape}; give one cost "
            "in seconds for each row"
        )
    if len(seconds) < FEWEST:
        raise ArgumentError(
            f"{model}: given {len(seconds)} record{'s' * (len(seconds) != 1)} to learn from, needs at least {FEWEST}; "
            "measure a few random configurations first"
        )
    wrong = np.flatnonzero(np.isnan(seconds) | (seconds < 0))
    if len(wrong):
        raise ArgumentError(
            f"{model}: costs[{wrong[0]}] is {seconds[wrong[0]]}; costs are seconds, and infinity for a failed trial"
        )
    return rows, seconds


def checked_features(model: str, features: npt.ArrayLike, *, width: int | None = None) -> Features:
    """Return features as float32 of shape (n, d), d equal to `width` if given; raise `ArgumentError` otherwise."""
    rows = np.asarray(features, dtype=np.float32)
    if rows.ndim != 2:
        raise ArgumentError(f"{model}: features have shape {rows.shape}; give one row for each configuration")
    if width is not None and rows.shape[1] != width:
        raise ArgumentError(f"{model}: features have {rows.shape[1]} columns, but {width} when the model was fitted")
    if not np.isfinite(rows).all():
        row, column = np.argwhere(~np.isfinite(rows))[0].tolist()
        raise ArgumentError(f"{model}: features[{row}, {column}] is {rows[row, column]}; features are finite numbers")
    return rows


def not_fitted(model: str) -> ArgumentError:
    """Make the error for a model that has to predict before it was fitted."""
    return ArgumentError(f"{model}: the model is not fitted; call fit(features, costs) before predict(features)")


def relative_speed(costs: Floats) -> Floats:
    """Compute the speed relative to the fastest, from seconds: in (0, 1], and 0 for infinity; shape (n,)."""
    # A cost of zero only means that the clock did not move; a nanosecond avoids a division by zero.
    speed: Floats = 1.0 / np.maximum(np.asarray(costs, dtype=np.float64), 1e-9)
    fastest = speed.max(initial=0.0)
    return speed / fastest if fastest > 0 else speed


def rank_share(costs: Floats) -> Floats:
    """Compute the share of all that are no faster than each, in (0, 1]; equal costs share a rank; shape (n,).

    Unlike speeds, ranks are spread evenly for every space: if nearly all configurations are slow, or nearly all fast, a
    few dominate the squared errors of speeds.
    """
    _, places, counts = np.unique(-np.asarray(costs, dtype=np.float64), return_inverse=True, return_counts=True)
    ranks: Floats = np.cumsum(counts) - (counts - 1) / 2.0
    return ranks[places.reshape(-1)] / max(1, len(places))


def rank_and_speed(costs: Floats) -> Floats:
    """Add up standardised ranks and logarithms of speeds; higher is faster; shape (n,).

    Ranks alone don't show the gap to the fastest; in logarithms alone, a few dominate if nearly all are alike. Costs
    are limited to `SLOW` times the fastest, also those of failures.
    """
    logs = np.log(np.maximum(relative_speed(costs), 1.0 / SLOW))
    return _standardised(logs) + _standardised(rank_share(costs))


def standardised_logs(costs: Floats) -> Floats:
    """Standardise logarithms of the costs (seconds, infinite for a failure); lower is better; shape (n,).

    A failure counts as the slowest that ran, so that it does not stand out among slow ones.
    """
    ran = np.isfinite(costs)
    if not ran.any():
        return np.zeros(len(costs))
    # A cost of zero only means that the clock did not move.
    logs = np.log(np.maximum(np.where(ran, costs, costs[ran].max()), 1e-9))
    return _standardised(np.minimum(logs, logs.min() + math.log(SLOW)))


def _standardised(values: Floats) -> Floats:
    spread = float(values.std())
    return (values - values.mean()) / spread if spread > 1e-9 else np.zeros(len(values))
