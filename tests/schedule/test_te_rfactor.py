"""rfactor of TE: programs, values as machine code, misuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from te_values import check_values, matmul, stages

import pegbox as pb
from pegbox import te
from pegbox.errors import ScheduleError
from pegbox.schedule.state.step import Step
from pegbox.schedule.te.stage import At


def row_sums(n: int = 6, m: int = 40) -> list[Any]:
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    return [a, te.compute((n,), lambda i: te.sum(a[i, k], axis=k), "B")]


def argmax(n: int = 5, m: int = 11) -> list[Any]:
    x = te.placeholder((n, m), name="X")
    k = te.reduce_axis((0, m), "k")

    def better(a: Any, b: Any) -> Any:
        ahead = te.any(a[1] > b[1], te.all(a[1] >= b[1], a[0] < b[0]))
        return te.select(ahead, a[0], b[0]), te.maximum(a[1], b[1])

    reducer = te.comm_reducer(better, lambda i, v: (te.const(2**30, i), te.min_value(v)), name="argmax")
    where, value = te.compute((n,), lambda i: reducer((te.cast("int32", k), x[i, k]), axis=k), "best")
    return [x, where, value]


# The rfactored sum of the tutorial on reductions


@pytest.mark.parametrize("columns", [32, 40, 5])
@pytest.mark.parametrize("place", [0, 1, -1])
@pytest.mark.parametrize("which", [0, 1])
def test_te_sum_of_rows(columns: int, place: int, which: int) -> None:
    a, b = row_sums(m=columns)
    s = te.create_schedule(b.op)
    loops = s[b].split(b.op.reduce_axis[0], factor=16)
    partial = s.rfactor(b, loops[which], place)
    assert partial.name == "B.rf"
    assert partial.shape[place] == loops[which].extent
    check_values(s, [a, b])


def test_te_rfactor_prints_as_in_the_tutorial(golden: Any) -> None:
    a, b = row_sums()
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.reduce_axis[0], factor=16)
    partial = s.rfactor(b, inner)
    assert [iv.name for iv in s[partial].leaf_iter_vars] == ["k.inner", "i", "k.outer"]
    assert [iv.name for iv in s[b].leaf_iter_vars] == ["i", "k.inner.v"]
    golden(pb.lower(s, [a, b], simple_mode=True))


def test_te_partial_results_on_threads() -> None:
    a, b = row_sums()
    s = te.create_schedule(b.op)
    outer, _ = s[b].split(b.op.reduce_axis[0], nparts=3)
    partial = s.rfactor(b, outer)
    s[partial].parallel(s[partial].op.axis[0])
    lowered = pb.lower(s, [a, b], simple_mode=True)
    assert lowered.loops("B.rf")[0] == ("k.outer", 3, "parallel")
    check_values(s, [a, b])


def test_te_partial_results_as_lanes(golden: Any) -> None:
    a, b = row_sums()
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.reduce_axis[0], factor=16)
    partial = s.rfactor(b, inner, factor_axis=-1)
    row, lanes = s[partial].op.axis
    s[partial].reorder(row, outer, lanes)  # the old handle of a reduce loop is as good as the new one
    s[partial].vectorize(lanes)
    s[partial].compute_at(s[b], s[b].op.axis[0])
    golden(pb.lower(s, [a, b], simple_mode=True))
    check_values(s, [a, b])


def test_te_partial_results_one_at_a_time() -> None:
    a, b = row_sums()
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.reduce_axis[0], factor=16)
    partial = s.rfactor(b, inner)
    s[partial].compute_at(s[b], s[b].op.reduce_axis[0])
    lowered = pb.lower(s, [a, b], simple_mode=True)
    assert lowered.allocations == {"B.rf": ((1, 1), "float32", "global")}
    check_values(s, [a, b])


def test_te_rfactor_of_all_rows_at_once() -> None:
    """A sum of a whole matrix: one reduce axis is factored, or a fused one."""
    a = te.placeholder((9, 7), name="A")
    r, c = te.reduce_axis((0, 9), "r"), te.reduce_axis((0, 7), "c")
    b = te.compute((1,), lambda _: te.sum(a[r, c], axis=[r, c]), "B")
    for how in ("rows", "columns", "fused"):
        s = te.create_schedule(b.op)
        axis = s[b].split(s[b].fuse(r, c), factor=8)[1] if how == "fused" else r if how == "rows" else c
        partial = s.rfactor(b, axis)
        s[partial].parallel(s[partial].op.axis[0])
        check_values(s, [a, b])


def test_te_the_other_reduce_axes_come_first_and_keep_their_loops() -> None:
    """The order is TVM's: axes that have nothing to do with the factored loop, then the rest of its own axis."""
    a = te.placeholder((9, 7), name="A")
    k, q = te.reduce_axis((0, 9), "k"), te.reduce_axis((0, 7), "q")
    b = te.compute((2,), lambda i: te.sum(a[k, q] + i, axis=[k, q]), "B")
    s = te.create_schedule(b.op)
    ko, ki = s[b].split(k, factor=4)
    qo, qi = s[b].split(q, factor=3)
    s[b].reorder(ko, qi, ki, qo)
    s[b].unroll(qi)
    partial = s.rfactor(b, ki)
    assert s[partial].op.reduce_axis == (q, ko)
    assert s[partial].leaf_iter_vars[2:] == [qi, qo, ko]
    check_values(s, [a, b])
    s = te.create_schedule(b.op)
    partial = s.rfactor(b, k)
    assert s[partial].op.reduce_axis == (q,)
    check_values(s, [a, b])


@pytest.mark.parametrize("which", [0, 1])
def test_te_argmax(which: int) -> None:
    x, where, value = argmax()
    s = te.create_schedule([where.op])
    loops = s[where].split(where.op.reduce_axis[0], factor=4)
    partial = s.rfactor(where, loops[which], 1)
    assert isinstance(partial, tuple)
    assert [t.name for t in partial] == ["best.rf_0", "best.rf_1"]
    check_values(s, [x, where, value])


def test_te_argmax_factored_whole(golden: Any) -> None:
    x, where, value = argmax()
    s = te.create_schedule([where.op])
    s.rfactor(value, where.op.reduce_axis[0])
    golden(pb.lower(s, [x, where, value], simple_mode=True))
    check_values(s, [x, where, value])


def test_te_matmul_with_split_k() -> None:
    a, b, c = matmul(7, 33, 9)
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.reduce_axis[0], nparts=4)
    partial = s.rfactor(c, outer)
    part, i, j = s[partial].op.axis
    (inner,) = s[partial].op.reduce_axis
    j_outer, j_inner = s[partial].split(j, factor=8)
    s[partial].reorder(part, i, j_outer, inner, j_inner)
    s[partial].vectorize(j_inner)
    s[partial].parallel(part)
    check_values(s, [a, b, c])


def test_te_rfactor_twice() -> None:
    a, b = row_sums(m=50)
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.reduce_axis[0], factor=16)
    lanes = s.rfactor(b, inner, -1)
    parts = s.rfactor(lanes, outer)
    assert (lanes.shape, parts.shape) == ((6, 16), (4, 6, 16))
    assert [stage.op.name for stage in s.stages] == ["B.rf.rf", "B.rf", "B"]
    s[parts].vectorize(s[parts].op.axis[2])
    s[lanes].compute_at(s[b], s[b].op.axis[0])
    check_values(s, [a, b])


def test_te_softmax_with_partial_sums() -> None:
    x = te.placeholder((4, 37), "float64", "X")
    k, k2 = te.reduce_axis((0, 37), "k"), te.reduce_axis((0, 37), "k2")
    top = te.compute((4,), lambda i: te.max(x[i, k], axis=k), "top")
    e = te.compute((4, 37), lambda i, j: te.exp(x[i, j] - top[i]), "e")
    total = te.compute((4,), lambda i: te.sum(e[i, k2], axis=k2), "total")
    y = te.compute((4, 37), lambda i, j: e[i, j] / total[i], "Y")
    s = te.create_schedule(y.op)
    for stage, axis in ((top, k), (total, k2)):
        _, inner = s[stage].split(axis, factor=8)
        partial = s.rfactor(stage, inner, -1)
        s[partial].compute_at(s[y], s[y].op.axis[0])
        s[stage].compute_at(s[y], s[y].op.axis[0])
    s[e].compute_at(s[y], s[y].op.axis[0])
    data = np.random.default_rng(0).normal(size=(4, 37))
    out = np.zeros_like(data)
    pb.build(s, [x, y], target="llvm -num-cores 2")(data, out)
    exps = np.exp(data - data.max(1, keepdims=True))
    np.testing.assert_allclose(out, exps / exps.sum(1, keepdims=True), rtol=1e-12)


def test_te_rfactor_of_an_axis_that_starts_elsewhere_with_a_condition() -> None:
    x = te.placeholder((3, 20), name="X")
    k = te.reduce_axis((4, 19), "k")
    y = te.compute((3,), lambda i: te.sum(x[i, k], axis=k, where=(i + k) % 3 != 0), "Y")
    for factor, which in ((4, 0), (4, 1), (None, 0)):
        s = te.create_schedule(y.op)
        s.rfactor(y, k if factor is None else s[y].split(k, factor=factor)[which])
        check_values(s, [x, y])


# What was said before moves along


def test_te_what_was_said_of_the_reduce_loops_moves_to_the_partial_results() -> None:
    a, b = row_sums()
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.reduce_axis[0], factor=4)
    i_outer, i_inner = s[b].split(b.op.axis[0], factor=4)
    s[b].unroll(inner)
    s[b].pragma(outer, "auto_unroll_max_step", 4)
    s[b].parallel(i_outer)
    partial = s.rfactor(b, inner)
    assert {iv.name: str(kind) for iv, kind in s[partial].kinds.items()} == {"k.inner": "unrolled"}
    assert s[partial].pragmas[outer] == {"auto_unroll_max_step": 4}
    assert {iv.name: str(kind) for iv, kind in s[b].kinds.items()} == {"i.outer": "parallel"}
    assert [iv.name for iv in s[b].leaf_iter_vars] == ["i.outer", "i.inner", "k.inner.v"]
    assert i_inner in s[b].leaf_iter_vars
    check_values(s, [a, b])


def test_te_a_stage_that_was_attached_at_a_reduce_loop_follows() -> None:
    a = te.placeholder((6, 40), name="A")
    d = te.compute((6, 40), lambda i, j: a[i, j] * 2, "D")
    k = te.reduce_axis((0, 40), "k")
    b = te.compute((6,), lambda i: te.sum(d[i, k], axis=k), "B")
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(k, factor=16)
    s[d].compute_at(s[b], outer)
    partial = s.rfactor(b, inner)
    assert s[d].attach == At(s[partial], outer)
    check_values(s, [a, b])


def test_te_groups_that_are_attached_at_a_reduce_loop_follow() -> None:
    """Groups follow through rfactor as well as through cache_write."""
    a = te.placeholder((6, 40), name="A")
    d = te.compute((6, 40), lambda i, j: a[i, j] * 2, "D")
    e = te.compute((6, 40), lambda i, j: d[i, j] + 1, "E")
    k = te.reduce_axis((0, 40), "k")
    b = te.compute((6,), lambda i: te.sum(e[i, k], axis=k), "B")
    s = te.create_schedule(b.op)
    group = s.create_group(e, a)
    s.create_group(d, a)
    group.compute_at(s[b], k)
    cached = s.cache_write(b, "local")
    assert group.attach == At(s[cached], k)
    check_values(s, [a, b])
    partial = s.rfactor(cached, k)
    assert group.attach == At(s[partial], s[partial].op.axis[0])
    check_values(s, [a, b])


def test_te_cache_write_and_rfactor_together() -> None:
    a, b = row_sums()
    s = te.create_schedule(b.op)
    cached = s.cache_write(b, "local")
    _, inner = s[cached].split(s[cached].op.reduce_axis[0], factor=16)
    partial = s.rfactor(cached, inner)
    assert partial.buffer.scope == "local"
    s[partial].compute_at(s[b], s[b].op.axis[0])
    s[cached].compute_at(s[b], s[b].op.axis[0])
    check_values(s, [a, b])


# Misuses


def refused(call: Any, s: Any, match: str) -> None:
    before = [(stage, list(stage.leaf_iter_vars), stage.op) for stage in s.stages]
    with pytest.raises(ScheduleError, match=match):
        call()
    assert [(stage, list(stage.leaf_iter_vars), stage.op) for stage in s.stages] == before


def test_te_rfactor_refuses_what_is_no_reduction() -> None:
    _, b, c, _ = stages()
    s = te.create_schedule(c.op)
    refused(lambda: s.rfactor(c, s[c].op.axis[0]), s, r"rfactor\(C, i\): C is not a reduction")
    refused(lambda: s.rfactor(matmul()[2], s[b].op.axis[0]), s, "C is not a stage of this schedule")


def test_te_rfactor_refuses_loops_that_do_not_reduce() -> None:
    _, b = row_sums()
    s = te.create_schedule(b.op)
    k = b.op.reduce_axis[0]
    refused(lambda: s.rfactor(b, b.op.axis[0]), s, r"rfactor\(B, i\): i is a spatial loop; give a reduce loop: k")
    s[b].split(k, factor=4)
    refused(lambda: s.rfactor(b, k), s, r"rfactor\(B, k\): k was split or fused already")
    refused(lambda: s.rfactor(b, matmul()[2].op.reduce_axis[0]), s, r"rfactor\(B, k\): k is not a loop of this stage")


def test_te_rfactor_refuses_loops_of_both_kinds() -> None:
    _, b = row_sums()
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.reduce_axis[0], factor=4)
    fused = s[b].fuse(b.op.axis[0], outer)
    for loop in (fused, inner):
        refused(lambda loop=loop: s.rfactor(b, loop), s, "i.k.outer.fused was fused from a spatial and a reduce loop")


def test_te_rfactor_refuses_a_stage_that_is_tensorized() -> None:
    _, b = row_sums()
    s = te.create_schedule(b.op)
    outer, inner = s[b].split(b.op.reduce_axis[0], factor=8)
    s[b].steps["tensorize", inner] = Step("tensorize", (inner, "dot8"))
    refused(lambda: s.rfactor(b, outer), s, "B is tensorized by dot8 already; rfactor first, then tensorize")


@pytest.mark.parametrize("place", [2, -3, 0.5, "first"])
def test_te_rfactor_refuses_places_that_are_none(place: Any) -> None:
    _, b = row_sums()
    s = te.create_schedule(b.op)
    k = b.op.reduce_axis[0]
    refused(
        lambda: s.rfactor(b, k, place),
        s,
        r"rfactor\(B, k, .*\): factor_axis=.* is not a place among 1 axes; give one from -2",
    )
