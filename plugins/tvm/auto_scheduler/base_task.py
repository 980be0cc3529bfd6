"""`BaseTask`: a workload with its arguments on a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

import pegbox
from pegbox.errors import ArgumentError
from pegbox.plugins.tvm.absence import refuse
from pegbox.plugins.tvm.auto_scheduler.compute_dag import ComputeDAG
from pegbox.plugins.tvm.auto_scheduler.workload_registry import make_workload_key, workload_of
from pegbox.plugins.tvm.target import Target, TargetLike


class BaseTask:
    """A workload with its arguments on a target. `inner` is the task of pegbox, whose space has a sketch for each way.

    Args:
        func, args: a registered workload, by its function or name, and its arguments.
        workload_key: the same as `make_workload_key` writes it.
        target: the processor; the host's is the same.
        task_inputs: arrays for inputs that cannot be random, by name.
        desc: for people.

    Raises:
        ArgumentError: neither a function nor a key, no target, or an option without a meaning here.
        UnknownName: the workload is not registered.
        TargetError: the target is malformed or not a CPU.
    """

    def __init__(
        self,
        func: str | Callable[..., Any] | None = None,
        args: Sequence[Any] = (),
        workload_key: str | None = None,
        target: TargetLike | None = None,
        target_host: TargetLike | None = None,
        task_inputs: Mapping[str, Any] | None = None,
        desc: str = "",
        **absent: Any,
    ) -> None:
        refuse("auto_scheduler.SearchTask", absent)
        if func is None and workload_key is None:
            raise ArgumentError("SearchTask: give a workload, func= with its args=, or workload_key=")
        if target is None:
            raise ArgumentError("SearchTask: give target='llvm', or 'llvm -mcpu=...' for another processor")
        self.workload_key = str(workload_key) if func is None else make_workload_key(func, args)
        self.target = Target(target, target_host)
        self.compute_dag = ComputeDAG(self.workload_key)
        self.task_inputs = {name: np.asarray(array) for name, array in (task_inputs or {}).items()}
        self.desc = desc

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.workload_key}, target={str(self.target)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (None, (), self.workload_key, self.target, None, self.task_inputs, self.desc)

    @cached_property
    def inner(self) -> pegbox.Task:
        workload, args = workload_of(self.workload_key)
        return pegbox.create_task(workload, args, space="sketch:pack_ahead=no", target=self.target)
