"""Several outputs of one operation: elementwise, as a reduction of pairs, and computed inside a consumer."""

import numpy as np

from pegbox.plugins import tvm
from pegbox.plugins.tvm import te

n, m = te.var("n"), te.var("m")
P = te.placeholder((m, n), name="P")
Q = te.placeholder((m, n), name="Q")
S, T = te.compute((m, n), lambda i, j: (P[i, j] + 1, Q[i, j] * 4), name="S")
s = te.create_schedule(S.op)
print(tvm.lower(s, [P, Q, S, T], simple_mode=True))


def smaller(x, y):
    first = x[1] <= y[1]
    return tvm.tir.Select(first, x[0], y[0]), tvm.tir.Select(first, x[1], y[1])


argmin = te.comm_reducer(smaller, lambda t0, t1: (tvm.tir.const(-1, t0), te.max_value(t1)), name="argmin")
idx = te.placeholder((m, n), name="idx", dtype="int32")
val = te.placeholder((m, n), name="val", dtype="int32")
k = te.reduce_axis((0, n), "k")
where, least = te.compute((m,), lambda i: argmin((idx[i, k], val[i, k]), axis=k), name="R")
s = te.create_schedule(where.op)
print(tvm.lower(s, [idx, val, where, least], simple_mode=True))

func = tvm.build(s, [idx, val, where, least], "llvm")
values = np.random.permutation(40).reshape(5, 8).astype("int32")
indices = np.tile(np.arange(8, dtype="int32"), (5, 1))
out = [tvm.nd.array(np.zeros(5, "int32")) for _ in range(2)]
func(tvm.nd.array(indices), tvm.nd.array(values), *out)
np.testing.assert_array_equal(out[0].numpy(), values.argmin(axis=1))
np.testing.assert_array_equal(out[1].numpy(), values.min(axis=1))

S, T = te.compute((m, n), lambda i, j: (P[i, j] + 1, P[i, j] * 4), name="S")
U = te.compute((m, n), lambda i, j: Q[i, j] + S[i, j], name="U")
s = te.create_schedule(U.op)
s[S].compute_at(s[U], U.op.axis[0])
print(tvm.lower(s, [P, Q, U], simple_mode=True))
