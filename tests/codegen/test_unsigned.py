"""Unsigned integers of every width: arithmetic, comparisons, divisions, conversions and reductions as NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pegbox as pb
from pegbox import te
from pegbox.compute.reference import evaluate
from pegbox.compute.tensor import Tensor
from pegbox.expr import dtypes
from pegbox.tir import script

UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
N = 37


def edges(dtype: str, shape: tuple[int, ...] = (N,), *, seed: int = 0) -> NDArray[Any]:
    """Values of a type, most of them at its edges."""
    rng, kind = np.random.default_rng(seed), dtypes.numpy_dtype(dtype)
    if dtype == "bool" or dtypes.is_float(dtype):
        return rng.integers(0, 100 if dtypes.is_float(dtype) else 2, shape).astype(kind)
    low, high = (int(n) for n in dtypes.value_range(dtype))
    values = [low, high, 0, 1, 3, high // 2, high // 2 + 1, 117]
    return np.array([values[n] for n in rng.integers(0, len(values), shape).ravel()], kind).reshape(shape)


def check(inputs: dict[Tensor, NDArray[Any]], outputs: list[Tensor], *, lanes: bool) -> None:
    wanted = evaluate(outputs, inputs)
    s = te.create_schedule([t.op for t in outputs])
    if lanes:
        s[outputs[0]].vectorize(outputs[0].op.reduce_axis[0] if outputs[0].op.reduce_axis else outputs[0].op.axis[-1])
    made = [np.full(t.shape, 1, dtypes.numpy_dtype(t.dtype)) for t in outputs]
    pb.build(s, [*inputs, *outputs])(*inputs.values(), *made)
    for tensor, got, want in zip(outputs, made, wanted, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=tensor.name)


@pytest.mark.parametrize("lanes", [False, True])
@pytest.mark.parametrize("other", [*UNSIGNED, "int8", "int32", "int64"])
@pytest.mark.parametrize("dtype", UNSIGNED)
def test_arithmetic_comparisons_and_divisions(dtype: str, other: str, lanes: bool) -> None:
    A, B = te.placeholder((N,), dtype, "A"), te.placeholder((N,), other, "B")

    def body(i: Any) -> tuple[Any, ...]:
        a, b = A[i], B[i]
        return (
            a + b, a - b, a * b, a // b, a % b, te.minimum(a, b), te.maximum(a, b), te.div(a, b), te.ceildiv(a, b),
            a // 3, a // 8 + a % 16, te.popcount(a), te.clz(a), te.abs(a), a < b, a >= b,
            a & b, a | b, a ^ b, ~a, a << b, a >> b,
            te.cast("int32", a == b), a > 1, -a,
        )  # fmt: skip

    made = te.compute((N,), body, "C")
    check({A: edges(dtype), B: edges(other, seed=1)}, list(made), lanes=lanes)


@pytest.mark.parametrize("lanes", [False, True])
@pytest.mark.parametrize("other", dtypes.BITS)
@pytest.mark.parametrize("dtype", UNSIGNED)
def test_conversions_both_ways(dtype: str, other: str, lanes: bool) -> None:
    A, B = te.placeholder((N,), dtype, "A"), te.placeholder((N,), other, "B")
    made = te.compute((N,), lambda i: (te.cast(other, A[i]), te.cast(dtype, B[i])), "C")
    check({A: edges(dtype), B: edges(other, seed=1)}, list(made), lanes=lanes)


@pytest.mark.parametrize("source", ["float32", "float64"])
def test_floats_beyond_the_signed_types_become_unsigned_integers(source: str) -> None:
    A = te.placeholder((4,), source, "A")
    made = te.compute((4,), lambda i: (te.cast("uint64", A[i]), te.cast("uint32", A[i] * 2.0**-32)), "C")
    check({A: np.array([2.0**63, 2.0**64 - 2.0**40, 2.0**62, 3.0], source)}, list(made), lanes=True)


@pytest.mark.parametrize("lanes", [False, True])
@pytest.mark.parametrize("reduce", [te.sum, te.prod, te.max, te.min])
@pytest.mark.parametrize("dtype", UNSIGNED)
def test_reductions(dtype: str, reduce: Any, lanes: bool) -> None:
    A, k = te.placeholder((3, N), dtype, "A"), te.reduce_axis((0, N), "k")
    C = te.compute((3,), lambda i: reduce(A[i, k], axis=k), "C")
    check({A: edges(dtype, (3, N))}, [C], lanes=lanes)


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_scripts_have_them(dtype: str) -> None:
    low, high = dtypes.value_range(dtype)
    func = script.from_source(f"""
@T.prim_func
def f(A: T.Buffer((8,), "{dtype}"), B: T.Buffer((8,), "{dtype}")):
    for i in T.vectorized(8):
        B[i] = T.max(A[i] // T.{dtype}(3), T.{dtype}({high}) - A[i]) + T.Cast("{dtype}", i) + T.{dtype}({low})
""")
    assert script.from_source(func.script()) == func
    a, b = edges(dtype, (8,)), np.zeros(8, dtype)
    pb.build(func)(a, b)
    np.testing.assert_array_equal(b, np.maximum(a // 3, np.array(high, dtype) - a) + np.arange(8, dtype=dtype))


@pytest.mark.parametrize(
    ("a", "b", "met"),
    [
        ("uint16", "uint32", "uint32"), ("uint16", "int16", "int32"), ("uint16", "int32", "int32"),
        ("uint32", "int8", "int64"), ("uint64", "int64", "uint64"), ("uint64", "float16", "float16"),
        ("uint8", "int8", "int16"), ("uint32", "bool", "uint32"),
    ],
)  # fmt: skip
def test_types_meet_in_one_that_holds_both(a: str, b: str, met: str) -> None:
    assert dtypes.promote(a, b) == dtypes.promote(b, a) == met
