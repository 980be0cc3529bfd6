"""Tasks of a comparison that compute the same, so that their spaces can be compared.

A template may compute in other steps than another one (packed operands, say), so that their graphs say little. Two
tasks compute the same where their arguments have the same shapes, types and directions in the same order, and NumPy's
reference gives the same for the same random inputs. Costs are compared for one target on one machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pegbox.comparison.benchmark import Benchmark
from pegbox.errors import PegboxError
from pegbox.measure.trial.bench import make_inputs
from pegbox.measure.trial.check import Tolerance, difference
from pegbox.origin import explained
from pegbox.search.models.experience import template_task

if TYPE_CHECKING:
    from pegbox.codegen.program import ArgSpec
    from pegbox.task.task import Task


def with_computations(benchmarks: Sequence[Benchmark]) -> list[Benchmark]:
    """Add to each `info` which tasks compute the same, and why others are not compared.

    `info.computation` names the first task that computes the same, where another one does. `info.apart` says how a task
    differs from an earlier one with as much arithmetic, which could be taken for the same.
    """
    tasks = [template_task(benchmark.problem.task) for benchmark in benchmarks]
    groups: dict[int, list[int]] = {}
    apart: dict[int, str] = {}
    for n, task in enumerate(tasks):
        for first in groups:
            why = _other_costs(benchmarks[first], benchmarks[n]) or _other_values(tasks[first], task)
            if not why:
                groups[first].append(n)
                apart.pop(n, None)
                break
            one, other = benchmarks[first].info, benchmarks[n].info
            if one.flop == other.flop > 0 and task is not None and tasks[first] is not None:
                apart[n] = f"The spaces of {one.name} and {other.name} are not compared: {why}."
        else:
            groups[n] = [n]
    names = {n: benchmarks[first].info.name for first, some in groups.items() if len(some) > 1 for n in some}
    return [
        replace(one, info=replace(one.info, computation=names.get(n, ""), apart=apart.get(n, "")))
        for n, one in enumerate(benchmarks)
    ]


def _other_costs(one: Benchmark, other: Benchmark) -> str:
    """Explain why costs of the two cannot be compared; empty where they are of one target and machine."""
    if one.info.target != other.info.target:
        return f"they are for the targets {one.info.target!r} and {other.info.target!r}"
    if one.info.host != other.info.host:
        return f"their costs are of the machines {one.info.host!r} and {other.info.host!r}"
    return ""


def _other_values(one: Task | None, other: Task | None) -> str:
    """Explain why the two do not compute the same; empty where they do."""
    if one is None or other is None:
        return "what one of them computes is known to its template alone, which is not here"
    if why := _other_arguments(one.arguments(), other.arguments()):
        return why
    inputs = make_inputs(one.arguments(), seed=0)
    try:
        wanted, got = one.reference(inputs), other.reference(inputs)
    except (PegboxError, MemoryError) as error:  # measuring raises it, too
        return f"their reference values cannot be had ({explained(error)})"
    tolerance = Tolerance.of(wanted, flop=max(one.flop, other.flop))
    faults = [difference("output", g, w, tolerance) for g, w in zip(got, wanted, strict=True)]
    return "they give other values for the same inputs" if any(fault is not None for fault in faults) else ""


def _other_arguments(one: Sequence[ArgSpec], other: Sequence[ArgSpec]) -> str:
    """Describe the first of the arguments that are not alike; empty where all are."""
    if len(one) != len(other):
        return f"they take {len(one)} and {len(other)} arguments"
    for place, (mine, theirs) in enumerate(zip(one, other, strict=True)):
        if (mine.shape, mine.dtype, mine.is_output) != (theirs.shape, theirs.dtype, theirs.is_output):
            first, second = (
                f"the {'output' if spec.is_output else 'input'} {spec.name}: {spec.dtype}{list(spec.shape)}"
                for spec in (mine, theirs)
            )
            return f"argument {place} is {first} of the one and {second} of the other"
    return ""
