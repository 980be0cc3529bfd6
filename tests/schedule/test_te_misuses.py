"""Each misuse of TE has an error of its own: it names the value and the way that there is, and changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from te_values import matmul, stages

import pegbox as pb
from pegbox import te
from pegbox.errors import ComputeError, ScheduleError


class Rows:
    """A -> B -> C -> D, elementwise, and a schedule of them."""

    def __init__(self) -> None:
        self.a, self.b, self.c, self.d = stages()
        self.s = te.create_schedule(self.d.op)
        self.i, self.j = self.d.op.axis

    @property
    def sd(self) -> Any:
        return self.s[self.d]

    def lower(self) -> Any:
        return pb.lower(self.s, [self.a, self.d])


class Product:
    """C = A @ B."""

    def __init__(self) -> None:
        self.a, self.b, self.c = matmul()
        self.s = te.create_schedule(self.c.op)
        self.i, self.j = self.c.op.axis
        self.k = self.c.op.reduce_axis[0]

    @property
    def sc(self) -> Any:
        return self.s[self.c]

    def lower(self) -> Any:
        return pb.lower(self.s, [self.a, self.b, self.c])


AT_ONCE: list[Any] = [
    # of what, the call, what its message says: the value and the remedy
    (Rows, lambda p: p.sd.split(p.i), "split(i) of D: factor=None, nparts=None; give exactly one of them"),
    (Rows, lambda p: p.sd.split(p.i, factor=2, nparts=3), "factor=2, nparts=3; give exactly one of them"),
    (Rows, lambda p: p.sd.split(p.i, factor=0), "factor=0, nparts=None; give exactly one of them, a positive"),
    (Rows, lambda p: p.sd.split(p.i, factor="4"), "factor='4', nparts=None; give exactly one of them, a positive"),
    (Rows, lambda p: p.sd.split("i", factor=4), "split(i, factor=4) of D: 'i' is not a loop of this stage; the loops"),
    (Rows, lambda p: p.sd.split(p.c.op.axis[0], factor=4), "split(i, factor=4) of D: i is not a loop of this stage; t"),
    (Rows, lambda p: p.sd.tile(p.i, p.i, 2, 2), "i was split or fused already; the loops of D are i.outer"),
    (Rows, lambda p: p.sd.fuse(), "fuse() of D: no loops given; give at least one of i, j"),
    (Rows, lambda p: p.sd.fuse([]), "fuse([]) of D: no loops given; give at least one of i, j"),
    (Rows, lambda p: p.sd.fuse(p.j, p.i), "i is not directly inside j; loops are i, j: reorder them first"),
    (Rows, lambda p: p.sd.fuse(p.i, p.i), "i is not directly inside i; loops are i, j: reorder them first"),
    (Rows, lambda p: p.sd.fuse(3, p.i), "fuse(3, i) of D: 3 is not a loop; give loops, or one list of them"),
    (Rows, lambda p: p.sd.reorder(p.i, p.j, p.i), "a loop is given twice in ['i', 'j', 'i']; give each once"),
    (Rows, lambda p: p.sd.reorder(), "reorder() of D: no loops given; give those that change places: i, j"),
    (Rows, lambda p: p.sd.vectorize(p.b.op.axis[1]), "vectorize(j) of D: j is not a loop of this stage; the loops of"),
    (Rows, lambda p: p.sd.pragma(p.i, "unrol"), "pragma(i, unrol) of D: unknown pragma 'unrol'; use one of auto_unrol"),
    (Rows, lambda p: p.sd.pragma(p.i, "auto_unroll_max_step", -1), "auto_unroll_max_step: -1 is not an int; give an"),
    (Rows, lambda p: p.sd.pragma(p.i, "auto_unroll_max_step"), "auto_unroll_max_step: True is not an int; give an"),
    (Rows, lambda p: p.sd.pragma(p.i, "unroll", False), "pragma(i, unroll, False) of D: False is not a value of un"),
    (Rows, lambda p: p.sd.pragma(p.i, "import_llvm", "x"), "is not supported; give C source instead: pragma import_c"),
    (Rows, lambda p: p.sd.prefetch(p.b, p.i, 0), "prefetch(B, i, 0) of D: the offset is 0; give the number of iterati"),
    (Product, lambda p: p.sc.prefetch(te.placeholder((3,), name="E"), p.i), "C does not access E; it reads A, B"),
    (Product, lambda p: p.sc.prefetch(p.a, p.i, 1, among=3), "prefetch(A, i, 1, among=3) of C: among=3 is not a loop"),
    (Rows, lambda p: p.sd.compute_at(p.s[p.b], p.b.op.axis[0]), "compute_at(B, i) of D: D is an output and stays at t"),
    (Rows, lambda p: p.s[p.b].compute_at(p.s[p.b], p.b.op.axis[0]), "B cannot be computed inside itself; give a cons"),
    (Rows, lambda p: p.s[p.b].compute_at(p.c, p.i), "is not a stage; give the consumer's, as s[C]"),
    (Rows, lambda p: p.s[p.b].compute_at(p.sd, p.c.op.axis[0]), "compute_at(D, i) of B: i is not a loop of this stage"),
    (Rows, lambda p: p.sd.compute_inline(), "compute_inline() of D: D is an output; there is no consumer to inline it"),
    (Rows, lambda p: p.s[p.a], "A is a placeholder: there is nothing to schedule; cache_read makes a stage of it"),
    (Rows, lambda p: p.s[te.compute((2,), lambda i: p.a[i, 0], "E")], "E is not a stage of this schedule; it has B, C"),
    (Rows, lambda p: p.s["D"], "s['D']: a stage is found by its tensor; give one of B, C, D"),
    (Rows, lambda p: p.s.cache_read(p.a, "locl", [p.b]), "unknown scope 'locl'; use one of global,"),
    (Rows, lambda p: p.s.cache_read(p.a, "local", []), "no readers given; give those that shall read the copy: B"),
    (Rows, lambda p: p.s.cache_read(p.a, "local", [p.d]), "cache_read(A, local, [D]): D does not read A; give stages"),
    (Rows, lambda p: p.s.cache_write(p.d, "loc"), "unknown scope 'loc'; use one of global"),
    (Rows, lambda p: p.s.cache_write(p.a, "local"), "A is a placeholder: there is nothing to schedule"),
    (Product, lambda p: p.s.rfactor(p.c, p.i), "rfactor(C, i): i is a spatial loop; give a reduce loop: k"),
    (Rows, lambda p: te.create_schedule(p.a.op), "create_schedule: nothing to compute in ['A']"),
    (Rows, lambda p: te.create_schedule([]), "create_schedule: no operations given; give those of the outputs"),
    (Rows, lambda p: te.create_schedule(["D"]), "create_schedule: 'D' is not a tensor or operation; give C.op of"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "call", "message"), AT_ONCE, ids=[message[:50] for _, _, message in AT_ONCE])
def test_te_misuse_is_refused_at_once(make: Callable[[], Any], call: Callable[[Any], Any], message: str) -> None:
    given = make()
    before = str(given.lower())
    with pytest.raises(ScheduleError, match=re.escape(message)):
        call(given)
    if ".outer" not in message:  # the first half of a tile is done
        assert str(given.lower()) == before


def changed(*calls: Callable[[Any], Any]) -> Callable[[Any], None]:
    def run(given: Any) -> None:
        for call in calls:
            call(given)

    return run


WHEN_LOWERED: list[Any] = [
    (Product, lambda p: p.sc.parallel(p.k), "k cannot be parallel: its iterations add up into the same elements"),
    (Product, changed(lambda p: p.sc.vectorize(p.i), lambda p: p.sc.parallel(p.j)), "j would be parallel inside i"),
    (
        Rows,
        changed(lambda p: p.s[p.c].compute_at(p.sd, p.i), lambda p: p.sd.fuse(p.i, p.j)),
        "C is attached to i of D, which is not one of its loops any more: it became i.j.fused; attach it to a loop",
    ),
    (
        Rows,
        changed(
            lambda p: p.s[p.c].compute_at(p.sd, p.i),
            lambda p: p.sd.fuse(p.sd.split(p.i, factor=2)[1], p.j),
        ),
        "C is attached to i.inner of D, which is not one of its loops any more: it became i.inner.j.fused; attach it",
    ),
    (
        Rows,
        changed(lambda p: p.s[p.b].compute_at(p.s[p.c], p.c.op.axis[0]), lambda p: p.s[p.c].compute_inline()),
        "B is attached to i of C, which is inlined: attach it to D, where C is computed now",
    ),
    (
        Rows,
        lambda p: p.s[p.c].compute_at(p.s[p.b], p.b.op.axis[0]),
        "C is attached to i of B, which does not need it: attach it to D",
    ),
    (
        Rows,
        lambda p: p.s[p.c].compute_at(te.create_schedule(p.d.op)[p.d], p.i),
        "C is attached to i of D, a stage of another schedule: attach it to D of this one",
    ),
    (Rows, lambda p: p.s[p.b].compute_at(p.sd, p.i), "C needs B too, but is not inside i"),
    (
        Rows,
        changed(lambda p: p.sd.vectorize(p.j), lambda p: p.s[p.c].compute_at(p.sd, p.j)),
        "j is vectorized: its iterations are lanes",
    ),
    (
        Rows,
        changed(lambda p: p.sd.prefetch(p.c, p.i), lambda p: p.s[p.c].compute_inline()),
        "prefetch(C, i): D does not read C any more; it reads B: prefetch one of these",
    ),
]


@pytest.mark.parametrize(
    ("make", "call", "message"), WHEN_LOWERED, ids=[message[:50] for _, _, message in WHEN_LOWERED]
)
def test_te_misuse_is_refused_when_lowered(make: Callable[[], Any], call: Callable[[Any], Any], message: str) -> None:
    given = make()
    call(given)
    with pytest.raises(ScheduleError, match=re.escape(message)):
        given.lower()


ARGUMENTS: list[Any] = [
    (lambda p: [p.d], "the input A is missing from the arguments ['D']"),
    (lambda p: [p.a], "the output D is missing from the arguments ['A']"),
    (lambda p: [p.a, p.d, p.a], "an argument is given twice in ['A', 'D', 'A']"),
    (lambda p: [p.a, p.d, te.compute((2,), lambda i: p.a[i, 0], "E")], "the argument E is computed, but not by this"),
]


@pytest.mark.parametrize(("args", "message"), ARGUMENTS, ids=[message[:40] for _, message in ARGUMENTS])
def test_te_wrong_arguments_are_named(args: Callable[[Any], Any], message: str) -> None:
    given = Rows()
    with pytest.raises(ScheduleError, match=re.escape(message)):
        pb.lower(given.s, args(given))


def test_te_no_two_misuses_share_a_message() -> None:
    said = set()
    for make, call, _ in AT_ONCE:
        with pytest.raises((ScheduleError, ComputeError)) as refused:
            call(make())
        said.add(str(refused.value))
    # The same misuse through another form of the call may say the same.
    assert len(said) >= len(AT_ONCE) - 2
