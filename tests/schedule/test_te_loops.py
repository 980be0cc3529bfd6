"""TE stages: split, fuse, reorder, tile, and the kinds of loops."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from te_values import check_values, grid, matmul, scheduled

import pegbox as pb
from pegbox import te
from pegbox.codegen import Target, emit
from pegbox.errors import ScheduleError
from pegbox.schedule.te.replay import lower_te, replay


def names(s: Any, tensor: Any) -> list[str]:
    return [iv.name for iv in s[tensor].leaf_iter_vars]


# Split


def test_te_split_by_factor(golden: Any) -> None:
    a, b = grid()
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(s[b].op.axis[1], factor=5)
    assert (outer.name, outer.extent) == ("j.outer", 2)
    assert (inner.name, inner.extent) == ("j.inner", 5)
    assert names(s, b) == ["i", "j.outer", "j.inner"]
    golden(scheduled(s, [a, b]))


def test_te_split_by_nparts(golden: Any) -> None:
    a, b = grid()
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(s[b].op.axis[1], nparts=5)
    assert (outer.extent, inner.extent) == (5, 2)
    golden(scheduled(s, [a, b]))


def test_te_split_that_does_not_divide(golden: Any) -> None:
    a, b = grid()
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(s[b].op.axis[1], 4)
    assert (outer.extent, inner.extent) == (3, 4)
    golden(scheduled(s, [a, b]))


@pytest.mark.parametrize(("option", "number"), [("factor", 100), ("nparts", 100), ("factor", 1), ("nparts", 1)])
def test_te_split_beyond_the_extent_makes_no_empty_iterations(option: str, number: int) -> None:
    a, b = grid()
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(s[b].op.axis[1], **{option: number})
    assert sorted((outer.extent, inner.extent)) == [1, 10]
    check_values(s, [a, b])
    sch = replay(s, [a, b])
    assert [sch.extent(loop) for loop in sch.get_loops("B")] == [6, outer.extent, inner.extent]


def test_te_vectors_of_an_intermediate_are_whole(golden: Any) -> None:
    """A region of 14 is computed as 16, in a buffer of 16; the result is not."""
    a = te.placeholder((3, 14), name="A")
    b = te.compute((3, 14), lambda i, j: a[i, j // 2] + 1, "B")
    c = te.compute((3, 14), lambda i, j: b[i, j] * 2, "C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], s[c].op.axis[0])
    for tensor in (b, c):
        s[tensor].vectorize(s[tensor].split(s[tensor].op.axis[1], factor=16)[1])
    check_values(s, [a, c])
    golden(pb.lower(s, [a, c]))


@pytest.mark.parametrize(("size", "region", "made"), [(5, 5, 8), (8, 8, 8), (9, 9, 16), (1, 1, 1), (20, 5, 5)], ids=str)
def test_te_a_vector_is_whole_where_its_region_is(size: int, region: int, made: int) -> None:
    """Eight of sixteen lanes are a vector of their own. Of a part, the elements beyond belong to the next one."""
    a = te.placeholder((2, size), name="A")
    b = te.compute((2, size), lambda i, j: a[i, j // 2] + 1, "B")
    c = te.compute((2, size), lambda i, j: b[i, j] * 2, "C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], s[c].split(s[c].op.axis[1], factor=region)[0])
    s[b].vectorize(s[b].split(s[b].op.axis[1], factor=16)[1])
    check_values(s, [a, c])
    assert pb.lower(s, [a, c]).allocations["B"][0] == (1, made)


def test_te_serial_loops_over_a_region_are_as_long_as_it() -> None:
    a = te.placeholder((5,), name="A")
    b = te.compute((5,), lambda i: a[i] + 1, "B")
    c = te.compute((3, 5), lambda i, j: b[j] * 2, "C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], s[c].op.axis[0])
    s[b].split(s[b].op.axis[0], factor=16)
    assert pb.lower(s, [a, c]).allocations["B"][0] == (5,)


def test_te_split_takes_numpy_integers() -> None:
    a, b = grid()
    s = te.create_schedule(b.op)
    _, inner = s[b].split(s[b].op.axis[1], factor=np.int64(5))
    assert inner.extent == 5
    check_values(s, [a, b])


def test_te_splits_of_splits_that_do_not_divide() -> None:
    a, b, c = matmul(11, 7, 13)
    s = te.create_schedule(c.op)
    for axis, factor in zip((*s[c].op.axis, *s[c].op.reduce_axis), (5, 6, 3), strict=True):
        outer, inner = s[c].split(axis, factor=factor)
        s[c].split(inner, nparts=2)
        s[c].split(outer, factor=2)
    check_values(s, [a, b, c])


@pytest.mark.parametrize("options", [{}, {"factor": 2, "nparts": 2}, {"factor": 0}, {"nparts": -1}, {"factor": 2.0},
                                     {"factor": True}])  # fmt: skip
def test_te_split_needs_exactly_one_positive_integer(options: Any) -> None:
    _, b = grid()
    s = te.create_schedule(b.op)
    with pytest.raises(ScheduleError, match=r"split\(j.*\) of B: .*give exactly one of them, a positive integer"):
        s[b].split(s[b].op.axis[1], **options)
    assert names(s, b) == ["i", "j"]


def test_te_loops_that_are_gone_are_refused_with_the_loops_that_are_there() -> None:
    _, b = grid()
    s = te.create_schedule(b.op)
    i, j = s[b].op.axis
    s[b].split(j, factor=5)
    with pytest.raises(
        ScheduleError,
        match=r"split\(j, factor=2\) of B: j was split or fused already; the loops of B are i, j\.outer, j",
    ):
        s[b].split(j, factor=2)
    with pytest.raises(ScheduleError, match=r"vectorize\(j\) of B: j was split or fused already"):
        s[b].vectorize(j)
    fused = s[b].fuse(i, s[b].leaf_iter_vars[1])
    with pytest.raises(ScheduleError, match=r"reorder\(i.j.outer.fused, i\) of B: i was split or fused already"):
        s[b].reorder(fused, i)


def test_te_loops_of_another_stage_are_refused() -> None:
    _, b = grid()
    other = te.compute((3,), lambda x: b[x, 0], "other")
    s = te.create_schedule(other.op)
    with pytest.raises(
        ScheduleError, match=r"unroll\(x\) of B: x is not a loop of this stage; the loops of B are i, j"
    ):
        s[b].unroll(s[other].op.axis[0])
    with pytest.raises(ScheduleError, match=r"split\(3, factor=2\) of B: 3 is not a loop of this stage"):
        s[b].split(3, factor=2)


# Fuse


def test_te_fuse(golden: Any) -> None:
    a, b = grid()
    s = te.create_schedule(b.op)
    fused = s[b].fuse(*s[b].op.axis)
    assert (fused.name, fused.extent, fused.kind) == ("i.j.fused", 60, "spatial")
    golden(scheduled(s, [a, b]))


def test_te_fuse_of_three_and_a_split_that_does_not_divide() -> None:
    x = te.placeholder((3, 4, 5), name="X")
    y = te.compute((3, 4, 5), lambda *i: x[i] * 2, "Y")
    s = te.create_schedule(y.op)
    fused = s[y].fuse(*s[y].op.axis)
    assert fused.extent == 60
    s[y].split(fused, factor=7)
    check_values(s, [x, y])


def test_te_fuse_after_a_reorder(golden: Any) -> None:
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    (i, j), (k,) = s[c].op.axis, s[c].op.reduce_axis
    s[c].reorder(j, k, i)
    assert s[c].fuse(j, k).kind == "reduce"
    golden(scheduled(s, [a, b, c]))


def test_te_fuse_of_one_loop_is_that_loop() -> None:
    _, b = grid()
    s = te.create_schedule(b.op)
    assert s[b].fuse(s[b].op.axis[0]) is s[b].op.axis[0]


def test_te_fuse_of_loops_that_are_not_neighbours_is_refused() -> None:
    _, _, c = matmul()
    s = te.create_schedule(c.op)
    i, j = s[c].op.axis
    with pytest.raises(
        ScheduleError, match=r"fuse\(j, i\) of C: i is not directly inside j; loops are i, j, k: reorde"
    ):
        s[c].fuse(j, i)
    with pytest.raises(ScheduleError, match="is not directly inside"):
        s[c].fuse(i, s[c].op.reduce_axis[0])
    with pytest.raises(ScheduleError, match=r"fuse\(\) of C: no loops given"):
        s[c].fuse()


# Reorder and tile


def test_te_reorder(golden: Any) -> None:
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    (i, j), (k,) = s[c].op.axis, s[c].op.reduce_axis
    s[c].reorder(k, i, j)
    golden(scheduled(s, [a, b, c]))


def test_te_reorder_of_some_loops_leaves_the_others_in_their_places() -> None:
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    (i, j), (k,) = s[c].op.axis, s[c].op.reduce_axis
    s[c].reorder(k, i)
    assert s[c].leaf_iter_vars == [k, j, i]
    check_values(s, [a, b, c])


def test_te_reorder_with_a_loop_twice_is_refused() -> None:
    _, _, c = matmul()
    s = te.create_schedule(c.op)
    i, j = s[c].op.axis
    with pytest.raises(ScheduleError, match=r"reorder\(i, j, i\) of C: a loop is given twice in \['i', 'j', 'i'\]"):
        s[c].reorder(i, j, i)


def test_te_tile(golden: Any) -> None:
    a, b = grid()
    s = te.create_schedule(b.op)
    i, j = s[b].op.axis
    tiled = s[b].tile(i, j, 2, 4)
    assert [iv.extent for iv in tiled] == [3, 3, 2, 4]
    assert s[b].leaf_iter_vars == list(tiled)
    golden(scheduled(s, [a, b]))


# Kinds and pragmas


def test_te_vectorize_unroll_parallel(golden: Any) -> None:
    a, b = grid()
    s = te.create_schedule(b.op)
    i, j = s[b].op.axis
    io, ii = s[b].split(i, factor=2)
    _, ji = s[b].split(j, factor=4)
    s[b].parallel(io)
    s[b].unroll(ii)
    s[b].vectorize(ji)
    golden(scheduled(s, [a, b]))


def test_te_vectorized_reduction() -> None:
    a, b, c = matmul(3, 19, 2)
    s = te.create_schedule(c.op)
    _, ki = s[c].split(s[c].op.reduce_axis[0], factor=8)
    s[c].vectorize(ki)
    check_values(s, [a, b, c])


def test_te_kinds_that_are_unsound_are_refused_when_the_program_is_made() -> None:
    a, b, c = matmul()
    (i, j), (k,) = c.op.axis, c.op.reduce_axis

    def lowered(**kinds: Any) -> str:
        s = te.create_schedule(c.op)
        for kind, loop in kinds.items():
            getattr(s[c], kind)(loop)
        return str(lower_te(s, [a, b, c]))

    with pytest.raises(ScheduleError, match="k cannot be parallel: its iterations add up into the same elements"):
        lowered(parallel=k)
    with pytest.raises(ScheduleError, match="i, which is vectorized"):
        lowered(vectorize=i, parallel=j)
    assert "in unrolled range(7)" in lowered(unroll=k)


def test_te_the_last_kind_of_a_loop_counts() -> None:
    a, b = grid()
    s = te.create_schedule(b.op)
    s[b].vectorize(s[b].op.axis[1])
    s[b].unroll(s[b].op.axis[1])
    assert "for j in unrolled range(10)" in scheduled(s, [a, b])


@pytest.mark.parametrize("kind", ["vectorize", "unroll", "parallel"])
def test_te_a_loop_that_has_a_kind_is_not_split_or_fused(kind: str) -> None:
    _, b = grid()
    s = te.create_schedule(b.op)
    i, j = s[b].op.axis
    getattr(s[b], kind)(j)
    with pytest.raises(ScheduleError, match=r"split\(j, factor=2\) of B: j is .* already; do this first, then"):
        s[b].split(j, factor=2)
    with pytest.raises(ScheduleError, match=r"fuse\(i, j\) of B: j is .* already; do this first, then"):
        s[b].fuse(i, j)
    assert names(s, b) == ["i", "j"]


def test_te_pragmas(golden: Any) -> None:
    a, b = grid()
    s = te.create_schedule(b.op)
    i, j = s[b].op.axis
    s[b].pragma(i, "auto_unroll_max_step", 64)
    s[b].pragma(j, "unroll_explicit", True)
    golden(scheduled(s, [a, b]))


def test_te_nontemporal(golden: Any) -> None:
    a = te.placeholder((5, 300), name="A")
    b = te.compute(a.shape, lambda i, j: a[i, j] + 1, name="B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.axis[1], factor=64)
    s[b].vectorize(inner)
    s[b].pragma(outer, "nontemporal")
    golden(scheduled(s, [a, b]))
    assert "!nontemporal" in emit(pb.lower(s, [a, b]), Target("llvm -num-cores 1")).ll
    check_values(s, [a, b])


def test_te_a_pragma_stays_with_the_outer_part_of_a_loop() -> None:
    a, b = grid()
    s = te.create_schedule(b.op)
    i, j = s[b].op.axis
    s[b].pragma(i, "auto_unroll_max_step", 64)
    s[b].split(i, factor=2)
    assert "for i.outer in range(3):  # pragma_auto_unroll_max_step = 64" in scheduled(s, [a, b])
    s = te.create_schedule(b.op)
    s[b].pragma(j, "auto_unroll_max_step", 16)
    s[b].fuse(i, j)
    assert "for i.j.fused in range(60):  # pragma_auto_unroll_max_step = 16" in scheduled(s, [a, b])


@pytest.mark.parametrize("kind", ["unroll", "vectorize", "parallel"])
def test_te_pragmas_that_are_primitives_act_as_these(kind: str) -> None:
    a, b = grid()
    by_pragma, by_primitive = te.create_schedule(b.op), te.create_schedule(b.op)
    by_pragma[b].pragma(b.op.axis[1], kind)
    getattr(by_primitive[b], kind)(b.op.axis[1])
    assert str(lower_te(by_pragma, [a, b])) == str(lower_te(by_primitive, [a, b]))


def test_te_hints_for_other_runtimes_are_accepted_without_effect() -> None:
    a, b = grid()
    s = te.create_schedule(b.op)
    plain = str(lower_te(s, [a, b]))
    for name in ("parallel_launch_point", "parallel_stride_pattern", "parallel_barrier_when_finish"):
        s[b].pragma(b.op.axis[0], name)
    assert str(lower_te(s, [a, b])) == plain


def test_te_fuse_takes_a_list() -> None:
    a, b = grid()
    s = te.create_schedule(b.op)
    assert s[b].fuse(list(b.op.axis)).extent == 60
    check_values(s, [a, b])


def test_te_unknown_pragmas_and_values_are_refused() -> None:
    _, b = grid()
    s = te.create_schedule(b.op)
    i = s[b].op.axis[0]
    with pytest.raises(
        ScheduleError, match=r"pragma\(i, unrol, 1\) of B: unknown pragma 'unrol'; use one of auto_unroll_max_step, u"
    ):
        s[b].pragma(i, "unrol", 1)
    with pytest.raises(
        ScheduleError, match=r"pragma\(i, import_llvm, .*\) of B: 'import_llvm' is not supported; .* pragma import_c"
    ):
        s[b].pragma(i, "import_llvm", "define i32 @f()")
    with pytest.raises(
        ScheduleError, match=r"pragma\(i, debug_skip_region\) of B: 'debug_skip_region' is not supported"
    ):
        s[b].pragma(i, "debug_skip_region")
    with pytest.raises(
        ScheduleError, match=r"pragma\(i, unroll, False\) of B: False is not a value of unroll; leave the pragma out"
    ):
        s[b].pragma(i, "unroll", False)
    with pytest.raises(ScheduleError, match="pragma auto_unroll_max_step: 'many' is not an int"):
        s[b].pragma(i, "auto_unroll_max_step", "many")
    with pytest.raises(ScheduleError, match="pragma auto_unroll_max_step: -1 is not an int; give an int >= 0"):
        s[b].pragma(i, "auto_unroll_max_step", -1)
    with pytest.raises(ScheduleError, match="pragma nontemporal: 'all' is not a bool; give True or False"):
        s[b].pragma(i, "nontemporal", "all")
    with pytest.raises(ScheduleError, match="pragma unroll_explicit: 7 is not a bool; give True or False"):
        s[b].pragma(i, "unroll_explicit", 7)


@pytest.mark.parametrize("name", ["unroll", "vectorize", "parallel", "parallel_barrier_when_finish"])
@pytest.mark.parametrize("value", ["all", 2, 1.0, [1], 0, np.ones(2)])
def test_te_pragmas_that_have_no_values_refuse_them(name: str, value: object) -> None:
    _, b = grid()
    s = te.create_schedule(b.op)
    with pytest.raises(
        ScheduleError,
        match=rf"pragma\(i, {name}, .*\) of B: {re.escape(repr(value))} is not a value of {name}; leave the value out",
    ):
        s[b].pragma(s[b].op.axis[0], name, value)
    assert not s[b].steps
    for accepted in (True, 1, None):
        te.create_schedule(b.op)[b].pragma(b.op.axis[1], name, accepted)


def test_te_pragma_prefetch_refuses_values_also_where_nothing_is_read() -> None:
    ones = te.compute((4,), lambda i: 1.0, name="B")
    stage = te.create_schedule(ones.op)[ones]
    for value in ("far", 0, False, 1.5):
        with pytest.raises(ScheduleError, match=r"pragma\(i, prefetch, .*\) of B: .*; give .* iterations"):
            stage.pragma(ones.op.axis[0], "prefetch", value)


def whole_sum(n: int = 9) -> list[Any]:
    a = te.placeholder((n,), name="A")
    k = te.reduce_axis((0, n), "k")
    return [a, te.compute((), lambda: te.sum(a[k], axis=k), "B")]


def test_te_fuse_of_nothing_gives_a_stage_without_axes_a_loop() -> None:
    a, b = whole_sum()
    s = te.create_schedule(b.op)
    one = s[b].fuse()
    assert s[b].leaf_iter_vars == [one, *b.op.reduce_axis]
    s[b].parallel(one)
    check_values(s, [a, b])
    outer, _ = s[b].split(b.op.reduce_axis[0], factor=4)
    s[b].reorder(outer, one)
    copy = s.cache_read(a, "local", [b])
    s[copy].compute_at(s[b], outer)
    check_values(s, [a, b])
    with pytest.raises(ScheduleError, match="no loops given"):
        s[copy].fuse()


def test_te_a_loop_of_one_iteration_goes_through_cache_write_and_rfactor() -> None:
    a, b = whole_sum()
    s = te.create_schedule(b.op)
    one = s[b].fuse()
    cached = s.cache_write(b, "local")
    assert cached.shape == (1,)
    s[cached].parallel(s[cached].op.axis[0])
    check_values(s, [a, b])
    s = te.create_schedule(b.op)
    one = s[b].fuse()
    s.rfactor(b, s[b].split(b.op.reduce_axis[0], factor=4)[1])
    assert one in s[b].leaf_iter_vars
    check_values(s, [a, b])


def test_te_split_without_a_test_divides() -> None:
    a, b = grid()
    s = te.create_schedule(b.op)
    s[b].split(b.op.axis[1], factor=5, disable_predication=True)
    with pytest.raises(ScheduleError, match="4 does not divide 6"):
        s[b].split(b.op.axis[0], 4, disable_predication=True)
    check_values(s, [a, b])


@pytest.mark.parametrize(
    ("step", "arguments", "way"),
    [
        ("transform_layout", [lambda i, j: [j, i]], r"tir.Schedule\(te.create_prim_func\(...\)\).transform_layout"),
    ],
)
def test_te_what_stages_have_not_is_refused_with_the_way(step: str, arguments: list[Any], way: str) -> None:
    _, b = grid()
    s = te.create_schedule(b.op)
    with pytest.raises(ScheduleError, match=f"{step}.*{way}"):
        getattr(s[b], step)(*arguments)
