"""Mathematical functions of neighbouring vectors, which are computed in turns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from lowered_programs import ONE_CORE, VECTORIZED, WIDE, check, elementwise, function, get, loop, numbers, put, run

from pegbox.codegen import build, emit
from pegbox.codegen.vector_math import definition, in_turns
from pegbox.expr.build import cast, const, select
from pegbox.expr.intrinsics import call
from pegbox.expr.nodes import Buffer, Expr
from pegbox.loops.nodes import Function, If, seq

FUNCTIONS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "exp": lambda a, _: call("exp", a),
    "exp of a sum": lambda a, b: call("exp", a + b) * b,
    "inside another": lambda a, _: call("tanh", call("exp", a)),
    "two arguments": lambda a, b: call("pow", a * a + 1.0, b),
    "one argument in common": lambda a, _: call("pow", a * a + 1.0, const(2.5, "float32")),
    "a number": lambda a, _: a + call("exp", const(0.5, "float32")),
    "gate": lambda a, b: a * call("sigmoid", b),
    "gate of tanh": lambda a, _: a * 0.5 * (call("tanh", a) + 1.0),
    "twice": lambda a, _: call("erf", a) + call("erf", a),
    "a cast": lambda a, b: cast("float32", call("exp", cast("float64", a))) + b,
}


@pytest.mark.parametrize("size", [64, 100, 37, 16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_in_turns_have_their_values(name: str, size: int) -> None:
    check(elementwise("float32", FUNCTIONS[name], size=size), rtol=1e-4)


@pytest.mark.parametrize(("size", "counts"), [(128, [4, 4]), (48, [3]), (96, [4, 2]), (16, [])])
def test_four_calls_at_most_are_one_function(size: int, counts: list[int]) -> None:
    text = emit(elementwise("float32", FUNCTIONS["exp"], size=size), WIDE).ll
    for count in (2, 3, 4, 8):
        assert len([x for x in text.splitlines() if f"@pegbox.exp.v16f32.x{count}(" in x and " call " in x]) == (
            counts.count(count)
        )


@pytest.mark.optimizer
@pytest.mark.parametrize("name", ["exp", "tanh", "log", "erf"])
def test_a_function_has_the_same_bits_alone_and_in_turns(name: str) -> None:
    a, c = Buffer("a", (128,)), Buffer("c", (128,))

    def stored(width: int) -> Function:
        def row(k: Expr) -> Expr:
            return loop("v", width, lambda v: put(c, k * width + v, call(name, get(a, k * width + v))), VECTORIZED)

        return function([a, c], [c], loop("k", 128 // width, row))

    given = {"a": np.abs(numbers(a)) + np.float32(0.1)}
    alone, together = (run(build(emit(stored(width), ONE_CORE)), given)[0] for width in (8, 128))
    np.testing.assert_array_equal(together, alone)


def test_the_calls_of_a_reduction_take_turns() -> None:
    a, c = Buffer("a", (64,)), Buffer("c", (1,))
    total = loop("v", 64, lambda v: put(c, 0, get(c, 0) + call("exp", get(a, v))), VECTORIZED)
    func = function([a, c], [c], seq(put(c, 0, 0.0), total))
    assert "@pegbox.exp.v16f32.x4(" in emit(func, WIDE).ll
    check(func, rtol=1e-5)


def test_an_array_is_changed_in_its_place() -> None:
    a, c = Buffer("a", (64,)), Buffer("c", (64,))
    fill = loop("v", 64, lambda v: put(c, v, get(a, v)), VECTORIZED)
    change = loop("v", 64, lambda v: put(c, v, call("exp", get(c, v))), VECTORIZED)
    check(function([a, c], [c], seq(fill, change)), rtol=1e-5)


def test_a_call_under_a_condition_waits_for_it() -> None:
    a, c = Buffer("a", (64,)), Buffer("c", (64,))

    def chosen(v: Expr) -> Expr:
        return select(v < 60, call("exp", get(a, v + 4)), get(a, v))

    func = function([a, c], [c], loop("v", 64, lambda v: put(c, v, chosen(v)), VECTORIZED))
    assert "@pegbox.exp.v16f32.x" not in emit(func, WIDE).ll
    check(func, rtol=1e-5)


def test_lanes_that_are_left_out_call_nothing_that_is_stored() -> None:
    a, c = Buffer("a", (64,)), Buffer("c", (64,))
    fill = loop("v", 64, lambda v: put(c, v, get(a, v)), VECTORIZED)
    some = loop("v", 64, lambda v: If(get(a, v) > 0.0, put(c, v, call("log", get(a, v)))), VECTORIZED)
    check(function([a, c], [c], seq(fill, some)), rtol=1e-4)


def test_instructions_of_the_calls_alternate() -> None:
    text = in_turns(definition("exp", "float32", 8), 8, 3).text.splitlines()
    registers = [line.split()[0] for line in text if line.startswith("  %v")]
    assert registers[:6] == ["%v0.0", "%v0.1", "%v0.2", "%v1.0", "%v1.1", "%v1.2"]
    assert len(registers) % 3 == 0
