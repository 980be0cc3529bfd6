"""Search policies: what is tried of a task's states, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pegbox.errors import ArgumentError
from pegbox.plugins.sketch.generator import default_rules
from pegbox.plugins.sketch.rules import Derived, Match
from pegbox.plugins.sketch.space import SketchSpace
from pegbox.plugins.sketch.state import State as SketchState
from pegbox.plugins.sketch.steps import Axes
from pegbox.plugins.tvm.auto_scheduler.base_task import BaseTask, state_in
from pegbox.plugins.tvm.auto_scheduler.cost_model import CostModel, RandomModel, XGBModel, config_of
from pegbox.plugins.tvm.auto_scheduler.loop_state import State
from pegbox.plugins.tvm.auto_scheduler.measure import (
    MeasureInput,
    MeasureResult,
    ProgramMeasurer,
    PythonBasedMeasureCallback,
)
from pegbox.plugins.tvm.auto_scheduler.measure_record import RecordReader, RecordToFile
from pegbox.plugins.tvm.auto_scheduler.state_object import StateObject, derived, stage_ops
from pegbox.plugins.tvm.notice import means_nothing
from pegbox.search.factory.create import make_tuner
from pegbox.search.loop.callbacks import Callback
from pegbox.search.loop.display import progress
from pegbox.search.loop.options import DEFAULT_FINALISTS
from pegbox.search.loop.recorder import Recorder
from pegbox.search.models.inputs import tuner_inputs
from pegbox.search.session import Session

if TYPE_CHECKING:
    from pegbox.measure.result import Result
    from pegbox.search.loop.outcome import Trial, TuneResult
    from pegbox.search.loop.state import SearchState
    from pegbox.space import Config
    from pegbox.task.task import Task

_DEFAULT_ROUND = 64  # trials; what TuningOptions has where a script says nothing


class SearchCallback:
    """Something to do before a search."""


class PreloadMeasuredStates(SearchCallback):
    """The search begins with what a file of records holds of its task; none of that is measured again.

    A file that is not there yet holds nothing.
    """

    def __init__(self, filename: str = "auto_scheduler_tuning.json") -> None:
        self.filename = filename


class PreloadCustomSketchRule(SearchCallback):
    """A sketch rule of a script, asked before those of pegbox.

    Args:
        meet_condition_func: `(policy, state, stage_id)`, gives `PASS`, `APPLY` or `APPLY_AND_SKIP_REST`.
        apply_func: `(policy, state, stage_id)`, gives a list of states, each with the stage to look at next.
        rule_name: for messages, and in the names of the sketches that it makes.
    """

    PASS = 0
    APPLY = 1
    APPLY_AND_SKIP_REST = 2

    def __init__(
        self,
        meet_condition_func: Callable[[SketchPolicy, StateObject, int], int],
        apply_func: Callable[[SketchPolicy, StateObject, int], Sequence[Sequence[Any]]],
        rule_name: str = "CustomSketchRule",
    ) -> None:
        self.meet_condition_func, self.apply_func, self.rule_name = meet_condition_func, apply_func, rule_name


_MATCH = {
    PreloadCustomSketchRule.PASS: Match.NO,
    PreloadCustomSketchRule.APPLY: Match.ALSO,
    PreloadCustomSketchRule.APPLY_AND_SKIP_REST: Match.ONLY,
}


class _CustomRule:
    """A script's rule as one of pegbox: stages are numbered with the inputs among them."""

    def __init__(self, policy: SketchPolicy, given: PreloadCustomSketchRule) -> None:
        self.policy, self.given, self.name = policy, given, given.rule_name

    def match(self, state: SketchState, stage: int) -> Match:
        found = self.given.meet_condition_func(self.policy, self._state(state), self._numbers(state)[stage])
        if found not in _MATCH:
            raise ArgumentError(f"the condition gave {found!r}; give PASS, APPLY or APPLY_AND_SKIP_REST")
        return _MATCH[found]

    def apply(self, state: SketchState, stage: int) -> list[Derived]:
        made = self.given.apply_func(self.policy, self._state(state), self._numbers(state)[stage])
        return [self._derived(each, state) for each in made]

    def _derived(self, made: Sequence[Any], before: SketchState) -> Derived:
        found = made[0].state_object if isinstance(made[0], State) else made[0]
        if not isinstance(found, StateObject) or found.core is None:
            raise ArgumentError(f"the rule gave {made!r}; give [state.state_object, next stage]")
        core = found.core.copy()
        if _count(core) > _count(before):
            core.applied.append(self.name)
        following = [n for n, number in enumerate(self._numbers(core)) if number <= int(made[1])]
        return core, following[-1] if following else -1

    def _state(self, core: SketchState) -> StateObject:
        return derived(core, self.policy.search_task.compute_dag.tensors)

    def _numbers(self, core: SketchState) -> list[int]:
        """The number of each computed stage."""
        ops = stage_ops(core.run, self._state(core).sketch)
        return [ops.index(core.op(name)) for name in core.stages]


def _count(core: SketchState) -> int:
    """Steps but those that only name axes."""
    return sum(not isinstance(step, Axes) for step in core.steps)


class SearchPolicy:
    """The base of policies: a search of one task that can go on in rounds."""

    def __init__(self, task: BaseTask, verbose: int = 1) -> None:
        self.search_task = task
        self.verbose = verbose

    def set_verbose(self, verbose: int) -> None:
        """0 shows no progress."""
        self.verbose = verbose

    @property
    def session(self) -> Session:
        """The search of pegbox behind it."""
        raise NotImplementedError

    def continue_search_one_round(
        self, num_measure: int, measurer: ProgramMeasurer
    ) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """Measure so many more states; gives what was measured.

        Raises:
            TuningError: the tuner, the records or the measuring broke.
            KeyboardInterrupt: Ctrl-C; what was measured is recorded, and whoever asks for rounds asks for no more.
        """
        result = self._round(num_measure, measurer)
        if result.stopped_because == "interrupted":
            raise KeyboardInterrupt
        return self.measured(result.trials)

    def search(
        self, num_measure_trials: int, early_stopping: int, num_measures_per_round: int, measurer: ProgramMeasurer
    ) -> StateObject | None:
        """Measure so many states; gives the best of all, None where nothing ran.

        Where records are kept, the fastest are measured again with care at the end, as pegbox does. Ctrl-C ends it.

        Raises:
            TuningError: the tuner, the records or the measuring broke.
        """
        recorded = any(isinstance(each, RecordToFile) for each in measurer.callbacks)
        self._round(
            num_measure_trials,
            measurer,
            early_stopping=early_stopping if early_stopping > 0 else None,
            batch_size=None if num_measures_per_round == _DEFAULT_ROUND else num_measures_per_round,
            finalists=DEFAULT_FINALISTS if recorded else 0,
        )
        best = self.session.best
        return None if best is None else self.state_of(best.config)

    def state_of(self, config: Config) -> StateObject:
        """The state that a configuration is."""
        return state_in(self._task, config)

    def measured(self, trials: Sequence[Trial]) -> tuple[list[MeasureInput], list[MeasureResult]]:
        """Trials of pegbox by TVM's names."""
        inputs = [MeasureInput(self.search_task, self.state_of(trial.config)) for trial in trials]
        return inputs, [MeasureResult.of(trial.result) for trial in trials]

    @property
    def _task(self) -> Task:
        return self.session.task  # type: ignore[return-value]

    def _round(self, trials: int, measurer: ProgramMeasurer, **options: Any) -> TuneResult:
        own, session = self._task, self.session
        callbacks: list[Callback] = [progress()] if self.verbose > 0 and measurer.verbose > 0 else []
        for each in measurer.callbacks:
            if isinstance(each, RecordToFile):
                each.journal.check_writable()
                callbacks.append(Recorder(each.journal, own, session.name, session.seed, session.run))
            elif isinstance(each, PythonBasedMeasureCallback):
                callbacks.append(_Told(each, self))
            else:
                raise ArgumentError(
                    f"measure_callbacks: {each!r}: give RecordToFile(file), or an object of a class that derives from "
                    "PythonBasedMeasureCallback"
                )
        result = session.round(
            trials,
            callbacks=callbacks,
            timeout=measurer.runner.timeout,
            measure_options=measurer.options(self.search_task),
            **options,
        )
        measurer.ct += len(result.trials)
        return result


class _Told(Callback):
    """Tells a script's callback what was measured."""

    def __init__(self, callback: PythonBasedMeasureCallback, policy: SearchPolicy) -> None:
        self.callback, self.policy = callback, policy

    def on_batch(self, trials: Sequence[Trial], state: SearchState) -> None:
        self.callback.callback(self.policy, *self.policy.measured(trials))


class EmptyPolicy(SearchPolicy):
    """Measures the computation without a step, once."""

    def __init__(self, task: BaseTask, init_search_callbacks: Sequence[SearchCallback] | None = None) -> None:
        super().__init__(task)
        own, _ = task.of_state(task.compute_dag.init_state)
        self._session = Session(own, tuner="grid")

    @property
    def session(self) -> Session:
        """The search of a space of one point."""
        return self._session


# Parameters of TVM's, and the options of the tuner "evolution" that mean the same.
_EVOLUTION = {
    "eps_greedy": "epsilon",
    "sample_init_use_measured_ratio": "measured",
    "evolutionary_search_population": "population",
    "evolutionary_search_num_iters": "generations",
    "evolutionary_search_mutation_prob": "mutation",
}


class SketchPolicy(SearchPolicy):
    """Searches the sketches of a task by evolution on a cost model.

    Args:
        program_cost_model: `XGBModel()`, `RandomModel()` (a random search), or a cost model of pegbox: its name, or an
            object with fit(features, costs) and predict(features).
        params: see `DEFAULT_PARAMS`. What has TVM's default is left to pegbox's own defaults.
        seed: of the search.
        verbose: 0 shows no progress.
        init_search_callbacks: `PreloadMeasuredStates`, `PreloadCustomSketchRule`.

    Raises:
        ArgumentError: an unknown parameter, cost model or callback.
        TemplateError: a rule does what is not legal.
    """

    DEFAULT_PARAMS: ClassVar[dict[str, Any]] = {
        "eps_greedy": 0.05,
        "retry_search_one_round_on_empty": 1,
        "sample_init_min_population": 50,
        "sample_init_use_measured_ratio": 0.2,
        "evolutionary_search_population": 2048,
        "evolutionary_search_num_iters": 4,
        "evolutionary_search_mutation_prob": 0.85,
        "cpu_multi_level_tiling_structure": "SSRSRS",
        "gpu_multi_level_tiling_structure": "SSSRRSRS",
        "max_innermost_split_factor": 64,
        "max_vectorize_size": 16,
        "disable_change_compute_location": 0,
    }

    def __init__(
        self,
        task: BaseTask,
        program_cost_model: Any = None,
        params: Mapping[str, Any] | None = None,
        seed: int | None = None,
        verbose: int = 1,
        init_search_callbacks: Sequence[SearchCallback] | None = None,
    ) -> None:
        super().__init__(task, verbose)
        self.params = {**self.DEFAULT_PARAMS, **(params or {})}
        self.program_cost_model = RandomModel() if program_cost_model is None else program_cost_model
        self.seed = seed or 0
        self._changed = {key: value for key, value in (params or {}).items() if value != self.DEFAULT_PARAMS.get(key)}
        self._callbacks = list(init_search_callbacks or ())
        self._check()
        self._session: Session | None = None
        self._space_task: Task | None = None

    @property
    def session(self) -> Session:
        """The search, with what was preloaded."""
        if self._session is None:
            own = self._task
            history = dict(self._known(own))
            self._session = Session(own, tuner=self._tuner(), seed=self.seed, history=history.items())
        return self._session

    def generate_sketches(self, print_for_debug: bool = False) -> list[StateObject]:
        """The sketches of the task, with their knobs open. pegbox's own rules are among those that derive them."""
        task = self._task
        space: SketchSpace = task.template.function.space(task.target, task.args, task.kwargs)  # type: ignore[attr-defined]
        made = [StateObject(sketch) for sketch in space.sketches.values()]
        for name, state in zip(space.sketches, made, strict=True) if print_for_debug else ():
            print(f"==== {name} ====\n{state}")
        return made

    def sample_initial_population(self) -> list[StateObject]:
        """Random states."""
        rows = self._task.space.sample(self.params["sample_init_min_population"], np.random.default_rng(self.seed))
        return [self.state_of(self._task.space.config(row)) for row in rows]

    def evolutionary_search(self, init_populations: Sequence[State | StateObject], out_size: int) -> list[StateObject]:
        """The states that the policy would measure next, by what is known now; the population is its own."""
        task = self._task
        tuner = make_tuner(self._tuner(), task.space, seed=self.seed, **tuner_inputs(self._tuner(), task))
        known = dict(self._known(task))
        tuner.tell(list(known), list(known.values()))
        return [self.state_of(config) for config in tuner.ask(out_size)]

    @property
    def _task(self) -> Task:
        if self._space_task is None:
            self._space_task = self._derived_task()
        return self._space_task

    def _derived_task(self) -> Task:
        custom = [_CustomRule(self, each) for each in self._callbacks if isinstance(each, PreloadCustomSketchRule)]
        tiling = self.params["cpu_multi_level_tiling_structure"], self.params["max_innermost_split_factor"]
        if not custom and not self._changed.keys() & _TILING:
            return self.search_task.tuned_task
        if not custom:
            return self.search_task.with_rules(structure=tiling[0], max_innermost_factor=tiling[1])
        return self.search_task.with_rules([*custom, *default_rules(*tiling)])

    def _known(self, own: Task) -> list[tuple[Config, Result]]:
        """What was preloaded, and what the cost model was shown."""
        model = self.program_cost_model
        found = model.history(own) if isinstance(model, XGBModel) else []
        for each in self._callbacks:
            if isinstance(each, PreloadMeasuredStates) and Path(each.filename).exists():
                pairs = [(config_of(inp, own), result.result) for inp, result in RecordReader(each.filename)]
                found += [(config, result) for config, result in pairs if config is not None]
        return found

    def _tuner(self) -> str | Callable[..., Any]:
        model = self.program_cost_model
        if isinstance(model, RandomModel):
            return "random"
        options = {_EVOLUTION[key]: value for key, value in self._changed.items() if key in _EVOLUTION}
        if isinstance(model, XGBModel) and model.num_warmup_sample is not None:
            options["num_warmup"] = max(2, model.num_warmup_sample)
        if not isinstance(model, XGBModel):
            options["cost_model"] = model
        return _evolution(options)

    def _check(self) -> None:
        unknown = sorted(set(self.params) - set(self.DEFAULT_PARAMS))
        if unknown:
            raise ArgumentError(f"params: there is no {unknown[0]!r}; there are {', '.join(self.DEFAULT_PARAMS)}")
        for key in sorted(self._changed.keys() - _EVOLUTION.keys() - _TILING - {"sample_init_min_population"}):
            means_nothing(f"params={{{key!r}: ...}}", "pegbox's space and tuner have no such limit")
        for each in self._callbacks:
            if not isinstance(each, SearchCallback):
                raise ArgumentError(
                    f"init_search_callbacks: {each!r}; give PreloadMeasuredStates or PreloadCustomSketchRule"
                )
        model = self.program_cost_model
        if isinstance(model, CostModel) and not isinstance(model, XGBModel | RandomModel):
            raise ArgumentError(f"program_cost_model={model!r}: give XGBModel() or RandomModel(), or one of pegbox")


_TILING = {"cpu_multi_level_tiling_structure", "max_innermost_split_factor"}


def _evolution(options: Mapping[str, Any]) -> str | Callable[..., Any]:
    """The tuner by its name, with options of it."""
    if not options:
        return "evolution"
    from pegbox.hooks import registry
    from pegbox.search.factory.base import BoundTuner

    return BoundTuner(registry.get("tuner", "evolution"), options)
