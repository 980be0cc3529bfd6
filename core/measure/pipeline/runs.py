"""`Runs`: the executor of runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from pegbox.measure.result import Failed, Ok, Result
from pegbox.measure.runners.runner import RUN_GIVEN_UP
from pegbox.measure.runners.runner_call import CheckedRunner

if TYPE_CHECKING:
    from pegbox.codegen import CompiledProgram
    from pegbox.measure.machine.cores import CorePlan
    from pegbox.space import Config


class Runs:
    """An executor that runs candidates in silence, tracks the best cost, and keeps the object code of the fastest.

    Args:
        runner: the runner.
        cores: the timing cores.
        silence: a context that keeps builds off the timing cores.
        best: the best cost known from elsewhere, in seconds.
        kept_builds: the number of the fastest to keep.
    """

    def __init__(
        self,
        runner: CheckedRunner,
        cores: CorePlan,
        silence: Callable[[], AbstractContextManager[None]],
        *,
        best: float,
        kept_builds: int,
    ) -> None:
        self.runner, self._cores, self._silence = runner, cores, silence
        self._best, self._capacity = best, kept_builds
        self._kept: dict[Config, tuple[float, CompiledProgram]] = {}
        self._lock = threading.Lock()

    def run(self, config: Config, compiled: CompiledProgram, given_up: threading.Event) -> tuple[Result, float]:
        """Check and time a candidate; return also its seconds, or 0 if another machine counts them."""
        with self._silence():
            if given_up.is_set():  # given up during the wait
                return RUN_GIVEN_UP, 0.0
            began = time.perf_counter()
            result = self.runner.run(compiled, best=self._best)
            running = time.perf_counter() - began
        if isinstance(result, Ok) and not result.partial:
            with self._lock:
                self._best = min(self._best, result.cost)
            self._keep(config, compiled, result)
        return result, running if self._cores.timing else 0.0

    def rerun(self, candidates: Sequence[tuple[Config, CompiledProgram]]) -> tuple[list[Result], float]:
        """Time candidates in turns; return also the seconds of each."""
        if not candidates:
            return [], 0.0
        began = time.perf_counter()
        with self._silence():
            results = self.runner.rerun([compiled for _, compiled in candidates])
        for (config, compiled), result in zip(candidates, results, strict=True):
            self._keep(config, compiled, result)
        return results, (time.perf_counter() - began) / len(candidates)

    def kept(self, config: Config) -> CompiledProgram | None:
        """Return the build of a config, if it is among the fastest."""
        return self._kept.get(config, (0.0, None))[1]

    def _keep(self, config: Config, compiled: CompiledProgram, result: Result) -> None:
        if isinstance(result, Failed):
            return
        with self._lock:
            self._kept[config] = (result.cost, compiled)
            if len(self._kept) > self._capacity:
                del self._kept[max(self._kept, key=lambda held: self._kept[held][0])]
