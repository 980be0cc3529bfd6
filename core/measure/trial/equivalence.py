"""Tasks that compute the same thing: with equal arguments, NumPy gives equal results for the same random inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pegbox.errors import ArgumentError, PegboxError
from pegbox.measure.trial.bench import exact_outputs, make_inputs
from pegbox.measure.trial.check import Tolerance, difference
from pegbox.origin import explained
from pegbox.task.group import TaskGroup
from pegbox.task.implementations import other_arguments

if TYPE_CHECKING:
    from pegbox.task.task import Task


def other_values(one: Task, other: Task) -> str:
    """Explain why two tasks do not compute the same thing; empty if they do."""
    if why := other_arguments(one.arguments(), other.arguments()):
        return why
    inputs = make_inputs(one.arguments(), seed=0)
    try:
        wanted, got = exact_outputs(one, inputs), exact_outputs(other, inputs)
    except (PegboxError, MemoryError) as error:  # measuring will raise it, too
        return f"their reference values cannot be computed ({explained(error)})"
    tolerance = Tolerance.of(wanted, flop=max(one.flop, other.flop))
    faults = [difference("output", g, w, tolerance) for g, w in zip(got, wanted, strict=True)]
    return "they give other values for the same inputs" if any(fault is not None for fault in faults) else ""


def check_values(group: TaskGroup) -> None:
    """Check that the implementations of a group compute the same thing, unless they take inputs in their own layouts.

    Raises:
        ArgumentError: the values of one differ from the first one's.
    """
    for name, task in group.tasks.items() if not group.packed else ():
        if task is not group.first and (why := other_values(group.first, task)):
            raise ArgumentError(f"{name!r} does not implement {group.first!r}: {why}; leave it out")
