"""Programs that people type by hand, read, run and built."""

# ruff: noqa: F821, UP037 (older scripts have text in brackets behind T.Buffer, which is not an annotation of theirs)

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from interpreter import interpret
from numpy.typing import NDArray

import pegbox as pb
from pegbox.errors import ScriptError
from pegbox.loops.nodes import Function
from pegbox.tir import IRModule, PrimFunc, Schedule, script
from pegbox.tir.script import ir as I
from pegbox.tir.script import tir as T

Array = NDArray[Any]


def ints(*shape: int, dtype: str = "float32", seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def check(func: Function, inputs: list[Array], *wanted: Array) -> None:
    """Run in the interpreter and as machine code."""
    for got, want in zip(interpret(func, inputs), wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    rest = iter(inputs)
    arrays = [np.full(b.shape, 99, b.dtype) if b in func.outputs else next(rest) for b in func.params]
    pb.build(func)(*arrays)
    outputs = [a for a, b in zip(arrays, func.params, strict=True) if b in func.outputs]
    for got, want in zip(outputs, wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    again = script.from_source(func.script())
    assert again == func
    assert again.script() == func.script()


@I.ir_module
class MyModule:
    @T.prim_func
    def mm_relu(
        A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32"), C: T.Buffer((128, 128), "float32")
    ):
        T.func_attr({"global_symbol": "mm_relu", "tir.noalias": True})
        Y = T.alloc_buffer((128, 128), dtype="float32")
        for i, j, k in T.grid(128, 128, 128):
            with T.block("Y"):
                vi = T.axis.spatial(128, i)
                vj = T.axis.spatial(128, j)
                vk = T.axis.reduce(128, k)
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(128, 128):
            with T.block("C"):
                vi = T.axis.spatial(128, i)
                vj = T.axis.spatial(128, j)
                C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


@I.ir_module
class MyModuleInBrackets:
    @T.prim_func
    def mm_relu(
        A: T.Buffer[(128, 128), "float32"], B: T.Buffer[(128, 128), "float32"], C: T.Buffer[(128, 128), "float32"]
    ) -> None:
        T.func_attr({"global_symbol": "mm_relu", "tir.noalias": True})
        with T.block("root"):
            T.reads()
            T.writes()
            Y = T.alloc_buffer([128, 128], dtype="float32")
            for i, j, k in T.grid(128, 128, 128):
                with T.block("Y"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    T.reads(A[vi, vk], B[vk, vj])
                    T.writes(Y[vi, vj])
                    with T.init():
                        Y[vi, vj] = 0.0
                    Y[vi, vj] += A[vi, vk] * B[vk, vj]
            for a in range(128):
                for b in range(128):
                    with T.block("C"):
                        vi, vj = T.axis.remap("SS", [a, b])
                        C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


def test_both_spellings_of_a_buffer_are_the_same_module() -> None:
    assert isinstance(MyModule, IRModule)
    assert MyModule == MyModuleInBrackets
    assert hash(MyModule) == hash(MyModuleInBrackets)
    assert script.from_source(MyModule.script()) == MyModule


def test_mm_relu_runs_from_a_built_module() -> None:
    a, b, c = ints(128, 128), ints(128, 128, seed=1), np.empty((128, 128), "float32")
    built = pb.build(MyModule)
    built["mm_relu"](a, b, c)
    np.testing.assert_array_equal(c, np.maximum(a @ b, 0))
    assert built.time_evaluator("mm_relu", number=2)(a, b, c).mean > 0


def test_mm_relu_is_scheduled_and_built() -> None:
    sch = Schedule(MyModule)
    i, j, k = sch.get_loops(sch.get_block("Y"))
    j_0, j_1 = sch.split(j, factors=[None, 8])
    sch.reorder(i, j_0, k, j_1)
    sch.vectorize(j_1)
    sch.reverse_compute_at(sch.get_block("C"), j_0)
    assert script.from_source(sch.mod.script()) == sch.mod
    a, b, c = ints(128, 128), ints(128, 128, seed=1), np.empty((128, 128), "float32")
    pb.build(sch.mod)(a, b, c)
    np.testing.assert_array_equal(c, np.maximum(a @ b, 0))


N, M = 12, 10


@T.prim_func
def matmul(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, [N, M], align=128, offset_factor=1)
    B = T.match_buffer(b, (M, N), "int32", scope="global")
    C = T.match_buffer(c, (N, N), dtype="float64")
    for i in T.serial(N):
        for j in T.parallel(N):
            for k in T.serial(0, M):
                with T.block("C"):
                    vi = T.axis.S(N, i)
                    vj = T.axis.S(N, j)
                    vk = T.axis.R(M, k)
                    with T.init():
                        C[vi, vj] = 0
                    C[vi, vj] = C[vi, vj] + T.cast(A[vi, vk], "float64") * T.Cast("float64", B[vk, vj])


def test_matmul_with_handles_and_names_from_around() -> None:
    assert isinstance(matmul, PrimFunc)
    assert [b.name for b in matmul.params] == ["A", "B", "C"]
    a, b = ints(N, M), ints(M, N, dtype="int32", seed=1)
    check(matmul, [a, b], a.astype("float64") @ b)


@T.prim_func
def batch_matmul(A: T.Buffer((3, 4, 5)), B: T.Buffer((3, 5, 6)), C: T.Buffer((3, 4, 6))) -> None:
    for n, i, j in T.grid(3, 4, 6):
        with T.block("init"):
            vn, vi, vj = T.axis.remap("SSS", [n, i, j])
            C[vn, vi, vj] = T.float32(0)
        for k in range(5):
            with T.block("update"):
                vn, vi, vj, vk = T.axis.remap("SSSR", [n, i, j, k])
                C[vn, vi, vj] = A[vn, vi, vk] * B[vn, vk, vj] + C[vn, vi, vj]


def test_batch_matmul_whose_init_is_a_block_of_its_own() -> None:
    a, b = ints(3, 4, 5), ints(3, 5, 6, seed=1)
    check(batch_matmul, [a, b], a @ b)


def padded_convolution(size: int, width: int) -> Function:
    """The shapes come from the closure."""
    out = size

    @T.prim_func
    def conv(X: T.Buffer((size, size), "float32"), W: T.Buffer((width, width), "float32"), Y: T.Buffer((out, out))):
        """A comment is not a statement."""
        P = T.alloc_buffer((size + width - 1, size + width - 1), "float32", scope="local")
        for i, j in T.grid(size + width - 1, size + width - 1):
            with T.block("pad"):
                vi, vj = T.axis.remap("SS", [i, j])
                low = width // 2
                inside = low <= vi < size + low and low <= vj and vj < size + low
                P[vi, vj] = T.if_then_else(inside, X[vi - low, vj - low], T.float32(0))
        for i, j, ry, rx in T.grid(out, out, width, width):
            with T.block("conv"):
                y, x, wy, wx = T.axis.remap("SSRR", [i, j, ry, rx])
                with T.init():
                    Y[y, x] = 0
                Y[y, x] += P[y + wy, x + wx] * W[wy, wx]

    assert isinstance(conv, Function)
    return conv


def test_convolution_with_padding() -> None:
    x, w = ints(9, 9), ints(3, 3, seed=1)
    wide = np.pad(x, 1)
    want = sum(wide[a : a + 9, b : b + 9] * w[a, b] for a in range(3) for b in range(3))
    check(padded_convolution(9, 3), [x, w], np.asarray(want, "float32"))


@T.prim_func
def gpu_matmul(A: T.Buffer((16, 8)), B: T.Buffer((8, 16)), C: T.Buffer((16, 16))) -> None:
    C_local = T.alloc_buffer((16, 16), scope="local")
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for by in T.thread_binding(0, 2, thread="blockIdx.y"):
            for tx in T.thread_binding(4, "threadIdx.x"):
                for j in T.vectorized(8):
                    with T.block("C_init"):
                        vi = T.axis.spatial(16, bx * 4 + tx)
                        vj = T.axis.spatial(16, by * 8 + j)
                        C_local[vi, vj] = T.float32(0)
                for k_0 in T.serial(4, annotations={"pragma_auto_unroll_max_step": 16}):
                    for k_1 in T.unroll(2):
                        for j in range(8):
                            with T.block("C"):
                                vi = T.axis.spatial(16, bx * 4 + tx)
                                vj = T.axis.spatial(16, by * 8 + j)
                                vk = T.axis.reduce(8, k_0 * 2 + k_1)
                                T.reads(C_local[vi, vj], A[vi, vk], B[vk, 0:16])
                                T.writes(C_local[vi, vj])
                                T.block_attr({"note": [1, "two"]})
                                C_local[vi, vj] = C_local[vi, vj] + A[vi, vk] * B[vk, vj]
                for j in range(8):
                    with T.block("C_back"):
                        vi = T.axis.spatial(16, bx * 4 + tx)
                        vj = T.axis.spatial(16, by * 8 + j)
                        C[vi, vj] = C_local[vi, vj]


def test_a_program_with_thread_loops() -> None:
    a, b = ints(16, 8), ints(8, 16, seed=1)
    check(gpu_matmul, [a, b], a @ b)


@T.prim_func
def tiles(A: T.Buffer((8, 8)), B: T.Buffer((8, 8)), C: T.Buffer((8, 8))) -> None:
    for io, jo, ko in T.grid(2, 2, 2):
        with T.block("tile"):
            vio, vjo, vko = T.axis.remap("SSR", [io, jo, ko])
            with T.init():
                for i, j in T.grid(4, 4):
                    with T.block("tile_init"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        C[vio * 4 + vi, vjo * 4 + vj] = T.float32(0)
            for i, j, k in T.grid(4, 4, 4):
                with T.block("inner"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    C[vio * 4 + vi, vjo * 4 + vj] += A[vio * 4 + vi, vko * 4 + vk] * B[vko * 4 + vk, vjo * 4 + vj]


def test_blocks_inside_of_blocks_state_tiles() -> None:
    outer = next(line for line in tiles.script().splitlines() if "T.reads" in line)
    assert (
        outer.strip()
        == "T.reads(A[vio * 4:vio * 4 + 4, vko * 4:vko * 4 + 4], B[vko * 4:vko * 4 + 4, vjo * 4:vjo * 4 + 4])"
    )
    a, b = ints(8, 8), ints(8, 8, seed=1)
    check(tiles, [a, b], a @ b)


@T.prim_func
def tails(A: T.Buffer((10, 6), "int32"), B: T.Buffer((6,), "int32"), C: T.Buffer((10,), "bool")) -> None:
    for i_0, i_1 in T.grid(4, 3):
        with T.block("B"):
            v = T.axis.spatial(10, i_0 * 3 + i_1)
            T.where(i_0 * 3 + i_1 < 10)
            if v % 2 == 0:
                C[v] = A[v, 0] > 1
            elif v == 3:
                C[v] = True
            else:
                C[v] = not (A[v, 1] >= 0 or A[v, 2] == 3)
    for j, i in T.grid(6, 10):
        with T.block("M"):
            vj, vi = T.axis.remap("SR", [j, i])
            with T.init():
                B[vj] = T.min_value("int32")
            B[vj] = T.max(A[vi, vj], B[vj])


def test_tails_branches_and_truth() -> None:
    a = ints(10, 6, dtype="int32")
    want = [a[v, 0] > 1 if v % 2 == 0 else True if v == 3 else not (a[v, 1] >= 0 or a[v, 2] == 3) for v in range(10)]
    check(tails, [a], a.max(0), np.array(want))


def test_reductions_are_recognised() -> None:
    notes = {r: dict(b.annotations).get("combiner") for r, b in _blocks(tails).items()}
    assert notes == {"B": None, "M": "max"}
    assert dict(_blocks(MyModule["mm_relu"])["Y"].annotations) == {"combiner": "sum"}
    sch = Schedule(tails)
    sch.vectorize(sch.get_loops("M")[1])  # only a reduction whose combiner is known


def _blocks(func: Function) -> dict[str, Any]:
    return {name: realize.block for name, realize in Schedule(func).tree.blocks.items()}


@T.prim_func
def shifted(A: T.Buffer((8,)), B: T.Buffer((8,))) -> None:
    for i in T.serial(2, 8):
        with T.block("late"):
            v = T.axis.spatial((2, 8), i)
            B[v] = A[v - 2] + A[v]
    for i in range(2):
        with T.block("early"):
            v = T.axis.remap("S", [i])
            B[v] = A[v]


def test_domains_that_start_later_count_from_there() -> None:
    a = ints(8)
    check(shifted, [a], np.concatenate([a[:2], a[:6] + a[2:]]))


@T.prim_func
def plain_loops(A: T.Buffer((4, 4)), B: T.Buffer((4,))) -> None:
    for i in T.parallel(4):
        acc = T.decl_buffer((1,), "float32", scope="local")
        acc[0] = T.float32(0)
        for j in range(4):
            at = 3 - j
            acc[0] = acc[0] + A[i, at]
        B[i] = acc[0]


def test_a_program_without_blocks_is_lowered_already() -> None:
    a = ints(4, 4)
    check(plain_loops, [a], a.sum(1))


@T.prim_func
def in_place(A: T.Buffer((6,)), B: T.Buffer((6,))) -> None:
    for i in range(6):
        with T.block("twice"):
            v = T.axis.spatial(6, i)
            B[v] = A[v] * T.float32(2)
    for i in range(6):
        with T.block("step"):
            v = T.axis.spatial(6, i)
            A[v] = A[v] - B[v]


def test_a_program_in_place_is_built() -> None:
    assert [b.name for b in in_place.outputs] == ["A", "B"]
    a, b = ints(6), np.zeros(6, "float32")
    want = a - 2 * a
    for got in interpret(in_place, [a, b]), interpret(pb.lower(in_place), [a, b]):
        np.testing.assert_array_equal(got[0], want)
    with pytest.raises(IndexError, match=r"A\[0\] is read before anything has been written there"):
        interpret(in_place, [])
    pb.build(in_place)(a, b)
    np.testing.assert_array_equal(a, want)


@T.prim_func
def two_halves(A: T.Buffer((8,)), B: T.Buffer((8,))) -> None:
    both = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("late"):
            v = T.axis.spatial(3, i - 5)
            T.where(i >= 5)
            both[v + 5] = A[v + 5] * T.float32(10)
    for i in range(8):
        with T.block("early"):
            v = T.axis.spatial(5, i)
            T.where(i < 5)
            both[v] = A[v]
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = both[v]


def test_beyond_the_part_of_one_block_lies_that_of_another() -> None:
    a = ints(8)
    check(two_halves, [a], np.where(np.arange(8) < 5, a, a * 10))


@T.prim_func
def differences(A: T.Buffer((8,)), B: T.Buffer((8,))) -> None:
    last = T.decl_buffer((1,), "float32", scope="local")
    last[0] = T.float32(0)
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] - last[0]
        with T.block("last"):
            v = T.axis.spatial(8, i)
            last[0] = A[v]


def test_a_declared_buffer_lives_as_long_as_its_suite() -> None:
    a = ints(8)
    check(differences, [a], np.diff(a, prepend=np.float32(0)))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int64", "float16", "bfloat16", "float64", "bool"])
def test_every_element_type(dtype: str) -> None:
    text = f"""
@T.prim_func
def copy(A: T.Buffer((4,), "{dtype}"), B: T.Buffer((4,), "{dtype}")):
    for i in range(4):
        with T.block("B"):
            v = T.axis.spatial(4, i)
            B[v] = T.if_then_else(v < 2, A[v], T.{dtype}(1))
"""
    func = script.from_source(text)
    assert isinstance(func, Function)
    assert script.from_source(func.script()) == func


def test_constants_survive() -> None:
    values = ["nan", "inf", "-inf", 1e-7, 0.1, -0.0, 3.4028235e38, 16777217.0]
    stores = "\n".join(f"    A[{n}] = T.float32({v!r})" for n, v in enumerate(values))
    func = script.from_source(f'@T.prim_func\ndef f(A: T.Buffer((8,), "float32")):\n{stores}')
    assert isinstance(func, Function)
    again = script.from_source(func.script())
    assert again == func
    (got,) = interpret(func, [])
    want = np.array([float(v) for v in values], "float32")
    np.testing.assert_array_equal(got, want)
    assert np.signbit(got[5])


def test_a_starred_shape_is_a_grid() -> None:
    text = "@T.prim_func\ndef f(A: T.Buffer((2, 3))):\n    for i, j in T.grid({}):\n        A[i, j] = T.float32(1)"
    assert script.from_source(text.format("*A.shape")) == script.from_source(text.format("2, 3"))


def test_text_with_several_functions_is_a_module() -> None:
    text = """
from pegbox.tir.script import tir as X
n = 4
@X.prim_func(private=True)
def one(A: X.Buffer((n,), "float32")):
    for i in range(n):
        A[i] = X.float32(1)
@X.prim_func(name="two-three")
def other(A: X.Buffer(n)):
    for i in range(n):
        A[i] = X.float32(2)
"""
    mod = script.from_source(text)
    assert isinstance(mod, IRModule)
    assert list(mod) == ["one", "two-three"]
    assert script.from_source(mod.script()) == mod
    out = np.zeros(4, "float32")
    built = pb.build(mod)
    built["two-three"](out)
    assert list(out) == [2, 2, 2, 2]
    with pytest.raises(pb.errors.ArgumentError, match="has the functions one, two-three; name one"):
        built(out)


PRINTED_ELSEWHERE = """
# from tvm.script import ir as I
# from tvm.script import tir as T
from tvm.script import ir as I
from tvm.script import tir as T

@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((T.int64(16), T.int64(8)), "float32"), B: T.Buffer((T.int64(8), T.int64(16)), "float32"),
             T_softmax: T.Buffer((T.int64(16), T.int64(16)), "float32")):
        T.func_attr({"tir.noalias": T.bool(True), "op_pattern": 4})
        # with T.block("root"):
        C = T.alloc_buffer((T.int64(16), T.int64(16)))
        T_softmax_maxelem = T.alloc_buffer((T.int64(16),))
        for i, j, k in T.grid(T.int64(16), T.int64(16), T.int64(8)):
            with T.block("C"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                T.reads(A[v_i, v_k], B[v_k, v_j])
                T.writes(C[v_i, v_j])
                with T.init():
                    C[v_i, v_j] = T.float32(0.0)
                C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        for i0, k in T.grid(T.int64(16), T.int64(16)):
            with T.block("T_softmax_maxelem"):
                v_i0, v_k = T.axis.remap("SR", [i0, k])
                T.reads(C[v_i0, v_k])
                T.writes(T_softmax_maxelem[v_i0])
                with T.init():
                    T_softmax_maxelem[v_i0] = T.float32(-3.4028234663852886e+38)
                T_softmax_maxelem[v_i0] = T.max(T_softmax_maxelem[v_i0], C[v_i0, v_k])
        for i0, i1 in T.grid(T.int64(16), T.int64(16)):
            with T.block("T_softmax_norm"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(C[v_i0, v_i1], T_softmax_maxelem[v_i0])
                T.writes(T_softmax[v_i0, v_i1])
                T.block_attr({"axis": 1})
                T_softmax[v_i0, v_i1] = T.exp(C[v_i0, v_i1] - T_softmax_maxelem[v_i0])
"""


def test_text_in_the_form_that_tvm_prints() -> None:
    mod = script.from_source(PRINTED_ELSEWHERE)
    assert isinstance(mod, IRModule)
    assert mod["main"].attrs == {"tir.noalias": True, "op_pattern": 4}
    assert dict(_blocks(mod["main"])["T_softmax_maxelem"].annotations) == {"combiner": "max"}
    a, b, c = ints(16, 8), ints(8, 16, seed=1), np.empty((16, 16), "float32")
    pb.build(mod)(a, b, c)
    np.testing.assert_allclose(c, np.exp(a @ b - (a @ b).max(1, keepdims=True)), rtol=1e-5)
    assert script.from_source(mod.script()) == mod


def test_a_name_in_a_block_keeps_what_memory_holds() -> None:
    """The way in which TVM's users write a reduction of pairs."""
    func = script.from_source(
        """
@T.prim_func
def argmax(I: T.Buffer((8, 16), "int32"), V: T.Buffer((8, 16), "float32"), P: T.Buffer((8,), "int32"),
           M: T.Buffer((8,), "float32")):
    for i0, i1 in T.grid(8, 16):
        with T.block("argmax"):
            i, k = T.axis.remap("SR", [i0, i1])
            with T.init():
                P[i] = -1
                M[i] = T.min_value("float32")
            place: T.int32 = T.Select(M[i] >= V[i, k], P[i], I[i, k])
            most: T.float32 = T.Select(M[i] >= V[i, k], M[i], V[i, k])
            P[i] = place
            M[i] = most
"""
    )
    sch = pb.tir.Schedule(func)
    _, inner = sch.split(sch.get_loops("argmax")[1], factors=[None, 4])
    sch.rfactor(inner, 0)
    assert script.from_source(sch.mod.script()) == sch.mod
    values = np.random.default_rng(0).random((8, 16), dtype="float32")
    places = np.tile(np.arange(16, dtype="int32"), (8, 1))
    for built in (pb.build(func), pb.build(sch)):
        place, most = np.zeros(8, "int32"), np.zeros(8, "float32")
        built(places, values, place, most)
        np.testing.assert_array_equal(place, values.argmax(1))
        np.testing.assert_array_equal(most, values.max(1))


LOWERED = """
# from tvm.script import ir as I
# from tvm.script import tir as T

@I.ir_module
class Module:
    @T.prim_func
    def main(A: T.Buffer((8, 16), "float32"), B: T.Buffer((16, 32), "float32"), C: T.Buffer((8, 32), "float32")):
        T.func_attr({"from_legacy_te_schedule": T.bool(True), "tir.noalias": T.bool(True)})
        packed = T.allocate([512], "float32", "global")
        packed_1 = T.Buffer((512,), data=packed)
        for x in T.parallel(4):
            B_1 = T.Buffer((512,), data=B.data)
            for y in range(16):
                packed_1[x * 128 + y * 8:x * 128 + y * 8 + 8] = B_1[y * 32 + x * 8:y * 32 + x * 8 + 8]
        for i in range(8):
            C_1 = T.Buffer((T.int64(256),), "float32", data=C.data, align=8)
            for jo in range(4):
                cse_var_1: T.int32 = i * 32 + jo * 8
                C_1[cse_var_1:cse_var_1 + 8] = T.Broadcast(T.float32(0.0), 8)
                for k in range(16):
                    A_1 = T.Buffer((128,), data=A.data)
                    packed_2 = T.Buffer((4, 128), data=packed)
                    cse_var_2: T.int32 = k * 8
                    C_1[cse_var_1:cse_var_1 + 8] = (
                        C_1[cse_var_1:cse_var_1 + 8]
                        + T.Broadcast(A_1[i * 16 + k], 8) * packed_2[jo, cse_var_2:cse_var_2 + 8]
                    )
"""


def test_lowered_text_declares_buffers_over_memory() -> None:
    mod = script.from_source(LOWERED)
    assert isinstance(mod, IRModule)
    text = mod.script()
    assert "B[y, x * 8:x * 8 + 8]" in text
    assert "A[i, k]" in text
    assert script.from_source(text) == mod
    a, b = ints(8, 16), ints(16, 32, seed=1)
    check(mod["main"], [a, b], a @ b)
    out = np.zeros((8, 32), "float32")
    pb.build(mod)(a, b, out)
    np.testing.assert_array_equal(out, a @ b)


def test_allocated_memory_lives_in_its_suite() -> None:
    @T.prim_func
    def sums(A: T.Buffer((6, 4), "float32"), B: T.Buffer((6,), "float32")):
        for i in range(6):
            acc = T.allocate([2, 2], "float32", "local")
            flat = T.decl_buffer((4,), "float32", data=acc, scope="local")
            for j in range(4):
                flat[j] = A[i, j] * T.float32(2)
            with T.allocate([1], "float32", "local") as total:
                total[0] = T.float32(0)
                for j, k in T.grid(2, 2):
                    total[0] = total[0] + acc[j, k]
                B[i] = total[0]

    a = ints(6, 4)
    check(sums, [a], (a * 2).sum(1))


def test_a_view_of_the_same_shape_is_the_buffer_itself() -> None:
    @T.prim_func
    def twice(A: T.Buffer((6, 4), "float32"), B: T.Buffer((6, 4), "float32")):
        A_1 = T.Buffer((6, 4), data=A.data)
        for i, j in T.grid(6, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(A_1[vi, vj])
                flat = T.Buffer((24,), data=B.data)
                flat[vi * 4 + vj] = A_1[vi, vj] * T.float32(2)

    a = ints(6, 4)
    check(twice, [a], a * 2)
    sch = Schedule(twice)
    sch.reorder(*reversed(sch.get_loops("B")))
    check(sch.func, [a], a * 2)


def test_calls_may_say_the_type_of_their_value() -> None:
    @T.prim_func
    def typed(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = T.if_then_else(
                    T.likely(vi < 4, dtype="bool"), T.sqrt(A[vi], dtype="float32"), T.float32(0), dtype="float32"
                )

    a = np.arange(8, dtype="float32") ** 2
    check(typed, [a], np.where(np.arange(8) < 4, np.sqrt(a), 0).astype("float32"))
    with pytest.raises(ScriptError, match=r"T\.sqrt of these arguments is float32, not float64"):
        script.from_source(typed.script().replace("T.sqrt(A[vi])", 'T.sqrt(A[vi], dtype="float64")'))


@T.prim_func
def started_at_its_reduce_variable(A: T.Buffer((4, 8), "int32"), B: T.Buffer((4,), "int32")) -> None:
    for i, k in T.grid(4, 8):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.cast(vk, "int32") + 5
            B[vi] = B[vi] + A[vi, vk]


def test_the_init_is_done_where_the_reduction_starts() -> None:
    a = ints(4, 8, dtype="int32")
    check(started_at_its_reduce_variable, [a], a.sum(1, dtype="int32") + 5)
