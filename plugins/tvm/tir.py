"""`tvm.tir`: schedules, and functions of expressions."""

from __future__ import annotations

from enum import IntEnum
from itertools import compress
from typing import Any

import numpy as np

from pegbox import te, tir
from pegbox.errors import ComputeError
from pegbox.expr import Buffer as Buffer
from pegbox.expr import Call as Call
from pegbox.expr import Var as Var
from pegbox.plugins.tvm.ir import call_intrin as call_intrin
from pegbox.plugins.tvm.registry import get_global_func
from pegbox.plugins.tvm.runtime.ndarray import NDArray
from pegbox.te import Expr as PrimExpr  # noqa: F401
from pegbox.tir import *  # noqa: F403
from pegbox.tir import BlockRV, LoopRV


class Schedule(tir.Schedule):  # type: ignore[no-redef]
    """pegbox's schedule; blocks that are moved get no loops of a single iteration unless a script asks for them."""

    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """See `pegbox.tir.Schedule.get_block`. A decomposed reduction "C" keeps its name, and is "C_update" too."""
        blocks = {block.name for block in self.get_blocks()} if self.func_name is not None else set()
        base = name.removesuffix("_update")
        decomposed = name not in blocks and {base, f"{base}_init"} <= blocks
        return super().get_block(base if decomposed else name, func_name)

    def compute_at(
        self, block: BlockRV | str, loop: LoopRV | int, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """See `pegbox.tir.Schedule.compute_at`."""
        super().compute_at(block, loop, preserve_unit_loops, index)

    def reverse_compute_at(
        self, block: BlockRV | str, loop: LoopRV | int, preserve_unit_loops: bool = False, index: int = -1
    ) -> None:
        """See `pegbox.tir.Schedule.reverse_compute_at`."""
        super().reverse_compute_at(block, loop, preserve_unit_loops, index)


class CallEffectKind(IntEnum):
    """The effects of a call besides its value. Calls in expressions are pure here."""

    Pure = 1
    ReadState = 2
    UpdateState = 3
    Opaque = 6


def call_packed(func_name: str, *args: Any) -> te.Expr:
    """Call a registered function on buffers and numbers, in `te.extern`. Such kernels run in this process only.

    Raises `ComputeError` for other arguments.
    """
    plain = [getattr(arg, "value", arg) for arg in args]  # constants as numbers
    buffers = [hasattr(arg, "access_ptr") for arg in plain]
    for arg, is_buffer in zip(plain, buffers, strict=True):
        if not is_buffer and not isinstance(arg, bool | int | float | str):
            raise ComputeError(f"call_packed({func_name!r}): {arg!r}: give buffers and numbers")

    def called(*arrays: np.ndarray[Any, Any]) -> None:
        given = (array.view(NDArray) for array in arrays)
        known = [next(given) if is_buffer else arg for arg, is_buffer in zip(plain, buffers, strict=True)]
        get_global_func(func_name)(*known)

    return te.call_python(called, *compress(plain, buffers))
