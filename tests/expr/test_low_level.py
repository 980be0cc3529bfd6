"""Expressions close to the machine: they print, compare, move and meet like all others."""

from __future__ import annotations

import pytest

from pegbox.errors import ExprError
from pegbox.expr import dtypes
from pegbox.expr.build import add, cast, compare, maximum
from pegbox.expr.equal import same
from pegbox.expr.low_level import (
    Address,
    Broadcast,
    Reinterpret,
    Stride,
    VectorLoad,
    call_extern,
    call_llvm,
    is_contiguous,
    reinterpret,
    vector_box,
)
from pegbox.expr.nodes import Buffer, Load, Var
from pegbox.expr.visit import free_vars, in_front, loads, redirect_loads, substitute

A, B = Buffer("A", (8, 64)), Buffer("B", (8, 64))
i, j = Var("i"), Var("j")


def test_vector_types_are_taken_apart() -> None:
    assert (dtypes.element("float32x16"), dtypes.lanes("float32x16"), dtypes.lanes("float32")) == ("float32", 16, 0)
    assert dtypes.total_bits("int8x64") == 512
    for wrong in ("float32x", "floot32x4", "float32x4x4"):
        with pytest.raises(ExprError, match="unknown dtype"):
            dtypes.check_value(wrong)


def test_they_print_as_what_they_touch() -> None:
    vector = VectorLoad(A, (i, j * 16), 16)
    assert str(vector) == "A[i, j * 16:j * 16 + 16]"
    assert str(vector * 2.0) == "A[i, j * 16:j * 16 + 16] * broadcast(2.0, 16)"
    call = call_extern("int32", "f", Address(A, (i, j), (1, 4), "rw"), Stride(A, 0))
    assert str(call) == "call_extern('int32', 'f', address(A[i, j:j + 4], 'rw'), stride(A, 0))"


def test_they_move_with_their_buffers_and_variables() -> None:
    expr = call_extern("int32", "f", Address(A, (i, j), (1, 4), "w", (64, 1)), Stride(A, 0), VectorLoad(A, (i, j), 4))
    moved = substitute(redirect_loads(expr, {A: (B, in_front())}), {i: j})
    assert str(moved) == "call_extern('int32', 'f', address(B[j, j:j + 4], 'w'), stride(B, 0), B[j, j:j + 4])"
    assert free_vars(moved) == {j}
    address = next(load for load in loads(moved) if isinstance(load, Address))
    assert (address.box, address.access, address.strides) == ((1, 4), "w", (64, 1))


def test_more_dimensions_in_front_keep_what_is_touched() -> None:
    wide = Buffer("W", (2, 8, 64))
    assert Address(A, (i, j), (1, 4), "r").at(wide, (i, i, j)).box == (1, 1, 4)
    assert VectorLoad(A, (i, j), 4).at(wide, (i, i, j)).box == (1, 1, 4)


def test_equality_looks_at_everything() -> None:
    assert same(VectorLoad(A, (i, j), 4), VectorLoad(A, (i, j), 4))
    assert not same(VectorLoad(A, (i, j), 4), VectorLoad(A, (i, j), 8))
    assert not same(VectorLoad(A, (i, j), 1), Load(A, (i, j)))
    assert not same(Address(A, (i, j), (1, 4), "r"), Address(A, (i, j), (1, 4), "w"))
    assert not same(Stride(A, 0), Stride(A, 1))
    assert not same(Broadcast(Load(A, (i, j)), 4), Broadcast(Load(A, (i, j)), 8))
    assert not same(call_llvm("int32x4", "llvm.x.y"), call_llvm("int32x8", "llvm.x.y"))


def test_scalars_meet_vectors_in_every_lane() -> None:
    vector = VectorLoad(A, (i, j), 16)
    assert add(vector, 1).dtype == add(Load(A, (i, j)), vector).dtype == "float32x16"
    assert cast("int32x16", vector).dtype == "int32x16"
    assert Load(A, (i, j)).astype("float64x8").dtype == "float64x8"
    assert maximum(vector, 0.0).dtype == "float32x16"
    with pytest.raises(ExprError, match="has 16 lanes, not 8"):
        add(VectorLoad(A, (i, j), 8), vector)
    with pytest.raises(ExprError, match="does not become a single float32"):
        cast("float32", vector)
    with pytest.raises(ExprError, match="vectors are not compared"):
        compare("lt", vector, 0.0)


def test_reinterpret_keeps_the_size() -> None:
    bits = reinterpret("int32", VectorLoad(Buffer("U", (4,), "uint8"), (i,), 4))
    assert isinstance(bits, Reinterpret)
    assert bits.dtype == "int32"
    with pytest.raises(ExprError, match="the sizes differ"):
        reinterpret("int64", VectorLoad(Buffer("U", (4,), "uint8"), (i,), 4))


def test_vectors_are_of_rows() -> None:
    assert vector_box(A, 16) == (1, 16)
    assert vector_box(A, 128) == (2, 64)
    assert is_contiguous(A.shape, (2, 64))
    assert is_contiguous(A.shape, (1, 16))
    assert not is_contiguous(A.shape, (2, 16))
    with pytest.raises(ExprError, match="are not whole rows"):
        vector_box(A, 96)


def test_names_of_functions_are_checked() -> None:
    with pytest.raises(ExprError, match="is not a name of a C function"):
        call_extern("int32", "a b")
    with pytest.raises(ExprError, match=r"names start with 'llvm\.'"):
        call_llvm("int32", "fma")
    with pytest.raises(ExprError, match="use one of r, w, rw"):
        Address(A, (i, j), (1, 1), "read")
