"""The vector functions against NumPy in a wider type, compiled for this machine and for one without extensions."""

from __future__ import annotations

import ctypes
import math
from decimal import localcontext
from functools import cache

import llvmlite.binding as llvm
import minimax
import numpy as np
import pytest
import scipy.special
from numpy.typing import NDArray

import pegbox as pb
from pegbox import te
from pegbox.codegen import Target, emit, vector_math
from pegbox.codegen.vector_math import coefficients
from pegbox.codegen.vector_math.exponential import LOG2_E
from pegbox.errors import CompileError

Array = NDArray[np.generic]
ELEMENT = {"float32": "float", "float64": "double"}
UNSIGNED = {"float32": np.uint32, "float64": np.uint64}
NAMES = tuple(vector_math.FUNCTIONS)
DECAYS = ("decay", "exp_decay")
EXTENDED = np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant  # is there a type wider than float64?

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()


def machine(host: bool) -> llvm.TargetMachine:
    cpu = llvm.get_host_cpu_name() if host else ""
    features = llvm.get_host_cpu_features().flatten() if host else ""
    return llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=3)


def loop_over(name: str, dtype: str, lanes: int, *, register_lanes: int = 0) -> str:
    """A module whose `run(inputs..., output, n)` applies the function to `lanes` numbers at a time."""
    symbol, text, declares, *_ = vector_math.definition(name, dtype, lanes, register_lanes=register_lanes)
    element = ELEMENT[dtype]
    vector = element if lanes == 1 else f"<{lanes} x {element}>"
    inputs = [f"%a{k}" for k in range(vector_math.FUNCTIONS[name][0])]
    reads = "\n".join(
        f"{p}p = getelementptr {element}, ptr {p}, i64 %i\n{p}v = load {vector}, ptr {p}p, align 2" for p in inputs
    )
    return f"""{"".join(line + chr(10) for line in sorted(declares))}
{text}
define void @run({", ".join(f"ptr {p}" for p in inputs)}, ptr %out, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  {reads}
  %r = call {vector} @{symbol}({", ".join(f"{vector} {p}v" for p in inputs)})
  %to = getelementptr {element}, ptr %out, i64 %i
  store {vector} %r, ptr %to, align 2
  %next = add i64 %i, {lanes}
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}"""


def optimized(
    name: str, dtype: str, lanes: int, *, host: bool, register_lanes: int = 0
) -> tuple[llvm.ModuleRef, llvm.TargetMachine]:
    module = llvm.parse_assembly(loop_over(name, dtype, lanes, register_lanes=register_lanes))
    target = machine(host)
    builder = llvm.create_pass_builder(target, llvm.create_pipeline_tuning_options(3))
    builder.getModulePassManager().run(module, builder)
    return module, target


@cache
def engine(name: str, dtype: str, lanes: int, host: bool, register_lanes: int) -> llvm.ExecutionEngine:
    result = llvm.create_mcjit_compiler(*optimized(name, dtype, lanes, host=host, register_lanes=register_lanes))
    result.finalize_object()
    return result


def run(name: str, *args: Array, lanes: int = 16, host: bool = True, register_lanes: int = 0) -> Array:
    dtype = str(args[0].dtype)
    size = args[0].size
    padded = [np.concatenate([a, np.ones(-size % lanes, dtype)]) for a in args]
    out = np.empty(padded[0].size, dtype)
    signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (len(args) + 1), ctypes.c_int64)
    signature(engine(name, dtype, lanes, host, register_lanes).get_function_address("run"))(
        *[a.ctypes.data for a in (*padded, out)], out.size
    )
    return out[:size]


def reference(name: str, *args: Array) -> Array:
    """The function in the next wider type (float64 has none on some machines; see `tolerance`)."""
    wide = np.longdouble if args[0].dtype == np.float64 else np.float64
    with np.errstate(all="ignore"):
        x, *rest = (a.astype(wide) for a in args)
        match name:
            case "sigmoid":
                z = np.exp(-np.abs(x))
                return np.where(x < 0, z, 1) / (1 + z)
            case "erf":
                return scipy.special.erf(x.astype(np.float64)).astype(wide)
            case "gate":
                return x / (1 + np.exp(-rest[0]))
            case "gate2":
                return x / (1 + np.exp2(-rest[0]))
            case "decay":
                return np.exp2(x)
            case "exp_decay":
                return np.exp(x)
            case "erf_gate":
                return x * (1 + scipy.special.erf(rest[0].astype(np.float64)).astype(wide))
            case "gelu":
                root = np.sqrt(0.5).astype(np.float64)
                return x * (1 + scipy.special.erf(x.astype(np.float64) * root).astype(wide)) / 2
            case "rsqrt":
                return 1 / np.sqrt(x)
            case "pow":
                return np.power(x, rest[0])
            case _:
                return getattr(np, name)(x)


def ulps(got: Array, want: Array) -> Array:
    """Distance in units in the last place of `got`'s type; infinite where only one side is NaN or infinite."""
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
        unit = np.spacing(np.where(np.isfinite(rounded), np.abs(rounded), 1).astype(got.dtype))
        distance = np.abs(got.astype(want.dtype) - want) / unit
    same = (np.isnan(got) & np.isnan(rounded)) | (np.isinf(rounded) & (got == rounded))
    return np.where(same, 0, np.where(np.isnan(distance), np.inf, distance)).astype(np.float64)


def tolerance(name: str, dtype: str, *, fused: bool = True) -> float:
    wanted = {
        "exp": 1.3, "exp2": 1.3, "log": 1.0, "tanh": 2.6, "sigmoid": 2.6, "erf": 1.9, "pow": 0.52, "rsqrt": 1.6,
        "gate": 2.6, "gate2": 2.6, "erf_gate": 2.1, "gelu": 2.1, "decay": 1.3, "exp_decay": 1.3,
    }[name]  # fmt: skip
    if dtype == "float64":
        # SciPy's erf is itself only good to 1 ulp.
        wanted = {"pow": 1.3, "erf": 3.1}.get(name, wanted) + (0 if EXTENDED else 1)
    return wanted if fused else wanted + 1


def random_bits(dtype: str, n: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    return rng.integers(0, np.iinfo(UNSIGNED[dtype]).max, n, dtype=UNSIGNED[dtype], endpoint=True).view(dtype)


def arguments(name: str, dtype: str, n: int) -> list[tuple[Array, ...]]:
    """Every kind of number: any bits, a dense sweep, near one, up to and beyond overflow."""
    rng = np.random.default_rng(len(name))
    bits = random_bits(dtype, n, 1)
    dense = np.linspace(-12, 12, n)
    near_one = 1 + rng.normal(0, 1e-2, n)
    wide = np.linspace(-110, 110, n) if dtype == "float32" else np.linspace(-760, 760, n)
    if name == "pow":
        pairs = [
            (bits, random_bits(dtype, n, 2)),
            (np.abs(dense), rng.uniform(-12, 12, n)),
            (near_one, rng.uniform(-8000, 8000, n)),
            (wide, rng.integers(-60, 60, n)),
        ]
        return [(x.astype(dtype), y.astype(dtype)) for x, y in pairs]
    if name == "erf_gate":  # where its relative error is small, too
        return [(rng.uniform(1, 3, n).astype(dtype), np.abs(b).astype(dtype)) for b in (bits, dense, near_one, wide)]
    if name == "gelu":  # the same
        return [(np.abs(b).astype(dtype),) for b in (bits, dense, near_one, wide)]
    if name in DECAYS:  # to the smallest results that are not subnormal
        most = (1.0 if name == "decay" else math.log(2)) * (126 if dtype == "float32" else 1022)
        return [(np.clip(-np.abs(b), -most, None).astype(dtype),) for b in (bits, dense, near_one, wide)]
    if name in ("gate", "gate2"):
        most = (1.0 if name == "gate" else LOG2_E) * (88.7 if dtype == "float32" else 709.7)
        factors = rng.uniform(1, 3, n)
        seconds = (np.clip(b, -most, None) for b in (bits, dense, near_one, wide))
        return [(factors.astype(dtype), b.astype(dtype)) for b in seconds]
    return [(x.astype(dtype),) for x in (bits, dense, near_one, wide)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_errors_stay_within_the_documented_ulps(name: str, dtype: str) -> None:
    for args in arguments(name, dtype, 100_000):
        errors = ulps(run(name, *args), reference(name, *args))
        worst = int(np.argmax(errors))
        assert errors[worst] <= tolerance(name, dtype), [a[worst] for a in args]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_a_target_without_fused_multiply_add_is_as_good(name: str, dtype: str) -> None:
    for args in arguments(name, dtype, 20_000):
        errors = ulps(run(name, *args, lanes=8, host=False), reference(name, *args))
        worst = int(np.argmax(errors))
        assert errors[worst] <= tolerance(name, dtype, fused=False), [a[worst] for a in args]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_every_number_of_lanes_gives_the_same_bits(name: str, dtype: str) -> None:
    args = [a[:512] for a in arguments(name, dtype, 4096)[1]]
    expected = run(name, *args, lanes=16)
    for lanes in (1, 2, 3, 5, 8, 17):
        np.testing.assert_array_equal(run(name, *args, lanes=lanes), expected)


WITH_AVX512 = pytest.mark.skipif(not llvm.get_host_cpu_features().get("avx512dq"), reason="no AVX-512 here")


def exponents(dtype: str) -> list[Array]:
    """Arguments of exp and exp2 of every kind, many of them at the ends of their ranges."""
    info = np.finfo(dtype)
    special = np.array([*SPECIAL, info.max, info.min, info.tiny, info.smallest_subnormal], dtype)
    of_float32 = (-120, -80), (85, 92), (-155, -120), (126, 130)
    of_float64 = (-760, -700), (705, 715), (-1080, -1020), (1020, 1030)
    ends = [np.linspace(*end, 50_000).astype(dtype) for end in (of_float32 if dtype == "float32" else of_float64)]
    return [*(each for (each,) in arguments("exp", dtype, 50_000)), special, *ends]


@WITH_AVX512
@pytest.mark.parametrize(
    ("name", "dtype", "lanes"),
    [("exp", "float64", 8), ("exp2", "float64", 8), ("sigmoid", "float64", 8), ("sigmoid", "float32", 16)],
)
def test_the_instruction_for_powers_of_two_gives_the_same_bits(name: str, dtype: str, lanes: int) -> None:
    for x in exponents(dtype):
        plain = run(name, x, lanes=lanes)
        np.testing.assert_array_equal(run(name, x, lanes=lanes, register_lanes=16), plain)


@pytest.mark.parametrize(("cpu", "count"), [("x86-64-v4", 1), ("x86-64-v3", 0)])
def test_only_avx512_multiplies_by_powers_of_two_at_once(cpu: str, count: int) -> None:
    x = te.placeholder((64,), name="x")
    y = te.compute((64,), lambda i: te.exp(x[i]), name="y")
    s = te.create_schedule(y.op)
    s[y].vectorize(s[y].split(y.op.axis[0], factor=16)[1])
    target = f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu}"
    assert emit(pb.lower(s, [x, y]), Target(target)).ll.count("call <16 x float> @llvm.x86.avx512.mask.scalef") == count


PERMUTES = [
    pytest.param(count, marks=pytest.mark.skipif(not llvm.get_host_cpu_features().get(name), reason=f"no {name} here"))
    for count, name in ((8, "avx2"), (16, "avx512f"))
]


@pytest.mark.parametrize("register_lanes", PERMUTES)
@pytest.mark.parametrize(("name", "most"), [("exp", 1.1), ("exp2", 1.1), ("sigmoid", 2.7)])
def test_roots_that_a_permutation_picks_keep_the_accuracy(name: str, most: float, register_lanes: int) -> None:
    for x in exponents("float32"):
        found, want = run(name, x, lanes=register_lanes, register_lanes=register_lanes), reference(name, x)
        errors = ulps(found, want)
        assert errors.max() <= most, x[np.argmax(errors)]
        numbers = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(want)[numbers])


@pytest.mark.parametrize("register_lanes", PERMUTES)
@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_roots_that_a_permutation_picks_give_the_same_bits_in_fewer_lanes(name: str, register_lanes: int) -> None:
    for x in exponents("float32"):
        found = run(name, x, lanes=register_lanes, register_lanes=register_lanes)
        for lanes in (1, 3, 4, register_lanes - 1):
            np.testing.assert_array_equal(run(name, x, lanes=lanes, register_lanes=register_lanes), found)


@pytest.mark.parametrize("register_lanes", [0, *PERMUTES])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", DECAYS)
def test_decays_are_accurate_unless_they_are_subnormal(name: str, dtype: str, register_lanes: int) -> None:
    tiny = np.finfo(dtype).tiny
    for x in (-np.abs(each) for each in exponents(dtype)):
        found = run(name, x, lanes=register_lanes or 16, register_lanes=register_lanes)
        want = reference(name, x)
        normal = ~(want < tiny)
        most = 2.0 if (name, dtype, register_lanes) == ("decay", "float32", 16) else tolerance(name, dtype)
        assert ulps(found, want)[normal].max(initial=0) <= most
        assert ((found >= 0) & (found <= tiny))[~normal].all()
        assert (found[np.isinf(x)] == 0).all()
        fewer = run(name, x, lanes=max(register_lanes // 2, 1), register_lanes=register_lanes)
        np.testing.assert_array_equal(fewer[normal], found[normal])


@pytest.mark.parametrize("register_lanes", PERMUTES)
def test_erf_in_pieces_is_accurate_and_special_values_are_numpys(register_lanes: int) -> None:
    info = np.finfo(np.float32)
    special = np.array([*SPECIAL, info.max, info.min, info.tiny, info.smallest_subnormal, 3.9, 4, 4.1], np.float32)
    for x in (*(each for (each,) in arguments("erf", "float32", 200_000)), special):
        found, want = run("erf", x, lanes=register_lanes, register_lanes=register_lanes), reference("erf", x)
        errors = ulps(found, want)
        assert errors.max() <= {8: 2.3, 16: 0.9}[register_lanes], x[np.argmax(errors)]
        numbers = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(want)[numbers])


WITH_AVX2 = pytest.mark.skipif(not llvm.get_host_cpu_features().get("avx2"), reason="no AVX2 here")


@WITH_AVX2
def test_tanh_of_avx2_keeps_its_accuracy_and_special_values_are_numpys() -> None:
    info = np.finfo(np.float32)
    tiny = info.smallest_subnormal * np.arange(-9, 10, dtype=np.float32)
    special = np.array([*SPECIAL, info.max, info.min, info.tiny, *tiny], np.float32)
    for x in (*(each for (each,) in arguments("tanh", "float32", 400_000)), special):
        found, want = run("tanh", x, lanes=8, register_lanes=8), reference("tanh", x)
        errors = ulps(found, want)
        assert errors.max() <= 3.7, x[np.argmax(errors)]
        numbers = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(want)[numbers])


@WITH_AVX2
def test_tanh_of_avx2_is_one_at_most_for_all_numbers_near_its_limit() -> None:
    first, last = np.array([5, 9.5], np.float32).view(np.uint32)
    for start in range(first, last, 2**20):
        x = np.arange(start, min(start + 2**20, last), dtype=np.uint32).view(np.float32)
        found = run("tanh", x, lanes=8, register_lanes=8)
        assert found.max() <= 1
        assert (found[x >= 9.01] == 1).all()


@WITH_AVX2
def test_tanh_of_avx2_gives_the_same_bits_in_any_number_of_lanes() -> None:
    x = arguments("tanh", "float32", 4096)[1][0][:512]
    expected = run("tanh", x, lanes=8, register_lanes=8)
    for lanes in (1, 2, 3, 16):
        np.testing.assert_array_equal(run("tanh", x, lanes=lanes, register_lanes=8), expected)


@pytest.mark.parametrize("register_lanes", [0, *PERMUTES])
def test_errors_of_gelu_are_small_beside_its_argument(register_lanes: int) -> None:
    for (size,) in arguments("gelu", "float32", 400_000):
        for sign, most in ((1, 1.5 if register_lanes else 2.0), (-1, 1.0)):
            x = np.copysign(size, np.float32(sign))
            found = run("gelu", x, lanes=register_lanes or 16, register_lanes=register_lanes)
            with np.errstate(all="ignore"):
                errors = np.abs(found - x.astype(np.float64) * scipy.special.ndtr(x.astype(np.float64)))
                errors = np.where(np.isinf(x) | (found == 0), 0, errors / (np.abs(x) * 2.0**-24 + 1e-44))
            assert (np.isnan(x) <= np.isnan(found)).all()
            assert np.nanmax(errors) <= most, x[np.nanargmax(errors)]


@WITH_AVX2
def test_gelu_of_avx2_ends_at_zero_and_at_its_argument() -> None:
    x = np.concatenate([np.linspace(5.72, 9, 10_000), [100, 1e30, np.finfo("float32").max, math.inf]]).astype("float32")
    np.testing.assert_array_equal(run("gelu", x, lanes=8, register_lanes=8), x)
    np.testing.assert_array_equal(run("gelu", -x, lanes=8, register_lanes=8), np.zeros_like(x))
    for zero in (0.0, -0.0):
        assert np.signbit(run("gelu", np.full(8, zero, "float32"), lanes=8, register_lanes=8)[0]) == np.signbit(zero)


@pytest.mark.parametrize("register_lanes", PERMUTES)
def test_erf_in_pieces_rises_to_exactly_one(register_lanes: int) -> None:
    x = np.concatenate([np.linspace(3.9, 4.3, 10_000), [5, 100, 1e30, math.inf]]).astype(np.float32)
    found = run("erf", x, lanes=register_lanes, register_lanes=register_lanes)
    assert found.max() == 1
    assert (found[x > 3.95] == 1).all()


@pytest.mark.parametrize("register_lanes", PERMUTES)
def test_erf_in_pieces_gives_the_same_bits_in_fewer_lanes(register_lanes: int) -> None:
    x = arguments("erf", "float32", 4096)[1][0][:512]
    expected = run("erf", x, lanes=register_lanes, register_lanes=register_lanes)
    for lanes in (1, 2, 3, 4, 7):
        np.testing.assert_array_equal(run("erf", x, lanes=lanes, register_lanes=register_lanes), expected)


@pytest.mark.parametrize(
    ("cpu", "attributes", "call"),
    [
        ("x86-64-v4", "", "@llvm.x86.avx512.permvar.sf.512"),
        ("x86-64-v3", "", "@llvm.x86.avx2.permps"),
        ("x86-64-v3", " -mattr=-fma", ""),
        ("x86-64-v2", "", ""),
    ],
)
def test_only_permutations_across_lanes_pick_coefficients(cpu: str, attributes: str, call: str) -> None:
    x = te.placeholder((64,), name="x")
    y = te.compute((64,), lambda i: te.erf(x[i]), name="y")
    s = te.create_schedule(y.op)
    s[y].vectorize(s[y].split(y.op.axis[0], factor=16)[1])
    text = emit(pb.lower(s, [x, y]), Target(f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu}{attributes}")).ll
    assert [name for name in ("@llvm.x86.avx512.permvar.sf.512", "@llvm.x86.avx2.permps") if name in text] == [
        name for name in [call] if name
    ]


SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [n for n in NAMES if vector_math.FUNCTIONS[n][0] == 1 and n != "gelu"])
def test_special_values_are_numpys(name: str, dtype: str) -> None:
    info = np.finfo(dtype)
    x = np.array([*SPECIAL, info.max, info.min, info.tiny, -info.tiny], dtype)
    x = np.concatenate([x, info.smallest_subnormal * np.array([1, -1, 2, 3, 1000], dtype)]).astype(dtype)
    if name in DECAYS:
        x = -np.abs(x)
    got, want = run(name, x), reference(name, x)
    assert (ulps(got, want) <= tolerance(name, dtype)).all(), (got, want)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(want)[numbers])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pow_of_special_values_is_numpys(dtype: str) -> None:
    info = np.finfo(dtype)
    numbers = [*SPECIAL, 0.5, -0.5, 2, -2, 3, -3, 2.5, -2.5, float(info.max), float(info.tiny)]
    # Around where floats stop having a fraction, and where they stop being odd.
    whole = 2.0 ** np.array([info.nmant, info.nmant + 1])
    numbers += [sign * (w + d) for w in whole for d in (-1, 0, 1) for sign in (1, -1)]
    x, y = (a.ravel().astype(dtype) for a in np.meshgrid(numbers, numbers))
    got, want = run("pow", x, y), reference("pow", x, y)
    bad = ~(ulps(got, want) <= tolerance("pow", dtype))
    assert not bad.any(), list(zip(x[bad], y[bad], got[bad], want[bad], strict=True))[:5]
    real = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[real], np.signbit(want)[real])


@pytest.mark.parametrize("register_lanes", [0, *PERMUTES])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["gate", "gate2"])
def test_gates_of_special_values_are_numpys(name: str, dtype: str, register_lanes: int) -> None:
    info = np.finfo(dtype)
    numbers = np.array([*SPECIAL, 0.5, -3, 1e4, -1e4, info.max, info.min, info.tiny, info.smallest_subnormal], dtype)
    a, b = (each.ravel() for each in np.meshgrid(numbers, numbers))
    with np.errstate(all="ignore"):
        want = a / (1 + (np.exp if name == "gate" else np.exp2)(-b))
    lanes = (register_lanes or 16) // (1 if dtype == "float32" else 2)
    got = run(name, a, b, lanes=lanes, register_lanes=register_lanes)
    assert (ulps(got, want) <= tolerance(name, dtype) + 2).all(), list(zip(a, b, got, want, strict=True))
    real = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[real], np.signbit(want)[real])


@pytest.mark.parametrize("register_lanes", PERMUTES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["gate", "gate2"])
def test_gates_with_a_permutation_keep_their_accuracy(name: str, dtype: str, register_lanes: int) -> None:
    lanes = register_lanes // (1 if dtype == "float32" else 2)
    for args in arguments(name, dtype, 50_000):
        errors = ulps(run(name, *args, lanes=lanes, register_lanes=register_lanes), reference(name, *args))
        worst = int(np.argmax(errors))
        most = {8: 2.8, 16: 3.2}[register_lanes] if dtype == "float32" else tolerance(name, dtype)
        assert errors[worst] <= most, [a[worst] for a in args]


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "fetestexcept"), reason="the C library is not linked with libm")
@pytest.mark.parametrize("register_lanes", PERMUTES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["gate", "gate2", *DECAYS])
def test_powers_beside_one_and_decays_that_vanish_raise_no_underflow(
    name: str, dtype: str, register_lanes: int
) -> None:
    floats, underflow, every = ctypes.CDLL(None), 0x10, 0x3F  # as x86 numbers them
    x = np.repeat(np.array([0, 1, 60, 150, 200, 500, 800, 1100, 3000], dtype), 16)
    args = (-x,) if name in DECAYS else (np.ones_like(x), x)
    lanes = register_lanes // (1 if dtype == "float32" else 2)
    run(name, *args, lanes=lanes, register_lanes=register_lanes)  # compiled
    floats.feclearexcept(every)
    found = run(name, *args, lanes=lanes, register_lanes=register_lanes)
    assert not floats.fetestexcept(underflow)
    assert found[-1] == (0 if name in DECAYS else 1)


@pytest.mark.parametrize("register_lanes", PERMUTES)
def test_errors_of_a_gate_by_erf_are_small_beside_its_first_argument(register_lanes: int) -> None:
    for a, b in arguments("erf_gate", "float32", 100_000):
        for sign, most in ((1, 1.5), (-1, 1.0)):
            second = np.copysign(b, np.float32(sign))
            found = run("erf_gate", a, second, lanes=register_lanes, register_lanes=register_lanes)
            with np.errstate(all="ignore"):
                errors = np.abs(found - reference("erf_gate", a, second)) / (a * 2.0**-23)
            assert (np.isnan(second) == np.isnan(found)).all()
            assert np.nanmax(errors) <= most, second[np.nanargmax(errors)]


@pytest.mark.parametrize("register_lanes", [0, *PERMUTES])
def test_gates_by_erf_treat_special_values_as_documented(register_lanes: int) -> None:
    info = np.finfo(np.float32)
    numbers = [*SPECIAL, 0.5, -3, 2.5, 1e30, -1e30, info.max, info.min, info.tiny, info.smallest_subnormal]
    a, b = (each.ravel().astype(np.float32) for each in np.meshgrid(numbers, numbers))
    with np.errstate(all="ignore"):
        want = a * (1 + scipy.special.erf(b.astype(np.float64)))
        if register_lanes:
            want[np.isinf(a) & np.signbit(b)] = math.nan
    got = run("erf_gate", a, b, lanes=register_lanes or 16, register_lanes=register_lanes)
    bound = np.abs(a) * np.where(b < 0, 1e-7, 2e-7) + info.smallest_subnormal
    with np.errstate(all="ignore"):
        same = (got == want.astype(np.float32)) | (np.isnan(got) & np.isnan(want)) | (np.abs(got - want) <= bound)
    assert same.all(), list(zip(a[~same], b[~same], got[~same], want[~same], strict=True))


def test_exp_reaches_both_ends_of_its_range() -> None:
    x = np.array([88.72, 88.7228, 88.73, -87.5, -103.2, -103.98, -105], np.float32)
    got = run("exp", x)
    assert np.isfinite(got[0])
    assert np.isinf(got[2])
    assert 0 < got[4] < np.finfo(np.float32).tiny
    assert got[-1] == 0
    assert ulps(got, reference("exp", x)).max() <= 1.3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_erf_against_sixty_digits(dtype: str) -> None:
    x = np.linspace(0.01, 5.5, 60).astype(dtype)
    with localcontext() as context:
        context.prec = minimax.DIGITS
        exact = [minimax.erf(context.create_decimal(float(v))) for v in x]
        errors = [
            abs(context.create_decimal(float(g)) - e) / context.create_decimal(float(np.spacing(g)))
            for g, e in zip(run("erf", x), exact, strict=True)
        ]
    assert max(errors) < 2.2


@pytest.mark.parametrize("host", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_sixteen_lanes_compile_without_any_call(name: str, dtype: str, host: bool) -> None:
    module, target = optimized(name, dtype, 16, host=host)
    lines = target.emit_assembly(module).splitlines()
    assert len(lines) > 10
    assert not [line for line in lines if line.split()[:1] in (["call"], ["callq"], ["bl"], ["blr"])]


def test_functions_share_a_module() -> None:
    parts = [vector_math.definition(name, dtype, lanes) for name in NAMES for dtype in ELEMENT for lanes in (1, 8)]
    declares = frozenset[str]().union(*(part.declarations for part in parts))
    module = llvm.parse_assembly("\n".join([*sorted(declares), *(part.text for part in parts)]))
    module.verify()
    assert len({part.name for part in parts}) == len(parts)


@pytest.mark.parametrize(
    ("name", "dtype", "lanes"), [("sin", "float64", 8), ("exp", "int32", 8), ("exp", "float32", 0)]
)
def test_unknown_functions_are_refused(name: str, dtype: str, lanes: int) -> None:
    with pytest.raises(CompileError, match=f"{name}.*{dtype}"):
        vector_math.definition(name, dtype, lanes)


@pytest.mark.parametrize(
    "name",
    [
        "exp_tail_f32",
        "exp_tail_sixteenth_f32",
        "exp_tail_eighth_f32",
        "exp_tail_quarter_f32",
        "log_tail_f32",
        "log_erfc_ratio_f32",
    ],
)
def test_the_printed_fit_is_the_table_in_use(name: str) -> None:
    with localcontext() as context:
        context.prec = minimax.DIGITS
        computed, error = minimax.remez(minimax.fits()[name])
    assert tuple(float(c) for c in computed) == getattr(coefficients, name.upper())
    assert error < (3e-5 if "sixteenth" in name else 1e-6)


@pytest.mark.parametrize("name", minimax.quotients())
def test_the_printed_quotient_is_the_one_in_use(name: str) -> None:
    with localcontext() as context:
        context.prec = minimax.DIGITS
        top, bottom, error = minimax.level(minimax.quotients()[name])
    assert tuple(float(c) for c in top) == getattr(coefficients, f"{name.upper()}_NUMERATOR")
    assert tuple(float(c) for c in bottom) == getattr(coefficients, f"{name.upper()}_DENOMINATOR")
    assert error < 2.0**-26
