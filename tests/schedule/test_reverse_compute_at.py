"""reverse_compute_at: the consumer takes what has just become ready."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreter import interpret

from pegbox.compute.ops import compute, placeholder, reduce_axis
from pegbox.compute.ops import sum as sum_over
from pegbox.errors import ScheduleError
from pegbox.expr import build
from pegbox.schedule import Schedule
from pegbox.tir import script


def test_the_write_back_follows_its_tile(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = Schedule(args)
    i, j, k = sch.get_loops("C")
    i_0, i_1 = sch.split(i, factor=2)
    j_0, j_1 = sch.split(j, factor=4)
    k_0, k_1 = sch.split(k, factor=4)
    sch.reorder(i_0, j_0, k_0, i_1, k_1, j_1)
    back = sch.cache_write("C", 0, "local")
    sch.reverse_compute_at(back, j_0)
    golden(sch)
    check_values(sch, reference)


def test_an_epilogue_runs_over_each_tile(programs: Any, golden: Any, check_values: Any) -> None:
    args, reference = programs.matmul_relu()
    sch = Schedule(args)
    i_0, j_0, _, _ = sch.tile(sch.get_loops("C")[:2], [2, 3])
    sch.reverse_compute_at("D", j_0)
    sch.reverse_compute_at("E", j_0)
    sch.parallel(i_0)
    golden(sch)
    check_values(sch, reference)


def test_a_row_sum_is_used_as_soon_as_it_is_there(programs: Any, check_values: Any) -> None:
    args, reference = programs.rows()
    sch = Schedule(args)
    i = sch.get_loop("total", 0)
    sch.reverse_compute_at("centred", i)
    sch.reverse_compute_at("out", i)
    assert [b.name for b in sch.get_child_blocks(i)] == ["total", "centred", "out"]
    check_values(sch, reference)


def test_offsets_are_undone(check_values: Any) -> None:
    x = placeholder((12,), name="X")
    b = compute((12,), lambda i: x[i] + build.const(1.0, "float32"), name="B")
    c = compute((8,), lambda i: b[i + 3], name="C")
    sch = Schedule([x, c])
    outer, _ = sch.split(sch.get_loop("B", 0), factor=4)
    sch.reverse_compute_at("C", outer)
    assert str(sch.tree.blocks["C"].values[0]) == "i_0 * 4 + i - 3"
    check_values(sch, lambda xs: [(xs + 1)[3:11]])


def test_refuses_partial_results(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    i, j, k = sch.get_loops("C")
    sch.reorder(k, i, j)
    with pytest.raises(ScheduleError, match="the results of C are partial there: its reduce loop") as caught:
        sch.reverse_compute_at("D", j)
    assert "  > for k in range(6):" in str(caught.value)
    assert "remedy: reorder the reduce loops inside" in str(caught.value)


def test_refuses_a_loop_without_producers(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    with pytest.raises(ScheduleError, match="E reads nothing that is made inside i"):
        sch.reverse_compute_at("E", sch.get_loop("C", 0))


def test_refuses_reads_across_iterations(programs: Any) -> None:
    sch = Schedule(programs.chain()[0])
    with pytest.raises(ScheduleError, match="C needs elements of B that other iterations of i make"):
        sch.reverse_compute_at("C", sch.get_loop("B", 0))


def test_refuses_padding_around_what_is_ready(programs: Any) -> None:
    x = placeholder((8,), name="X")
    a = compute((8,), lambda i: x[i] + x[i], name="A")
    b = compute((10,), lambda i: build.select(i < 8, a[i], build.const(0.0, "float32")), name="B")
    sch = Schedule([x, b])
    with pytest.raises(ScheduleError, match="B reads A from 0 to 9 in dimension 0, partly beyond its extent 8"):
        sch.reverse_compute_at("B", sch.get_loop("A", 0))


PARTS_OF_AN_ARGUMENT = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((65,), "float32"), C: T.Buffer((65,), "float32")) -> None:
    for i in range(64):
        with T.block("made"):
            vi = T.axis.spatial(64, i)
            B[vi + 1] = A[vi] * T.float32(2)
    for i in range(65):
        with T.block("reads"):
            vi = T.axis.spatial(65, i)
            C[vi] = B[vi] + T.float32(1)
"""


def test_refuses_iterations_that_read_what_the_loop_does_not_make() -> None:
    sch = Schedule(script.from_source(PARTS_OF_AN_ARGUMENT))
    message = "reads may read elements of B that made never makes: its iterations there belong to no iteration of i"
    with pytest.raises(ScheduleError, match=message):
        sch.reverse_compute_at("reads", sch.get_loops("made")[0])
    assert sch.trace.steps == ()


@settings(max_examples=60, deadline=None)
@given(
    counts=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    steps=st.tuples(st.integers(1, 5), st.integers(1, 3)),
    first=st.integers(0, 3),
    reads=st.integers(1, 24),
    shift=st.integers(0, 3),
    depth=st.integers(0, 1),
)
def test_iterations_that_read_what_no_iteration_makes_are_not_lost(
    counts: tuple[int, int], steps: tuple[int, int], first: int, reads: int, shift: int, depth: int
) -> None:
    (n, m), (outer, inner) = counts, steps
    func = script.from_source(f"""
@T.prim_func
def main(A: T.Buffer(({n}, {m}), "int32"), B: T.Buffer((32,), "int32"), C: T.Buffer((24,), "int32")) -> None:
    for i, j in T.grid({n}, {m}):
        with T.block("made"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi * {outer} + vj * {inner} + {first}] = A[vi, vj]
    for k in range({reads}):
        with T.block("reads"):
            vk = T.axis.spatial({reads}, k)
            C[vk] = B[vk + {shift}] + 1
""")
    sch = Schedule(func)
    with suppress(ScheduleError):
        sch.reverse_compute_at("reads", sch.get_loops("made")[depth])
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-99, 99, b.shape, "int32") for b in func.params]
    for got, want in zip(interpret(sch.func, arrays), interpret(func, arrays), strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_copy_of_what_an_iteration_writes_leaves_out_what_nothing_writes() -> None:
    func = script.from_source("""
@T.prim_func
def main(A: T.Buffer((4, 3), "int32"), C: T.Buffer((4, 3), "int32")) -> None:
    B = T.alloc_buffer((4, 5), "int32")
    for i in range(4):
        for j in range(3):
            with T.block("made"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj + 1] = A[vi, vj]
        for j in range(3):
            with T.block("reads"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj + 1] + 1
""")
    sch = Schedule(func)
    sch.reindex("made", ("write", 0))
    assert len(sch.get_loops("B_reindex")) == 3
    array = np.arange(12, dtype="int32").reshape(4, 3)
    np.testing.assert_array_equal(interpret(sch.func, [array])[0], array + 1)


def test_refuses_a_part_of_a_reduction() -> None:
    x = placeholder((4, 6), name="X")
    a = compute((4, 6), lambda i, j: x[i, j] + x[i, j], name="A")
    k = reduce_axis((0, 6), name="k")
    b = compute((4,), lambda i: sum_over(a[i, k], axis=k), name="B")
    sch = Schedule([x, b])
    with pytest.raises(ScheduleError, match="B reduces over vk, of which only a part is ready there"):
        sch.reverse_compute_at("B", sch.get_loop("A", 1))
    sch.reverse_compute_at("B", sch.get_loop("A", 0))


def _tiles_fused(sch: Schedule) -> Any:
    (i_0, i_1), (j_0, j_1) = (sch.split(x, [None, n]) for x, n in zip(sch.get_loops("B"), (2, 4), strict=True))
    sch.reorder(i_0, j_0, i_1, j_1)
    return sch.fuse(i_0, j_0)


def _tiles_fused_inside(sch: Schedule) -> Any:
    (i_0, i_1), (j_0, j_1) = (sch.split(x, [None, n]) for x, n in zip(sch.get_loops("B"), (2, 4), strict=True))
    sch.reorder(i_0, j_0, i_1, j_1)
    sch.fuse(i_1, j_1)
    return j_0


_FUSED: dict[str, Any] = {
    "all": lambda sch: sch.fuse(*sch.get_loops("B")),
    "tiles": _tiles_fused,
    "in tiles": _tiles_fused_inside,
    "half rows": lambda sch: sch.split(sch.fuse(*sch.get_loops("B")), [None, 4])[0],
    "two rows": lambda sch: sch.split(sch.fuse(*sch.get_loops("B")), [None, 16])[0],
}


@pytest.mark.parametrize("shape", [(6, 8), (7, 9), (1, 8)])
@pytest.mark.parametrize("name", _FUSED)
def test_at_loops_that_were_fused(name: str, shape: tuple[int, int], check_values: Any) -> None:
    a = placeholder(shape, name="A")
    b = compute(shape, lambda i, j: a[i, j] + a[i, j], name="B")
    sch = Schedule([a, compute(shape, lambda i, j: b[i, j] * 3.0, name="C")])
    loop = _FUSED[name](sch)
    if name.endswith("rows") and shape == (7, 9):
        with pytest.raises(ScheduleError, match="is not a box"):
            sch.reverse_compute_at("C", loop)
        return
    sch.reverse_compute_at("C", loop)
    assert loop.var in {x.var for x in sch.tree.ancestors(sch.tree.blocks["C"])}
    check_values(sch, lambda x: [x * 6])


def test_refuses_what_is_not_a_box(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    outer, _ = sch.split(sch.fuse(*sch.get_loops("C")[:2]), factor=4)
    with pytest.raises(ScheduleError, match="is not a box"):
        sch.reverse_compute_at("D", outer)


def test_refuses_when_another_input_comes_later(programs: Any) -> None:
    sch = Schedule(programs.chain()[0])
    i = sch.get_loop("A", 0)
    with pytest.raises(ScheduleError, match="D reads C, but C, which makes it, runs later"):
        sch.reverse_compute_at("D", i)


def test_refuses_to_leave_the_region_that_another_input_was_made_for(programs: Any) -> None:
    """X_local is made for one row of windows at a time; below W_local all rows would run in each of them."""
    sch = Schedule(programs.conv()[0])
    sch.compute_inline("P")
    sch.compute_at(sch.cache_read("O", "X", "local"), sch.get_loop("O", 0))
    sch.compute_at(sch.cache_read("O", "W", "local"), sch.get_loop("O", 1))
    with pytest.raises(ScheduleError, match="X_local, which makes it, may have made only a part of it by then"):
        sch.reverse_compute_at("O", sch.get_loop("W_local", 1))


def test_refuses_pairs_of_what_becomes_ready_one_by_one() -> None:
    """Row i of A is not enough for the products of all pairs of rows: only the diagonal would be computed."""
    x = placeholder((7, 3), name="X")
    a = compute((7, 3), lambda i, j: x[i, j] + x[i, j], name="A")
    k = reduce_axis((0, 3), name="k")
    b = compute((7, 7), lambda i, j: sum_over(a[i, k] * a[j, k], axis=k), name="B")
    sch = Schedule([x, b])
    with pytest.raises(ScheduleError, match="B needs all combinations of vi and vj, but an iteration of i completes"):
        sch.reverse_compute_at("B", sch.get_loop("A", 0))


def _twice(rows: int, columns: int) -> Any:
    x = placeholder((rows, columns), name="X")
    b = compute((rows, columns), lambda i, j: x[i, j] + build.const(1.0, "float32"), name="B")
    c = compute((rows, columns), lambda i, j: b[i, j] * build.const(2.0, "float32"), name="C")
    return [x, c], lambda xs: [(xs + 1) * 2]


def test_sees_through_a_fused_loop_with_tails(golden: Any, check_values: Any) -> None:
    args, reference = _twice(7, 12)
    sch = Schedule(args)
    i, j = sch.get_loops("B")
    j_0, j_1 = sch.split(j, [None, 4])
    j_1, j_2 = sch.split(j_1, [None, 3])
    sch.reorder(i, j_1, j_0, j_2)
    sch.fuse(j_0, j_2)
    sch.reverse_compute_at("C", i)
    golden(sch)
    check_values(sch, reference)


def test_a_fused_loop_gives_what_moving_before_fusing_gives(check_values: Any) -> None:
    args, reference = _twice(8, 10)

    def nest() -> tuple[Schedule, Any]:
        sch = Schedule(args)
        i, j = sch.get_loops("B")
        i_0, i_1 = sch.split(i, [None, 3])
        j_0, j_1 = sch.split(j, [None, 4])
        sch.reorder(i_0, j_0, i_1, j_1)
        return sch, (i_0, j_0, i_1, j_1)

    before, (i_0, j_0, i_1, j_1) = nest()
    before.reverse_compute_at("C", j_0)
    before.fuse(i_0, j_0)
    after, (i_0, j_0, i_1, j_1) = nest()
    fused = after.fuse(i_0, j_0)
    after.fuse(i_1, j_1)
    after.reverse_compute_at("C", fused)
    assert [after.extent(x) for x in after.get_loops("C")] == [before.extent(x) for x in before.get_loops("C")]
    for sch in (before, after):
        check_values(sch, reference)


def _blockized(stored: str) -> Schedule:
    """B in blocks of four elements, of which each stores `stored` ones of its half of them; then C, of all."""
    source = f"""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,), "float32")
    for i in range(2):
        with T.block("tile"):
            vo = T.axis.spatial(2, i)
            T.reads(A[vo * 4:vo * 4 + 4])
            T.writes(B[vo * 4:vo * 4 + 4])
            for j in range({stored}):
                with T.block("B"):
                    vi = T.axis.spatial({stored}, j)
                    B[vo * 4 + vi] = A[vo * 4 + vi] * T.float32(2)
    for i in range(8):
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi] + T.float32(1)
"""
    return Schedule(script.from_source(source))


def test_a_block_of_blocks_makes_the_box_that_it_fills(check_values: Any) -> None:
    sch = _blockized("4")
    sch.reverse_compute_at("C", sch.get_loop("tile", 0))
    assert [sch.extent(x) for x in sch.get_loops("C")] == [2, 4]
    check_values(sch, lambda a: [a * 2 + 1])


def test_refuses_a_box_that_a_block_of_blocks_states_but_does_not_fill() -> None:
    sch = _blockized("3")
    with pytest.raises(ScheduleError, match="what tile makes of B in one iteration of i is not a box"):
        sch.reverse_compute_at("C", sch.get_loop("tile", 0))
