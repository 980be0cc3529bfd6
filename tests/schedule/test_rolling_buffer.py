"""rolling_buffer: rows that an iteration has made are kept for the next one, in both languages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lowered_interpreter import run

from pegbox import te
from pegbox.errors import LoweringError, ScheduleError
from pegbox.expr.evaluate import evaluate
from pegbox.expr.nodes import Var
from pegbox.loops.nodes import For, Function, If, Stmt, Store
from pegbox.loops.passes import lower_function
from pegbox.loops.visit import children, walk
from pegbox.schedule import LoopRef, Schedule, Trace
from pegbox.schedule.te.replay import replay
from pegbox.tir.script import from_source

Tile = tuple[int, ...]


def windows(rows: int = 10, columns: int = 5, *, step: int = 1) -> list[Any]:
    """B doubles A; each row of C is the sum of three of B."""
    a = te.placeholder((rows, columns), "int32", "A")
    b = te.compute((rows, columns), lambda i, j: a[i, j] * 2, "B")
    out = (rows - 3) // step + 1
    c = te.compute((out, columns), lambda i, j: b[i * step, j] + b[i * step + 1, j] + b[i * step + 2, j], "C")
    return [a, b, c]


def pools(count: int = 2, rows: int = 9, columns: int = 8, channels: int = 2) -> list[Any]:
    """The largest of 3 x 3 neighbours, again and again."""
    made = [te.placeholder((rows, columns, channels), "int8", "A")]
    for n in range(count):
        y, x = te.reduce_axis((0, 3), "y"), te.reduce_axis((0, 3), "x")
        height, width = rows - 2 * n - 2, columns - 2 * n - 2
        made.append(
            te.compute(
                (height, width, channels),
                lambda i, j, c, a=made[-1], y=y, x=x: te.max(a[i + y, j + x, c], axis=[y, x]),
                f"P{n + 1}",
            )
        )
    return made


def check(func: Function, reference: Callable[..., Any], shape: Tile, dtype: str = "int32", **how: bool) -> Function:
    """Lower, run with poison in memory and parallel loops backwards, and compare; gives the lowered program."""
    lowered = lower_function(func, **how)
    given = np.random.default_rng(0).integers(-90, 90, shape).astype(dtype)
    got = np.zeros(func.params[-1].shape, dtype)
    run(lowered, [given, got])
    np.testing.assert_array_equal(got, reference(given))
    return lowered


def window_sums(a: Any, step: int = 1) -> Any:
    doubled = a * 2
    return (doubled[:-2] + doubled[1:-1] + doubled[2:])[::step]


def pooled(a: Any, count: int = 2) -> Any:
    for _ in range(count):
        h, w = a.shape[0] - 2, a.shape[1] - 2
        a = np.max([a[i : i + h, j : j + w] for i in range(3) for j in range(3)], axis=0)
    return a


def attached(tensors: list[Any] | None = None, factor: int = 4, axis: int = 0) -> tuple[Schedule, LoopRef, LoopRef]:
    """(schedule, outer and inner loop) with the first stage attached to tiles of the second."""
    a, b, c = tensors or windows()
    sch = Schedule([a, c])
    outer, inner = sch.split(sch.get_loops(c.op.name)[axis], factor=factor)
    sch.compute_at(b.op.name, outer)
    return sch, outer, inner


def tiled(tensors: list[Any], tile: Tile) -> tuple[Schedule, LoopRef]:
    sch = Schedule([tensors[0], tensors[-1]])
    last = tensors[-1].op.name
    pairs = [sch.split(x, factor=f) for x, f in zip(sch.get_loops(last), tile, strict=False)]
    sch.reorder(*(outer for outer, _ in pairs), *(inner for _, inner in pairs))
    for stage in reversed(tensors[1:-1]):
        sch.compute_at(stage.op.name, pairs[-1][0])
    return sch, pairs[0][0]


def test_a_rolling_buffer_keeps_the_rows_that_the_next_tile_needs(golden: Any) -> None:
    sch, _, _ = attached()
    sch.rolling_buffer("B", 0)
    lowered = check(sch.func, window_sums, (10, 5), simple=True)
    golden(f"{sch}\n{lowered}")
    assert lowered.allocations == {"B": ((6, 5), "int32", "global")}
    check(sch.func, window_sums, (10, 5))


def test_each_row_is_made_once() -> None:
    sch, _, _ = attached()
    assert rows_made(check(sch.func, window_sums, (10, 5))) == 12
    sch.rolling_buffer("B", 0)
    assert rows_made(check(sch.func, window_sums, (10, 5))) == 10


def rows_made(lowered: Function) -> int:
    """Count the rows of B that are made, by the loops and tests of a lowered program."""

    def count(stmt: Stmt, values: dict[Var, int]) -> int:
        match stmt:
            case For(var, extent, body):
                return sum(count(body, {**values, var: n}) for n in range(extent))
            case If(condition, then):
                return count(then, values) if evaluate(condition, values) else 0
            case Store(buffer):
                return int(buffer.name == "B")
            case _:
                return sum(count(child, values) for child in children(stmt))

    return count(lowered.body, {}) // 5


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("tile", [(5, 2, 1), (2, 5, 1), (2, 1, 1)])
def test_windows_roll_along_the_outermost_loop_whose_steps_overlap(tile: Tile, count: int) -> None:
    tensors = pools(count, rows=9, columns=9, channels=1)
    sch, _ = tiled(tensors, tile)
    for stage in tensors[1:-1]:
        sch.rolling_buffer(stage.op.name, stage.op.name)
    for simple in (True, False):
        lowered = check(sch.func, lambda a: pooled(a, count), (9, 9, 1), "int8", simple=simple)
    made = lowered.allocations["P1"][0]
    assert made[0] == tile[0] + 2 * (count - 1) or made[1] == tile[1] + 2 * (count - 1)


@pytest.mark.parametrize(("step", "factor"), [(2, 1), (2, 3), (1, 1)])
def test_strides_keep_what_is_left_of_a_window(step: int, factor: int) -> None:
    sch, _, _ = attached(windows(17, step=step), factor)
    sch.rolling_buffer("B", 0)
    lowered = check(sch.func, lambda a: window_sums(a, step), (17, 5))
    assert lowered.allocations["B"][0] == ((factor - 1) * step + 3, 5)


def test_halves_of_steps_keep_the_least_that_is_needed_again() -> None:
    a = te.placeholder((14,), "int32", "A")
    b = te.compute((14,), lambda i: a[i] * 2, "B")
    c = te.compute((24,), lambda i: b[i // 2] + b[i // 2 + 2], "C")
    sch, _, _ = attached([a, b, c], 5)
    sch.rolling_buffer("B", 0)
    check(sch.func, lambda x: (x * 2)[np.arange(24) // 2] + (x * 2)[np.arange(24) // 2 + 2], (14,))


def test_borders_and_clamped_windows_keep_their_values() -> None:
    a = te.placeholder((11, 3), "int32", "A")
    b = te.compute((11, 3), lambda i, j: a[i, j] * 2, "B")
    c = te.compute(
        (11, 3),
        lambda i, j: te.if_then_else(i > 0, b[i - 1, j], 7) + b[i, j] + te.if_then_else(i < 10, b[i + 1, j], 9),
        "C",
    )

    def reference(x: Any) -> Any:
        padded = np.vstack([np.full((1, 3), 7), x * 2, np.full((1, 3), 9)])
        return padded[:-2] + padded[1:-1] + padded[2:]

    sch, _, _ = attached([a, b, c], 4)
    sch.rolling_buffer("B", 0)
    check(sch.func, reference, (11, 3))


def test_a_parallel_loop_around_starts_again_in_each_iteration() -> None:
    tensors = windows(10, 4)
    sch = Schedule([tensors[0], tensors[-1]])
    i, j = sch.get_loops("C")
    outer, inner = sch.split(i, factor=2)
    sch.reorder(j, outer, inner)
    sch.compute_at("B", outer)
    sch.rolling_buffer("B", 0)
    sch.parallel(j)
    lowered = check(sch.func, window_sums, (10, 4))
    assert lowered.allocations["B"][0] == (4, 1)


def test_loops_of_the_block_and_its_init_go_their_own_ways_afterwards() -> None:
    tensors = pools(2, 9, 8, 4)
    sch, _ = tiled(tensors, (2, 6))
    sch.rolling_buffer("P1", 0)
    *_, rows, _, channels, y, _ = sch.get_loops("P1")
    sch.split(rows, factor=3)
    sch.vectorize(channels)
    sch.decompose_reduction("P1", y)
    sch.unroll(sch.get_loops("P2")[0])
    check(sch.func, pooled, (9, 8, 4), "int8")


def test_the_trace_and_the_script_say_it() -> None:
    sch, _, _ = attached()
    sch.rolling_buffer(sch.get_block("B"), 0)
    assert "sch.rolling_buffer('B', 0)" in str(sch.trace)
    again = Trace.from_json(sch.trace.to_json()).apply(Schedule(Schedule(windows()[::2]).func))
    assert str(again) == str(sch)
    read = from_source(sch.func.script())
    assert isinstance(read, Function)
    assert str(lower_function(read)) == str(lower_function(sch.func))


def no_loop() -> Schedule:
    return Schedule(windows()[::2])


def steps_apart() -> Schedule:
    return attached(windows(12, step=3), 1)[0]


def backwards() -> Schedule:
    a, b, _ = windows()
    c = te.compute((8, 5), lambda i, j: b[7 - i, j] + b[9 - i, j], "C")
    return attached([a, b, c], 2)[0]


def both_ways() -> Schedule:
    """One loop moves along both dimensions: what a step leaves of the square before is no rows."""
    a = te.placeholder((10, 10), "int32", "A")
    b = te.compute((10, 10), lambda i, j: a[i, j] * 2, "B")
    x, y = te.reduce_axis((0, 3), "x"), te.reduce_axis((0, 3), "y")
    c = te.compute((8,), lambda i: te.sum(b[i + x, i + y], axis=[x, y]), "C")
    return attached([a, b, c], 2)[0]


def in_parallel() -> Schedule:
    sch, outer, _ = attached()
    sch.parallel(outer)
    return sch


def on_threads() -> Schedule:
    sch, outer, _ = attached()
    sch.bind(outer, "blockIdx.x")
    return sch


def doubled() -> Schedule:
    sch, _, _ = attached()
    sch.annotate("B", "double_buffer_scope", 0)
    return sch


def stored_in_tiles() -> Schedule:
    sch, _, _ = attached()
    sch.transform_layout("B", ("write", 0), lambda i, j: [i // 2, j, i % 2])
    return sch


def in_a_block() -> Schedule:
    sch, outer, _ = attached()
    sch.blockize(sch.get_loops("B")[2])
    assert outer in sch.get_loops("C")
    return sch


@pytest.mark.parametrize(
    ("program", "block", "why"),
    [
        (no_loop, "B", r"no loop is around both B and C[\s\S]*remedy: compute_at a loop of its consumer first"),
        (no_loop, "C", r"C is a parameter of the function[\s\S]*remedy: .*cache_write makes one"),
        (steps_apart, "B", "nothing that one has made is needed again"),
        (backwards, "B", "nothing that one has made is needed again"),
        (both_ways, "B", "no loop around B and C moves on by less"),
        (in_parallel, "B", r"i_0 is parallel: an iteration needs what the one before it has made[\s\S]*leave i_0"),
        (on_threads, "B", "bound to blockIdx.x"),
        (doubled, "B", "B is a double buffer, of which each half holds other iterations"),
        (stored_in_tiles, "B", "its spatial variables are not the indices at which it writes B"),
        (in_a_block, "B_o", "more than single elements"),
        (in_a_block, "B", "B is used inside a block"),
    ],
)
def test_what_cannot_roll_is_refused(program: Callable[[], Schedule], block: str, why: str) -> None:
    sch = program()
    before = sch.func
    with pytest.raises(ScheduleError, match=why):
        sch.rolling_buffer(block, 0)
    assert sch.func is before


def test_several_outputs_and_sums_in_parts_are_refused() -> None:
    a = te.placeholder((10,), "int32", "A")
    one, two = te.compute((10,), lambda i: (a[i] + 1, a[i] * 2), "B")
    c = te.compute((8,), lambda i: one[i] + one[i + 2] + two[i], "C")
    with pytest.raises(ScheduleError, match="it writes several buffers at once"):
        attached([a, one, c], 2)[0].rolling_buffer("B", 0)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (lambda s, x: s.parallel(x), "parallel: an iteration needs"),
        (lambda s, x: s.bind(x, "threadIdx.x"), "bound to threadIdx.x"),
        (lambda s, _: s.annotate("B", "double_buffer_scope", 0), "double buffer"),
        (lambda s, _: s.blockize(s.get_loops("B")[2]), "more than single elements"),
        (lambda s, _: s.transform_layout("B", "B", lambda i, j: [i // 2, j, i % 2]), "are not the indices"),
    ],
)
def test_later_steps_that_would_lose_values_are_refused(step: Callable[[Schedule, LoopRef], object], why: str) -> None:
    sch, outer, _ = attached()
    sch.rolling_buffer("B", 0)
    before = sch.func
    with pytest.raises(ScheduleError, match=rf"B of block B could no longer be a rolling buffer: [\s\S]*{why}"):
        step(sch, outer)
    assert sch.func is before
    sch.unannotate("B", "rolling_buffer")
    step(sch, outer)


def test_a_note_that_somebody_wrote_by_hand_is_checked_when_it_is_lowered() -> None:
    sch, outer, _ = attached()
    sch.parallel(outer)
    sch.annotate("C", "rolling_buffer", 0)
    with pytest.raises(LoweringError, match="rolling_buffer of C in block C: C is a parameter"):
        lower_function(sch.func)
    sch.unannotate("C", "rolling_buffer")
    sch.annotate("C", "rolling_buffer", 3)
    with pytest.raises(LoweringError, match="rolling_buffer speaks of buffer 3"):
        lower_function(sch.func)


def test_te_a_stage_rolls_where_it_is_attached() -> None:
    a, b, c = windows()
    s = te.create_schedule(c.op)
    s[b].rolling_buffer()
    outer, _ = s[c].split(c.op.axis[0], factor=4)
    s[b].compute_at(s[c], outer)
    s[c].parallel(s[c].op.axis[1])
    lowered = check(replay(s, [a, c]).func, window_sums, (10, 5))
    assert lowered.allocations["B"][0] == (6, 5)


@pytest.mark.parametrize("rolling", [("P1",), ("P2",), ("P1", "P2")])
def test_te_some_of_the_stages_roll(rolling: tuple[str, ...]) -> None:
    tensors = pools(3)
    last = tensors[-1]
    s = te.create_schedule(last.op)
    pairs = [s[last].split(axis, factor) for axis, factor in zip(last.op.axis, (2, 1, 2), strict=True)]
    s[last].reorder(*(outer for outer, _ in pairs), *(inner for _, inner in pairs))
    for stage in tensors[2:0:-1]:
        s[stage].compute_at(s[last], pairs[-1][0])
        if stage.op.name in rolling:
            s[stage].rolling_buffer()
    check(replay(s, [tensors[0], last]).func, lambda x: pooled(x, 3), (9, 8, 2), "int8")


def test_te_where_nothing_is_needed_twice_nothing_changes() -> None:
    programs = []
    for rolls in (False, True):
        a, b, c = windows(12, step=3)
        s = te.create_schedule(c.op)
        s[b].compute_at(s[c], c.op.axis[0])
        if rolls:
            s[b].rolling_buffer()
        programs.append(str(replay(s, [a, c])))
    assert programs[0] == programs[1]


def test_te_refusals_name_the_call() -> None:
    a, b, c = windows()
    s = te.create_schedule(c.op)
    with pytest.raises(ScheduleError, match=r"rolling_buffer\(\) of C: C is an output"):
        s[c].rolling_buffer()
    s[b].rolling_buffer()
    with pytest.raises(ScheduleError, match=r"test_rolling_buffer.py:.*no loop is around both"):
        replay(s, [a, c])
    outer, _ = s[c].split(c.op.axis[0], factor=4)
    s[b].compute_at(s[c], outer)
    s[c].parallel(outer)
    with pytest.raises(ScheduleError, match=r"i\.outer is parallel"):
        replay(s, [a, c])


def test_a_loop_around_what_rolls_is_cut_with_its_values() -> None:
    """The tail of the outer loop needs what the main part has made."""
    sch, _, _ = attached(windows(12), 4)
    sch.rolling_buffer("B", 0)
    lowered = check(sch.func, window_sums, (12, 5))
    assert sum(isinstance(s, For) for s in walk(lowered.body)) > 4
    assert len(lowered.allocations) == 1
