"""Choices: the configuration that an operator uses for a task, and its kernel."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import Any, TypeAlias, TypeVar

import numpy as np

from pegbox.codegen.compiled import COMPILE_SECONDS
from pegbox.codegen.runtime.kernel import Kernel
from pegbox.errors import REFUSED, CompileError, PegboxError, SpaceError
from pegbox.operators.implementation import Implementation, Packers, allocated
from pegbox.origin import users_level
from pegbox.records.journal import RecordWarning
from pegbox.search.models.prediction import compiled_predictions
from pegbox.space import Config
from pegbox.task.task import Task

_T = TypeVar("_T")
_Array: TypeAlias = np.ndarray[Any, Any]

_ROUNDS = 5
"""The number of turns; in each, kernels are timed one after the other."""
_TURN = 2_000_000
"""The approximate nanoseconds of one kernel's turn."""


def predicted(
    members: Sequence[tuple[Task, Packers]], *, first_use: int, inputs: Sequence[np.ndarray[Any, Any]]
) -> Implementation:
    """Return the kernel that experience predicts to be the fastest, among those that can be compiled.

    Experience does not compare implementations: if there are several, the predicted kernels of each are timed.

    Args:
        members: the task, or those of several implementations, with the functions that pack their inputs.
        first_use: the number of a task's predicted kernels to time, if it is more than one. Kernels with packed inputs
            are timed only against those of other implementations.
        inputs: unpacked arrays to time them with.

    Raises:
        CompileError: no kernel can be compiled.
        RecordError: the file of the model is damaged.
    """
    found: list[Implementation] = []
    refused: PegboxError | None = None
    for task, packers in members:
        try:
            kernels = list(islice(compiled_predictions(task), 1 if packers else first_use))
        except (CompileError, SpaceError) as error:
            refused = refused or error
            continue
        found += [Implementation(kernel, "predicted, not tuned", task, config, packers) for kernel, config in kernels]
    if not found and refused is not None:
        raise refused
    return found[0] if len(found) == 1 else found[_fastest(found, inputs)]


def _fastest(found: Sequence[Implementation], inputs: Sequence[np.ndarray[Any, Any]]) -> int:
    """Time implementations in turns, each with inputs in its own form."""
    packed = [
        [each.packers[place](array) if place in each.packers else array for place, array in enumerate(inputs)]
        for each in found
    ]
    return fastest([each.kernel for each in found], packed)


def tuned(task: Task, config: Config, packers: Packers) -> Implementation:
    """Compile the best configuration of a search or of records."""
    from pegbox.codegen import build  # LLVM is loaded when first needed

    return Implementation(build(task.lower(config)), "tuned", task, config, packers)


def compiled_stored(task: Task, config: Config, *, timeout: float = COMPILE_SECONDS) -> Kernel | None:
    """Compile a configuration of a store; None, with a `RecordWarning`, if the template no longer allows it."""
    from pegbox.codegen import build  # LLVM is loaded when first needed

    return made_of_stored(task, config, lambda: build(task.lower(config), timeout=timeout))


def made_of_stored(task: Task, config: Config, make: Callable[[], _T]) -> _T | None:
    """Apply a function to a configuration of a store; None, with a `RecordWarning`, if it is now refused."""
    try:
        return make()
    except REFUSED as error:
        text = f"the stored configuration {config} of {task!r} cannot be built any more: tune again ({error})"
        warnings.warn(text, RecordWarning, stacklevel=users_level())
        return None


def fastest(
    kernels: Sequence[Kernel],
    inputs: Sequence[Sequence[np.ndarray[Any, Any]]],
    *,
    flush: Callable[[], object] | None = None,
    fresh: Sequence[Collection[str]] = (),
) -> int:
    """Time kernels as `times_in_turns` does, and return the number of the fastest one."""
    return int(np.argmin(times_in_turns(kernels, inputs, flush=flush, fresh=fresh)))


def times_in_turns(
    kernels: Sequence[Kernel],
    inputs: Sequence[Sequence[np.ndarray[Any, Any]]],
    *,
    flush: Callable[[], object] | None = None,
    fresh: Sequence[Collection[str]] = (),
) -> list[float]:
    """Time kernels in turns, each on its inputs; return the least nanoseconds of a call of each.

    Args:
        flush: a function that is called before each turn, which is then a single call.
        fresh: for each kernel, the names of inputs to write before each turn, after the flush.
    """
    arrays = []
    for kernel, own in zip(kernels, inputs, strict=True):
        given = iter(own)
        arrays.append([allocated(spec) if spec.is_output else next(given) for spec in kernel.args])
    firsts = [kernel.time_ns(own) for kernel, own in zip(kernels, arrays, strict=True)]
    numbers = [1 if flush is not None else max(1, _TURN // max(1, first)) for first in firsts]

    copies = [
        [(array, array.copy()) for spec, array in zip(kernel.args, own, strict=True) if spec.name in names]
        for kernel, own, names in zip(kernels, arrays, fresh or [()] * len(kernels), strict=True)
    ]

    def turn(kernel: Kernel, own: list[_Array], number: int, written: list[tuple[_Array, _Array]]) -> float:
        if flush is not None:
            flush()
        for array, copy in written:
            np.copyto(array, copy)
        return kernel.time_ns(own, number) / number

    turns = [list(map(turn, kernels, arrays, numbers, copies)) for _ in range(_ROUNDS)]
    return [float(least) for least in np.min(turns, axis=0)]
