"""Computations that threads share leave their loops where that is sound; everything else stays as it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from interpreter import interpret
from lowered_interpreter import run

from pegbox import te
from pegbox.expr.build import const, index
from pegbox.expr.nodes import Buffer, Load, Var
from pegbox.loops.access.region import reads_and_writes
from pegbox.loops.nodes import (
    Block,
    BlockIter,
    BlockRealize,
    For,
    ForKind,
    Function,
    IterKind,
    Stmt,
    Store,
    seq,
)
from pegbox.loops.passes import lower_function
from pegbox.loops.threads.cooperation import share_work
from pegbox.schedule import Schedule


def thread(var: Var, extent: int, body: Stmt, tag: str = "threadIdx.x") -> For:
    return For(var, extent, body, ForKind(tag))


def assign(name: str, loops: dict[Var, int], make: Any) -> BlockRealize:
    """A block whose variables are bound to the loops; `make` gives its store from the variables."""
    iters = tuple(BlockIter(Var(f"v{var.name}"), extent, IterKind.SPATIAL) for var, extent in loops.items())
    body = make(*(it.var for it in iters))
    reads, writes = reads_and_writes(body)
    return BlockRealize(tuple(loops), Block(name, iters, reads, writes, body))


X, S, L, Y = (
    Buffer(n, (4, 4), "float32", s) for n, s in (("X", "global"), ("S", "shared"), ("L", "local"), ("Y", "global"))
)
T, U, K = Var("t"), Var("u"), Var("k")


def fetch(u: Var) -> For:
    """The threads fetch a row of X together."""
    copy = assign("S", {K: 4, u: 4}, lambda k, v: Store(S, (k, v), Load(X, (k, v))))
    return thread(u, 4, copy)


def program(*stmts: Stmt, outputs: tuple[Buffer, ...] = (Y,), allocs: tuple[Buffer, ...] = (S, L)) -> Function:
    """Write a program of the statements for each thread and each row."""
    return Function("main", (X, *outputs), outputs, thread(T, 4, For(K, 4, seq(*stmts))), allocs)


def same_values(func: Function) -> None:
    """The pass and all that follows keep what the loops say, read one after the other."""
    x = np.arange(16, dtype="float32").reshape(4, 4)
    expected = interpret(func, [x])
    for lowered in (lower_function(func), lower_function(func, simple=True)):
        arrays = [x, *(np.zeros_like(e) for e in expected)]
        run(lowered, arrays)
        for got, want in zip(arrays[1:], expected, strict=True):
            np.testing.assert_array_equal(got, want)


USE = assign("Y", {T: 4, K: 4}, lambda t, k: Store(Y, (k, t), Load(S, (k, t)) + Load(S, (k, index(3) - t))))


def test_shared_work_is_done_once(golden: Any) -> None:
    func = program(fetch(U), USE)
    golden(share_work(func))
    same_values(func)


def test_programs_without_cooperation_stay_the_same() -> None:
    func = program(assign("Y", {T: 4, K: 4}, lambda t, k: Store(Y, (k, t), Load(X, (k, t)))))
    assert share_work(func) is func


def test_what_a_thread_keeps_gets_room_for_all_threads(golden: Any) -> None:
    """Every thread writes the same places of L, each another value."""
    one, zero = const(1.0, "float32"), index(0)
    make = assign("L", {T: 4, K: 4}, lambda t, k: Store(L, (k, zero), Load(X, (t, k)) + one))
    use = assign("Y", {T: 4, K: 4}, lambda t, k: Store(Y, (k, t), Load(S, (k, t)) * Load(L, (k, zero))))
    func = program(make, fetch(U), use)
    golden(share_work(func))
    same_values(func)


def test_shared_work_that_depends_on_what_one_thread_made_is_its_own() -> None:
    make = assign("L", {T: 4, K: 4}, lambda t, k: Store(L, (k, index(0)), Load(X, (t, k))))
    copy = assign("S", {K: 4, U: 4}, lambda k, v: Store(S, (k, v), Load(L, (k, index(0)))))
    func = program(make, thread(U, 4, copy), USE)
    assert share_work(func) is func
    same_values(func)


def test_threads_that_read_what_others_wrote_before_them_stay_in_their_order() -> None:
    """The second thread adds to what the first has left in Z, which is seen outside: they are not cut apart."""
    z = Buffer("Z", (4, 4), "float32")
    start = assign("Z", {T: 4, K: 4}, lambda t, k: Store(z, (k, t), Load(X, (k, t))))
    add = assign("Y", {T: 4, K: 4}, lambda t, k: Store(Y, (k, t), Load(S, (k, t)) + Load(z, (k, t))))
    func = program(start, fetch(U), add, outputs=(Y, z), allocs=(S,))
    assert share_work(func) is func
    same_values(func)


def test_threads_that_write_the_same_elements_of_an_output_stay_in_their_order() -> None:
    """The last thread wins; its value depends on the thread."""
    last = Buffer("last", (4,), "float32")
    use = assign("last", {T: 4, K: 4}, lambda t, k: Store(last, (k,), Load(S, (k, t)) + Load(last, (k,))))
    start = assign("start", {K: 4}, lambda k: Store(last, (k,), const(0.0, "float32")))
    func = program(start, fetch(U), use, outputs=(last,), allocs=(S,))
    assert share_work(func) is func
    same_values(func)


@pytest.mark.parametrize("extent", [1, 3])
def test_a_reduction_that_several_threads_do_for_themselves_starts_for_each(extent: int) -> None:
    """The start of the sum stands beside a fetch, outside of a reduce loop of one iteration."""
    a, w = te.placeholder((extent, 4), name="A"), te.placeholder((4,), name="W")
    k = te.reduce_axis((0, extent), name="k")
    total = te.compute((4,), lambda i: te.sum(a[k, i], axis=k), name="total")
    y = te.compute((4, 4), lambda i, j: total[j] * w[j], name="Y")
    sch = Schedule([a, w, y])
    i, j = sch.get_loops("Y")
    copy = sch.cache_read("Y", "W", "shared")
    sch.bind(i, "threadIdx.x")
    sch.set_scope("total", 0, "local")
    sch.compute_at("total", j)
    sch.compute_at(copy, j)
    sch.bind(sch.split(sch.get_loops(copy)[-1], [4, None])[0], "threadIdx.x")
    func = sch.func
    arrays = [np.ones((extent, 4), "float32"), np.ones(4, "float32"), np.zeros((4, 4), "float32")]
    run(lower_function(func), arrays)
    np.testing.assert_array_equal(arrays[-1], np.full((4, 4), extent, "float32"))
