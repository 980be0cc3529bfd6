"""Functions of the elements: by name, as C functions, and made of others; with divisions of whole numbers."""

import numpy as np

from pegbox.plugins import tvm
from pegbox.plugins.tvm import te

n = te.var("n")
A = te.placeholder((n,), name="A")


def run(fcompute, array):
    B = te.compute(A.shape, fcompute, name="B")
    s = te.create_schedule(B.op)
    _, inner = s[B].split(B.op.axis[0], factor=8)
    s[B].vectorize(inner)
    print(tvm.lower(s, [A, B], simple_mode=True))
    func = tvm.build(s, [A, B], "llvm", name="unary")
    a = tvm.nd.array(array.astype(A.dtype))
    b = tvm.nd.array(np.zeros(array.shape, B.dtype))
    func(a, b)
    return b.numpy()


x = np.linspace(-0.9, 0.9, 50).astype("float32")
for name, exact in {
    "exp": np.exp, "tanh": np.tanh, "sin": np.sin, "cos": np.cos, "atan": np.arctan, "floor": np.floor,
    "ceil": np.ceil, "trunc": np.trunc, "round": np.round, "abs": np.abs, "nearbyint": np.rint,
}.items():  # fmt: skip
    function = getattr(te, name)
    tvm.testing.assert_allclose(run(lambda i, f=function: f(A[i]), x), exact(x), rtol=1e-5, atol=1e-6)

called = run(lambda i: tvm.tir.call_pure_extern("float32", "expf", A[i]), x)
tvm.testing.assert_allclose(called, np.exp(x), rtol=1e-5)
for name, exact in {"tan": np.tan, "asin": np.arcsin, "acosh": None, "log1p": np.log1p, "log2": None}.items():
    function, values = getattr(tvm.tir, name), x if exact else x + 2.5
    exact = exact or {"acosh": np.arccosh, "log2": np.log2}[name]
    tvm.testing.assert_allclose(run(lambda i, f=function: f(A[i]), values), exact(values), rtol=1e-5, atol=1e-6)

clean = run(lambda i: te.if_then_else(te.isnan(A[i]), 0.0, te.power(A[i], 2.0)), np.where(x > 0, x, np.nan))
tvm.testing.assert_allclose(clean, np.where(x > 0, x * x, 0), rtol=1e-5)
tvm.testing.assert_allclose(run(lambda i: te.fmod(A[i], 0.25), x), np.fmod(x, np.float32(0.25)), rtol=1e-5)

# Whole numbers: rounded down, and towards zero.
K = te.placeholder((50,), dtype="int32", name="K")
with te.tag_scope(tag="division"):
    Q = te.compute((50,), lambda i: te.truncdiv(K[i], 4) * 100 + te.truncmod(K[i], 4), name="Q")
R = te.compute((50,), lambda i: te.floordiv(K[i], 4) * 100 + te.floormod(K[i], 4) + te.popcount(K[i]) * 0, name="R")
assert (Q.op.tag, R.op.tag) == ("division", "")
s = te.create_schedule([Q.op, R.op])
func = tvm.build(s, [K, Q, R], "llvm")
k = np.arange(-25, 25, dtype="int32")
q, r = tvm.nd.empty((50,), "int32"), tvm.nd.empty((50,), "int32")
func(tvm.nd.array(k), q, r)
np.testing.assert_array_equal(q.numpy(), np.trunc(k / 4).astype("int32") * 100 + np.fmod(k, 4))
np.testing.assert_array_equal(r.numpy(), k // 4 * 100 + k % 4)
