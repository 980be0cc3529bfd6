"""`tvm.autotvm.tuner`: the tuners of pegbox by AutoTVM's names, and the base of a script's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from pegbox import Config, ConfigSpace, program_features
from pegbox.errors import ArgumentError, TuningError
from pegbox.hooks import registry
from pegbox.measure import Result
from pegbox.plugins.tvm.absence import refuse
from pegbox.plugins.tvm.autotvm import callback as callback
from pegbox.plugins.tvm.autotvm.callback import LogToFile, flops
from pegbox.plugins.tvm.autotvm.measure import MeasureInput, MeasureResult
from pegbox.plugins.tvm.autotvm.task.task import Task, logger
from pegbox.plugins.tvm.runners import Log
from pegbox.search import (
    BoundTuner,
    Callback,
    SearchOptions,
    SearchState,
    Session,
    Transfer,
    Trial,
    TuneResult,
    make_tuner,
)
from pegbox.search import Tuner as SearchTuner


class Tuner:
    """The base of tuners; a script's own define `has_next`, `next_batch` and `update`.

    Attributes:
        best_config, best_flops, best_measure_pair: of the fastest so far; None, 0 and None without one.
        best_iter: its number, counted from 0.
        result: the `TuneResult` of the last search; None before.
    """

    def __init__(self, task: Task, **_: Any) -> None:
        self.task, self.space = task, task.config_space
        self.reset()

    def reset(self) -> None:
        """Forget all trials."""
        self.best_config: Config | None = None
        self.best_flops = 0.0
        self.best_measure_pair: tuple[MeasureInput, MeasureResult] | None = None
        self.best_iter = 0
        self.result: TuneResult | None = None
        self._session: Session | None = None

    def has_next(self) -> bool:
        """Return True if the tuner has more to propose."""
        return True

    def next_batch(self, batch_size: int) -> list[Config]:
        """Propose at most so many configurations."""
        raise NotImplementedError(f"{type(self).__name__} defines no next_batch(batch_size)")

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from measurements."""

    def ask(self, n: int) -> list[Config]:
        """Propose configurations, as pegbox asks for them."""
        return self.next_batch(n) if self.has_next() else []

    def tell(self, configs: Sequence[Config], results: Sequence[Result]) -> None:
        """Learn from results, as pegbox reports them."""
        pairs = list(map(self._pair, configs, results))
        self.update([inp for inp, _ in pairs], [result for _, result in pairs])

    def load_history(self, data_set: Any, min_seed_records: int = 500) -> None:
        """Learn from an earlier search: only the tuner with a model does."""

    def tune(
        self,
        n_trial: int,
        measure_option: dict[str, Any],
        early_stopping: int | None = None,
        callbacks: Sequence[Callable[..., Any]] = (),
    ) -> None:
        """Search until `n_trial` were measured, or `early_stopping` in a row were not better.

        At the end the best few are measured again, interleaved; the winner is the `best_config`. Each callback is
        called as callback(tuner, [input], [result]) as soon as a result is there.

        Raises:
            ArgumentError: an option outside its domain.
            TuningError: the tuner or the measuring broke.
            KeyboardInterrupt: Ctrl-C; the best so far is known, and what was logged stays.
        """
        if not isinstance(measure_option, dict) or "measure_options" not in measure_option:
            raise ArgumentError(f"measure_option={measure_option!r}: give autotvm.measure_option(builder=, runner=)")
        self._session = session = self._session or Session(self.task.inner, tuner=self._factory())
        before = len(session.trials)
        watch = _Watch(self, callbacks, before)
        logs = [
            Log(each.journal, self.task.inner, session, type(self).__name__)
            for each in callbacks
            if isinstance(each, LogToFile)
        ]
        try:
            self.result = result = session.round(
                min(n_trial, self._most),
                early_stopping=early_stopping,
                callbacks=[*logs, watch],
                finalists=SearchOptions.finalists,
                **measure_option,
            )
        except TuningError as error:
            raise watch.broken or error from None
        if result.finalists and result.best is not None and self.best_iter >= before:  # the best is of this round
            self._choose(*self._pair(result.best.config, result.best.result), before + result.best.number)
        if result.stopped_because == "interrupted":
            raise KeyboardInterrupt

    @property
    def _most(self) -> int:
        """The number of configurations that the tuner may propose."""
        return self.space.range_length

    def _factory(self) -> Any:
        """Return a factory that makes this tuner for pegbox."""

        def made(space: ConfigSpace, *, seed: int = 0) -> Tuner:
            return self

        made.__name__ = type(self).__name__
        return made

    def _pair(self, config: Config, result: Result) -> tuple[MeasureInput, MeasureResult]:
        return MeasureInput(self.task.target, self.task, config), MeasureResult.of(result)

    def _choose(self, inp: MeasureInput, result: MeasureResult, number: int) -> None:
        self.best_flops, self.best_config, self.best_iter = flops(inp, result), inp.config, number
        self.best_measure_pair = (inp, result)


class _Watch(Callback):
    """A callback that keeps the tuner's best, logs the trials, and calls the callbacks of a script."""

    essential = True

    def __init__(self, tuner: Tuner, callbacks: Sequence[Callable[..., Any]], before: int) -> None:
        for each in callbacks:
            if not callable(each):
                raise ArgumentError(f"callbacks: {each!r}: give functions of (tuner, inputs, results)")
        self._tuner, self._before = tuner, before
        self._callbacks = [each for each in callbacks if not isinstance(each, LogToFile)]
        self.broken: Exception | None = None

    def on_trial(self, trial: Trial, state: SearchState) -> None:
        tuner, number = self._tuner, self._before + trial.number
        inp, result = tuner._pair(trial.config, trial.result)
        speed = flops(inp, result)
        if speed > tuner.best_flops:
            tuner._choose(inp, result, number)
        logger.debug(
            "No: %d\tGFLOPS: %.2f/%.2f\tresult: %s\t%s",
            number + 1, speed / 1e9, tuner.best_flops / 1e9, result, inp.config,
        )  # fmt: skip
        for each in self._callbacks:
            try:
                each(tuner, [inp], [result])
            except Exception as error:
                self.broken = error
                raise


class _BuiltIn(Tuner):
    """A tuner of pegbox; `options` are its own, and None has its default."""

    spec: ClassVar[str]

    def __init__(self, task: Task, **options: Any) -> None:
        self._options = {name: value for name, value in options.items() if value is not None}
        super().__init__(task)

    def _factory(self) -> Any:
        return BoundTuner(registry.get("tuner", self.spec), self._options) if self._options else self.spec


class _IndexBased(_BuiltIn):
    """A search of the indices from the first to the last of `range_idx`, both included; without it, all."""

    def __init__(self, task: Task, range_idx: tuple[int, int] | None = None) -> None:
        self._range = range_idx
        super().__init__(task, range_idx=range_idx)

    @property
    def _most(self) -> int:
        first, last = self._range or (0, super()._most - 1)
        return last - first + 1


class GridSearchTuner(_IndexBased):
    """pegbox's `grid`, in the order of the indices."""

    spec = "grid"


class RandomTuner(_IndexBased):
    """pegbox's `random`."""

    spec = "random"


class GATuner(_BuiltIn):
    """pegbox's `ga`. A population that is larger than the space has its size."""

    spec = "ga"

    def __init__(
        self,
        task: Task,
        pop_size: int | None = None,
        elite_num: int | None = None,
        mutation_prob: float | None = None,
    ) -> None:
        size = None if pop_size is None else max(2, min(pop_size, len(task.config_space)))
        elite = elite_num if size is None or elite_num is None else min(elite_num, size)
        super().__init__(task, population=size, elite=elite, mutation=mutation_prob)


class DropletTuner(_BuiltIn):
    """pegbox's `droplet`; `pvalue` is the significance level of a step."""

    spec = "droplet"

    def __init__(self, task: Task, pvalue: float | None = None) -> None:
        super().__init__(task, pvalue=pvalue)


_FEATURES = {None: None, "itervar": "program", "curve": "program", "knob": "knobs"}
_LOSSES = {None: None, "reg": "reg", "rank": "rank", "rank-binary": "rank"}


class XGBTuner(_BuiltIn):
    """pegbox's `xgb`.

    Args:
        plan_size: the configurations between two fits of the model.
        feature_type: "itervar" and "curve" mean features of the program, "knob" those of the knobs.
        loss_type: "reg", "rank" or "rank-binary", which is "rank" here.
    """

    spec = "xgb"

    def __init__(
        self,
        task: Task,
        plan_size: int | None = None,
        feature_type: str | None = None,
        loss_type: str | None = None,
        optimizer: Any = "sa",
        **absent: Any,
    ) -> None:
        refuse("autotvm.tuner.XGBTuner", {"optimizer": None if optimizer == "sa" else optimizer, **absent})
        for name, value, known in (("feature_type", feature_type, _FEATURES), ("loss_type", loss_type, _LOSSES)):
            if value not in known:
                raise ArgumentError(f"{name}={value!r}: give one of {', '.join(filter(None, known))}")
        self._transfer: tuple[Transfer, ...] = ()
        super().__init__(task, plan_size=plan_size, features=_FEATURES[feature_type], loss_type=_LOSSES[loss_type])

    def load_history(self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 500) -> None:
        """Learn from earlier trials of the template, of any shape, before the search begins.

        Args:
            data_set: as `record.load_from_file` gives it; trials of other templates are left out.
            min_seed_records: with fewer, nothing is learned.
        """
        groups: dict[tuple[Any, ...], list[tuple[MeasureInput, MeasureResult]]] = {}
        for inp, result in data_set:
            if inp.task.name == self.task.name:
                groups.setdefault(inp.task.workload, []).append((inp, result))
        if (count := sum(map(len, groups.values()))) < min_seed_records:
            logger.warning("load_history: %d trials, fewer than min_seed_records=%d", count, min_seed_records)
            return
        self._transfer = tuple(map(_transfer, groups.values()))
        if self._options.get("features") == "knobs":  # which mean something for one shape only
            self._options["features"] = "both"

    def _factory(self) -> Any:
        if not self._transfer:
            return super()._factory()

        def xgb(space: ConfigSpace, *, seed: int = 0, program: Any = None, experience: Any = None) -> SearchTuner:
            given = {"program": program, "experience": experience, "transfer": self._transfer}
            return make_tuner(self.spec, space, seed=seed, options=self._options, **given)

        return xgb


def _transfer(pairs: list[tuple[MeasureInput, MeasureResult]]) -> Transfer:
    """Make transfer data from the trials of one workload; the latest result of a configuration counts."""
    task = pairs[0][0].task
    costs = {inp.config.digits: result.cost for inp, result in pairs}
    features = program_features(task.inner)(np.array([*costs], dtype=np.int64))
    return Transfer(str(task.workload), features, np.array([*costs.values()]))
