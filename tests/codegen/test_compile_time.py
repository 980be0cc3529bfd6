"""Limits of LLVM's time: in what is emitted, in seconds, and by the life of the process that asks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

import plain_code
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lowered_programs import ONE_CORE, SERIAL, UNROLLED, VECTORIZED, WIDE, check, function, get, loop, put

import pegbox as pb
from pegbox import te
from pegbox.codegen import Program, Target, emit
from pegbox.codegen.runtime import isolation, llvm
from pegbox.errors import ArgumentError, CompileError
from pegbox.expr.build import const, maximum
from pegbox.expr.nodes import Buffer, Expr
from pegbox.loops.nodes import If, Stmt, seq
from pegbox.workers.pool import Pool

_NO_VECTORS = "llvm.loop.vectorize.enable"
_DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8")


def translated(program: Program) -> bytes:
    """Object code, by another process; it ends where LLVM takes longer than it may."""
    target = program.target
    machine = llvm.TargetMachine(target.triple, target.cpu, target.features)
    return plain_code.translate_apart(
        program.ll, machine, "object", "all" if program.scalar_loops else "simplification", timeout=60
    )


_first = te.comm_reducer(
    lambda a, b: (te.if_then_else(a[1] >= b[1], a[0], b[0]), te.if_then_else(a[1] >= b[1], a[1], b[1])),
    lambda i, v: (te.const(-1, i), te.min_value(v)),
    name="first",
)


@st.composite
def chosen_reductions(draw: st.DrawFn) -> Program:
    """Reductions under conditions over short axes, of values that often are the same for all elements."""
    dtype, cpu = draw(st.sampled_from(_DTYPES)), draw(st.sampled_from(["x86-64", "x86-64-v3"]))
    outer, stages = draw(st.sampled_from([5, 24, 64])), draw(st.integers(1, 2))
    extents = [draw(st.sampled_from([4, 9, 14, 16, 24, 33, 64])) for _ in range(stages)]
    inputs: list[Any] = []
    outputs: list[Any] = []
    for number, extent in enumerate(extents):
        mask = te.placeholder((extent,), name=f"M{number}")
        x = te.placeholder((outer, extent), dtype, f"X{number}")
        k = te.reduce_axis((0, extent), f"k{number}")
        shared, nested = draw(st.booleans()), draw(st.booleans())
        kind = draw(st.sampled_from(["max", "min", "first"]))

        def element(i: Any, mask: Any = mask, x: Any = x, k: Any = k, nested: bool = nested, kind: str = kind) -> Any:
            value = te.const(1, dtype) if shared else x[i, k]  # noqa: B023 - called before the next iteration
            if nested:
                value = te.if_then_else(mask[k] > 2, value, x[0, k])
            if kind == "first":
                return _first((k.astype("int32"), value), axis=k, where=mask[k] > 0)
            return (te.max if kind == "max" else te.min)(value, axis=k, where=mask[k] > 0)

        made = te.compute((outer,), element, f"Y{number}")
        results = list(made) if isinstance(made, tuple) else [made]
        inputs += [each for each in (mask, x) if each in results[0].op.inputs]
        outputs += results
    schedule = te.create_schedule([output.op for output in outputs])
    return emit(pb.lower(schedule, [*inputs, *outputs]), Target(f"llvm -mcpu={cpu} -num-cores 1"))


@settings(max_examples=25)
@given(chosen_reductions())
def test_llvm_is_quick_with_reductions_under_conditions(program: Program) -> None:
    assert translated(program)


def masked_maximum(extent: int, *, varying: bool = False) -> Program:
    x, m, y = Buffer("x", (64, extent)), Buffer("m", (extent,)), Buffer("y", (64,))

    def update(i: Expr) -> Stmt:
        def element(k: Expr) -> Stmt:
            value = get(x, i, k) if varying else const(1.0, "float32")
            return If(get(m, k) > 0.0, put(y, i, maximum(get(y, i), value)))

        return loop("k", extent, element)

    return emit(function([x, m, y], [y], loop("i", 64, update)), ONE_CORE)


def test_a_loop_around_a_long_uniform_chain_stays_scalar() -> None:
    assert _NO_VECTORS in masked_maximum(16).ll


def nested_maximum(extent: int) -> Program:
    """A maximum under a condition in a condition, of which the outer one is the same for all elements."""
    x, m, y = Buffer("x", (17, 31)), Buffer("m", (8, 2)), Buffer("y", (24, 17))

    def element(i: Expr, j: Expr, k: Expr) -> Stmt:
        update = put(y, i, j, maximum(get(y, i, j), get(x, (k + 2) % 17, j)))
        inner = get(x, (i + 1) % 17, (k + 2) % 31) + get(x, j, j) >= get(x, j, k) * get(x, j, k)
        return If(maximum(get(m, (k + 2) % 8, 0), get(m, 0, 1)) > get(m, (i + 1) % 8, i % 2), If(inner, update))

    def chain(i: Expr, j: Expr) -> Stmt:
        return seq(put(y, i, j, 3.0), loop("k", extent, lambda k: element(i, j, k), UNROLLED))

    body = loop("i", 24, lambda i: loop("j", 17, lambda j: chain(i, j)))
    return emit(function([x, m, y], [y], body), ONE_CORE)


def test_a_loop_around_a_long_chain_of_nested_conditions_stays_scalar() -> None:
    assert _NO_VECTORS in nested_maximum(30).ll
    assert translated(nested_maximum(30))


@st.composite
def short_rows(draw: st.DrawFn) -> Program:
    """Loops over rows that are short enough for LLVM to unroll them: it may make vectors of the loop around."""
    cpu, dtype = draw(st.sampled_from(["x86-64", "x86-64-v3", "znver4"])), draw(st.sampled_from(_DTYPES))
    n, m = draw(st.sampled_from([24, 64, 512])), draw(st.integers(3, 50))
    a, b = te.placeholder((n,), dtype, "A"), te.placeholder((m,), dtype, "B")
    c = te.compute((n, m), lambda i, j: a[i] * b[j] + a[i], "C")
    schedule = te.create_schedule(c.op)
    if draw(st.booleans()):
        schedule[c].parallel(c.op.axis[0])
    return emit(pb.lower(schedule, [a, b, c]), Target(f"llvm -mcpu={cpu} -num-cores 2"))


@settings(max_examples=25)
@given(short_rows())
def test_llvm_is_quick_with_loops_over_short_rows(program: Program) -> None:
    assert translated(program)


def rows(columns: int, dtype: str) -> Program:
    a, c = Buffer("a", (512, columns), dtype), Buffer("c", (512, columns), dtype)
    body = loop("i", 512, lambda i: loop("j", columns, lambda j: put(c, i, j, get(a, i, j) * get(a, i, j)), SERIAL))
    return emit(function([a, c], [c], body), Target("llvm -mcpu=x86-64-v3 -num-cores 1"))


def test_a_loop_that_would_scatter_many_elements_stays_scalar() -> None:
    assert _NO_VECTORS in rows(25, "int8").ll
    assert _NO_VECTORS not in rows(4, "int8").ll
    assert _NO_VECTORS not in rows(25, "float64").ll


def test_loops_that_compute_for_each_element_may_be_vectorized() -> None:
    assert _NO_VECTORS not in masked_maximum(2).ll
    a, c = Buffer("a", (64, 64)), Buffer("c", (64,))
    sums = loop("i", 64, lambda i: loop("k", 64, lambda k: put(c, i, get(c, i) + get(a, i, k) * 2.0)))
    assert _NO_VECTORS not in emit(function([a, c], [c], sums), ONE_CORE).ll


def copies(unrolled: int) -> str:
    """The program of a serial loop in an unrolled one."""
    a, c = Buffer("a", (unrolled, 100)), Buffer("c", (unrolled, 100))

    def row(i: Expr) -> Stmt:
        return loop("j", 100, lambda j: put(c, i, j, get(a, i, j)), SERIAL)

    return emit(function([a, c], [c], loop("i", unrolled, row, UNROLLED)), ONE_CORE).ll.split("__timed")[0]


def test_llvm_does_not_unroll_many_copies_of_a_loop() -> None:
    assert "llvm.loop.unroll.disable" not in copies(2)
    assert copies(32).count("llvm.loop") == 32


def remainders(dtype: str, copies: int, divisor: int | None = 9) -> Program:
    """Vectors of remainders in a row: by a constant, or by other elements."""
    a, b, c = (Buffer(name, (copies, 32), dtype) for name in "abc")

    def row(i: Expr) -> Stmt:
        def element(j: Expr) -> Stmt:
            return put(c, i, j, get(a, i, j) % (get(b, i, j) if divisor is None else const(divisor, dtype)))

        return loop("j", 32, element, VECTORIZED)

    return emit(function([a, b, c], [c], loop("i", copies, row, UNROLLED)), WIDE)


@pytest.mark.parametrize(("dtype", "divisor"), [("int64", 9), ("uint64", 9), ("int64", None), ("int32", None)])
def test_too_many_divisions_of_vectors_in_a_row_are_refused(dtype: str, divisor: int | None) -> None:
    with pytest.raises(CompileError, match=r"instructions without a branch .*i \(512\).*unroll fewer"):
        remainders(dtype, 512, divisor)
    assert translated(remainders(dtype, 16, divisor))


@pytest.mark.parametrize("columns", [300, 1100, 2500])
def test_a_row_of_many_divisions_is_computed_in_shorter_blocks(columns: int) -> None:
    """Sixteen vectors of 64 lanes with divisions of 64 bits would be too long."""
    a, c = Buffer("a", (columns,), "uint8"), Buffer("c", (3, columns), "uint8")

    def row(i: Expr) -> Stmt:
        def element(j: Expr) -> Stmt:
            return put(c, i, j, get(a, (i + j * j) % columns) + get(a, (i + j * j) // 7 % columns))

        return loop("j", columns, element, VECTORIZED)

    func = function([a, c], [c], loop("i", 3, row, SERIAL))
    assert emit(func, WIDE).longest_block < 256
    check(func)


@pytest.mark.parametrize(("dtype", "divisor"), [("int64", 8), ("uint64", 8), ("int32", 9), ("int8", 9)])
def test_divisions_that_processors_do_on_vectors_are_not_refused(dtype: str, divisor: int) -> None:
    assert remainders(dtype, 512, divisor).longest_block > 512


def scaled() -> tuple[Any, list[Any]]:
    X = te.placeholder((100,), name="X")
    Y = te.compute((100,), lambda i: X[i] * 2.0, name="Y")
    s = te.create_schedule(Y.op)
    s[Y].unroll(s[Y].split(Y.op.axis[0], 4)[1])
    return s, [X, Y]


@pytest.fixture
def _other_process(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(isolation, "translate_apart", plain_code.translate_apart)
    monkeypatch.setattr(isolation, "_pool", Pool(isolation._start, 1))
    yield
    isolation._pool.close()


@pytest.mark.optimizer
@pytest.mark.usefixtures("_other_process")
def test_the_time_of_a_build_is_limited() -> None:
    schedule, args = scaled()
    wanted = r"LLVM takes longer than 0 s for [1-9]\d* instructions.*the loops i.inner \(4\).*unroll fewer.*timeout="
    with pytest.raises(CompileError, match=wanted):
        pb.build(schedule, args, ONE_CORE, timeout=0)
    pb.build(schedule, args, ONE_CORE, timeout="1m")


@pytest.mark.optimizer
@pytest.mark.usefixtures("_other_process")
def test_the_limit_holds_for_kernels_that_are_compiled_when_called() -> None:
    n = te.size_var("n")
    X = te.placeholder((n,), name="X")
    Y = te.compute((n,), lambda i: X[i] * 2.0, name="Y")
    kernel = pb.build(te.create_schedule(Y.op), [X, Y], ONE_CORE, timeout=0)
    with pytest.raises(CompileError, match="LLVM takes longer than 0 s"):
        kernel.at(n=8)


@pytest.mark.parametrize("timeout", [-1, "soon", None])
def test_a_limit_is_a_time(timeout: Any) -> None:
    schedule, args = scaled()
    with pytest.raises(ArgumentError, match="timeout="):
        pb.build(schedule, args, ONE_CORE, timeout=timeout)


_KILLED = """
import os, signal, threading, time
from pegbox.codegen.runtime import isolation
copy = "%a{0} = getelementptr float, ptr %p, i64 {0}\\n%v{0} = load float, ptr %a{0}\\n" \
    "%b{0} = getelementptr float, ptr %q, i64 {0}\\nstore float %v{0}, ptr %b{0}\\n"
text = "define void @f(ptr %p, ptr %q) {\\n" + "".join(map(copy.format, range(60_000))) + "ret void\\n}"
with isolation._pool.worker() as worker:
    worker.wait_ready()
    arguments = text, ("", "", ""), "object", "simplification"
    threading.Thread(target=lambda: worker.call("answer", *arguments, timeout=60), daemon=True).start()
    time.sleep(0.3)
    print(worker.pid, worker.alive, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_process_that_compiles_ends_with_its_parent() -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED], capture_output=True, text=True, check=False)
    pid, alive = done.stdout.split()
    assert alive == "True", done.stderr
    most = time.monotonic() + 15  # LLVM takes longer for this text
    while (gone := _has_ended(int(pid))) is False and time.monotonic() < most:
        time.sleep(0.02)
    if not gone:
        os.kill(int(pid), 9)
    assert gone


def _has_ended(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True
