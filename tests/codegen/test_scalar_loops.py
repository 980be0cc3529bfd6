"""Which programs leave the second half of LLVM's optimizer something to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from lowered_programs import PARALLEL, SERIAL, UNROLLED, VECTORIZED, WIDE, function, get, loop, put

from pegbox.codegen import emit
from pegbox.expr.build import maximum, select
from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.loops.nodes import Alloc, If, Stmt, seq

A, C = Buffer("a", (300, 256)), Buffer("c", (300, 256))
ROW = Buffer("row", (256,))
SUM = Buffer("sum", (256,))


def has_scalar_loops(body: Stmt, *outputs: Buffer) -> bool:
    return emit(function([A, *outputs], list(outputs), body), WIDE).scalar_loops


def doubled(kind: object = SERIAL, **annotations: object) -> Stmt:
    notes = tuple(annotations.items())
    return loop("i", 256, lambda i: loop("j", 256, lambda j: put(C, i, j, get(A, i, j) * 2.0), kind), annotations=notes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "expected"), [(SERIAL, True), (PARALLEL, True), (VECTORIZED, False), (UNROLLED, True)]
)
def test_what_the_schedule_vectorized_leaves_none(kind: object, expected: bool) -> None:
    assert has_scalar_loops(doubled(kind), C) == expected


def test_a_loop_around_unrolled_ones_may_be_vectorized() -> None:
    assert has_scalar_loops(doubled(pragma_auto_unroll_max_step=512), C)


@pytest.mark.parametrize(("copies", "expected"), [(200, True), (300, False)])
@pytest.mark.parametrize("tested", [False, True])
def test_a_program_with_many_branches_skips_the_second_half(copies: int, expected: bool, tested: bool) -> None:
    def element(i: Expr, j: Expr) -> Stmt:
        return put(C, i, j, get(A, i, j) * 2.0)

    def row(j: Expr) -> Stmt:
        def copy(i: Expr) -> Stmt:
            return If(get(A, i, j) > 0.0, element(i, j)) if tested else loop("k", 64, lambda k: element(i, k))

        return loop("i", copies, copy, UNROLLED)

    assert has_scalar_loops(loop("j", 4, row), C) == expected


def test_nothing_is_left_of_a_program_without_loops() -> None:
    assert not has_scalar_loops(put(C, 0, 0, get(A, 0, 0) * 2.0), C)
    assert not has_scalar_loops(loop("i", 1, lambda i: put(C, 0, i, get(A, 0, i) * 2.0)), C)


def test_a_scalar_loop_beside_vectors_counts() -> None:
    scalar = loop("i", 256, lambda i: put(SUM, i, get(A, i, 0) * 2.0))
    assert has_scalar_loops(seq(doubled(VECTORIZED), scalar), C, SUM)


def test_a_loop_around_vectors_does_not_count() -> None:
    inside = loop("i", 256, lambda i: seq(put(SUM, i, get(A, i, 0) * 2.0), doubled(VECTORIZED)))
    assert not has_scalar_loops(inside, SUM, C)


@pytest.mark.parametrize(("size", "expected"), [(8, False), (256, True)])
def test_short_sums_are_written_out(size: int, expected: bool) -> None:
    total = loop("k", size, lambda k: put(SUM, 0, get(SUM, 0) + get(A, 0, k)))
    assert has_scalar_loops(total, SUM) == expected
    assert has_scalar_loops(loop("i", 4, lambda i: seq(total, doubled(VECTORIZED))), SUM, C) == expected


def test_the_loop_around_a_short_sum_counts() -> None:
    window = loop("i", 64, lambda i: loop("k", 3, lambda k: put(SUM, i, maximum(get(SUM, i), get(A, i, k)))))
    assert has_scalar_loops(window, SUM)


def copied(value: Callable[[Var], Expr], *conditions: Callable[[Var], Expr]) -> Stmt:
    """A row that is copied in a scalar loop, under conditions, and doubled in vectors."""

    def step(i: Var) -> Stmt:
        stmt: Stmt = put(ROW, i, value(i))
        for condition in conditions:
            stmt = If(condition(i), stmt)
        return stmt

    used = loop("j", 256, lambda j: put(SUM, j, get(ROW, j) * 2.0), VECTORIZED)
    return Alloc(ROW, seq(loop("i", 256, step), used))


def test_copies_to_buffers_of_the_program_do_not_count() -> None:
    assert not has_scalar_loops(copied(lambda i: get(A, 0, i)), SUM)
    assert not has_scalar_loops(copied(lambda i: get(A, i, 0)), SUM)


def test_a_copy_to_an_output_counts() -> None:
    assert has_scalar_loops(loop("i", 256, lambda i: put(SUM, i, get(A, i, 0))), SUM)


def test_a_copy_along_rows_counts_if_it_has_a_condition() -> None:
    assert has_scalar_loops(copied(lambda i: get(A, 0, i), lambda i: i < 200), SUM)
    assert has_scalar_loops(copied(lambda i: select(i < 200, get(A, 0, i), 0.0)), SUM)
    assert not has_scalar_loops(copied(lambda i: get(A, i, 0), lambda i: i < 200), SUM)
    assert not has_scalar_loops(copied(lambda i: select(i < 200, get(A, i, 0), 0.0)), SUM)


def test_a_condition_around_the_loop_of_a_copy_is_none_of_the_copy() -> None:
    around = loop("o", 4, lambda o: If(o < 3, copied(lambda i: get(A, o, i))))
    assert not has_scalar_loops(around, SUM)
