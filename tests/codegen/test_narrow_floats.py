"""Floats of 16 bits on processors with instructions for them and without: every value, and no runtime library."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes  # noqa: F401  (gives NumPy the name bfloat16)
import numpy as np
import pytest
from lowered_programs import SERIAL, VECTORIZED, elementwise, every_access, function, get, loop, put, run
from processors import OTHERS, X86, for_target, missing_functions, runnable
from stage import SECOND

from pegbox.codegen import Target, build, emit
from pegbox.errors import CompileError
from pegbox.expr.build import cast, compare, const, maximum, minimum, select
from pegbox.expr.intrinsics import call
from pegbox.expr.nodes import Binary, Buffer, Expr
from pegbox.loops.nodes import Function, Stmt, seq

NARROW = ("float16", "bfloat16")
RUNNABLE = runnable()
# Each has other instructions for it: none and SSE2, AVX, conversions, AVX2, whatever this machine has.
KINDS_OF_PROCESSORS = [
    name for name in ("x86-64", "sandybridge", "ivybridge", "haswell", "default") if name in RUNNABLE
]
TARGETS = pytest.mark.parametrize("target", [RUNNABLE[name] for name in KINDS_OF_PROCESSORS], ids=KINDS_OF_PROCESSORS)
PLAINEST_AND_DEFAULT = list(dict.fromkeys([KINDS_OF_PROCESSORS[0], "default"]))
WITH_AND_WITHOUT = pytest.mark.parametrize(
    "target", [RUNNABLE[name] for name in PLAINEST_AND_DEFAULT], ids=PLAINEST_AND_DEFAULT
)
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


def one_program(inputs: list[Buffer], values: dict[str, Callable[..., Expr]], kind: object, dtype: str) -> Function:
    """Every value, each in an output of its own; the inner one of two loops is of the kind."""
    rows, columns = inputs[0].shape
    outs = {name: Buffer(f"out_{name}", inputs[0].shape, dtype) for name in values}

    def row(name: str, y: Expr) -> Stmt:
        def element(x: Expr) -> Stmt:
            return put(outs[name], y, x, values[name](*(get(b, y, x) for b in inputs)))

        return loop("x", columns, element, kind)  # type: ignore[arg-type]

    bodies = [loop("y", rows, lambda y, n=n: row(n, y)) for n in values]  # type: ignore[misc]
    return function([*inputs, *outs.values()], list(outs.values()), seq(*bodies))


FUNCTIONS = ("exp", "log", "tanh", "sqrt", "floor", "round", "abs")


@pytest.mark.optimizer  # two kernels, whose products and sums have to be fused alike
@WITH_AND_WITHOUT
@DTYPES
def test_functions_round_the_float32_result(dtype: str, target: Target) -> None:
    values = EVERY.view(dtype).reshape(-1, 16)
    calls: dict[str, Callable[..., Expr]] = {name: lambda x, name=name: call(name, x) for name in FUNCTIONS}

    def results(array: np.ndarray) -> list[np.ndarray]:
        source = Buffer("a", array.shape, str(array.dtype))
        return run(build(emit(one_program([source], calls, VECTORIZED, source.dtype), target)), {"a": array})

    with np.errstate(all="ignore"):
        wide = results(values.astype("float32"))
        for got, expected in zip(results(values), wide, strict=True):
            assert_same(got, expected.astype(dtype))


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
@DTYPES
def test_arithmetic_is_numpys(dtype: str, kind: object, target: Target) -> None:
    rng = np.random.default_rng(2)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 6e-8, 3e-5, -6.1e-5]).astype(dtype)
    # Rows of a vector and a rest.
    a = np.concatenate([np.repeat(special, len(special)), rng.uniform(-9, 9, 204).astype(dtype)]).reshape(-1, 19)
    b = np.concatenate([np.tile(special, len(special)), rng.uniform(-9, 9, 204).astype(dtype)]).reshape(-1, 19)
    for names in (list(OPERATIONS)[:6], list(OPERATIONS)[6:]):
        program = one_program(
            [Buffer("a", a.shape, dtype), Buffer("b", b.shape, dtype)], {n: OPERATIONS[n] for n in names}, kind, dtype
        )
        got = run(build(emit(program, target)), {"a": a, "b": b})
        with np.errstate(all="ignore"):
            for name, array in zip(names, got, strict=True):
                assert_same_numbers(array, NUMPY[name](a, b))


def assert_same_numbers(got: np.ndarray, expected: np.ndarray) -> None:
    """Zeros of either sign are equal: np.minimum gives any of the two."""
    np.testing.assert_array_equal(got.astype("float64"), expected.astype("float64"))


ONE_OF_EACH_KIND = {feature: name for name, feature in X86.items()}  # those of one newest feature have the same code


PROCESSORS = (*ONE_OF_EACH_KIND.values(), *OTHERS)


@pytest.mark.parametrize(
    ("processor", "dtype"),
    [(one, dtype) for n, one in enumerate(PROCESSORS) for dtype in (NARROW if SECOND else NARROW[n % 2 :][:1])],
)
def test_no_program_needs_a_runtime_library(dtype: str, processor: str) -> None:
    for func in every_access(dtype):
        assert not missing_functions(emit(func, for_target(processor)))


def test_a_processor_without_any_floats_converts_with_integers() -> None:
    """Its float32 arithmetic is a library's, its 16 bits are not."""
    plain = Target("llvm -mtriple=riscv64-unknown-linux-gnu -num-cores 1")
    for func in [func for dtype in NARROW for func in every_access(dtype)]:
        missing = missing_functions(emit(func, plain))
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
        ("-mcpu=haswell -mattr=-sse4.2", False),
        ("-mcpu=x86-64 -mattr=+avx512f", True),
        ("-mtriple=riscv64-linux-gnu -mattr=+d,+zfh", True),
        ("-mtriple=riscv64-linux-gnu -mattr=+d", False),
    ],
)
def test_features_in_the_target_decide_how_float16_is_converted(text: str, native: bool) -> None:
    program = elementwise("float16", lambda x, y: x + y)
    assert ("half" in emit(program, Target(f"llvm {text}")).ll) is native


def test_a_missing_function_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    from dataclasses import replace

    program = emit(elementwise("float32", lambda x, y: x + y), Target.host(num_cores=1))
    ll = program.ll.replace("entry:", "entry:\n  call void @__nobody_has_this()", 1)
    with pytest.raises(CompileError, match="cannot be loaded: it calls __nobody_has_this, which"):
        build(replace(program, ll=ll + "\ndeclare void @__nobody_has_this()\n"))
    assert not capfd.readouterr().err
