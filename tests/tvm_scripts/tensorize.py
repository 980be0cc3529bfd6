"""A product of matrices whose inner loops are calls of a C function: whole sums first, then sums in parts."""

import numpy as np

from pegbox.plugins import tvm
from pegbox.plugins.tvm import te
from pegbox.plugins.tvm.contrib import clang, utils

N, M, L = 32, 48, 64
factor = 16
A = te.placeholder((N, L), name="A")
B = te.placeholder((M, L), name="B")
k = te.reduce_axis((0, L), name="k")
C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")

UPDATE = """
extern "C" int dots_update(float *out, float *row, float *rows, int count, int length, int stride) {
  for (int r = 0; r < count; ++r)
    for (int c = 0; c < length; ++c) out[r] += row[c] * rows[r * stride + c];
  return 0;
}
"""
RESET = """
extern "C" int dots_reset(float *out, int count) {
  for (int r = 0; r < count; ++r) out[r] = 0;
  return 0;
}
"""


def dots(count, length, in_parts):
    a = te.placeholder((length,), name="a")
    b = te.placeholder((count, length), name="b")
    k = te.reduce_axis((0, length), name="k")
    c = te.compute((count,), lambda r: te.sum(a[k] * b[r, k], axis=k), name="c")
    Ab = tvm.tir.decl_buffer(a.shape, a.dtype, name="A", offset_factor=1, strides=[1])
    Bb = tvm.tir.decl_buffer(b.shape, b.dtype, name="B", offset_factor=1, strides=[te.var("s1"), 1])
    Cb = tvm.tir.decl_buffer(c.shape, c.dtype, name="C", offset_factor=1, strides=[1])

    def calls(ins, outs):
        def update():
            ib = tvm.tir.ir_builder.create()
            out, row, rows = outs[0].access_ptr("w"), ins[0].access_ptr("r"), ins[1].access_ptr("r")
            ib.emit(tvm.tir.call_extern("int32", "dots_update", out, row, rows, count, length, ins[1].strides[0]))
            return ib.get()

        def reset():
            ib = tvm.tir.ir_builder.create()
            ib.emit(tvm.tir.call_extern("int32", "dots_reset", outs[0].access_ptr("w"), count))
            return ib.get()

        return (update(), reset(), update()) if in_parts else update()

    return te.decl_tensor_intrin(c.op, calls, binds={a: Ab, b: Bb, c: Cb})


def check(func):
    dev = tvm.device("cpu", 0)
    a = np.random.uniform(size=(N, L)).astype(A.dtype)
    b = np.random.uniform(size=(M, L)).astype(B.dtype)
    c = tvm.nd.array(np.zeros((N, M), dtype=C.dtype), dev)
    func(tvm.nd.array(a, dev), tvm.nd.array(b, dev), c)
    tvm.testing.assert_allclose(c.numpy(), np.dot(a, b.T), rtol=1e-3)


def compiled(text):
    folder = utils.tempdir()
    return clang.create_llvm(text, output=folder.relpath("dots.ll"))


s = te.create_schedule(C.op)
x, y = C.op.axis
(z,) = C.op.reduce_axis
yo, yi = s[C].split(y, factor=factor)
s[C].reorder(x, yo, yi, z)
print(tvm.lower(s, [A, B, C], simple_mode=True))
s[C].tensorize(yi, dots(factor, L, in_parts=False))
s[C].pragma(x, "import_llvm", compiled(UPDATE))
print(tvm.lower(s, [A, B, C], simple_mode=True))
check(tvm.build(s, [A, B, C], target="llvm", name="dots"))

zo, zi = s[C].split(z, factor=factor)
s[C].reorder(x, yo, zo, yi, zi)
s[C].tensorize(yi, dots(factor, factor, in_parts=True))
s[C].pragma(yo, "import_llvm", compiled(UPDATE + RESET))
print(tvm.lower(s, [A, B, C], simple_mode=True))
check(tvm.build(s, [A, B, C], target="llvm", name="dots"))
