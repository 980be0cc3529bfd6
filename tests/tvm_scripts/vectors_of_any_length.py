"""A sum of vectors whose length is a variable: one function for several lengths, for each of three schedules."""

import numpy as np

from pegbox.plugins import tvm
from pegbox.plugins.tvm import te

tgt = tvm.target.Target(target="llvm", host="llvm")
n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.placeholder((n,), name="B")
C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
log = []


def evaluate_addition(func, optimization):
    dev = tvm.device(tgt.kind.name, 0)
    for size in (32, 1000):
        a = tvm.nd.array(np.random.uniform(size=size).astype(A.dtype), dev)
        b = tvm.nd.array(np.random.uniform(size=size).astype(B.dtype), dev)
        c = tvm.nd.array(np.zeros(size, dtype=C.dtype), dev)
        func(a, b, c)
        tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
        evaluator = func.time_evaluator(func.entry_name, dev, number=3)
        log.append((optimization, evaluator(a, b, c).mean))


s = te.create_schedule(C.op)
fadd = tvm.build(s, [A, B, C], tgt, name="myadd")
s[C].parallel(C.op.axis[0])
print(tvm.lower(s, [A, B, C], simple_mode=True))
fadd_parallel = tvm.build(s, [A, B, C], tgt, name="myadd_parallel")
evaluate_addition(fadd, "naive")  # as it was built, whatever was done to the schedule since then
evaluate_addition(fadd_parallel, "parallel")

s = te.create_schedule(C.op)
outer, inner = s[C].split(C.op.axis[0], factor=4)
s[C].parallel(outer)
s[C].vectorize(inner)
evaluate_addition(tvm.build(s, [A, B, C], tgt, name="myadd_vector"), "vector")
print(tvm.lower(s, [A, B, C], simple_mode=True))
for name, seconds in log:
    print(f"{name:>20} {seconds}")
