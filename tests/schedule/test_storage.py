"""set_scope, storage_align, double buffers: where and how buffers are kept, in both languages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pegbox as pb
from pegbox import te
from pegbox.errors import LoweringError, ScheduleError
from pegbox.loops.passes import lower_function
from pegbox.schedule import Schedule


def chain() -> Any:
    """A stage B between A and C, rows of 12."""
    a = te.placeholder((10, 12), name="A")
    b = te.compute((10, 12), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((10, 12), lambda i, j: b[i, 11 - j] * 2, name="C")
    return a, b, c


def tiled(factor: int = 3) -> Any:
    """(tensors, TE schedule) with B attached to tiles of rows of C."""
    a, b, c = chain()
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(s[c].op.axis[0], factor=factor)
    s[b].compute_at(s[c], outer)
    return (a, b, c), s


def check(program: Any, tensors: Any, want: Any) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-5, 6, t.shape).astype(t.dtype) for t in tensors]
    expected = want(*arrays)
    arrays[-1][...] = np.nan
    pb.build(program)(*arrays)
    np.testing.assert_array_equal(arrays[-1], expected)


def reference(a: Any, c: Any) -> Any:
    return (a[:, ::-1] + 1) * 2


# set_scope


def test_set_scope_keeps_a_buffer_elsewhere(programs: Any, check_values: Any) -> None:
    args, want = programs.matmul_relu()
    sch = Schedule(args)
    sch.set_scope("C", 0, "shared")
    sch.set_scope("D", "D", "shared.dyn")
    assert {b.name: b.scope for b in sch.func.allocs} == {"C": "shared", "D": "shared.dyn"}
    assert "C = alloc(float32[5, 7], shared)" in str(sch)
    assert sch.func.allocations["C"] == ((5, 7), "float32", "shared")
    check_values(sch, want)


def test_set_scope_refusals(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    before = sch.func
    with pytest.raises(
        ScheduleError, match="E is a parameter of the function, which stays where the caller has it"
    ) as e:
        sch.set_scope("E", 0, "shared")
    assert "remedy: cache_write('E', 'E', \"shared\") makes a buffer of its own" in str(e.value)
    with pytest.raises(ScheduleError, match=r"unknown scope 'near'[\s\S]*remedy: use one of global, local"):
        sch.set_scope("C", 0, "near")
    with pytest.raises(ScheduleError, match="block C writes no buffer 1"):
        sch.set_scope("C", 1, "shared")
    assert sch.func is before


def test_te_set_scope() -> None:
    (a, b, c), s = tiled()
    s[b].set_scope("shared")
    assert pb.lower(s, [a, c], simple_mode=True).allocations == {"B": ((3, 12), "float32", "shared")}
    with pytest.raises(ScheduleError, match=r"set_scope\(shared\) of C: C is an output"):
        s[c].set_scope("shared")
    with pytest.raises(ScheduleError, match=r"set_scope\(near\) of B: unknown scope 'near'"):
        s[b].set_scope("near")
    assert b.buffer.scope == "global"  # schedules of the same computation do not see each other


def test_te_set_scope_does_not_hide_a_stage_from_others() -> None:
    (a, b, c), s = tiled()
    s[b].set_scope("shared")
    s[c].prefetch(b, s[c].leaf_iter_vars[1], 1)
    check(pb.lower(s, [a, c]), (a, c), reference)
    assert "prefetch(address(B[" in str(pb.lower(s, [a, c], simple_mode=True))


# storage_align


def test_storage_align_pads_the_allocation(programs: Any, golden: Any, check_values: Any) -> None:
    args, want = programs.matmul_relu()
    sch = Schedule(args)
    sch.storage_align("C", 0, 0, 16, 4)
    sch.storage_align("D", 0, -2, 8, 0)
    golden(f"{sch}\n{lower_function(sch.func)}")
    assert lower_function(sch.func).allocations == {
        "C": ((5, 20), "float32", "global"),
        "D": ((5, 8), "float32", "global"),
    }
    check_values(sch, want)


@pytest.mark.parametrize(("factor", "offset", "row"), [(1, 0, 12), (4, 0, 12), (8, 0, 16), (8, 1, 17), (32, 12, 12)])
def test_rows_get_the_stride_that_is_asked_for(factor: int, offset: int, row: int) -> None:
    (a, b, c), s = tiled()
    s[b].storage_align(s[b].op.axis[0], factor, offset)
    func = pb.lower(s, [a, c])
    assert func.allocations["B"][0] == (3, row)
    check(func, (a, c), reference)


def test_alignments_of_several_dimensions_and_the_last_word_on_each() -> None:
    a = te.placeholder((4, 5, 6), name="A")
    b = te.compute((4, 5, 6), lambda i, j, k: a[i, j, k] + 1, name="B")
    c = te.compute((4, 5, 6), lambda i, j, k: b[3 - i, j, k] * 2, name="C")
    sch = Schedule([a, c])
    sch.storage_align("B", 0, 1, 4, 1)
    sch.storage_align("B", 0, 1, 4, 3)
    sch.storage_align("B", 0, 0, 16, 1)
    assert "annotation buffer_dim_align = ((0, 1, 4, 3), (0, 0, 16, 1))" in str(sch)
    func = lower_function(sch.func)
    assert func.allocations["B"][0] == (4, 7, 7)  # strides of 49 = 1 modulo 16 and of 7 = 3 modulo 4
    check(func, (a, c), lambda x, y: (x[::-1] + 1) * 2)
    sch.storage_align("B", 0, 1, 4, 2)
    with pytest.raises(LoweringError, match="no stride of dimension 0 is 1 modulo 16; align an inner dimension"):
        lower_function(sch.func)


def test_the_simple_program_refuses_no_stride_that_the_built_one_has() -> None:
    a = te.placeholder((2, 3, 2), name="A")
    b = te.compute((2, 3, 2), lambda i, j, k: a[i, j, k] + 1, name="B")
    sch = Schedule([a, te.compute((2, 3, 2), lambda i, j, k: b[i, j, k] * 2, name="C")])
    sch.split(sch.get_loops("B")[2], [None, 3])
    sch.storage_align("B", 0, 0, 32, 13)
    # Whole tiles of three make odd strides possible; the tensor's own rows of two do not.
    (planes, rows, columns), _, _ = pb.lower(sch).allocations["B"]
    assert (planes, rows * columns % 32) == (2, 13)
    simple = pb.lower(sch, simple_mode=True)
    assert simple.allocations["B"][0] == (2, 3, 2)
    check(simple, simple.params, lambda x, y: (x + 1) * 2)


def test_storage_align_refusals(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    before = sch.func

    def refuse(match: str, *arguments: Any) -> None:
        with pytest.raises(ScheduleError, match=match):
            sch.storage_align(*arguments)
        assert sch.func is before

    refuse("E is a parameter of the function, whose layout the caller decides", "E", 0, 0, 8, 4)
    refuse("C has 2 dimensions, so no dimension 2", "C", 0, 2, 8, 4)
    refuse("C has 2 dimensions, so no dimension -3", "C", 0, -3, 8, 4)
    refuse("dimension 1 is the last one, whose elements are neighbours: its stride is 1", "C", 0, 1, 8, 4)
    refuse("dimension -1 is the last one", "C", 0, -1, 8, 4)
    refuse("factor = 0 is not a number of elements", "C", 0, 0, 0, 0)
    refuse(r"offset = 8 is not in range\(8\)", "C", 0, 0, 8, 8)
    refuse(r"offset = -1 is not in range\(8\)", "C", 0, 0, 8, -1)
    refuse("block C writes no buffer 1", "C", 1, 0, 8, 4)


def test_te_storage_align_refusals() -> None:
    (_, b, c), s = tiled()
    i, j = s[b].op.axis
    for match, call in (
        ("C is an output", lambda: s[c].storage_align(s[c].op.axis[0], 8, 4)),
        ("elements along its last axis are neighbours", lambda: s[b].storage_align(j, 8, 4)),
        ("not one of its axes; give one of op.axis: i, j", lambda: s[b].storage_align(s[c].op.axis[0], 8, 4)),
        ("factor = 0; give a number of elements", lambda: s[b].storage_align(i, 0, 0)),
        (r"offset = 9; give one in range\(8\)", lambda: s[b].storage_align(i, 8, 9)),
    ):
        with pytest.raises(ScheduleError, match=match):
            call()
    assert ("storage_align", j) not in s[b].steps
    assert ("storage_align", i) not in s[b].steps


@pytest.mark.parametrize("value", [3, ((0, 0, 8),), ((0, 1, 8, 0),), ((2, 0, 8, 0),), ((0, 0, 0, 0),), "wide"])
def test_a_malformed_alignment_is_an_error_at_lowering(programs: Any, value: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    sch.annotate("C", "buffer_dim_align", value)
    with pytest.raises(LoweringError, match="block C: buffer_dim_align"):
        lower_function(sch.func)


# double buffers


def test_te_double_buffer(golden: Any) -> None:
    (a, b, c), s = tiled()
    s[b].double_buffer()
    golden(pb.lower(s, [a, c], simple_mode=True))
    assert pb.lower(s, [a, c]).allocations["B"][0] == (2, 3, 12)
    check(pb.lower(s, [a, c]), (a, c), reference)


def test_double_buffers_of_a_matmul(golden: Any) -> None:
    a, b = te.placeholder((10, 13), name="A"), te.placeholder((13, 9), name="B")
    k = te.reduce_axis((0, 13), name="k")
    c = te.compute((10, 9), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = Schedule([a, b, c])
    i, j, k_ = sch.get_loops("C")
    k_0, k_1 = sch.split(k_, factor=4)
    sch.reorder(k_0, i, j, k_1)
    for buffer in ("A", "B"):
        copy = sch.cache_read("C", buffer, "shared")
        sch.compute_at(copy, k_0)
        sch.annotate(copy, "double_buffer_scope", 0)
    golden(f"{sch}\n{lower_function(sch.func)}")
    check(lower_function(sch.func), (a, b, c), lambda x, y, z: x @ y)


def test_a_double_buffer_may_accumulate_be_aligned_and_unrolled() -> None:
    a = te.placeholder((8, 6), name="A")
    k = te.reduce_axis((0, 6), name="k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((8, 4), lambda i, j: b[i] + j, name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(s[c].op.axis[0], factor=2)
    s[b].compute_at(s[c], outer)
    s[b].double_buffer()
    s[c].unroll(outer)
    check(pb.lower(s, [a, c]), (a, c), lambda x, y: x.sum(1)[:, None] + np.arange(4))


def test_a_double_buffer_in_a_loop_of_one_iteration_stays_single() -> None:
    (a, b, c), s = tiled(factor=10)
    s[b].double_buffer()
    assert pb.lower(s, [a, c]).allocations["B"][0] == (10, 12)


def test_a_double_buffer_of_threads_is_left_single_in_the_simple_program() -> None:
    """Only where threads are lowered its copy stands in the serial loop around them."""
    a = te.placeholder((3, 4), name="A")
    c = te.compute((3, 4), lambda i, j: a[i, 3 - j] * 2, name="C")
    s = te.create_schedule(c.op)
    copy = s.cache_read(a, "shared", [c])
    _, j = s[c].op.axis
    s[copy].compute_at(s[c], j)
    s[copy].double_buffer()
    s[c].bind(j, te.thread_axis("threadIdx.x"))
    s[copy].bind(s[copy].op.axis[1], te.thread_axis("threadIdx.x"))
    assert pb.lower(s, [a, c]).allocations["A.shared"][0][0] == 2
    simple = pb.lower(s, [a, c], simple_mode=True)
    check(simple, (a, c), lambda x, y: x[:, ::-1] * 2)


def test_te_double_buffer_refusals() -> None:
    a, b, c = chain()
    s = te.create_schedule(c.op)
    with pytest.raises(ScheduleError, match=r"double_buffer\(\) of C: C is an output"):
        s[c].double_buffer()
    s[b].double_buffer()
    with pytest.raises(ScheduleError, match="B is made once, whole; compute_at a loop of its consumer"):
        pb.lower(s, [a, c])


def test_double_buffers_that_cannot_be_made_early_are_refused_at_lowering(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    sch.annotate("D", "double_buffer_scope", 0)
    with pytest.raises(LoweringError, match="no loop makes it again and again; compute_at a loop"):
        lower_function(sch.func)
    row = sch.get_loop("E", 0)
    sch.compute_at("D", row)
    sch.compute_at("C", row)
    with pytest.raises(LoweringError, match="double_buffer of D: it is made from C, which changes inside i: it cannot"):
        lower_function(sch.func)
    sch.unannotate("D", "double_buffer_scope")
    sch.annotate("C", "double_buffer_scope", 0)
    assert lower_function(sch.func).allocations["C"][0] == (2, 1, 7)
    sch.parallel(row)
    with pytest.raises(
        LoweringError, match="it is allocated directly inside a parallel loop; compute_at a serial loop"
    ):
        lower_function(sch.func)


def test_double_buffers_of_parameters_and_of_several_outputs_are_refused(programs: Any) -> None:
    sch = Schedule(programs.matmul_relu()[0])
    sch.annotate("E", "double_buffer_scope", 0)
    with pytest.raises(LoweringError, match="double_buffer_scope"):
        lower_function(sch.func)
    sch = Schedule(programs.argmax()[0])
    sch.annotate("best", "double_buffer_scope", 2)
    with pytest.raises(LoweringError, match="speaks of buffer 2; it writes 2, from 0 on"):
        lower_function(sch.func)
    x = te.placeholder((6, 4), name="X")
    low, high = te.compute((6, 4), lambda i, j: (x[i, j] - 1, x[i, j] + 1), name="B")
    y = te.compute((6, 4), lambda i, j: low[i, j] * high[i, 3 - j], name="Y")
    sch = Schedule([x, y])
    sch.compute_at("B", sch.get_loop("Y", 0))
    sch.annotate("B", "double_buffer_scope", 0)
    with pytest.raises(
        LoweringError, match="writes B_1 as well, and Y reads it after that; double_buffer stages with one output"
    ):
        lower_function(sch.func)


def test_a_note_goes_with_the_buffer_that_it_speaks_of(check_values: Any) -> None:
    """The inside of the block may vanish, and with it a buffer that the block wrote."""
    a = te.placeholder((6, 13), name="A")
    b = te.compute((6, 13), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((6, 13), lambda i, j: b[i, j] * 2.0, name="C")
    sch = Schedule([a, c])
    sch.blockize(sch.get_loops("C")[1])
    sch.cache_read("C", 0, "local")
    sch.storage_align("C_o", 1, 0, 1, 0)
    sch.compute_inline("B_local")
    assert "buffer_dim_align" not in str(sch)
    lower_function(sch.func)
    check_values(sch, lambda x: [(x + 1) * 2])
