"""`tvm.autotvm.tuner.ga_tuner`: the genetic algorithm."""

from __future__ import annotations

from pegbox.plugins.tvm.autotvm.task.task import Task
from pegbox.plugins.tvm.autotvm.tuner.built_in import BuiltInTuner


class GATuner(BuiltInTuner):
    """pegbox's `ga`. What is not given has its default: `pop_size` 12, `elite_num` half of it, `mutation_prob` 0.5."""

    spec = "ga"

    def __init__(
        self,
        task: Task,
        pop_size: int | None = None,
        elite_num: int | None = None,
        mutation_prob: float | None = None,
    ) -> None:
        # AutoTVM takes a population that is larger than the space as one of the space's size.
        size = None if pop_size is None else max(2, min(pop_size, len(task.config_space)))
        elite = elite_num if size is None or elite_num is None else min(elite_num, size)
        self.pop_size, self.elite_num, self.mutation_prob = size, elite, mutation_prob
        super().__init__(task, population=size, elite=elite, mutation=mutation_prob)
