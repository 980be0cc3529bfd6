"""`BaseTask`: a computation on a target, with its states; the hardware that it is for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pegbox.compute.tensor import Tensor
from pegbox.errors import ArgumentError, RecordError
from pegbox.plugins.sketch.generator import SketchGenerator
from pegbox.plugins.sketch.rules import Rule
from pegbox.plugins.sketch.space import Sketch, SketchSpace
from pegbox.plugins.tvm.auto_scheduler.compute_dag import ComputeDAG, LayoutRewriteOption
from pegbox.plugins.tvm.auto_scheduler.state_object import StateObject
from pegbox.plugins.tvm.auto_scheduler.workload_registry import (
    WORKLOAD_FUNC_REGISTRY,
    make_workload_key,
    register_workload_tensors,
    workload_of,
)
from pegbox.plugins.tvm.notice import means_nothing
from pegbox.plugins.tvm.target import Target, TargetLike
from pegbox.task.config_view import ApplyingConfig
from pegbox.task.task import Task, create_task

if TYPE_CHECKING:
    from pegbox.space import Config


class HardwareParams:
    """What is known of the processor; what is not given is the target's.

    `num_cores` changes the target, and so the sketches. The widths of vectors and cache lines come with the processor.
    """

    def __init__(
        self,
        num_cores: int | None = None,
        vector_unit_bytes: int | None = None,
        cache_line_bytes: int | None = None,
        max_shared_memory_per_block: int | None = None,
        max_local_memory_per_block: int | None = None,
        max_threads_per_block: int | None = None,
        max_vthread_extent: int | None = None,
        warp_size: int | None = None,
        target: TargetLike | None = None,
        target_host: TargetLike | None = None,
    ) -> None:
        processor = Target("llvm" if target is None else target)
        own = processor.vector_bits // 8
        self.num_cores = processor.num_cores if num_cores is None else num_cores
        self.vector_unit_bytes = own if vector_unit_bytes is None else vector_unit_bytes
        self.cache_line_bytes = 64 if cache_line_bytes is None else cache_line_bytes
        self.max_shared_memory_per_block = max_shared_memory_per_block or 0
        self.max_local_memory_per_block = max_local_memory_per_block or 0
        self.max_threads_per_block = max_threads_per_block or 0
        self.max_vthread_extent = max_vthread_extent or 0
        self.warp_size = warp_size or 0

    def __repr__(self) -> str:
        return f"HardwareParams({', '.join(f'{name}={value}' for name, value in vars(self).items())})"

    def on(self, target: Target) -> Target:
        """The target with so many cores."""
        if self.vector_unit_bytes * 8 != target.vector_bits:
            means_nothing(
                "HardwareParams(vector_unit_bytes=...)",
                "vectors are as wide as those of the target's processor; name another one: target='llvm -mcpu=...'",
            )
        if self.num_cores == target.num_cores:
            return target
        return Target(re.sub(r"-num-cores \d+", f"-num-cores {self.num_cores}", str(target)), vars(target)["host"])


TASK_INPUT_BUFFER_TABLE: dict[str, dict[str, Any]] = {}
"""The arrays of inputs that a script gave, for each workload key by their names."""

_SPACES: dict[tuple[str, str, str], Task] = {}
"""The tasks with a space that somebody has searched, by workload key, target and fingerprint: they say what records
mean."""


@dataclass(frozen=True)
class _GivenSketch:
    """The space generator of a single sketch, which a script made step by step."""

    sketch: Sketch
    __name__ = "state"

    def __call__(self, tensors: Sequence[Tensor], target: Target) -> SketchSpace:
        return SketchSpace([self.sketch])


class BaseTask:
    """A computation on a target: all of a `SearchTask` but the search.

    Args:
        func, args: a registered workload, by its function or name, and its arguments.
        compute_dag, workload_key: instead of these: what is computed, or the workload's key, or both.
        target: where it runs; the host's is the same.
        hardware_params: see `HardwareParams`.
        layout_rewrite_option: see `LayoutRewriteOption`.
        task_inputs: arrays for inputs, by name, where random ones make no sense, or a list of names given earlier.
        task_inputs_overwrite: the arrays stand for those that were given before.
        desc: for people.

    Raises:
        ArgumentError: neither a function nor a key, no target, or a malformed value.
        UnknownName: the workload is not registered.
        TargetError: a target that is none, or not a CPU.
    """

    def __init__(
        self,
        func: str | Callable[..., Any] | None = None,
        args: Sequence[Any] | None = None,
        compute_dag: ComputeDAG | None = None,
        workload_key: str | None = None,
        target: TargetLike | None = None,
        target_host: TargetLike | None = None,
        hardware_params: HardwareParams | None = None,
        layout_rewrite_option: int | None = None,
        task_inputs: Mapping[str, Any] | Sequence[str] | None = None,
        task_inputs_overwrite: bool = False,
        task_inputs_save_to_file: bool = False,
        desc: str = "",
    ) -> None:
        if func is None and workload_key is None:
            raise ArgumentError("SearchTask: give a workload, func= with its args=, or workload_key=")
        if target is None:
            raise ArgumentError("SearchTask: give target='llvm', or 'llvm -mcpu=...' for another processor")
        self.workload_key = str(workload_key) if func is None else make_workload_key(func, args or ())
        if compute_dag is not None and func is None:
            register_workload_tensors(self.workload_key, compute_dag.tensors)
        self.compute_dag = ComputeDAG(self.workload_key) if compute_dag is None else compute_dag
        given = target if isinstance(target, Target) and target_host is None else Target(target, target_host)
        self.hardware_params = hardware_params or HardwareParams(target=given)
        self.target = self.hardware_params.on(given)
        self.layout_rewrite_option = (
            LayoutRewriteOption.INSERT_TRANSFORM_STAGE if layout_rewrite_option is None else layout_rewrite_option
        )
        self.desc = desc
        self.task_input_names = self._register_inputs(task_inputs, task_inputs_overwrite)
        if task_inputs_save_to_file:
            means_nothing(
                "SearchTask(task_inputs_save_to_file=...)", "arrays of inputs stay in memory; numpy.save keeps them"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.workload_key}, target={str(self.target)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        own = WORKLOAD_FUNC_REGISTRY.get(self.workload_key)  # tensors; a function is found by its name
        options = {
            "compute_dag": None if own is None else self.compute_dag,
            "workload_key": self.workload_key,
            "target": self.target,
            "hardware_params": self.hardware_params,
            "layout_rewrite_option": self.layout_rewrite_option,
            "desc": self.desc,
        }
        return _unpickled, (type(self), options)

    @cached_property
    def tuned_task(self) -> Task:
        """The task of pegbox with the space of the rules that pegbox and plugins have."""
        return self.with_rules()

    def with_rules(self, rules: Sequence[Rule] | None = None, **options: Any) -> Task:
        """The task of pegbox with the space that some rules derive; `options` are those of `SketchGenerator`."""
        generator = SketchGenerator(rules or "default", pack_ahead=self.layout_rewrite_option == PACKED, **options)
        return self._searched(generator)

    def of_state(self, state: StateObject) -> tuple[Task, Config]:
        """The task of pegbox that a state is of, and its configuration there."""
        if state.config is not None:
            task = next((t for t in _SPACES.values() if t.space is state.config.space), None)
            if task is None:
                raise ArgumentError(f"{state.config}: a state of no search of {self!r}")
            return task, state.config
        state.schedule()  # nothing is open
        task = self._searched(_GivenSketch(state.sketch))
        return task, task.space.get(0)

    def state_of(self, space: str, config: Mapping[str, Any]) -> StateObject:
        """The state that a record means. Raises `RecordError` where nobody has derived its space here."""
        if self._key(space) not in _SPACES:
            _ = self.tuned_task, self.of_state(self.compute_dag.init_state)
        found = _SPACES.get(self._key(space))
        if found is None:
            raise RecordError(
                f"a record of {self.workload_key} is from the space {space[:12]}, which is not that of this task: its "
                "computation or its rules have changed since, or a script's own sketch rules made it; make the "
                "SketchPolicy with these rules first, or tune again into another file"
            )
        return state_in(found, found.space.from_json(config))

    @property
    def given_inputs(self) -> dict[str, Any]:
        """The arrays that stand for random inputs when it is measured."""
        known = TASK_INPUT_BUFFER_TABLE.get(self.workload_key, {})
        inputs = {t.name for t in self.compute_dag.tensors}
        return {name: known[name] for name in self.task_input_names if name in inputs and name in known}

    def _searched(self, generator: Any) -> Task:
        workload, args = workload_of(self.workload_key)
        task = create_task(workload, args, space=generator, target=self.target)
        return _SPACES.setdefault(self._key(task.fingerprint), task)

    def _key(self, fingerprint: str) -> tuple[str, str, str]:
        return self.workload_key, str(self.target), fingerprint

    def _register_inputs(self, given: Mapping[str, Any] | Sequence[str] | None, overwrite: bool) -> list[str]:
        if given is None or isinstance(given, list | tuple):
            return list(given or ())
        if not isinstance(given, Mapping):
            raise ArgumentError(f"task_inputs={given!r}: give arrays by the names of inputs, or a list of names")
        table = TASK_INPUT_BUFFER_TABLE.setdefault(self.workload_key, {})
        for name, array in given.items():
            if name not in table or overwrite:
                table[name] = array.numpy() if hasattr(array, "numpy") else array
        return list(given)


PACKED = LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED


def state_in(task: Task, config: Config) -> StateObject:
    """The state that a configuration of a space of sketches is."""
    space: SketchSpace = task.template.function.space(task.target, task.args, task.kwargs)  # type: ignore[attr-defined]
    values = ApplyingConfig(config, task.target)
    sketch = space.chosen(values)
    return StateObject(sketch, space.own(values, sketch), config=config)


def _unpickled(kind: type[BaseTask], options: dict[str, Any]) -> BaseTask:
    return kind(**options)
