"""The primitives of TE schedules, each lowered for vectors and matrices of any size, and some of them run."""

import numpy as np

from pegbox.plugins import tvm
from pegbox.plugins.tvm import te

rows, cols = te.var("rows"), te.var("cols")


def matrices():
    X = te.placeholder((rows, cols), name="X")
    Y = te.compute((rows, cols), lambda r, c: X[r, c] * 3, name="Y")
    return X, Y, te.create_schedule(Y.op)


def vectors():
    X = te.placeholder((cols,), name="X")
    Y = te.compute(X.shape, lambda c: X[c] - 1, name="Y")
    Z = te.compute((cols,), lambda c: Y[c] * Y[c], name="Z")
    return X, Y, Z, te.create_schedule(Z.op)


def show(s, args):
    print(tvm.lower(s, args, simple_mode=True))


def check_scaled(s, args, *shapes):
    func = tvm.build(s, args, target="llvm")
    dev = tvm.cpu(0)
    for shape in shapes:
        x = tvm.nd.array(np.random.uniform(size=shape).astype("float32"), dev)
        y = tvm.nd.array(np.zeros(shape, "float32"), dev)
        func(x, y)
        tvm.testing.assert_allclose(y.numpy(), x.numpy() * 3, rtol=1e-6)


X = te.placeholder((rows, cols), name="X")
W = te.placeholder((rows, cols), name="W")
Y = te.compute((rows, cols), lambda r, c: X[r, c] * W[r, c], name="Y")
show(te.create_schedule([Y.op]), [X, W, Y])

X, Y, s = matrices()
outer, inner = s[Y].split(Y.op.axis[1], factor=32)
show(s, [X, Y])
check_scaled(s, [X, Y], (2, 64), (3, 33))

X, Y, s = matrices()
s[Y].split(Y.op.axis[1], nparts=8)
show(s, [X, Y])

X, Y, s = matrices()
ro, co, ri, ci = s[Y].tile(Y.op.axis[0], Y.op.axis[1], x_factor=6, y_factor=4)
show(s, [X, Y])
fused = s[Y].fuse(ri, ci)
show(s, [X, Y])
check_scaled(s, [X, Y], (12, 8), (7, 5))

X, Y, s = matrices()
ro, co, ri, ci = s[Y].tile(Y.op.axis[0], Y.op.axis[1], x_factor=6, y_factor=4)
s[Y].reorder(ri, co, ro, ci)
show(s, [X, Y])
check_scaled(s, [X, Y], (7, 5))

X, Y, s = matrices()
bx, tx = s[Y].split(Y.op.axis[0], factor=64)
s[Y].bind(bx, te.thread_axis("blockIdx.x"))
s[Y].bind(tx, te.thread_axis("threadIdx.x"))
show(s, [X, Y])

X, Y, Z, s = vectors()
show(s, [X, Y, Z])
s[Y].compute_at(s[Z], Z.op.axis[0])
show(s, [X, Y, Z])
s[Y].compute_root()
show(s, [X, Y, Z])
s[Y].compute_inline()
show(s, [X, Y, Z])
