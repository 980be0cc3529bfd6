"""Products with a sigmoid or with 1 + tanh, which are computed as one quotient."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pegbox as pb
from pegbox import te
from pegbox.codegen import emit
from pegbox.codegen.targets.target import target_of

Function = Callable[[te.Expr], te.Expr]
CUBIC: Function = lambda x: math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)  # noqa: E731

GATES: dict[str, Function] = {
    "silu": lambda x: x * te.sigmoid(x),
    "silu, turned": lambda x: te.sigmoid(x) * x,
    "quick gelu": lambda x: x * te.sigmoid(1.702 * x),
    "two sigmoids": lambda x: te.sigmoid(x) * te.sigmoid(2 * x),
    "gelu": lambda x: 0.5 * x * (1 + te.tanh(CUBIC(x))),
    "gelu, half last": lambda x: x * (te.tanh(CUBIC(x)) + 1) * 0.5,
    "without a half": lambda x: x * (1 + te.tanh(x)),
    "without x": lambda x: 0.5 * (1 + te.tanh(0.5 * x)),
}
OTHERS: dict[str, Function] = {
    "sum": lambda x: x + te.sigmoid(x),
    "another sum": lambda x: x * (2 + te.tanh(x)),
    "difference": lambda x: x * (1 - te.tanh(x)),
    "another function": lambda x: 0.5 * x * (1 + te.erf(x)),
    "quotient": lambda x: te.sigmoid(x) / x,
}


def program(function: Function, dtype: str = "float32", size: int = 64) -> tuple[te.TESchedule, list[te.Tensor]]:
    x = te.placeholder((size,), dtype, "x")
    y = te.compute((size,), lambda i: function(x[i]), name="y")
    s = te.create_schedule(y.op)
    s[y].vectorize(s[y].split(y.op.axis[0], factor=16)[1])
    return s, [x, y]


def text(function: Function, dtype: str = "float32") -> str:
    return emit(pb.lower(*program(function, dtype)), target_of("llvm -num-cores 1")).ll


def values(function: Function, x: np.ndarray) -> np.ndarray:
    found = np.empty_like(x)
    pb.build(*program(function, str(x.dtype), x.size))(x, found)
    return found


def reference(name: str, x: np.ndarray) -> np.ndarray:
    def sigmoid(b: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-b))

    with np.errstate(all="ignore"):
        x = x.astype("float64")
        cubic = 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
        match name:
            case "silu" | "silu, turned":
                return x * sigmoid(x)
            case "quick gelu":
                return x * sigmoid(1.702 * x)
            case "two sigmoids":
                return sigmoid(x) * sigmoid(2 * x)
            case "without a half":
                return 2 * x * sigmoid(2 * x)
            case "without x":
                return sigmoid(x)
            case _:
                return x * sigmoid(cubic)


@pytest.mark.parametrize("name", GATES)
def test_a_gate_is_one_quotient(name: str) -> None:
    found = text(GATES[name])
    assert "@pegbox.gate" in found
    assert "@pegbox.tanh" not in found


@pytest.mark.parametrize("name", OTHERS)
def test_other_expressions_stay_what_they_are(name: str) -> None:
    assert "@pegbox.gate" not in text(OTHERS[name])


def test_halves_are_not_gated() -> None:
    assert "@pegbox.gate" not in text(GATES["silu"], "float16")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", GATES)
def test_values_of_gates_are_numpys(name: str, dtype: str) -> None:
    x = np.concatenate([np.linspace(-30, 30, 4000), [0.0, -0.0, 1e30, 3e-40, math.nan, math.inf] * 16]).astype(dtype)
    want = reference(name, x)
    np.testing.assert_allclose(values(GATES[name], x), want, rtol=3e-5 if dtype == "float32" else 1e-13, atol=1e-37)


def test_a_gate_of_a_very_negative_number_is_zero() -> None:
    x = np.array([-89, -100, -1e4, -1e30] * 16, "float32")
    for name in ("silu", "gelu", "quick gelu"):
        np.testing.assert_array_equal(values(GATES[name], x), np.zeros_like(x))


@given(
    st.permutations(["x", "gate", "half", "y"]),
    st.sampled_from(
        [
            (te.sigmoid, lambda e: 1 / (1 + np.exp(-e))),
            (lambda e: te.tanh(e) + 1, lambda e: np.tanh(e) + 1),
            (lambda e: 1 + te.tanh(3 * e), lambda e: np.tanh(3 * e) + 1),
        ]
    ),
    st.booleans(),
)
def test_products_in_any_order_keep_their_values(
    order: list[str], gates: tuple[Function, Callable[[np.ndarray], np.ndarray]], from_the_right: bool
) -> None:
    gate, plain = gates

    def function(x: te.Expr) -> te.Expr:
        factors = {"x": x, "gate": gate(x), "half": te.const(0.5, "float32"), "y": x * 0.25 + 1}
        first, *rest = (factors[each] for each in order)
        for each in rest:
            first = each * first if from_the_right else first * each
        return first

    x = np.linspace(-6, 6, 64).astype("float32")
    wide = x.astype("float64")
    np.testing.assert_allclose(values(function, x), wide * 0.5 * plain(wide) * (wide * 0.25 + 1), atol=2e-6)
