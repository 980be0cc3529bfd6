"""The common start: the first trials of a run are the same for all tuners, which take over from there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pegbox.comparison.testbed import Testbed
from pegbox.errors import SpaceError
from pegbox.measure.result import Result
from pegbox.search.models.report import ModelReport
from pegbox.search.protocols import SelfReporting, Tuner
from pegbox.space import Config

_START_STREAM = 0x57A27
"""Keeps the draw of the common start apart from tuners that draw from a generator of the same seed."""


def draw_start(testbed: Testbed, seed: int, count: int) -> list[Config]:
    """The random configurations that every tuner starts from with this seed. Raises `SpaceError` if none is valid."""
    try:
        rows = testbed.problem.space.sample(count, np.random.default_rng([_START_STREAM, seed]))
    except SpaceError as error:
        raise SpaceError(f"{testbed.info.name}: {error}") from error
    return [testbed.problem.space.config(tuple(row)) for row in rows.tolist()]


class CommonStartTuner:
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
