"""Threads of a block that use shared memory together below one loop: typed by hand, cut where they wait, run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from interpreter import interpret
from numpy.typing import NDArray

import pegbox as pb
from pegbox.errors import ScriptError
from pegbox.loops.nodes import Function
from pegbox.loops.threads.barrier import thread_conflicts
from pegbox.tir import Schedule, script
from pegbox.tir.script import tir as T


def ints(*shape: int, seed: int = 0) -> NDArray[Any]:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype("float32")


def check(func: Function, inputs: list[NDArray[Any]], wanted: NDArray[Any]) -> None:
    """Run in the interpreter and as machine code; the text reads back."""
    np.testing.assert_array_equal(interpret(func, inputs)[0], wanted)
    out = np.full_like(wanted, 99)
    pb.build(func)(*inputs, out)
    np.testing.assert_array_equal(out, wanted)
    assert "buffers_are_fresh" not in func.script()
    assert script.from_source(func.script()) == func


def refused(source: str, *parts: str) -> None:
    with pytest.raises(ScriptError) as error:
        script.from_source(source)
    for part in parts:
        assert part in str(error.value)


@T.prim_func
def mirror(A: T.Buffer((4, 32)), B: T.Buffer((4, 32))) -> None:
    S = T.alloc_buffer((4, 32), scope="shared")
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("S"):
                vb, vt = T.axis.remap("SS", [bx, tx])
                S[vb, vt] = A[vb, vt] * 2.0
            with T.block("B"):
                vb, vt = T.axis.remap("SS", [bx, tx])
                B[vb, vt] = S[vb, 31 - vt]


def test_threads_wait_before_they_read_what_others_wrote(golden: Any) -> None:
    a = ints(4, 32)
    golden(mirror)
    check(mirror, [a], a[:, ::-1] * 2)


def test_its_steps_are_scheduled_like_any_other_loops() -> None:
    a = ints(4, 32)
    sch = Schedule(mirror)
    sch.compute_inline("S")
    check(sch.func, [a], a[:, ::-1] * 2)
    sch = Schedule(mirror)
    sch.set_scope("S", 0, "global")
    sch.reverse_compute_at(sch.cache_write("B", "B", "shared"), sch.get_loops("B")[0])
    check(sch.func, [a], a[:, ::-1] * 2)


@pytest.mark.parametrize("test", ["t < 0", "t < 1 and t >= 2", "t < 1"])
def test_a_step_that_one_thread_does_or_none_is_cut(test: str) -> None:
    source = f"""
@T.prim_func
def f(A: T.Buffer((8,)), B: T.Buffer((8,))) -> None:
    S = T.alloc_buffer((8,), scope="shared")
    for t in T.thread_binding(8, thread="threadIdx.x"):
        with T.block("S"):
            v = T.axis.S(8, t)
            S[v] = A[v]
        with T.block("one"):
            v = T.axis.S(8, t)
            T.where({test})
            S[0] = 1.0
        with T.block("B"):
            v = T.axis.S(8, t)
            B[v] = S[7 - v]
"""
    a = ints(8)
    wanted = a[::-1].copy()
    wanted[7] = 1 if test == "t < 1" else a[0]
    check(script.from_source(source), [a], wanted)
    refused(source.replace(test, "t < 2"), "several threads of t may write one element of S in block one")


@T.prim_func
def matmul(A: T.Buffer((30, 21)), B: T.Buffer((21, 26)), C: T.Buffer((30, 26))) -> None:
    A_shared = T.alloc_buffer((8, 8), scope="shared")
    B_shared = T.alloc_buffer((8, 8), scope="shared")
    C_local = T.alloc_buffer((1,), scope="local")
    for by in T.thread_binding(4, thread="blockIdx.y"):
        for bx in T.thread_binding(4, thread="blockIdx.x"):
            for ty in T.thread_binding(8, thread="threadIdx.y"):
                for tx in T.thread_binding(8, thread="threadIdx.x"):
                    with T.block("zero"):
                        v = T.axis.spatial(1, 0)
                        C_local[v] = 0.0
                    for k0 in range(3):
                        with T.block("A_shared"):
                            y, x = T.axis.remap("SS", [ty, tx])
                            i = T.axis.spatial(32, by * 8 + ty)
                            k = T.axis.spatial(24, k0 * 8 + tx)
                            A_shared[y, x] = T.if_then_else(i < 30 and k < 21, A[i, k], 0.0)
                        with T.block("B_shared"):
                            y, x = T.axis.remap("SS", [ty, tx])
                            k = T.axis.spatial(24, k0 * 8 + ty)
                            j = T.axis.spatial(32, bx * 8 + tx)
                            B_shared[y, x] = T.if_then_else(k < 21 and j < 26, B[k, j], 0.0)
                        for k1 in range(8):
                            with T.block("C_local"):
                                y, x, k = T.axis.remap("SSR", [ty, tx, k1])
                                C_local[0] = C_local[0] + A_shared[y, k] * B_shared[k, x]
                    with T.block("C"):
                        i = T.axis.spatial(30, by * 8 + ty)
                        j = T.axis.spatial(26, bx * 8 + tx)
                        T.where(by * 8 + ty < 30 and bx * 8 + tx < 26)
                        C[i, j] = C_local[0]


def test_tiles_are_written_anew_after_all_threads_have_read_them(golden: Any) -> None:
    a, b = ints(30, 21), ints(21, 26, seed=1)
    golden(matmul)
    check(matmul, [a, b], a @ b)


@T.prim_func
def stencil(A: T.Buffer((4, 36)), B: T.Buffer((4, 32))) -> None:
    S = T.alloc_buffer((4, 36), scope="shared")
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            with T.block("S"):
                vb, vt = T.axis.remap("SS", [bx, tx])
                S[vb, vt] = A[vb, vt] * 2.0
            with T.block("halo"):
                vb = T.axis.spatial(4, bx)
                vt = T.axis.spatial(4, tx)
                T.where(tx < 4)
                S[vb, vt + 32] = A[vb, vt + 32] * 2.0
            for k in range(5):
                with T.block("B"):
                    vb, vt, vk = T.axis.remap("SSR", [bx, tx, k])
                    with T.init():
                        B[vb, vt] = 0.0
                    B[vb, vt] += S[vb, vt + vk]


def test_what_a_thread_writes_in_two_steps_is_not_taken_for_all_between() -> None:
    """Thread t writes S[t] and S[t + 32], and reads S[t] to S[t + 4]."""
    a = ints(4, 36)
    check(stencil, [a], sum(2 * a[:, k : k + 32] for k in range(5)))


@T.prim_func
def tree(A: T.Buffer((3, 15)), B: T.Buffer((3,))) -> None:
    S = T.alloc_buffer((16,), scope="shared")
    for bx in T.thread_binding(3, thread="blockIdx.x"):
        for tx in T.thread_binding(16, thread="threadIdx.x"):
            with T.block("S"):
                vb, vt = T.axis.remap("SS", [bx, tx])
                S[vt] = T.if_then_else(vt < 15, A[vb, vt], 0.0)
            with T.block("by_8"):
                vt = T.axis.spatial(8, tx)
                T.where(tx < 8)
                S[vt] = S[vt] + S[vt + 8]
            with T.block("by_4"):
                vt = T.axis.spatial(4, tx)
                T.where(tx < 4)
                S[vt] = S[vt] + S[vt + 4]
            with T.block("by_2"):
                vt = T.axis.spatial(2, tx)
                T.where(tx < 2)
                S[vt] = S[vt] + S[vt + 2]
            if tx < 1:
                with T.block("B"):
                    vb = T.axis.spatial(3, bx)
                    B[vb] = S[0] + S[1]


def test_threads_add_up_in_steps_that_read_what_none_of_them_writes_meanwhile() -> None:
    a = ints(3, 15)
    check(tree, [a], a.sum(1))


def nest(*stmts: str, scope: str = "shared", size: int = 32) -> str:
    """Threads of two blocks: the statements are blocks 0, 1, ..., over vb and vt."""
    head = [
        "@T.prim_func",
        "def f(A: T.Buffer((2, 32)), B: T.Buffer((2, 32))):",
        f'    S = T.alloc_buffer((2, {size}), scope="{scope}")',
        '    for bx in T.thread_binding(2, thread="blockIdx.x"):',
        '        for tx in T.thread_binding(32, thread="threadIdx.x"):',
    ]
    for number, stmt in enumerate(stmts):
        used = {"vb": ("bx", 2), "vt": ("tx", 32)}
        head += [f'            with T.block("{number}"):']
        head += [f"                {v} = T.axis.spatial({n}, {x})" for v, (x, n) in used.items() if v in stmt]
        head += [f"                {part}" for part in stmt.split("; ")]
    return "\n".join(head) + "\n"


def test_threads_along_x_share_warp_memory() -> None:
    a = ints(2, 32)
    check(
        script.from_source(nest("S[vb, vt] = A[vb, vt]", "B[vb, vt] = S[vb, 31 - vt]", scope="warp")), [a], a[:, ::-1]
    )


def test_rows_of_threads_have_warp_memory_of_their_own() -> None:
    func = script.from_source(
        """
@T.prim_func
def f(A: T.Buffer((3, 8)), B: T.Buffer((3, 8))):
    S = T.alloc_buffer((8,), scope="warp")
    for ty in T.thread_binding(3, thread="threadIdx.y"):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            with T.block("S"):
                y, x = T.axis.remap("SS", [ty, tx])
                S[x] = A[y, x]
            with T.block("B"):
                y, x = T.axis.remap("SS", [ty, tx])
                B[y, x] = S[7 - x]
"""
    )
    a = ints(3, 8)
    check(func, [a], a[:, ::-1])


def test_one_thread_writes_for_all() -> None:
    a = ints(2, 32)
    source = nest(
        "S[vb, vt] = A[vb, vt]", "T.where(tx == 0); S[vb, 32] = S[vb, 3] + S[vb, 9]", "B[vb, vt] = S[vb, 32]", size=33
    )
    check(script.from_source(source), [a], np.repeat(a[:, 3:4] + a[:, 9:10], 32, 1))


def test_programs_that_are_right_loop_by_loop_stay_whole() -> None:
    """Each thread reads what it wrote, or all of them write the same."""
    own = script.from_source(nest("S[vb, vt] = A[vb, vt]", "B[vb, vt] = S[vb, vt]"))
    assert isinstance(own, Function)
    assert own.script().count("thread_binding") == 2
    same = script.from_source(nest("S[vb, 0] = A[vb, 7]", "B[vb, vt] = S[vb, 0]"))
    assert isinstance(same, Function)
    assert same.script().count("thread_binding") == 2


def test_threads_do_not_see_each_other_s_local_memory() -> None:
    source = nest("S[vb, vt] = A[vb, vt]", "B[vb, vt] = S[vb, 31 - vt]", scope="local")
    refused(source, "an iteration of tx reads what it cannot be shown to have written to S", 'scope="shared"')


def test_threads_do_not_wait_for_global_memory() -> None:
    source = nest("S[vb, vt] = A[vb, vt]", "B[vb, vt] = S[vb, 31 - vt]", scope="global")
    refused(source, "an iteration of tx reads what it cannot be shown to have written to S", 'scope="shared"')


@pytest.mark.parametrize("scope", ["shared", "global"])
def test_blocks_do_not_wait_for_each_other(scope: str) -> None:
    source = nest("S[vb, vt] = A[vb, vt]", "B[vb, vt] = S[1 - vb, vt]", scope=scope)
    refused(
        source, "reads what it cannot be shown to have written to S", "blocks do not", "a second loop over the blocks"
    )
    source = nest("S[vb, vt] = A[vb, vt]", "B[vb, vt] = S[1 - vb, 31 - vt]", scope=scope)
    refused(source, "reads what it cannot be shown to have written to S", "a second loop over the blocks")


def test_a_step_in_place_that_reads_what_other_threads_write_is_refused() -> None:
    source = nest("S[vb, vt] = A[vb, vt]", "S[vb, vt] = S[vb, vt] + S[vb, 31 - vt]", "B[vb, vt] = S[vb, vt]")
    refused(source, "threads of tx touch elements of S that others write", "no barrier", "a buffer of its own")


def test_a_step_in_which_several_threads_write_an_element_is_refused() -> None:
    source = nest("S[vb, 0] = A[vb, vt]", "B[vb, vt] = S[vb, 0]")
    refused(source, "several threads of tx may write one element of S in block 0")


def test_a_step_that_all_threads_would_do_again_is_refused() -> None:
    source = nest("S[vb, vt] = A[vb, vt]", "S[vb, 0] = S[vb, 0] + 1.0", "B[vb, vt] = S[vb, 31 - vt]")
    refused(source, "each of the threads of tx does the same to S in block 1")


def test_no_barrier_stands_in_a_condition() -> None:
    lines = nest("S[vb, vt] = A[vb, vt]", "B[vb, vt] = S[vb, 31 - vt]").splitlines()
    inside = ["            if tx < 20:", *("    " + line for line in lines[5:])]
    refused("\n".join([*lines[:5], *inside]), "no barrier can be put", "outside conditions")


def test_memory_that_is_declared_around_the_threads_is_refused() -> None:
    source = nest("S[vb, vt] = A[vb, vt]", "B[vb, vt] = S[vb, 31 - vt]").replace("alloc_buffer", "decl_buffer")
    refused(source, "no barrier", "T.alloc_buffer")


def test_an_output_that_threads_read_from_each_other_is_refused() -> None:
    source = nest("S[vb, vt] = A[vb, vt]", "B[vb, vt] = S[vb, 31 - vt]", "B[vb, vt] = B[vb, 31 - vt] + S[vb, 0]")
    refused(source, "B is used by others too, and no thread has elements of its own")


def test_steps_cannot_be_cut_apart_outside_of_blocks() -> None:
    source = """
@T.prim_func
def f(A: T.Buffer((32,)), B: T.Buffer((32,))):
    S = T.alloc_buffer((32,), scope="shared")
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        S[tx] = A[tx]
        B[tx] = S[31 - tx]
"""
    refused(source, "the statement S[tx] = A[tx] is outside all blocks", "put it into a block")


def test_what_schedules_make_of_threads_that_share_work_is_right_loop_by_loop() -> None:
    """Its text says so where that is hard to see, and reads back whole."""
    sch = Schedule(mirror)
    sch.compute_at("S", sch.get_loops("B")[0])
    assert not thread_conflicts(sch.func)
    assert script.from_source(sch.func.script()) == sch.func
