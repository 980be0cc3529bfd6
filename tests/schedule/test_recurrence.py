"""Schedules of recurrences: rows stay in order, all other loops are free; each refusal has its reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from interpreter import interpret
from te_values import check_values, scheduled

import pegbox as pb
from pegbox import te
from pegbox.compute.reference import evaluate
from pegbox.errors import ScheduleError
from pegbox.loops.from_compute import function_from_tensors
from pegbox.schedule import Schedule
from pegbox.tir.script import from_source

M, N = 6, 10


def sums(axis: int = 0) -> list[Any]:
    x = te.placeholder((M, N), name="X")
    return [x, te.cumsum(x, axis, name="S")]


def mirrored() -> list[Any]:
    """Each element needs one of another column."""
    x, s = te.placeholder((M, N), name="X"), te.placeholder((M, N), name="s")
    first = te.compute((1, N), lambda t, i: x[t, i], name="first")
    step = te.compute((M, N), lambda t, i: s[t - 1, N - 1 - i] + x[t, i], name="step")
    return [x, te.scan(first, step, s, name="S")]


def cell() -> list[Any]:
    """A product with the row before."""
    x, w, h = (te.placeholder((M, M), name=name) for name in "XWh")
    k = te.reduce_axis((0, M), "k")
    product = te.compute((M, M), lambda t, i: te.sum(w[i, k] * h[t - 1, k], axis=k), name="P")
    step = te.compute((M, M), lambda t, i: te.maximum(te.minimum(product[t, i], 3), -3) + x[t, i], name="step")
    first = te.compute((1, M), lambda t, i: x[t, i], name="first")
    return [x, w, te.scan(first, step, h, name="S")]


def doubled() -> list[Any]:
    """A step in two parts without a sum, and a reader of the result."""
    x, s = te.placeholder((M, N), name="X"), te.placeholder((M, N), name="s")
    twice = te.compute((M, N), lambda t, i: s[t - 1, i] * 2, name="twice")
    step = te.compute((M, N), lambda t, i: twice[t, i] - x[t, i], name="step")
    rows = te.scan(te.compute((1, N), lambda t, i: x[t, i], name="first"), step, s, name="S")
    return [x, te.compute((N, M), lambda i, t: rows[t, i] + 1, name="out")]


def _stages(args: list[Any]) -> tuple[Any, dict[str, Any]]:
    s = te.create_schedule([t.op for t in args if t.op.input_tensors])
    return s, {stage.op.name: stage for stage in s.stages}


# TE -----------------------------------------------------------------------------------------------------------------


def test_rows_run_inside_of_tiles_of_columns(golden: Callable[[object], None]) -> None:
    args = sums()
    s, stage = _stages(args)
    stage["S_init"].compute_inline()
    rows, columns = stage["S"].op.axis
    outer, inner = stage["S"].split(columns, factor=4)
    stage["S"].reorder(outer, rows, inner)
    stage["S"].parallel(outer)
    stage["S"].vectorize(inner)
    golden(scheduled(s, args))


def test_lowering_cuts_the_first_rows_off(golden: Callable[[object], None]) -> None:
    args = cell()
    s, stage = _stages(args)
    stage["first"].compute_inline()
    stage["P"].vectorize(stage["P"].op.axis[1])
    check_values(s, args)
    golden(pb.lower(s, args))


def test_a_cell_tests_no_rows_where_the_loop_was_cut() -> None:
    args = doubled()
    s, stage = _stages(args)
    stage["twice"].compute_inline()
    check_values(s, args)
    assert "vt_1 >= 1, S[" in scheduled(s, args)
    assert "select" not in str(pb.lower(s, args))


def test_chains_along_the_last_axis_go_in_tiles_of_steps(golden: Callable[[object], None]) -> None:
    args = sums(1)
    s, stage = _stages(args)
    stage["S_init"].compute_inline()
    (chains,) = stage["S"].op.spatial_axis_
    outer, inner = stage["S"].split(chains, factor=2)
    first, steps = stage["S"].split(stage["S"].op.scan_axis, factor=5)
    stage["S"].reorder(outer, first, inner, steps)
    stage["S"].unroll(inner)
    golden(scheduled(s, args))


def test_a_cell_without_other_columns_runs_in_the_tile(golden: Callable[[object], None]) -> None:
    args = doubled()
    s, stage = _stages(args)
    rows, columns = stage["S"].op.axis
    outer, inner = stage["S"].split(columns, factor=4)
    stage["S"].reorder(outer, rows, inner)
    stage["S"].compute_at(stage["out"], stage["out"].op.axis[0])
    golden(scheduled(s, args))


def test_an_update_is_the_stage_of_its_scan() -> None:
    args = sums()
    s, stage = _stages(args)
    assert s[args[1].op.updates[0]] is s[args[1]] is stage["S"]


def test_copies_and_partial_sums_of_a_cell_stay_in_the_loop_over_the_rows() -> None:
    for change in (
        lambda s, p: s.cache_write(p, "local"),
        lambda s, p: s.rfactor(p, s[p].op.reduce_axis[0]),
        lambda s, p: s.cache_read(s.stages[-1].op.outputs[0], "local", [p]),
        lambda s, p: s.create_group(p, p, include_inputs=True),
    ):
        args = cell()
        s, stage = _stages(args)
        change(s, stage["P"].op.outputs[0])
        check_values(s, args)


TE_REFUSED: list[tuple[Callable[[], list[Any]], Callable[[Any, Any], object], str]] = [
    (sums, lambda s, g: g["S"].parallel(g["S"].op.scan_axis), "S reads elements of S that S makes in earlier"),
    (sums, lambda s, g: g["S"].vectorize(g["S"].op.scan_axis), "i0 cannot be vectorized: S reads elements"),
    (sums, lambda s, g: g["S"].compute_inline(), "output"),
    (doubled, lambda s, g: g["S"].compute_inline(), "S is a scan, which reads its own rows"),
    (doubled, lambda s, g: s.cache_write(g["S"].op.outputs[0]), "S is a scan, which reads its own rows"),
    (mirrored, lambda s, g: g["S"].reorder(*reversed(g["S"].op.axis)), "cannot be shown that they would be there"),
    (cell, lambda s, g: g["P"].compute_root(), "P reads rows of S before S makes the first one"),
    (cell, lambda s, g: _outside(g["S"]), "P reads rows of S that S makes in earlier iterations"),
    (sums, lambda s, g: _swapped(g["S"]), "S reads rows of S that S makes in earlier iterations"),
    (sums, lambda s, g: g["S"].parallel(g["S"].fuse(*g["S"].op.axis)), "before it is fused with theirs"),
]


def _outside(stage: Any) -> None:
    stage.reorder(stage.op.axis[1], stage.op.axis[0])


def _swapped(stage: Any) -> None:
    stage.reorder(*reversed(stage.split(stage.op.scan_axis, factor=3)))


@pytest.mark.parametrize(("make", "change", "why"), TE_REFUSED)
def test_what_would_break_the_rows_is_refused(
    make: Callable[[], list[Any]], change: Callable[[Any, Any], object], why: str
) -> None:
    args = make()
    s, stage = _stages(args)
    with pytest.raises(ScheduleError, match=why):
        (change(s, stage), pb.lower(s, args))


# tir.Schedule ---------------------------------------------------------------------------------------------------------


def _of_tensors(args: list[Any]) -> Schedule:
    return Schedule(args)


def _of_script(args: list[Any]) -> Schedule:
    func = function_from_tensors(args)
    again = from_source(func.script())
    assert again == func
    return Schedule(again)


def _swap_rows(sch: Schedule) -> None:
    outer, inner = sch.split(sch.get_loops("S")[0], factor=3)
    sch.reorder(inner, outer)


def _tile(sch: Schedule) -> None:
    rows, columns = sch.get_loops("S")
    outer, inner = sch.split(columns, factor=4)
    sch.reorder(outer, rows, inner)
    sch.parallel(outer)
    sch.vectorize(inner)


def _steps(sch: Schedule) -> None:
    rows, columns = sch.get_loops("S")
    outer, inner = sch.split(rows, factor=4)
    sch.reorder(outer, columns, inner)
    sch.unroll(inner)


LEGAL: list[tuple[Callable[[], list[Any]], Callable[[Schedule], object]]] = [
    (sums, _tile),
    (sums, _steps),
    (lambda: sums(1), _tile),
    (sums, lambda s: s.reorder(*reversed(s.get_loops("S")))),
    (sums, lambda s: s.fuse(*s.get_loops("S"))),
    (sums, lambda s: s.bind(s.get_loops("S")[1], "threadIdx.x")),
    (mirrored, lambda s: s.vectorize(s.get_loops("S")[1])),
    (mirrored, lambda s: s.split(s.get_loops("S")[0], factor=4)),
    (cell, lambda s: s.parallel(s.get_loops("P")[1])),
    (cell, lambda s: s.reorder(*reversed(s.get_loops("P")[1:]))),
    (cell, lambda s: s.compute_at("P", s.get_loops("S")[1])),
]


@pytest.mark.parametrize("program", [_of_tensors, _of_script])
@pytest.mark.parametrize(("make", "change"), LEGAL)
def test_what_keeps_the_rows_in_order_keeps_the_values(
    make: Callable[[], list[Any]],
    change: Callable[[Schedule], object],
    program: Callable[[list[Any]], Schedule],
) -> None:
    args = make()
    sch = program(args)
    change(sch)
    rng = np.random.default_rng(5)
    inputs = {t: rng.integers(-3, 4, t.shape).astype(t.dtype) for t in args[:-1]}
    (want,) = evaluate(args[-1:], inputs)
    np.testing.assert_array_equal(interpret(sch.func, list(inputs.values()))[0], want)
    out = np.full_like(want, np.nan)
    pb.build(sch, target="llvm -num-cores 2")(*inputs.values(), out)
    np.testing.assert_array_equal(out, want)


ILLEGAL: list[tuple[Callable[[], list[Any]], Callable[[Schedule], object], str]] = [
    (sums, lambda s: s.parallel(s.get_loops("S")[0]), "cannot be parallel: S reads elements of S"),
    (sums, lambda s: s.vectorize(s.get_loops("S")[0]), "cannot be vectorized"),
    (sums, lambda s: s.bind(s.get_loops("S")[0], "threadIdx.x"), "cannot be bound"),
    (sums, lambda s: s.parallel(s.fuse(*s.get_loops("S"))), "before it is fused with theirs"),
    (sums, _swap_rows, "cannot be shown that they would be there"),
    (mirrored, lambda s: s.reorder(*reversed(s.get_loops("S"))), "cannot be shown that they would be there"),
    (mirrored, _tile, "cannot be shown that they would be there"),
    (sums, lambda s: s.blockize(s.get_loops("S")[1]), "computed before, which a block around them would hide"),
    (sums, lambda s: s.cache_read("S", "S", "local"), "that it wrote itself|S has to stay where it is"),
    (cell, lambda s: s.parallel(s.get_loops("S")[0]), "P reads elements of S that S makes in earlier iterations"),
    (doubled, lambda s: s.compute_at("S", s.get_loops("out")[0]), "twice needs S too|has to stay"),
    (cell, _swap_rows, "P reads rows of S that S makes in earlier iterations"),
]


@pytest.mark.parametrize("program", [_of_tensors, _of_script])
@pytest.mark.parametrize(("make", "change", "why"), ILLEGAL)
def test_what_needs_rows_that_are_not_there_is_refused(
    make: Callable[[], list[Any]],
    change: Callable[[Schedule], object],
    why: str,
    program: Callable[[list[Any]], Schedule],
) -> None:
    sch = program(make())
    with pytest.raises(ScheduleError, match=why):
        change(sch)


def test_a_copy_of_the_result_may_be_made_first() -> None:
    args = sums()
    sch = Schedule(args)
    sch.cache_write("S", 0, "local")
    x = np.random.default_rng(6).integers(-3, 4, (M, N)).astype("float32")
    np.testing.assert_array_equal(interpret(sch.func, [x])[0], np.cumsum(x, 0))


def test_rows_that_a_loop_carries_are_kept_around_it() -> None:
    """The consumer reads each row in the loop over the rows: the buffer stands outside it all the same."""
    args = doubled()
    sch = Schedule(args)
    rows = sch.get_loops("S")[0]
    sch.reorder(*reversed(sch.get_loops("out")))
    sch.reverse_compute_at("out", rows)
    x = np.random.default_rng(7).integers(-3, 4, (M, N)).astype("float32")
    (want,) = evaluate(args[-1:], {args[0]: x})
    out = np.full_like(want, np.nan)
    pb.build(sch)(x, out)
    np.testing.assert_array_equal(out, want)
    assert pb.lower(sch, args).allocations["S"][0] == (M, N)


def test_rows_of_a_fused_loop_are_kept_around_it() -> None:
    """The loops that count the rows are not known after a fusion: the outermost one is taken to carry them."""
    x, rows = mirrored()
    out = te.compute((M, N), lambda t, i: rows[t, i] * 2, name="out")
    sch = Schedule([x, out])
    fused = sch.fuse(*sch.get_loops("S"))
    sch.reverse_compute_at("out", fused)
    given = np.random.default_rng(8).integers(-3, 4, (M, N)).astype("float32")
    (want,) = evaluate([out], {x: given})
    got = np.full_like(want, np.nan)
    pb.build(sch)(given, got)
    np.testing.assert_array_equal(got, want)


def test_other_readers_may_read_a_copy() -> None:
    x, rows = sums()
    out = te.compute((M, N), lambda t, i: rows[t, i] * 2, name="out")
    sch = Schedule([x, out])
    sch.cache_read("out", "S", "local")
    assert [b.name for b in sch.get_blocks()] == ["S_init", "S", "S_local", "out"]
    given = np.random.default_rng(9).integers(-3, 4, (M, N)).astype("float32")
    np.testing.assert_array_equal(interpret(sch.func, [given])[0], np.cumsum(given, 0) * 2)
