"""Cost models by TVM's names: `XGBModel` learns from trials, `RandomModel` guesses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pegbox.errors import ArgumentError
from pegbox.plugins.tvm.auto_scheduler.loop_state import State
from pegbox.plugins.tvm.auto_scheduler.measure import MeasureInput, MeasureResult
from pegbox.plugins.tvm.auto_scheduler.measure_record import RecordedInput, RecordReader, save_records
from pegbox.plugins.tvm.auto_scheduler.state_object import StateObject
from pegbox.plugins.tvm.notice import means_nothing
from pegbox.search.factory.create import make_cost_model
from pegbox.search.models.inputs import program_features

if TYPE_CHECKING:
    from pegbox.measure.result import Result
    from pegbox.plugins.tvm.auto_scheduler.base_task import BaseTask
    from pegbox.space import Config
    from pegbox.task.task import Task

Scores = npt.NDArray[np.float64]


class CostModel:
    """The base of cost models."""


class PythonBasedModel(CostModel):
    """Refused: a model of one's own learns from features here, not from states."""

    def __init__(self) -> None:
        raise ArgumentError(
            f"{type(self).__name__}: write a class with fit(features, costs) and predict(features), as docs/plugins.md "
            "says, and give an object of it as SketchPolicy(task, program_cost_model=...)"
        )


class RandomModel(CostModel):
    """No model: a search with it tries configurations at random."""

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learns nothing."""

    def predict(self, search_task: BaseTask, states: Sequence[State | StateObject]) -> Scores:
        """Random numbers."""
        return np.random.default_rng().random(len(states))


class XGBModel(CostModel):
    """Gradient-boosted trees on the features of programs, pegbox's cost model "xgboost".

    A search trains it on what it measures, and on what it was shown before by `update` and `update_from_file`; none of
    these is measured again.

    Args:
        num_warmup_sample: trials before its word counts; pegbox's default where it is not given.
        seed: of the trees.
        model_file: what `save` wrote.
    """

    def __init__(
        self,
        verbose_eval: int = 25,
        num_warmup_sample: int | None = None,
        seed: int | None = None,
        model_file: str | None = None,
        adaptive_training: bool = False,
    ) -> None:
        if adaptive_training:
            means_nothing("XGBModel(adaptive_training=True)", "fitting takes milliseconds")
        self.num_warmup_sample = num_warmup_sample
        self.seed = seed or 0
        self.inputs: list[MeasureInput] = []
        self.results: list[MeasureResult] = []
        if model_file is not None:
            self.load(model_file)

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Show it trials."""
        self.inputs += inputs
        self.results += results

    def update_from_file(self, file_name: str, n_lines: int | None = None) -> None:
        """Show it the records of a file. Raises `RecordError` where it cannot be read."""
        self.update(*RecordReader(file_name).read_lines(n_lines))

    def save(self, file_name: str) -> None:
        """Write the trials that it was shown: it is made of them anew in milliseconds."""
        save_records(file_name, self.inputs, self.results)

    load = update_from_file

    def predict(self, task: BaseTask, states: Sequence[State | StateObject]) -> Scores:
        """Scores of states: the higher, the faster. Only their order has a meaning.

        Raises:
            ArgumentError: it was shown no trial that ran of the states' space, or they are from several.
        """
        if not states:
            return np.empty(0)
        pairs = [task.of_state(s.state_object if isinstance(s, State) else s) for s in states]
        own = pairs[0][0]
        if any(other is not own for other, _ in pairs):
            raise ArgumentError("XGBModel.predict: give states of one search")
        shown, features = self.history(own), program_features(own)
        if features is None or not any(result.ok for _, result in shown):
            raise ArgumentError("XGBModel.predict: it was shown no trial of this task that ran; call update(...) first")
        model = make_cost_model("xgboost", seed=self.seed)
        model.fit(features(_rows(config for config, _ in shown)), np.array([result.cost for _, result in shown]))
        return model.predict(features(_rows(config for _, config in pairs)))

    def history(self, task: Task) -> list[tuple[Config, Result]]:
        """The trials that it was shown of a task of pegbox."""
        pairs = zip(self.inputs, self.results, strict=True)
        found = ((config_of(inp, task), result.result) for inp, result in pairs)
        return [(config, result) for config, result in found if config is not None]


def config_of(inp: MeasureInput, task: Task) -> Config | None:
    """The configuration of an input; None where it is of another task of pegbox."""
    if isinstance(inp, RecordedInput):
        return task.space.from_json(inp.config) if inp.space == task.fingerprint else None
    config = inp.state.config
    return config if config is not None and config.space is task.space else None


def _rows(configs: Iterable[Config]) -> npt.NDArray[np.int64]:
    return np.array([config.digits for config in configs], dtype=np.int64)
