"""Implementations of an operator: further tasks that compute the same as a task, made by functions of plugins."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeAlias

from pegbox.checks import check_list, near_names
from pegbox.codegen.compiled import ArgSpec
from pegbox.errors import ArgumentError, PegboxError, PluginError, UnknownName
from pegbox.hooks import registry
from pegbox.origin import explained, users_level
from pegbox.shown import value_text
from pegbox.task.group import TaskGroup

if TYPE_CHECKING:
    from pegbox.task.task import Task

Implement: TypeAlias = "Callable[[Task], Task | None]"
"""A function of a task that returns the task of an implementation, or None for an operator that it does not implement.

If it implements the operator, but not with these arguments, it raises an error with the reason.
"""

ImplementationNames: TypeAlias = str | Sequence[str]
"""The names of implementations: "all", one, or several."""

ALL = "all"

_KIND = "implementation"


def implementations_of(task: Task, names: ImplementationNames = ALL) -> TaskGroup:
    """Make the group of a task's implementations, which include the task itself under its name.

    Args:
        names: the implementations, the one to use without measurements first; "all": the task, and all that fit. Among
            several with equal spaces, the first is taken.

    Raises:
        UnknownName: no implementation of that name is registered.
        ArgumentError: a named one does not implement the task, or its space equals another's.
        PluginError: an implementation's arguments differ from the task's.
    """
    packed = _is_packed(task)
    if isinstance(names, str) and names == ALL:
        return TaskGroup({task.name: task, **others_of(task)}, packed=packed)
    wanted = [names] if isinstance(names, str) else names
    listed = check_list("implementations", wanted, "'all', or names such as ['conv2d', 'sketch']", of=str)
    return TaskGroup({name: task if name == task.name else _named(task, name) for name in listed}, packed=packed)


def others_of(task: Task, *, but: Collection[str] = ()) -> dict[str, Task]:
    """Make the tasks of all implementations that fit a task, by their names.

    Among equal spaces, including the task's, the first is taken. An implementation that raises anything but a refusal
    is skipped with a warning.

    Args:
        but: the names to leave out.
    """
    found: dict[str, Task] = {}
    spaces = {task.space.fingerprint}
    for name in registry.names(_KIND):
        if name in but:
            continue
        try:
            made = implementation(task, name)
        except PluginError as error:  # a broken plugin stays alone
            warnings.warn(f"{error}; it is left out", RuntimeWarning, stacklevel=users_level())
            continue
        except PegboxError:  # it does not fit
            continue
        if made is not None and made.space.fingerprint not in spaces:
            spaces.add(made.space.fingerprint)
            found[name] = made
    return found


def _named(task: Task, name: str) -> Task:
    """Return the task of a named implementation."""
    known = registry.names(_KIND)
    if name not in known:
        listed = [task.name, *known]
        raise UnknownName(f"there is no implementation {name!r} of {task.name}{near_names(name, listed)}")
    try:
        made = implementation(task, name)
    except PluginError:
        raise
    except PegboxError as error:
        raise ArgumentError(f"implementations: {name!r} does not fit {task!r}: {error}") from error
    if made is None:
        raise ArgumentError(f"implementations: {name!r} does not implement {task!r}; 'all' takes those that do")
    return made


def implementation(task: Task, name: str) -> Task | None:
    """Return the task of one implementation; None if it does not implement the operator.

    Raises:
        PegboxError: its function refuses the arguments.
        PluginError: the function fails, or its task takes other arguments.
    """
    function: Implement = registry.get(_KIND, name)
    try:
        made = function(task)
    except PegboxError:
        raise
    except Exception as error:
        raise PluginError(f"implementation {name!r} of {task!r} raised {explained(error)}") from error
    if made is None:
        return None
    if not isinstance(made, type(task)):
        raise PluginError(f"implementation {name!r} of {task!r} returned {value_text(made)}; return a Task, or None")
    made = made.with_accuracy(task.given_accuracy)
    if why := other_arguments(task.arguments(), made.arguments(), packed=_is_packed(task)):
        raise PluginError(f"implementation {name!r} of {task!r} takes other arguments: {why}")
    return made


def _is_packed(task: Task) -> bool:
    return task.base.template.packer(task.workload[1]) is not None


def other_arguments(one: Sequence[ArgSpec], other: Sequence[ArgSpec], *, packed: bool = False) -> str:
    """Describe the first difference between the tasks' arguments; empty if there is none.

    Args:
        packed: ignore the shapes of inputs, since each implementation packs some in its own layout.
    """
    if len(one) != len(other):
        return f"they take {len(one)} and {len(other)} arguments"
    for place, (mine, theirs) in enumerate(zip(one, other, strict=True)):
        other_layout = packed and not mine.is_output and not theirs.is_output
        shapes = (0, 0) if other_layout else (mine.shape, theirs.shape)
        if (shapes[0], mine.dtype, mine.is_output) != (shapes[1], theirs.dtype, theirs.is_output):
            first, second = (
                f"the {'output' if spec.is_output else 'input'} {spec.name}: {spec.dtype}{list(spec.shape)}"
                for spec in (mine, theirs)
            )
            return f"argument {place} is {first} in one and {second} in the other"
    return ""
