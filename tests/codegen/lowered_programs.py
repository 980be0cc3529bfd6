"""Small builders for lowered programs, and a run that holds machine code against the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from interpreter import interpret

from pegbox.codegen import Kernel, Target, build, emit
from pegbox.expr import dtypes
from pegbox.expr.build import as_expr, cast, const, maximum, select
from pegbox.expr.intrinsics import call
from pegbox.expr.nodes import Buffer, Expr, Load, Var
from pegbox.loops.nodes import Alloc, For, ForKind, Function, If, Stmt, Store, seq

SERIAL, PARALLEL, VECTORIZED, UNROLLED = ForKind.SERIAL, ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.UNROLLED
ONE_CORE = Target("llvm -num-cores 1")
TWO_CORES = Target("llvm -num-cores 2")
# For tests of text, which is not run: vectors of 16 floats.
WIDE = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=znver4 -num-cores 1")


def loop(
    name: str,
    extent: int,
    body: Callable[[Var], Stmt],
    kind: ForKind = SERIAL,
    *,
    annotations: tuple[tuple[str, Any], ...] = (),
) -> For:
    var = Var(name)
    return For(var, extent, body(var), kind, annotations)


def get(buffer: Buffer, *indices: Any) -> Load:
    return Load(buffer, tuple(as_expr(index) for index in indices))


def put(buffer: Buffer, *indices_and_value: Any) -> Store:
    *indices, value = indices_and_value
    return Store(buffer, tuple(as_expr(index) for index in indices), as_expr(value))


def function(params: list[Buffer], outputs: list[Buffer], body: Stmt, *, name: str = "kernel") -> Function:
    return Function(name, tuple(params), tuple(outputs), body)


def numbers(buffer: Buffer, seed: int = 0) -> np.ndarray[Any, Any]:
    """Small values of the buffer's dtype, negative ones included where it has them."""
    rng = np.random.default_rng(seed)
    if buffer.dtype == "bool":
        return rng.random(buffer.shape) < 0.5
    if dtypes.is_float(buffer.dtype):
        return rng.uniform(-2, 2, buffer.shape).astype(buffer.dtype)
    low = 0 if buffer.dtype == "uint8" else -100
    return rng.integers(low, 101, buffer.shape).astype(buffer.dtype)


def run(kernel: Kernel, arrays: dict[str, np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """Call with the inputs by name and outputs full of junk; returns the outputs."""
    outputs = []
    ordered = []
    for spec in kernel.args:
        if spec.is_output:
            outputs.append(np.full(spec.shape, 77, dtype=spec.dtype))
            ordered.append(outputs[-1])
        else:
            ordered.append(arrays[spec.name])
    kernel(*ordered)
    return outputs


def check(func: Function, target: Target = ONE_CORE, *, seed: int = 0, rtol: float | None = None) -> Kernel:
    """Machine code must give what the interpreter gives: exactly for integers, closely for floats."""
    inputs = [numbers(buffer, seed + number) for number, buffer in enumerate(func.params) if buffer not in func.outputs]
    names = [buffer.name for buffer in func.params if buffer not in func.outputs]
    kernel = build(emit(func, target))
    got = run(kernel, dict(zip(names, inputs, strict=True)))
    expected = interpret(func, inputs)
    for mine, theirs in zip(got, expected, strict=True):
        assert mine.dtype == theirs.dtype
        if dtypes.is_float(str(mine.dtype)):
            tolerance = rtol or {"float64": 1e-12, "float32": 1e-5, "float16": 2e-2}[str(mine.dtype)]
            np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(mine, theirs)
    return kernel


def elementwise(
    dtype: str,
    value: Callable[[Expr, Expr], Expr],
    *,
    size: int = 37,
    kind: ForKind = VECTORIZED,
    out: str | None = None,
) -> Function:
    """c[i] = value(a[i], b[i])."""
    a, b, c = Buffer("a", (size,), dtype), Buffer("b", (size,), dtype), Buffer("c", (size,), out or dtype)
    return function([a, b, c], [c], loop("i", size, lambda i: put(c, i, value(get(a, i), get(b, i))), kind))


def alloc(buffer: Buffer, *stmts: Stmt) -> Alloc:
    return Alloc(buffer, seq(*stmts))


def every_access(dtype: str) -> list[Function]:
    """Every kind of access and value: gathers, shuffles, masks, reductions, branches, tiles, casts."""
    size = 24  # a vector of 16 and a rest
    a, c = Buffer("a", (size, size), dtype), Buffer("c", (size,), dtype)
    wide = Buffer("w", (size,), "float64")
    where = Buffer("i", (size,), "int32")
    tile = Buffer("t", (20,), dtype)
    zero = const(0.0, dtype)

    def place(j: Expr) -> Expr:
        return cast("int64", get(where, j))

    dot = loop(
        "k", size, lambda k: loop("j", size, lambda j: put(c, 0, get(c, 0) + get(a, k, j) * get(a, j, k)), VECTORIZED)
    )
    tiled = alloc(
        tile,
        loop("j", 20, lambda j: put(tile, j, zero), VECTORIZED),
        loop("k", size, lambda k: loop("j", 20, lambda j: put(tile, j, get(tile, j) + get(a, k, j)), VECTORIZED)),
        loop("j", 20, lambda j: If(get(tile, j) > zero, put(c, j, get(tile, j))), VECTORIZED),
    )
    bodies = [
        loop("j", size, lambda j: put(c, j, get(a, j, 0) + get(a, 0, size - 1 - j)), VECTORIZED),
        loop("k", 8, lambda k: loop("j", 16, lambda j: put(a, k, j, get(a, j, k)), VECTORIZED), UNROLLED),
        loop("j", size, lambda j: If(j * 1 + 3 < 21, put(c, j, maximum(get(a, 1, j), zero))), VECTORIZED),
        loop("j", size, lambda j: put(c, j, select(j < 14, get(a, 1, j + 10), zero))),
        loop("k", size, lambda k: loop("j", size, lambda j: put(c, 0, maximum(get(c, 0), get(a, k, j))), VECTORIZED)),
        dot,
        tiled,
        loop("j", size, lambda j: put(c, place(j), call("tanh", get(a, place(j), 1))), VECTORIZED),
        loop("j", size, lambda j: put(c, j, cast(dtype, get(wide, j))), VECTORIZED),
        loop("j", size, lambda j: put(wide, j, cast("float64", get(c, j)) + cast("float64", j)), VECTORIZED),
        loop("j", size, lambda j: put(where, j, cast("int32", call("sqrt", get(c, j)))), VECTORIZED),
        loop("j", size, lambda j: put(c, j, call("pow", get(c, j), cast(dtype, place(j))))),
    ]
    return [function([a, c, wide, where], [a, c, wide, where], body) for body in bodies]
