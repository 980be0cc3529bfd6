"""Kernels that do one thing as fast as a core can: multiply and add, read memory, or copy it.

They measure the roofs of the roofline model (Williams, Waterman and Patterson, "Roofline: An Insightful Visual
Performance Model for Multicore Architectures", CACM 2009).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pegbox.codegen.emitter.emit import emit
from pegbox.codegen.runtime.kernel import Kernel, load
from pegbox.codegen.runtime.machine import compile_program
from pegbox.codegen.targets.target import Target
from pegbox.codegen.targets.vectors import LATENCY, lanes_of
from pegbox.errors import ArgumentError
from pegbox.expr.nodes import Buffer, Expr, Load, Var
from pegbox.loops.nodes import Alloc, For, ForKind, Function, Stmt, Store, seq

_ROUNDS = 20_000
_WORD = 8
"""The bytes of each element that is read."""

_UNROLLED = 8
"""The vectors read in a row: enough to keep loads in flight from any cache level."""

LEAST_BYTES = 2 * _UNROLLED * 64
"""The fewest bytes that are read or copied: a row of the widest vectors, and another to copy it to."""


def multiply_add_kernel(dtype: str, target: Target) -> tuple[Kernel, float]:
    """Build a kernel of multiply-adds on an array of one vector; also return its floating-point operations per call.

    The kernel updates independent accumulators, as wide as the target's vectors, without loads and stores. There are
    enough accumulators to hide the latency, and few enough to stay in registers with their operand. Multiply-adds are
    fused if the target can.

    Raises:
        ArgumentError: the dtype is neither float32 nor float64.
    """
    if dtype not in ("float32", "float64"):
        raise ArgumentError(f"dtype={dtype!r}: the multiply-add peak is measured for float32 and float64")
    lanes = lanes_of(target, dtype)
    count = min(2 * LATENCY, target.vector_registers - 2)
    x, sums = Buffer("x", (lanes,), dtype), Buffer("sums", (count, lanes), dtype, "local")
    body = seq(
        _vectors(count, lanes, lambda a, lane: Store(sums, (a, lane), Load(x, (lane,)))),
        _loop(
            _ROUNDS,
            lambda _: _vectors(
                count,
                lanes,
                lambda a, lane: Store(sums, (a, lane), Load(sums, (a, lane)) * Load(x, (lane,)) + Load(x, (lane,))),
            ),
        ),
        _vectors(count, lanes, lambda a, lane: Store(x, (lane,), Load(x, (lane,)) + Load(sums, (a, lane)))),
    )
    return _kernel("peak", [x], Alloc(sums, body), target), 2.0 * lanes * count * _ROUNDS


def read_kernel(nbytes: int, target: Target) -> Kernel:
    """Build a kernel that adds up an int64 array of `nbytes` bytes and writes a vector; both are its arguments.

    `nbytes` is a multiple of `LEAST_BYTES`.
    """
    lanes = lanes_of(target, "int64")
    x, y = Buffer("x", (nbytes // _WORD,), "int64"), Buffer("y", (lanes,), "int64")
    sums = Buffer("sums", (_UNROLLED, lanes), "int64", "local")
    body = seq(
        _vectors(_UNROLLED, lanes, lambda a, lane: Store(sums, (a, lane), lane * 0)),
        _rows(x, lanes, lambda at, a, lane: Store(sums, (a, lane), Load(sums, (a, lane)) + Load(x, (at,)))),
        _vectors(1, lanes, lambda a, lane: Store(y, (lane,), lane * 0)),
        _vectors(_UNROLLED, lanes, lambda a, lane: Store(y, (lane,), Load(y, (lane,)) + Load(sums, (a, lane)))),
    )
    return _kernel("read", [x, y], Alloc(sums, body), target)


def copy_kernel(nbytes: int, target: Target) -> Kernel:
    """Build a kernel that copies one int64 array to another; together they have `nbytes` bytes, as in `read_kernel`."""
    x, y = (Buffer(name, (nbytes // 2 // _WORD,), "int64") for name in "xy")
    body = _rows(x, lanes_of(target, "int64"), lambda at, a, lane: Store(y, (at,), Load(x, (at,))))
    return _kernel("copy", [x, y], body, target)


def _rows(x: Buffer, lanes: int, body: Callable[[Expr, Var, Var], Stmt]) -> Stmt:
    """Loop over an array in rows of `_UNROLLED` vectors; `body` takes an element's place, vector and lane."""
    row = _UNROLLED * lanes
    return _loop(
        x.size // row,
        lambda n: _vectors(_UNROLLED, lanes, lambda a, lane: body(n * row + a * lanes + lane, a, lane)),
    )


def _vectors(count: int, lanes: int, body: Callable[[Var, Var], Stmt]) -> Stmt:
    return _loop(
        count, lambda a: _loop(lanes, lambda lane: body(a, lane), kind=ForKind.VECTORIZED), kind=ForKind.UNROLLED
    )


def _loop(extent: int, body: Callable[[Var], Stmt], *, kind: ForKind = ForKind.SERIAL) -> Stmt:
    var = Var("i")
    return For(var, extent, body(var), kind)


def _kernel(name: str, params: Sequence[Buffer], body: Stmt, target: Target) -> Kernel:
    program = emit(Function(name, tuple(params), (params[-1],), body), target)
    return load(compile_program(program, apart=False), program=program)
