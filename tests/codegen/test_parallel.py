"""Parallel loops on an OpenMP runtime."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from lowered_programs import (
    ONE_CORE,
    PARALLEL,
    TWO_CORES,
    UNROLLED,
    VECTORIZED,
    alloc,
    check,
    function,
    get,
    loop,
    numbers,
    put,
)
from processors import on_this_machine

from pegbox.codegen import Target, build, compile_program, emit, load
from pegbox.codegen.runtime import openmp
from pegbox.codegen.targets.target import MOST_CORES
from pegbox.errors import TargetError
from pegbox.expr.build import const
from pegbox.expr.nodes import Buffer, Expr
from pegbox.loops.nodes import Function, seq


def rows(count: int, *, size: int = 40) -> Function:
    a, c = Buffer("a", (count, size)), Buffer("c", (count, size))
    body = loop("i", count, lambda i: loop("j", size, lambda j: put(c, i, j, get(a, i, j) * 2.0), VECTORIZED), PARALLEL)
    return function([a, c], [c], body)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("cores", [1, 2, 3, 8])
def test_every_iteration_runs_once_whatever_the_team(count: int, cores: int) -> None:
    check(rows(count), Target(f"llvm -num-cores {cores}"))


def test_as_many_cores_as_a_target_may_have_run_on_a_small_stack() -> None:
    # The runtime keeps a record for each thread of a team on the stack of the thread that calls it.
    size = 3000
    kernel = build(emit(rows(size, size=1), Target(f"llvm -num-cores {MOST_CORES}")))
    a, c = np.ones((size, 1), np.float32), np.zeros((size, 1), np.float32)
    before = threading.stack_size(512 << 10)
    try:
        caller = threading.Thread(target=kernel, args=(a, c))
        caller.start()
        caller.join()
    finally:
        threading.stack_size(before)
    assert (c == 2.0).all()


def test_one_core_needs_no_runtime() -> None:
    program = emit(rows(8), ONE_CORE)
    assert program.num_threads == 1
    assert "GOMP" not in program.ll
    assert emit(rows(8), TWO_CORES).num_threads == 2
    assert "GOMP_parallel" in emit(rows(8), TWO_CORES).ll


def test_a_program_without_parallel_loops_runs_on_one_thread() -> None:
    a, c = Buffer("a", (8,)), Buffer("c", (8,))
    assert emit(function([a, c], [c], loop("i", 8, lambda i: put(c, i, get(a, i)))), TWO_CORES).num_threads == 1


def test_a_parallel_loop_inside_others_sees_their_variables() -> None:
    a, c = Buffer("a", (2, 3, 16)), Buffer("c", (2, 3, 16))
    body = loop(
        "u",
        2,
        lambda u: loop("s", 3, lambda s: loop("p", 16, lambda p: put(c, u, s, p, get(a, u, s, p) + 1.0), PARALLEL)),
        UNROLLED,
    )
    check(function([a, c], [c], body), TWO_CORES)


def test_names_are_of_any_letters() -> None:
    given, out = Buffer("é 1", (2, 3), "int64"), Buffer("ü", (2, 3), "int64")
    inner = lambda i: loop("ÿ", 3, lambda j: put(out, i, j, get(given, i, j) + i), PARALLEL)  # noqa: E731
    array = np.zeros((2, 3), np.int64)
    build(emit(function([given, out], [out], loop("ï", 2, inner), name="ñ"), TWO_CORES))(
        np.ones((2, 3), np.int64), array
    )
    assert array.tolist() == [[1, 1, 1], [2, 2, 2]]


def test_a_parallel_loop_inside_a_parallel_loop_is_serial() -> None:
    a, c = Buffer("a", (4, 16)), Buffer("c", (4, 16))
    body = loop("i", 4, lambda i: loop("j", 16, lambda j: put(c, i, j, get(a, i, j) + 1.0), PARALLEL), PARALLEL)
    func = function([a, c], [c], body)
    assert emit(func, TWO_CORES).ll.count("call void @GOMP_parallel") == 1
    check(func, TWO_CORES)


@pytest.mark.parametrize("size", [64, 20000])
def test_two_parallel_stages_share_a_buffer(size: int) -> None:
    a, t, c = Buffer("a", (size,)), Buffer("t", (size,)), Buffer("c", (size,))
    first = loop("i", size, lambda i: put(t, i, get(a, i) + 1.0), PARALLEL)
    second = loop("j", size, lambda j: put(c, j, get(t, size - 1 - j)), PARALLEL)
    check(function([a, c], [c], alloc(t, first, second)), TWO_CORES)


@pytest.mark.parametrize("size", [40, 6000])
def test_a_buffer_inside_a_parallel_loop_is_one_per_thread(size: int) -> None:
    a, c, t = Buffer("a", (6, size)), Buffer("c", (6, size)), Buffer("t", (size,))

    def row(i: Expr) -> object:
        return alloc(
            t,
            loop("x", size, lambda x: put(t, x, get(a, i, x) + 1.0), VECTORIZED),
            loop("y", size, lambda y: put(c, i, y, get(t, size - 1 - y)), VECTORIZED),
        )

    func = function([a, c], [c], loop("i", 6, row, PARALLEL))  # type: ignore[arg-type]
    one, two = (emit(func, target).workspace_bytes for target in (ONE_CORE, TWO_CORES))
    assert two == 2 * one
    assert (one > 0) == (size == 6000)
    check(func, TWO_CORES)


def test_reductions_inside_parallel_loops() -> None:
    a, c = Buffer("a", (8, 64)), Buffer("c", (8,))
    body = loop(
        "i",
        8,
        lambda i: seq(
            put(c, i, const(0.0, "float32")),
            loop("k", 4, lambda k: loop("v", 16, lambda v: put(c, i, get(c, i) + get(a, i, k * 16 + v)), VECTORIZED)),
        ),
        PARALLEL,
    )
    check(function([a, c], [c], body), TWO_CORES, rtol=1e-4)


@on_this_machine
def test_two_threads_really_take_part(monkeypatch: pytest.MonkeyPatch) -> None:
    # The program is made to report the team's size, which the runtime knows, from inside the region.
    seen: list[int] = []
    note = ctypes.CFUNCTYPE(None, ctypes.c_int64)(seen.append)
    symbols = {**openmp.addresses(), "note": ctypes.cast(note, ctypes.c_void_p).value}
    monkeypatch.setattr(openmp, "addresses", lambda: symbols)
    program = emit(rows(2), TWO_CORES)
    text = program.ll.replace("%begin = ", "call void @note(i64 %team)\n  %begin = ")
    text = text.replace("declare void @GOMP", "declare void @note(i64)\ndeclare void @GOMP")
    load(compile_program(replace(program, ll=text)))(np.zeros((2, 40), np.float32), np.zeros((2, 40), np.float32))
    assert seen == [2, 2]


def test_a_kernel_may_be_called_from_several_threads_at_once() -> None:
    size = 6000
    a, c, t = Buffer("a", (size,)), Buffer("c", (size,)), Buffer("t", (size,))
    body = alloc(
        t,
        loop("x", size, lambda x: put(t, x, get(a, x) + 1.0), VECTORIZED),
        loop("y", size, lambda y: put(c, y, get(t, size - 1 - y)), VECTORIZED),
    )
    kernel = build(emit(function([a, c], [c], body), ONE_CORE))
    wrong = []

    def work(seed: int) -> None:
        values, out = numbers(a, seed), np.empty(size, np.float32)
        for _ in range(50):
            kernel(values, out)
            if not np.array_equal(out, values[::-1] + np.float32(1)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.fixture
def forgotten_runtime() -> Iterator[None]:
    openmp.addresses.cache_clear()
    yield
    openmp.addresses.cache_clear()


@on_this_machine
@pytest.mark.usefixtures("forgotten_runtime")
def test_without_an_openmp_runtime_the_error_has_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openmp, "candidates", lambda: iter(["libnothing.so.7"]))
    compiled = compile_program(emit(rows(4), TWO_CORES))
    with pytest.raises(TargetError, match=r"libnothing.so.7.*libgomp1.*xgboost.*-num-cores 1"):
        load(compiled)
    load(compile_program(emit(rows(4), ONE_CORE)))


@pytest.mark.usefixtures("forgotten_runtime")
def test_xgboosts_copy_of_the_runtime_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    copies = [path for path in openmp.candidates() if "xgboost" in path]
    if not copies:
        pytest.skip("this xgboost brings no libgomp")
    monkeypatch.setattr(openmp, "candidates", lambda: iter(copies))
    check(rows(7), TWO_CORES)


@pytest.mark.parametrize(
    ("given", "spins"),
    [({}, "1000"), ({"OMP_WAIT_POLICY": "active"}, None), ({"GOMP_SPINCOUNT": "7"}, "7")],
    ids=["nothing said", "the policy", "the count"],
)
def test_threads_wait_shortly_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], spins: str | None
) -> None:
    """A thread that spins while other programs want its core costs each parallel loop a tick of the scheduler."""
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    seen = []

    def load(path: str) -> ctypes.CDLL:
        seen.append(os.environ.get("GOMP_SPINCOUNT"))
        raise OSError("no library")

    monkeypatch.setattr(openmp.ctypes, "CDLL", load)
    with pytest.raises(TargetError):
        openmp.addresses.__wrapped__()
    assert set(seen) == {spins}
    assert os.environ.get("GOMP_SPINCOUNT") == given.get("GOMP_SPINCOUNT")
