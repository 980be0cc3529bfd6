"""The common start: the first trials of a run are given, and the tuner takes over from there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pegbox.measure.result import Result
from pegbox.search.models.report import ModelReport
from pegbox.search.protocols import SelfReporting, Tuner
from pegbox.space import Config


class StartedTuner:
    """Proposes `start` first and tells `tuner` what came of it, as of any trial; then `tuner` is asked."""

    def __init__(self, tuner: Tuner, start: Sequence[Config]) -> None:
        self._tuner = tuner
        self._start = list(start)

    def ask(self, n: int) -> Sequence[Config]:
        if not self._start:
            return self._tuner.ask(n)
        given, self._start = self._start[:n], self._start[n:]
        return given

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        self._tuner.tell(configs, results)

    def model_report(self) -> ModelReport | None:
        return self._tuner.model_report() if isinstance(self._tuner, SelfReporting) else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tuner, name)  # batch_size, where the tuner has one
