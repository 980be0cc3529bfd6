"""`tvm.nd`: arrays that kernels are called with: NumPy's, with the methods that TVM's have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pegbox.checks import check_array
from pegbox.expr import dtypes
from pegbox.plugins.tvm.notice import means_nothing
from pegbox.plugins.tvm.runtime.device import Device, check_device
from pegbox.plugins.tvm.runtime.device import cpu as cpu
from pegbox.plugins.tvm.runtime.device import cuda as cuda
from pegbox.plugins.tvm.runtime.device import device as device
from pegbox.plugins.tvm.runtime.device import gpu as gpu

Array: TypeAlias = npt.NDArray[Any]

_ALIGNMENT = 64  # a vector of any width that starts there stays within one line of the cache


class NDArray(np.ndarray[Any, Any]):
    """A NumPy array by TVM's names; what NumPy's can do, it can do too."""

    @property
    def device(self) -> Device:  # type: ignore[override]  # NumPy's is the text "cpu"
        return cpu(0)

    ctx = device

    def numpy(self) -> Array:
        """A copy as a plain NumPy array."""
        return np.array(self, subok=False)

    asnumpy = numpy

    def copyfrom(self, source_array: npt.ArrayLike) -> NDArray:
        """Take over the values of an array of the same shape; they are converted where the type differs.

        Raises:
            ArgumentError: another shape.
        """
        source = np.asarray(source_array).astype(self.dtype, copy=False)
        check_array("copyfrom: expected", source, self.shape, str(self.dtype))
        self[...] = source
        return self

    def copyto(self, target: Array | Device, mem_scope: str | None = None) -> Array:
        """Copy to another array of the same shape and type, or to a device (a new array).

        Raises:
            ArgumentError: another shape or type, or no such device.
        """
        if isinstance(target, Device):
            return array(self, target, mem_scope)
        check_array("copyto: expected", target, self.shape, str(self.dtype))
        target[...] = self
        return target

    def same_as(self, other: object) -> bool:
        """Whether it is the same array."""
        return self is other

    def __repr__(self) -> str:
        return f"<tvm.nd.NDArray shape={self.shape}, {self.device}>\n{self.view(np.ndarray)!r}"

    __str__ = __repr__


def empty(
    shape: int | Sequence[int],
    dtype: str = "float32",
    device: Device | None = None,
    mem_scope: str | None = None,
    *,
    ctx: Device | None = None,
) -> NDArray:
    """An array whose values are not set, at a multiple of 64 bytes. `ctx` is what `device` was before TVM 0.8.

    Raises:
        ArgumentError: no such device.
        ExprError: no such type.
    """
    check_device(device or ctx)
    if mem_scope not in (None, "global"):
        means_nothing(f"mem_scope={mem_scope!r} of an array", "a CPU has one memory")
    kind = dtypes.numpy_dtype(dtypes.check(str(dtype)))
    extents = (shape,) if isinstance(shape, int) else tuple(int(extent) for extent in shape)
    size = int(np.prod(extents, dtype=np.int64)) * kind.itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    made: NDArray = memory[start : start + size].view(kind).reshape(extents).view(NDArray)
    return made


def array(
    arr: npt.ArrayLike, device: Device | None = None, mem_scope: str | None = None, *, ctx: Device | None = None
) -> NDArray:
    """A copy of an array or a list of numbers. `ctx` is what `device` was before TVM 0.8.

    Raises:
        ArgumentError: no such device.
        ExprError: kernels have no such type.
    """
    source = np.asarray(arr)
    made = empty(source.shape, str(source.dtype), device or ctx, mem_scope)
    made[...] = source
    return made


def from_dlpack(tensor: Any) -> NDArray:
    """An array over the memory of another library's tensor, which must be in this machine's memory."""
    return np.from_dlpack(tensor).view(NDArray)
