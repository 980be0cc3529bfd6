"""Arrays of NumPy and of other libraries, as operators take them and give them back."""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

import numpy as np

from pegbox.errors import ArgumentError
from pegbox.shown import value_text

Array: TypeAlias = "np.ndarray[Any, Any]"

_BFLOAT16 = "bfloat16"
_HERE = (1, 3, 11, 13)
"""DLPack's numbers for memory that this processor reads: its own, and what it shares with CUDA and ROCm."""


class CopyWarning(UserWarning):
    """An array is copied at each call, because it is not contiguous."""


def as_array(where: str, value: Any) -> Array:
    """The value as a NumPy array of this machine's numbers, in the memory that it has.

    Args:
        where: the place of the value, which begins messages.

    Raises:
        ArgumentError: it is no array, or one whose memory NumPy cannot use.
    """
    array = value if isinstance(value, np.ndarray) else _from_other(where, value)
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):  # loads numpy.ma
        raise ArgumentError(f"{where} is a masked array, and kernels know no masks; fill it: a.filled(0)")
    if array.dtype.kind in "OSUMmVc" and array.dtype.name != _BFLOAT16:
        raise ArgumentError(
            f"{where} is an array of {array.dtype}, which no kernel computes with; convert it: a.astype('float32')"
        )
    if not array.dtype.isnative:
        raise ArgumentError(
            f"{where} has the bytes of its {array.dtype.name} in the other order ({array.dtype}); swap them: "
            "a.astype(a.dtype.newbyteorder('='))"
        )
    return array if type(array) is np.ndarray else array.view(np.ndarray)


def as_output(where: str, value: Any) -> Array:
    """The value as a NumPy array that can be written to.

    Raises:
        ArgumentError: as `as_array`, or it cannot be written to.
    """
    array = as_array(where, value)
    if not array.flags.writeable and not isinstance(value, np.ndarray):
        array = _writable(array, value)
    if not array.flags.writeable:
        raise ArgumentError(
            f"{where} is a {type(value).__name__} that cannot be written to; leave out= out, or give a writable array"
        )
    return array


def like(first: Any, output: Array) -> Any:
    """The output as an array of the library that another array is from, in the memory that it has."""
    if isinstance(first, np.ndarray):
        return output
    namespace = getattr(first, "__array_namespace__", None)
    library = sys.modules[type(first).__module__.partition(".")[0]] if namespace is None else namespace()
    convert = getattr(library, "from_dlpack", None)
    if convert is None:
        return output
    if output.dtype.name != _BFLOAT16:
        return convert(output)
    if not hasattr(library, "Tensor"):
        return library.asarray(output)
    return convert(output.view(np.int16)).view(library.bfloat16)


def _from_other(where: str, value: Any) -> Array:
    if hasattr(value, "__dlpack__") and not isinstance(value, np.generic):
        kind = f"a {type(value).__name__}"
        try:
            if value.__dlpack_device__()[0] in _HERE:
                return _by_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            remedy = "; give x.detach()" if getattr(value, "requires_grad", False) else ""
            raise ArgumentError(f"{where}, {kind}: {error}{remedy}") from error
        device = getattr(value, "device", value.__dlpack_device__())
        raise ArgumentError(
            f"{where} is {kind} on another device ({device}); copy it to this processor's memory, such as by .cpu()"
        )
    if hasattr(value, "__array_interface__") and not isinstance(value, np.generic):
        return np.asarray(value)
    raise ArgumentError(
        f"{where} is {value_text(value)} ({type(value).__name__}), not an array; give np.asarray(..., dtype='float32')"
    )


def _by_dlpack(value: Any) -> Array:
    if not str(value.dtype).endswith(_BFLOAT16):
        return np.from_dlpack(value)
    import ml_dtypes  # gives NumPy the type, which DLPack cannot name to it

    library = sys.modules[type(value).__module__.partition(".")[0]]
    if not hasattr(library, "Tensor"):
        return np.asarray(value)  # JAX's arrays, whose numbers are those of ml_dtypes
    return np.from_dlpack(value.view(library.int16)).view(ml_dtypes.bfloat16)


def _writable(array: Array, value: Any) -> Array:
    """The same memory without NumPy's note that it is read-only, which old versions make of all that is DLPack's."""
    again = np.asarray(value) if hasattr(value, "__array__") and array.dtype.name != _BFLOAT16 else array
    same = again.flags.writeable and again.__array_interface__["data"][0] == array.__array_interface__["data"][0]
    return again if same else array
