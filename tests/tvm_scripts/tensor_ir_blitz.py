"""Programs in TVMScript: read, printed, made from tensor expressions, built, run, and scheduled."""

import numpy as np

from pegbox.plugins import tvm
from pegbox.plugins.tvm import te
from pegbox.plugins.tvm.ir.module import IRModule
from pegbox.plugins.tvm.script import tir as T


@tvm.script.ir_module
class MyModule:
    @T.prim_func
    def main(a: T.handle, b: T.handle):
        T.func_attr({"global_symbol": "main", "tir.noalias": True})
        A = T.match_buffer(a, (8,), dtype="float32")
        B = T.match_buffer(b, (8,), dtype="float32")
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = A[vi] + 1.0


ir_module = MyModule
assert isinstance(ir_module, IRModule)
print(type(ir_module))
print(ir_module.script())

A = te.placeholder((8,), dtype="float32", name="A")
B = te.compute((8,), lambda *i: A(*i) + 1.0, name="B")
func = te.create_prim_func([A, B])
ir_module_1 = IRModule({"main": func})
print(ir_module_1.script())
tvm.ir.assert_structural_equal(ir_module, ir_module_1)


def check(mod):
    a = tvm.nd.array(np.arange(8).astype("float32"))
    b = tvm.nd.array(np.zeros((8,)).astype("float32"))
    mod(a, b)
    print(a, b)
    np.testing.assert_array_equal(b.numpy(), np.arange(1, 9))


mod = tvm.build(ir_module, target="llvm")
print(type(mod))
check(mod)
check(tvm.build(ir_module_1, target="llvm"))

sch = tvm.tir.Schedule(ir_module)
block_b = sch.get_block("B")
(i,) = sch.get_loops(block_b)
i_0, i_1, i_2 = sch.split(i, factors=[2, 2, 2])
print(sch.mod.script())
check(tvm.build(sch.mod, target="llvm"))

sch.bind(i_0, "blockIdx.x")
sch.bind(i_1, "threadIdx.x")
print(sch.mod.script())

if tvm.cuda(0).exist:
    check(tvm.build(sch.mod, target="cuda"))
