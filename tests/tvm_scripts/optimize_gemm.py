"""A matrix product, made faster step by step: blocks, vectors, packed panels, a write cache, threads."""

import numpy

from pegbox.plugins import tvm
from pegbox.plugins.tvm import te

M = K = N = 64
dtype = "float32"
target = "llvm"
dev = tvm.device(target, 0)

a = tvm.nd.array(numpy.random.rand(M, K).astype(dtype), dev)
b = tvm.nd.array(numpy.random.rand(K, N).astype(dtype), dev)
answer = numpy.dot(a.numpy(), b.numpy())

k = te.reduce_axis((0, K), "k")
A = te.placeholder((M, K), name="A")
B = te.placeholder((K, N), name="B")
C = te.compute((M, N), lambda m, n: te.sum(A[m, k] * B[k, n], axis=k), name="C")

bn, kfactor = 32, 4


def check(s, C, title):
    func = tvm.build(s, [A, B, C], target=target, name="mmult")
    assert func
    c = tvm.nd.array(numpy.zeros((M, N), dtype=dtype), dev)
    func(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), answer, rtol=1e-5)
    evaluator = func.time_evaluator(func.entry_name, dev, number=2)
    print(f"{title}: {evaluator(a, b, c).mean:f}")
    print(tvm.lower(s, [A, B, C], simple_mode=True))


def blocked(s, C):
    mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
    (kaxis,) = s[C].op.reduce_axis
    ko, ki = s[C].split(kaxis, factor=kfactor)
    return mo, no, ko, ki, mi, ni


check(te.create_schedule(C.op), C, "baseline")

s = te.create_schedule(C.op)
s[C].reorder(*blocked(s, C))
check(s, C, "blocks")

s = te.create_schedule(C.op)
mo, no, ko, ki, mi, ni = blocked(s, C)
s[C].reorder(mo, no, ko, ki, mi, ni)
s[C].vectorize(ni)
check(s, C, "vectors")

s = te.create_schedule(C.op)
mo, no, ko, ki, mi, ni = blocked(s, C)
s[C].reorder(mo, no, ko, mi, ki, ni)
s[C].vectorize(ni)
check(s, C, "order")

# Panels of B, whose first extent is a quotient of Python's: a float.
packedB = te.compute((N / bn, K, bn), lambda bigN, k, littleN: B[k, bigN * bn + littleN], name="packedB")
D = te.compute((M, N), lambda m, n: te.sum(A[m, k] * packedB[n // bn, k, tvm.tir.indexmod(n, bn)], axis=k), name="C")


def packed(s):
    bigN, _, littleN = s[packedB].op.axis
    s[packedB].vectorize(littleN)
    s[packedB].parallel(bigN)


s = te.create_schedule(D.op)
mo, no, ko, ki, mi, ni = blocked(s, D)
s[D].reorder(mo, no, ko, mi, ki, ni)
s[D].vectorize(ni)
packed(s)
check(s, D, "panels")

for threads in (False, True):
    s = te.create_schedule(D.op)
    CC = s.cache_write(D, "global")
    mo, no, mi, ni = s[D].tile(D.op.axis[0], D.op.axis[1], bn, bn)
    s[CC].compute_at(s[D], no)
    mc, nc = s[CC].op.axis
    (kaxis,) = s[CC].op.reduce_axis
    ko, ki = s[CC].split(kaxis, factor=kfactor)
    s[CC].reorder(ko, mc, ki, nc)
    s[CC].vectorize(nc)
    s[CC].unroll(ki)
    if threads:
        s[D].parallel(mo)
    packed(s)
    check(s, D, "threads" if threads else "write cache")
