"""Weights packed ahead: `weights="packed"` of a template, and the function that lays an array out for it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pegbox.errors import ArgumentError

if TYPE_CHECKING:
    import numpy as np

    from pegbox.task.task import Task

# Template -> the module whose `pack_weights(task, array)` knows its layout.
_PACKERS = {
    "matmul": "pegbox.templates.gemm_weights",
    "batch_matmul": "pegbox.templates.gemm_weights",
    "conv2d": "pegbox.templates.conv_weights",
}


def pack_weights(task: Task, array: np.ndarray[Any, Any], layout: str = "") -> np.ndarray[Any, Any]:
    """A copy of the weights in the layout that the kernels of `task` take.

    Weights that stay the same over many calls are packed once and not at each call. The layout depends on the template,
    the shape and the target's vectors, not on the configuration: what is packed for a task fits all of its kernels.

    Args:
        task: of a built-in template, made with `weights="packed"`.
        array: the weights as the template takes them without that: (K, N) of a matmul, (batch, K, N) of a batch, the
            filters of a convolution.
        layout: of the filters, "OIHW", "OHWI" or "HWIO"; not given, it is what the template's `layout` has it mean.

    Raises:
        ArgumentError: the task takes its weights plain, or the array has another shape or dtype than they have.
        TemplateError: no layout of filters.
    """
    module = _PACKERS.get(task.name)
    if module is None or task.workload[1].get("weights") != "packed":
        raise ArgumentError(
            f"{task!r} takes its weights as they are; make it with kwargs={{'weights': 'packed'}} "
            f"(templates: {', '.join(sorted(_PACKERS))}) to pack them ahead"
        )
    if layout and "layout" not in task.workload[1]:
        raise ArgumentError(f"pack_weights: layout={layout!r} is of filters, and {task!r} has none; leave it out")
    options = {"layout": layout} if layout else {}
    packed: np.ndarray[Any, Any] = import_module(module).pack_weights(task, array, **options)
    return packed


def check_weights(task: Task, array: np.ndarray[Any, Any], shape: tuple[int, ...], dtype: str) -> None:
    """Refuse an array that is not the plain weights of a task.

    Raises:
        ArgumentError: another shape or dtype.
    """
    if not hasattr(array, "dtype") or array.shape != shape or str(array.dtype) != dtype:
        given = f"{array.dtype} of shape {array.shape}" if hasattr(array, "dtype") else f"a {type(array).__name__}"
        raise ArgumentError(f"pack_weights({task.name}): the weights are {dtype} of shape {shape}, got {given}")
