"""Loops of a script that run at once: refused where their iterations get in each other's way."""

from __future__ import annotations

import random
import re
import textwrap
from dataclasses import replace

import numpy as np
import pytest
from fuzz.checks import interpreted, is_short
from fuzz.graphs import draw_graph
from fuzz.kinds import KINDS
from hypothesis import given, settings
from hypothesis import strategies as st

import pegbox as pb
from pegbox import te, tir
from pegbox.errors import ComputeError, ScriptError
from pegbox.loops.from_compute import function_from_tensors
from pegbox.loops.nodes import For, ForKind, Function, Stmt
from pegbox.loops.passes import lower_function
from pegbox.loops.script.race import race
from pegbox.loops.visit import map_children
from pegbox.tir import script

HEAD = (
    '@T.prim_func\ndef f(A: T.Buffer((8, 16)), X: T.Buffer((8,), "int32"), B: T.Buffer((8, 16)), C: T.Buffer((8,))):\n'
)


def read(body: str) -> Function:
    func = script.from_source(HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), "    "))
    assert isinstance(func, Function)
    return func


SUM = """
for i in range(8):
    for k in {}:
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vi, vk]
"""
RACES = {
    "a sum": (SUM.format("T.parallel(16)"), "k cannot be parallel: its iterations add up into the same elements of C"),
    "a sum of blocks of threads": (
        SUM.format('T.thread_binding(16, thread="blockIdx.x")'),
        r"k cannot be bound to blockIdx.x: its iterations add up",
    ),
    "a sum without a block": (
        "for k in T.parallel(16):\n    C[0] = C[0] + A[0, k]",
        "k cannot be parallel: its iterations add up into the same elements of C",
    ),
    "a sum whose axis is called spatial": (
        """
        for k in T.parallel(16):
            with T.block("C"):
                vk = T.axis.spatial(16, k)
                C[0] = C[0] + A[0, vk]
        """,
        "its iterations add up",
    ),
    "a product of a difference in lanes": (
        "for k in T.vectorized(16):\n    C[0] = A[0, k] - C[0]",
        "k cannot be vectorized: its iterations add up into the same elements of C",
    ),
    "a scan": ("for i in T.parallel(7):\n    C[i + 1] = C[i] * 2.0", "an iteration may touch elements of C"),
    "a scan in lanes": (
        "for i in T.vectorized(7):\n    C[i + 1] = C[i] * 2.0",
        "i cannot be vectorized: an iteration may",
    ),
    "a shift to the left": ("for i in T.vectorized(7):\n    C[i] = C[i + 1]", "an iteration may touch elements of C"),
    "a scan over threads": (
        'for i in T.thread_binding(7, thread="threadIdx.x"):\n    C[i + 1] = C[i] * 2.0',
        "i cannot be bound to threadIdx.x: an iteration may touch elements of C",
    ),
    "a scan in a block": (
        """
        for i in T.parallel(7):
            with T.block("C"):
                vi = T.axis.spatial(7, i)
                T.reads(C[vi])
                T.writes(C[vi + 1])
                C[vi + 1] = C[vi] * 2.0
        """,
        "an iteration may touch elements of C",
    ),
    "two writes of an element": (
        "for i in T.parallel(16):\n    C[i // 2] = A[0, i]",
        "i cannot be parallel: several of its iterations may write the same elements of C",
    ),
    "the last one wins": (
        'for i in T.thread_binding(16, thread="threadIdx.x"):\n    C[0] = A[0, i]',
        "several of its iterations may write the same elements of C",
    ),
    "a scatter": (
        "for i in T.parallel(8):\n    C[T.max(T.min(X[i], 7), 0)] = A[i, 0]",
        "several of its iterations may write the same elements of C",
    ),
    "overlapping tiles": (
        "for i in T.parallel(7):\n    for j in range(2):\n        C[i + j] = A[i, j]",
        "several of its iterations may write the same elements of C",
    ),
    "two statements": (
        "for i in T.parallel(7):\n    C[i] = A[i, 0]\n    B[i, 0] = C[i + 1]",
        "an iteration may touch elements of C",
    ),
    "an intermediate that is read afterwards": (
        """
        T1 = T.alloc_buffer((1,))
        for i in T.parallel(8):
            with T.block("T1"):
                vi = T.axis.spatial(8, i)
                T1[0] = A[vi, 0]
        with T.block("C"):
            C[0] = T1[0]
        """,
        "several of its iterations may write the same elements of T1",
    ),
    "vectors that overlap": (
        "for i in T.parallel(7):\n    C[i:i + 2] = A[i, 0:2]",
        "several of its iterations may write the same elements of C",
    ),
}


@pytest.mark.parametrize("name", RACES)
def test_a_race_is_refused_where_the_loop_stands(name: str) -> None:
    body, message = RACES[name]
    with pytest.raises(ScriptError, match=message) as caught:
        read(body)
    lines = textwrap.dedent(body).strip("\n").split("\n")
    assert caught.value.line == 3 + next(
        n for n, line in enumerate(lines) if re.search(r"parallel|vectorized|thread", line)
    )
    assert "tir.iterations_are_apart" in str(caught.value)


LEGAL = {
    "rows": SUM.replace("range(8)", "T.parallel(8)").format("range(16)"),
    "a sum in lanes": SUM.format("T.vectorized(16)"),
    "a sum of the threads of a block": SUM.format('T.thread_binding(16, thread="threadIdx.x")'),
    "in place": "for i in T.parallel(8):\n    C[i] = C[i] * 2.0",
    "fused loops": "for f in T.parallel(128):\n    B[f // 16, f % 16] = A[f // 16, f % 16] + 1.0",
    "a fused loop and a tile": (
        "for f in T.parallel(32):\n    for j in T.vectorized(4):\n        B[f // 4, f % 4 * 4 + j] = A[f // 4, 3]"
    ),
    "a tail": (
        "for i in T.parallel(3):\n    for j in range(3):\n        if i * 3 + j < 8:\n            C[i * 3 + j] = A[i, j]"
    ),
    "parts as branches": (
        "for i in T.parallel(3):\n    if i < 2:\n        for j in range(3):\n            C[i * 3 + j] = A[0, j]\n"
        "    if i >= 2:\n        for j in range(2):\n            C[6 + j] = A[1, j]"
    ),
    "one iteration only": "for i in T.parallel(8):\n    if i == 3:\n        C[0] = C[0] + A[i, 0]",
    "a buffer of each iteration": (
        "for i in T.parallel(8):\n    T1 = T.decl_buffer((1,))\n    T1[0] = A[i, 0]\n    C[i] = T1[0] + 1.0"
    ),
    "vectors": "for i in T.parallel(4):\n    C[i * 2:i * 2 + 2] = A[0, i * 2:i * 2 + 2]",
    "no iteration": "for i in T.parallel(8):\n    if i < 1 and i >= 2:\n        C[0] = A[i, 0]",
    "one iteration": "for i in T.parallel(1):\n    C[0] = C[0] + A[i, 0]",
}  # fmt: skip


@pytest.mark.parametrize("name", LEGAL)
def test_iterations_apart_are_read_and_printed_as_they_are(name: str) -> None:
    func = read(LEGAL[name])
    for form in (func, lower_function(func)):
        text = form.script()
        assert "tir.iterations_are_apart" not in text
        assert script.from_source(text) == form


TUNED = """
@T.prim_func
def main(A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32"), C: T.Buffer((128, 128), "float32")):
    with T.block("root"):
        T.block_attr({"meta_schedule.unroll_explicit": 16})
        C_global = T.alloc_buffer((128, 128))
        for i_0_j_0_fused in T.parallel(16, annotations={"pragma_auto_unroll_max_step": 16}):
            for i_1, j_1 in T.grid(2, 2):
                for i_2_init, j_2_init in T.grid(8, 4):
                    for j_3_fused_init in T.vectorized(8):
                        with T.block("C_init"):
                            vi = T.axis.spatial(128, i_0_j_0_fused // 2 * 16 + i_1 * 8 + i_2_init)
                            vj = T.axis.spatial(128, i_0_j_0_fused % 2 * 64 + j_1 * 32 + j_2_init * 8 + j_3_fused_init)
                            T.reads()
                            T.writes(C_global[vi, vj])
                            C_global[vi, vj] = T.float32(0)
                for k_0, i_2, j_2, k_1 in T.grid(32, 8, 4, 4):
                    for j_3_fused in T.vectorized(8):
                        with T.block("C_update"):
                            vi = T.axis.spatial(128, i_0_j_0_fused // 2 * 16 + i_1 * 8 + i_2)
                            vj = T.axis.spatial(128, i_0_j_0_fused % 2 * 64 + j_1 * 32 + j_2 * 8 + j_3_fused)
                            vk = T.axis.reduce(128, k_0 * 4 + k_1)
                            T.reads(C_global[vi, vj], A[vi, vk], B[vk, vj])
                            T.writes(C_global[vi, vj])
                            C_global[vi, vj] = C_global[vi, vj] + A[vi, vk] * B[vk, vj]
            for ax0 in range(16):
                for ax1_fused in T.vectorized(64):
                    with T.block("C_global"):
                        v0 = T.axis.spatial(128, i_0_j_0_fused // 2 * 16 + ax0)
                        v1 = T.axis.spatial(128, i_0_j_0_fused % 2 * 64 + ax1_fused)
                        T.reads(C_global[v0, v1])
                        T.writes(C[v0, v1])
                        C[v0, v1] = C_global[v0, v1]
"""


def test_what_tvm_prints_of_a_tuned_product_is_read() -> None:
    func = script.from_source(TUNED)
    assert isinstance(func, Function)
    a, b = (np.random.default_rng(seed).standard_normal((128, 128)).astype("float32") for seed in (0, 1))
    c = np.zeros((128, 128), "float32")
    pb.build(func)(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def test_who_knows_better_may_say_so() -> None:
    body = 'T.func_attr({"tir.iterations_are_apart": True})\nfor i in T.parallel(8):\n    C[X[i]] = A[i, 0]'
    func = read(body)
    assert func.attrs == {}
    assert '"tir.iterations_are_apart": True' in func.script()
    assert script.from_source(func.script()) == func


def test_statements_of_extern_are_asked_too() -> None:
    def total(ins: list[te.Tensor], outs: list[te.Tensor]) -> Stmt:
        ib = tir.ir_builder.create()
        a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 8, kind="parallel") as i:
            b[0] = b[0] + a[i]
        return ib.get()

    A = te.placeholder((8,), name="A")
    with pytest.raises(
        ComputeError, match="i cannot be parallel: its iterations add up into the same elements of total"
    ):
        te.extern((1,), [A], total, name="total")


def _with_kind(func: Function, number: int, kind: ForKind) -> Function:
    """The program with another kind of its loop of that number, if there is one."""
    count = 0

    def go(stmt: Stmt) -> Stmt:
        nonlocal count
        if not isinstance(stmt, For):
            return map_children(stmt, go)
        count += 1
        own = kind if count - 1 == number else stmt.kind
        return replace(stmt, body=go(stmt.body), kind=own)

    return func.with_body(go(func.body))


@given(
    st.integers(0, 10**9),
    st.sampled_from([draw_graph, *KINDS.values()]),
    st.integers(0, 5),
    st.sampled_from([ForKind.PARALLEL, ForKind.VECTORIZED]),
)
@settings(max_examples=60)
def test_loops_that_pass_keep_the_values_when_they_run_at_once(
    seed: int, draw: object, number: int, kind: ForKind
) -> None:
    graph = draw(random.Random(seed))  # type: ignore[operator]
    func = _with_kind(function_from_tensors(graph.tensors), number, kind)
    if race(func) is None and is_short(lowered := lower_function(func)):
        interpreted(lowered, graph, random.Random(seed))  # finds races
