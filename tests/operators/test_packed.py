"""Operands that are packed once: by built-in templates, by sketches, by a template of the user's, and by none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.errors import ArgumentError
from pegbox.operators import PackedOperand

TARGET = "llvm -mcpu=x86-64-v3 -num-cores 1"
A = np.arange(12, dtype=np.float32).reshape(3, 4)
B = np.arange(80, dtype=np.float32).reshape(4, 20)
packs: list[pb.Task] = []


@pb.template("packed_test_transposed")
def transposed(cfg: pb.TemplateConfig, n: int, k: int, m: int, layout: str = "KM") -> Any:
    a = te.placeholder((n, k), name="A")
    b = te.placeholder((k, m) if layout == "KM" else (m, k), name="B")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * (b[r, j] if layout == "KM" else b[j, r]), axis=r), name="C")
    s = te.create_schedule(c.op)
    cfg.define_split("tile", s[c].op.axis[1], num_outputs=2)
    return s, [a, b, c]


@transposed.packs("B", layout="MK")
def _transpose(task: pb.Task, array: np.ndarray[Any, Any], replaced: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    packs.append(task)
    assert replaced == {}
    return np.ascontiguousarray(array.T)


@pb.workload("packed_test_dense")
def dense(n: int, k: int, m: int) -> list[te.Tensor]:
    a, b = te.placeholder((n, k), name="A"), te.placeholder((m, k), name="B")
    r = te.reduce_axis((0, k), name="r")
    attrs = {"layout_free_placeholders": [b]}
    return [a, b, te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[j, r], axis=r), name="C", attrs=attrs)]


def test_a_packed_operand_knows_what_it_is_and_is_packed_once_for_a_layout() -> None:
    product = pb.operator("matmul", target=TARGET)
    packed = product.pack(B)
    assert isinstance(packed, PackedOperand)
    assert packed.original is B
    assert repr(packed) == "PackedOperand(float32[4, 20] of operator('matmul'), packed as nothing yet)"
    np.testing.assert_allclose(product(A, packed), A @ B)
    assert repr(packed).endswith("packed as float32[3, 4, 8])")
    (panels,) = packed.layouts
    np.testing.assert_allclose(product(A[:2], packed), A[:2] @ B)
    assert packed.layouts == (panels,), "the layout is the same for fewer rows, and kept once"
    assert str(product).splitlines()[1] == "  float32[3, 4], packed float32[4, 20]  predicted, not tuned"


def test_a_call_with_a_packed_operand_packs_nothing() -> None:
    packs.clear()
    product = pb.operator(transposed, target=TARGET)
    packed = product.pack(B)
    for _ in range(3):
        np.testing.assert_allclose(product(A, packed), A @ B)
    (task,) = packs
    assert task.workload[1]["layout"] == "MK"
    np.testing.assert_array_equal(packed.layouts[0], B.T)


def test_one_without_a_layout_is_given_as_it_is() -> None:
    scaled = pb.operator("matmul_bias_relu", target=TARGET)
    bias = scaled.pack(np.ones(20, np.float32))
    np.testing.assert_allclose(scaled(A, B, bias), A @ B + 1)
    assert bias.layouts == ()


def test_an_array_that_is_not_contiguous_is_packed_from_its_values() -> None:
    product = pb.operator("matmul", target=TARGET, strict=True)
    np.testing.assert_allclose(product(A, product.pack(np.asfortranarray(B))), A @ B)


def test_inputs_that_a_computation_leaves_free_are_taken_plain_and_packed() -> None:
    layer = pb.operator(dense, target=TARGET)
    weights = np.ascontiguousarray(B.T)
    np.testing.assert_allclose(layer(A, weights), A @ B)
    packed = layer.pack(weights)
    np.testing.assert_allclose(layer(A, packed), A @ B)
    (panels,) = packed.layouts
    assert panels.ndim == 3


def test_packed_operands_of_the_wrong_shape_are_refused_as_arrays_are() -> None:
    product = pb.operator("matmul", target=TARGET)
    with pytest.raises(ArgumentError, match=r"gets K = 4 from A, but B has 3 there"):
        product(A, product.pack(B[:3]))
    with pytest.raises(ArgumentError, match=r"pack\(\): the array is \[1\] \(list\)"):
        product.pack([1])


def test_arrays_given_as_they_are_where_packed_ones_are_asked_for_are_refused_with_the_remedy() -> None:
    product = pb.operator("matmul_strassen", target=TARGET, weights="packed")
    expected = r"expected A\[M, K\], B_packed\[7, \?, \?, 8\]"
    remedy = r"with weights='packed', B is given packed: leave that out, and give op.pack\(array\) for B"
    with pytest.raises(ArgumentError, match=f"{expected}; {remedy}$"):
        product(A, B)


def test_records_of_the_packed_form_are_used(tmp_path: Any) -> None:
    from pegbox.measure import Ok
    from pegbox.records import Record

    product = pb.operator("matmul", target=TARGET)
    packed = product.pack(B)
    task = pb.create_task("matmul", args=(3, 4, 20), kwargs={"weights": "packed"}, target=TARGET)
    with pb.apply_history_best([Record.of(task, task.space.get(3), Ok((1e-3,)))]):
        assert product.implementation(A, packed).config == task.space.get(3)
        np.testing.assert_allclose(product(A, packed), A @ B)


@pb.workload("packed_test_shifted")
def shifted(n: int) -> list[te.Tensor]:
    x, by = te.placeholder((n,), name="X"), te.placeholder((), name="BY")
    return [x, by, te.compute((n,), lambda i: x[i] + by[()], name="Y")]


def test_an_array_without_dimensions_stays_one() -> None:
    shift = pb.operator(shifted, target=TARGET, first_use=2)
    by = np.array(3.0, np.float32)
    np.testing.assert_array_equal(shift(A[0], by), A[0] + 3)
    np.testing.assert_array_equal(shift(A[0], shift.pack(by)), A[0] + 3)
