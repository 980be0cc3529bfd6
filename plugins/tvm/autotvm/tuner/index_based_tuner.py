"""`tvm.autotvm.tuner.index_based_tuner`: grid and random search."""

from __future__ import annotations

from pegbox.plugins.tvm.autotvm.task.task import Task
from pegbox.plugins.tvm.autotvm.tuner.built_in import BuiltInTuner


class IndexBaseTuner(BuiltInTuner):
    """Searches the indices from the first to the last of `range_idx`, both included; without it, all."""

    def __init__(self, task: Task, range_idx: tuple[int, int] | None = None) -> None:
        self.begin_idx, last = range_idx or (0, task.config_space.range_length - 1)
        self.end_idx = last + 1
        super().__init__(task, range_idx=range_idx)
        _ = self.made  # which says what is wrong with the range

    @property
    def range_length(self) -> int:
        """How many indices there are."""
        return self.end_idx - self.begin_idx

    @property
    def index_offset(self) -> int:
        """The first of them."""
        return self.begin_idx

    @property
    def visited_max(self) -> int:
        """How many of them are valid."""
        return self.space.subrange_length(self.begin_idx, self.end_idx)

    @property
    def counter(self) -> int:
        """How many were measured."""
        return len(self.visited)

    @property
    def _left(self) -> int | None:
        return None if self.range_length == self.space.range_length else self.visited_max - self.counter

    def has_next(self) -> bool:
        return self.counter < self.visited_max


class GridSearchTuner(IndexBaseTuner):
    """In the order of the indices."""

    spec = "grid"


class RandomTuner(IndexBaseTuner):
    """In a random order."""

    spec = "random"
