"""A sum of vectors in tensor expressions: built, run, timed, scheduled in parallel, saved and loaded."""

import numpy as np

from pegbox.plugins import tvm
from pegbox.plugins.tvm import te
from pegbox.plugins.tvm.contrib import cc, utils

tgt = tvm.target.Target(target="llvm", host="llvm")
n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.placeholder((n,), name="B")
C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
dev = tvm.device(tgt.kind.name, 0)

size = 1024
a = tvm.nd.array(np.random.uniform(size=size).astype(A.dtype), dev)
b = tvm.nd.array(np.random.uniform(size=size).astype(B.dtype), dev)
c = tvm.nd.array(np.zeros(size, dtype=C.dtype), dev)


def check(fadd):
    c.copyfrom(np.zeros(size, dtype=C.dtype))
    fadd(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())


log = []


def evaluate_addition(func, target, optimization, log):
    dev = tvm.device(target.kind.name, 0)
    n = 4096
    a = tvm.nd.array(np.random.uniform(size=n).astype(A.dtype), dev)
    b = tvm.nd.array(np.random.uniform(size=n).astype(B.dtype), dev)
    c = tvm.nd.array(np.zeros(n, dtype=C.dtype), dev)
    evaluator = func.time_evaluator(func.entry_name, dev, number=10)
    log.append((optimization, evaluator(a, b, c).mean))


s = te.create_schedule(C.op)
fadd = tvm.build(s, [A, B, C], tgt, name="myadd")
check(fadd)
evaluate_addition(fadd, tgt, "naive", log=log)

s[C].parallel(C.op.axis[0])
print(tvm.lower(s, [A, B, C], simple_mode=True))
fadd_parallel = tvm.build(s, [A, B, C], tgt, name="myadd_parallel")
check(fadd_parallel)
evaluate_addition(fadd_parallel, tgt, "parallel", log=log)

s = te.create_schedule(C.op)
outer, inner = s[C].split(C.op.axis[0], factor=4)
s[C].parallel(outer)
s[C].vectorize(inner)
fadd_vector = tvm.build(s, [A, B, C], tgt, name="myadd_parallel")
check(fadd_vector)
evaluate_addition(fadd_vector, tgt, "vector", log=log)
print(tvm.lower(s, [A, B, C], simple_mode=True))

for name, seconds in log:
    print(f"{name:>20}\t{seconds:>20}\t{seconds / log[0][1]:>20}")

if tvm.cuda(0).exist:
    fadd_cuda = tvm.build(s, [A, B, C], tvm.target.Target(target="cuda", host="llvm"), name="myadd")
    print(fadd_cuda.imported_modules[0].get_source())

temp = utils.tempdir()
fadd.save(temp.relpath("myadd.o"))
cc.create_shared(temp.relpath("myadd.so"), [temp.relpath("myadd.o")])
print(temp.listdir())
check(tvm.runtime.load_module(temp.relpath("myadd.so")))

fadd.export_library(temp.relpath("myadd_pack.so"))
check(tvm.runtime.load_module(temp.relpath("myadd_pack.so")))

# For a size that is known when the program is built.
n = tvm.runtime.convert(1024)
A = te.placeholder((n,), name="A")
B = te.placeholder((n,), name="B")
C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
check(tvm.build(te.create_schedule(C.op), [A, B, C], tgt, name="myadd"))
