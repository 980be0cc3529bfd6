"""Stages of random graphs that statements compute: running sums by C and Python functions and by loops."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from compilers import HAS_COMPILER
from numpy.typing import NDArray

from fuzz.drawing import Drawing
from pegbox import te, tir

Array = NDArray[Any]

_C_TYPES = {
    "float64": "double", "float32": "float", "int64": "long long", "int32": "int", "int16": "short",
    "int8": "signed char", "uint64": "unsigned long long", "uint32": "unsigned", "uint16": "unsigned short",
    "uint8": "unsigned char",
}  # fmt: skip
_CODE = tir.c_source("\n".join(
    f"int running_{dtype}(const {name} *a, {name} *b, long n) {{ b[0] = a[0]; "
    f"for (long i = 1; i < n; i++) b[i] = b[i - 1] + a[i]; return 0; }}" for dtype, name in _C_TYPES.items()
))  # fmt: skip


def _running(given: Array, made: Array) -> None:
    np.cumsum(given, dtype=made.dtype, out=made.reshape(-1))


def _reference(given: Array) -> Array:
    made = np.empty_like(given)
    _running(given, made)
    return made


def extern(d: Drawing) -> None:
    """The sums of all elements before each, row after row."""
    a = d.some(exact=True)
    size, get = prod(a.shape), d.plain(a, 4)
    if a.dtype not in _C_TYPES:
        return
    given = d.add(a.shape, lambda *i: get(*i), 4)
    forms = ["python", *(["c"] if HAS_COMPILER else []), *(["loops"] if len(a.shape) == 1 and size > 1 else [])]
    form = d.rng.choice(forms)

    def statement(ins: Any, outs: Any) -> Any:
        if form == "python":
            return te.call_python(_running, ins[0], outs[0])
        if form == "c":
            return te.call_extern("int32", f"running_{a.dtype}", ins[0].data, outs[0].data, size)
        ib = tir.ir_builder.create()
        source, sums = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        sums[0] = source[0]
        with ib.for_range(1, size, name="i") as i:
            sums[i] = sums[i - 1] + source[i]
        return ib.get()

    code = _CODE if form == "c" else ()
    name = f"S{d.stages + 1}"
    made = te.extern(a.shape, [given], statement, name, dtype=a.dtype, code=code, reference=_reference)
    d.take(made, 4 * size)
    d.foreign = d.foreign or form != "loops"
