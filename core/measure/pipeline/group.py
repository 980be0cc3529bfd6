"""`GroupMeasurer`: a measurer of a group of tasks, with one measurer for each task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from pegbox.measure.pipeline.measurer import Measurer
from pegbox.measure.result import Ok, Result
from pegbox.task.group import TaskGroup

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from pegbox.measure.baselines.baseline import Baseline
    from pegbox.space import Config
    from pegbox.task.task import Task

Open = Callable[["Task"], AbstractContextManager[Measurer]]
"""A function that opens the measurer of a task."""

TURNS = 2
"""The number of turns in which several tasks are remeasured: A B A B, so that a slow minute hits all."""


class GroupMeasurer(Measurer):
    """A measurer of a group's configurations; a context manager, like the measurers of its tasks.

    The measurer of a task is opened when its first configuration is measured. Tasks may take different arguments, such
    as weights in their own packed layouts, so each has its own inputs and expected outputs.

    Args:
        group: the tasks.
        open_one: a function that opens the measurer of one task.
    """

    compiles = True

    def __init__(self, group: TaskGroup, open_one: Open) -> None:
        self._group, self._open_one = group, open_one
        self._stack = ExitStack()
        self._opened: dict[str, Measurer] = {}

    @property
    def machines(self) -> int:  # type: ignore[override]
        """See `Measurer`: the value of the first task's measurer, as for the next four."""
        return self._first.machines

    @property
    def host(self) -> str:  # type: ignore[override]
        """See `Measurer`."""
        return self._first.host

    @property
    def where(self) -> str:  # type: ignore[override]
        """See `Measurer`."""
        return self._first.where

    @property
    def compares(self) -> bool:  # type: ignore[override]
        """See `Measurer`."""
        return self._first.compares

    @property
    def uneven(self) -> str:  # type: ignore[override]
        """See `Measurer`."""
        return self._first.uneven

    def measure(self, configs: Sequence[Config]) -> Iterator[tuple[Config, Result]]:
        """See `Measurer`: task after task."""
        for name, own in self._by_task(configs).items():
            yield from self._of(name).measure(own)

    def remeasure(self, configs: Sequence[Config]) -> list[Result]:
        """See `Measurer`: interleaved within each task, and the tasks take turns."""
        tasks = self._by_task(configs)
        turns: list[dict[Config, Result]] = []
        for _ in range(TURNS if len(tasks) > 1 else 1):
            turn: dict[Config, Result] = {}
            for name, own in tasks.items():
                turn.update(zip(own, self._of(name).remeasure(own), strict=True))
            turns.append(turn)
        return [_joined([turn[config] for turn in turns]) for config in configs]

    def baseline(self, cost: float) -> Baseline | None:
        """See `Measurer`: NumPy's time for the first task."""
        return self._first.baseline(cost)

    def beside(self) -> AbstractContextManager[None] | None:
        """See `Measurer`."""
        return self._first.beside()

    def wait_until_quiet(self) -> bool:
        """See `Measurer`."""
        return self._first.wait_until_quiet()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def _first(self) -> Measurer:
        return self._of(next(iter(self._group.tasks)))

    def _of(self, name: str) -> Measurer:
        if name not in self._opened:
            self._opened[name] = self._stack.enter_context(self._open_one(self._group.tasks[name]))
        return self._opened[name]

    def _by_task(self, configs: Sequence[Config]) -> dict[str, list[Config]]:
        found: dict[str, list[Config]] = {}
        for config in configs:
            found.setdefault(self._group.implementation_of(config), []).append(config)
        return found


def _joined(results: Sequence[Result]) -> Result:
    """Join the results of several turns of one configuration: the first failure, or all costs."""
    for result in results:
        if not isinstance(result, Ok):
            return result
    first, *others = [result for result in results if isinstance(result, Ok)]
    return replace(first, costs=(*first.costs, *(cost for each in others for cost in each.costs)))
