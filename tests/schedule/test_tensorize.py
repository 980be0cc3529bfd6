"""tensorize: nests that match a description become the statements of an intrinsic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from compilers import compiler
from interpreter import interpret

import pegbox as pb
from pegbox import te, tir
from pegbox.codegen import Target, emit
from pegbox.codegen.targets import features
from pegbox.errors import CompileError, ScheduleError, TargetError
from pegbox.loops.passes import lower_function
from pegbox.loops.verify import verify
from pegbox.schedule import Schedule, Trace
from pegbox.tir import script

SIZE = 64


def product(a: str = "float32", b: str = "float32", c: str = "float32", n: int = SIZE, *, rows: bool = False) -> Any:
    """C = A @ B; with `rows`, B is given row by row of the result: C = A @ B.T."""
    x, y = te.placeholder((n, n), a, name="A"), te.placeholder((n, n), b, name="B")
    k = te.reduce_axis((0, n), name="k")

    def element(i: Any, j: Any) -> Any:
        return te.sum(x[i, k].astype(c) * (y[j, k] if rows else y[k, j]).astype(c), axis=k)

    return [x, y, te.compute((n, n), element, name="C")]


def tiled(args: Any, sizes: tuple[int, int, int]) -> Any:
    """The schedule and the outermost loop of the tiles."""
    sch = Schedule(args)
    loops = [sch.split(x, factor=f) for x, f in zip(sch.get_loops("C"), sizes, strict=True)]
    sch.reorder(*(o for o, _ in loops), *(i for _, i in loops))
    return sch, loops[0][1]


def numbers(dtype: str, n: int = SIZE) -> Any:
    low, high = {"uint8": (0, 256), "int8": (-128, 128)}.get(dtype, (-5, 6))
    return np.random.default_rng(len(dtype)).integers(low, high, (n, n)).astype(te.dtypes.numpy_dtype(dtype))


def check(sch: Schedule, a: Any, b: Any, want: Any) -> None:
    verify(sch.func)
    c = np.zeros(want.shape, want.dtype)
    pb.build(sch)(a, b, c)
    np.testing.assert_array_equal(c, want)


def has(feature: str) -> bool:
    return features.has(Target(), feature)


# Shipped intrinsics.


def test_a_float32_tile_stays_in_registers(golden: Any) -> None:
    sch, tile = tiled(product(n=16), (4, 8, 4))
    sch.tensorize(tile, "float32_tile_4x8x4")
    golden(sch)
    a, b = numbers("float32", 16), numbers("float32", 16)
    check(sch, a, b, a @ b)
    np.testing.assert_array_equal(interpret(sch.func, [a, b])[0], a @ b)
    np.testing.assert_array_equal(interpret(lower_function(sch.func), [a, b])[0], a @ b)


@pytest.mark.parametrize("sizes", [(1, 16, 1), (4, 32, 16), (6, 16, 64), (64, 64, 64), (2, 3, 5)])
def test_float32_tiles_of_any_size(sizes: tuple[int, int, int]) -> None:
    n = {6: 192, 2: 30}.get(sizes[0], SIZE)
    sch, tile = tiled(product(n=n), sizes)
    sch.tensorize(tile, "float32_tile_{}x{}x{}".format(*sizes))
    sch.parallel(sch.get_loops("C_o")[0])
    a, b = numbers("float32", n), numbers("float32", n)
    check(sch, a, b, a @ b)


def packed(name: str, group: int, types: tuple[str, str, str]) -> Schedule:
    sch = Schedule(product(*types, rows=True))
    sch.cache_read("C", 1, "global")
    sch.transform_layout("C", ("read", 1), lambda n, k: (n // 16, k // group, n % 16, k % group))
    i, j, k = sch.get_loops("C")
    (j0, j1), (k0, k1) = sch.split(j, factor=16), sch.split(k, factor=group)
    sch.reorder(i, j0, k0, j1, k1)
    sch.tensorize(j1, name)
    return sch


@pytest.mark.parametrize("name", ["vpdpbusd", "dot_16x4_vnni"])
def test_bytes_are_multiplied_by_vnni(name: str) -> None:
    sch = packed(name, 4, ("uint8", "int8", "int32"))
    a, b = numbers("uint8"), numbers("int8")
    want = a.astype(np.int32) @ b.astype(np.int32).T
    np.testing.assert_array_equal(interpret(sch.func, [a, b])[0], want)
    if has("avx512vnni"):
        check(sch, a, b, want)
        assert "vpdpbusd" in pb.build(sch).source("asm")


def test_bfloat16_is_multiplied_by_one_instruction() -> None:
    sch = packed("dpbf16ps", 2, ("bfloat16", "bfloat16", "float32"))
    a, b = numbers("bfloat16"), numbers("bfloat16")
    want = a.astype(np.float32) @ b.astype(np.float32).T
    np.testing.assert_array_equal(interpret(sch.func, [a, b])[0], want)
    if has("avx512bf16"):
        check(sch, a, b, want)
        assert "dpbf16ps" in pb.build(sch).source("asm")


@pytest.mark.parametrize(
    ("name", "group", "types", "feature"),
    [
        ("vpdpbusd", 4, ("uint8", "int8", "int32"), "avx512vnni"),
        ("dpbf16ps", 2, ("bfloat16", "bfloat16", "float32"), "avx512bf16"),
    ],
)
def test_targets_without_the_instruction_refuse_it(name: str, group: int, types: Any, feature: str) -> None:
    sch = packed(name, group, types)
    for target in ("llvm -mcpu=skylake", "llvm -mcpu=skylake-avx512", f"llvm -mcpu=znver4 -mattr=-{feature}"):
        with pytest.raises(
            TargetError, match=rf"needs the feature {feature}, which the target .*; leave the tensorize"
        ):
            pb.build(sch, target=target)
    with pytest.raises(TargetError, match=r"is an instruction of x86_64, the target .* is for aarch64"):
        emit(lower_function(sch.func), Target("llvm -mtriple=aarch64-unknown-linux-gnu"))
    emit(lower_function(sch.func), Target("llvm -mcpu=sapphirerapids"))
    emit(lower_function(sch.func), Target(f"llvm -mcpu=skylake-avx512 -mattr=+{feature}"))


# Intrinsics of one's own.


def dot(name: str = "dot4x4", dtype: str = "float32", *, shape: int = 4, init: bool = False) -> Any:
    """A description in the script language: C[i] += A[k] * B[i, k]."""
    start = "\n                with T.init():\n                    C[vi] = T.float32(0)" if init else ""
    return script.from_source(f'''
@T.prim_func
def {name}(A: T.Buffer(({shape},), "{dtype}"), B: T.Buffer((4, {shape}), "{dtype}"), C: T.Buffer((4,), "{dtype}")):
    with T.block("root"):
        T.reads(A[0:{shape}], B[0:4, 0:{shape}])
        T.writes(C[0:4])
        for i, k in T.grid(4, {shape}):
            with T.block("update"):
                vi, vk = T.axis.remap("SR", [i, k]){start}
                C[vi] = C[vi] + A[vk] * B[vi, vk]
''')


def by_columns() -> Any:
    """An implementation in another order of loops."""
    return script.from_source("""
@T.prim_func
def by_columns(a: T.Buffer((4,), "float32"), b: T.Buffer((4, 4), "float32"), c: T.Buffer((4,), "float32")):
    for k, i in T.grid(4, 4):
        with T.block("step"):
            vk, vi = T.axis.remap("RS", [k, i])
            c[vi] = c[vi] + b[vi, vk] * a[vk]
""")


@pytest.fixture(scope="module")
def dot4x4() -> str:
    tir.TensorIntrin.register("test_dot4x4", dot(), by_columns())
    return "test_dot4x4"


def rows_tiled(n: int = 8) -> Any:
    sch = Schedule(product(n=n, rows=True))
    i, j, k = sch.get_loops("C")
    (j0, j1), (k0, k1) = sch.split(j, factor=4), sch.split(k, factor=4)
    sch.reorder(i, j0, k0, j1, k1)
    return sch, (i, j0, k0, j1, k1)


def test_an_intrinsic_written_as_a_script(dot4x4: str, golden: Any) -> None:
    sch, (_, _, _, j1, _) = rows_tiled()
    sch.tensorize(j1, dot4x4)
    golden(sch)
    a, b = numbers("float32", 8), numbers("float32", 8)
    check(sch, a, b, a @ b.T)


def test_a_block_of_tiles_can_be_tensorized_and_the_trace_replays(dot4x4: str) -> None:
    sch, (_, _, k0, j1, _) = rows_tiled()
    block = sch.blockize(j1)
    sch.decompose_reduction(block, k0)
    sch.tensorize(block, dot4x4)
    a, b = numbers("float32", 8), numbers("float32", 8)
    check(sch, a, b, a @ b.T)
    again = Trace.from_json(sch.trace.to_json()).apply(Schedule(product(n=8, rows=True)))
    assert str(again) == str(sch)
    assert "sch.tensorize('C_o', 'test_dot4x4')" in str(sch.trace)


def test_loops_in_another_order_and_swapped_operands_match(dot4x4: str) -> None:
    x, y = te.placeholder((8, 8), name="A"), te.placeholder((8, 8), name="B")
    k = te.reduce_axis((0, 8), name="k")
    args = [x, y, te.compute((8, 8), lambda i, j: te.sum(y[j, k] * x[i, k], axis=k), name="C")]
    sch = Schedule(args)
    i, j, r = sch.get_loops("C")
    (j0, j1), (k0, k1) = sch.split(j, factor=4), sch.split(r, factor=4)
    sch.reorder(i, j0, k0, k1, j1)
    sch.tensorize(k1, dot4x4)
    a, b = numbers("float32", 8), numbers("float32", 8)
    check(sch, a, b, a @ b.T)


def refused(sch: Schedule, step: Any, *words: str) -> None:
    before = sch.func
    with pytest.raises(ScheduleError) as info:
        step()
    for word in words:
        assert word in str(info.value), info.value
    assert sch.func is before


def test_an_unknown_name_is_refused() -> None:
    sch, (*_, j1, _) = rows_tiled()
    refused(sch, lambda: sch.tensorize(j1, "no_such"), "no tensor intrinsic is called 'no_such'", "shipped: vpdpbusd")


def test_other_extents_are_refused(dot4x4: str) -> None:
    sch, (*_, k1) = rows_tiled()
    refused(sch, lambda: sch.tensorize(k1, dot4x4), "the nest has k_1 (4), the description i (4) x k (4)", "> ")


def test_another_type_is_refused(dot4x4: str) -> None:
    sch, tile = tiled(product("int32", "int32", "int32", n=8, rows=True), (1, 4, 4))
    refused(
        sch, lambda: sch.tensorize(tile, dot4x4), "C: int32[8, 8]", "corresponds to", "C: float32[4]", "dtypes differ"
    )


def test_another_expression_is_refused(dot4x4: str) -> None:
    x, y = te.placeholder((8, 8), name="A"), te.placeholder((8, 8), name="B")
    k = te.reduce_axis((0, 8), name="k")
    sch, tile = tiled([x, y, te.compute((8, 8), lambda i, j: te.sum(x[i, k] - y[j, k], axis=k), name="C")], (1, 4, 4))
    refused(sch, lambda: sch.tensorize(tile, dot4x4), "the nest has A[", "] - B[", "the description A[k] * B[i, k]")


def test_other_places_are_refused(dot4x4: str) -> None:
    sch, tile = tiled(product(n=8), (1, 4, 4))  # B is read by columns
    refused(sch, lambda: sch.tensorize(tile, dot4x4), "B[vk_o * 4 + k_1, vj_o * 4 + j_1]", "the description B[i, k]")


def test_no_reduction_is_refused(dot4x4: str) -> None:
    x = te.placeholder((4, 4), name="A")
    sch = Schedule([x, te.compute((4, 4), lambda i, j: x[i, j] * x[j, i], name="C")])
    refused(sch, lambda: sch.tensorize(sch.get_loops("C")[0], dot4x4), "block C does not reduce", "update reduces")


def test_tiles_that_are_not_whole_are_refused(dot4x4: str) -> None:
    sch, tile = tiled(product(n=10, rows=True), (1, 4, 4))
    refused(sch, lambda: sch.tensorize(tile, dot4x4), "tensorize(i_1, test_dot4x4)", "which does not divide it")


def test_one_operand_in_two_places_is_refused() -> None:
    tir.TensorIntrin.register(
        "test_square",
        script.from_source("""
@T.prim_func
def square(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("c"):
            vi = T.axis.spatial(4, i)
            C[vi] = A[vi] * A[vi]
"""),
        script.from_source("""
@T.prim_func
def square(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    for i in T.unroll(4):
        with T.block("c"):
            vi = T.axis.spatial(4, i)
            C[vi] = A[vi] * A[vi]
"""),
    )
    x, y = te.placeholder((8, 4), name="X"), te.placeholder((8, 4), name="Y")
    sch = Schedule([x, y, te.compute((8, 4), lambda i, j: x[i, j] * y[i, j], name="C")])
    refused(sch, lambda: sch.tensorize(sch.get_loops("C")[1], "test_square"), "A of the description is X[", "Y[")
    sch = Schedule([x, te.compute((8, 4), lambda i, j: x[i, j] * x[i, j], name="C")])
    sch.tensorize(sch.get_loops("C")[1], "test_square")


def test_vectors_of_what_are_no_neighbours_are_refused() -> None:
    x, y = te.placeholder((16, 16), name="A"), te.placeholder((16, 16), name="B")
    k = te.reduce_axis((0, 16), name="k")
    c = te.compute((16, 16), lambda j, i: te.sum(x[i, k] * y[k, j], axis=k), name="C")  # the result is transposed
    sch = Schedule([x, y, c])
    j, i, r = sch.get_loops("C")
    (i0, i1), (j0, j1), (k0, k1) = (sch.split(v, factor=4) for v in (i, j, r))
    sch.reorder(i0, j0, k0, i1, j1, k1)
    refused(sch, lambda: sch.tensorize(i1, "float32_tile_4x4x4"), "C[vj_o * 4 + j_1, vi_o * 4 + i_1]")


def test_vectors_of_packed_bytes_need_their_layout() -> None:
    sch = Schedule(product("uint8", "int8", "int32", rows=True))
    i, j, k = sch.get_loops("C")
    (j0, j1), (k0, k1) = sch.split(j, factor=16), sch.split(k, factor=4)
    sch.reorder(i, j0, k0, j1, k1)
    refused(sch, lambda: sch.tensorize(j1, "vpdpbusd"), "the intrinsic takes neighbours of B", "pack them first")


def test_a_vectorized_loop_around_is_refused(dot4x4: str) -> None:
    sch, (_, j0, _, j1, _) = rows_tiled()
    sch.vectorize(j0)
    refused(sch, lambda: sch.tensorize(j1, dot4x4), "j_0 is vectorized")


def test_vectorize_around_machine_code_is_refused() -> None:
    sch, tile = tiled(product(n=16), (4, 8, 4))
    sch.tensorize(tile, "float32_tile_4x8x4")
    refused(
        sch, lambda: sch.vectorize(sch.get_loops("C_o")[1]), "block C_o calls machine code, or has vectors of its own"
    )


def test_a_description_that_starts_needs_an_update_for_what_goes_on_outside() -> None:
    impl = script.from_source("""
@T.prim_func
def impl(A: T.Buffer((4,), "float32"), B: T.Buffer((4, 4), "float32"), C: T.Buffer((4,), "float32")):
    for i, k in T.grid(4, 4):
        with T.block("update"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vk] * B[vi, vk]
""")
    tir.TensorIntrin.register("test_dot_started", dot(init=True), impl)
    sch, (*_, j1, _) = rows_tiled()
    refused(
        sch,
        lambda: sch.tensorize(j1, "test_dot_started"),
        "the reduction goes on outside the nest",
        "give it a reset",
    )
    sch, (*_, j1, _) = rows_tiled(4)  # all of it inside
    sch.tensorize(j1, "test_dot_started")
    a, b = numbers("float32", 4), numbers("float32", 4)
    check(sch, a, b, a @ b.T)


# Registration.


def test_a_name_is_given_once(dot4x4: str) -> None:
    with pytest.raises(ScheduleError, match=f"'{dot4x4}' is registered already; give override=True"):
        tir.TensorIntrin.register(dot4x4, dot(), by_columns())
    assert tir.TensorIntrin.register(dot4x4, dot(), by_columns(), override=True) is tir.TensorIntrin.get(dot4x4)


def test_malformed_intrinsics_are_refused() -> None:
    register = tir.TensorIntrin.register
    with pytest.raises(
        ScheduleError, match=r"the description takes A: float32\[2\].*the implementation a: float32\[4\]"
    ):
        register("test_bad", dot(shape=2), by_columns())
    with pytest.raises(ScheduleError, match="is not a program"):
        register("test_bad", dot(), "text")  # type: ignore[arg-type]
    writes_input = script.from_source("""
@T.prim_func
def impl(A: T.Buffer((4,), "float32"), B: T.Buffer((4, 4), "float32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("c"):
            vi = T.axis.spatial(4, i)
            A[vi] = C[vi]
""")
    with pytest.raises(ScheduleError, match="write A, which the description only reads"):
        register("test_bad", dot(), writes_input)
    two = script.from_source("""
@T.prim_func
def two(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("b"):
            vi = T.axis.spatial(4, i)
            C[vi] = A[vi]
    for i in range(4):
        with T.block("c"):
            vi = T.axis.spatial(4, i)
            C[vi] = C[vi] + A[vi]
""")
    with pytest.raises(ScheduleError, match="the description is not one nest around one block"):
        register("test_bad", two, two)
    half = script.from_source("""
@T.prim_func
def half(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(4):
        with T.block("b"):
            vi = T.axis.spatial(4, i)
            C[vi] = A[vi]
""")
    with pytest.raises(ScheduleError, match=r"does not touch .* as a whole"):
        register("test_bad", half, half)
    assert not tir.TensorIntrin.is_registered("test_bad")


@compiler
def test_code_that_lies_otherwise_in_memory_is_refused_at_last() -> None:
    """Lowering alone decides the layout of an intermediate buffer."""
    a = te.placeholder((4, 4), name="a")
    c = te.compute((4, 4), lambda i, j: a[i, j] + 1.0, name="c")

    def body(ins: Any, outs: Any) -> Any:
        return te.call_extern("int32", "add_one", outs[0].access_ptr("w"), ins[0].access_ptr("r"))

    code = tir.c_source(
        "int add_one(float *c, const float *a) { for (int i = 0; i < 16; ++i) c[i] = a[i] + 1; return 0; }"
    )
    intrin = te.decl_tensor_intrin(c.op, body, name="test_add_one", code=code)
    x = te.placeholder((8, 8), name="X")
    y = te.compute((8, 8), lambda i, j: x[i, j] * 2.0, name="Y")
    z = te.compute((8, 8), lambda i, j: y[i, j] + 1.0, name="Z")
    w = te.compute((8, 8), lambda i, j: z[i, j] * 3.0, name="W")
    sch = Schedule([x, w])
    (i0, i1), (j0, j1) = (sch.split(v, factor=4) for v in sch.get_loops("Z"))
    sch.reorder(i0, j0, i1, j1)
    sch.tensorize(i1, intrin.name)
    with pytest.raises(CompileError, match=r"dimension 0 are 4 elements apart, but in .* they are 8 apart"):
        pb.build(sch)
    sch = Schedule([x, w])
    (i0, i1), (j0, j1) = (sch.split(v, factor=4) for v in sch.get_loops("W"))
    sch.reorder(i0, j0, i1, j1)
    sch.compute_at("Z", j0)
    sch.compute_at("Y", j0)  # tiles of 4 x 4
    sch.tensorize(sch.get_loops("Z")[2], intrin.name)
    values, got = numbers("float32", 8), np.zeros((8, 8), "float32")
    pb.build(sch)(values, got)
    np.testing.assert_array_equal(got, (values * 2 + 1) * 3)
