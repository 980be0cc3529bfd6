"""The interpreter notices what a machine would not."""

from __future__ import annotations

from typing import Any

import lowered_interpreter
import numpy as np
import pytest
from interpreter import interpret

from pegbox.errors import LoweringError
from pegbox.expr import dtypes
from pegbox.expr.build import TRUE, cast, const, index
from pegbox.expr.intrinsics import call
from pegbox.expr.nodes import Buffer, Expr, Load, Var
from pegbox.loops.nodes import (
    Alloc,
    Block,
    BlockIter,
    BlockRealize,
    For,
    ForKind,
    Function,
    If,
    IterKind,
    Stmt,
    Store,
    seq,
)

X, Y, T = Buffer("X", (4,)), Buffer("Y", (4,)), Buffer("T", (4,))
K, J = Var("i"), Var("j")


def _func(body: Stmt, allocs: tuple[Buffer, ...] = ()) -> Function:
    return Function("f", (X, Y), (Y,), body, allocs)


def _copy(at: Expr, value: Expr | None = None) -> Stmt:
    return For(K, 4, Store(Y, (K,), Load(X, (at,)) if value is None else value))


def _run_lowered(func: Function, inputs: list[Any]) -> list[Any]:
    out = np.zeros(4, "float32")
    lowered_interpreter.run(func, [*inputs, out])
    return [out]


XS = np.arange(4, dtype="float32")


def test_plain_statements_run() -> None:
    (y,) = interpret(_func(_copy(index(3) - K)), [XS])
    np.testing.assert_array_equal(y, XS[::-1])


@pytest.mark.parametrize("run", [interpret, _run_lowered])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_operations_round_to_their_own_type(run: Any, dtype: str) -> None:
    x, y = Buffer("X", (4,), dtype), Buffer("Y", (4,))
    value = call("tanh", Load(x, (K,))) / const(3, dtype)
    func = Function("f", (x, y), (y,), For(K, 4, Store(y, (K,), cast("float32", value))))
    xs = np.array([0.5, 1, 3, -2], dtypes.numpy_dtype(dtype))
    (got,) = run(func, [xs])
    rounded = np.tanh(xs.astype("float64")).astype(xs.dtype) / xs.dtype.type(3)
    np.testing.assert_array_equal(got, rounded.astype("float32"))


def test_reads_outside_of_a_buffer_are_noticed() -> None:
    with pytest.raises(IndexError, match=r"X\[4\] is outside of the shape \[4\]"):
        interpret(_func(_copy(K + 1)), [XS])


def test_reads_of_what_was_never_written_are_noticed() -> None:
    body = _copy(K, Load(T, (K,)))
    with pytest.raises(IndexError, match=r"T\[0\] is read before anything has been written"):
        interpret(_func(Alloc(T, body)), [XS])


def test_outputs_with_holes_are_noticed() -> None:
    with pytest.raises(LoweringError, match=r"Y\[3\] is never written"):
        interpret(_func(For(K, 4, If(K < 3, Store(Y, (K,), Load(X, (K,)))))), [XS])


def test_an_intermediate_is_forgotten_between_the_iterations_that_use_it() -> None:
    early = For(K, 4, seq(If(K < 1, Store(T, (index(0),), Load(X, (K,)))), Store(Y, (K,), Load(T, (index(0),)))))
    with pytest.raises(IndexError, match=r"T\[0\] is read before"):
        interpret(_func(early, (T,)), [XS])


def test_parallel_loops_run_backwards() -> None:
    running = For(K, 4, Store(Y, (index(0),), Load(X, (K,))), ForKind.PARALLEL)
    rest = For(J, 3, Store(Y, (J + 1,), Load(X, (J,))))
    (y,) = interpret(_func(seq(running, rest)), [XS])
    assert y[0] == 0


def test_blocks_check_their_domains_predicates_and_init() -> None:
    v, r = Var("v"), Var("r")
    body = Store(Y, (v,), Load(Y, (v,)) + Load(X, (r,)))
    init = Store(Y, (v,), const(0.0))
    iters = (BlockIter(v, 4, IterKind.SPATIAL), BlockIter(r, 3, IterKind.REDUCE))

    def program(value: Expr, predicate: Expr = TRUE) -> Function:
        realize = BlockRealize((value, J), Block("B", iters, (), (), body, init), predicate)
        return _func(For(K, 5, For(J, 3, realize)))

    (y,) = interpret(program(K, K < 4), [XS])
    np.testing.assert_array_equal(y, [3, 3, 3, 3])
    with pytest.raises(IndexError, match=r"block B: v = 4, outside of range\(4\)"):
        interpret(program(K), [XS])


@pytest.mark.parametrize(
    ("name", "reference"),
    [("exp", np.exp), ("sigmoid", lambda x: 1 / (1 + np.exp(-x))), ("rsqrt", lambda x: x**-0.5), ("tanh", np.tanh)],
)
def test_intrinsics_keep_their_dtype(name: str, reference: Any) -> None:
    (y,) = interpret(_func(_copy(K, call(name, Load(X, (K,)) + const(1.0)))), [XS])
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, reference(XS + 1), rtol=1e-6)


def test_arrays_must_fit_the_parameters() -> None:
    with pytest.raises(LoweringError, match=r"cannot hold an array float64\[4\]"):
        interpret(_func(_copy(K)), [XS.astype("float64")])
    with pytest.raises(LoweringError, match="takes 1 inputs"):
        interpret(_func(_copy(K)), [])
