"""Loops are cut where tests begin or cease to hold, so that their main part runs without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered_interpreter import POISON_INT, run
from te_programs import blur, check_values, matmul, two_stages, vector

from pegbox import te
from pegbox.expr.build import add, any_of, as_expr, compare, index, mul
from pegbox.expr.low_level import call_extern
from pegbox.expr.nodes import Buffer, Expr, Load, Var
from pegbox.loops.nodes import Alloc, For, ForKind, Function, If, Stmt, Store, seq
from pegbox.loops.passes import lower_function
from pegbox.loops.passes.hoist import hoist_tests
from pegbox.loops.passes.partition import partition_loops
from pegbox.loops.visit import walk
from pegbox.schedule.te.replay import lower_te


def ifs(func: Function) -> int:
    return sum(isinstance(node, If) for node in walk(func.body))


def tiled_matmul(kind: str) -> Any:
    a, b, c = matmul(9, 4, 10)
    s = te.create_schedule(c.op)
    (yo, yi), (xo, xi) = (s[c].split(axis, factor=4) for axis in s[c].op.axis)
    s[c].reorder(yo, xo, s[c].op.reduce_axis[0], yi, xi)
    if kind == "parallel":
        s[c].parallel(yo)
    if kind == "vectorized":
        s[c].vectorize(xi)
    return s, [a, b, c]


def test_full_tiles_and_tails_run_without_tests(golden: Any) -> None:
    a, _, c = two_stages(10)
    s = te.create_schedule(c.op)
    s[c].split(s[c].op.axis[0], factor=4)
    func = check_values(s, [a, c])
    assert ifs(func) == 0
    golden(func)


def test_an_unrolled_loop_whose_tests_are_of_numbers_is_left_whole() -> None:
    """Written out, its tests decide themselves; of serial loops they don't."""

    def cut(kind: ForKind) -> int:
        i, j = Var("i"), Var("j")
        x, y = Buffer("X", (9,), "int32"), Buffer("Y", (6, 4), "int32")
        store = Store(y, (i, j), Load(x, (add(i, j),)))
        inner = For(j, 4, If(compare("lt", add(i, j), index(6)), store), kind)
        func = Function("f", (x, y), (y,), For(i, 6, inner, ForKind.UNROLLED))
        return sum(isinstance(node, For) and node.var.name == "i" for node in walk(partition_loops(func).body))

    assert cut(ForKind.UNROLLED) == 1
    assert cut(ForKind.SERIAL) > 1


def test_two_tails_make_four_parts(golden: Any) -> None:
    x = te.placeholder((9, 10), name="X")
    y = te.compute((9, 10), lambda i, j: x[i, j] + 1, "Y")
    s = te.create_schedule(y.op)
    (yo, yi), (xo, xi) = (s[y].split(axis, factor=4) for axis in s[y].op.axis)
    s[y].reorder(yo, xo, yi, xi)
    # The program is so short that the corner has code of its own.
    golden(check_values(s, [x, y]))


def test_where_one_side_of_an_or_turns_the_loop_is_cut() -> None:
    """A first iteration that is an exception is peeled off; the rest knows what is left of the test."""
    i, j, k = Var("i"), Var("j"), Var("k")
    x, y = Buffer("X", (4, 6, 2), "int32"), Buffer("Y", (4, 6, 2), "int32")
    store = Store(y, (i, j, k), Load(x, (i, j, k)))
    either = any_of([compare("lt", i, index(1)), compare("ge", j, index(2))])
    func = Function("f", (x, y), (y,), For(i, 4, For(j, 6, If(either, For(k, 2, store)))))
    cut = partition_loops(func)
    assert ifs(cut) == 0
    given = np.random.default_rng(0).integers(-9, 9, (4, 6, 2)).astype("int32")
    got = np.empty_like(given)
    run(cut, [given, got])
    made = np.ones((4, 6, 2), bool)
    made[1:, :2] = False
    np.testing.assert_array_equal(got[made], given[made])
    assert (got[~made] == POISON_INT).all()


def lanes(func: Function) -> list[int]:
    return [node.extent for node in walk(func.body) if isinstance(node, For) and node.kind is ForKind.VECTORIZED]


def test_lanes_keep_their_mask() -> None:
    a, b = vector(10)
    s = te.create_schedule(b.op)
    s[b].vectorize(s[b].split(b.op.axis[0], factor=4)[1])
    assert {*lanes(check_values(s, [a, b]))} == {4}


def test_sums_in_memory_have_fewer_lanes_in_place_of_a_mask(golden: Any) -> None:
    func = check_values(*tiled_matmul("vectorized"))
    assert {*lanes(func)} == {2, 4}
    golden(func)


def test_an_unrolled_loop_is_cut_where_lanes_of_its_sums_end(golden: Any) -> None:
    x, r = te.placeholder((5, 6), "int32", "X"), te.reduce_axis((0, 5), "r")

    def total(v: te.Expr, z: te.Expr) -> te.Expr:
        return te.sum(x[r, v * 4 + z], axis=r, where=v * 4 + z < 6)

    sums = te.compute((2, 4), total, "T")
    y = te.compute((6,), lambda i: sums[i // 4, i % 4], "Y")
    s = te.create_schedule(y.op)
    v, z = s[sums].op.axis
    s[sums].reorder(r, v, z)
    s[sums].unroll(v)
    s[sums].vectorize(z)
    func = check_values(s, [x, y])
    assert ifs(func) == 0
    golden(func)


@pytest.mark.parametrize(
    ("scope", "end", "expected"), [("global", 3, [3]), ("global", 2, [2]), ("local", 3, [4]), ("local", 2, [2])]
)
@pytest.mark.parametrize("first", [0, 1])
def test_local_sums_have_all_lanes_or_half_of_them(scope: str, end: int, expected: list[int], first: int) -> None:
    """Leave out the last lanes or the first one, whose test stays a mask."""
    k, i = Var("k"), Var("i")
    x, y, total = Buffer("X", (5, 4), "int32"), Buffer("Y", (4,), "int32"), Buffer("T", (4,), "int32", scope)
    added = Store(total, (i,), add(Load(total, (i,)), Load(x, (k, i))))
    test = compare("lt", i, index(end)) if first == 0 else compare("ge", i, index(1))
    summed = For(k, 5, For(i, 4, If(test, added), ForKind.VECTORIZED))
    zero, last = Var("zero"), Var("last")
    body = seq(
        For(zero, 4, Store(total, (zero,), as_expr(0))), summed, For(last, 4, Store(y, (last,), Load(total, (last,))))
    )
    func = partition_loops(Function("f", (x, y), (y,), Alloc(total, body)))
    assert lanes(func) == (expected if first == 0 else [4])


def test_a_parallel_loop_stays_one_loop(golden: Any) -> None:
    func = check_values(*tiled_matmul("parallel"))
    assert sum(isinstance(n, For) and n.kind is ForKind.PARALLEL for n in walk(func.body)) == 1
    golden(func)


def test_the_tail_of_a_convolution_needs_less_of_its_input(golden: Any) -> None:
    x = te.placeholder((12,), name="X")
    p = te.compute((14,), lambda i: te.if_then_else(te.all(i >= 1, i < 13), x[i - 1], te.const(0, "float32")), "P")
    k = te.reduce_axis((0, 3), "k")
    y = te.compute((12,), lambda i: te.sum(p[i + k], axis=k), "Y")
    s = te.create_schedule(y.op)
    yo, _ = s[y].split(s[y].op.axis[0], factor=5)
    s[p].compute_at(s[y], yo)
    golden(check_values(s, [x, y]))


def test_what_nobody_reads_in_the_tail_is_not_computed_there() -> None:
    a, b, c = blur(9)
    s = te.create_schedule(c.op)
    co, _ = s[c].split(s[c].op.axis[0], factor=4)
    s[b].compute_at(s[c], co)
    text = str(check_values(s, [a, c]))
    # The third tile has one element of C, for which two of B are needed.
    tail = text[text.index("B_1 = alloc") if "B_1 = alloc" in text else text.rindex("B = alloc") :]
    assert "range(4)" not in tail


def test_a_program_does_not_grow_without_limit() -> None:
    x = te.placeholder((9,) * 6, name="X")
    y = te.compute((9,) * 6, lambda *i: x[i] + 1, "Y")
    s = te.create_schedule(y.op)
    pairs = [s[y].split(axis, factor=4) for axis in s[y].op.axis]
    s[y].reorder(*(o for o, _ in pairs), *(i for _, i in pairs))
    func = lower_function(lower_te(s, [x, y]))
    assert ifs(func) > 0
    assert sum(isinstance(node, Store) for node in walk(func.body)) <= 64


def test_a_rare_test_is_not_worth_a_copy_of_the_loop() -> None:
    out, i, j = Buffer("out", (64,)), Var("i"), Var("j")
    rare = If(compare("lt", i, index(3)), Store(out, (i,), as_expr(1.0)))
    often = For(j, 64, Store(out, (j,), as_expr(2.0)))
    func = Function("f", (out,), (out,), For(i, 8, seq(rare, often)))
    assert str(partition_loops(func)) == str(func)


def padded(extent: int, width: int, *, hint: bool) -> Any:
    """Pack into panels; what lies beyond the last element is zero."""
    x = te.placeholder((extent,), name="X")
    count = -(-extent // width)
    y = te.compute(
        (count, width),
        lambda i, j: te.if_then_else(i * width + j < extent, x[i * width + j], te.const(0, "float32")),
        "Y",
    )
    s = te.create_schedule(y.op)
    s[y].vectorize(y.op.axis[1])
    if hint:
        s[y].pragma(y.op.axis[0], "loop_partition_hint")
    return s, [x, y]


def test_padding_is_for_the_last_panel_alone_with_a_hint(golden: Any) -> None:
    golden(check_values(*padded(70, 16, hint=True)))


def test_without_a_hint_all_panels_choose() -> None:
    (loop,) = [n for n in walk(check_values(*padded(70, 16, hint=False)).body) if isinstance(n, For) and n.extent == 5]
    assert "select" in str(loop)


def test_a_loop_whose_choices_depend_on_others_stays_whole() -> None:
    x = te.placeholder((6, 8), name="X")
    y = te.compute((6, 8), lambda i, j: te.if_then_else(j <= i, x[i, j], te.const(0, "float32")), "Y")
    s = te.create_schedule(y.op)
    s[y].pragma(y.op.axis[1], "loop_partition_hint")
    assert [n.extent for n in walk(check_values(s, [x, y]).body) if isinstance(n, For)] == [6, 8]


def joined(*, hint: bool) -> Any:
    """Three arrays of 16, 32 and 16 elements, one behind the other."""
    a, b, c = (te.placeholder((extent,), name=name) for name, extent in (("A", 16), ("B", 32), ("C", 16)))
    y = te.compute(
        (64,), lambda i: te.if_then_else(i < 16, a[i], te.if_then_else(i < 48, b[i - 16], c[i - 48])), name="Y"
    )
    s = te.create_schedule(y.op)
    outer, inner = s[y].split(y.op.axis[0], factor=8)
    s[y].vectorize(inner)
    if hint:
        s[y].pragma(outer, "loop_partition_hint")
    return s, [a, b, c, y]


def test_every_alternative_of_a_choice_has_its_own_part_with_a_hint(golden: Any) -> None:
    found = check_values(*joined(hint=True))
    assert "select" not in str(found)
    golden(found)
    assert "select" in str(check_values(*joined(hint=False)))


@pytest.mark.parametrize("columns", [1, 5])
def test_lanes_across_rows_end_with_the_rows(columns: int) -> None:
    """The last vector has 4 of 16 rows; along a row, lanes are masked."""
    x = te.placeholder((36, columns), name="X")
    y = te.compute((columns, 36), lambda i, j: x[j, i], name="Y")
    for source, lanes in (x, 4), (y, 16):
        out = y if source is x else te.compute(y.shape, lambda i, j: y[i, j] + 1.0, name="Z")
        s = te.create_schedule(out.op)
        _, inner = s[out].split(out.op.axis[1], factor=16)
        s[out].vectorize(inner)
        loops = [n for n in walk(check_values(s, [x, out]).body) if isinstance(n, For)]
        assert loops[-1].extent == lanes


@pytest.mark.parametrize("hint", [True, False])
def test_with_a_hint_a_tail_computes_only_what_it_needs(hint: bool) -> None:
    """There is room for a whole tile, which without the hint is computed, because that needs no test."""
    x, k = te.placeholder((16, 3), name="X"), te.reduce_axis((0, 3), "k")
    y = te.compute((14,), lambda i: te.sum(x[i, k], axis=k), "Y")
    z = te.compute((14,), lambda i: y[i] * 2.0, "Z")
    s = te.create_schedule(z.op)
    outer, _ = s[z].split(z.op.axis[0], factor=4)
    s[y].compute_at(s[z], outer)
    if hint:
        s[z].pragma(outer, "loop_partition_hint")
    tail = str(check_values(s, [x, z])).rpartition("alloc")[2]
    assert ("range(4)" in tail) is not hint


def nest(body: Stmt, *loops: tuple[Var, int]) -> Stmt:
    for var, extent in reversed(loops):
        body = For(var, extent, body)
    return body


def test_each_part_of_a_loop_is_cut_on_its_own() -> None:
    # How `j` was cut in one iteration of `o` says nothing about the next.
    out, o, i, j = Buffer("out", (3, 3, 2)), Var("o"), Var("i"), Var("j")
    store = If(o * 5 + i * 4 + j * 2 < 10, If(o * 5 + j * 5 >= 1, Store(out, (o, i, j), as_expr(1.0))))
    others = [Store(out, (index(n), index(0), index(0)), as_expr(2.0)) for n in (1, 2)]
    func = Function("f", (out,), (out,), seq(nest(store, (o, 3), (i, 3), (j, 2)), *others))
    cut = partition_loops(func)
    assert_same_effect(func, cut)
    assert ifs(cut) == 0


def test_a_c_call_stays_in_a_part_that_does_not_read_its_result() -> None:
    out, made, i = Buffer("out", (4,)), Buffer("made", (1,)), Var("i")
    call = Store(made, (index(0),), call_extern("float32", "f"))
    body = Alloc(made, seq(call, If(i < 3, Store(out, (i,), Load(made, (index(0),))))))
    text = str(partition_loops(Function("f", (out,), (out,), nest(body, (i, 4)))))
    assert text.count("call_extern") == 2


def test_a_test_that_never_holds_leaves_nothing() -> None:
    out, i = Buffer("out", (4,)), Var("i")
    body = nest(If(i > 3, Store(out, (i,), as_expr(1.0))), (i, 4))
    assert str(partition_loops(Function("f", (out,), (out,), body))) == "def f(out: float32[4]):\n"


def assert_same_effect(before: Function, after: Function) -> None:
    results = []
    for func in (before, after):
        arrays = [np.full(b.shape, 5, b.dtype) for b in func.params]
        run(func, arrays)
        results.append(arrays)
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


OUT, SLOTS = Buffer("out", (3 * 8 * 8,), "int64"), 8
OPS = ("lt", "le", "gt", "ge", "eq", "ne")


class RandomNest:
    """Loops, tests and stores; each store depends on all that were made to its slot before it."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.vars: list[Var] = []
        self.temporaries: list[Buffer] = []
        self.slot: Expr = index(0)  # where the iteration of the parallel loop may write
        self.stores = 0

    def number(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def affine(self) -> Expr:
        total: Expr = index(self.number(-3, 6))
        for var in self.vars:
            total = add(total, mul(var, index(self.number(-2, 4))))
        return total

    def condition(self) -> Expr:
        form = self.affine()
        if self.number(0, 5) == 0:
            form = form % 3 if self.number(0, 1) else form // 2
        return compare(OPS[self.number(0, 5)], form, index(self.number(-2, 12)))

    def stmt(self, depth: int) -> Stmt:
        choice = self.number(0, 9) if depth else 9
        if choice <= 3:
            return self.loop(depth)
        if choice <= 5:
            return If(self.condition(), self.stmt(depth - 1))
        if choice <= 7:
            return seq(*(self.stmt(depth - 1) for _ in range(self.number(2, 3))))
        if choice == 8:
            buffer = Buffer("T", (4,), "int64")
            self.temporaries.append(buffer)
            body = seq(self.stmt(depth - 1), self.stmt(depth - 1))
            self.temporaries.remove(buffer)
            return Alloc(buffer, body)
        return self.store()

    def loop(self, depth: int) -> Stmt:
        var, kind = Var("ijklmn"[len(self.vars) % 6]), [ForKind.SERIAL, ForKind.UNROLLED][self.number(0, 1)]
        if not self.vars and self.number(0, 2) == 0:
            kind, self.slot = ForKind.PARALLEL, mul(var, index(SLOTS))
        self.vars.append(var)
        # Iterations of a parallel loop share no temporaries.
        visible, self.temporaries = self.temporaries, [] if kind is ForKind.PARALLEL else self.temporaries
        extent = self.number(1, 5)
        body = self.stmt(depth - 1)
        self.vars.pop()
        self.temporaries = visible
        if not self.vars:
            self.slot = index(0)
        return For(var, extent, body, kind)

    def store(self) -> Stmt:
        self.stores += 1
        if self.temporaries and self.number(0, 1):
            target, at = self.temporaries[self.number(0, len(self.temporaries) - 1)], index(self.number(0, 3))
        else:
            target, at = OUT, add(self.slot, index(self.number(0, SLOTS - 1)))
        value = Load(target, (at,)) * 3 + self.affine()
        if self.temporaries:
            value = value + Load(self.temporaries[-1], (index(self.number(0, 3)),))
        return Store(target, (at,), value)


@pytest.mark.parametrize("kind", ["hoist", "partition", "both"])
@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_cutting_keeps_every_store_and_their_order(kind: str, data: Any) -> None:
    maker = RandomNest(data.draw)
    before = Function("f", (OUT,), (OUT,), maker.stmt(6))
    after = before
    if kind != "partition":
        after = hoist_tests(after)
    if kind != "hoist":
        after = partition_loops(after)
    assert_same_effect(before, after)


def test_lanes_that_read_an_array_without_axes_keep_their_test() -> None:
    a, x = te.placeholder((), name="A"), te.placeholder((3,), name="X")
    b = te.compute((3,), lambda i: a() + x[i], name="B")
    s = te.create_schedule(b.op)
    s[b].vectorize(s[b].split(b.op.axis[0], factor=2)[1])
    check_values(s, [a, x, b])
