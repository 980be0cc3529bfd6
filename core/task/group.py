"""`TaskGroup`: tasks that compute the same thing, by several implementations of one operator."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from pegbox.checks import check_flag, check_mapping
from pegbox.codegen.compiled import ArgSpec
from pegbox.codegen.targets.target import Target
from pegbox.errors import ArgumentError, SpaceError
from pegbox.shown import value_text
from pegbox.space import Config
from pegbox.space.given_config import GivenConfig

if TYPE_CHECKING:
    from pegbox.task.task import Task

Tasks: TypeAlias = "Task | TaskGroup"


class TaskGroup:
    """The implementations of one operator: tasks that compute the same thing, each with its own space.

    `pegbox.tune`, `pegbox.compare` and `pegbox.build` take a group in place of a task: a search shares its trials among
    the implementations, and the fastest wins. A configuration belongs to the implementation whose space contains it.

    Attributes:
        tasks: the tasks by the names of their implementations. The first is the one to use without measurements.
        packed: True if tasks take some inputs packed in their own layouts, so that their arguments differ.
    """

    def __init__(self, tasks: Mapping[str, Task], *, packed: bool = False) -> None:
        self.packed = check_flag("packed", packed)
        wanted = "tasks by the names of their implementations"
        self.tasks: dict[str, Task] = dict(check_mapping("TaskGroup: tasks", tasks, wanted))
        if not self.tasks:
            raise ArgumentError(f"TaskGroup({{}}): give {wanted}")
        self._names: dict[str, str] = {}
        for name, task in self.tasks.items():
            held = self._names.setdefault(task.space.fingerprint, name)
            if held != name:
                raise ArgumentError(
                    f"TaskGroup: the spaces of {held!r} and {name!r} have the same knobs, so that a configuration does "
                    "not tell which it is of; leave one out"
                )

    @property
    def first(self) -> Task:
        """The task to use without measurements."""
        return next(iter(self.tasks.values()))

    @property
    def name(self) -> str:
        """The names of the implementations, as in "conv2d|sketch"."""
        return "|".join(self.tasks)

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments of the first task."""
        return self.first.args

    @property
    def kwargs(self) -> Mapping[str, Any]:
        """The keyword arguments of the first task."""
        return self.first.kwargs

    @property
    def target(self) -> Target:
        """The processor of all tasks."""
        return self.first.target

    @property
    def flop(self) -> float:
        """The operations of one call of the first task, which turn all times into speeds."""
        return self.first.flop

    @property
    def bytes_moved(self) -> float:
        """The bytes that one call of the first task moves at least."""
        return self.first.bytes_moved

    @property
    def size(self) -> int:
        """The number of configurations of all spaces."""
        return sum(task.space.size for task in self.tasks.values())

    @property
    def given_accuracy(self) -> float | None:
        """The accuracy that the user asked for."""
        return self.first.given_accuracy

    @property
    def has_indirect_reads(self) -> bool:
        """True if values of inputs are indices."""
        return self.first.has_indirect_reads

    def arguments(self) -> tuple[ArgSpec, ...]:
        """The name, shape, dtype and direction of each argument of the first task, in call order."""
        return self.first.arguments()

    def implementation_of(self, config: Config) -> str:
        """Return the name of the implementation whose space holds a configuration.

        Raises:
            ArgumentError: no space holds it.
        """
        found = self._names.get(config.space.fingerprint)
        if found is None:
            raise ArgumentError(f"config={config} is of no implementation of {self!r}; take one of their spaces")
        return found

    def task_of(self, config: Config) -> Task:
        """Return the task whose space holds a configuration. Raises as `implementation_of` does."""
        return self.tasks[self.implementation_of(config)]

    def from_json(self, form: Mapping[str, Any]) -> Config:
        """Find the configuration that `Config.to_json` wrote.

        Raises:
            SpaceError: it belongs to no implementation.
        """
        for task in self.tasks.values():
            with suppress(SpaceError):
                return task.space.from_json(form)
        raise SpaceError(f"{value_text(form)} is a configuration of no implementation of {self!r}")

    def given_config(self, given: GivenConfig) -> Config:
        """Find a configuration of one of the tasks, also within a trial or a result.

        Raises:
            ArgumentError: it belongs to none of them, or does not say to which, like an index.
        """
        held = getattr(given, "best", given)
        found = held if isinstance(held, Config) else getattr(held, "config", given)
        if not isinstance(found, Config):
            names = ", ".join(self.tasks)
            raise ArgumentError(
                f"config={value_text(given)} does not say of which implementation it is ({names}); give a Config, or "
                "build the task of one: group.tasks[name]"
            )
        return self.task_of(found).space.config(found.digits)

    def __repr__(self) -> str:
        return f"TaskGroup({', '.join(self.tasks)} of {self.first!r})"


def tasks_of(task: Tasks) -> list[Task]:
    """List the tasks of a group; of a single task, itself."""
    return list(task.tasks.values()) if isinstance(task, TaskGroup) else [task]


def task_of(task: Tasks, config: Config) -> Task:
    """Return the task of a configuration: in a group, the one whose space holds it."""
    return task.task_of(config) if isinstance(task, TaskGroup) else task
