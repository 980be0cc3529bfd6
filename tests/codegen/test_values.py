"""Arithmetic on every element type, scalar and vectorized, against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes  # noqa: F401  (gives NumPy the name bfloat16)
import numpy as np
import pytest
from lowered_programs import ONE_CORE, SERIAL, VECTORIZED, elementwise, function, get, loop, put, run

from pegbox.codegen import Target, assembly, build, emit
from pegbox.errors import CompileError
from pegbox.expr.build import cast, compare, const, logical_and, logical_not, logical_or, maximum, minimum, select
from pegbox.expr.intrinsics import ARITY, call
from pegbox.expr.nodes import Binary, Buffer, Call, Const
from pegbox.loops.nodes import Function

FLOATS = ("float64", "float32", "float16", "bfloat16")
INTS = ("int64", "int32", "int16", "int8", "uint8")
KINDS = pytest.mark.parametrize("kind", [SERIAL, VECTORIZED], ids=str)


def outputs(func: Function, **arrays: np.ndarray) -> np.ndarray:
    return run(build(emit(func, ONE_CORE)), arrays)[0]


def samples(dtype: str, size: int = 37) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    if dtype in FLOATS:
        return rng.uniform(-3, 3, size).astype(dtype), rng.uniform(-3, 3, size).astype(dtype)
    info = np.iinfo(dtype)
    return tuple(rng.integers(info.min, info.max, size, dtype=dtype, endpoint=True) for _ in range(2))  # type: ignore[return-value]


@KINDS
@pytest.mark.parametrize("dtype", FLOATS + INTS)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "min", "max"])
def test_arithmetic_is_numpys_and_integers_wrap(dtype: str, op: str, kind: object) -> None:
    numpy = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum}[op]
    a, b = samples(dtype)
    func = elementwise(dtype, lambda x, y: Binary(op, x, y), kind=kind)  # type: ignore[arg-type]
    np.testing.assert_array_equal(outputs(func, a=a, b=b), numpy(a, b))


@KINDS
@pytest.mark.parametrize("dtype", FLOATS)
def test_division_of_floats(dtype: str, kind: object) -> None:
    a, b = samples(dtype)
    func = elementwise(dtype, lambda x, y: x / y, kind=kind)  # type: ignore[arg-type]
    np.testing.assert_array_equal(outputs(func, a=a, b=b), a / b)


@KINDS
@pytest.mark.parametrize("dtype", INTS)
def test_floor_division_by_anything(dtype: str, kind: object) -> None:
    a, b = samples(dtype)
    b[:8] = [0, 1, 2, 3, 0, 5, 7, 127]
    if dtype != "uint8":
        b[8:12] = [-1, -2, -3, -128]
        a[8] = np.iinfo(dtype).min  # its quotient by -1 does not fit: a trap on x86 unless guarded
    with np.errstate(all="ignore"):
        for op, numpy in (("floordiv", np.floor_divide), ("floormod", np.mod)):
            func = elementwise(dtype, lambda x, y, op=op: Binary(op, x, y), kind=kind)  # type: ignore[arg-type, misc]
            np.testing.assert_array_equal(outputs(func, a=a, b=b), numpy(a, b))


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8"])
@pytest.mark.parametrize("divisor", [1, 2, 8, 3, 7, 100, -1, -3, -4])
def test_floor_division_by_a_constant(dtype: str, divisor: int) -> None:
    if dtype == "uint8" and divisor < 0:
        pytest.skip("not a value of uint8")
    a, b = samples(dtype)
    with np.errstate(all="ignore"):
        for op, numpy in (("floordiv", np.floor_divide), ("floormod", np.mod)):
            func = elementwise(dtype, lambda x, y, op=op: Binary(op, x, Const(divisor, dtype)))  # type: ignore[misc]
            np.testing.assert_array_equal(outputs(func, a=a, b=b), numpy(a, np.array(divisor, dtype)))


@pytest.mark.optimizer
def test_a_product_and_a_sum_are_fused() -> None:
    x = np.float32(1 + 2**-12)
    a = np.full(37, x)
    func = elementwise("float32", lambda p, q: p * p + q)
    rounded_once = np.float32(np.float64(x) * np.float64(x) - 1.0)
    got = outputs(func, a=a, b=np.full(37, -1, np.float32))
    if "fma" in ONE_CORE.features.replace("+fma4", "").split("+") or "+fma," in ONE_CORE.features:
        assert (got == rounded_once).all()
    else:
        np.testing.assert_allclose(got, rounded_once, rtol=1e-3)


@KINDS
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["min", "max"])
def test_min_and_max_keep_nan_from_either_side(dtype: str, op: str, kind: object) -> None:
    numpy = np.minimum if op == "min" else np.maximum
    values = np.array([np.nan, 1, np.nan, -1, np.inf, -np.inf, 2], dtype)
    a, b = np.repeat(values, 7)[:37], np.tile(values, 7)[:37]
    func = elementwise(dtype, lambda x, y: Binary(op, x, y), kind=kind)  # type: ignore[arg-type]
    with np.errstate(invalid="ignore"):
        wide = numpy(a, b).astype("float64")  # NumPy's test takes NaNs of extension types for different
    np.testing.assert_array_equal(outputs(func, a=a, b=b).astype("float64"), wide)


@pytest.mark.optimizer
@pytest.mark.parametrize("op", ["min", "max"])
def test_extrema_of_avx2_keep_nan_without_a_choice(op: str) -> None:
    """Check the machine code: a choice by a mask is three steps on Intel's processors."""
    func = elementwise("float32", lambda x, y: Binary(op, x, y), kind=VECTORIZED)  # type: ignore[arg-type]
    text = assembly(emit(func, Target("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3 -num-cores 1")))
    vectors = [line for line in text.splitlines() if "ymm" in line]
    assert any(f"v{op}ps" in line for line in vectors)
    assert not any("vblendvps" in line for line in vectors)


@pytest.mark.parametrize("flip", [False, True])
def test_relu_keeps_nan(flip: bool) -> None:
    a = np.array([np.nan, -1, 1] * 12 + [0], np.float32)
    zero = const(0.0, "float32")
    func = elementwise("float32", lambda x, y: maximum(zero, x) if flip else maximum(x, zero))
    np.testing.assert_array_equal(outputs(func, a=a, b=a), np.maximum(a, 0))


@KINDS
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS])
@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_comparisons_give_bool_arrays(dtype: str, op: str, kind: object) -> None:
    numpy = {
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
        "eq": np.equal,
        "ne": np.not_equal,
    }
    a, b = samples(dtype)
    b[::3] = a[::3]
    if dtype in FLOATS:
        a[5], b[6] = np.nan, np.nan
    func = elementwise(dtype, lambda x, y: compare(op, x, y), kind=kind, out="bool")  # type: ignore[arg-type]
    got = outputs(func, a=a, b=b)
    assert got.dtype == np.bool_
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got, numpy[op](a, b))


@KINDS
def test_logic_on_bool_arrays(kind: object) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random(37) < 0.5, rng.random(37) < 0.5
    func = elementwise("bool", lambda x, y: logical_or(logical_and(x, y), logical_not(x)), kind=kind)  # type: ignore[arg-type]
    np.testing.assert_array_equal(outputs(func, a=a, b=b), (a & b) | ~a)


@KINDS
@pytest.mark.parametrize("source", [*FLOATS, *INTS, "bool"])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, "bool"])
def test_casts_are_numpys(source: str, dtype: str, kind: object) -> None:
    if source == "bool":
        a = np.arange(37) % 3 == 0
    elif source in FLOATS:
        # In the range of every integer type, with fractions and both signs where the type has them.
        a = np.linspace(0 if dtype == "uint8" else -100, 100, 37).astype(source)
        a[3] = 0
    else:
        a = samples(source)[0]
        a[3] = 0
        if dtype == "float16" and source in ("int32", "int64", "int16"):
            a = a % 2048
    func = elementwise(source, lambda x, y: cast(dtype, x), kind=kind, out=dtype)  # type: ignore[arg-type]
    np.testing.assert_array_equal(outputs(func, a=a, b=a), a.astype(dtype))


@KINDS
def test_a_float64_is_rounded_to_float16_once(kind: object) -> None:
    """Rounding to float32 on the way would make ties of what lies just beside one."""
    rng = np.random.default_rng(1)
    halves = np.sort(rng.uniform(-65000, 65000, 400).astype("float16").astype("float64"))
    ties = (halves + np.nextafter(halves.astype("float16"), np.float16(np.inf)).astype("float64")) / 2
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 65504.0, 65519.999, 65520.0, 1e300, 5.9e-8, 2.9e-8, 3e-8, 1e-300]
    near = [np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf), ties * (1 + 2**-30), ties * (1 - 2**-30)]
    a = np.concatenate([ties, *near, special, -np.array(special)])
    func = elementwise("float64", lambda x, y: cast("float16", x), kind=kind, out="float16", size=a.size)  # type: ignore[arg-type]
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(outputs(func, a=a, b=a), a.astype("float16"))


def test_loop_variables_are_values_too() -> None:
    c = Buffer("c", (3, 37), "float32")
    body = loop("i", 3, lambda i: loop("j", 37, lambda j: put(c, i, j, cast("float32", i * 100 + j)), VECTORIZED))
    got = run(build(emit(function([c], [c], body), ONE_CORE)), {})[0]
    np.testing.assert_array_equal(got, np.arange(37)[None] + 100 * np.arange(3)[:, None])


@KINDS
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "name", ["exp", "exp2", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "pow", "abs", "floor", "ceil", "round"]
)
def test_intrinsics(name: str, dtype: str, kind: object) -> None:
    from scipy import special

    a = np.linspace(0.1, 3.7, 37).astype(dtype)
    if name in ("exp", "exp2", "tanh", "sigmoid", "erf", "abs", "floor", "ceil", "round"):
        a = (a - 2).astype(dtype)
        a[:4] = [0.5, 1.5, 2.5, -0.5]  # halves go to the even neighbour
    b = np.full(37, 1.25, dtype)
    wide = a.astype("float64")
    expected = {
        "exp": np.exp, "exp2": np.exp2, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
        "tanh": np.tanh, "sigmoid": special.expit, "erf": special.erf, "pow": lambda x: x**1.25, "abs": np.abs,
        "floor": np.floor, "ceil": np.ceil, "round": np.round,
    }[name](wide)  # fmt: skip
    func = elementwise(
        dtype,
        lambda x, y: call(name, x, y) if name == "pow" else call(name, x),
        kind=kind,  # type: ignore[arg-type]
    )
    tolerance = {"float64": 1e-14, "float32": 1e-6, "float16": 2e-3, "bfloat16": 1.6e-2}[dtype]
    rounded = expected.astype(dtype).astype("float64")
    np.testing.assert_allclose(outputs(func, a=a, b=b).astype("float64"), rounded, rtol=tolerance, atol=tolerance / 10)


_UNIT = np.linspace(-0.95, 0.95, 37)
_LIBRARY: dict[str, tuple[Any, Any]] = {
    "sin": (np.sin, 9 * _UNIT), "cos": (np.cos, 9 * _UNIT), "tan": (np.tan, _UNIT), "asin": (np.arcsin, _UNIT),
    "acos": (np.arccos, _UNIT), "atan": (np.arctan, 5 * _UNIT), "sinh": (np.sinh, 3 * _UNIT),
    "cosh": (np.cosh, 3 * _UNIT), "asinh": (np.arcsinh, 5 * _UNIT), "acosh": (np.arccosh, 2 + _UNIT),
    "atanh": (np.arctanh, _UNIT), "exp10": (lambda x: 10**x, 2 * _UNIT),
    "log2": (np.log2, 1 + _UNIT), "log10": (np.log10, 1 + _UNIT), "log1p": (np.log1p, _UNIT / 100),
    "trunc": (np.trunc, 5 * _UNIT), "fmod": (lambda x: np.fmod(x, 1.25), 5 * _UNIT),
    "hypot": (lambda x: np.hypot(x, 1.25), 5 * _UNIT), "atan2": (lambda x: np.arctan2(x, 1.25), 5 * _UNIT),
    "copysign": (lambda x: np.copysign(x, 1.25), 5 * _UNIT),
    "nonpositive": (lambda x: x, _UNIT - 1),
}  # fmt: skip


@pytest.mark.parametrize("name", _LIBRARY)
@pytest.mark.parametrize(("dtype", "kind"), [("float32", VECTORIZED), ("float64", None), ("float16", None)])
def test_functions_of_the_mathematical_library(name: str, dtype: str, kind: Any) -> None:
    function, values = _LIBRARY[name]
    a, b = values.astype(dtype), np.full(37, 1.25, dtype)
    func = elementwise(
        dtype,
        lambda x, y: call(name, x, y) if ARITY[name] == 2 else call(name, x),
        kind=kind or SERIAL,
    )
    expected = function(a.astype("float64")).astype(dtype).astype("float64")
    tolerance = {"float64": 1e-14, "float32": 1e-6, "float16": 2e-3}[dtype]
    np.testing.assert_allclose(outputs(func, a=a, b=b).astype("float64"), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("name", ["popcount", "clz"])
def test_bits_of_integers_are_counted(name: str, dtype: str) -> None:
    a, b = samples(dtype)
    bits = a.dtype.itemsize * 8
    texts = [f"{int(value) % 2**bits:0{bits}b}" for value in a.ravel()]
    wanted = [text.count("1") if name == "popcount" else (text + "1").index("1") for text in texts]
    func = elementwise(dtype, lambda x, y: call(name, x))
    np.testing.assert_array_equal(outputs(func, a=a, b=b).ravel(), wanted)
    from pegbox.expr.numpy_operators import FUNCTIONS

    np.testing.assert_array_equal(FUNCTIONS[name](a).ravel(), wanted)


_SHIFTS = {"shift_left": np.left_shift, "shift_right": np.right_shift}
_BITWISE = {name: getattr(np, name) for name in ("bitwise_and", "bitwise_or", "bitwise_xor")}


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("name", [*_BITWISE, *_SHIFTS])
@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED])
def test_bits_are_combined_and_shifted(name: str, dtype: str, kind: Any) -> None:
    a, b = samples(dtype)
    if name in _SHIFTS:  # beyond the width, too
        b = (np.arange(b.size) % (b.itemsize * 8 + 3)).astype(dtype).reshape(b.shape)
    wanted = {**_BITWISE, **_SHIFTS}[name](a, b)
    func = elementwise(dtype, lambda x, y: call(name, x, y), kind=kind)
    np.testing.assert_array_equal(outputs(func, a=a, b=b), wanted)


@pytest.mark.parametrize("dtype", INTS)
def test_abs_of_integers(dtype: str) -> None:
    a, b = samples(dtype)
    func = elementwise(dtype, lambda x, y: call("abs", x))
    np.testing.assert_array_equal(outputs(func, a=a, b=b), np.abs(a))


@pytest.mark.parametrize("dtype", FLOATS)
def test_constants_keep_every_bit(dtype: str) -> None:
    values = [0.1, -0.0, 1e-7, 65504.0, 3.0, float("inf"), float("-inf")]
    c = Buffer("c", (len(values),), dtype)
    stores = [put(c, i, Const(value, dtype)) for i, value in enumerate(values)]
    from pegbox.loops.nodes import seq

    got = run(build(emit(function([c], [c], seq(*stores)), ONE_CORE)), {})[0]
    assert got.tobytes() == np.array(values, dtype).tobytes()


def test_select_takes_a_condition_per_lane() -> None:
    a, b = samples("float32")
    func = elementwise("float32", lambda x, y: select(x < y, minimum(x, y), x - y))
    np.testing.assert_array_equal(outputs(func, a=a, b=b), np.where(a < b, np.minimum(a, b), a - b))


def test_an_unknown_intrinsic_is_refused() -> None:
    func = elementwise("float32", lambda x, y: Call("bessel", (x,), "float32"))
    with pytest.raises(CompileError, match=r"bessel.*exp"):
        emit(func, ONE_CORE)


def test_floor_division_of_floats_is_refused() -> None:
    func = elementwise("float32", lambda x, y: Binary("floordiv", x, y))
    with pytest.raises(CompileError, match=r"floor\(a / b\)"):
        emit(func, ONE_CORE)


def test_get_reads_what_put_wrote() -> None:
    c = Buffer("c", (2,), "int32")
    body = loop("i", 1, lambda i: put(c, i, const(5, "int32")))
    from pegbox.loops.nodes import seq

    twice = seq(body, put(c, 1, get(c, 0) + get(c, 0)))
    np.testing.assert_array_equal(run(build(emit(function([c], [c], twice), ONE_CORE)), {})[0], [5, 10])
