"""Pools on pools in tiles, where each row is computed once: rolling buffers of stages and of blocks."""

import numpy as np

from pegbox.plugins import tvm
from pegbox.plugins.tvm import te, tir
from pegbox.plugins.tvm.script import tir as T


def max_pool(data, size, name):
    n, h, w, c = data.shape
    dh, dw = te.reduce_axis((0, size), name="dh"), te.reduce_axis((0, size), name="dw")
    return te.compute(
        (n, h - size + 1, w - size + 1, c),
        lambda b, y, x, ch: te.max(data[b, y + dh, x + dw, ch], axis=[dh, dw]),
        name=name,
    )


def tile(s, tensor, sizes):
    pairs = [s[tensor].split(axis, size) for axis, size in zip(tensor.op.axis, sizes, strict=True)]
    s[tensor].reorder(*[o for o, _ in pairs], *[i for _, i in pairs])
    return pairs[-1][0]


def pooled(data, size):
    h, w = data.shape[1] - size + 1, data.shape[2] - size + 1
    return np.max([data[:, y : y + h, x : x + w] for y in range(size) for x in range(size)], axis=0)


def verify(func, data, expected):
    out = tvm.nd.array(np.zeros(expected.shape, "int8"))
    func(tvm.nd.array(data), out)
    np.testing.assert_equal(out.numpy(), expected)


image = np.random.randint(low=-100, high=100, size=(1, 12, 14, 4)).astype("int8")

A = te.placeholder((1, 12, 14, 4), name="A", dtype="int8")
pool_a = max_pool(A, 3, "pool_a")
pool_b = max_pool(pool_a, 3, "pool_b")
for sizes in ((1, 4, 8, 4), (1, 7, 5, 3)):
    s = te.create_schedule([pool_b.op])
    s[pool_a].compute_at(s[pool_b], tile(s, pool_b, sizes))
    s[pool_a].rolling_buffer()
    print(tvm.lower(s, [A, pool_b], simple_mode=True))
    verify(tvm.build(s, [A, pool_b]), image, pooled(pooled(image, 3), 3))

pool_c = max_pool(pool_b, 3, "pool_c")
for rolling in ([pool_b], [pool_a, pool_b]):
    s = te.create_schedule([pool_c.op])
    at = tile(s, pool_c, (1, 2, 8, 4))
    for stage in (pool_b, pool_a):
        s[stage].compute_at(s[pool_c], at)
        if any(stage is each for each in rolling):
            s[stage].rolling_buffer()
    verify(tvm.build(s, [A, pool_c]), image, pooled(pooled(pooled(image, 3), 3), 3))

twice = te.compute((1, 16, 20, 4), lambda n, h, w, c: pool_b[n, h // 2, w // 2, c], name="twice")
s = te.create_schedule([twice.op])
at = tile(s, twice, (1, 5, 5, 4))
for stage in (pool_b, pool_a):
    s[stage].compute_at(s[twice], at)
    s[stage].rolling_buffer()
verify(tvm.build(s, [A, twice]), image, pooled(pooled(image, 3), 3).repeat(2, axis=1).repeat(2, axis=2)[:, :16, :20])


@T.prim_func
def sums(A: T.Buffer((4, 12), "int32"), C: T.Buffer((4, 8), "int32")):
    B = T.alloc_buffer((4, 10), "int32")
    for c, i, k in T.grid(4, 10, 3):
        with T.block("B"):
            vc, vi, vk = T.axis.remap("SSR", [c, i, k])
            with T.init():
                B[vc, vi] = 0
            B[vc, vi] = B[vc, vi] + A[vc, vi + vk]
    for c, i, k in T.grid(4, 8, 3):
        with T.block("C"):
            vc, vi, vk = T.axis.remap("SSR", [c, i, k])
            with T.init():
                C[vc, vi] = 0
            C[vc, vi] = C[vc, vi] + B[vc, vi + vk]


sch = tir.Schedule(sums, debug_mask="all")
_, i, _ = sch.get_loops(sch.get_block("C"))
io, _ = sch.split(i, [2, 4])
sch.compute_at(sch.get_block("B"), io)
sch.rolling_buffer(sch.get_block("B"), 0)
print(sch.trace)
rows = np.arange(48, dtype="int32").reshape(4, 12) % 7
out = tvm.nd.array(np.zeros((4, 8), "int32"))
tvm.build(sch.mod)(tvm.nd.array(rows), out)
once = rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]
np.testing.assert_equal(out.numpy(), once[:, :-2] + once[:, 1:-1] + once[:, 2:])
