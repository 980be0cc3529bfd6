"""The trials known to a tuner with a model."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from pegbox.measure import Result
from pegbox.search import Floats, ModelJudge, ModelReport
from pegbox.space import Config, ConfigSpace
from pegbox.tuners.rows import Digits, rows_of
from pegbox.tuners.visited_set import VisitedSet

OPEN = 2
"""The number of states of a model whose trials may still come: a tuner may be asked while a batch is in progress."""


@dataclass
class _State:
    """The scores of one state of a model, and the measurements of these configurations."""

    expected: dict[Config, float]
    scores: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)


class PredictionLog:
    """The scores of configurations before their measurement and their costs, for each state of the model."""

    def __init__(self) -> None:
        self._judge = ModelJudge()
        self._states: list[_State] = []

    def expect(self, configs: Sequence[Config], scores: Floats) -> None:
        """Note the scores of a new state of the model (higher is faster), and close its oldest state."""
        self._states.append(_State(dict(zip(configs, scores.tolist(), strict=True))))
        for state in self._states[:-OPEN]:
            _add(self._judge, state)
        self._states = self._states[-OPEN:]

    def learn(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        """Note the costs of scored configurations; skip others."""
        for config, result in zip(configs, results, strict=True):
            for state in self._states:
                score = state.expected.pop(config, None)
                if score is not None:
                    state.scores.append(score)
                    state.costs.append(result.cost)

    def report(self) -> ModelReport | None:
        """Report on the predictions; None if no scored configuration has been measured yet."""
        judge = copy.copy(self._judge)
        for state in self._states:
            _add(judge, state)
        return judge.report()


def _add(judge: ModelJudge, state: _State) -> None:
    if state.scores:
        judge.add(state.scores, state.costs)


class TrialHistory:
    """The measured `rows` (n, knobs) and their `costs` (n,), in order of arrival.

    `visited` holds them and the proposals; `predictions` compares them with the model's scores.
    """

    def __init__(self, space: ConfigSpace) -> None:
        self.visited = VisitedSet(space)
        self.predictions = PredictionLog()
        self.rows: Digits = np.empty((0, len(space.knobs)), dtype=np.int64)
        self.costs: Floats = np.empty(0)

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        """Add results, in the order of `configs`."""
        if not configs:
            return
        rows = rows_of(configs)
        self.visited.add(rows)
        self.predictions.learn(configs, results)
        self.rows = np.concatenate([self.rows, rows])
        self.costs = np.concatenate([self.costs, [result.cost for result in results]])
