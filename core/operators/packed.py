"""`PackedOperand`: an operand that is packed once, and then passed to calls in place of its array."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from pegbox.checks import check_instance, check_text
from pegbox.operators.arrays import Array

if TYPE_CHECKING:
    from pegbox.task.task import Task


class PackedOperand:
    """An operand in the layouts that kernels read, with its original array.

    The layout depends on the shapes of the call, so it is packed at the first call of each shape; later calls find it.
    The array must not change meanwhile.

    Attributes:
        original: the array.
        operator: the text of the operator that made it.
        dtype: the array's dtype as text, which no array's own dtype equals.
    """

    def __init__(self, original: Array, operator: str) -> None:
        self.original = check_instance("original", original, np.ndarray, "the operand as an array")
        self.operator = check_text("operator", operator)
        self.shape, self.dtype = original.shape, f"packed {original.dtype.name}"
        self._layouts: dict[str, Array] = {}
        self._latest: tuple[Task | None, Array | None] = (None, None)

    @property
    def layouts(self) -> tuple[Array, ...]:
        """The packed arrays made so far."""
        return tuple({id(each): each for each in list(self._layouts.values())}.values())

    def __repr__(self) -> str:
        shown = [f"{each.dtype}{list(each.shape)}" for each in self.layouts] or ["nothing yet"]
        return (
            f"PackedOperand({self.original.dtype}{list(self.shape)} of {self.operator}, packed as {', '.join(shown)})"
        )


def layout_for(operand: PackedOperand, task: Task, pack: Callable[[Array], Array]) -> Array:
    """Return the operand in the layout that a task's kernels read; pack it if it is new."""
    latest, packed = operand._latest
    if latest is task and packed is not None:
        return packed
    key = repr((str(task.target), task.workload))
    if (found := operand._layouts.get(key)) is None:
        packed = pack(operand.original)
        alike = (known for known in operand.layouts if _same(known, packed))
        found = operand._layouts[key] = next(alike, packed)
    operand._latest = task, found
    return found


def _same(one: Array, other: Array) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and np.array_equal(one, other)
