"""The base of the tuners that pegbox has, by AutoTVM's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pegbox.plugins.tvm.autotvm.measure.measure import MeasureInput, MeasureResult
from pegbox.plugins.tvm.autotvm.task.config import ConfigEntity
from pegbox.plugins.tvm.autotvm.task.task import Task
from pegbox.plugins.tvm.autotvm.tuner.tuner import ScriptTuner, Tuner
from pegbox.search.factory.base import TunerInputs
from pegbox.search.factory.create import make_tuner
from pegbox.search.models.inputs import tuner_inputs
from pegbox.search.protocols import Tuner as SearchTuner


class BuiltInTuner(Tuner):
    """A tuner of pegbox; `options` are its own, None stands for its default.

    Attributes:
        xs, ys: indices of what was measured, and FLOP a second.
    """

    spec: ClassVar[str]

    def __init__(self, task: Task, **options: Any) -> None:
        self._options = {name: value for name, value in options.items() if value is not None}
        self._made: SearchTuner | None = None
        super().__init__(task)

    def reset(self) -> None:
        super().reset()
        self._made = None
        self.xs: list[int] = []
        self.ys: list[float] = []

    @property
    def visited(self) -> list[int]:
        """Indices of what was measured."""
        return self.xs

    @property
    def made(self) -> SearchTuner:
        """The tuner of pegbox."""
        if self._made is None:
            self._made = make_tuner(self.spec, self.space.space, seed=0, options=self._options, **self.inputs())
        return self._made

    def inputs(self) -> TunerInputs:
        """What it is given beside the space."""
        return tuner_inputs(self.spec, self.task.inner)

    def _searcher(self) -> SearchTuner:
        own = all(
            getattr(type(self), name) is getattr(BuiltInTuner, name) for name in ("has_next", "next_batch", "update")
        )
        return self.made if own else ScriptTuner(self)

    def has_next(self) -> bool:
        return len(self.xs) < len(self.space)

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        return [ConfigEntity.of(config) for config in self.made.ask(batch_size)]

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        configs = [self.task.config_of(inp.config) for inp in inputs]
        for config, result in zip(configs, results, strict=True):
            self._note(config.index, result)
        self.made.tell(configs, [result.to_result() for result in results])

    def _consider(self, inp: MeasureInput, result: MeasureResult, number: int) -> float:
        self._note(inp.config.index, result)
        return super()._consider(inp, result, number)

    def _note(self, index: int, result: MeasureResult) -> None:
        if index not in self.xs:
            self.xs.append(index)
            self.ys.append(0.0 if result.error_no else self.task.flop / result.cost)
