"""A matrix product that keeps a block of the result, with its times and its assembly."""

import numpy as np

import pegbox.plugins.tvm as tvm
import pegbox.plugins.tvm.testing  # noqa: F401
from pegbox.plugins.tvm import te, testing

N, L, M = 64, 32, 48


def matmul(dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    (k,) = s[C].op.reduce_axis
    yo, yi = s[C].split(y, 8)
    xo, xi = s[C].split(x, nparts=3)
    s[C].reorder(yo, xo, k, yi, xi)
    s[C].vectorize(xi)
    return s, [A, B, C]


with tvm.target.Target("llvm") as target:
    assert tvm.target.Target.current(allow_none=False) is target
    with tvm.transform.PassContext(opt_level=3):
        s, args = matmul("float32")
        print(tvm.lower(s, args, simple_mode=True)["main"])
        func = tvm.build(s, args, target)

a_np = np.random.uniform(size=(N, L)).astype(np.float32)
b_np = np.random.uniform(size=(L, M)).astype(np.float32)
c_np = a_np.dot(b_np)
c_tvm = tvm.nd.empty(c_np.shape)
a_tvm, b_tvm = tvm.nd.array(a_np, device=tvm.cpu()), tvm.nd.array(b_np, tvm.cpu(0))
func(a_tvm, b_tvm, c_tvm)
testing.assert_allclose(c_np, c_tvm.numpy(), rtol=1e-4)

evaluator = func.time_evaluator(func.entry_name, tvm.cpu(0), number=1, repeat=3, min_repeat_ms=0)
costs = evaluator(a_tvm, b_tvm, c_tvm)
print(f"median {np.median(costs.results) * 1000:.6f} ms of {len(costs.results)}")
assert "default_function" in func.get_source("asm")

wrong = tvm.nd.empty((M, N))
try:
    func(a_tvm, b_tvm, wrong)
except tvm.TVMError as error:
    print(error)
else:
    raise AssertionError("a wrong shape was taken")
