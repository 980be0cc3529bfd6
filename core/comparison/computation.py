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
from pegbox.measure.bench import make_inputs
from pegbox.measure.check import Tolerance, difference
from pegbox.search.models.experience import template_task

if TYPE_CHECKING:
    from pegbox.task.task import Task


def with_computations(testbeds: Sequence[Testbed]) -> list[Testbed]:
    """The testbeds, whose `info.computation` names the first task that computes the same, where another one does."""
    tasks = [template_task(testbed.problem.task) for testbed in testbeds]
    groups: dict[int, list[int]] = {}
    for n, task in enumerate(tasks):
        for first in groups:
            if _is_comparable(testbeds[first], testbeds[n]) and _computes_alike(tasks[first], task):
                groups[first].append(n)
                break
        else:
            groups[n] = [n]
    names = {n: testbeds[first].info.name for first, some in groups.items() if len(some) > 1 for n in some}
    return [replace(t, info=replace(t.info, computation=names.get(n, ""))) for n, t in enumerate(testbeds)]


def _is_comparable(one: Testbed, other: Testbed) -> bool:
    """Are costs of one machine compared?"""
    return (one.info.target, one.info.host) == (other.info.target, other.info.host)


def _computes_alike(one: Task | None, other: Task | None) -> bool:
    if one is None or other is None or _signature(one) != _signature(other):
        return False
    inputs = make_inputs(one.arguments(), seed=0)
    try:
        wanted, got = one.reference(inputs), other.reference(inputs)
    except (PegboxError, MemoryError):  # whoever measures says what is wrong
        return False
    tolerance = Tolerance.of(wanted, flop=max(one.flop, other.flop))
    return all(difference("output", g, w, tolerance) is None for g, w in zip(got, wanted, strict=True))


def _signature(task: Task) -> list[tuple[tuple[int, ...], str, bool]]:
    return [(spec.shape, spec.dtype, spec.is_output) for spec in task.arguments()]
