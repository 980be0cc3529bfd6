"""`KernelChain`: the kernels of an operator by the kinds of its inputs; the first ones form a chain in machine code."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np

from pegbox.operators.call_key import Inputs
from pegbox.operators.implementation import Implementation
from pegbox.operators.packed import PackedOperand
from pegbox.records.in_effect import in_effect

_LONGEST = 8
"""The largest length of a chain: a call takes a few dozen nanoseconds to pass each kernel."""

_signature = attrgetter("__class__", "shape", "dtype")

_changes = threading.Lock()
"""The lock held while a chain changes, which takes microseconds."""


def _after_fork() -> None:
    global _changes
    _changes = threading.Lock()  # a thread of the parent process may have held it at the fork


os.register_at_fork(after_in_child=_after_fork)

Entry: TypeAlias = tuple[Implementation, tuple[int, ...]]
"""A kernel, and the places of the inputs that are operands of `pack`."""


class KernelChain:
    """The kernels that calls of an operator find by the kinds of their inputs.

    Calls begin with a chain of kernels in machine code: each passes other calls to the next, and the last one to the
    operator, which looks up the remaining kernels here.

    Args:
        otherwise: the operator's function for calls that no kernel of the chain takes.
        call_by: a function that makes calls begin with another function.
    """

    def __init__(self, otherwise: Callable[..., Any], call_by: Callable[[Callable[..., Any]], None]) -> None:
        self._otherwise, self._call_by = otherwise, call_by
        self._entries: dict[tuple[Any, ...], Entry] = {}
        self._first: Callable[..., Any] = otherwise
        self.linked: tuple[Implementation, ...] = ()
        call_by(otherwise)

    def find(self, arrays: Sequence[Any]) -> Entry | None:
        """Find the kernel for inputs of these kinds; None for a new shape, or for arrays that are not NumPy's."""
        try:
            return self._entries.get(tuple(map(_signature, arrays)))
        except (AttributeError, TypeError):
            return None

    def keep(self, inputs: Inputs, packed: tuple[int, ...], found: Implementation) -> None:
        """Let later calls find a kernel, in place of the earlier one."""
        from pegbox.expr import dtypes

        key = tuple(
            (PackedOperand, shape, f"packed {dtype}")
            if place in packed
            else (np.ndarray, shape, dtypes.numpy_dtype(dtype))
            for place, (shape, dtype) in enumerate(inputs)
        )
        with _changes:
            replaced = self._entries.get(key)
            self._entries[key] = found, packed
            if len(self.linked) == _LONGEST or (replaced is not None and replaced[0] in self.linked):
                self._first, self.linked = self._otherwise, ()  # calls will link the others again
            if not packed:
                self._link(found)

    def link(self, found: Implementation) -> None:
        """Let the next call begin with a found kernel, if there is room and none has replaced it meanwhile."""
        if len(self.linked) < _LONGEST:
            with _changes:
                if len(self.linked) < _LONGEST and any(found is kept for kept, _ in self._entries.values()):
                    self._link(found)

    def _link(self, found: Implementation) -> None:
        if found not in self.linked:
            self._first = found.kernel.function(self._first, make_outputs=found.make_outputs, unless=in_effect)
            self.linked = found, *self.linked
            self._call_by(self._first)
