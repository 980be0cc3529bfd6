"""Annotations of parameters that Python evaluates, as in files without `from __future__ import annotations`."""

import pytest

from pegbox.loops.nodes import Function
from pegbox.tir.script import tir as T

n = 8


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8"])
def test_numbers_may_say_their_type(dtype: str) -> None:
    assert getattr(T, dtype)(8) == 8


def test_shapes_are_written_as_in_tvm() -> None:
    @T.prim_func
    def plain(A: T.Buffer((8, 16), "float32")):
        for i in range(8):
            with T.block("b"):
                vi = T.axis.spatial(8, i)
                A[vi, 3] = T.float32(1)

    @T.prim_func
    def typed(A: T.Buffer((T.int64(8), T.int64(n) * 2), T.float32)):
        for i in range(T.int64(8)):
            with T.block("b"):
                vi = T.axis.spatial(T.int64(8), i)
                A[vi, T.int64(3)] = T.float32(1)

    assert isinstance(plain, Function)
    assert typed.with_attr("global_symbol", "plain").script() == plain.with_attr("global_symbol", "plain").script()
