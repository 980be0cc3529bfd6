"""Checks of a kernel's arguments, since machine code itself checks nothing."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pegbox.codegen.compiled import ArgSpec
from pegbox.errors import ArgumentError
from pegbox.expr import dtypes


class Checker:
    """A check that turns arrays into their addresses, or raises.

    The common case is one pass of cheap comparisons per array; the reason for a failure is found afterwards.
    """

    def __init__(self, name: str, specs: Sequence[ArgSpec]) -> None:
        self.name = name
        self.specs = tuple(specs)
        self._expected = tuple((s.shape, dtypes.numpy_dtype(s.dtype), s.is_output, s.nbytes) for s in self.specs)

    def addresses(self, arrays: Sequence[Any]) -> list[int]:
        """Find the addresses of the arrays' data, in order.

        Raises:
            ArgumentError: the number of arrays, or an array's type, shape, dtype or layout is wrong, an output is
                read-only, or an output overlaps with another argument.
        """
        expected = self._expected
        if len(arrays) != len(expected):
            takes = f"takes {len(expected)} arrays ({', '.join(map(str, self.specs))}), got {len(arrays)}"
            outputs = [spec.name for spec in self.specs if spec.is_output]
            lacks_outputs = len(arrays) + len(outputs) == len(expected)
            remedy = f"; give an array for {' and '.join(outputs)}, too, here or as out=" if lacks_outputs else ""
            raise ArgumentError(f"{self.name}() {takes}{remedy}")
        result = []
        ends = []
        for array, (shape, dtype, is_output, nbytes) in zip(arrays, expected, strict=True):
            if array.__class__ is not np.ndarray and not _is_plain(array):
                self._explain(arrays)
            if array.shape != shape or array.dtype != dtype:
                self._explain(arrays)
            flags = array.flags
            if not flags.c_contiguous or not flags.aligned or (is_output and not flags.writeable):
                self._explain(arrays)
            address = _address(array)
            result.append(address)
            ends.append(address + nbytes)
        for number, (_, _, is_output, _) in enumerate(expected):
            if is_output:
                start, end = result[number], ends[number]
                for other, (begin, finish) in enumerate(zip(result, ends, strict=True)):
                    if begin < end and start < finish and other != number:
                        output, shared = self.specs[number].name, self.specs[other].name
                        raise ArgumentError(
                            f"{self.name}(): the output {output} (argument {number}) shares memory with {shared} "
                            f"(argument {other}); pass a separate array, such as np.empty_like({output})"
                        )
        return result

    def _explain(self, arrays: Sequence[Any]) -> None:
        """Raise an error about the first array that is wrong."""
        for number, (array, spec) in enumerate(zip(arrays, self.specs, strict=True)):
            where = f"{self.name}(): argument {number} ({spec.name})"
            copied = "; pass a copy and copy the result back" if spec.is_output else "; pass a copy"
            if not isinstance(array, np.ndarray):
                expected = f"expected a NumPy array {spec.dtype}{list(spec.shape)}"
                remedy = "" if spec.is_output else "; pass np.asarray(...)"  # the result in a copy would be lost
                raise ArgumentError(f"{where} is a {type(array).__name__}; {expected}{remedy}")
            if not _is_plain(array):
                remedy = "a separate writable array" if spec.is_output else "a.filled(0)"
                raise ArgumentError(f"{where} is a masked array, and kernels ignore masks; pass {remedy}")
            if array.dtype != dtypes.numpy_dtype(spec.dtype):
                named = {"bfloat16": "ml_dtypes.bfloat16", "bool": "np.bool_"}.get(spec.dtype, f"np.{spec.dtype}")
                raise ArgumentError(
                    f"{where} has dtype {array.dtype}, expected {spec.dtype}; convert it with .astype({named})"
                )
            if array.shape != spec.shape:
                remedy = "a kernel is built for fixed shapes"
                if array.ndim != len(spec.shape):
                    remedy += ", and pegbox.templates.pack_weights packs the weights that it takes packed"
                raise ArgumentError(f"{where} has shape {array.shape}, expected {spec.shape}; {remedy}")
            if not array.flags.c_contiguous:
                raise ArgumentError(
                    f"{where} is not C-contiguous (strides {array.strides}); pass np.ascontiguousarray(...)"
                    + (" and copy the result back" if spec.is_output else "")
                )
            if not array.flags.aligned:
                raise ArgumentError(f"{where} does not start at a multiple of {array.dtype.alignment} bytes{copied}")
            if spec.is_output and not array.flags.writeable:
                raise ArgumentError(f"{where} is an output but read-only; pass a writable array")


def _is_plain(array: Any) -> bool:
    """Decide if an object is a NumPy array without a mask."""
    return isinstance(array, np.ndarray) and not (
        type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray)  # loads numpy.ma
    )


def _by_interface(array: Any) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _by_layout(array: Any) -> int:
    """Read the data pointer, the first field of NumPy's array object, ten times as fast as by the attribute."""
    return _word(id(array) + _DATA).value


_DATA = object.__basicsize__
_word = ctypes.c_size_t.from_address


def _fastest() -> Callable[[Any], int]:
    """Choose `_by_layout` if samples show that this interpreter and NumPy have that layout."""
    if sys.implementation.name != "cpython":
        return _by_interface
    samples = [np.empty(3), np.empty((2, 5), np.int8)[1:], np.arange(7)[2:5]]
    return _by_layout if all(_by_layout(a) == _by_interface(a) for a in samples) else _by_interface


_address = _fastest()
