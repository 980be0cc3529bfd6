"""`tvm.autotvm.tuner.tuner`: the base of tuners, whose `tune` is a search of pegbox's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pegbox.errors import ArgumentError, TuningError
from pegbox.measure.result import Result
from pegbox.plugins.tvm.autotvm.env import GLOBAL_SCOPE, logger
from pegbox.plugins.tvm.autotvm.measure.measure import MeasureInput, MeasureResult
from pegbox.plugins.tvm.autotvm.measure.measure_methods import ScriptMeasurer, measurer_of
from pegbox.plugins.tvm.autotvm.task.config import ConfigEntity
from pegbox.plugins.tvm.autotvm.task.config_space import ConfigSpace
from pegbox.plugins.tvm.autotvm.task.task import Task
from pegbox.plugins.tvm.autotvm.utils import format_si_prefix
from pegbox.plugins.tvm.notice import means_nothing
from pegbox.search.loop.callbacks import Callback
from pegbox.search.loop.noise import NoiseWatch
from pegbox.search.loop.options import DEFAULT_FINALISTS, SearchOptions
from pegbox.search.loop.outcome import BestTrial, Trial, TuneResult
from pegbox.search.loop.state import SearchState
from pegbox.search.loop.tuning import run
from pegbox.search.protocols import Tuner as SearchTuner
from pegbox.search.subject import Subject
from pegbox.space import Config


class Tuner:
    """Base of tuners. Those of scripts override `has_next`, `next_batch` and `update`.

    Attributes:
        best_config, best_flops, best_measure_pair: of the fastest so far; None, 0 and None without one.
        best_iter: its number, counted from 0.
        result: of the last search, as `pegbox.tune` gives it; None before.
    """

    def __init__(self, task: Task, **kwargs: Any) -> None:
        self.param = kwargs
        self.task = task
        self.space: ConfigSpace = task.config_space
        self.n_trial: int | None = None
        self.early_stopping: int | None = None
        self.ttl: int | None = None
        self.result: TuneResult | None = None
        self.reset()

    def reset(self) -> None:
        """Forget the best."""
        self.best_config: ConfigEntity | None = None
        self.best_flops = 0.0
        self.best_measure_pair: tuple[MeasureInput, MeasureResult] | None = None
        self.best_iter = 0

    @property
    def _left(self) -> int | None:
        """How many configurations are left in the part of the space that it searches; None where that is the whole."""
        return None

    def has_next(self) -> bool:
        """Whether the space has more."""
        raise NotImplementedError

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """At most so many configurations to measure."""
        raise NotImplementedError

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from what was measured."""

    def load_history(self, data_set: Any, min_seed_records: int = 500) -> None:
        """Learn from an earlier search: only the tuners with a model do."""

    def set_error_threshold(self, threshold: int) -> None:
        """Says that it changes nothing."""
        means_nothing("set_error_threshold", "a search says itself when all trials fail")

    def tune(
        self,
        n_trial: int,
        measure_option: Any,
        early_stopping: int | None = None,
        callbacks: Sequence[Callable[..., Any]] = (),
        si_prefix: str = "G",
    ) -> None:
        """Search until `n_trial` were measured, or `early_stopping` in a row were not better.

        At the end the best few are measured again, interleaved; the winner is the `best_config`. Each callback is
        called as callback(tuner, [input], [result]) as soon as a result is there.

        Raises:
            ArgumentError: an option outside its domain.
            TuningError: the tuner or the measuring broke.
            KeyboardInterrupt: Ctrl-C; the best so far is known, and what was logged stays.
        """
        format_si_prefix(0, si_prefix)
        task, space = self.task, self.space.space
        self.n_trial, self.early_stopping = n_trial, early_stopping
        space.sample(1, np.random.default_rng(0))  # an empty space is not the tuner's fault
        open_measurer, watch = measurer_of(task, measure_option), _Watch(self, callbacks, si_prefix)
        GLOBAL_SCOPE.in_tuning = True
        try:
            with open_measurer(task.inner) as measurer:
                self.result = result = run(
                    self._searcher(),
                    measurer,
                    SearchOptions(
                        n_trial if self._left is None else min(n_trial, self._left),
                        early_stopping=early_stopping,
                        # A script's own runner is asked for its trials alone.
                        finalists=0 if isinstance(measurer, ScriptMeasurer) else DEFAULT_FINALISTS,
                        callbacks=[watch, NoiseWatch(task.target.num_cores)],
                        name=type(self).__name__,
                    ),
                    subject=Subject(task.name, task.inner, task.flop, task.inner.bytes_moved),
                    space=space,
                )
        except TuningError as error:
            raise watch.broken or error from None
        finally:
            GLOBAL_SCOPE.in_tuning = False
        if result.finalists and result.best is not None:
            self._choose(*watch.pair(result.best), result.best.number)
        if result.stopped_because == "interrupted":
            raise KeyboardInterrupt

    def _searcher(self) -> SearchTuner:
        """The tuner as pegbox's search asks and tells it."""
        return ScriptTuner(self)

    def _consider(self, inp: MeasureInput, result: MeasureResult, number: int) -> float:
        """Keep the best; gives the FLOP a second."""
        flops = 0.0 if result.error_no else self.task.flop / result.cost
        if flops > self.best_flops:
            self._choose(inp, result, number)
        return flops

    def _choose(self, inp: MeasureInput, result: MeasureResult, number: int) -> None:
        self.best_flops, self.best_config, self.best_iter = self.task.flop / result.cost, inp.config, number
        self.best_measure_pair = (inp, result)


class ScriptTuner:
    """A tuner of a script, as pegbox's search asks and tells it."""

    def __init__(self, tuner: Tuner) -> None:
        self._tuner = tuner

    def ask(self, n: int) -> list[Config]:
        tuner = self._tuner
        return [tuner.task.config_of(config) for config in tuner.next_batch(n)] if tuner.has_next() else []

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        task = self._tuner.task
        inputs = [MeasureInput(task.target, task, ConfigEntity.of(config)) for config in configs]
        self._tuner.update(inputs, [MeasureResult.of(result) for result in results])


class _Watch(Callback):
    """Keeps the tuner's best, logs the trials, and calls the callbacks of a script."""

    essential = True

    def __init__(self, tuner: Tuner, callbacks: Sequence[Callable[..., Any]], si_prefix: str) -> None:
        for callback in callbacks:
            if not callable(callback):
                raise ArgumentError(f"callbacks: {callback!r} is no function of (tuner, inputs, results)")
        self._tuner, self._callbacks, self._prefix = tuner, callbacks, si_prefix
        self.broken: Exception | None = None

    def on_trial(self, trial: Trial, state: SearchState) -> None:
        tuner, prefix = self._tuner, self._prefix
        inp, result = self.pair(trial)
        flops = tuner._consider(inp, result, trial.number)
        tuner.ttl = (tuner.n_trial or 0) - trial.number - 1
        speeds = [format_si_prefix(value, prefix) for value in (flops, tuner.best_flops)]
        logger.debug(
            "No: %d\t%sFLOPS: %.2f/%.2f\tresult: %s\t%s", trial.number + 1, prefix, *speeds, result, inp.config
        )
        self._call(lambda callback: callback(tuner, [inp], [result]))

    def on_remeasured(self, trial: Trial, state: SearchState) -> None:
        inp, result = self.pair(trial)
        self._call(lambda callback: getattr(callback, "remeasured", lambda *_: None)(self._tuner, inp, result))

    def pair(self, trial: Trial | BestTrial) -> tuple[MeasureInput, MeasureResult]:
        task = self._tuner.task
        return MeasureInput(task.target, task, ConfigEntity.of(trial.config)), MeasureResult.of(trial.result)

    def _call(self, call: Callable[[Callable[..., Any]], Any]) -> None:
        for callback in self._callbacks:
            try:
                call(callback)
            except Exception as error:
                self.broken = error
                raise
