"""`SketchPolicy`: the search of a task, over a `Session` of pegbox, and its cost models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pegbox.errors import ArgumentError
from pegbox.hooks import registry
from pegbox.plugins.tvm.absence import refuse
from pegbox.plugins.tvm.auto_scheduler.compute_dag import State
from pegbox.plugins.tvm.auto_scheduler.measure import MeasureInput, MeasureResult, PythonBasedMeasureCallback
from pegbox.plugins.tvm.auto_scheduler.measure_record import RecordReader, RecordToFile
from pegbox.plugins.tvm.runners import Log
from pegbox.search import BoundTuner, Callback, SearchOptions, Session, progress

if TYPE_CHECKING:
    from pegbox import Config
    from pegbox.measure import Result
    from pegbox.plugins.tvm.auto_scheduler.base_task import BaseTask
    from pegbox.plugins.tvm.auto_scheduler.search_task import TuningOptions
    from pegbox.search import SearchState, Trial, TuneResult


_DEFAULT_ROUND = 64  # trials; what TuningOptions has where a script says nothing

_OPTIONS = {
    "eps_greedy": "epsilon",
    "sample_init_use_measured_ratio": "measured",
    "evolutionary_search_population": "population",
    "evolutionary_search_num_iters": "generations",
    "evolutionary_search_mutation_prob": "mutation",
}
"""The parameters of TVM's policy, and the options of the tuner "evolution" with the same meaning."""

Measured = tuple[list[MeasureInput], list[MeasureResult]]


class RandomModel:
    """No model: a search with it tries configurations at random."""


class XGBModel:
    """Gradient-boosted trees on the features of programs, pegbox's cost model "xgboost".

    Args:
        num_warmup_sample: the trials before its scores count.
        seed: of the search.
    """

    def __init__(self, num_warmup_sample: int | None = None, seed: int = 0, **absent: Any) -> None:
        refuse("auto_scheduler.XGBModel", absent)
        self.num_warmup_sample, self.seed = num_warmup_sample, seed
        self.shown: list[tuple[MeasureInput, MeasureResult]] = []

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Show it trials: it learns from those of its task, and none of them is measured again."""
        self.shown += zip(inputs, results, strict=True)

    def update_from_file(self, file_name: str, n_lines: int | None = None) -> None:
        """Show it the trials of a log. Raises as `load_records`."""
        self.update(*RecordReader(file_name).read_lines(n_lines))


class PreloadMeasuredStates:
    """A log that a search goes on from: none of its trials is measured again. A file may not be there yet."""

    def __init__(self, filename: str = "auto_scheduler_tuning.json") -> None:
        self.filename = filename


class SketchPolicy:
    """The search of the sketches of a task, by evolution on a cost model.

    Args:
        program_cost_model: `XGBModel()`, `RandomModel()` (a random search), or a cost model of pegbox: its name, or an
            object with fit(features, costs) and predict(features).
        params: eps_greedy, sample_init_use_measured_ratio, evolutionary_search_population,
            evolutionary_search_num_iters and evolutionary_search_mutation_prob; the rest has pegbox's defaults.
        seed: of the search.
        verbose: 0 shows no progress.
        init_search_callbacks: `PreloadMeasuredStates`.

    Raises `ArgumentError` for an unknown parameter or callback.
    """

    def __init__(
        self,
        task: BaseTask,
        program_cost_model: Any = None,
        params: Mapping[str, Any] | None = None,
        seed: int | None = None,
        verbose: int = 1,
        init_search_callbacks: Sequence[PreloadMeasuredStates] | None = None,
    ) -> None:
        self.search_task, self.verbose, self.seed = task, verbose, seed
        self.program_cost_model = RandomModel() if program_cost_model is None else program_cost_model
        given = dict(params or {})
        self._options = {_OPTIONS[name]: given.pop(name) for name in _OPTIONS if name in given}
        refuse("auto_scheduler.SketchPolicy", given)
        self._preloaded = list(init_search_callbacks or ())
        for each in self._preloaded:
            if not isinstance(each, PreloadMeasuredStates):
                raise ArgumentError(f"init_search_callbacks: {each!r}; give PreloadMeasuredStates(file)")

    @cached_property
    def session(self) -> Session:
        """The search of pegbox, which goes on in rounds."""
        return Session(
            self.search_task.inner, tuner=self._tuner(), seed=self._seed, history=dict(self._known()).items()
        )

    def search(self, options: TuningOptions) -> State | None:
        """Search by these options; returns the best state of all, None if nothing ran.

        The fastest states of a search with a log are measured again at its end. Ctrl-C ends it.

        Raises `TuningError` if the tuner, the records or the measuring broke.
        """
        recorded = any(isinstance(each, RecordToFile) for each in options.measure_callbacks)
        size = options.num_measures_per_round
        self._round(
            options.num_measure_trials,
            options,
            early_stopping=options.early_stopping,
            batch_size=None if size == _DEFAULT_ROUND else size,
            finalists=SearchOptions.finalists if recorded else 0,
        )
        best = self.session.best
        return None if best is None else State(self.search_task.inner, best.config)

    def continue_search_one_round(self, num_measure: int, options: TuningOptions) -> Measured:
        """Measure so many more states, and return them with their results.

        Raises:
            TuningError: the tuner, the records or the measuring broke.
            KeyboardInterrupt: Ctrl-C; what was measured is recorded.
        """
        result = self._round(num_measure, options)
        if result.stopped_because == "interrupted":
            raise KeyboardInterrupt
        return self.measured(result.trials)

    def measured(self, trials: Sequence[Trial]) -> Measured:
        """Return the inputs and the results of trials."""
        task = self.search_task
        inputs = [MeasureInput(task, State(task.inner, trial.config)) for trial in trials]
        return inputs, [MeasureResult.of(trial.result) for trial in trials]

    def _round(self, trials: int, options: TuningOptions, **more: Any) -> TuneResult:
        session = self.session
        callbacks: list[Callback] = [progress()] if self.verbose > 0 and options.verbose > 0 else []
        for each in options.measure_callbacks:
            if isinstance(each, RecordToFile):
                each.journal.check_writable()
                callbacks.append(Log(each.journal, self.search_task.inner, session))
            elif isinstance(each, PythonBasedMeasureCallback):
                callbacks.append(_Batches(each, self))
            else:
                raise ArgumentError(
                    f"measure_callbacks: {each!r}: give RecordToFile(file), or an object of a class that derives from "
                    "PythonBasedMeasureCallback"
                )
        measuring = options.measuring
        if given := self.search_task.task_inputs:
            measuring = {**measuring, "measure_options": {**measuring["measure_options"], "inputs": given}}
        return session.round(trials, callbacks=callbacks, **measuring, **more)

    def _known(self) -> list[tuple[Config, Result]]:
        """Return the trials of the task that are preloaded, or that the cost model was shown."""
        pairs = list(getattr(self.program_cost_model, "shown", ()))
        for each in self._preloaded:
            pairs += RecordReader(each.filename) if Path(each.filename).exists() else []
        space = self.search_task.inner.fingerprint
        return [(inp.state.config, res.result) for inp, res in pairs if inp.state.task.fingerprint == space]

    @property
    def _seed(self) -> int:
        return getattr(self.program_cost_model, "seed", 0) if self.seed is None else self.seed

    def _tuner(self) -> str | BoundTuner:
        model, options = self.program_cost_model, self._options
        if isinstance(model, RandomModel):
            return "random"
        if not isinstance(model, XGBModel):
            options = {**options, "cost_model": model}
        elif model.num_warmup_sample is not None:
            options = {**options, "num_warmup": max(2, model.num_warmup_sample)}
        return BoundTuner(registry.get("tuner", "evolution"), options) if options else "evolution"


class _Batches(Callback):
    """A callback that calls one of a script with each batch."""

    def __init__(self, callback: PythonBasedMeasureCallback, policy: SketchPolicy) -> None:
        self.callback, self.policy = callback, policy

    def on_batch(self, trials: Sequence[Trial], state: SearchState) -> None:
        self.callback.callback(self.policy, *self.policy.measured(trials))
