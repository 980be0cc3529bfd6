"""Computations as te code, which makes equal ones."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from fuzz.kinds import KINDS
from hypothesis import given
from hypothesis import strategies as st

from pegbox import te
from pegbox.compute.graph import post_order
from pegbox.compute.printer import identifier, te_lines
from pegbox.compute.tensor import ComputeOp, Tensor
from pegbox.loops.from_compute import function_from_tensors


def printed(tensors: Sequence[Tensor]) -> tuple[list[str], list[Tensor]]:
    """The code of a graph, and what it makes."""
    ops = post_order([t.op for t in tensors])
    names = {t.buffer: identifier(t.name) for op in ops for t in op.outputs}
    lines = list(te_lines(ops, names))
    scope: dict[str, object] = {"te": te}
    exec("\n".join(lines), scope)
    made = [scope[names[t.buffer]] for t in tensors]
    assert all(isinstance(t, Tensor) for t in made)
    return lines, made  # type: ignore[return-value]


@given(st.integers(0, 10**9), st.sampled_from(sorted(KINDS)))
def test_the_code_of_any_graph_makes_an_equal_one(seed: int, kind: str) -> None:
    graph = KINDS[kind](random.Random(seed))
    _, made = printed(graph.tensors)
    assert function_from_tensors(made) == function_from_tensors(graph.tensors)


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


@pytest.mark.parametrize(("name", "wanted"), [("a.b", "a_b"), ("2x", "_2x"), ("k", "k"), ("é-1", "é_1")])
def test_names_become_identifiers(name: str, wanted: str) -> None:
    assert identifier(name) == wanted
