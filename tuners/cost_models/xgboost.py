"""The cost model `xgboost`: gradient-boosted trees of the package xgboost.

XGBoost is Chen and Guestrin, "XGBoost: A Scalable Tree Boosting System" (KDD 2016); ranking candidates with it instead
of predicting their time is Chen et al., "Learning to Optimize Tensor Programs" (NeurIPS 2018).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pegbox.checks import check_choice, check_float, check_int
from pegbox.errors import PluginError
from pegbox.search import (
    Features,
    Floats,
    checked_features,
    checked_training,
    not_fitted,
    rank_and_speed,
    relative_speed,
)

NAME = "cost model 'xgboost'"
LOSSES = {"rank": "rank:pairwise", "reg": "reg:squarederror"}

FEWEST_FEATURES = 8
"""The smallest number of features to choose a split from, unless there are fewer."""


class XGBoostCostModel:
    """A cost model that learns which configurations are faster than others.

    `loss_type` is "reg" (squared error of rank and logarithmic speed among the trials) or "rank" (pairs of trials in
    the wrong order). `rounds` trees of depth `max_depth` are fitted anew each time, which takes about thirty
    milliseconds for a few hundred trials. Each tree sees the share `subsample` of the trials, and chooses each split
    from the share `colsample` of the features, but from at least 8. If features are correlated, as those of programs
    are, this makes trees differ. One thread and a fixed seed make the same trials give the same model.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        loss_type: str = "reg",
        rounds: int = 80,
        max_depth: int = 4,
        learning_rate: float = 0.1,
        subsample: float = 0.8,
        colsample: float = 0.2,
    ) -> None:
        self._objective = LOSSES[check_choice("loss_type", loss_type, tuple(LOSSES))]
        self._rounds = check_int("rounds", rounds)
        self._params: dict[str, Any] = {
            "objective": self._objective,
            "max_depth": check_int("max_depth", max_depth, maximum=16),
            "learning_rate": check_float("learning_rate", learning_rate, minimum=1e-6, maximum=1.0),
            "subsample": check_float("subsample", subsample, minimum=0.01, maximum=1.0),
            "tree_method": "hist",
            # Knobs have few values, and a histogram costs as much as it has bins.
            "max_bin": 32,
            "nthread": 1,
            "seed": seed % 2**31,
            "verbosity": 0,
        }
        if self._objective.startswith("rank"):
            # Compare each trial with eight random others, instead of one.
            self._params |= {"lambdarank_pair_method": "mean", "lambdarank_num_pair_per_sample": 8}
            # A pairwise loss has small second derivatives, so the default of 1 would forbid most splits of so few
            # trials.
            self._params["min_child_weight"] = 0.1
        self._colsample = check_float("colsample", colsample, minimum=0.01, maximum=1.0)
        self._booster: Any = None
        self._width = 0
        self._varying: npt.NDArray[np.intp] = np.empty(0, dtype=np.intp)

    def fit(self, features: Features, costs: Floats) -> None:
        rows, seconds = checked_training(NAME, features, costs)
        # Import on the first fit, since it takes half a second, and not every tuner needs it.
        try:
            import xgboost
        except Exception as error:  # a wheel without libomp raises its own kind of error
            raise PluginError(
                f"the cost model 'xgboost' needs the package xgboost, which fails to import: {error}"
            ) from error
        # A constant column only takes the place of others that a tree could have used.
        self._varying = np.flatnonzero(np.ptp(rows, axis=0) > 0)
        ranking = self._objective.startswith("rank")
        labels = relative_speed(seconds) if ranking else rank_and_speed(seconds)
        data = xgboost.DMatrix(rows[:, self._varying], label=labels, nthread=1)
        if ranking:
            data.set_group([len(seconds)])
        share = max(self._colsample, min(1.0, FEWEST_FEATURES / max(1, len(self._varying))))
        self._booster = xgboost.train(self._params | {"colsample_bynode": share}, data, num_boost_round=self._rounds)
        self._width = rows.shape[1]

    def predict(self, features: Features) -> Floats:
        if self._booster is None:
            raise not_fitted(NAME)
        rows = checked_features(NAME, features, width=self._width)
        scores: Floats = self._booster.inplace_predict(rows[:, self._varying]).astype(np.float64)
        return scores
