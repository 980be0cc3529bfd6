"""Arrays of NumPy and of other libraries, as arguments and results of operators."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from pegbox.errors import ArgumentError
from pegbox.expr import dtypes
from pegbox.shown import value_text

Array: TypeAlias = "np.ndarray[Any, Any]"

_BFLOAT16 = "bfloat16"


class CopyWarning(UserWarning):
    """A warning that an array is copied at each call, because it is not contiguous."""


def as_array(where: str, value: Any) -> Array:
    """Return the value as a NumPy array of native numbers, in the same memory.

    Args:
        where: the place of the value, which begins messages.

    Raises:
        ArgumentError: it is not an array, or NumPy cannot use its memory.
    """
    array = value if isinstance(value, np.ndarray) else _from_other(where, value)
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):  # loads numpy.ma
        raise ArgumentError(f"{where} is a masked array, and kernels ignore masks; fill it: a.filled(0)")
    if dtype_name(array.dtype) not in dtypes.BITS:
        wanted = {"M": "int64", "m": "int64", "f": "float64"}.get(array.dtype.kind, "float32")
        raise ArgumentError(
            f"{where} is an array of {array.dtype}, which no kernel computes with; convert it: a.astype('{wanted}')"
        )
    if not array.dtype.isnative:
        raise ArgumentError(
            f"{where} has the bytes of its {array.dtype.name} in the other order ({array.dtype}); swap them: "
            "a.astype(a.dtype.newbyteorder('='))"
        )
    return array if type(array) is np.ndarray else array.view(np.ndarray)


@cache
def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype from a cache, because NumPy takes microseconds to make it each time."""
    return str(dtype.name)


def as_output(where: str, value: Any) -> Array:
    """Return the value as a NumPy array that can be written to.

    Raises:
        ArgumentError: as in `as_array`, or it cannot be written to.
    """
    array = as_array(where, value)
    if not array.flags.writeable and not isinstance(value, np.ndarray):
        array = _writable(array, value)
    if not array.flags.writeable:
        raise ArgumentError(
            f"{where} is a {type(value).__name__} that cannot be written to; leave out= out, or give a writable array"
        )
    return array


def contiguous(array: Array) -> Array:
    """Return the array itself if kernels can read it, or else a copy; an array without dimensions stays one."""
    return array if array.flags.c_contiguous and array.flags.aligned else np.array(array, order="C")


def like(first: Any, output: Array) -> Any:
    """Return the output as an array of the same library as another array, in the same memory.

    It remains NumPy's if that library cannot make an array of it.
    """
    if isinstance(first, np.ndarray):
        return output
    is_bfloat16 = output.dtype.name == _BFLOAT16
    if (torch := _torch_of(first)) is not None:
        return torch.from_numpy(output.view(np.int16)).view(torch.bfloat16) if is_bfloat16 else torch.from_numpy(output)
    namespace = getattr(first, "__array_namespace__", None)
    library: Any = sys.modules.get(type(first).__module__.partition(".")[0]) if namespace is None else namespace()
    if is_bfloat16 and hasattr(library, "asarray"):
        return library.asarray(output)  # NumPy's DLPack does not support the type
    return library.from_dlpack(output) if hasattr(library, "from_dlpack") else output


def _from_other(where: str, value: Any) -> Array:
    is_array = hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__")
    if not is_array or isinstance(value, np.generic):
        raise ArgumentError(
            f"{where} is {value_text(value)} ({type(value).__name__}), not an array; give np.asarray(..., "
            "dtype='float32')"
        )
    try:
        return _viewed(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        remedy = ""
        if getattr(value, "requires_grad", False):
            remedy = "; give x.detach()"
        elif str(device := getattr(value, "device", "cpu")) != "cpu":
            remedy = f"; it is on {device}: copy it to this processor's memory, such as by .cpu()"
        raise ArgumentError(f"{where}, a {type(value).__name__}: {error}{remedy}") from error


def _viewed(value: Any) -> Array:
    """Return the memory of another library's array as NumPy's."""
    is_bfloat16 = str(value.dtype).endswith(_BFLOAT16) if hasattr(value, "dtype") else False
    if is_bfloat16:
        import ml_dtypes  # registers the type with NumPy

        if (torch := _torch_of(value)) is not None:
            bits: Array = value.view(torch.int16).numpy()
            return bits.view(ml_dtypes.bfloat16)
        return np.asarray(value)  # JAX's arrays, whose types come from ml_dtypes
    if _torch_of(value) is not None:
        viewed: Array = value.numpy()  # ten times faster than DLPack
        return viewed
    return np.from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(value)


def _torch_of(value: Any) -> Any:
    """Return the module torch if the value is one of its tensors, without importing anything."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(value, torch.Tensor) else None


def _writable(array: Array, value: Any) -> Array:
    """Return the same memory as writable: old versions of NumPy mark all memory from DLPack as read-only."""
    again = np.asarray(value) if hasattr(value, "__array__") else array
    same = again.flags.writeable and again.__array_interface__["data"][0] == array.__array_interface__["data"][0]
    return again if same else array
