"""Guard bands around the arrays of every kernel that a test calls: a write outside of them fails the test.

It needs nothing of the tests. A call gets copies of its arrays between bands, whose values go back afterwards. What is
timed gets the arrays as they are. `beside_pages` makes arrays outside of which a read ends the process.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from typing import Any

import numpy as np

from pegbox.codegen.runtime.kernel import Kernel
from pegbox.measure.trial.check import GuardedArray
from pegbox.own_call import OwnCall


class WrittenOutside(AssertionError):
    """A kernel has written where it must not."""


def own(kernel: Kernel) -> Callable[..., Any]:
    """Return the function that users' calls of the kernel are calls of."""
    function: Callable[..., Any] = vars(OwnCall)["__call__"].__get__(kernel)
    return function


def install() -> None:
    """Guard each call of a kernel from now on."""

    def call(kernel: Kernel, *arrays: Any, **named: Any) -> Any:
        unguarded = own(kernel)
        if named:
            return unguarded(*arrays, **named)
        kernel._checked.checker.addresses(arrays)  # what is wrong is said of the arrays as they are given
        given = {id(array): GuardedArray(array.shape, str(array.dtype)) for array in arrays}
        for array in arrays:
            np.copyto(given[id(array)].array, array)
        try:
            unguarded(*(given[id(array)].array for array in arrays))
        finally:
            for spec, array in zip(kernel.args, arrays, strict=True):
                if spec.is_output:
                    np.copyto(array, given[id(array)].array)
        _check(kernel, arrays, given)
        return None

    Kernel.__call__ = call  # type: ignore[method-assign]


def _check(kernel: Kernel, arrays: Any, given: dict[int, GuardedArray]) -> None:
    for spec, array in zip(kernel.args, arrays, strict=True):
        guarded = given[id(array)]
        if overrun := guarded.overrun():
            raise WrittenOutside(f"{kernel!r} wrote outside of {spec.name}: {overrun}")
        if not spec.is_output and guarded.array.tobytes() != array.tobytes():
            raise WrittenOutside(f"{kernel!r} wrote to its input {spec.name}")


def beside_pages(array: Any) -> list[Any]:
    """Return two copies of an array: one with a page behind it that cannot be read, one with such a page before it.

    Linux alone has the pages.
    """
    page = mmap.PAGESIZE
    inner = -(-max(array.nbytes, 1) // page) * page
    copies = []
    for start in (page + inner - array.nbytes, page):
        whole = np.frombuffer(mmap.mmap(-1, inner + 2 * page), np.uint8)
        for place in (0, page + inner):
            assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(whole.ctypes.data + place), page, 0) == 0
        copy = whole[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        np.copyto(copy, array)
        copies.append(copy)
    return copies
