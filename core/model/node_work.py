"""`NodeWork`: the work of a kernel call in a module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pegbox.compute.flop import slow_operations
from pegbox.measure.baselines.baseline import Baseline
from pegbox.model.selection import Selection
from pegbox.task.speed_text import bytes_read, bytes_written
from pegbox.task.task import Task


@dataclass(frozen=True)
class NodeWork:
    """The node that a kernel computes.

    Attributes:
        names: the name of the node, or those of its fused parts.
        kinds: their kinds.
        kernel: the template of the kernel, or its computation if its space was generated.
        origin: the origin of its configuration.
        dtype: the dtype of its arrays; empty if they differ.
        least: its arithmetic, and the least bytes that it moves.
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    kernel: str
    origin: str
    dtype: str
    least: Baseline


def works_of(selections: Sequence[Selection]) -> tuple[NodeWork, ...]:
    """Describe the nodes of selections; examine equal tasks once."""
    known: dict[str, tuple[str, Baseline]] = {}
    works = []
    for selection in selections:
        node, task = selection.node_task.node, selection.node_task.task
        parts = node.parts or (node,)
        key = f"{task.workload} {task.target}"
        if key not in known:
            known[key] = _least(task)
        names, kinds = tuple(part.name for part in parts), tuple(part.kind for part in parts)
        works.append(NodeWork(names, kinds, task.name, selection.origin, *known[key]))
    return tuple(works)


def _least(task: Task) -> tuple[str, Baseline]:
    dtypes = {spec.dtype for spec in task.arguments()}
    least = Baseline(
        cores=task.target.num_cores,
        flop=task.flop,
        read=bytes_read(task.tensors),
        written=bytes_written(task.tensors),
        slow=slow_operations(task.outputs),
    )
    return dtypes.pop() if len(dtypes) == 1 else "", least
