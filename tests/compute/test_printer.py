"""Computations as te code, which makes equal ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from fuzz.drawing import Graph
from fuzz.expressions import draw_expression_graph
from fuzz.graphs import draw_graph
from fuzz.kinds import KINDS
from hypothesis import given
from hypothesis import strategies as st

import pegbox as pb
from pegbox import te
from pegbox.compute.graph import post_order
from pegbox.compute.printer import identifier, te_lines, tensor_names
from pegbox.compute.tensor import ComputeOp, Tensor
from pegbox.loops.from_compute import function_from_tensors


def printed(tensors: Sequence[Tensor]) -> tuple[list[str], list[Tensor]]:
    """The code of a graph, and what it makes."""
    ops = post_order([t.op for t in tensors])
    names = tensor_names(ops)
    lines = list(te_lines(ops, names))
    scope: dict[str, object] = {"te": te}
    exec("\n".join(lines), scope)
    made = [scope[names[t.buffer]] for t in tensors]
    assert all(isinstance(t, Tensor) for t in made)
    return lines, made  # type: ignore[return-value]


@given(st.integers(0, 10**9), st.sampled_from([draw_expression_graph, draw_graph, *KINDS.values()]))
def test_the_code_of_any_graph_makes_an_equal_one(seed: int, draw: Callable[[random.Random], Graph]) -> None:
    graph = draw(random.Random(seed))
    _, made = printed(graph.tensors)
    assert function_from_tensors(made) == function_from_tensors(graph.tensors)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (lambda x, i, k: te.const(0.0) < x, 'te.const(0.0, "float32") < X[i, k]'),
        (lambda x, i, k: x >= te.const(-0.0), "X[i, k] >= -0.0"),
        (lambda x, i, k: te.const(16777216.0) + te.const(1.0) - x,
         'te.const(16777216.0, "float32") + te.const(1.0, "float32") - X[i, k]'),
        (lambda x, i, k: 1.0 - x * 2, "1.0 - X[i, k] * 2.0"),
        (lambda x, i, k: 7 - i // 2, "7 - i // 2"),
        (lambda x, i, k: te.max(i, k * 1 + 1), "te.maximum(i, k + 1)"),
        (lambda x, i, k: te.all(i < k, te.all(k < 3, i > 0)), "te.all(i < k, te.all(k < 3, i > 0))"),
        (lambda x, i, k: te.if_then_else(i < 2, 1, 0),
         'te.if_then_else(i < 2, te.const(1, "int32"), te.const(0, "int32"))'),
        (lambda x, i, k: te.if_then_else(i < 2, x, float("inf")),
         'te.if_then_else(i < 2, X[i, k], te.const(float("inf"), "float32"))'),
        (lambda x, i, k: te.call_llvm_pure_intrin("float32", "llvm.canonicalize.f32", x),
         'te.call_llvm_intrin("float32", "llvm.canonicalize.f32", X[i, k])'),
    ],
)  # fmt: skip
def test_python_neither_computes_numbers_nor_turns_comparisons(body: Callable[..., Any], wanted: str) -> None:
    X = te.placeholder((4, 8), name="X")
    Y = te.compute((4, 8), lambda i, k: body(X[i, k], i, k), name="Y")
    lines, made = printed([X, Y])
    assert lines[-1] == f'Y = te.compute((4, 8), lambda i, k: {wanted}, name="Y")'
    assert function_from_tensors(made) == function_from_tensors([X, Y])


def test_a_product_reads_as_one_writes_it() -> None:
    A, B = te.placeholder((4, 8), name="A"), te.placeholder((8, 6), name="B", dtype="float64")
    k = te.reduce_axis((0, 8), name="k")
    C = te.compute((4, 6), lambda i, j: te.sum(te.cast("float64", A[i, k]) * B[k, j], axis=k), name="C")
    lines, _ = printed([A, B, C])
    assert lines == [
        'A = te.placeholder((4, 8), name="A")',
        'B = te.placeholder((8, 6), name="B", dtype="float64")',
        'k = te.reduce_axis((0, 8), name="k")',
        'C = te.compute((4, 6), lambda i, j: te.sum(te.cast("float64", A[i, k]) * B[k, j], axis=k), name="C")',
    ]


def test_a_reducer_of_ones_own_is_written_out() -> None:
    argmax = te.comm_reducer(
        lambda a, b: (te.if_then_else(a[1] >= b[1], a[0], b[0]), te.maximum(a[1], b[1])),
        lambda i, v: (te.const(-1, i), te.min_value(v)),
        name="argmax",
    )
    X, k = te.placeholder((4, 8), name="X"), te.reduce_axis((0, 8), name="k")
    made = te.compute((4,), lambda i: argmax((te.cast("int32", k), X[i, k]), axis=k), name="M")
    lines, again = printed([X, *made])
    assert lines[2].startswith("argmax = te.comm_reducer(lambda a, b: (te.if_then_else(a[1] >= b[1], a[0], b[0]), ")
    assert lines[3].startswith("M_0, M_1 = te.compute((4,), lambda i: argmax((te.cast(")
    assert isinstance(again[1].op, ComputeOp)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("a.b", "a_b"),
        ("2x", "_2x"),
        ("k", "k"),
        ("é-1", "é_1"),
        ("in", "in_"),
        ("²", "_2"),
        ("", "_"),
        ("__debug__", "__debug___"),
    ],
)
def test_names_become_identifiers(name: str, wanted: str) -> None:
    assert identifier(name) == wanted


def test_the_names_of_tensors_are_unique_and_not_those_that_code_uses() -> None:
    tensors = [te.placeholder((4,), name=name) for name in ("a.b", "a_b", "a-b", "te", "float", "x")]
    names = tensor_names([t.op for t in tensors], reserved=["x"])
    assert list(names.values()) == ["a_b", "a_b_1", "a_b_2", "te_1", "float_1", "x_1"]


def test_axes_keep_off_what_code_uses_and_are_written_once() -> None:
    A, k = te.placeholder((4, 8), name="A"), te.reduce_axis((0, 8), name="float")
    B = te.compute((4,), lambda i: te.max(A[i, k], axis=k), name="B")
    C = te.compute((4,), lambda A: te.sum(te.max(B[A], float("-inf")) * k, axis=k), name="C")
    lines, made = printed([A, C])
    assert [line.partition(" ")[0] for line in lines] == ["A", "float_1", "B", "C"]
    assert "lambda A_1: " in lines[-1]
    assert function_from_tensors(made) == function_from_tensors([A, C])


def test_a_tensor_without_dimensions_is_read_by_a_call_whatever_its_name() -> None:
    tensors = [te.placeholder((), name=name) for name in ("a", "b", "x]")]
    tensors.append(te.compute((4,), lambda i: tensors[0]() + tensors[1]() * tensors[2](), name="Y"))
    _, made = printed(tensors)
    assert function_from_tensors(made) == function_from_tensors(tensors)


def test_a_reducer_is_written_for_each_type_under_a_name_of_python() -> None:
    largest = te.comm_reducer(te.maximum, te.min_value, name="lambda")
    made = []
    for dtype in ("float32", "int8", "float32"):
        X, k = te.placeholder((4, 8), name=f"X{len(made)}", dtype=dtype), te.reduce_axis((0, 8), name="k")
        Y = te.compute((4,), lambda i, X=X, k=k: largest(X[i, k], axis=k), name=f"Y{len(made)}")
        made += [X, Y]
    lines, again = printed(made)
    assert sum("te.comm_reducer(" in line for line in lines) == 2
    assert function_from_tensors(again) == function_from_tensors(made)


def test_sizes_that_are_variables_are_declared_first() -> None:
    n, m = te.var("n"), te.var("te")
    A, k = te.placeholder((n, m + 2), name="A"), te.reduce_axis((0, n * 2), name="k")
    B = te.compute((m,), lambda n: te.sum(A[k // 2, n] * te.cast("float32", m), axis=k), name="B")
    lines, made = printed([A, B])
    assert lines[:3] == ['n = te.var("n")', 'te_1 = te.var("te")', 'A = te.placeholder((n, te_1 + 2), name="A")']
    sizes = {"n": 3, "te": 5}
    programs = [pb.lower(te.create_schedule(args[-1].op), args, sizes=sizes) for args in (made, [A, B])]
    assert programs[0] == programs[1]
