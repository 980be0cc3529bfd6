"""Floats of 16 bits on processors with instructions for them and without: every value, and no runtime library."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes  # noqa: F401  (gives NumPy the name bfloat16)
import numpy as np
import pytest
from lowered_programs import SERIAL, UNROLLED, VECTORIZED, alloc, elementwise, function, get, loop, put, run
from processors import OTHERS, X86, for_target, missing_functions, runnable

from pegbox.codegen import Target, build, emit
from pegbox.errors import CompileError
from pegbox.expr.build import cast, compare, const, maximum, minimum, select
from pegbox.expr.intrinsics import call
from pegbox.expr.nodes import Binary, Buffer, Expr
from pegbox.loops.nodes import Function, If, seq

NARROW = ("float16", "bfloat16")
RUNNABLE = runnable()
# Each has other instructions for it: none and SSE2, AVX, conversions, AVX2, whatever this machine has.
KINDS_OF_PROCESSORS = [name for name in ("x86-64", "sandybridge", "ivybridge", "haswell", "host") if name in RUNNABLE]
TARGETS = pytest.mark.parametrize("target", [RUNNABLE[name] for name in KINDS_OF_PROCESSORS], ids=KINDS_OF_PROCESSORS)
WITH_AND_WITHOUT = pytest.mark.parametrize("target", [RUNNABLE[name] for name in KINDS_OF_PROCESSORS[::4]])
DTYPES = pytest.mark.parametrize("dtype", NARROW)
EVERY = np.arange(1 << 16, dtype=np.uint16)


def converted(values: np.ndarray, dtype: str, target: Target, kind: object = VECTORIZED) -> np.ndarray:
    func = elementwise(
        str(values.dtype),
        lambda x, y: cast(dtype, x),
        size=values.size,
        kind=kind,
        out=dtype,  # type: ignore[arg-type]
    )
    return run(build(emit(func, target)), {"a": values, "b": values})[0]


def assert_same(got: np.ndarray, expected: np.ndarray) -> None:
    """Bit by bit, save that one NaN is as good as another."""
    assert got.dtype == expected.dtype
    with np.errstate(invalid="ignore"):  # there are signalling NaNs
        nan = np.isnan(expected.astype("float64"))
        np.testing.assert_array_equal(np.isnan(got.astype("float64")), nan)
    bits = np.uint16 if got.itemsize == 2 else np.uint32
    np.testing.assert_array_equal(got.view(bits)[~nan], expected.view(bits)[~nan])


def hard_to_round(dtype: str) -> np.ndarray:
    """float32: every number of the type, what lies halfway to the next one, their neighbours, and random bits."""
    numbers = EVERY.view(dtype).astype("float32")
    with np.errstate(all="ignore"):
        after = (EVERY + np.uint16(1)).view(dtype).astype("float32")
        ties = ((numbers.astype("float64") + after) / 2).astype("float32")
        around = [np.nextafter(x, np.float32(end)) for x in (ties, numbers) for end in (np.inf, -np.inf)]
    chance = np.random.default_rng(5).integers(0, 1 << 32, 100_000, dtype=np.uint32).view("float32")
    return np.concatenate([numbers, ties, *around, chance, np.float32([65504, 65519.99, 65520, 3.4e38, 1e-45])])


@TARGETS
@DTYPES
def test_every_number_widens_to_itself(dtype: str, target: Target) -> None:
    values = EVERY.view(dtype)
    assert_same(converted(values, "float32", target), values.astype("float32"))


@TARGETS
@DTYPES
def test_a_float32_is_rounded_to_the_nearest(dtype: str, target: Target) -> None:
    values = hard_to_round(dtype)
    with np.errstate(all="ignore"):
        assert_same(converted(values, dtype, target), values.astype(dtype))


@TARGETS
@DTYPES
def test_scalars_are_rounded_alike(dtype: str, target: Target) -> None:
    values = hard_to_round(dtype)[::97].copy()
    with np.errstate(all="ignore"):
        assert_same(converted(values, dtype, target, SERIAL), values.astype(dtype))


@WITH_AND_WITHOUT
@pytest.mark.parametrize("source", ["float64", "int64", "int32", "int16", "int8", "uint8", "bool", *NARROW])
@DTYPES
def test_casts_from_every_type(dtype: str, source: str, target: Target) -> None:
    with np.errstate(all="ignore"):
        values = hard_to_round("float16")[::53].astype("float64")
        if source in ("float64", *NARROW):
            values = values.astype(source)
        else:
            values = np.arange(-70000, 70000, 37).astype(source)
        expected = values.astype("float32").astype(dtype) if dtype == "bfloat16" else values.astype(dtype)
        assert_same(converted(values, dtype, target), expected)


@WITH_AND_WITHOUT
@pytest.mark.parametrize("result", ["float64", "int64", "int32", "int16", "int8", "uint8", "bool"])
@DTYPES
def test_casts_to_every_type(dtype: str, result: str, target: Target) -> None:
    values = np.concatenate([np.arange(0, 128, 0.5), np.linspace(-100, 100, 301)])
    values = (abs(values) if result == "uint8" else values).astype(dtype)
    np.testing.assert_array_equal(converted(values, result, target), values.astype(result))


@WITH_AND_WITHOUT
@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sigmoid", "erf", "sqrt", "floor", "ceil", "round", "abs"])
@DTYPES
def test_functions_round_the_float32_result(dtype: str, name: str, target: Target) -> None:
    values = EVERY.view(dtype)
    func = elementwise(dtype, lambda x, y: call(name, x), size=values.size)
    wide = elementwise("float32", lambda x, y: call(name, x), size=values.size)
    got = run(build(emit(func, target)), {"a": values, "b": values})[0]
    singles = values.astype("float32")
    with np.errstate(all="ignore"):
        expected = run(build(emit(wide, target)), {"a": singles, "b": singles})[0].astype(dtype)
    assert_same(got, expected)


OPERATIONS: dict[str, Callable[[Expr, Expr], Expr]] = {
    **{op: lambda x, y, op=op: Binary(op, x, y) for op in ("add", "sub", "mul", "div", "min", "max")},  # type: ignore[misc]
    "relu": lambda x, y: maximum(x, const(0.0, x.dtype)),
    "select": lambda x, y: select(x < y, minimum(x, y), x),
    "branch": lambda x, y: select(x > 0, x, y),
    "compare": lambda x, y: cast(x.dtype, compare("le", x, y)),
    "dot": lambda x, y: cast(x.dtype, cast("float32", x) * cast("float32", y) + 1.0),
}
NUMPY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "min": np.minimum, "max": np.maximum,
    "relu": lambda x, y: np.maximum(x, x.dtype.type(0)),
    "select": lambda x, y: np.where(x < y, np.minimum(x, y), x),
    "branch": lambda x, y: np.where(x > 0, x, y),
    "compare": lambda x, y: (x <= y).astype(x.dtype),
    "dot": lambda x, y: (x.astype("float64") * y.astype("float64") + 1).astype("float32").astype(x.dtype),
}  # fmt: skip


@TARGETS
@pytest.mark.parametrize("kind", [SERIAL, VECTORIZED], ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
@DTYPES
def test_arithmetic_is_numpys(dtype: str, name: str, kind: object, target: Target) -> None:
    rng = np.random.default_rng(2)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 6e-8, 3e-5, -6.1e-5]).astype(dtype)
    a = np.concatenate([np.repeat(special, len(special)), rng.uniform(-9, 9, 200).astype(dtype)])
    b = np.concatenate([np.tile(special, len(special)), rng.uniform(-9, 9, 200).astype(dtype)])
    func = elementwise(dtype, OPERATIONS[name], size=a.size, kind=kind)  # type: ignore[arg-type]
    with np.errstate(all="ignore"):
        assert_same_numbers(run(build(emit(func, target)), {"a": a, "b": b})[0], NUMPY[name](a, b))


def assert_same_numbers(got: np.ndarray, expected: np.ndarray) -> None:
    """Zeros of either sign are equal: np.minimum gives any of the two."""
    np.testing.assert_array_equal(got.astype("float64"), expected.astype("float64"))


def everything(dtype: str) -> Function:
    """Every kind of access and value: gathers, shuffles, masks, reductions, branches, tiles, casts."""
    a, c = Buffer("a", (40, 40), dtype), Buffer("c", (40,), dtype)
    wide = Buffer("w", (40,), "float64")
    where = Buffer("i", (40,), "int32")
    tile = Buffer("t", (20,), dtype)
    zero = const(0.0, dtype)

    def place(j: Expr) -> Expr:
        return cast("int64", get(where, j))

    dot = loop(
        "k", 40, lambda k: loop("j", 40, lambda j: put(c, 0, get(c, 0) + get(a, k, j) * get(a, j, k)), VECTORIZED)
    )
    tiled = alloc(
        tile,
        loop("j", 20, lambda j: put(tile, j, zero), VECTORIZED),
        loop("k", 40, lambda k: loop("j", 20, lambda j: put(tile, j, get(tile, j) + get(a, k, j)), VECTORIZED)),
        loop("j", 20, lambda j: If(get(tile, j) > zero, put(c, j, get(tile, j))), VECTORIZED),
    )
    bodies = [
        loop("j", 40, lambda j: put(c, j, get(a, j, 0) + get(a, 0, 39 - j)), VECTORIZED),
        loop("k", 8, lambda k: loop("j", 16, lambda j: put(a, k, j, get(a, j, k)), VECTORIZED), UNROLLED),
        loop("j", 40, lambda j: If(j * 1 + 3 < 37, put(c, j, maximum(get(a, 1, j), zero))), VECTORIZED),
        loop("j", 40, lambda j: put(c, j, select(j < 30, get(a, 1, j + 10), zero))),
        loop("k", 40, lambda k: loop("j", 40, lambda j: put(c, 0, maximum(get(c, 0), get(a, k, j))), VECTORIZED)),
        dot,
        tiled,
        loop("j", 40, lambda j: put(c, place(j), call("tanh", get(a, place(j), 1))), VECTORIZED),
        loop("j", 40, lambda j: put(c, j, cast(dtype, get(wide, j))), VECTORIZED),
        loop("j", 40, lambda j: put(wide, j, cast("float64", get(c, j)) + cast("float64", j)), VECTORIZED),
        loop("j", 40, lambda j: put(where, j, cast("int32", call("sqrt", get(c, j)))), VECTORIZED),
        loop("j", 40, lambda j: put(c, j, call("pow", get(c, j), cast(dtype, place(j))))),
    ]
    return function([a, c, wide, where], [a, c, wide, where], seq(*bodies))


@pytest.mark.parametrize("processor", [*X86, *OTHERS])
@DTYPES
def test_no_program_needs_a_runtime_library(dtype: str, processor: str) -> None:
    assert not missing_functions(emit(everything(dtype), for_target(processor)))


def test_a_processor_without_any_floats_converts_with_integers() -> None:
    """Its float32 arithmetic is a library's, its 16 bits are not."""
    plain = Target("llvm -mtriple=riscv64-unknown-linux-gnu -num-cores 1")
    for dtype in NARROW:
        missing = missing_functions(emit(everything(dtype), plain))
        assert not {name for name in missing if "hf" in name or "bf" in name}


def test_float16_is_computed_by_the_instructions_of_a_processor_that_has_them() -> None:
    program = elementwise("float16", lambda x, y: x * y + x)
    assert "fmul contract <32 x half>" in emit(program, for_target("sapphirerapids")).ll
    assert "fmul contract <8 x half>" in emit(program, for_target("aarch64")).ll
    assert "half" not in emit(program, for_target("sandybridge")).ll


@pytest.mark.parametrize(
    ("text", "native"),
    [
        ("-mcpu=sandybridge -mattr=+f16c", True),
        ("-mcpu=haswell -mattr=-f16c", False),
        ("-mcpu=haswell -mattr=-avx", False),
        ("-mcpu=x86-64 -mattr=+avx512f", True),
        ("-mtriple=riscv64-linux-gnu -mattr=+d,+zfhmin", True),
        ("-mtriple=riscv64-linux-gnu -mattr=+d", False),
    ],
)
def test_features_in_the_target_decide_how_float16_is_converted(text: str, native: bool) -> None:
    program = elementwise("float16", lambda x, y: x + y)
    assert ("fpext" in emit(program, Target(f"llvm {text}")).ll) is native


def test_a_missing_function_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    from dataclasses import replace

    program = emit(elementwise("float32", lambda x, y: x + y), Target.host(num_cores=1))
    ll = program.ll.replace("entry:", "entry:\n  call void @__nobody_has_this()", 1)
    with pytest.raises(CompileError, match="cannot be loaded: it calls __nobody_has_this, which"):
        build(replace(program, ll=ll + "\ndeclare void @__nobody_has_this()\n"))
    assert not capfd.readouterr().err
