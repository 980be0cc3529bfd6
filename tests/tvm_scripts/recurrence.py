"""Scans with sizes that are variables: running sums whose columns are threads, a step in two parts, two states."""

import numpy as np

from pegbox.plugins import tvm
from pegbox.plugins.tvm import te

m, n = te.var("m"), te.var("n")
A = te.placeholder((m, n), name="A")
state = te.placeholder((m, n), name="state")
init = te.compute((1, n), lambda _, i: A[0, i], name="init")
update = te.compute((m, n), lambda t, i: state[t - 1, i] + A[t, i], name="update")
sums = te.scan(init, update, state, inputs=[A])
a = tvm.nd.array(np.random.uniform(size=(10, 64)).astype("float32"))

s = te.create_schedule(sums.op)
for stage in (init, update):
    outer, inner = s[stage].split(stage.op.axis[1], factor=16)
    s[stage].bind(outer, te.thread_axis("blockIdx.x"))
    s[stage].bind(inner, te.thread_axis("threadIdx.x"))
print(tvm.lower(s, [A, sums], simple_mode=True))

s = te.create_schedule(sums.op)
s[update].vectorize(s[update].split(update.op.axis[1], factor=16)[1])
b = tvm.nd.array(np.zeros(a.shape, "float32"))
tvm.build(s, [A, sums], "llvm")(a, b)
tvm.testing.assert_allclose(b.numpy(), np.cumsum(a.numpy(), axis=0), rtol=1e-5)

# A step in two parts, of which the first is computed in the loops of the second.
half = te.compute((m, n), lambda t, i: state[t - 1, i] * 0.5, name="half")
update = te.compute((m, n), lambda t, i: half[t, i] + A[t, i], name="update")
decay = te.scan(init, update, state, inputs=[A])
s = te.create_schedule(decay.op)
outer, inner = s[update].split(update.op.axis[1], factor=16)
s[half].compute_at(s[update], outer)
tvm.build(s, [A, decay], "llvm")(a, b)
expected = a.numpy().copy()
for t in range(1, 10):
    expected[t] += expected[t - 1] * np.float32(0.5)
tvm.testing.assert_allclose(b.numpy(), expected, rtol=1e-5)

# Two states.
other = te.placeholder((m, n), name="other")
high = te.compute((m, n), lambda t, i: te.max(state[t - 1, i], A[t, i]), name="high")
both = te.compute((m, n), lambda t, i: other[t - 1, i] + state[t - 1, i], name="both")
zero = te.compute((1, n), lambda _, i: 0.0, name="zero")
highs, totals = te.scan([init, zero], [high, both], [state, other], inputs=[A])
s = te.create_schedule([highs.op, totals.op])
c = tvm.nd.array(np.zeros(a.shape, "float32"))
tvm.build(s, [A, highs, totals], "llvm")(a, b, c)
tvm.testing.assert_allclose(b.numpy(), np.maximum.accumulate(a.numpy(), axis=0))
tvm.testing.assert_allclose(c.numpy()[1:], np.cumsum(b.numpy(), axis=0)[:-1], rtol=1e-5)
