"""The arrays of a model's file, and of the files next to it, which are mapped into memory."""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper

from pegbox.errors import GraphError

Array = NDArray[Any]

_AGAIN = "the model is damaged, export it again"
_CHUNK = 1 << 20
"""The number of elements to search at once for NaN."""


class Weights:
    """A reader of tensors.

    Args:
        folder: the folder of the model's file, or None.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._files: dict[str, Array] = {}

    def array(self, tensor: TensorProto) -> Array:
        """Return the elements of a tensor; those in another file are mapped, not copied.

        Raises:
            GraphError: the elements are missing, or at a forbidden place.
        """
        if tensor.data_location == TensorProto.EXTERNAL:
            return self._mapped(tensor)
        try:
            return np.require(numpy_helper.to_array(tensor), requirements="C")
        except (ValueError, TypeError, KeyError, OverflowError, MemoryError) as error:
            name = type_name(tensor.data_type)
            raise GraphError(f"its {name}{list(tensor.dims)} cannot be read ({error}); {_AGAIN}") from error

    def _mapped(self, tensor: TensorProto) -> Array:
        entries = {each.key: each.value for each in tensor.external_data}
        try:
            offset, length = int(entries.get("offset") or 0), int(entries.get("length") or -1)
            dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
        except (ValueError, KeyError) as error:
            raise GraphError(f"its place in another file cannot be read: {error}; {_AGAIN}") from error
        if tensor.data_type in (TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT4E2M1):
            raise GraphError("elements of 4 bits outside of the model's file are not supported; save them in it")
        location = entries.get("location", "")
        data = self._file(location)
        size = math.prod(tensor.dims) * dtype.itemsize
        if min([0, *tensor.dims]) < 0 or length not in (-1, size):
            given = f"{type_name(tensor.data_type)}{list(tensor.dims)}"
            raise GraphError(f"{given} has {size} bytes, but its entry for {location!r} says {length}; {_AGAIN}")
        if offset < 0:
            raise GraphError(f"its bytes in {location!r} begin at {offset}; {_AGAIN}")
        if offset + size > data.size:
            raise GraphError(
                f"its bytes {offset} to {offset + size} are beyond the end of {location!r}, which has {data.size}; "
                "the file was cut short, copy it again"
            )
        found = data[offset : offset + size]
        if found.ctypes.data % dtype.itemsize:  # kernels and NumPy need aligned elements
            found = found.copy()
        return found.view(dtype).reshape(tuple(tensor.dims))

    def _file(self, location: str) -> Array:
        if location not in self._files:
            path = self._path(location)
            try:
                mode = path.stat()
                if not stat.S_ISREG(mode.st_mode):
                    raise GraphError(f"{location!r}, which should hold its elements, is not a file; {_AGAIN}")
                empty = mode.st_size == 0
                data = np.empty(0, np.uint8) if empty else np.asarray(np.memmap(path, np.uint8, mode="r"))
            except OSError as error:
                raise GraphError(
                    f"{location!r}, which should hold its elements, cannot be read ({error.strerror or error}); copy "
                    "it into the folder of the model"
                ) from error
            self._files[location] = data
        return self._files[location]

    def _path(self, location: str) -> Path:
        if self._folder is None:
            raise GraphError(
                f"its elements are in the file {location!r}, in a folder that is not known; give the path of the model"
            )
        remedy = "copy it into the folder of the model, and name it by a relative path"
        plain = Path(location)
        if not location or "\0" in location or plain.is_absolute() or ".." in plain.parts or "\\" in location:
            raise GraphError(
                f"{location!r}, which should hold its elements, is not a path in the model's folder; {remedy}"
            )
        path = Path(os.path.realpath(self._folder / plain))
        if not path.is_relative_to(os.path.realpath(self._folder)):
            raise GraphError(
                f"{location!r}, which should hold its elements, is a link out of the model's folder; {remedy}"
            )
        return path


def is_suspicious(array: Array) -> bool:
    """Decide if an array has NaN, or infinities among weights; a mask of zeros and infinities may have those."""
    if array.dtype.kind not in "fV":  # V: NumPy's kind of bfloat16
        return False
    flat = array.reshape(-1)
    parts = [flat[begin : begin + _CHUNK] for begin in range(0, flat.size, _CHUNK)]
    finite = True
    for part in parts:
        if not np.isfinite(part).all():
            if np.isnan(part).any():
                return True
            finite = False
    return not finite and any(part[np.isfinite(part)].any() for part in parts)


def type_name(data_type: int) -> str:
    """Return ONNX's name of a type of elements."""
    try:
        return str(TensorProto.DataType.Name(data_type))
    except ValueError:
        return f"element type {data_type}"
