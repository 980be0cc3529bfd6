"""prefetch: what an iteration further on reads is asked for, line by line; values stay."""

from __future__ import annotations

from typing import Any

import pytest
from te_values import check_values, grid, matmul, stages

import pegbox as pb
from pegbox import te, tir
from pegbox.codegen import Target, emit
from pegbox.errors import ScheduleError
from pegbox.expr.build import index
from pegbox.expr.low_level import PREFETCH, Address
from pegbox.expr.nodes import Call, Const, Expr
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import substitute
from pegbox.loops.nodes import Evaluate, For, Function, Stmt
from pegbox.loops.visit import children, walk


def prefetched(func: Function) -> list[tuple[str, list[str]]]:
    """The pointers that are asked for: (buffer, indices)."""
    calls = [s.expr for s in walk(func.body) if isinstance(s, Evaluate) and isinstance(s.expr, Call)]
    pointers = [c.args[0] for c in calls if c.name == PREFETCH]
    return [(p.buffer.name, [str(i) for i in p.indices]) for p in pointers if isinstance(p, Address)]


def test_te_prefetch_of_rows_ahead(golden: Any) -> None:
    a, b = grid(6, 40)
    s = te.create_schedule(b.op)
    s[b].prefetch(a, b.op.axis[0], 2)
    check_values(s, [a, b])
    golden(pb.lower(s, [a, b], simple_mode=True))


def test_te_prefetch_of_a_tile_of_a_product(golden: Any) -> None:
    a, b, c = matmul(16, 24, 32)
    s = te.create_schedule(c.op)
    tile = s.cache_write(c, "local")
    _, jo, _, _ = s[c].tile(*c.op.axis, 4, 16)
    s[tile].compute_at(s[c], jo)
    ko, ki = s[tile].split(s[tile].op.reduce_axis[0], factor=4)
    s[tile].reorder(ko, ki, *s[tile].op.axis)
    s[tile].vectorize(s[tile].op.axis[1])
    s[tile].prefetch(b, ko, 1)
    check_values(s, [a, b, c])
    golden(pb.lower(s, [a, b, c], simple_mode=True))


def test_te_prefetch_is_the_instruction_of_the_machine() -> None:
    a, b = grid(6, 40)
    s = te.create_schedule(b.op)
    s[b].prefetch(a, b.op.axis[0], 1)
    text = emit(pb.lower(s, [a, b]), Target("llvm")).ll
    assert "call void @llvm.prefetch" in text


@pytest.mark.parametrize(("dtype", "lines"), [("float32", 3), ("float64", 6), ("int8", 1)])
def test_te_prefetch_asks_once_for_each_cache_line(dtype: str, lines: int) -> None:
    a = te.placeholder((6, 48), dtype, "A")
    b = te.compute((6, 48), lambda i, j: a[i, j] + 1, "B")
    s = te.create_schedule(b.op)
    s[b].prefetch(a, b.op.axis[0])
    loops = pb.lower(s, [a, b], simple_mode=True)
    counts = [line.split("range(")[1] for line in str(loops).splitlines() if "ax1" in line and "for" in line]
    assert counts == ([] if lines == 1 else [f"{lines}):"])


@pytest.mark.parametrize(
    ("k", "lanes", "lines"), [(12, 8, 6), (12, 4, 3), (5, 8, 3), (3, 4, 1), (4, 16, 4), (4, 12, 4)]
)
def test_te_prefetch_asks_once_for_rows_that_share_a_line(k: int, lanes: int, lines: int) -> None:
    a = te.placeholder((6, k, lanes), name="A")
    b = te.compute(a.shape, lambda i, j, z: a[i, j, z] + 1, "B")
    s = te.create_schedule(b.op)
    s[b].prefetch(a, b.op.axis[0])
    assert len(asked(pb.lower(s, [a, b]))) == 5 * lines


def test_te_prefetch_of_everything_by_pragma() -> None:
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    s[c].pragma(c.op.axis[0], "prefetch", 2)
    func = pb.lower(s, [a, b, c])
    assert [name for name, _ in prefetched(func)] == ["A", "B"]
    check_values(s, [a, b, c])


def test_te_prefetch_reads_at_a_distance_are_one_box_or_several() -> None:
    a = te.placeholder((100,), name="A")
    near = te.compute((40,), lambda i: a[i] + a[i + 1], "near")
    s = te.create_schedule(near.op)
    s[near].prefetch(a, near.op.axis[0])
    assert prefetched(pb.lower(s, [a, near])) == [("A", ["i + 1"])]
    mirrored = te.compute((40,), lambda i: a[i] + a[99 - i], "mirrored")
    s = te.create_schedule(mirrored.op)
    s[mirrored].prefetch(a, mirrored.op.axis[0])
    assert prefetched(pb.lower(s, [a, mirrored])) == [("A", ["i + 1"]), ("A", ["i * -1 + 98"])]
    check_values(s, [a, mirrored])


def test_te_prefetch_never_leaves_the_tensor() -> None:
    a = te.placeholder((10,), name="A")
    b = te.compute((10,), lambda i: a[9 - i], "B")
    s = te.create_schedule(b.op)
    s[b].prefetch(a, b.op.axis[0], 3)
    assert prefetched(pb.lower(s, [a, b])) == [("A", ["max(i * -1 + 6, 0)"])]


def test_te_prefetch_beyond_the_last_iteration_is_left_out() -> None:
    a, b = grid(6, 10)
    s = te.create_schedule(b.op)
    s[b].prefetch(a, b.op.axis[0], 6)
    assert prefetched(pb.lower(s, [a, b])) == []


@pytest.mark.parametrize("among", [False, True])
def test_te_prefetches_of_two_stages_in_a_merged_loop_ask_once_for_a_line(among: bool) -> None:
    a = te.placeholder((8, 128), name="A")
    b = te.compute((8, 128), lambda i, j: a[i, j] * 2, name="B")
    k = te.reduce_axis((0, 128), name="k")
    c = te.compute((8,), lambda i: te.sum(b[i, k] + a[i, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    jo, ji = s[b].split(b.op.axis[1], 32)
    ko, ki = s[c].split(k, 32)
    s[c].merge(ko, s[b], jo)
    s[b].prefetch(a, jo, 1, among=ji if among else None)
    s[c].prefetch(a, ko, 1, among=ki if among else None)
    found = prefetched(pb.lower(s, [a, c], simple_mode=True))
    assert len(found) == 1
    check_values(s, [a, c])


def test_te_prefetch_of_an_intermediate() -> None:
    a, b, c, d = stages()
    s = te.create_schedule(d.op)
    s[d].prefetch(c, d.op.axis[0], 1)
    check_values(s, [a, d])
    assert prefetched(pb.lower(s, [a, d]))[0][0] == "C"
    del b


def test_te_prefetch_of_what_an_inlined_stage_reads() -> None:
    a, b, c, d = stages()
    s = te.create_schedule(d.op)
    for stage in (b, c):
        s[stage].compute_inline()
    s[d].prefetch(a, d.op.axis[0], 1)
    check_values(s, [a, d])
    assert prefetched(pb.lower(s, [a, d]))[0][0] == "A"


def test_te_prefetch_speaks_of_its_own_stage() -> None:
    """The copy inside reads A as well, but elsewhere."""
    a = te.placeholder((10, 10), name="A")
    b = te.compute((10, 10), lambda i, j: a[j, i] + 1, "B")
    c = te.compute((10, 10), lambda i, j: b[i, j] + a[i, 0], "C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    s[c].prefetch(a, c.op.axis[0])
    assert prefetched(pb.lower(s, [a, c])) == [("A", ["min(i + 1, 9)", "0"])]
    check_values(s, [a, c])


def test_te_prefetch_of_what_a_stage_inside_the_loop_reads() -> None:
    a = te.placeholder((6, 40), name="A")
    b = te.compute((6, 40), lambda i, j: a[i, j] + 1, "B")
    c = te.compute((6, 40), lambda i, j: b[i, j] * b[i, 39 - j], "C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    s[c].prefetch(a, c.op.axis[0], 2)
    assert prefetched(pb.lower(s, [a, c])) == [("A", ["min(i + 2, 5)", "ax1 * 16"])]
    check_values(s, [a, c])


def test_te_prefetch_of_what_only_a_stage_outside_the_loop_reads_is_refused() -> None:
    a = te.placeholder((6, 40), name="A")
    b = te.compute((6, 40), lambda i, j: a[i, j] + 1, "B")
    c = te.compute((6, 40), lambda i, j: b[i, j] * 2, "C")
    s = te.create_schedule(c.op)
    s[c].prefetch(a, c.op.axis[0], 2)
    with pytest.raises(ScheduleError, match=r"prefetch\(A, i\): C does not read A any more; it reads B"):
        pb.lower(s, [a, c])


def halves(m: int = 40) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    a = te.placeholder((6, m), name="A")
    b = te.compute((6, m), lambda i, j: a[i, j] + 1, "B")
    return a, b, te.compute((6, m), lambda i, j: b[i, j] * b[i, m - 1 - j], "C")


def test_te_prefetches_are_shared_among_the_iterations_of_a_loop_inside(golden: Any) -> None:
    a, b, c = halves()
    s = te.create_schedule(c.op)
    i = c.op.axis[0]
    s[b].compute_at(s[c], i)
    blocks, lanes = s[b].split(b.op.axis[1], factor=8)
    s[b].vectorize(lanes)
    s[c].prefetch(a, i, 2, among=blocks)
    s[c].prefetch(c, i, 0, among=blocks)
    check_values(s, [a, c])
    golden(pb.lower(s, [a, c], simple_mode=True))


def test_a_prefetch_takes_the_place_of_the_one_before() -> None:
    a, b, c = halves()
    printed = []
    for first in (None, "rows", "blocks"):
        s = te.create_schedule(c.op)
        i = c.op.axis[0]
        s[b].compute_at(s[c], i)
        blocks, _ = s[b].split(b.op.axis[1], factor=8)
        if first is not None:
            s[c].prefetch(a, i, 1, among=blocks if first == "blocks" else None)
        s[c].prefetch(a, i, 2, among=c.op.axis[1])
        printed.append(pb.lower(s, [a, c], simple_mode=True))
    assert len(set(map(str, printed))) == 1
    assert "prefetch" in str(printed[0])


@pytest.mark.parametrize(("m", "rows", "factor"), [(40, 1, 8), (40, 3, 40), (100, 2, 8), (7, 3, 2), (256, 3, 64)])
def test_te_shared_prefetches_are_those_of_all_lines(m: int, rows: int, factor: int) -> None:
    """Whatever the loops, together they ask for the lines that one burst asks for."""
    a, b, c = halves(m)

    def places(shared: bool) -> set[tuple[int, ...]]:
        s = te.create_schedule(c.op)
        outer, _ = s[c].split(c.op.axis[0], factor=rows)
        s[b].compute_at(s[c], outer)
        among, _ = s[b].split(b.op.axis[1], factor=factor)
        s[c].prefetch(a, outer, 1, among=among if shared else None)
        check_values(s, [a, c])
        return asked(pb.lower(s, [a, c]))

    assert places(True) == places(False)


@pytest.mark.parametrize(("vectors", "panel", "k"), [(5, 2, 12), (6, 3, 8), (7, 4, 5), (3, 2, 1)])
def test_te_shared_prefetches_of_panels_clamp_the_number_of_a_line(vectors: int, panel: int, k: int) -> None:
    """The lines of panels that lie in one piece are counted: a clamp of each dimension would divide for each line."""
    a = te.placeholder((4, k), name="A")
    w = te.placeholder((vectors, k, 16), name="W")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((4, vectors, 16), lambda i, v, z: te.sum(a[i, r] * w[v, r, z], axis=r), name="C")

    def lowered(shared: bool) -> Function:
        s = te.create_schedule(c.op)
        sums = s.cache_write(c, "local")
        i, v, z = c.op.axis
        outer, inner = s[c].split(v, factor=panel)
        rows, row = s[c].split(i, factor=2)
        s[c].reorder(outer, rows, row, inner, z)
        s[sums].compute_at(s[c], rows)
        _, *axes = s[sums].op.axis
        s[sums].reorder(s[sums].op.reduce_axis[0], s[sums].op.axis[0], *axes)
        s[c].prefetch(w, outer, 1, among=s[sums].op.reduce_axis[0] if shared else None)
        check_values(s, [a, w, c])
        return pb.lower(s, [a, w, c])

    assert asked(lowered(True)) == asked(lowered(False))
    for _, (at, _, _) in prefetched(lowered(True)):
        assert not at.endswith(f", {vectors - 1})"), at


@pytest.mark.parametrize(("channels", "vectors"), [(64, 1), (72, 1), (72, 2), (100, 2), (20, 4), (72, 8), (128, 3)])
def test_te_shared_prefetches_of_rows_that_lie_apart_are_those_of_all_lines(channels: int, vectors: int) -> None:
    a = te.placeholder((4, 12, channels), name="A")
    k = te.reduce_axis((0, 3), name="k")
    c = te.compute((4, 10, channels), lambda y, x, z: te.sum(a[y, x + k, z], axis=k), name="C")

    def lowered(shared: bool) -> Function:
        s = te.create_schedule(c.op)
        sums = s.cache_write(c, "local")
        y, x, z = c.op.axis
        yt, yi = s[c].split(y, factor=2)
        xt, xi = s[c].split(x, factor=5)
        zt, zi = s[c].split(z, factor=16 * vectors)
        s[c].reorder(yt, xt, zt, yi, xi, zi)
        s[sums].compute_at(s[c], zt)
        s[sums].reorder(s[sums].op.reduce_axis[0], *s[sums].op.axis)
        s[c].prefetch(c, xt, 1, among=s[sums].op.reduce_axis[0] if shared else None)
        check_values(s, [a, c])
        return pb.lower(s, [a, c])

    assert asked(lowered(True)) == asked(lowered(False))
    if vectors == 1:  # the channel is a multiple of a loop's variable
        assert all("%" not in at and "//" not in at for _, (_, _, at) in prefetched(lowered(True)))
    if channels == 128:  # shifts find one of eight lines; one of three would take divisions
        assert all("% 3" not in at and "// 3" not in at for _, place in prefetched(lowered(True)) for at in place)


def asked(func: Function) -> set[tuple[int, ...]]:
    """The indices of all prefetches while the program runs."""
    found: set[tuple[int, ...]] = set()

    def run(stmt: Stmt, env: dict[Expr, Expr]) -> None:
        match stmt:
            case For():
                for n in range(stmt.extent):
                    run(stmt.body, {**env, stmt.var: index(n)})
            case Evaluate(Call(args=(Address() as pointer, *_))):
                places = (simplify(substitute(place, env), {}) for place in pointer.indices)
                found.add(tuple(place.value for place in places if isinstance(place, Const)))
            case _:
                for child in children(stmt):
                    run(child, env)

    run(func.body, {})
    return found


def test_te_shared_prefetches_come_into_the_second_cache_and_those_of_the_output_for_writing() -> None:
    a, b, c = halves()
    s = te.create_schedule(c.op)
    i = c.op.axis[0]
    s[b].compute_at(s[c], i)
    for tensor, offset in (a, 1), (c, 0):
        s[c].prefetch(tensor, i, offset, among=b.op.axis[1])
    text = emit(pb.lower(s, [a, c]), Target("llvm")).ll
    assert ", i32 0, i32 2, i32 1)" in text
    assert ", i32 1, i32 3, i32 1)" in text


def test_te_prefetch_among_a_loop_that_vanishes_comes_at_once() -> None:
    a, b, c = halves()
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    one, _ = s[b].split(b.op.axis[1], nparts=1)
    s[c].prefetch(a, c.op.axis[0], 1, among=one)
    assert prefetched(pb.lower(s, [a, c])) == [("A", ["min(i + 1, 5)", "ax1 * 16"])]
    check_values(s, [a, c])


def test_te_prefetch_among_another_loop_is_refused() -> None:
    a, b, c = halves()
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    s[c].prefetch(b, j, 1, among=i)
    with pytest.raises(
        ScheduleError, match=r"i is not inside j[\s\S]*remedy: share the prefetches among a loop inside"
    ):
        pb.lower(s, [a, c])
    s[c].prefetch(b, j, 1, among=b.op.axis[1])
    s[b].compute_inline()
    with pytest.raises(ScheduleError, match="j is not a loop of a stage that is computed; share"):
        pb.lower(s, [a, c])


def test_te_prefetch_is_refused_with_the_reason() -> None:
    a, b, c, d = stages()
    s = te.create_schedule(d.op)
    i = d.op.axis[0]
    with pytest.raises(ScheduleError, match=r"prefetch\(E, i, 1\) of D: D does not access E; it reads C"):
        s[d].prefetch(te.placeholder((3,), name="E"), i, 1)
    with pytest.raises(
        ScheduleError, match=r"prefetch\(C, i, 1\) of D: i is not a loop of this stage; the loops of D are i, j"
    ):
        s[d].prefetch(c, c.op.axis[0], 1)
    for offset in (0, -1, 1.5, True, None):
        with pytest.raises(
            ScheduleError, match=r"prefetch\(C, i, .*\) of D: the offset is .*; give the number of iter"
        ):
            s[d].prefetch(c, i, offset)
    with pytest.raises(
        ScheduleError, match=r"prefetch\(C, i, 1\) of D: 'C' is not a tensor; give one that the stage reads"
    ):
        s[d].prefetch("C", i, 1)
    del a, b


def test_te_prefetch_of_what_is_made_or_gone_by_then_is_refused_when_lowered() -> None:
    a, b, c, d = stages()
    i = d.op.axis[0]
    s = te.create_schedule(d.op)
    s[d].prefetch(c, i, 1)
    s[c].compute_at(s[d], i)
    with pytest.raises(ScheduleError, match="C is computed anew in each iteration of i, so nothing can be prefet"):
        pb.lower(s, [a, d])
    s[c].compute_inline()
    with pytest.raises(ScheduleError, match=r"prefetch\(C, i\): D does not read C any more; it reads B: prefetch on"):
        pb.lower(s, [a, d])
    s[c].compute_root()
    s[d].vectorize(i)
    with pytest.raises(ScheduleError, match=r"prefetch\(D, C, i, 1\): i is vectorized: its iterations are lanes"):
        pb.lower(s, [a, d])
    del b


def test_te_a_loop_with_a_prefetch_is_not_split_any_more() -> None:
    a, b = grid()
    s = te.create_schedule(b.op)
    s[b].prefetch(a, b.op.axis[0], 1)
    with pytest.raises(
        ScheduleError, match="a prefetch counts the iterations of i; do this first, then prefetch in the"
    ):
        s[b].split(b.op.axis[0], factor=2)


# tir.Schedule


def test_prefetch_is_a_note_until_the_program_is_lowered(programs: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = tir.Schedule(args)
    i, _, _ = sch.get_loops("C")
    sch.prefetch("C", "A", i, 2)
    sch.prefetch("C", 1, i)
    sch.prefetch("C", "A", i, 3)
    assert "for i in range(5):  # prefetch = ('C', 'B', 1, 'C', 'A', 3)" in str(sch)
    check_values(sch, reference)
    assert [name for name, _ in prefetched(pb.lower(sch))] == ["B", "A"]
    again = tir.Trace.from_json(sch.trace.to_json()).apply(tir.Schedule(args))
    assert str(again) == str(sch)


def test_prefetch_among_a_loop_is_kept_in_the_trace(programs: Any, check_values: Any) -> None:
    args, reference = programs.matmul()
    sch = tir.Schedule(args)
    i, _, k = sch.get_loops("C")
    sch.prefetch("C", "A", i, 1, among=k)
    sch.prefetch("C", "C", i, 0, among=k)
    check_values(sch, reference)
    assert sorted(name for name, _ in prefetched(pb.lower(sch))) == ["A", "C"]
    again = tir.Trace.from_json(sch.trace.to_json()).apply(tir.Schedule(args))
    assert str(again) == str(sch)
    for loop, among, message in (
        (k, i, "i is not inside k"),
        (i, i, "i is not inside i"),
    ):
        with pytest.raises(ScheduleError, match=message):
            sch.prefetch("C", "A", loop, 1, among=among)
    with pytest.raises(
        ScheduleError, match=r"the offset is -1[\s\S]*remedy: give the number of iterations ahead: an integer from 0"
    ):
        sch.prefetch("C", "A", i, -1, among=k)


def test_prefetch_is_refused_with_the_place(programs: Any) -> None:
    args, _ = programs.chain()
    sch = tir.Schedule(args)
    (i,) = sch.get_loops("D")
    before = str(sch)
    with pytest.raises(
        ScheduleError, match=r"block D accesses no buffer 'B'[\s\S]*remedy: choose among 0: C, 1: A, 2: D"
    ):
        sch.prefetch("D", "B", i)
    with pytest.raises(ScheduleError, match="the offset is 0"):
        sch.prefetch("D", "C", i, 0)
    with pytest.raises(ScheduleError, match="D is not inside i") as refused:
        sch.prefetch("D", "C", *sch.get_loops("A"))
    assert "\n  >     block D" in str(refused.value)
    assert str(sch) == before


def test_prefetch_in_lanes_that_come_later_is_left_out(programs: Any) -> None:
    args, reference = programs.matmul()
    sch = tir.Schedule(args)
    i, _, _ = sch.get_loops("C")
    sch.prefetch("C", "A", i)
    sch.vectorize(i)
    assert prefetched(pb.lower(sch)) == []
    del reference
