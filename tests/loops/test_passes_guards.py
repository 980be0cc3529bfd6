"""Guards go where memory allows the extra work, and stay where the extra work would be seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lowered_interpreter import run
from te_programs import check_values, matmul, through, two_stages

from pegbox import te
from pegbox.expr.build import variables
from pegbox.loops.passes.domain import leaves_domain


def test_an_intermediate_is_padded_instead_of_tested(golden: Any) -> None:
    a, _b, c = two_stages(10)
    d = te.compute((10,), lambda i: c[i] - 1, "D")
    s = te.create_schedule(d.op)
    s[c].split(s[c].op.axis[0], factor=4)
    golden(through("guards", s, [a, d]))
    check_values(s, [a, d])


def test_the_padding_is_tested_where_inputs_end() -> None:
    # Nothing stands behind the end of A: what reads it keeps its test, what reads B alone does not.
    a, b, c = two_stages(10)
    d = te.compute((10,), lambda i: c[i] - 1, "D")
    s = te.create_schedule(d.op)
    for t in (b, c):
        s[t].split(s[t].op.axis[0], factor=4)
    text = str(through("guards", s, [a, d]))
    assert text.count("if ") == 1
    assert "if i.outer * 4 + i.inner < 10:\n                B[" in text
    check_values(s, [a, d])


def test_outputs_keep_their_tests() -> None:
    a, _b, c = two_stages(10)
    s = te.create_schedule(c.op)
    s[c].split(s[c].op.axis[0], factor=4)
    assert "if i.outer * 4 + i.inner < 10" in str(through("guards", s, [a, c]))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (1, 0, 2)])
def test_a_second_split_that_does_not_divide_repeats_nothing(order: tuple[int, ...]) -> None:
    # Without its test the third iteration of a tile of three, split by two, would start an element of the next again.
    x = te.placeholder((5, 4), name="X")
    k = te.reduce_axis((0, 4), "k")
    y = te.compute((5,), lambda i: te.sum(x[i, k], axis=k), "Y")
    z = te.compute((5,), lambda i: y[i] + 1, "Z")
    s = te.create_schedule(z.op)
    outer, inner = s[y].split(s[y].op.axis[0], factor=3)
    loops = (outer, *s[y].split(inner, factor=2))
    s[y].reorder(k, *(loops[n] for n in order))
    check_values(s, [x, z])


def test_a_second_split_of_a_cached_tile_adds_up_once() -> None:
    a, b, c = matmul(5, 7, 6)
    s = te.create_schedule(c.op)
    tile = s.cache_write(c, "local")
    yo, _ = s[c].split(s[c].op.axis[0], factor=5)
    s[tile].compute_at(s[c], yo)
    y, x = s[tile].op.axis
    _, yi = s[tile].split(y, factor=3)
    s[tile].split(yi, factor=2)
    s[tile].reorder(s[tile].op.reduce_axis[0], x)
    check_values(s, [a, b, c])


def test_which_conditions_keep_an_iteration_inside_the_domain() -> None:
    o, m, i = variables("o m i")
    ranges = {o: (0, 2), m: (0, 1), i: (0, 3)}
    assert leaves_domain(o * 4 + i < 10, o * 4 + i, 10, ranges)
    assert not leaves_domain(o * 4 + i < 9, o * 4 + i, 10, ranges)
    # o split again, into three parts by two
    assert leaves_domain(o * 2 + m < 5, o * 8 + m * 4 + i, 20, ranges)
    assert leaves_domain(o * 2 + m < 5, o * 8 + m * 4 + i, 18, ranges)
    # i split again: a failing iteration is one of the next o
    assert not leaves_domain(m * 2 + i < 3, o * 3 + m * 2 + i, 9, ranges)
    # both ends of a region that starts before the first element
    assert leaves_domain(o * 4 + i - 1 >= 0, o * 4 + i - 1, 10, ranges)
    assert leaves_domain(o * 4 + i - 1 < 10, o * 4 + i - 1, 10, ranges)
    assert leaves_domain(o >= 1, o * 4 - 4, 10, ranges)
    assert not leaves_domain(o >= 1, o * 4 + 1, 10, ranges)
    # counted down
    assert leaves_domain(i > 0, 4 - i, 4, ranges)
    # a digit of a fused loop
    assert leaves_domain(o * 4 + i < 10, (o * 4 + i) // 5, 2, ranges)
    assert not leaves_domain(o * 4 + i < 9, (o * 4 + i) // 5, 2, ranges)
    assert not leaves_domain(o * 4 + i < 10, (o * 4 + i) % 5, 5, ranges)
    # of other variables, or no ordering at all
    assert not leaves_domain(m < 1, o * 4 + i, 10, ranges)
    assert not leaves_domain((o % 2) < 1, o * 4 + i, 10, ranges)


def test_no_guard_is_dropped_that_keeps_a_divisor_from_being_zero() -> None:
    # What stands in the padding of D is anything, zero included; dividing integers by it would kill the process.
    x = te.placeholder((5,), "int32", "X")
    d = te.compute((5,), lambda i: x[i] * x[i] + 1, "D")
    q = te.compute((5,), lambda i: 100 // d[i], "Q")
    z = te.compute((5,), lambda i: q[i] + 1, "Z")
    s = te.create_schedule(z.op)
    s[d].split(s[d].op.axis[0], factor=3)
    s[q].split(s[q].op.axis[0], factor=4)
    func = check_values(s, [x, z])
    run(func, [np.arange(5, dtype="int32"), np.zeros(5, "int32")], poison=0)


def test_no_guard_is_dropped_that_keeps_an_index_from_memory_valid() -> None:
    # The padding of `at` holds anything; after it, the index `at[0]` does not show which iteration it belongs to.
    table, where = te.placeholder((5,), name="table"), te.placeholder((5,), "int32", "where")
    at = te.compute((5,), lambda i: te.maximum(te.minimum(te.cast("int64", where[i]), 4), 0), "at")
    picked = te.compute((5,), lambda i: table[at[i]], "picked")
    doubled = te.compute((5,), lambda i: picked[i] * 2, "doubled")
    s = te.create_schedule(doubled.op)
    do, _ = s[doubled].split(s[doubled].op.axis[0], factor=3)
    s[picked].compute_at(s[doubled], do)
    s[at].compute_at(s[picked], s[picked].op.axis[0])
    check_values(s, [table, where, doubled])


def test_a_select_does_not_hide_an_index_from_memory() -> None:
    table, where = te.placeholder((5, 4), name="table"), te.placeholder((5,), "int32", "where")
    at = te.compute((5,), lambda i: te.maximum(te.minimum(te.cast("int64", where[i]), 4), 0), "at")
    picked = te.compute((5, 4), lambda i, j: te.if_then_else(j < 3, table[at[i], j], te.const(0, "float32")), "picked")
    doubled = te.compute((5, 4), lambda i, j: picked[i, j] * 2, "doubled")
    s = te.create_schedule(doubled.op)
    do, _ = s[doubled].split(s[doubled].op.axis[0], factor=3)
    s[picked].compute_at(s[doubled], do)
    s[at].compute_at(s[picked], s[picked].op.axis[0])
    check_values(s, [table, where, doubled])


def test_a_select_does_not_hide_a_divisor_from_memory() -> None:
    x = te.placeholder((5,), "int32", "X")
    d = te.compute((5,), lambda i: x[i] * x[i] + 1, "D")
    q = te.compute((5, 4), lambda i, j: te.if_then_else(j < 3, 100 // d[i], te.const(0, "int32")), "Q")
    z = te.compute((5, 4), lambda i, j: q[i, j] + 1, "Z")
    s = te.create_schedule(z.op)
    s[d].split(s[d].op.axis[0], factor=3)
    s[q].split(s[q].op.axis[0], factor=4)
    func = check_values(s, [x, z])
    run(func, [np.arange(5, dtype="int32"), np.zeros((5, 4), "int32")], poison=0)


@pytest.mark.parametrize(("size", "tests"), [(14, 0), (13, 1)])
def test_a_select_whose_tests_bound_the_index_needs_no_other_one(size: int, tests: int) -> None:
    """Columns of zeros around a row of 14; where the row is shorter than its test says, the vector keeps its own."""
    x, w = te.placeholder((3, size), name="X"), te.placeholder((5,), name="W")
    k, zero = te.reduce_axis((0, 5), "k"), te.const(0, "float32")
    y = te.compute(
        (3, 14),
        lambda r, i: te.sum(te.if_then_else(te.all(i + k >= 2, i + k - 2 < 14), x[r, i + k - 2], zero) * w[k], axis=k),
        "Y",
    )
    z = te.compute((3, 14), lambda r, i: y[r, i] + 1, "Z")
    s = te.create_schedule(z.op)
    s[y].compute_at(s[z], s[z].op.axis[0])
    s[y].vectorize(s[y].split(s[y].op.axis[1], factor=16)[1])
    text = str(through("guards", s, [x, w, z]))
    assert text.count("if i.inner < 14") == tests
    if size == 14:
        check_values(s, [x, w, z])


@pytest.mark.parametrize("divides", [False, True], ids=["a load", "a division"])
def test_what_the_condition_of_a_select_reads_needs_its_own_test(divides: bool) -> None:
    """Check that a condition which reads memory or divides has a guard; it protects the chosen element alone."""
    a, mask = te.placeholder((3,), name="A"), te.placeholder((14,), name="mask")
    zero = te.const(0, "float32")
    y = te.compute(
        (3, 14),
        lambda r, i: te.if_then_else(te.floordiv(28, 14 - i) > 3 if divides else mask[i] > zero, a[r], zero),
        "Y",
    )
    z = te.compute((3, 14), lambda r, i: y[r, i] + 1 + mask[i], "Z")
    s = te.create_schedule(z.op)
    s[y].compute_at(s[z], s[z].op.axis[0])
    s[y].vectorize(s[y].split(s[y].op.axis[1], factor=16)[1])
    assert str(through("guards", s, [a, mask, z])).count("if i.inner < 14") == 1
    check_values(s, [a, mask, z])
