"""Programs that people wrote: what only their order keeps right is refused, and stays right."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fuzz.steps import random_step
from interpreter import interpret

from pegbox.errors import LoweringError, ScheduleError
from pegbox.expr import build
from pegbox.expr.nodes import Buffer, Expr, Load, Var
from pegbox.loops.access.region import reads_and_writes
from pegbox.loops.nodes import Block, BlockIter, BlockRealize, For, Function, IterKind, Region, Stmt, Store, seq
from pegbox.loops.passes import lower_function
from pegbox.schedule import Schedule
from pegbox.tir.script import from_source
from pegbox.tir.script import ir as I
from pegbox.tir.script import tir as T

N = 6
Axis = tuple[Var, int, str, Expr]


def _block(name: str, axes: Sequence[Axis], body: Stmt, init: Stmt | None = None, where: Expr = build.TRUE) -> Stmt:
    reads, writes = reads_and_writes(body, init)
    iters = tuple(BlockIter(var, extent, IterKind(kind)) for var, extent, kind, _ in axes)
    return BlockRealize(tuple(a[3] for a in axes), Block(name, iters, reads, writes, body, init), where)


def _loops(loops: Sequence[tuple[Var, int]], body: Stmt) -> Stmt:
    for var, extent in reversed(loops):
        body = For(var, extent, body)
    return body


def _line(name: str, target: Buffer, value: Callable[[Var], Any], at: Callable[[Var], Any] = lambda v: v) -> Stmt:
    """`target[at(vi)] = value(vi)` over one loop."""
    i, vi = Var("i"), Var("vi")
    body = Store(target, (build.as_expr(at(vi)),), build.as_expr(value(vi)))
    return For(i, N, _block(name, [(vi, N, "spatial", i)], body))


def _f(value: float) -> Expr:
    return build.const(value, "float32")


def _before(buffer: Buffer, index: Var, *others: Expr) -> Expr:
    """The element before, or 0 for the first."""
    inside = build.compare("gt", index, build.index(0))
    return build.select(inside, Load(buffer, (index - 1, *others)), _f(0))


A = Buffer("A", (N,), "float32")
M = Buffer("M", (N, N), "float32")


def _function(body: Sequence[Stmt], inputs: Sequence[Buffer], out: Buffer, allocs: Sequence[Buffer] = ()) -> Function:
    return Function("main", (*inputs, out), (out,), seq(*body), tuple(allocs))


def _scan() -> Function:
    """Each row needs the one before, the other way round."""
    out, i, j, vi, vj = Buffer("O", (N, N)), Var("i"), Var("j"), Var("vi"), Var("vj")
    body = Store(out, (vi, vj), _before(out, vi, 5 - vj) + Load(M, (vi, vj)))
    axes = [(vi, N, "spatial", i), (vj, N, "spatial", j)]
    return _function([_loops([(i, N), (j, N)], _block("S", axes, body))], [M], out)


def _last_one_stays() -> Function:
    """Two iterations write each element."""
    t, out = Buffer("T", (N // 2,)), Buffer("O", (N,))
    first = _line("T", t, lambda v: Load(A, (v,)), at=lambda v: v // 2)
    return _function([first, _line("O", out, lambda v: Load(t, (v // 2,)))], [A], out, [t])


def _horner() -> Function:
    """An update that is not a sum: the order of the reduce variable counts."""
    out, i, k, vi, vk = Buffer("O", (N,)), Var("i"), Var("k"), Var("vi"), Var("vk")
    axes = [(vi, N, "spatial", i), (vk, N, "reduce", k)]
    body = Store(out, (vi,), Load(out, (vi,)) * _f(2) + Load(M, (vi, vk)))
    nest = _loops([(i, N), (k, N)], _block("H", axes, body, Store(out, (vi,), _f(0))))
    return _function([nest], [M], out)


def _partial_sums() -> Function:
    """E takes what C has added up so far."""
    c, out = Buffer("C", (N,)), Buffer("O", (N, N))
    i, k, vi, vk, ui, uk = (Var(n) for n in ("i", "k", "vi", "vk", "ui", "uk"))
    add = Store(c, (vi,), Load(c, (vi,)) + Load(M, (vi, vk)))
    sums = _block("C", [(vi, N, "spatial", i), (vk, N, "reduce", k)], add, Store(c, (vi,), _f(0)))
    take = _block("E", [(ui, N, "spatial", i), (uk, N, "spatial", k)], Store(out, (ui, uk), Load(c, (ui,))))
    return _function([_loops([(i, N), (k, N)], seq(sums, take))], [M], out, [c])


def _written_anew() -> Function:
    """B takes the first T, O the second."""
    t, b, out = Buffer("T", (N,)), Buffer("B", (N,)), Buffer("O", (N,))
    parts = [
        _line("T", t, lambda v: Load(A, (v,))),
        _line("B", b, lambda v: Load(t, (v,)) * _f(2)),
        _line("T2", t, lambda v: Load(A, (5 - v,)) + _f(1)),
        _line("O", out, lambda v: Load(b, (v,)) + Load(t, (v,))),
    ]
    return _function(parts, [A], out, [t, b])


def _in_place() -> Function:
    """Each element is changed after the one before was."""
    t, out = Buffer("T", (N,)), Buffer("O", (N,))
    parts = [
        _line("T", t, lambda v: Load(A, (v,))),
        _line("P", t, lambda v: Load(t, (v,)) + _before(t, v)),
        _line("O", out, lambda v: Load(t, (v,))),
    ]
    return _function(parts, [A], out, [t])


def _hidden_read() -> Function:
    """O reads an element more than its region has."""
    t, out = Buffer("T", (N,)), Buffer("O", (N,))
    consumer = _line("O", out, lambda v: Load(t, (v,)) + _before(t, v))
    assert isinstance(consumer, For)
    assert isinstance(consumer.body, BlockRealize)
    block = consumer.body.block
    (own,) = (it.var for it in block.iters)
    lying = replace(consumer.body, block=replace(block, reads=(Region(t, ((own, 1),)),)))
    return _function([_line("T", t, lambda v: Load(A, (v,))), consumer.with_body(lying)], [A], out, [t])


def _even_sum() -> Function:
    """The predicate is a part of what is computed."""
    c, out, i, k, vi, vk = Buffer("C", (N,)), Buffer("O", (N,)), Var("i"), Var("k"), Var("vi"), Var("vk")
    axes = [(vi, N, "spatial", i), (vk, N, "reduce", k)]
    add, start = Store(c, (vi,), Load(c, (vi,)) + Load(M, (vi, vk))), Store(c, (vi,), _f(0))
    sums = _block("C", axes, add, start, build.compare("eq", k % 2, build.index(0)))
    return _function([_loops([(i, N), (k, N)], sums), _line("O", out, lambda v: Load(c, (v,)))], [M], out, [c])


def _again() -> Function:
    """A sum without a start of its own, in a loop that it does not depend on: it is taken twice."""
    t, c, out = Buffer("T", (N,)), Buffer("C", (N,)), Buffer("O", (N,))
    r, i, k, vi, vk = (Var(n) for n in ("r", "i", "k", "vi", "vk"))
    add = Store(c, (vi,), Load(c, (vi,)) + Load(M, (vi, vk)) * Load(t, (vi,)))
    sums = _block("C", [(vi, N, "spatial", i), (vk, N, "reduce", k)], add)
    parts = [_line("T", t, lambda v: _f(3)), _line("Z", c, lambda v: _f(0)), _loops([(r, 2), (i, N), (k, N)], sums)]
    return _function([*parts, _line("O", out, lambda v: Load(c, (v,)))], [M], out, [t, c])


def _starts_in_the_middle() -> Function:
    """The reduce variable runs backwards: the element that starts the sum comes last."""
    out, i, k, vi, vk = Buffer("O", (N,)), Var("i"), Var("k"), Var("vi"), Var("vk")
    axes = [(vi, N, "spatial", i), (vk, N, "reduce", 5 - k)]
    body = Store(out, (vi,), Load(out, (vi,)) + Load(M, (vi, vk)))
    nest = _loops([(i, N), (k, N)], _block("H", axes, body, Store(out, (vi,), _f(0))))
    return _function([_line("Z", out, lambda v: _f(0)), nest], [M], out)


def _inner_first(sch: Schedule, block: str) -> None:
    outer, inner = sch.get_loops(block)
    sch.reorder(inner, outer)


def _taking_turns() -> Function:
    """Two sums in the same loops, on the same elements in another order; the first one starts them."""
    out = Buffer("O", (N,))
    i, k, vi, vk, ui, uk = (Var(n) for n in ("i", "k", "vi", "vk", "ui", "uk"))
    one, two = Store(out, (vi,), Load(out, (vi,)) + Load(M, (vi, vk))), 5 - ui
    first = _block("P", [(vi, N, "spatial", i), (vk, N, "reduce", k)], one, Store(out, (vi,), _f(0)))
    more = Store(out, (two,), Load(out, (two,)) + Load(M, (ui, uk)))
    second = _block("Q", [(ui, N, "spatial", i), (uk, N, "reduce", k)], more)
    zero = _line("Z", out, lambda v: _f(0))
    return _function([zero, _loops([(i, N), (k, N)], seq(first, second))], [M], out)


def _tiles_swapped(sch: Schedule, block: str) -> None:
    loop = sch.get_loops(block)[-1]
    sch.reorder(*reversed(sch.split(loop, [2, 3])))


CASES: list[tuple[Callable[[], Function], Callable[[Schedule], object], str]] = [
    (_scan, lambda s: _inner_first(s, "S"), "S reads rows of O that S makes in earlier iterations"),
    (_scan, lambda s: s.parallel(s.get_loop("S", 0)), "i cannot be parallel: S reads elements of O"),
    (_last_one_stays, lambda s: s.parallel(s.get_loop("T", 0)), "several iterations of vi may write the same"),
    (_last_one_stays, lambda s: _tiles_swapped(s, "T"), "several iterations of vi may write the same"),
    (_horner, lambda s: _tiles_swapped(s, "H"), "not a sum, product, minimum or maximum"),
    (_partial_sums, lambda s: s.compute_at("C", s.get_loop("E", 1)), "in which C goes on writing it"),
    (_partial_sums, lambda s: _tiles_swapped(s, "C"), "in which C goes on writing it"),
    (_written_anew, lambda s: s.compute_at("B", s.get_loop("O", 0)), "B reads T before T2 writes it anew"),
    (_written_anew, lambda s: s.compute_inline("B"), "B reads T before T2 writes it anew"),
    (_written_anew, lambda s: s.cache_write("T", 0, "local"), "before T2 writes it anew"),
    (_in_place, lambda s: s.parallel(s.get_loop("P", 0)), "reads other elements of what it writes"),
    (_in_place, lambda s: _tiles_swapped(s, "P"), "reads other elements of what it writes"),
    (_hidden_read, lambda s: s.compute_at("T", s.get_loop("O", 0)), "outside the regions that it states"),
    (_even_sum, lambda s: s.compute_at("C", s.get_loop("O", 0)), "predicate leaves out iterations"),
    (_taking_turns, lambda s: _inner_first(s, "P"), "P and Q take turns in writing O"),
    (_again, lambda s: s.reverse_compute_at("C", s.get_loop("T", 0)), "it adds up again in each iteration of r"),
]  # fmt: skip


def _run(func: Function) -> Any:
    rng = np.random.default_rng(3)
    inputs = [rng.integers(-4, 5, b.shape).astype(b.dtype) for b in func.params if b not in func.outputs]
    return interpret(func, inputs)[0]


@pytest.mark.parametrize(("program", "step", "why"), CASES)
def test_what_needs_its_order_is_refused(
    program: Callable[[], Function], step: Callable[[Schedule], object], why: str
) -> None:
    func = program()
    sch = Schedule(func)
    before = len(sch.trace)
    with pytest.raises(ScheduleError, match=why):
        step(sch)
    np.testing.assert_array_equal(_run(sch.func), _run(func))
    assert all(s.primitive == "split" for s in sch.trace.steps[before:])


@pytest.mark.parametrize(("program", "step", "why"), CASES)
def test_what_is_refused_would_have_been_wrong(
    program: Callable[[], Function], step: Callable[[Schedule], object], why: str
) -> None:
    """The step, with the check of legality lifted, is refused for another reason or makes another program."""
    func = program()
    sch = Schedule(func)
    sch.legality.lift()
    try:
        step(sch)
        got = _run(sch.func)
    except (ScheduleError, IndexError, LoweringError):
        return
    assert (got != _run(func)).any()


@pytest.mark.parametrize("program", [_scan, _horner, _in_place, _partial_sums])
def test_disorderly_blocks_can_be_split_fused_unrolled_and_annotated(program: Callable[[], Function]) -> None:
    func = program()
    sch = Schedule(func)
    name = next(b.name for b in sch.get_blocks() if b.name in "SHPC")
    loops = sch.get_loops(name)
    outer, inner = sch.split(loops[-1], factor=4)
    sch.annotate(name, "note", 1)
    sch.unroll(inner)
    sch.unannotate(name, "note")
    fused = sch.fuse(*loops[:-1], outer)
    sch.add_unit_loop(fused)
    np.testing.assert_array_equal(_run(sch.func), _run(func))


def test_programs_without_disorder_are_as_free_as_computed_ones(programs: Any) -> None:
    """A function is checked; the same program from tensors is not. Both take the same steps."""
    for maker in programs.all:
        args, _ = maker()
        free = Schedule(args)
        checked = Schedule(free.func)
        for block in free.get_blocks():
            checked.legality.check(checked.func.name, checked.tree, [block], moves=True)  # raises where it is not


def test_a_reduction_that_starts_at_its_last_visit_is_lowered_so() -> None:
    func = _starts_in_the_middle()
    np.testing.assert_array_equal(_run(lower_function(func)), _run(func))


def _random_program(choose: Callable[[int], int]) -> Function:
    """A few nests over a few buffers, with little regard for order."""
    buffers = [Buffer(f"T{n}", (N,)) for n in range(3)]
    out = Buffer("O", (N,))
    parts = [_line(f"start{n}", b, lambda v, n=n: Load(A, (v,)) + _f(n)) for n, b in enumerate(buffers)]
    for number in range(1 + choose(4)):
        parts.append(_random_nest(f"B{number}", buffers, choose))
    value = [lambda v, b=b: Load(b, (v,)) for b in buffers]
    total = _line("O", out, lambda v: value[0](v) + value[1](v) * _f(2) + value[2](v) * _f(4))
    return _function([*parts, total], [A, M], out, buffers)


def _random_nest(name: str, buffers: Sequence[Buffer], choose: Callable[[int], int]) -> Stmt:
    i, k = Var("i"), Var("k")
    blocks = [_random_block(f"{name}{letter}", i, k, buffers, choose) for letter in "xy"[: 1 + choose(2)]]
    return _loops([(i, N), (k, N)], seq(*blocks))


def _random_block(name: str, i: Var, k: Var, buffers: Sequence[Buffer], choose: Callable[[int], int]) -> Stmt:
    vi, vk = Var("vi"), Var("vk")
    target, source = buffers[choose(3)], buffers[choose(3)]
    reduces = choose(3) > 0
    places: list[Callable[[], Expr]] = [
        lambda: vi, lambda: vi, lambda: vi, lambda: 5 - vi, lambda: vi // 2, lambda: vk, lambda: build.index(2),
    ]  # fmt: skip
    at, frm = places[choose(len(places))](), places[choose(len(places))]()
    value: Expr = Load(source, (frm,)) + (Load(M, (vi, vk)) if choose(2) else _f(1))
    if choose(2):
        value = Load(target, (at,)) + value
    init = Store(target, (at,), _f(0)) if reduces and choose(2) and at is not vk else None
    axes = [(vi, N, "spatial", i), (vk, N, "reduce" if reduces else "spatial", k)]
    return _block(name, axes, Store(target, (at,), value), init)


def test_random_programs_keep_their_values() -> None:
    done = 0
    for seed in range(150):
        choose = random.Random(seed).randrange
        func = _random_program(choose)
        want = _run(func)
        sch = Schedule(func)
        for _ in range(12):
            with suppress(ScheduleError):
                random_step(sch, choose)
                done += 1
        np.testing.assert_array_equal(_run(sch.func), want, err_msg=f"seed {seed}\n{func}\n{sch.trace}")
    assert done > 150


def _script(body: str) -> Function:
    text = (
        "from pegbox.tir.script import tir as T\n\n@T.prim_func\n"
        "def f(A: T.Buffer((8, 6), 'float32'), B: T.Buffer((8,), 'float32')):\n"
    )
    found = from_source(text + "\n".join(f"    {line}" for line in body.strip("\n").splitlines()) + "\n")
    assert isinstance(found, Function)
    return found


_START = """
for i in range({0}):
    with T.block("z"):
        vi = T.axis.spatial({0}, i)
        B[vi] = 0.0
"""
_UPDATE = """
for i, k in T.grid(8, 6):
    with T.block("u"):
        vi, vk = T.axis.remap("SR", [i, k])
        B[vi] = B[vi] + A[vi, vk]
"""
_SOME = """
for i in range(8):
    with T.block("u"):
        vi = T.axis.spatial(8, i)
        if A[vi, 0] > 0.5:
            B[vi] = 1.0
"""
_STATED = """
for i in range(4):
    with T.block("u"):
        vi = T.axis.spatial(4, i)
        T.reads(A[vi, 0])
        T.writes(B[vi * 2:vi * 2 + 2])
        B[vi * 2] = A[vi, 0]
"""


_GUARDED = _START.format(8).replace("B[vi] = 0", "T.where(i < 4)\n        B[vi] = 0")


@pytest.mark.parametrize("body", [_UPDATE, _START.format(4) + _UPDATE, _GUARDED + _UPDATE, _SOME, _STATED])
@pytest.mark.parametrize("step", ["cache_write", "reindex"])
def test_what_the_caller_has_put_into_an_output_is_not_lost(body: str, step: str) -> None:
    sch = Schedule(_script(body))
    before = str(sch.func)
    with pytest.raises(ScheduleError, match=r"block u has to stay where it is: u .*what the caller has put"):
        sch.cache_write("u", 0, "local") if step == "cache_write" else sch.reindex("u", ("write", 0))
    assert str(sch.func) == before


@pytest.mark.parametrize("body", [_START.format(8) + _UPDATE, _SOME + "        else:\n            B[vi] = 2.0\n"])
def test_an_output_that_is_made_anew_is_copied(body: str) -> None:
    func = _script(body)
    sch = Schedule(func)
    sch.cache_write("u", 0, "local")
    a = np.random.default_rng(0).random((8, 6), dtype="float32")
    np.testing.assert_array_equal(interpret(sch.func, [a])[0], interpret(func, [a])[0])


def test_the_parts_of_a_block_that_stays_where_it_is_stay_too() -> None:
    for step in ("blockize", "loop_partition"):
        sch = Schedule(_script(_UPDATE))
        outer, inner = sch.split(sch.get_loop("u", 0), factor=4)
        part = sch.blockize(inner).name if step == "blockize" else "u_i_0_1"
        if step == "loop_partition":
            sch.loop_partition(outer, [1, None])
        with pytest.raises(ScheduleError, match="u goes on from what the caller has put in B"):
            sch.cache_write(part, 0, "local")


def test_where_a_scatter_writes_is_read_from_memory() -> None:
    body = "for i in range(8):\n    with T.block('u'):\n        vi = T.axis.spatial(8, i)\n"
    sch = Schedule(_script(body + "        B[T.cast(A[vi, 0], 'int64')] = A[vi, 1]\n"))
    with pytest.raises(ScheduleError, match="where it writes B is read from memory"):
        sch.parallel(sch.get_loop("u", 0))


@I.ir_module
class RunningSums:
    """Sums along rows, in blocks of a block: the inner iterations depend on each other."""

    @T.prim_func
    def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
        for i in range(4):
            with T.block("row"):
                vi = T.axis.spatial(4, i)
                for j in range(8):
                    with T.block("sum"):
                        vj = T.axis.spatial(8, j)
                        B[vi, vj] = T.if_then_else(vj > 0, B[vi, vj - 1], T.float32(0)) + A[vi, vj]


@pytest.mark.parametrize("kind", ["parallel", "vectorize"])
def test_the_first_step_inside_of_a_block_is_checked_like_later_ones(kind: str) -> None:
    sch = Schedule(RunningSums)
    loop = sch.get_loops("sum")[-1]
    with pytest.raises(ScheduleError, match="the iterations of block row have to keep their order"):
        getattr(sch, kind)(loop)


def test_questions_about_what_keeps_its_order_are_answered() -> None:
    sch = Schedule(RunningSums)
    with pytest.raises(ScheduleError):
        sch.parallel(sch.get_loops("row")[-1])
    assert sch.extent(sch.get_loops("sum")[-1]) == 8


def test_the_variables_of_a_block_stand_still_inside_of_it() -> None:
    sch = Schedule(Tiles)
    i, j = sch.get_loops("tile")
    sch.reorder(j, i)
    assert [x.name for x in sch.get_loops("tile")] == ["j", "i"]
    overlapping = Schedule(from_source(Tiles.script().replace("vo * 4 + vi", "vo * 4 + vi // 2")))
    with pytest.raises(ScheduleError, match="in its block one, several iterations of vi may write the same elements"):
        overlapping.reorder(*reversed(overlapping.get_loops("tile")))


@I.ir_module
class Tiles:
    @T.prim_func
    def main(A: T.Buffer((8, 3), "float32"), B: T.Buffer((8, 3), "float32")):
        for i, j in T.grid(2, 3):
            with T.block("tile"):
                vo, vj = T.axis.remap("SS", [i, j])
                T.reads(A[vo * 4 : vo * 4 + 4, vj])
                T.writes(B[vo * 4 : vo * 4 + 4, vj])
                for k in range(4):
                    with T.block("one"):
                        vi = T.axis.spatial(4, k)
                        B[vo * 4 + vi, vj] = A[vo * 4 + vi, vj]
