"""What a tuner with a model keeps of its trials."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pegbox.measure.result import Result
from pegbox.search.protocols import Floats
from pegbox.space import Config, ConfigSpace
from pegbox.tuners.prediction_log import Foresight
from pegbox.tuners.visited import Digits, Explored, rows_of


class Told:
    """The `rows` (n, knobs) that were measured and their `costs` (n,), in the order of telling.

    `explored` knows them, and what was proposed; `foresight` compares them with what a model had said.
    """

    def __init__(self, space: ConfigSpace) -> None:
        self.explored = Explored(space)
        self.foresight = Foresight()
        self.rows: Digits = np.empty((0, len(space.knobs)), dtype=np.int64)
        self.costs: Floats = np.empty(0)

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        """Take in results, in the order of `configs`."""
        if not configs:
            return
        rows = rows_of(configs)
        self.explored.add(rows)
        self.foresight.learn(configs, results)
        self.rows = np.concatenate([self.rows, rows])
        self.costs = np.concatenate([self.costs, [result.cost for result in results]])
