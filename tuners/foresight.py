"""What a model said before a trial, and what the trial said."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from pegbox.measure.result import Result
from pegbox.search.model_report import ModelJudge, ModelReport
from pegbox.search.protocols import Floats
from pegbox.space import Config


class Foresight:
    """Keeps the scores of what is about to be measured, and compares those that one state of the model gave."""

    def __init__(self) -> None:
        self._judge = ModelJudge()
        self._expected: dict[Config, float] = {}
        self._scores: list[float] = []
        self._costs: list[float] = []

    def expect(self, configs: Sequence[Config], scores: Floats) -> None:
        """A new state of the model scored these (the higher, the faster); what was expected before is closed."""
        self._judge = self._judged()
        self._scores, self._costs = [], []
        self._expected = dict(zip(configs, scores.tolist(), strict=True))

    def learn(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        """What became of them. Configurations that nobody scored are passed over."""
        for config, result in zip(configs, results, strict=True):
            score = self._expected.pop(config, None)
            if score is not None:
                self._scores.append(score)
                self._costs.append(result.cost)

    def report(self) -> ModelReport | None:
        """None while nothing that was scored has been measured."""
        return self._judged().report()

    def _judged(self) -> ModelJudge:
        judge = copy.copy(self._judge)
        if self._scores:
            judge.add(self._scores, self._costs)
        return judge
