"""Functions of `te` that are made of others: classes of floats, divisions that do not round down."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pegbox as pb
from pegbox import te
from pegbox.compute.reference import evaluate
from pegbox.compute.tensor import ComputeOp
from pegbox.errors import ExprError
from pegbox.expr import dtypes


def both(dtype: str, function: Any, *arrays: np.ndarray, lanes: int = 1) -> np.ndarray:
    """The values of a function of elements, which a kernel, on vectors of so many, and the reference agree on."""
    inputs = [te.placeholder(a.shape, str(a.dtype), f"X{n}") for n, a in enumerate(arrays)]
    out = te.compute(arrays[0].shape, lambda i: te.cast(dtype, function(*(x[i] for x in inputs))), "Y")
    got = np.empty(out.shape, dtype)
    s = te.create_schedule(out.op)
    s[out].vectorize(s[out].split(out.op.axis[0], lanes)[1])
    pb.build(s, [*inputs, out])(*arrays, got)
    assert_equal(got, evaluate([out], dict(zip(inputs, arrays, strict=True)))[0])
    return got


def assert_equal(got: np.ndarray, wanted: np.ndarray) -> None:
    """NumPy itself does not know bfloat16's NaN."""
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(*(a.astype("float64") if a.dtype == "bfloat16" else a for a in (got, wanted)))


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_classes_of_floats(name: str, dtype: str) -> None:
    x = np.array([0, -1.5, np.inf, -np.inf, np.nan, 6e4], dtype)
    np.testing.assert_array_equal(both("bool", getattr(te, name), x), getattr(np, name)(x))


def test_integers_are_always_numbers() -> None:
    x = te.placeholder((4,), "int32", "X")
    assert [str(function(x[0])) for function in (te.isnan, te.isinf, te.isfinite)] == ["False", "False", "True"]


@pytest.mark.parametrize("divisor", [3, -3, None])
def test_division_as_in_c(divisor: int | None) -> None:
    a, b = (each.ravel().astype("int32") for each in np.meshgrid(np.arange(-7, 8), [1, 2, 3, -1, -4, 5]))
    for function, exact in (
        (te.truncdiv, lambda p, q: np.trunc(p / q)), (te.truncmod, np.fmod), (te.ceildiv, lambda p, q: np.ceil(p / q)),
    ):  # fmt: skip
        wanted = exact(a, b if divisor is None else divisor).astype("int32")
        got = both("int32", lambda p, q, f=function: f(p, q if divisor is None else divisor), a, b)
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("divisor", [3, None])
def test_divisions_of_the_lowest_and_highest_numbers_do_not_wrap_around(divisor: int | None) -> None:
    a, b = (each.ravel().astype("int8") for each in np.meshgrid(np.arange(-128, 128), [1, 2, 100, 127, -3, -128]))
    exact = a.astype("float64") / (b if divisor is None else divisor)
    for function, wanted in ((te.truncdiv, np.trunc(exact)), (te.ceildiv, np.ceil(exact))):
        got = both("int8", lambda p, q, f=function: f(p, q if divisor is None else te.const(divisor, "int8")), a, b)
        np.testing.assert_array_equal(got, wanted.astype("int8"))


def test_divisions_of_axes_are_the_plain_ones() -> None:
    k = te.reduce_axis((2, 9), "k")
    assert str(te.truncdiv(k, 4)) == str(te.floordiv(k, 4)) == str(te.div(k, 4)) == str(te.indexdiv(k, 4))
    assert str(te.truncmod(k, 4)) == str(te.floormod(k, 4))
    assert str(te.ceildiv(k, 4)) == str(te.floordiv(k + 3, 4))


def test_divisions_of_sizes_are_the_plain_ones_and_can_be_extents() -> None:
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((te.div(n + 5, 2), te.truncmod(n, m) + 1, te.ceildiv(n, m)), name="A")
    assert list(map(str, a.shape)) == ["(n + 5) // 2", "n % m + 1", "(n + (m - 1)) // m"]
    b = te.compute((n,), lambda i: te.truncdiv(i + 1, m), name="B")
    assert isinstance(b.op, ComputeOp)
    assert str(b.op.body[0]) == "(i + 1) // m"


def test_div_of_floats_is_true_division() -> None:
    x = np.linspace(-3, 3, 8, dtype="float32")
    np.testing.assert_array_equal(both("float32", lambda v: te.div(v, 2.5), x), x / np.float32(2.5))
    with pytest.raises(ExprError, match="division by zero"):
        te.truncdiv(te.const(3), 0)


@settings(max_examples=4)
@given(st.integers(0, 2**32), st.sampled_from(["int8", "int32", "int64"]), st.sampled_from([1, 16]))
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_ldexp_rounds_once_whatever_the_exponent(dtype: str, seed: int, exponents: str, lanes: int) -> None:
    rng = np.random.default_rng(seed)
    kind = dtypes.numpy_dtype(dtype)  # of any bits: subnormal numbers, infinities and NaN too
    x = np.frombuffer(rng.bytes(256 * kind.itemsize), kind)
    n = rng.integers(*((-128, 128) if exponents == "int8" else (-2500, 2500)), 256).astype(exponents)
    n[:128] //= 32
    with np.errstate(all="ignore"):
        exact = np.ldexp(x.astype("float64") if dtype == "bfloat16" else x, n).astype(kind)
    assert_equal(both(dtype, te.ldexp, x, n, lanes=lanes), exact)


@pytest.mark.parametrize(("x", "n"), [(1e-30, 200), (1e30, -220), (-1.0, 10**30), (3.0, -(10**30)), (1.5, 0), (0, 300)])
def test_ldexp_with_a_number_for_exponent(x: float, n: int) -> None:
    numbers = np.full(4, x, "float32")
    with np.errstate(all="ignore"):
        exact = np.ldexp(numbers, np.clip(n, -1000, 1000))
    np.testing.assert_array_equal(both("float32", lambda v: te.ldexp(v, n), numbers), exact)


@pytest.mark.parametrize(("name", "value"), [("popcount", 1.5), ("clz", 2.0), ("sin", 3), ("fmod", 3), ("ldexp", 3)])
def test_functions_of_other_types_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ExprError, match=rf"{name}\(.*needs"):
        getattr(te, name)(*[te.const(value)] * (2 if name in ("fmod", "ldexp") else 1))
