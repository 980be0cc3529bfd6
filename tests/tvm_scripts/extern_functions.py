"""Stages that are calls: a BLAS product with a bias behind it, a registered Python function, a C function, a loop."""

import numpy as np

from pegbox.plugins import tvm
from pegbox.plugins.tvm import te
from pegbox.plugins.tvm.contrib import cblas

assert tvm.get_global_func("tvm.contrib.cblas.matmul", allow_missing=True)
n, depth, m = 16, 8, 12
A = te.placeholder((n, depth), name="A")
B = te.placeholder((depth, m), name="B")
dev = tvm.cpu(0)
a = tvm.nd.array(np.random.uniform(size=(n, depth)).astype(A.dtype), dev)
b = tvm.nd.array(np.random.uniform(size=(depth, m)).astype(B.dtype), dev)


def packed(ins, outs):
    return tvm.tir.call_packed("tvm.contrib.cblas.matmul", ins[0], ins[1], outs[0], False, False)


for C in (te.extern((n, m), [A, B], packed, name="C"), cblas.matmul(A, B)):
    D = te.compute(C.shape, lambda i, j, C=C: C[i, j] + 10.0, name="D")
    s = te.create_schedule(D.op)
    s[D].parallel(D.op.axis[0])
    print(tvm.lower(s, [A, B, D], simple_mode=True))
    d = tvm.nd.array(np.zeros((n, m), dtype=D.dtype), dev)
    tvm.build(s, [A, B, D], "llvm")(a, b, d)
    tvm.testing.assert_allclose(d.numpy(), np.dot(a.numpy(), b.numpy()) + 10, rtol=1e-5)


@tvm.register_func("tvm.contrib.add_one")
def add_one(x, y):
    assert isinstance(x, tvm.nd.NDArray)
    tvm.nd.array(x.numpy() + 1).copyto(y)


A = te.placeholder((n,), name="A")
B = te.extern(A.shape, [A], lambda ins, outs: tvm.tir.call_packed("tvm.contrib.add_one", ins[0], outs[0]), name="B")
f = tvm.build(te.create_schedule(B.op), [A, B], "llvm")
a, b = tvm.nd.array(np.arange(n, dtype="float32")), tvm.nd.array(np.zeros(n, dtype="float32"))
f(a, b)
tvm.testing.assert_allclose(b.numpy(), a.numpy() + 1)


# A loop that steps through time, as a statement.
def running(ins, outs):
    ib = tvm.tir.ir_builder.create()
    given, sums = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    sums[0] = given[0]
    with ib.for_range(1, n, name="t") as t:
        sums[t] = sums[t - 1] + given[t]
    return ib.get()


S = te.extern((n,), [A], running, name="sums", dtype="float32")
f = tvm.build(te.create_schedule(S.op), [A, S], "llvm")
f(a, b)
tvm.testing.assert_allclose(b.numpy(), np.cumsum(a.numpy()))
