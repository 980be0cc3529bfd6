"""Mathematical functions: of C's library, of the language, and an intrinsic of one's own with a rule for it."""

import numpy as np

from pegbox.plugins import tvm
from pegbox.plugins.tvm import te
from pegbox.plugins.tvm.ir import register_intrin_lowering, register_op_attr

n = te.var("n")
A = te.placeholder((n,), name="A")
dev = tvm.cpu(0)


def check(function, wanted):
    B = te.compute(A.shape, lambda i: function(A[i]), name="B")
    s = te.create_schedule(B.op)
    bx, tx = s[B].split(B.op.axis[0], factor=64)
    s[B].bind(bx, te.thread_axis("blockIdx.x"))
    s[B].bind(tx, te.thread_axis("threadIdx.x"))
    print(tvm.lower(s, [A, B], simple_mode=True))
    func = tvm.build(s, [A, B], "llvm", name="apply")
    a = tvm.nd.array(np.random.uniform(1, 2, size=100).astype("float32"), dev)
    b = tvm.nd.array(np.zeros(100, "float32"), dev)
    func(a, b)
    tvm.testing.assert_allclose(b.numpy(), wanted(a.numpy()), rtol=1e-5)
    return func


check(lambda x: tvm.tir.call_pure_extern("float32", "cosf", x), np.cos)
func = check(lambda x: te.exp(x), np.exp)
assert "apply" in func.get_source()
check(lambda x: tvm.tir.call_intrin("float32", "tir.sqrt", x), np.sqrt)


def c_function(op):
    assert isinstance(op, tvm.tir.Call)
    assert op.op.name.startswith("tir.my")
    name = op.op.name[len("tir.my") :]
    return tvm.tir.call_pure_extern(op.dtype, name + ("f" if op.dtype == "float32" else ""), op.args[0])


def mylog(x):
    return tvm.tir.call_intrin(x.dtype, "tir.mylog", x)


register_op_attr("tir.mylog", "TCallEffectKind", tvm.tir.CallEffectKind.Pure)
register_intrin_lowering("tir.mylog", target="llvm", f=c_function, level=99)
check(mylog, np.log)
