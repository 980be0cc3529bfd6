"""Vectors in scripts, as TVM prints them of lowered programs: read, run, and compared with NumPy."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import pegbox as pb
from pegbox.errors import ScriptError
from pegbox.loops.nodes import Function
from pegbox.tir import script

Array = NDArray[Any]
HEAD = """
@T.prim_func
def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    for i in range(8):
"""

# The body of a loop over i from 0 to 7, and the values of C.
CASES: dict[str, tuple[str, Callable[[Array, Array], Array]]] = {
    "neighbours": (
        "C[T.Ramp(i * 8, 1, 8)] = B[T.Ramp(i * 8, 1, 8)] + T.Broadcast(T.float32(1), 8)",
        lambda a, b: b + 1,
    ),
    "names of older versions": (
        "C[T.ramp(i * 8, 1, 8)] = B[T.ramp(i * 8, 1, 8)] * T.broadcast(A[i], 8)",
        lambda a, b: (b.reshape(8, 8) * a[:8, None]).ravel(),
    ),
    "a column": ("C[T.Ramp(i, 8, 8)] = A[T.Ramp(i * 8, 1, 8)]", lambda a, b: a.reshape(8, 8).T.ravel()),
    "a slice with a step": (
        "C[i * 8:i * 8 + 8] = A[i:i + 64:8] * T.Broadcast(B[i], 8)",
        lambda a, b: (a.reshape(8, 8).T * b[:8, None]).ravel(),
    ),
    "a choice of lanes": (
        "C[i * 8:i * 8 + 8] = T.Select(A[i * 8:i * 8 + 8] > B[i * 8:i * 8 + 8], A[i * 8:i * 8 + 8], "
        "T.Broadcast(T.float32(0), 8))",
        lambda a, b: np.where(a > b, a, 0),
    ),
    "a choice of vectors": (
        "C[i * 8:i * 8 + 8] = T.if_then_else(i < 4, A[i * 8:i * 8 + 8], T.Broadcast(T.float32(0), 8))",
        lambda a, b: np.where(np.arange(64) < 32, a, 0),
    ),
    "a test of places": (
        "C[i * 8:i * 8 + 8] = T.Select(T.Ramp(i * 8, 1, 8) < T.Broadcast(20, 8), A[i * 8:i * 8 + 8], "
        "B[i * 8:i * 8 + 8])",
        lambda a, b: np.where(np.arange(64) < 20, a, b),
    ),
    "places as values": (
        'C[i * 8:i * 8 + 8] = T.Cast("float32x8", T.Ramp(i * 8, 2, 8)) + T.float32x8(T.Ramp(5, T.int32(2), 8))',
        lambda a, b: (np.arange(8)[:, None] * 8 + 4 * np.arange(8) + 5).astype("float32").ravel(),
    ),
    "a function": ("C[i * 8:i * 8 + 8] = T.exp(A[i * 8:i * 8 + 8])", lambda a, b: np.exp(a)),
    "a gather": (
        "C[T.Ramp(i * 8, 1, 8)] = A[(T.Ramp(i * 8, 1, 8) * T.Broadcast(3, 8)) % T.Broadcast(64, 8)]",
        lambda a, b: a[np.arange(64) * 3 % 64],
    ),
    "halves": (
        """
        C[i * 8:i * 8 + 4] = T.vectorlow("float32x4", A[i * 8:i * 8 + 8])
        C[i * 8 + 4:i * 8 + 8] = T.vectorhigh("float32x4", B[T.Ramp(i * 8, 1, 8)])
        """,
        lambda a, b: np.concatenate([a.reshape(8, 8)[:, :4], b.reshape(8, 8)[:, 4:]], 1).ravel(),
    ),
    "two halves": (
        'C[i * 8:i * 8 + 8] = T.vectorcombine("float32x8", A[i * 8:i * 8 + 4], B[T.Ramp(i * 8, 1, 4)])',
        lambda a, b: np.concatenate([a.reshape(8, 8)[:, :4], b.reshape(8, 8)[:, :4]], 1).ravel(),
    ),
    "memory of vectors": (
        """
        A_1 = T.Buffer((8,), "float32x8", data=A.data)
        P = T.allocate([8], "float32x8", "global")
        P_1 = T.Buffer((8,), "float32x8", data=P)
        P_1[i] = A_1[i] * T.Broadcast(T.float32(2), 8)
        P_1[i] = T.max(P_1[i], T.Broadcast(T.float32(0), 8))
        C[i * 8:i * 8 + 8] = P_1[i]
        """,
        lambda a, b: np.maximum(2 * a, 0),
    ),
}  # fmt: skip


def read(body: str) -> Function:
    func = script.from_source(HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8))
    assert isinstance(func, Function)
    return func


@pytest.mark.parametrize("name", CASES)
def test_vectors_have_the_values_of_numpy(name: str) -> None:
    body, wanted = CASES[name]
    func = read(body)
    arrays = {n: np.random.default_rng(ord(n)).standard_normal(64).astype("float32") for n in "ABC"}
    pb.build(func)(*(arrays[buffer.name] for buffer in func.params))
    np.testing.assert_allclose(arrays["C"], wanted(arrays["A"], arrays["B"]), rtol=1e-6)
    assert script.from_source(func.script()) == func


def test_neighbours_that_are_added_stay_vectors() -> None:
    text = read("C[i * 8:i * 8 + 8] = A[i * 8:i * 8 + 8] + T.Broadcast(T.float32(1), 8)").script()
    assert "C[i * 8:i * 8 + 8] = A[i * 8:i * 8 + 8] + T.Broadcast(T.float32(1.0), 8)" in text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("C[T.Ramp(i, 1, 4)] = A[T.Ramp(i, 1, 8)]", "8 lanes meet 4"),
        ("C[i] = A[T.Ramp(i, 1, 8)]", "a vector is stored in one element"),
        ("C[T.Ramp(i * 8, 1, 8)] = T.Cast('float32x4', A[T.Ramp(i * 8, 1, 8)])", "4 lanes meet 8"),
        ("C[T.Ramp(i * 8, 1, 8)] = T.vectorlow('float32', A[T.Ramp(i * 8, 1, 8)])", "float32 is not a vector type"),
        ("if T.Ramp(i, 1, 4) < 3:\n    C[i] = A[i]", "a vector is used where a number is needed"),
        ("C[T.Ramp(i * 8 + 1, 1, 8)] = A[T.Ramp(i * 8, 1, 8)]", "index 0 of C"),
        ("C[T.Ramp(i, 0, 8)] = A[T.Ramp(i * 8, 1, 8)]", "several of its iterations may write the same elements of C"),
    ],
)
def test_vectors_that_do_not_fit_are_refused(body: str, message: str) -> None:
    with pytest.raises(ScriptError, match=message):
        read(body)
