"""Products with a sigmoid or with 1 + tanh, which are computed as one quotient, and with 1 + erf, as one sum."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import llvmlite.binding as llvm
import numpy as np
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st

import pegbox as pb
from pegbox import te
from pegbox.codegen import emit
from pegbox.codegen.emitter.gates import NAMES
from pegbox.codegen.targets.target import target_of
from pegbox.errors import CompileError
from pegbox.expr.nodes import Call

Function = Callable[..., te.Expr]
CUBIC: Function = lambda x: math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)  # noqa: E731

TARGETS = [
    "llvm",  # AVX-512 where this machine has it
    pytest.param(
        "llvm -mcpu=x86-64-v3",
        marks=pytest.mark.skipif(not llvm.get_host_cpu_features().get("avx2"), reason="no AVX2 here"),
    ),
]

GATES: dict[str, Function] = {
    "silu": lambda x: x * te.sigmoid(x),
    "silu, turned": lambda x: te.sigmoid(x) * x,
    "quick gelu": lambda x: x * te.sigmoid(1.702 * x),
    "two sigmoids": lambda x: te.sigmoid(x) * te.sigmoid(2 * x),
    "gelu": lambda x: 0.5 * x * (1 + te.tanh(CUBIC(x))),
    "gelu, half last": lambda x: x * (te.tanh(CUBIC(x)) + 1) * 0.5,
    "half of the product": lambda x: 0.5 * (x * (1 + te.tanh(CUBIC(x)))),
    "fast gelu": lambda x: 0.5 * x * (1 + te.tanh(x * math.sqrt(2 / math.pi) * (1 + 0.044715 * x * x))),
    "a fifth": lambda x: x * 0.2 * (te.tanh(x) + 1),
    "without x": lambda x: 0.5 * (1 + te.tanh(0.5 * x)),
}
ERF_GATES: dict[str, Function] = {
    "gelu": lambda x: 0.5 * x * (1 + te.erf(x * math.sqrt(0.5))),
    "half last": lambda x: x * (te.erf(x / math.sqrt(2)) + 1) * 0.5,
    "half of the product": lambda x: 0.5 * (x * (1 + te.erf(x * math.sqrt(0.5)))),
    "quotient": lambda x: 0.5 * x * (1 + te.erf(x / math.sqrt(2))),
    "without x": lambda x: 0.5 * (1 + te.erf(x)),
}
OTHERS: dict[str, Function] = {
    "sum": lambda x: x + te.sigmoid(x),
    "without a half": lambda x: x * (1 + te.tanh(x)),
    "large constant": lambda x: 0.75 * x * (1 + te.tanh(x)),
    "tiny constant": lambda x: x * te.const(1e-39, "float32") * (1 + te.tanh(x)),
    "half of a factor": lambda x: x * 0.5 * (x + 1) * (1 + te.tanh(x)),
    "another sum": lambda x: x * (2 + te.tanh(x)),
    "difference": lambda x: x * (1 - te.tanh(x)),
    "another function": lambda x: 0.5 * x * (1 + te.exp(x)),
    "another sum of erf": lambda x: x * (2 + te.erf(x)),
    "difference of erf": lambda x: x * (1 - te.erf(x)),
    "quotient": lambda x: te.sigmoid(x) / x,
    "power of a magnitude": lambda x: te.exp2(te.abs(x)),
    "power of half a magnitude": lambda x: te.exp2(-0.5 * te.abs(x)),
    "power of e of a magnitude": lambda x: te.exp(te.abs(x)),
}


def program(
    function: Function, dtype: str = "float32", size: int = 64, inputs: int = 1
) -> tuple[te.TESchedule, list[te.Tensor]]:
    given = [te.placeholder((size,), dtype, f"x{k}") for k in range(inputs)]
    y = te.compute((size,), lambda i: function(*(x[i] for x in given)), name="y")
    s = te.create_schedule(y.op)
    s[y].vectorize(s[y].split(y.op.axis[0], factor=16)[1])
    return s, [*given, y]


def text(function: Function, dtype: str = "float32") -> str:
    return emit(pb.lower(*program(function, dtype)), target_of("llvm -num-cores 1")).ll


def values(function: Function, *inputs: np.ndarray, target: str = "llvm") -> np.ndarray:
    x = inputs[0]
    found = np.empty_like(x)
    kernel = pb.build(*program(function, str(x.dtype), x.size, len(inputs)), target=f"{target} -num-cores 1")
    kernel(*inputs, found)
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
            case "a fifth":
                return 0.4 * x * sigmoid(2 * x)
            case "without x":
                return sigmoid(x)
            case _:
                return x * sigmoid(cubic)


@pytest.mark.parametrize("name", GATES)
def test_a_gate_is_one_quotient(name: str) -> None:
    found = text(GATES[name])
    assert "@pegbox.gate" in found
    assert "@pegbox.tanh" not in found


@pytest.mark.parametrize("name", ERF_GATES)
def test_a_gate_by_erf_is_one_function(name: str) -> None:
    found = text(ERF_GATES[name])
    assert ("@pegbox.erf_gate" if name == "without x" else "@pegbox.gelu") in found
    assert "@pegbox.erf." not in found


NO_GELUS: dict[str, Function] = {
    "another half": lambda x: 0.4 * x * (1 + te.erf(x * math.sqrt(0.5))),
    "another root": lambda x: 0.5 * x * (1 + te.erf(x * 0.7072)),
    "quotient of the root": lambda x: 0.5 * x * (1 + te.erf(math.sqrt(2) / x)),
    "another number": lambda x: 0.5 * x * (1 + te.erf((x + 1) * math.sqrt(0.5))),
    "no root": lambda x: 0.5 * x * (1 + te.erf(x)),
}


@pytest.mark.parametrize("name", NO_GELUS)
def test_other_products_with_erf_are_not_gelu(name: str) -> None:
    found = text(NO_GELUS[name])
    assert "@pegbox.erf_gate" in found
    assert "@pegbox.gelu" not in found


@pytest.mark.parametrize(
    ("power", "name", "plain"),
    [
        (lambda x: te.exp2(-te.abs(x)), "decay", "exp2"),
        (lambda x: te.exp2(te.abs(x - 1) * -1), "decay", "exp2"),
        (lambda x: te.exp(-te.abs(x)), "exp_decay", "exp"),
        (lambda x: te.exp2(te.nonpositive(x - 1)), "decay", "exp2"),
        (lambda x: te.exp(te.nonpositive(x)), "exp_decay", "exp"),
    ],
)
def test_a_power_whose_exponent_is_never_positive_is_one_function(power: Function, name: str, plain: str) -> None:
    found = text(power)
    assert f"@pegbox.{name}." in found
    assert f"@pegbox.{plain}." not in found


@pytest.mark.parametrize("name", OTHERS)
def test_other_expressions_stay_what_they_are(name: str) -> None:
    assert not any(f"@pegbox.{gate}" in text(OTHERS[name]) for gate in NAMES)


def test_halves_are_not_gated() -> None:
    assert "@pegbox.gate" not in text(GATES["silu"], "float16")


def test_errors_list_no_gate_since_programs_cannot_name_one() -> None:
    with pytest.raises(CompileError, match=r"no machine code for the intrinsic 'nothing'; known: .*sigmoid") as caught:
        text(lambda x: Call("nothing", (x,), "float32"))
    assert "gate" not in str(caught.value)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", GATES)
def test_values_of_gates_are_numpys(name: str, dtype: str) -> None:
    x = np.concatenate([np.linspace(-30, 30, 4000), [0.0, -0.0, 1e30, 3e-40, math.nan, math.inf] * 16]).astype(dtype)
    want = reference(name, x)
    np.testing.assert_allclose(values(GATES[name], x), want, rtol=3e-5 if dtype == "float32" else 1e-13, atol=1e-37)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ERF_GATES)
def test_gates_by_erf_have_the_values_of_scipy(name: str, dtype: str, target: str) -> None:
    x = np.concatenate([np.linspace(-9, 9, 4000), [0.0, -0.0, 1e30, -1e30, 3e-40, math.nan, math.inf] * 16])
    x = x.astype(dtype)
    wide = x.astype("float64")
    with np.errstate(all="ignore"):
        want = 0.5 * scipy.special.erfc(-wide) if name == "without x" else wide * scipy.special.ndtr(wide)
    found = values(ERF_GATES[name], x, target=target)
    scale = 1.0 if name == "without x" else np.abs(wide)
    most = (1.2e-7 if dtype == "float32" else 4e-16) * scale + 1e-37
    with np.errstate(all="ignore"):
        near = np.abs(found - want) <= most
    assert (near | (found == want) | (np.isnan(found) & np.isnan(want))).all()


def constant(value: float) -> te.Expr:
    return te.const(value, "float32")


EXTREMES: list[tuple[str, Function, list[float], float]] = [
    ("factors of both sides", lambda x, y, z: x * te.sigmoid(y) * z, [1e30, -80, 1e30], 1.8048514e25),
    ("factors before the gate", lambda x, y, z: z * (te.sigmoid(y) * x), [1e30, -80, 1e30], 1.8048514e25),
    ("constant after a zero", lambda x, y, w: x * w * constant(1e30) * te.sigmoid(y), [1e10, 0, 0], 0),
    ("constant of tanh after a zero", lambda x, y, w: x * (1 + te.tanh(y * w * constant(1e30))), [1, 1e10, 0], 1),
    ("the same with a half", lambda x, y, w: 0.5 * x * (1 + te.tanh(y * w * constant(1e30))), [1, 1e10, 0], 0.5),
    ("large constant", lambda x, y: x * constant(3e38) * (1 + te.tanh(y)), [1e-38, 0], 3),
    ("large constant of tanh", lambda x, y: 0.5 * x * (1 + te.tanh(constant(3e38) * y)), [1, 0], 0.5),
    ("large constant outside", lambda x, y: x * (1 + te.tanh(y)) * constant(1e10), [5e28, -2], 1.798621e37),
    ("no constant, zero", lambda x, y: x * (1 + te.tanh(y)), [2e38, 0], 2e38),
    ("no constant", lambda x, y: x * (1 + te.tanh(y)), [2e38, -1], 4.768117e37),
    ("no constant, far down", lambda x, y: x * (1 + te.tanh(y)), [2e38, -80], 0),
    ("half of a large number", lambda x, y: 0.5 * x * (1 + te.tanh(y)), [3e38, 20], 3e38),
    ("half last", lambda x, y: x * (1 + te.tanh(y)) * 0.5, [3e38, 0], 1.5e38),
    ("near the limit", lambda x, y: x * te.sigmoid(y), [1e38, -88.5], 0.36723015),
    ("infinity near the limit", lambda x, y: x * te.sigmoid(y), [math.inf, -88.5], math.inf),
    ("infinity, far up", lambda x, y: x * te.sigmoid(y), [-math.inf, 1e30], -math.inf),
    ("beyond the limit", lambda x, y: x * te.sigmoid(y), [1e38, -89], 0),
    ("large number and erf", lambda x, y: x * (1 + te.erf(y)), [3e38, -0.5], 1.438500e38),
    ("number and NaN of erf", lambda x, y: x * (1 + te.erf(y)), [1, math.nan], math.nan),
    ("infinity and erf", lambda x, y: x * (1 + te.erf(y)), [-math.inf, 0.5], -math.inf),
    ("infinity and infinity of erf", lambda x: 0.5 * x * (1 + te.erf(x)), [math.inf], math.inf),
    ("infinity beyond the limit", lambda x, y: x * te.sigmoid(y), [math.inf, -89], math.nan),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("function", "given", "want"), [pytest.param(*each, id=name) for name, *each in EXTREMES])
def test_extreme_numbers_keep_their_products(function: Function, given: list[float], want: float, target: str) -> None:
    inputs = [np.full(16, each, "float32") for each in given]
    np.testing.assert_allclose(values(function, *inputs, target=target), np.full(16, want), rtol=5e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_extreme_numbers_of_float64_keep_their_products(target: str) -> None:
    x, y = np.full(16, 1e200), np.full(16, -600.0)
    found = values(lambda x, y, z: x * te.sigmoid(y) * z, x, y, x, target=target)
    np.testing.assert_allclose(found, 1e200 * math.exp(-600) * 1e200, rtol=1e-12)


NUMBERS = st.floats(width=32) | st.sampled_from([math.inf, -math.inf, 1e38, -88.5, -88.7, -88.8, -44.3, -44.4, 0, -0.0])
LAST = math.log(np.finfo("float32").max)
"""The exponent beyond which e^x overflows."""


@cache
def pair_kernel(name: str, target: str) -> pb.Kernel:
    return pb.build(*program(PAIRS[name], size=16, inputs=2), target=f"{target} -num-cores 1")


PAIRS: dict[str, Function] = {
    "sigmoid": lambda a, b: a * te.sigmoid(b),
    "tanh": lambda a, b: 0.5 * a * (1 + te.tanh(b)),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PAIRS)
@given(pairs=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=16, max_size=16))
def test_gates_of_any_two_numbers_are_what_the_docs_say(
    name: str, target: str, pairs: list[tuple[float, float]]
) -> None:
    inputs = np.array(pairs, "float32").T.copy()
    found = np.empty(16, "float32")
    pair_kernel(name, target)(*inputs, found)
    with np.errstate(all="ignore"):
        a, b = inputs.astype("float64")
        exponent = -b if name == "sigmoid" else -2 * b
        want = np.where(exponent > LAST, a * 0, a / (1 + np.exp(exponent)))
        bound = 2e-6 * np.abs(want) * (1 + np.abs(exponent) * (name == "tanh")) + np.abs(a) * 2.0**-127 + 2e-45
        good = (found == want) | (np.isnan(found) & np.isnan(want)) | (np.abs(found - want) <= bound)
    at_the_limit = np.abs(exponent - LAST) < 1e-3
    assert (good | at_the_limit).all(), [each for each, fine in zip(pairs, good, strict=True) if not fine]


def test_a_gate_of_a_very_negative_number_is_zero() -> None:
    x = np.array([-89, -100, -1e4, -1e30] * 16, "float32")
    for name in ("silu", "gelu", "quick gelu"):
        np.testing.assert_array_equal(values(GATES[name], x), np.zeros_like(x))


@pytest.mark.parametrize("target", TARGETS)
def test_gelu_of_a_large_number_is_that_number_or_zero(target: str) -> None:
    x = np.array([5.8, 10, 1e4, 3e38] * 16, "float32")
    np.testing.assert_array_equal(values(ERF_GATES["gelu"], x, target=target), x)
    np.testing.assert_array_equal(values(ERF_GATES["gelu"], -x, target=target), np.zeros_like(x))


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
