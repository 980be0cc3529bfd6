"""The text of scripts, each of which reads back to an equal program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pegbox import te, tir
from pegbox.api import lower
from pegbox.expr.low_level import Address, Broadcast, Reinterpret, Stride, VectorLoad, call_extern, call_llvm
from pegbox.expr.nodes import Buffer, Call, Const, Load, Var
from pegbox.loops.nodes import Alloc, Evaluate, For, ForKind, Function, If, Seq, Store
from pegbox.loops.script.calls import CALLS
from pegbox.loops.script.words import WORDS
from pegbox.tir import IRModule, script

Golden = Callable[[object], None]


def reads_back(func: Function) -> str:
    text = func.script()
    again = script.from_source(text)
    assert again == func, text
    assert again.script() == text
    return text


def matmul(n: int = 20, m: int = 24, k: int = 16) -> list[Any]:
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    r = te.reduce_axis((0, k), name="k")
    return [a, b, te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")]


def scheduled() -> tir.Schedule:
    """A tail, a cache, all kinds of loops, notes on loops and blocks."""
    sch = tir.Schedule(te.create_prim_func(matmul(), "tuned"))
    i, j, k = sch.get_loops("C")
    i_0, i_1 = sch.split(i, factors=[None, 8])
    j_0, j_1 = sch.split(j, factors=[None, 8])
    k_0, k_1 = sch.split(k, factors=[None, 4])
    sch.reorder(i_0, j_0, k_0, k_1, i_1, j_1)
    back = sch.cache_write("C", 0, "local")
    sch.reverse_compute_at(back, j_0)
    sch.decompose_reduction("C", k_0)
    sch.parallel(i_0)
    sch.unroll(i_1)
    sch.vectorize(j_1)
    sch.annotate(k_0, "pragma_auto_unroll_max_step", 16)
    sch.annotate("C", "note", "a \"word\" and 'another'")
    return sch


def test_a_scheduled_program(golden: Golden) -> None:
    golden(reads_back(scheduled().func))


def test_a_lowered_program(golden: Golden) -> None:
    golden(reads_back(lower(scheduled())))


def test_a_lowered_program_with_its_tests(golden: Golden) -> None:
    golden(reads_back(lower(scheduled(), simple_mode=True)))


def test_a_te_program_whose_names_have_dots(golden: Golden) -> None:
    a, b, c = matmul()
    s = te.create_schedule(c.op)
    cache = s.cache_write(c, "local")
    outer, _ = s[c].split(c.op.axis[0], factor=4)
    s[cache].compute_at(s[c], outer)
    text = reads_back(lower(s, [a, b, c]))
    assert 'C_local = T.decl_buffer((4, 24), "float32", scope="local", name="C.local")' in text
    golden(text)


def test_a_module_of_two_functions(golden: Golden) -> None:
    mod = IRModule({"one": te.create_prim_func(matmul()), "two": te.create_prim_func(matmul(2, 2, 2))})
    assert script.from_source(str(mod)) == mod
    golden(mod)


def test_a_module_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    mod = IRModule(te.create_prim_func(matmul(), "mm"))
    mod.show()
    assert capsys.readouterr().out == mod.script() == str(mod)
    mod["mm"].show()
    assert capsys.readouterr().out == mod["mm"].script()
    assert repr(mod) == "IRModule(mm)"


def test_a_reducer_of_ones_own_is_kept_in_the_script() -> None:
    x = te.placeholder((5, 7), name="X")
    longest = te.comm_reducer(
        lambda a, b: te.if_then_else(te.abs(a) > te.abs(b), a, b), lambda t: te.const(0, t), name="longest"
    )
    k = te.reduce_axis((0, 7), name="k")
    func = te.create_prim_func([x, te.compute((5,), lambda i: longest(x[i, k], axis=k), name="Y")])
    assert '"reducer"' in reads_back(func)


def test_the_lowest_integers_are_read_back() -> None:
    a = te.placeholder((4,), "int64", "A")
    low = te.min_value("int64")
    made = te.compute((4,), lambda i: (a[i] + low) * te.const(-(2**63), "int64") + te.cast("int64", i + low), "B")
    text = reads_back(lower(te.create_schedule(made.op), [a, made]))
    assert "9223372036854775808" in text


def test_names_that_python_does_not_take() -> None:
    buffers = [Buffer(name, (4,)) for name in ("T", "lambda", "a.b", "a_b", "1st", "größe", "")]
    func = Function("my-kernel", tuple(buffers), tuple(buffers), Seq(tuple(Store(b, (_i(0),), _f(1)) for b in buffers)))
    text = reads_back(func)
    assert '@T.prim_func(name="my-kernel")\ndef my_kernel(' in text
    again = script.from_source(text)
    assert isinstance(again, Function)
    assert [b.name for b in again.params] == [b.name for b in buffers]
    assert reads_back(Function("range", (buffers[0],), (), Seq(())))


def test_a_block_called_root_is_no_root() -> None:
    x = te.placeholder((), name="X")
    func = te.create_prim_func([x, te.compute((), lambda: x[()] + 1, name="root")])
    assert reads_back(func).count('with T.block("root")') == 2


def test_low_level_expressions() -> None:
    a, c = Buffer("A", (4, 64)), Buffer("C", (4, 64))
    i = Var("i")
    vector = VectorLoad(a, (i, _i(16)), 16)
    fused = call_llvm("float32x16", "llvm.fma.v16f32", vector, Broadcast(_f(2), 16), vector)
    called = call_extern("int32", "gemm", Address(c, (i, _i(0)), (1, 64), "rw"), Address(a, (i, _i(0)), (1, 1), "r"))
    hint = Call("prefetch", (Address(a, (i, _i(8)), (1, 1), "r"),), "int32")
    body = Seq(
        (
            Store(c, (i, _i(0)), fused),
            Store(c, (i, _i(16)), Reinterpret("float32x16", Reinterpret("int32x16", vector))),
            Store(c, (i, _i(5)), Load(a, (i, Stride(a, 1)))),
            Evaluate(called),
            Evaluate(hint),
        )
    )
    reads_back(Function("low", (a, c), (c,), For(i, 4, body)))


def test_buffers_that_live_shorter_than_their_suite() -> None:
    a, t, u = Buffer("A", (4,)), Buffer("T", (1,), "int8", "local"), Buffer("T", (2,))
    zero = (_i(0),)
    first = Alloc(t, Store(t, zero, Const(1, "int8")))
    last = Alloc(u, Seq((Store(u, zero, _f(1)), Store(a, zero, Load(u, zero)))))
    text = reads_back(Function("f", (a,), (a,), Seq((Store(a, zero, _f(0)), first, last))))
    assert 'with T.decl_buffer((1,), "int8", scope="local", name="T") as T_:' in text
    assert '\n    T_ = T.decl_buffer((2,), "float32", name="T")' in text


def test_guards_of_lowered_programs_stay_guards() -> None:
    a, i = Buffer("A", (4,)), Var("i")
    store = Store(a, (i,), _f(1))
    guarded, plain = (Function("f", (a,), (a,), For(i, 4, If(i < 3, store, guard=g))) for g in (True, False))
    assert "if T.guard(i < 3):" in reads_back(guarded)
    assert "if i < 3:" in reads_back(plain)
    assert guarded != plain


def test_loops_of_every_kind() -> None:
    a = Buffer("A", (4,))
    for kind in ForKind:
        i = Var("i")
        notes = (("b", (1.5, "x", (True,))), ("c", float("inf")))
        loop = For(i, 4, Store(a, (i,), _f(1)), kind, notes)
        reads_back(Function("f", (a,), (a,), loop))


def test_outputs_that_are_not_written_are_named() -> None:
    a, b = Buffer("A", (4,)), Buffer("B", (4,))
    func = Function("f", (a, b), (b, a), Store(a, (_i(0),), _f(1)))
    assert 'T.func_attr({"tir.outputs": ("B", "A")})' in reads_back(func)


def test_a_program_whose_buffers_are_fresh_without_its_being_seen_reads_back() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((8,)), B: T.Buffer((8,))):
    T.func_attr({"tir.buffers_are_fresh": True})
    t = T.alloc_buffer((8,))
    for i in range(4):
        with T.block("t"):
            v = T.axis.spatial(4, i)
            t[v * (v + 1) % 7] = A[v]
        with T.block("B"):
            v = T.axis.spatial(4, i)
            B[v] = t[(v * v + v) % 7]
"""
    func = script.from_source(text)
    assert isinstance(func, Function)
    assert not func.attrs
    assert "buffers_are_fresh" in reads_back(func)


def test_every_word_of_expressions_is_understood() -> None:
    assert set(CALLS) < set(WORDS)


def _i(value: int) -> Const:
    return Const(value, "int64")


def _f(value: float) -> Const:
    return Const(float(value), "float32")


def test_a_condition_that_never_holds_stays() -> None:
    """A plain `if False` would be decided while the script is read."""
    a = Buffer("A", (4,), "int32")
    i = Var("i")
    store = Store(a, (i,), Const(1, "int32"))
    func = Function("f", (a,), (a,), For(i, 4, If(Const(False, "bool"), store)))
    assert "if T.bool(False):" in func.script()
    assert script.from_source(func.script()) == func
