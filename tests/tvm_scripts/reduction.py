"""Sums of rows: split, bound to threads, factored; a convolution as a sum over two axes; a reducer of one's own."""

import numpy as np

from pegbox.plugins import tvm
from pegbox.plugins.tvm import te

m, n = te.var("m"), te.var("n")
A = te.placeholder((m, n), name="A")
k = te.reduce_axis((0, n), "k")
B = te.compute((m,), lambda i: te.sum(A[i, k], axis=k), name="B")


def show(s, args):
    print(tvm.lower(s, args, simple_mode=True))


s = te.create_schedule(B.op)
show(s, [A, B])
ko, ki = s[B].split(B.op.reduce_axis[0], factor=8)
io, ii = s[B].split(B.op.axis[0], factor=16)
show(s, [A, B])
s[B].bind(io, te.thread_axis("blockIdx.x"))
s[B].bind(ii, te.thread_axis("threadIdx.x"))
show(s, [A, B])

s = te.create_schedule(B.op)
ko, ki = s[B].split(B.op.reduce_axis[0], factor=8)
BF = s.rfactor(B, ki)
show(s, [A, B])
print(s[B].op.body)

io, ii = s[B].split(s[B].op.axis[0], factor=16)
s[B].bind(io, te.thread_axis("blockIdx.x"))
s[B].bind(ii, te.thread_axis("threadIdx.y"))
tx = te.thread_axis("threadIdx.x")
s[B].bind(s[B].op.reduce_axis[0], tx)
s[BF].compute_at(s[B], s[B].op.reduce_axis[0])
s[B].set_store_predicate(tx.var.equal(0))
show(s, [A, B])
func = tvm.build(s, [A, B], "llvm", name="row_sums")

dev = tvm.cpu(0)
for shape in ((40, 24), (17, 9)):
    a = tvm.nd.array(np.random.uniform(size=shape).astype(A.dtype), dev)
    b = tvm.nd.array(np.zeros(shape[0], dtype=B.dtype), dev)
    func(a, b)
    tvm.testing.assert_allclose(b.numpy(), np.sum(a.numpy(), axis=1), rtol=1e-4)

size = te.var("size")
Image = te.placeholder((size, size), name="Image")
Kernel = te.placeholder((3, 3), name="Kernel")
ry, rx = te.reduce_axis((0, 3), name="ry"), te.reduce_axis((0, 3), name="rx")
Edges = te.compute(
    (size - 2, size - 2), lambda y, x: te.sum(Image[y + ry, x + rx] * Kernel[ry, rx], axis=[ry, rx]), name="Edges"
)
s = te.create_schedule(Edges.op)
show(s, [Image, Kernel, Edges])
func = tvm.build(s, [Image, Kernel, Edges])
image = np.random.uniform(size=(9, 9)).astype("float32")
kernel = np.random.uniform(size=(3, 3)).astype("float32")
edges = tvm.nd.array(np.zeros((7, 7), dtype="float32"), dev)
func(tvm.nd.array(image, dev), tvm.nd.array(kernel, dev), edges)
windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3))
tvm.testing.assert_allclose(edges.numpy(), np.einsum("yxab,ab->yx", windows, kernel), rtol=1e-4)

product = te.comm_reducer(lambda x, y: x * y, lambda t: tvm.tir.const(1, dtype=t), name="product")
k = te.reduce_axis((0, n), name="k")
P = te.compute((m,), lambda i: product(A[i, k], axis=k), name="P")
s = te.create_schedule(P.op)
show(s, [A, P])
func = tvm.build(s, [A, P])
a = np.random.uniform(0.5, 1.5, size=(3, 6)).astype("float32")
p = tvm.nd.array(np.zeros(3, "float32"), dev)
func(tvm.nd.array(a, dev), p)
tvm.testing.assert_allclose(p.numpy(), a.prod(axis=1), rtol=1e-4)
