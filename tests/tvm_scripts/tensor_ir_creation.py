"""A product with a ReLU as a TensorIR program, written in full, concisely, with Python's values, and as expressions."""

from pegbox.plugins import tvm
from pegbox.plugins.tvm import te
from pegbox.plugins.tvm.script import ir as I
from pegbox.plugins.tvm.script import tir as T


@I.ir_module
class MyModule:
    @T.prim_func
    def mm_relu(
        A: T.Buffer((32, 16), "float32"),
        B: T.Buffer((16, 24), "float32"),
        C: T.Buffer((32, 24), "float32"),
    ):
        Y = T.alloc_buffer((32, 24), dtype="float32")
        for i in range(32):
            for j in range(24):
                for k in range(16):
                    with T.block("Y"):
                        vi = T.axis.spatial(32, i)
                        vj = T.axis.spatial(24, j)
                        vk = T.axis.reduce(16, k)
                        T.reads(A[vi, vk], B[vk, vj])
                        T.writes(Y[vi, vj])
                        with T.init():
                            Y[vi, vj] = T.float32(0)
                        Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i in range(32):
            for j in range(24):
                with T.block("C"):
                    vi = T.axis.spatial(32, i)
                    vj = T.axis.spatial(24, j)
                    T.reads(Y[vi, vj])
                    T.writes(C[vi, vj])
                    C[vi, vj] = T.max(Y[vi, vj], T.float32(0))


M, N, K = 32, 24, 16
dtype = "float32"


@I.ir_module
class ConciseModule:
    @T.prim_func
    def mm_relu(
        A: T.Buffer((M, K), dtype),
        B: T.Buffer((K, N), dtype),
        C: T.Buffer((M, N), dtype),
    ):
        Y = T.alloc_buffer((M, N), dtype)
        for i, j, k in T.grid(M, N, K):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.cast(T.float32(0), dtype)
                Y[vi, vj] = Y[vi, vj] + A[vi, vk] * B[vk, vj]
        for i, j in T.grid(M, N):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(Y[vi, vj], T.cast(T.float32(0), dtype))


assert tvm.ir.structural_equal(MyModule, ConciseModule)
tvm.ir.assert_structural_equal(MyModule, ConciseModule)

A = te.placeholder((M, K), "float32", name="A")
B = te.placeholder((K, N), "float32", name="B")
k = te.reduce_axis((0, K), "k")
Y = te.compute((M, N), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="Y")
C = te.compute((M, N), lambda i, j: te.max(Y[i, j], 0), name="C")

te_func = te.create_prim_func([A, B, C]).with_attr({"global_symbol": "mm_relu"})
TEModule = tvm.IRModule({"mm_relu": te_func})
TEModule.show()
assert tvm.build(TEModule, target="llvm")
