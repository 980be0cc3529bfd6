"""TE schedules of several stages: caches, places, and what is asked of the arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from te_values import check_values, grid, matmul, scheduled, stages

import pegbox as pb
from pegbox import te
from pegbox.compute.tensor import Tensor
from pegbox.errors import ScheduleError
from pegbox.schedule.te.replay import lower_te, replay
from pegbox.schedule.te.stage import At

# create_schedule


def test_te_the_default_schedule_is_one_naive_nest_a_stage(golden: Any) -> None:
    a, b, c, d = stages(2, 3)
    s = te.create_schedule(d.op)
    assert [repr(stage) for stage in s.stages] == ["Stage(B: i, j)", "Stage(C: i, j)", "Stage(D: i, j)"]
    assert s[b] is s[b.op] is s.stages[0]
    assert s.placeholders == [a]
    assert [stage.is_output for stage in s.stages] == [False, False, True]
    golden(scheduled(s, [a, d]))
    del c


@pytest.mark.parametrize("form", ["tensor", "operation", "list of tensors", "list of operations"])
def test_te_schedules_are_made_of_tensors_or_operations(form: str) -> None:
    _, b = grid()
    given = b if "tensor" in form else b.op
    assert te.create_schedule([given] if "list" in form else given)[b].is_output


def test_te_several_outputs_are_computed_together() -> None:
    a, b, c, d = stages()
    s = te.create_schedule([b, d])
    check_values(s, [a, b, d])
    check_values(s, [d, a, b])
    del c


def test_te_an_operation_with_several_outputs_is_one_stage() -> None:
    a = te.placeholder((5, 7), name="A")
    low, high = te.compute((5, 7), lambda i, j: (a[i, j] - 1, a[i, j] + 1), "both")
    s = te.create_schedule(low)
    assert s[low] is s[high]
    s[low].vectorize(s[high].op.axis[1])
    check_values(s, [a, low, high])


def test_te_a_schedule_of_placeholders_is_refused() -> None:
    with pytest.raises(ScheduleError, match=r"create_schedule: nothing to compute in \['A'\]"):
        te.create_schedule(te.placeholder((3,), name="A"))


def test_te_placeholders_and_strangers_are_no_stages() -> None:
    a, b = grid()
    s = te.create_schedule(b)
    with pytest.raises(ScheduleError, match="A is a placeholder: there is nothing to schedule; cache_read makes"):
        s[a]
    with pytest.raises(ScheduleError, match="C is not a stage of this schedule; it has B"):
        s[te.compute((2,), lambda i: b[i, 0], "C")]


# Arguments


def test_te_missing_arguments_are_named() -> None:
    a, b, _, d = stages()
    s = te.create_schedule(d)
    with pytest.raises(ScheduleError, match=r"the input A is missing from the arguments \['D'\]"):
        lower_te(s, [d])
    with pytest.raises(ScheduleError, match=r"the output D is missing from the arguments \['A'\]"):
        lower_te(s, [a])
    with pytest.raises(ScheduleError, match="the output D is missing"):
        lower_te(s, [a, b])


def test_te_arguments_that_stand_twice_are_refused() -> None:
    a, b = grid()
    with pytest.raises(ScheduleError, match=r"an argument is given twice in \['A', 'A', 'B'\]"):
        lower_te(te.create_schedule(b), [a, a, b])


def test_te_arguments_that_the_schedule_does_not_make_are_refused() -> None:
    a, b = grid()
    c = te.compute((6,), lambda i: b[i, 0], "C")
    with pytest.raises(ScheduleError, match="the argument C is computed, but not by this schedule, which makes B"):
        lower_te(te.create_schedule(b), [a, b, c])


def test_te_an_intermediate_among_the_arguments_is_written_whole() -> None:
    a, b, c, d = stages()
    s = te.create_schedule(d)
    check_values(s, [a, b, c, d])
    s[b].compute_at(s[c], s[c].op.axis[0])
    check_values(s, [a, b, c, d])


def test_te_an_intermediate_among_the_arguments_of_which_a_part_is_read_is_refused() -> None:
    a, b = grid()
    c = te.compute((3,), lambda i: b[i, 0], "C")
    s = te.create_schedule(c)
    s[b].compute_at(s[c], s[c].op.axis[0])
    with pytest.raises(
        ScheduleError, match=r"B writes the parameter B, all of which is needed, .*\n.*\n.*\n.*\n.*leave B out"
    ):
        lower_te(s, [a, b, c])


def test_te_an_inlined_argument_is_not_written() -> None:
    """TVM's tutorials pass every tensor."""
    a = te.placeholder((6,), name="A")
    b = te.compute((6,), lambda i: a[i] + 1, "B")
    c = te.compute((6,), lambda i: b[i] * 2, "C")
    s = te.create_schedule(c.op)
    s[b].compute_inline()
    func = pb.lower(s, [a, b, c], simple_mode=True)
    assert [p.name for p in func.params] == ["A", "B", "C"]
    assert func.loops("C") == [("i", 6, "serial")]
    assert "B[" not in str(func).partition("\n")[2]
    x, y, z = np.arange(6, dtype="float32"), np.full(6, 7, "float32"), np.zeros(6, "float32")
    pb.build(s, [a, b, c])(x, y, z)
    np.testing.assert_array_equal(z, (x + 1) * 2)
    assert (y == 7).all()


def test_te_unused_inputs_may_be_arguments() -> None:
    a, b = grid()
    unused = te.placeholder((3,), name="unused")
    check_values(te.create_schedule(b), [unused, a, b])


def test_te_a_schedule_can_be_lowered_again_and_continued() -> None:
    a, b = grid()
    s = te.create_schedule(b)
    before = str(lower_te(s, [a, b]))
    assert str(lower_te(s, [a, b])) == before
    s[b].vectorize(s[b].op.axis[1])
    assert str(lower_te(s, [a, b])) != before


def test_te_the_replay_is_a_trace_of_primitives() -> None:
    a, b, c = matmul()
    s = te.create_schedule(c)
    tile = s.cache_write(c, "local")
    yo, _ = s[c].split(s[c].op.axis[0], factor=2)
    s[tile].compute_at(s[c], yo)
    assert str(replay(s, [a, b, c]).trace) == (
        "sch.split(sch.get_loop('C', 0), factors=[None, 2], names=['i.outer', 'i.inner'])\n"
        "sch.compute_at('C.local', sch.get_loop('C', 0))\n"
    )  # fmt: skip


# cache_write


def test_te_cache_write(golden: Any) -> None:
    a, b, c = matmul()
    s = te.create_schedule(c)
    tile = s.cache_write(c, "local")
    assert (tile.name, tile.shape, tile.buffer.scope) == ("C.local", c.shape, "local")
    assert [iv.name for iv in s[tile].op.axis] == ["i.c", "j.c"]
    assert s[tile].op.reduce_axis == c.op.reduce_axis
    assert s[c].op.reduce_axis == ()
    assert [stage.op.name for stage in s.stages] == ["C.local", "C"]
    golden(scheduled(s, [a, b, c]))


def test_te_cache_write_into_a_tile(golden: Any) -> None:
    a, b, c = matmul()
    s = te.create_schedule(c)
    tile = s.cache_write(c, "local")
    yo, xo, _, xi = s[c].tile(*s[c].op.axis, 2, 4)
    s[c].vectorize(xi)
    s[tile].compute_at(s[c], xo)
    y, x = s[tile].op.axis
    s[tile].reorder(s[tile].op.reduce_axis[0], y, x)
    s[tile].vectorize(x)
    golden(scheduled(s, [a, b, c]))
    del yo


def test_te_cache_write_with_its_axes_in_another_order(golden: Any) -> None:
    a, b, c = matmul()
    s = te.create_schedule(c)
    tile = s.cache_write(c, "local", order=[1, 0])
    assert tile.shape == c.shape[::-1]
    assert [iv.name for iv in s[tile].op.axis] == ["j.c", "i.c"]
    s[tile].compute_at(s[c], s[c].op.axis[0])
    golden(scheduled(s, [a, b, c]))
    check_values(s, [a, b, c])


def test_te_cache_read_with_its_axes_in_another_order(golden: Any) -> None:
    a, b, c = matmul()
    s = te.create_schedule(c)
    copy = s.cache_read(b, "global", [c], order=[1, 0])
    assert copy.shape == b.shape[::-1]
    golden(scheduled(s, [a, b, c]))
    check_values(s, [a, b, c])


@pytest.mark.parametrize("order", [[0], [0, 0], [0, 2], [1, 0, 2], ["x", 0], 3])
def test_te_caches_refuse_what_is_no_order(order: Any) -> None:
    _, b, c = matmul()
    s = te.create_schedule(c)
    with pytest.raises(ScheduleError, match="order"):
        s.cache_write(c, "local", order=order)
    with pytest.raises(ScheduleError, match="order"):
        s.cache_read(b, "global", [c], order=order)
    assert len(s.stages) == 1


@pytest.mark.parametrize("factor", [2, 3, 4])
def test_te_cache_write_stores_in_the_order_of_the_loops(factor: int) -> None:
    a, b, c = matmul()
    s = te.create_schedule(c)
    i, j = s[c].op.axis
    outer, inner = s[c].split(i, factor=factor)
    s[c].reorder(outer, j, inner)
    s[c].parallel(outer)
    cached = s.cache_write(c, "global")
    assert cached.shape == (-(-c.shape[0] // factor), c.shape[1], factor)
    assert [iv.name for iv in s[cached].op.axis] == ["i.outer.c", "j.c", "i.inner.c"]
    assert s[c].leaf_iter_vars == [i, j]
    check_values(s, [a, b, c])
    s[cached].compute_at(s[c], s[c].split(i, factor=factor)[0])
    check_values(s, [a, b, c])


def test_te_cache_write_of_fused_and_of_ordered_loops() -> None:
    a, d = grid()
    s = te.create_schedule(d)
    i, j = s[d].op.axis
    s[d].split(s[d].fuse(i, j), factor=7)
    cached = s.cache_write(d, "local")
    assert cached.shape == (9, 7)
    check_values(s, [a, d])
    s = te.create_schedule(d)
    s[d].reorder(j, i)
    cached = s.cache_write(d, "local")
    assert cached.shape == d.shape[::-1]
    check_values(s, [a, d])


def test_te_what_is_computed_in_the_loops_goes_along_with_them() -> None:
    a, b, c, d = stages()
    s = te.create_schedule(d)
    outer, _ = s[d].split(s[d].op.axis[0], factor=4)
    s[c].compute_at(s[d], outer)
    cached = s.cache_write(d, "global")
    assert s[c].attach == At(s[cached], s[cached].op.axis[0])
    s[b].compute_inline()
    check_values(s, [a, d])


def test_te_cache_write_of_plain_loops_keeps_what_was_said_of_them() -> None:
    a, b, c = matmul()
    s = te.create_schedule(c)
    i, j = s[c].op.axis
    s[c].vectorize(j)
    s[s.cache_write(c, "local")].compute_at(s[c], i)
    check_values(s, [a, b, c])


def test_te_cache_write_twice() -> None:
    a, b, c = matmul()
    s = te.create_schedule(c)
    inner = s.cache_write(c, "global")
    innermost = s.cache_write(inner, "local")
    assert [stage.op.name for stage in s.stages] == ["C.global.local", "C.global", "C"]
    s[innermost].compute_at(s[inner], s[inner].op.axis[0])
    check_values(s, [a, b, c])


def test_te_cache_write_of_an_intermediate() -> None:
    a, b, c, d = stages()
    s = te.create_schedule(d)
    cached = s.cache_write(c, "local")
    s[c].compute_at(s[d], s[d].op.axis[0])
    s[cached].compute_at(s[c], s[c].op.axis[0])
    s[b].compute_at(s[cached], s[cached].op.axis[1])
    check_values(s, [a, d])


def two_outputs() -> list[Tensor]:
    a = te.placeholder((5,), name="A")
    low, high = te.compute((5,), lambda i: (a[i] - 1, a[i] + 1), "both")
    return [a, low, high]


def test_te_cache_write_of_several_outputs_at_once() -> None:
    a, low, high = two_outputs()
    s = te.create_schedule(low)
    cached_high, cached_low = s.cache_write([high, low], "local")
    assert (cached_low.name, cached_high.name) == ("both.local_0", "both.local_1")
    s[cached_low].compute_at(s[low], s[low].split(s[low].op.axis[0], factor=2)[0])
    check_values(s, [a, low, high])


def test_te_cache_write_of_an_argmax() -> None:
    x = te.placeholder((5, 7), name="X")
    k = te.reduce_axis((0, 7), "k")
    argmax = te.comm_reducer(
        lambda p, q: (te.select(p[1] >= q[1], p[0], q[0]), te.select(p[1] >= q[1], p[1], q[1])),
        lambda i, v: (te.const(-1, i), te.min_value(v)),
        name="argmax",
    )
    where, value = te.compute((5,), lambda i: argmax((k, x[i, k]), axis=k), "best")
    s = te.create_schedule(where)
    cached = s.cache_write([where, value], "local")
    assert s[cached[0]] is s[cached[1]]
    s[cached[0]].compute_at(s[where], s[where].op.axis[0])
    check_values(s, [x, where, value])


def test_te_cache_write_refuses_what_are_not_the_outputs_of_one_operation() -> None:
    _, low, high = two_outputs()
    other = te.compute((5,), lambda i: low[i] + high[i], "other")
    s = te.create_schedule(other)
    with pytest.raises(ScheduleError, match=r"both makes both_0, both_1 at once, of which 1 is given; give all"):
        s.cache_write(low)
    with pytest.raises(
        ScheduleError,
        match=r"cache_write\(\[both_0, other\]\): other is not an output of both, whose outputs are both_0, both_1",
    ):
        s.cache_write([low, other])
    with pytest.raises(ScheduleError, match=r"a tensor is given twice in \['both_0', 'both_0'\]"):
        s.cache_write([low, low])
    with pytest.raises(ScheduleError, match=r"cache_write\(\[\]\): no tensor given"):
        s.cache_write([])
    assert [stage.op.name for stage in s.stages] == ["both", "other"]


@pytest.mark.parametrize("how", ["split", "fuse", "unroll", "pragma"])
def test_te_cache_write_after_the_reduce_axes_were_scheduled_is_refused(how: str) -> None:
    _, _, c = matmul()
    s = te.create_schedule(c)
    (k,) = s[c].op.reduce_axis
    {
        "split": lambda: s[c].split(k, factor=2),
        "fuse": lambda: s[c].fuse(s[c].op.axis[1], k),
        "unroll": lambda: s[c].unroll(k),
        "pragma": lambda: s[c].pragma(k, "unroll_explicit", True),
    }[how]()
    with pytest.raises(ScheduleError, match=r"cache_write\(C\): the reduce axes of C are scheduled already; call"):
        s.cache_write(c)
    assert [stage.op.name for stage in s.stages] == ["C"]


# cache_read


def test_te_cache_read(golden: Any) -> None:
    a, b, c = matmul()
    s = te.create_schedule(c)
    near = s.cache_read(b, "local", [c])
    assert (near.name, near.shape, near.buffer.scope) == ("B.local", b.shape, "local")
    assert [stage.op.name for stage in s.stages] == ["B.local", "C"]
    golden(scheduled(s, [a, b, c]))


def test_te_cache_read_moves_to_where_it_is_needed(golden: Any) -> None:
    a, b, c = matmul()
    s = te.create_schedule(c)
    near = s.cache_read(b, "local", [c.op])
    xo, xi = s[c].split(s[c].op.axis[1], factor=4)
    s[c].reorder(xo, s[c].op.axis[0], xi)
    s[near].compute_at(s[c], xo)
    golden(scheduled(s, [a, b, c]))


def test_te_cache_read_serves_the_readers_that_are_named() -> None:
    a = te.placeholder((6,), name="A")
    b, c = (te.compute((6,), lambda i, n=n: a[i] * n, f"by{n}") for n in (2, 3))
    d = te.compute((6,), lambda i: b[i] + c[i], "D")
    s = te.create_schedule(d)
    first = s.cache_read(a, "local", [c])
    assert first in s[c].op.inputs
    assert first not in s[b].op.inputs
    second = s.cache_read(a, "local", [b])
    assert second.name == "A.local_1"
    check_values(s, [a, d])


def test_te_cache_read_of_an_intermediate() -> None:
    a, _, c, d = stages()
    s = te.create_schedule(d)
    near = s.cache_read(c, "local", [d])
    assert [stage.op.name for stage in s.stages] == ["B", "C", "C.local", "D"]
    s[near].compute_at(s[d], s[d].op.axis[0])
    s[c].compute_at(s[near], s[near].op.axis[0])
    check_values(s, [a, d])


def test_te_cache_read_by_who_does_not_read_is_refused() -> None:
    a, b, c, d = stages()
    s = te.create_schedule(d)
    with pytest.raises(ScheduleError, match=r"cache_read\(A, local, \[D\]\): D does not read A"):
        s.cache_read(a, "local", [d])
    with pytest.raises(ScheduleError, match=r"cache_read\(A, local, \[\]\): no readers given"):
        s.cache_read(a, "local", [])
    assert len(s.stages) == 3
    del b, c


@pytest.mark.parametrize("cache", ["cache_read", "cache_write"])
def test_te_caches_in_an_unknown_scope_are_refused(cache: str) -> None:
    a, b = grid()
    s = te.create_schedule(b)
    with pytest.raises(ScheduleError, match="unknown scope 'near'"):
        s.cache_read(a, "near", [b]) if cache == "cache_read" else s.cache_write(b, "near")


# compute_at, compute_inline, compute_root


def test_te_compute_at(golden: Any) -> None:
    a, b, c, d = stages()
    s = te.create_schedule(d)
    xo, _ = s[d].split(s[d].op.axis[1], factor=4)
    s[c].compute_at(s[d], xo)
    s[b].compute_at(s[c], s[c].op.axis[0])
    s[c].vectorize(s[c].op.axis[1])
    golden(scheduled(s, [a, d]))
    del b


def test_te_the_order_of_calls_across_stages_does_not_matter() -> None:
    a, b, c, d = stages()

    def program(order: list[int]) -> str:
        s = te.create_schedule(d)
        xo, _ = s[d].split(s[d].op.axis[1], factor=4)
        calls = [
            lambda: s[b].compute_at(s[c], s[c].op.axis[0]),
            lambda: s[c].compute_at(s[d], xo),
            lambda: s[b].vectorize(s[b].op.axis[1]),
            lambda: s[d].parallel(s[d].op.axis[0]),
        ]
        for n in order:
            calls[n]()
        return str(lower_te(s, [a, d]))

    assert len({program(order) for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1])}) == 1


def test_te_splits_of_an_attached_stage_are_of_the_region_that_is_needed() -> None:
    a, b, _, d = stages(6, 10)
    s = te.create_schedule(d)
    s[b].compute_inline()
    c = s.stages[1].op.output(0)
    xo, _ = s[d].split(s[d].op.axis[1], factor=3)
    s[c].compute_at(s[d], xo)
    _, inner = s[c].split(s[c].op.axis[1], factor=8)  # four columns are needed
    s[c].unroll(inner)
    assert "in unrolled range(4)" in scheduled(s, [a, d])


def test_te_compute_inline(golden: Any) -> None:
    a, b, c, d = stages()
    s = te.create_schedule(d)
    s[b].compute_inline()
    s[c].compute_inline()
    golden(scheduled(s, [a, d]))


def test_te_compute_root_undoes_the_place() -> None:
    a, b, c, d = stages()
    s = te.create_schedule(d)
    plain = str(lower_te(s, [a, d]))
    s[b].compute_inline()
    s[c].compute_at(s[d], s[d].op.axis[0])
    assert str(lower_te(s, [a, d])) != plain
    s[b].compute_root()
    s[c].compute_root()
    assert str(lower_te(s, [a, d])) == plain


def test_te_outputs_stay_at_the_root() -> None:
    a, b, c, d = stages()
    s = te.create_schedule([c, d])
    with pytest.raises(ScheduleError, match=r"compute_at\(D, i\) of C: C is an output and stays at the root"):
        s[c].compute_at(s[d], s[d].op.axis[0])
    with pytest.raises(
        ScheduleError, match=r"compute_inline\(\) of D: D is an output; there is no consumer to inline it into"
    ):
        s[d].compute_inline()
    del a, b


def test_te_reductions_are_not_inlined() -> None:
    _, _, c = matmul()
    d = te.compute((5, 6), lambda i, j: c[i, j] + 1, "D")
    s = te.create_schedule(d)
    with pytest.raises(ScheduleError, match=r"compute_inline\(\) of C: C is a reduction; use compute_at instead"):
        s[c].compute_inline()


def test_te_several_outputs_are_not_inlined() -> None:
    a = te.placeholder((5,), name="A")
    low, high = te.compute((5,), lambda i: (a[i] - 1, a[i] + 1), "both")
    c = te.compute((5,), lambda i: low[i] * high[i], "C")
    s = te.create_schedule(c)
    with pytest.raises(ScheduleError, match=r"compute_inline\(\) of both: both has 2 outputs; use compute_at instead"):
        s[low].compute_inline()
    s[low].compute_at(s[c], s[c].op.axis[0])
    check_values(s, [a, c])


def test_te_places_that_cannot_be_are_refused() -> None:
    a, b, c, d = stages()
    s = te.create_schedule(d)
    with pytest.raises(
        ScheduleError, match=r"compute_at\(C, i\) of B: i is not a loop of this stage; the loops of C are i, j"
    ):
        s[b].compute_at(s[c], s[d].op.axis[0])
    with pytest.raises(ScheduleError, match=r"compute_at\(B, i\) of B: B cannot be computed inside itself"):
        s[b].compute_at(s[b], s[b].op.axis[0])
    s[c].compute_at(s[d], s[d].op.axis[0])
    s[b].compute_at(s[c], s[c].op.axis[0])
    s[c].fuse(*s[c].op.axis)
    with pytest.raises(ScheduleError, match="B is attached to i of C, which is not one of its loops any more"):
        lower_te(s, [a, d])


def split_place(s: te.TESchedule, c: Tensor) -> te.IterVar:
    return s[c].split(c.op.axis[0], factor=3)[1]


def tiled_place(s: te.TESchedule, c: Tensor) -> te.IterVar:
    return s[c].tile(*c.op.axis, x_factor=3, y_factor=4)[2]


def place_with_its_parts_in_another_order(s: te.TESchedule, c: Tensor) -> te.IterVar:
    outer, inner = s[c].split(c.op.axis[0], nparts=3)
    s[c].reorder(inner, outer)
    return inner


def place_fused_again(s: te.TESchedule, c: Tensor) -> te.IterVar:
    return s[c].fuse(*s[c].split(c.op.axis[0], factor=4))


def place_split_twice(s: te.TESchedule, c: Tensor) -> te.IterVar:
    return s[c].split(s[c].split(c.op.axis[0], factor=6)[1], factor=2)[1]


PLACES = [split_place, tiled_place, place_with_its_parts_in_another_order, place_split_twice, place_fused_again]


@pytest.mark.parametrize("change", PLACES)
@pytest.mark.parametrize("grouped", [False, True])
def test_te_a_place_goes_along_into_the_inner_part_of_its_loop(change: Any, grouped: bool) -> None:
    a, b, c, d = stages(7, 6)
    programs = []
    for first in (True, False):
        s = te.create_schedule(d)
        placed: Any = s.create_group(c, b, include_inputs=True) if grouped else s[c]
        if first:
            placed.compute_at(s[d], d.op.axis[0])
            change(s, d)
        else:
            placed.compute_at(s[d], change(s, d))
        programs.append(str(lower_te(s, [a, d])))
        check_values(s, [a, d])
    assert programs[0] == programs[1]


def test_te_a_place_goes_along_into_a_loop_that_is_fused_around_it() -> None:
    a, b, c, d = stages(7, 6)
    s = te.create_schedule(d)
    s[c].compute_at(s[d], d.op.axis[1])
    fused = s[d].fuse(*d.op.axis)
    assert s[c].place == type(s[c].attach)(s[d], fused)
    check_values(s, [a, d])
    del b


def test_te_a_place_in_an_inlined_stage_is_refused() -> None:
    a, b, c, d = stages()
    s = te.create_schedule(d)
    s[b].compute_at(s[c], s[c].op.axis[0])
    s[c].compute_inline()
    with pytest.raises(ScheduleError, match="B is attached to i of C, which is inlined"):
        lower_te(s, [a, d])


def test_te_a_place_in_a_stage_that_does_not_need_it_is_refused() -> None:
    a, b, c, d = stages()
    s = te.create_schedule(d)
    s[c].compute_at(s[b], s[b].op.axis[0])
    with pytest.raises(ScheduleError, match="compute_at: C is attached to i of B, which does not need it"):
        lower_te(s, [a, d])
    s = te.create_schedule(d)
    s[b].compute_at(s[d], s[d].op.axis[0])
    with pytest.raises(ScheduleError, match="C needs B too, but is not inside i"):
        lower_te(s, [a, d])


def test_te_attached_inside_lanes_is_refused() -> None:
    a, b, c, d = stages()
    s = te.create_schedule(d)
    s[d].vectorize(s[d].op.axis[1])
    s[c].compute_at(s[d], s[d].op.axis[1])
    with pytest.raises(ScheduleError, match="j is vectorized: its iterations are lanes"):
        lower_te(s, [a, d])
    del b


def test_te_stages_that_share_axes_are_scheduled_apart() -> None:
    a = te.placeholder((5, 6), name="A")
    k = te.reduce_axis((0, 6), "k")
    total = te.compute((5,), lambda i: te.sum(a[i, k], axis=k), "total")
    top = te.compute((5,), lambda i: te.max(a[i, k] - total[i], axis=k), "top")
    s = te.create_schedule(top)
    s[total].split(k, factor=4)
    s[top].vectorize(k)
    check_values(s, [a, top])


def test_te_a_stage_without_dimensions() -> None:
    a = te.placeholder((5,), name="A")
    k = te.reduce_axis((0, 5), "k")
    total = te.compute((), lambda: te.sum(a[k], axis=k), "total")
    share = te.compute((5,), lambda i: a[i] - total[()], "share")
    s = te.create_schedule(share)
    s[total].vectorize(k)
    check_values(s, [a, share])
    s[total].compute_at(s[share], s[share].op.axis[0])
    check_values(s, [a, share])


@pytest.mark.parametrize("condition", [True, False])
def test_te_a_reduction_whose_condition_is_known_takes_all_or_nothing(condition: bool) -> None:
    a = te.placeholder((5,), name="A")
    k = te.reduce_axis((0, 5), "k")
    total = te.compute((2,), lambda i: te.sum(a[k] + i, axis=k, where=condition), "total")
    s = te.create_schedule(total)
    check_values(s, [a, total])
    cached = s.cache_write(total, "local")
    s[cached].compute_at(s[total], s[total].op.axis[0])
    check_values(s, [a, total])


def test_te_lower_prints_plain_loops() -> None:
    a, b = grid(2, 3)
    s = te.create_schedule(b)
    assert str(pb.lower(s, [a, b], name="plus_one")) == (
        "def plus_one(A: float32[2, 3], B: float32[2, 3]):\n"
        "    for i in range(2):\n"
        "        for j in range(3):\n"
        "            B[i, j] = A[i, j] + 1.0\n"
    )


def test_te_inline_into_several_consumers() -> None:
    a, b = grid()
    c = te.compute((6, 10), lambda i, j: b[i, j] * 2, "C")
    d = te.compute((6, 10), lambda i, j: b[i, 9 - j] - c[i, j], "D")
    s = te.create_schedule([c.op, d.op])
    s[b].compute_inline()
    check_values(s, [a, c, d])
    assert pb.lower(s, [a, c, d]).allocations == {}


def test_te_inline_into_a_reduction_below_its_attached_copy() -> None:
    """The copy of the input is made in the consumer's loops, the stage between is nowhere."""
    a, b, c = matmul(6, 8, 10)
    scaled = te.compute((6, 8), lambda i, k: a[i, k] * 3, "scaled")
    r = te.reduce_axis((0, 8), "r")
    out = te.compute((6, 10), lambda i, j: te.sum(scaled[i, r] * b[r, j], axis=r), "out")
    s = te.create_schedule(out.op)
    near = s.cache_read(a, "local", scaled)
    s[scaled].compute_inline()
    io, _ = s[out].split(out.op.axis[0], factor=4)
    s[near].compute_at(s[out], io)
    check_values(s, [a, b, out])
    assert pb.lower(s, [a, b, out], simple_mode=True).allocations == {"A.local": ((4, 8), "float32", "local")}
    del c


def test_te_chain_of_places_at_fused_loops() -> None:
    a, b, c, d = stages(6, 10)
    s = te.create_schedule(d.op)
    outer, _ = s[d].split(s[d].fuse(*d.op.axis), factor=9)
    s[c].compute_at(s[d], outer)
    s[b].compute_at(s[c], s[c].fuse(*c.op.axis))
    check_values(s, [a, d])
    shapes = {name: shape for name, (shape, _, _) in pb.lower(s, [a, d], simple_mode=True).allocations.items()}
    assert shapes == {"C": (1, 10), "B": (1, 1)}


def test_te_look_ups() -> None:
    a, b, c, d = stages()
    s = te.create_schedule([d.op])
    assert s.normalize() is s
    assert s.outputs == [d.op]
    i, j = d.op.axis
    jo, ji = s[d].split(j, factor=4)
    s[d].vectorize(ji)
    s[d].pragma(i, "auto_unroll_max_step", 8)
    assert s[d].all_iter_vars == [i, j, jo, ji]
    assert s[d].iter_var_attrs == {i: {"auto_unroll_max_step": 8}, ji: {"kind": "vectorized"}}
    del a, b, c


def test_te_a_stage_that_only_a_product_by_zero_reads_is_left_out() -> None:
    X = te.placeholder((8,), "int32", "X")
    zero = te.compute((8,), lambda i: te.const(0, "int32"), "Z")
    Y = te.compute((8,), lambda i: X[i] * zero[i] + 1, "Y")
    s = te.create_schedule(Y.op)
    copy = s.cache_read(X, "global", [Y])
    s[zero].compute_inline()
    outer, _ = s[Y].split(s[Y].op.axis[0], 2)
    s[copy].compute_at(s[Y], outer)
    y = np.zeros(8, "int32")
    pb.build(s, [X, Y])(np.arange(8, dtype="int32"), y)
    assert y.tolist() == [1] * 8


@pytest.mark.parametrize(("other_reader", "at_dead"), [(False, False), (False, True), (True, False)])
def test_te_stages_of_which_simplification_leaves_out_readers(other_reader: bool, at_dead: bool) -> None:
    """T -> V -> Y, where Y reads V times zero; another stage W, which Y reads, may read T too."""
    X = te.placeholder((8,), "int32", "X")
    Z = te.compute((8,), lambda i: te.const(0, "int32"), "Z")
    T = te.compute((8,), lambda i: X[i] + 1, "T")
    V = te.compute((8,), lambda i: T[i] * 2, "V")
    W = te.compute((8,), lambda i: (T[i] if other_reader else X[i]) * 3, "W")
    Y = te.compute((8,), lambda i: V[i] * Z[i] + W[i], "Y")
    s = te.create_schedule(Y.op)
    s[Z].compute_inline()
    outer, _ = s[Y].split(s[Y].op.axis[0], 4)
    for stage in (V, W):
        s[stage].compute_at(s[Y], outer)
    s[T].set_scope("local")
    s[T].compute_at(s[V] if at_dead else s[Y], V.op.axis[0] if at_dead else outer)
    func = lower_te(s, [X, Y])
    assert [name for name in ("T", "V", "W") if f"block {name}:" in str(func)] == ["T"] * other_reader + ["W"]
    y = np.zeros(8, "int32")
    pb.build(s, [X, Y])(np.arange(8, dtype="int32"), y)
    assert y.tolist() == [3 * (n + 1 if other_reader else n) for n in range(8)]


def test_te_an_argument_whose_reader_was_simplified_away_is_written() -> None:
    X = te.placeholder((8,), "int32", "X")
    Z = te.compute((8,), lambda i: te.const(0, "int32"), "Z")
    T = te.compute((8,), lambda i: X[i] + 1, "T")
    Y = te.compute((8,), lambda i: T[i] * Z[i] + X[i], "Y")
    s = te.create_schedule(Y.op)
    s[Z].compute_inline()
    s[T].compute_at(s[Y], s[Y].op.axis[0])
    t, y = np.zeros(8, "int32"), np.zeros(8, "int32")
    pb.build(s, [X, T, Y])(np.arange(8, dtype="int32"), t, y)
    assert t.tolist() == [n + 1 for n in range(8)]
    assert y.tolist() == list(range(8))
