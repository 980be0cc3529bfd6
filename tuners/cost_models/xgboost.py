"""Gradient-boosted trees as a cost model.

XGBoost is Chen and Guestrin, "XGBoost: A Scalable Tree Boosting System" (KDD 2016); ranking candidates with it instead
of predicting their time is Chen et al., "Learning to Optimize Tensor Programs" (NeurIPS 2018).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pegbox.errors import PluginError
from pegbox.search.checks import check_choice, check_float, check_int
from pegbox.search.protocols import Features, Floats

if TYPE_CHECKING:
    from types import ModuleType

LOSSES = {"rank": "rank:pairwise", "reg": "reg:squarederror"}


class XGBoostCostModel:
    """Learns relative speeds: the fastest trial is 1, one half as fast is 0.5, a failed one is 0.

    `loss_type` is "rank" (only the order counts) or "reg" (squared error of the relative speed). `rounds` trees of
    depth `max_depth` are fitted anew each time, which takes some ten milliseconds for a few hundred trials.
    One thread, a fixed seed and a deterministic tree method make the same trials give the same model.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        loss_type: str = "rank",
        rounds: int = 60,
        max_depth: int = 4,
        learning_rate: float = 0.2,
    ) -> None:
        self._objective = LOSSES[check_choice("loss_type", loss_type, tuple(LOSSES))]
        self._rounds = check_int("rounds", rounds)
        self._params: dict[str, Any] = {
            "objective": self._objective,
            "max_depth": check_int("max_depth", max_depth, maximum=16),
            "learning_rate": check_float("learning_rate", learning_rate, minimum=1e-6, maximum=1.0),
            "tree_method": "exact",
            # A pairwise loss has small second derivatives: the usual 1 would forbid most splits of so few trials.
            "min_child_weight": 0.1,
            "nthread": 1,
            "seed": seed % 2**31,
            "verbosity": 0,
        }
        if self._objective.startswith("rank"):
            # Each trial is compared with eight others drawn at random, instead of one.
            self._params |= {"lambdarank_pair_method": "mean", "lambdarank_num_pair_per_sample": 8}
        self._booster: Any = None

    def fit(self, features: Features, costs: Floats) -> None:
        xgboost = _xgboost()
        data = xgboost.DMatrix(features, label=relative_speed(costs), nthread=1)
        if self._objective.startswith("rank"):
            data.set_group([len(costs)])
        self._booster = xgboost.train(self._params, data, num_boost_round=self._rounds)

    def predict(self, features: Features) -> Floats:
        scores: Floats = self._booster.inplace_predict(features).astype(np.float64)
        return scores


def relative_speed(costs: Floats) -> Floats:
    """Speed relative to the fastest, from costs in seconds: in (0, 1], and 0 for infinity; shape (n,)."""
    # A cost of zero can only be a clock that did not move; a nanosecond keeps the division sane.
    speed: Floats = 1.0 / np.maximum(np.asarray(costs, dtype=np.float64), 1e-9)
    fastest = speed.max(initial=0.0)
    return speed / fastest if fastest > 0 else speed


def _xgboost() -> ModuleType:
    # Imported on the first fit: it takes half a second, and whoever uses another tuner never needs it.
    try:
        import xgboost
    except Exception as error:  # a wheel whose libomp is missing raises an error of its own
        raise PluginError(
            f"the cost model 'xgboost' needs the package xgboost, which fails to import: {error}"
        ) from error
    return xgboost
