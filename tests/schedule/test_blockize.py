"""blockize: a nest becomes a block of whole tiles, and primitives go on working inside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lowered_interpreter import run_on

import pegbox as pb
from pegbox import te, tir
from pegbox.errors import ScheduleError
from pegbox.loops.passes import lower_function
from pegbox.loops.verify import verify
from pegbox.schedule import BlockRef, Schedule
from pegbox.tir import script
from pegbox.tir.script import tir as T


def product(n: int = 8, m: int = 12, k: int = 6) -> list[te.Tensor]:
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    return [a, b, te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")]


def tiled(args: list[te.Tensor]) -> Any:
    """The schedule, its three outer loops and its three inner ones."""
    sch = Schedule(args)
    i, j, k = sch.get_loops("C")
    (i0, i1), (j0, j1), (k0, k1) = (sch.split(x, factor=f) for x, f in ((i, 4), (j, 4), (k, 3)))
    sch.reorder(i0, j0, k0, i1, j1, k1)
    return sch, (i0, j0, k0), (i1, j1, k1)


def check(sch: Schedule, args: list[te.Tensor]) -> None:
    """Interpreted, lowered and compiled, it is the product."""
    verify(sch.func)
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-5, 6, t.shape).astype("float32") for t in args[:2])
    (got,) = run_on(lower_function(sch.func), args, {args[0]: a, args[1]: b})
    np.testing.assert_array_equal(got, a @ b)
    c = np.full(args[2].shape, np.nan, "float32")
    pb.build(sch)(a, b, c)
    np.testing.assert_array_equal(c, a @ b)


def test_blockize_of_a_reduction(golden: Any) -> None:
    args = product()
    sch, _, (i1, _, _) = tiled(args)
    assert sch.blockize(i1) == BlockRef("C_o")
    golden(sch)
    check(sch, args)


def test_blockize_lowers_to_what_it_was() -> None:
    args = product()
    sch, _, (i1, _, _) = tiled(args)
    before = lower_function(sch.func)
    sch.blockize(i1)
    assert lower_function(sch.func).loops("C") == before.loops("C")


@pytest.mark.parametrize("which", range(6))
def test_blockize_of_any_loop_of_the_nest(which: int) -> None:
    args = product()
    sch, _, _ = tiled(args)
    sch.blockize(sch.get_loops("C")[which])
    check(sch, args)


def test_blockize_twice_makes_blocks_of_blocks_of_blocks(golden: Any) -> None:
    args = product()
    sch, (_, j0, _), (_, _, k1) = tiled(args)
    sch.blockize(k1)
    outer = sch.blockize(j0)
    assert outer == BlockRef("C_o_o")
    assert sch.get_child_blocks(outer) == (BlockRef("C_o"),)
    assert [x.name for x in sch.get_loops("C")] == ["k_1"]
    golden(sch)
    check(sch, args)


def test_the_init_of_a_block_of_tiles_moves_as_a_whole(golden: Any) -> None:
    args = product()
    sch, (_, _, k0), (i1, _, _) = tiled(args)
    sch.blockize(i1)
    assert sch.decompose_reduction("C_o", k0) == BlockRef("C_o_init")
    golden(sch)
    check(sch, args)


def test_primitives_work_inside_of_a_block(golden: Any) -> None:
    args = product()
    sch, _, (i1, _, _) = tiled(args)
    sch.blockize(i1)
    i, j, k = sch.get_loops("C")
    sch.reorder(i, k, j)
    _, lanes = sch.split(j, factor=2)
    sch.vectorize(lanes)
    sch.cache_read("C", 0, "local")
    sch.compute_at("A_local", i)
    golden(sch)
    check(sch, args)


def test_a_trace_of_steps_inside_of_blocks_replays() -> None:
    args = product()
    sch, (i0, _, _), (i1, _, _) = tiled(args)
    sch.blockize(i1)
    sch.parallel(i0)
    sch.unroll(sch.get_loops("C")[2])
    sch.annotate(sch.get_block("C"), "note", 3)
    again = tir.Trace.from_json(sch.trace.to_json()).apply(Schedule(args))
    assert str(again) == str(sch)


def test_producers_go_to_loops_around_a_block_of_tiles(golden: Any) -> None:
    a = te.placeholder((16, 16), name="A")
    b = te.compute((16, 16), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((16, 16), lambda i, j: b[i, j] * 2.0, name="C")
    sch = Schedule([a, c])
    (i0, i1), (j0, j1) = (sch.split(x, factor=4) for x in sch.get_loops("C"))
    sch.reorder(i0, j0, i1, j1)
    sch.blockize(i1)
    sch.compute_at("B", j0)
    golden(sch)
    x = np.random.default_rng(0).integers(-5, 6, (16, 16)).astype("float32")
    y = np.zeros_like(x)
    pb.build(sch)(x, y)
    np.testing.assert_array_equal(y, (x + 1) * 2)


def refused(sch: Schedule, step: Any, *words: str) -> None:
    before = sch.func
    with pytest.raises(ScheduleError) as info:
        step()
    for word in words:
        assert word in str(info.value)
    assert sch.func is before


def test_tiles_that_do_not_divide_are_refused() -> None:
    sch = Schedule(product())
    i, *_ = sch.get_loops("C")
    _, i1 = sch.split(i, factor=3)
    refused(sch, lambda: sch.blockize(i1), "vi = i_0 * 3 + i_1, of 8", "cover 3, which does not divide it", "> ")


def test_tiles_of_which_only_a_part_is_computed_are_refused() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i_0, i_1 in T.grid(2, 4):
        with T.block("B"):
            vi = T.axis.spatial(8, i_0 * 4 + i_1)
            T.where(i_1 < 3)
            B[vi] = A[vi]
"""
    sch = Schedule(script.from_source(text))
    refused(sch, lambda: sch.blockize(sch.get_loops("B")[1]), "where i_1 < 3", "not every tile is whole")


def test_loops_inside_that_count_with_gaps_are_refused() -> None:
    sch, (i0, j0, k0), (i1, j1, k1) = tiled(product())
    sch.reorder(i1, j0, k0, i0, j1, k1)
    refused(sch, lambda: sch.blockize(i0), "blockize(i_0)", "do not count the elements of a tile from 0 on")


def test_a_fused_loop_that_joins_inside_and_outside_is_refused() -> None:
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="B")
    sch = Schedule([a, b])
    _, inner = sch.split(sch.fuse(*sch.get_loops("B")), factor=16)
    sch.blockize(inner)  # two whole rows
    sch = Schedule([a, b])
    _, inner = sch.split(sch.fuse(*sch.get_loops("B")), factor=12)
    refused(sch, lambda: sch.blockize(inner), "blockize(i_j_fused_1)")


def test_a_loop_that_computes_a_sum_again_is_refused() -> None:
    """It stands outside the nest that starts the sum, which would be started once and added to in each iteration."""

    @T.prim_func
    def repeated(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")) -> None:
        for _again, i, k in T.grid(3, 4, 8):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]

    sch = Schedule(repeated)
    again, i, _ = sch.get_loops("B")
    refused(sch, lambda: sch.blockize(again), "blockize(_again): _again binds no variable of B", "sums anew", "> ")
    sch.blockize(i)
    a, b = np.arange(32, dtype="float32").reshape(4, 8), np.empty(4, "float32")
    pb.build(sch)(a, b)
    np.testing.assert_array_equal(b, a.sum(axis=1))


def test_a_loop_around_several_blocks_is_refused() -> None:
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 8), lambda i, j: b[i, j] * 2.0, name="C")
    sch = Schedule([a, c])
    i, _ = sch.get_loops("C")
    sch.compute_at("B", i)
    refused(sch, lambda: sch.blockize(i), "below i the program branches")


def test_a_fused_reduction_is_refused() -> None:
    sch = Schedule(product())
    _, j, k = sch.get_loops("C")
    fused = sch.fuse(j, k)
    refused(sch, lambda: sch.blockize(fused), "j_k_fused")


def test_inside_and_outside_do_not_mix() -> None:
    sch, (i0, _, _), (i1, j1, _) = tiled(product())
    sch.blockize(i1)
    refused(sch, lambda: sch.reorder(i0, j1), "i_0 is at the top of the program, j_1 inside block C_o")
    refused(sch, lambda: sch.compute_at("C", i0), "C is inside block C_o")


def test_a_refusal_of_a_step_inside_a_block_shows_the_inside_and_of_the_whole_the_whole() -> None:
    sch, (i0, _, _), (i1, j1, _) = tiled(product())
    sch.blockize(i1)
    with pytest.raises(ScheduleError) as info:
        sch.split(j1, factors=[1, 2])
    assert ">     for j_1 in" in info.value.program
    assert "C_o" not in info.value.program
    refused(sch, lambda: sch.split(i0, factors=[1, 1]), "> for i_0", "block C_o: ")
    refused(sch, lambda: sch.cache_write("C", 0, "local"), "> ", "block C_o: ")


def test_a_copy_of_what_goes_on_outside_is_refused() -> None:
    sch, _, (i1, _, _) = tiled(product())
    sch.blockize(i1)
    refused(sch, lambda: sch.cache_write("C", 0, "local"), "C is used outside block C_o")


def test_a_refusal_between_two_blocks_shows_the_program_between_them() -> None:
    sch, (_, _, k0), (_, _, k1) = tiled(product())
    sch.blockize(k1)
    sch.blockize(k0)
    with pytest.raises(ScheduleError, match="C is used outside block C_o,") as info:
        sch.cache_write("C", 0, "local")
    assert ">             block C_o: " in info.value.program
    assert "C_o_o" not in info.value.program


def test_a_copy_of_what_a_block_keeps_for_itself_is_refused() -> None:
    sch, _, (i1, _, _) = tiled(product())
    sch.blockize(i1)
    sch.cache_read("C", 0, "local")
    number = [w.buffer.name for w in sch.get(sch.get_block("C_o")).writes].index("A_local")  # type: ignore[union-attr]
    refused(sch, lambda: sch.cache_write("C_o", number, "global"), "A_local is used inside block C_o only")


def test_vectorized_loops_around_blocks_keep_their_values() -> None:
    args = product()
    sch, (_, j0, _), (i1, _, _) = tiled(args)
    sch.blockize(i1)
    sch.vectorize(j0)
    check(sch, args)


def test_reduce_loops_around_blocks_are_not_parallel() -> None:
    sch, (_, _, k0), (i1, _, _) = tiled(product())
    sch.blockize(i1)
    refused(sch, lambda: sch.parallel(k0), "k_0 cannot be parallel")


def test_a_block_of_tiles_is_not_inlined() -> None:
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 8), lambda i, j: b[i, j] * 2.0, name="C")
    sch = Schedule([a, c])
    sch.blockize(sch.get_loops("B")[1])
    refused(sch, lambda: sch.compute_inline("B_o"), "it holds loops or blocks of its own")


def test_threads_stay_outside_of_blocks() -> None:
    sch, _, (i1, j1, _) = tiled(product())
    sch.blockize(i1)
    refused(sch, lambda: sch.bind(j1, "threadIdx.x"), "block C_o is what one thread does")


def test_inner_blocks_start_inside_of_outer_ones() -> None:
    """Blocks of blocks that people write may have inits inside."""
    text = """
@T.prim_func
def main(A: T.Buffer((8, 8), "float32"), B: T.Buffer((8,), "float32")):
    for i_0 in range(4):
        for k_0 in range(2):
            with T.block("B_o"):
                vi_o, vk_o = T.axis.remap("SR", [i_0, k_0])
                T.reads(A[vi_o * 2:vi_o * 2 + 2, vk_o * 4:vk_o * 4 + 4])
                T.writes(B[vi_o * 2:vi_o * 2 + 2])
                for i_1, k_1 in T.grid(2, 4):
                    with T.block("B"):
                        vi = T.axis.spatial(8, vi_o * 2 + i_1)
                        vk = T.axis.reduce(8, vk_o * 4 + k_1)
                        with T.init():
                            B[vi] = T.float32(0)
                        B[vi] = B[vi] + A[vi, vk]
"""
    func = script.from_source(text)
    a = np.random.default_rng(0).integers(-5, 6, (8, 8)).astype("float32")
    b = np.full(8, np.nan, "float32")
    pb.build(Schedule(func))(a, b)
    np.testing.assert_array_equal(b, a.sum(1))


def test_windows_that_overlap_would_add_to_an_element_twice() -> None:
    x = te.placeholder((5, 4), name="X")
    k = te.reduce_axis((0, 4), name="k")
    s = te.compute((5,), lambda i: te.sum(x[i, k], axis=k), name="S")
    t = te.compute((2,), lambda i: s[i * 2] + s[i * 2 + 1] + s[i * 2 + 2], name="T")
    u = te.compute((2,), lambda i: t[i] * 2, name="U")
    sch = Schedule([x, u])
    sch.compute_at("S", sch.get_loop("T", 0))
    sch.compute_at("T", sch.get_loop("U", 0))  # leaves S behind, in the loop over windows
    refused(sch, lambda: sch.blockize(sch.get_loop("S", 0)), "may add to the same element of S", "> ")
