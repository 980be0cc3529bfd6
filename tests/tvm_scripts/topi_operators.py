"""Operators of topi: sums, operators on tensors, a plain schedule, softmax, a convolution with what follows it."""

import numpy as np

from pegbox.plugins import tvm
from pegbox.plugins.tvm import te, topi

n, m = te.var("n"), te.var("m")
A = te.placeholder((n, m), name="A")
k = te.reduce_axis((0, m), "k")
B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
C = topi.sum(A, axis=1)
for out in (B, C):
    rows = tvm.build(te.create_schedule(out.op), [A, out], "llvm")
    a_np = np.random.uniform(size=(6, 9)).astype("float32")
    result = tvm.nd.array(np.zeros(6, "float32"))
    rows(tvm.nd.array(a_np), result)
    tvm.testing.assert_allclose(result.numpy(), a_np.sum(1), rtol=1e-5)

x, y = 10, 4
a = te.placeholder((x, y, y), name="a")
b = te.placeholder((y, y), name="b")
c = a + b
d = a * b
e = topi.elemwise_sum([c, d])
f = e / 2.0
g = topi.sum(f)
with tvm.target.Target("llvm"):
    sg = topi.generic.schedule_reduce(g)
    print(tvm.lower(sg, [a, b, g], simple_mode=True))
print(sg.stages)
func = tvm.build(sg, [a, b, g], "llvm")
a_np = np.random.uniform(size=(x, y, y)).astype(a.dtype)
b_np = np.random.uniform(size=(y, y)).astype(b.dtype)
g_np = np.sum(np.add(a_np + b_np, a_np * b_np) / 2.0)
g_nd = tvm.nd.array(np.zeros(g_np.shape, dtype=g_np.dtype))
func(tvm.nd.array(a_np), tvm.nd.array(b_np), g_nd)
tvm.testing.assert_allclose(g_nd.numpy(), g_np, rtol=1e-5)

tarray = te.placeholder((8, 16), name="tarray")
softmax = topi.nn.softmax(tarray)
sst = topi.generic.schedule_softmax(softmax)
out = tvm.nd.array(np.zeros((8, 16), "float32"))
t_np = np.random.uniform(size=(8, 16)).astype("float32")
tvm.build(sst, [tarray, softmax], "llvm")(tvm.nd.array(t_np), out)
power = np.exp(t_np - t_np.max(1, keepdims=True))
tvm.testing.assert_allclose(out.numpy(), power / power.sum(1, keepdims=True), rtol=1e-5)

data = te.placeholder((1, 3, 8, 8), name="data")
kernel = te.placeholder((4, 3, 5, 5), name="kernel")
conv = topi.nn.conv2d_nchw(data, kernel, 1, 2, 1)
out = topi.nn.relu(conv)
assert topi.utils.get_const_tuple(out.shape) == (1, 4, 8, 8)
s = te.create_schedule(out.op)
s[conv].compute_at(s[out], out.op.axis[1])
s[conv.op.input_tensors[0]].compute_inline()
print(tvm.lower(s, [data, kernel, out], simple_mode=True))
d_np, k_np = (np.random.uniform(-1, 1, t.shape).astype("float32") for t in (data, kernel))
o = tvm.nd.empty((1, 4, 8, 8))
tvm.build(s, [data, kernel, out], "llvm")(tvm.nd.array(d_np), tvm.nd.array(k_np), o)
padded = np.pad(d_np[0], ((0, 0), (2, 2), (2, 2)))
windows = np.lib.stride_tricks.sliding_window_view(padded, (5, 5), axis=(1, 2))
tvm.testing.assert_allclose(
    o.numpy()[0], np.maximum(np.einsum("cyxij,ocij->oyx", windows, k_np), 0), rtol=1e-4, atol=1e-4
)
