"""Reductions start once, before their first visit, wherever the schedule put their loops."""

from __future__ import annotations

from typing import Any

import pytest
from te_programs import check_values, matmul, through

from pegbox import te
from pegbox.loops.passes import lower_function
from pegbox.schedule import Schedule


def test_init_runs_before_the_outermost_reduce_loop(golden: Any) -> None:
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    i, j = s[c].op.axis
    (k,) = s[c].op.reduce_axis
    s[c].reorder(i, k, j)
    golden(through("init", s, [a, b, c]))
    check_values(s, [a, b, c])


def test_init_repeats_the_spatial_loops_inside_with_their_kinds(golden: Any) -> None:
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    i, j = s[c].op.axis
    (k,) = s[c].op.reduce_axis
    ko, ki = s[c].split(k, factor=3)
    jo, ji = s[c].split(j, factor=4)
    s[c].reorder(ko, i, jo, ki, ji)
    s[c].vectorize(ji)
    s[c].unroll(jo)
    golden(through("init", s, [a, b, c]))
    check_values(s, [a, b, c])


def test_a_parallel_loop_inside_the_reduction_is_serial_in_its_init() -> None:
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    i, j = s[c].op.axis
    (k,) = s[c].op.reduce_axis
    s[c].reorder(k, i, j)
    s[c].parallel(i)
    text = str(through("init", s, [a, b, c]))
    assert text.count("for i in range(5)") == 1
    assert text.count("in parallel range(5)") == 1
    check_values(s, [a, b, c])


def test_conditions_on_reduce_loops_do_not_concern_the_init() -> None:
    a, b, c = matmul(k=7)
    s = te.create_schedule(c.op)
    s[c].split(s[c].op.reduce_axis[0], factor=4)
    init = str(through("flatten", s, [a, b, c])).split("C[i, j] = 0.0")
    assert len(init) == 2
    assert "if" not in init[0]
    assert "if k.outer * 4 + k.inner < 7" in init[1]


@pytest.mark.parametrize("factor", [1, 2, 4, 5])
def test_where_spatial_and_reduce_loops_are_fused_the_first_visit_starts(factor: int) -> None:
    a, b, c = matmul(3, 7, 6)
    s = te.create_schedule(c.op)
    _, j = s[c].op.axis
    fused = s[c].fuse(j, s[c].op.reduce_axis[0])
    s[c].split(fused, factor=factor)
    check_values(s, [a, b, c])


def test_the_start_of_a_fused_reduction_is_a_test_inside(golden: Any) -> None:
    a, b, c = matmul(3, 7, 6)
    s = te.create_schedule(c.op)
    s[c].fuse(s[c].op.axis[1], s[c].op.reduce_axis[0])
    golden(through("flatten", s, [a, b, c]))


def test_a_reduction_over_one_element_still_starts() -> None:
    a, b, c = matmul(3, 1, 6)
    s = te.create_schedule(c.op)
    func = check_values(s, [a, b, c])
    assert str(func).count("C[i, j] = ") == 2


def test_several_outputs_start_together() -> None:
    x = te.placeholder((3, 5), name="X")
    k = te.reduce_axis((0, 5), "k")
    least = te.comm_reducer(
        lambda p, q: (te.select(q[1] < p[1], q[0], p[0]), te.minimum(p[1], q[1])),
        lambda i, v: (te.const(-1, i), te.max_value(v)),
        name="least",
    )
    where, value = te.compute((3,), lambda i: least((te.cast("int32", k), x[i, k]), axis=k), "least")
    s = te.create_schedule(where.op)
    s[where].reorder(k, s[where].op.axis[0])
    text = str(through("init", s, [x, where, value]))
    assert text.index("least_0[vi] = int32(-1)") < text.index("least_1[vi] = inf") < text.index("for k in range(5)")
    check_values(s, [x, where, value])


def test_init_stays_inside_when_one_condition_limits_spatial_and_reduce_loops_together():
    a, b = te.placeholder((5, 6), name="A"), te.placeholder((6, 7), name="B")
    k = te.reduce_axis((0, 6), name="k")
    c = te.compute((5, 7), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = Schedule([a, b, c])
    _, j, kk = sch.get_loops(sch.get_block("C"))
    sch.split(sch.fuse(j, kk), factors=[4, 2, 6])
    text = str(lower_function(sch.func))
    assert "C[i, 6] = 0.0" in text
    assert "C[i, 7]" not in text
