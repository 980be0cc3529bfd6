"""Blocks become plain loops."""

from __future__ import annotations

from typing import Any

from te_programs import check_values, matmul, through, vector

from pegbox import te
from pegbox.loops.nodes import BlockRealize, For, If
from pegbox.loops.visit import walk


def test_block_variables_become_loop_expressions(golden: Any) -> None:
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    s[c].fuse(*s[c].op.axis)
    golden(through("flatten", s, [a, b, c]))


def test_no_block_is_left() -> None:
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    func = through("flatten", s, [a, b, c])
    assert not any(isinstance(node, BlockRealize) for node in walk(func.body))


def test_a_predicate_becomes_a_test_around_the_statement() -> None:
    a, b = vector(10)
    s = te.create_schedule(b.op)
    s[b].split(s[b].op.axis[0], factor=4)
    (test,) = (node for node in walk(through("flatten", s, [a, b]).body) if isinstance(node, If))
    assert str(test.condition) == "i.outer * 4 + i.inner < 10"
    assert not test.guard


def test_a_predicate_on_an_intermediate_is_marked_as_a_mere_guard() -> None:
    a, b = vector(10)
    c = te.compute((10,), lambda i: b[i] * 2, "C")
    s = te.create_schedule(c.op)
    s[b].split(s[b].op.axis[0], factor=4)
    (test,) = (node for node in walk(through("flatten", s, [a, c]).body) if isinstance(node, If))
    assert test.guard


def test_a_split_that_divides_needs_no_test() -> None:
    a, b = vector(12)
    s = te.create_schedule(b.op)
    s[b].split(s[b].op.axis[0], factor=4)
    assert "if" not in str(through("flatten", s, [a, b]))


def test_loops_of_one_iteration_vanish_and_leave_their_pragmas_behind() -> None:
    a = te.placeholder((1, 6), name="A")
    b = te.compute((1, 6), lambda i, j: a[i, j] + 1, "B")
    s = te.create_schedule(b.op)
    i, j = s[b].op.axis
    s[b].pragma(i, "auto_unroll_max_step", 16)
    s[b].pragma(j, "unroll_explicit", True)
    func = check_values(s, [a, b])
    (loop,) = (node for node in walk(func.body) if isinstance(node, For))
    assert dict(loop.annotations) == {"pragma_auto_unroll_max_step": 16, "pragma_unroll_explicit": True}


def test_an_inner_pragma_wins_over_that_of_a_vanished_loop() -> None:
    a = te.placeholder((1, 6), name="A")
    b = te.compute((1, 6), lambda i, j: a[i, j] + 1, "B")
    s = te.create_schedule(b.op)
    for axis, steps in zip(s[b].op.axis, (16, 8), strict=True):
        s[b].pragma(axis, "auto_unroll_max_step", steps)
    assert "# pragma_auto_unroll_max_step = 8\n" in str(through("flatten", s, [a, b]))


def test_the_pragma_of_a_vanished_loop_goes_to_each_loop_inside() -> None:
    a = te.placeholder((1, 6), name="A")
    b = te.compute((1, 6), lambda i, j: a[i, j] + 1, "B")
    c = te.compute((1, 6), lambda i, j: b[i, j] * 2, "C")
    s = te.create_schedule(c.op)
    i, j = s[c].op.axis
    s[b].compute_at(s[c], i)
    s[c].pragma(i, "auto_unroll_max_step", 16)
    s[c].pragma(j, "auto_unroll_max_step", 8)
    func = check_values(s, [a, c])
    steps = [dict(node.annotations) for node in walk(func.body) if isinstance(node, For)]
    assert steps == [{"pragma_auto_unroll_max_step": 16}, {"pragma_auto_unroll_max_step": 8}]


def test_a_scalar_program_is_plain_statements() -> None:
    a = te.placeholder((1,), name="A")
    b = te.compute((1,), lambda i: a[i] + 1, "B")
    assert str(check_values(te.create_schedule(b.op), [a, b])).splitlines()[1:] == ["    B[0] = A[0] + 1.0"]


def test_conditions_in_computations_are_simplified_by_the_ranges_of_the_loops() -> None:
    a = te.placeholder((6,), name="A")
    b = te.compute((6,), lambda i: te.if_then_else(i < 6, a[i], te.const(0, "float32")), "B")
    s = te.create_schedule(b.op)
    assert "select" not in str(through("flatten", s, [a, b]))


def test_the_condition_of_a_reduction_is_a_test_inside(golden: Any) -> None:
    x = te.placeholder((4, 6), name="X")
    k = te.reduce_axis((1, 6), "k")
    y = te.compute((4,), lambda i: te.sum(x[i, k], axis=k, where=x[i, k] > 0), "Y")
    s = te.create_schedule(y.op)
    golden(check_values(s, [x, y]))


def test_buffers_of_one_name_print_as_different_ones() -> None:
    a, b = te.placeholder((4,)), te.placeholder((4,))
    c = te.compute((4,), lambda i: a[i] + b[i])
    d = te.compute((4,), lambda i: c[i] * 2)
    assert str(check_values(te.create_schedule(d), [a, b, d])) == (
        "def main(placeholder: float32[4], placeholder_1: float32[4], compute: float32[4]):\n"
        "    compute_1 = alloc(float32[4], global)\n"
        "    for i in range(4):\n"
        "        compute_1[i] = placeholder[i] + placeholder_1[i]\n"
        "    for i_1 in range(4):\n"
        "        compute[i_1] = compute_1[i_1] * 2.0\n"
    )
