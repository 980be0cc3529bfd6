"""Which tasks of a comparison compute the same, so that their spaces can be compared.

A template may compute in other steps than another one (packed operands, say), so that their graphs say little. Two
tasks compute the same where their arguments have the same shapes, types and directions in the same order, and NumPy's
reference gives the same for the same random inputs. Costs are compared for one target on one machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pegbox.comparison.testbed import Testbed
from pegbox.errors import PegboxError
from pegbox.measure.trial.bench import make_inputs
from pegbox.measure.trial.check import Tolerance, difference
from pegbox.origin import explained
from pegbox.search.models.experience import template_task

if TYPE_CHECKING:
    from pegbox.codegen.program import ArgSpec
    from pegbox.task.task import Task


def with_computations(testbeds: Sequence[Testbed]) -> list[Testbed]:
    """The testbeds, whose `info` says which of them compute the same, and why others are not compared.

    `info.computation` names the first task that computes the same, where another one does. `info.apart` tells of a task
    that has as much arithmetic as an earlier one, so that one may take them for the same, in what they differ.
    """
    tasks = [template_task(testbed.problem.task) for testbed in testbeds]
    groups: dict[int, list[int]] = {}
    apart: dict[int, str] = {}
    for n, task in enumerate(tasks):
        for first in groups:
            why = _other_costs(testbeds[first], testbeds[n]) or _other_values(tasks[first], task)
            if not why:
                groups[first].append(n)
                break
            one, other = testbeds[first].info, testbeds[n].info
            if one.flop == other.flop > 0 and task is not None and tasks[first] is not None:
                apart[n] = f"The spaces of {one.name} and {other.name} are not compared: {why}."
        else:
            groups[n] = [n]
            continue
        apart.pop(n, None)
    names = {n: testbeds[first].info.name for first, some in groups.items() if len(some) > 1 for n in some}
    return [
        replace(t, info=replace(t.info, computation=names.get(n, ""), apart=apart.get(n, "")))
        for n, t in enumerate(testbeds)
    ]


def _other_costs(one: Testbed, other: Testbed) -> str:
    """Why costs of the two say nothing of each other; empty where they are of one target and machine."""
    if one.info.target != other.info.target:
        return f"they are for the targets {one.info.target!r} and {other.info.target!r}"
    if one.info.host != other.info.host:
        return f"their costs are of the machines {one.info.host!r} and {other.info.host!r}"
    return ""


def _other_values(one: Task | None, other: Task | None) -> str:
    """Why the two do not compute the same; empty where they do."""
    if one is None or other is None:
        return "what one of them computes is known to its template alone, which is not here"
    if why := _other_arguments(one.arguments(), other.arguments()):
        return why
    inputs = make_inputs(one.arguments(), seed=0)
    try:
        wanted, got = one.reference(inputs), other.reference(inputs)
    except (PegboxError, MemoryError) as error:  # whoever measures says what is wrong
        return f"their reference values cannot be had ({explained(error)})"
    tolerance = Tolerance.of(wanted, flop=max(one.flop, other.flop))
    faults = [difference("output", g, w, tolerance) for g, w in zip(got, wanted, strict=True)]
    return "they give other values for the same inputs" if any(fault is not None for fault in faults) else ""


def _other_arguments(one: Sequence[ArgSpec], other: Sequence[ArgSpec]) -> str:
    """The first of the arguments that are not alike; empty where all are."""
    if len(one) != len(other):
        return f"they take {len(one)} and {len(other)} arguments"
    for place, (mine, theirs) in enumerate(zip(one, other, strict=True)):
        if (mine.shape, mine.dtype, mine.is_output) != (theirs.shape, theirs.dtype, theirs.is_output):
            return f"argument {place} is {_shown(mine)} of the one and {_shown(theirs)} of the other"
    return ""


def _shown(spec: ArgSpec) -> str:
    return f"the {'output' if spec.is_output else 'input'} {spec.name}: {spec.dtype}{list(spec.shape)}"
