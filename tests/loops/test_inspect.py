"""Asking a lowered program: its allocations, and the loops around a statement."""

from __future__ import annotations

from typing import Any

import pytest
from te_programs import matmul, two_stages, vector

import pegbox as pb
from pegbox import te
from pegbox.errors import LoweringError
from pegbox.schedule.te.replay import lower_te


def tiled() -> tuple[Any, Any]:
    a, b, c = matmul(8, 6, 8)
    s = te.create_schedule(c.op)
    tile = s.cache_write(c, "local")
    io, jo, _, ji = s[c].tile(*s[c].op.axis, 4, 8)
    s[tile].compute_at(s[c], jo)
    ko, _ = s[tile].split(s[tile].op.reduce_axis[0], factor=2)
    s[tile].reorder(ko, *s[tile].op.axis)
    s[c].parallel(io)
    s[c].vectorize(ji)
    return s, [a, b, c]


def test_loops_are_reported_by_name_extent_and_kind_without_those_of_one_iteration() -> None:
    func = pb.lower(*tiled(), simple_mode=True)
    assert func.loops("C") == [("i.outer", 2, "parallel"), ("i.inner", 4, "serial"), ("j.inner", 8, "vectorized")]


def test_of_a_reduction_the_update_counts_unless_the_init_is_asked_for() -> None:
    func = pb.lower(*tiled(), simple_mode=True)
    tile = [("i.c", 4, "serial"), ("j.c", 8, "serial")]
    assert func.loops("C.local") == [
        ("i.outer", 2, "parallel"),
        ("k.outer", 3, "serial"),
        *tile,
        ("k.inner", 2, "serial"),
    ]
    assert func.loops("C.local", init=True) == func.loops("C.local_init") == [("i.outer", 2, "parallel"), *tile]


def test_allocations_are_reported_by_shape_dtype_and_scope() -> None:
    assert pb.lower(*tiled()).allocations == {"C.local": ((4, 8), "float32", "local")}


def test_a_program_with_blocks_can_be_asked_as_well() -> None:
    s, args = tiled()
    func = lower_te(s, args)
    assert func.loops("C")[:2] == [("i.outer", 2, "parallel"), ("j.outer", 1, "serial")]
    with pytest.raises(LoweringError, match=r"C\.local has no init to show: before lowering"):
        func.loops("C.local", init=True)


def test_names_without_loops_are_refused_with_those_that_are_there() -> None:
    a, b, c = two_stages()
    s = te.create_schedule(c.op)
    s[b].compute_inline()
    func = pb.lower(s, [a, c])
    with pytest.raises(LoweringError, match=r"no block or buffer is called 'B' \(a stage that was inlined has no"):
        func.loops("B")
    with pytest.raises(LoweringError, match="main: A is an input, no statement writes it; there are C"):
        func.loops("A")
    with pytest.raises(LoweringError, match="main: C has no init to show: it is not a reduction; ask without init"):
        func.loops("C", init=True)


def test_of_a_program_with_tails_the_main_part_is_reported() -> None:
    a, b = vector(10)
    s = te.create_schedule(b.op)
    s[b].split(b.op.axis[0], factor=4)
    assert pb.lower(s, [a, b]).loops("B") == [("i.outer", 2, "serial"), ("i.inner", 4, "serial")]
    assert pb.lower(s, [a, b], simple_mode=True).loops("B") == [("i.outer", 3, "serial"), ("i.inner", 4, "serial")]


def test_stages_of_one_name_are_told_apart() -> None:
    a = te.placeholder((4, 6))
    first = te.compute((4, 6), lambda i, j: a[i, j] + 1)
    second = te.compute((4, 6), lambda i, j: first[i, j] * 2)
    last = te.compute((4, 6), lambda x, y: second[x, y] - 1)
    func = pb.lower(te.create_schedule(last.op), [a, last])
    assert sorted(func.allocations) == ["compute_1", "compute_2"]
    assert "compute_2[i_1, j_1] = compute_1[i_1, j_1] * 2.0" in str(func)
