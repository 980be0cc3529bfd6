"""`tvm.nd`: the arrays of kernels, NumPy's with the methods of TVM's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pegbox.errors import ArgumentError
from pegbox.plugins.tvm.runtime.device import Device, check_device
from pegbox.plugins.tvm.runtime.device import cpu as cpu
from pegbox.plugins.tvm.runtime.device import cuda as cuda
from pegbox.plugins.tvm.runtime.device import device as device
from pegbox.plugins.tvm.runtime.device import gpu as gpu

Array: TypeAlias = npt.NDArray[Any]

_ALIGNMENT = 64  # a vector of any width that starts there stays within one line of the cache


class NDArray(np.ndarray[Any, Any]):
    """A NumPy array by TVM's names."""

    @property
    def device(self) -> Device:  # type: ignore[override]  # NumPy's is the text "cpu"
        return cpu(0)

    ctx = device

    def numpy(self) -> Array:
        """Copy to a plain NumPy array."""
        return np.array(self, subok=False)

    asnumpy = numpy

    def copyfrom(self, source_array: npt.ArrayLike) -> NDArray:
        """Take over the values of an array of the same shape; they are converted if the type differs.

        Raises `ArgumentError` for another shape.
        """
        source = np.asarray(source_array)
        if source.shape != self.shape:
            raise ArgumentError(f"copyfrom: expected the shape {self.shape}, got {source.shape}")
        self[...] = source.astype(self.dtype, copy=False)
        return self

    def copyto(self, target: NDArray | Device) -> Array:
        """Copy to another array of the same shape, or to a device (a new array). Raises as `copyfrom` and `array`."""
        return array(self, target) if isinstance(target, Device) else target.copyfrom(self)

    def __repr__(self) -> str:
        return f"<tvm.nd.NDArray shape={self.shape}, {self.device}>\n{self.view(np.ndarray)!r}"

    __str__ = __repr__


def empty(
    shape: int | Sequence[int], dtype: str = "float32", device: Device | None = None, *, ctx: Device | None = None
) -> NDArray:
    """Make an array without values, at a multiple of 64 bytes. `ctx` was the name of `device` before TVM 0.8.

    Raises `ArgumentError` for another device.
    """
    check_device(device or ctx)
    kind = np.dtype(dtype)
    extents = (shape,) if isinstance(shape, int) else tuple(int(extent) for extent in shape)
    size = int(np.prod(extents, dtype=np.int64)) * kind.itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    made: NDArray = memory[start : start + size].view(kind).reshape(extents).view(NDArray)
    return made


def array(arr: npt.ArrayLike, device: Device | None = None, *, ctx: Device | None = None) -> NDArray:
    """Copy an array or a list of numbers. Raises as `empty`."""
    source = np.asarray(arr)
    return empty(source.shape, str(source.dtype), device or ctx).copyfrom(source)
