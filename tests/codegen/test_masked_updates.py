"""Sums in vectors of which some lanes add nothing, and loads of dead lanes."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
from guarded_calls import beside_pages, own
from lowered_programs import (
    ONE_CORE,
    SERIAL,
    UNROLLED,
    VECTORIZED,
    WIDE,
    alloc,
    check,
    function,
    get,
    loop,
    numbers,
    put,
    run,
)

from pegbox.codegen import Target, build, emit
from pegbox.codegen.emitter.masked_updates import rewrite_updates
from pegbox.expr.build import const, logical_and, maximum, select
from pegbox.expr.nodes import Buffer, Var
from pegbox.loops.nodes import Alloc, ForKind, Function, If, Stmt, seq
from pegbox.loops.visit import walk

AVX2 = Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3 -num-cores 1")


def bordered(
    *,
    scope: str = "local",
    other: float = 0.0,
    combine: str = "add",
    dtype: str = "float32",
    rows: ForKind = SERIAL,
) -> Function:
    """Make c[y, x] = Σ k < 3: a[y, x + k - 1] w[k] in rows of 14; beyond both ends of a row, products are `other`."""
    a, w, c = Buffer("a", (5, 14), dtype), Buffer("w", (3,), dtype), Buffer("c", (5, 14), dtype)
    t = Buffer("t", (16,), dtype, scope)

    def step(k: Var, x: Var, y: Var) -> Stmt:
        inside = logical_and(x + k - 1 >= 0, x + k - 1 < 14)
        value = select(inside, get(a, y, x + k - 1) * get(w, k), const(other, dtype))
        old = get(t, x)
        return put(t, x, old + value if combine == "add" else maximum(old, value))

    def row(y: Var) -> Stmt:
        return seq(
            loop("x", 16, lambda x: put(t, x, const(0, dtype)), VECTORIZED),
            loop(
                "k", 3, lambda k: loop("x", 16, lambda x: If(x < 14, step(k, x, y), guard=True), VECTORIZED), UNROLLED
            ),
            loop("x", 16, lambda x: If(x < 14, put(c, y, x, get(t, x))), VECTORIZED),
        )

    return function([a, w, c], [c], alloc(t, loop("y", 5, row, rows)))


def test_lanes_that_add_zero_keep_their_sum() -> None:
    a, w, t = Buffer("a", (17,)), Buffer("w", (1,)), Buffer("t", (16,), "float32", "local")

    def update(x: Var) -> Stmt:
        return put(t, x, get(t, x) + select(x > 0, get(a, x - 1) * get(w, 0), const(0, "float32")))

    def skipping(x: Var) -> Stmt:
        return If(x > 0, put(t, x, get(t, x) + get(a, x - 1) * get(w, 0)))

    given, expected = (function([a, w], [], alloc(t, loop("x", 16, body, VECTORIZED))) for body in (update, skipping))
    assert str(given.with_body(rewrite_updates(given.body, WIDE, {t}))) == str(expected)
    assert rewrite_updates(given.body, AVX2, {t}) is given.body


@pytest.mark.parametrize(
    "func",
    [bordered(scope="global"), bordered(other=-0.0), bordered(other=1.0), bordered(combine="max")],
    ids=["others see the sums", "negative zero", "one", "maximum"],
)
def test_other_updates_stay(func: Function) -> None:
    stack = {stmt.buffer for stmt in walk(func.body) if isinstance(stmt, Alloc)}
    assert str(func.with_body(rewrite_updates(func.body, WIDE, stack))) == str(func)


def test_sums_too_large_for_registers_are_stored_whole() -> None:
    a, c, t = Buffer("a", (300, 16)), Buffer("c", (300, 16)), Buffer("t", (300, 16), "float32", "local")

    def step(y: Var, x: Var) -> Stmt:
        return put(t, y, x, get(t, y, x) + select(x > y, get(a, y, x), const(0, "float32")))

    bodies = [lambda y, x: put(t, y, x, get(a, y, x) * 2), step, lambda y, x: put(c, y, x, get(t, y, x))]
    rows = [loop("y", 300, lambda y, b=b: loop("x", 16, lambda x: b(y, x), VECTORIZED)) for b in bodies]
    func = function([a, c], [c], alloc(t, *rows))
    assert "@llvm.masked.store" not in emit(func, WIDE).ll
    check(func)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 16, 24, 32, 64, 100])
def test_vectors_of_any_size_are_blended(size: int, dtype: str) -> None:
    a, c, t = Buffer("a", (size,), dtype), Buffer("c", (size,), dtype), Buffer("t", (size,), dtype, "local")

    def blend(x: Var) -> Stmt:
        return If(x % 3 > 0, put(t, x, get(t, x) + get(a, x)))

    steps = [lambda x: put(t, x, get(a, x) * 2), blend, blend, lambda x: put(c, x, get(t, x))]
    check(function([a, c], [c], alloc(t, seq(*(loop("x", size, step, VECTORIZED) for step in steps)))))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("target", [ONE_CORE, Target("llvm -mcpu=x86-64-v3 -num-cores 1")], ids=["host", "AVX2"])
def test_sums_are_those_of_the_program(target: Target, dtype: str) -> None:
    check(bordered(dtype=dtype), target, rtol=1e-2 if dtype == "float16" else 1e-5)


def test_an_infinite_factor_leaves_lanes_that_skip_it_finite() -> None:
    a, w = np.ones((5, 14), np.float32), np.array([np.inf, 1, np.inf], np.float32)
    got = run(build(emit(bordered(), ONE_CORE)), {"a": a, "w": w})[0]
    assert np.isinf(got).all()
    assert not np.isnan(got).any()


@pytest.mark.optimizer
def test_a_multiply_add_and_its_mask_are_one_instruction() -> None:
    from pegbox.codegen.runtime.machine import assembly

    text = assembly(emit(bordered(), WIDE))
    assert re.search(r"vfmadd\w+\s.*%zmm\d+ \{%k\d\}", text)
    assert "vblend" not in text
    assert not re.search(r"vmovaps\s%zmm", text)


def test_only_loads_that_leave_the_array_have_masks() -> None:
    func = bordered(rows=UNROLLED)
    # Those of the last row, and the first one of the first row.
    assert emit(func, WIDE).ll.count("call <16 x float> @llvm.masked.load") == 4
    assert emit(bordered(dtype="float16", rows=UNROLLED), WIDE).ll.count("@llvm.masked.load.v16i16") > 4
    check(func)


@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
@pytest.mark.parametrize("rows", [SERIAL, UNROLLED])
def test_dead_lanes_read_nothing_outside_the_array(rows: ForKind) -> None:
    kernel, rng = build(emit(bordered(rows=rows), ONE_CORE)), np.random.default_rng(0)
    w, c = rng.uniform(-1, 1, 3).astype(np.float32), np.empty((5, 14), np.float32)
    given = rng.uniform(-1, 1, (5, 14)).astype(np.float32)
    padded = np.pad(given, ((0, 0), (1, 1)))
    for a in beside_pages(given):
        own(kernel)(a, w, c)
        np.testing.assert_allclose(c, sum(padded[:, k : k + 14] * w[k] for k in range(3)), rtol=1e-5, atol=1e-6)


def test_dead_lanes_of_arrays_that_the_program_writes_are_not_read() -> None:
    a, c = Buffer("a", (2, 14)), Buffer("c", (2, 14))

    def add(y: Var) -> Stmt:
        return loop("x", 16, lambda x: If(x < 14, put(c, y, x, get(c, y, x) + get(a, y, x))), VECTORIZED)

    func = function(
        [a, c], [c], seq(loop("y", 2, lambda y: loop("x", 14, lambda x: put(c, y, x, 1.0))), add(0), add(1))
    )
    loads = [line for line in emit(func, WIDE).ll.splitlines() if "call <16 x float> @llvm.masked.load" in line]
    assert len(loads) == 3  # two of c, and the last row of a
    check(func)


def test_lanes_that_choose_zero_over_a_common_element_get_zero() -> None:
    """The condition also says that the element exists, so it is read only if a lane needs it."""
    a, c = Buffer("a", (5,)), Buffer("c", (6, 16))

    def choice(y: Var, x: Var) -> Stmt:
        return put(c, y, x, select(logical_and(x > 8, y > 0), get(a, y - 1), const(0, "float32")))

    check(function([a, c], [c], loop("y", 6, lambda y: loop("x", 16, lambda x: choice(y, x), VECTORIZED))))


@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
@pytest.mark.parametrize("is_sum", [False, True])
def test_a_condition_reads_only_where_those_before_it_hold(kind: ForKind, is_sum: bool) -> None:
    a, b, t = Buffer("a", (5, 16)), Buffer("b", (6,)), Buffer("t", (16,), "float32", "local")

    def step(y: Var, x: Var) -> Stmt:
        inside = logical_and(logical_and(y > 0, get(b, y) > 0), get(a, y - 1, x) > 0)
        if is_sum:
            return put(t, x, get(t, x) + select(inside, get(a, y - 1, x), const(0, "float32")))
        return If(inside, put(t, x, get(t, x) + get(a, y - 1, x)))

    c = Buffer("c", (16,))
    body = seq(
        loop("x", 16, lambda x: put(t, x, const(0, "float32"))),
        loop("y", 6, lambda y: loop("x", 16, lambda x: step(y, x), kind)),
        loop("x", 16, lambda x: put(c, x, get(t, x))),
    )
    func = function([a, b, c], [c], alloc(t, body))
    check(func)
    # In one block, LLVM might move the second load behind the branch, but need not.
    assert not re.search(r"fcmp ogt [^:]*fcmp ogt", emit(func, WIDE).ll)


@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("is_chosen", [False, True])
def test_operands_of_arithmetic_under_masks_are_loaded_under_masks(is_chosen: bool, dtype: str) -> None:
    """LLVM 22 loads an operand without its mask if the sum is then in the right register (docs/llvm-defects.md)."""
    a, w, m, c = (
        Buffer(name, shape, dtype) for name, shape in zip("awmc", ((2, 16), (3,), (32,), (2, 32)), strict=True)
    )
    t = Buffer("t", (32,), dtype, "local")

    def step(y: Var, k: Var, x: Var) -> Stmt:
        at = x + k - 1
        inside, value = logical_and(logical_and(at >= 0, at < 16), get(m, x) > 0), get(a, y, at) * get(w, k)
        if is_chosen:
            return put(t, x, get(t, x) + select(inside, value, const(0, dtype)))
        return If(inside, put(t, x, get(t, x) + value))

    def row(y: Var) -> Stmt:
        return seq(
            loop("x", 32, lambda x: put(t, x, const(0, dtype)), VECTORIZED),
            loop("k", 3, lambda k: loop("x", 32, lambda x: step(y, k, x), VECTORIZED), UNROLLED),
            loop("x", 32, lambda x: put(c, y, x, get(t, x)), VECTORIZED),
        )

    func = function([a, w, m, c], [c], alloc(t, loop("y", 2, row, UNROLLED)))
    kernel, arrays = check(func), [numbers(buffer) for buffer in (a, w, m, c)]
    for copy in beside_pages(arrays[0]):
        own(kernel)(copy, *arrays[1:])
