"""The trials that a tuner with a model was told of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pegbox.measure.result import Result
from pegbox.search.protocols import Floats
from pegbox.space import Config, ConfigSpace
from pegbox.tuners.prediction_log import PredictionLog
from pegbox.tuners.visited_set import Digits, VisitedSet, rows_of


class TrialHistory:
    """The `rows` (n, knobs) that were measured and their `costs` (n,), in the order of telling.

    `visited` holds them and what was proposed; `predictions` compares them with what a model had said.
    """

    def __init__(self, space: ConfigSpace) -> None:
        self.visited = VisitedSet(space)
        self.predictions = PredictionLog()
        self.rows: Digits = np.empty((0, len(space.knobs)), dtype=np.int64)
        self.costs: Floats = np.empty(0)

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        """Take in results, in the order of `configs`."""
        if not configs:
            return
        rows = rows_of(configs)
        self.visited.add(rows)
        self.predictions.learn(configs, results)
        self.rows = np.concatenate([self.rows, rows])
        self.costs = np.concatenate([self.costs, [result.cost for result in results]])
