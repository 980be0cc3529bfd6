"""A matrix product: two templates, a search with a log, and the best configuration built and checked."""

import logging
import sys

import numpy as np

from pegbox.plugins import tvm
from pegbox.plugins.tvm import autotvm, te


@autotvm.template("scripts/matmul_listed")
def matmul_listed(N, L, M, dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    k = s[C].op.reduce_axis[0]

    cfg = autotvm.get_config()
    cfg.define_knob("tile_y", [1, 2, 4, 8, 16])
    cfg.define_knob("tile_x", [1, 2, 4, 8, 16])

    yo, yi = s[C].split(y, cfg["tile_y"].val)
    xo, xi = s[C].split(x, cfg["tile_x"].val)
    s[C].reorder(yo, xo, k, yi, xi)
    return s, [A, B, C]


@autotvm.template("matmul")  # pegbox has one of this name, too
def matmul(N, L, M, dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    k = s[C].op.reduce_axis[0]

    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)

    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    s[C].reorder(yo, xo, k, yi, xi)
    return s, [A, B, C]


N, L, M = 32, 16, 32
listed = autotvm.task.create("scripts/matmul_listed", args=(N, L, M, "float32"), target="llvm")
assert len(listed.config_space) == 25
task = autotvm.task.create("matmul", args=(N, L, M, "float32"), target="llvm")
print(task.config_space)

logging.getLogger("autotvm").setLevel(logging.DEBUG)
logging.getLogger("autotvm").addHandler(logging.StreamHandler(sys.stdout))

runner = autotvm.LocalRunner(number=5, repeat=1, min_repeat_ms=1)
measure_option = autotvm.measure_option(builder="local", runner=runner)
tuner = autotvm.tuner.RandomTuner(task)
tuner.tune(n_trial=3, measure_option=measure_option, callbacks=[autotvm.callback.log_to_file("matmul.log")])

with autotvm.apply_history_best("matmul.log"), tvm.target.Target("llvm"):
    s, arg_bufs = matmul(N, L, M, "float32")
    func = tvm.build(s, arg_bufs)

a_np = np.random.uniform(size=(N, L)).astype(np.float32)
b_np = np.random.uniform(size=(L, M)).astype(np.float32)
c_tvm = tvm.nd.empty((N, M))
func(tvm.nd.array(a_np), tvm.nd.array(b_np), c_tvm)
tvm.testing.assert_allclose(a_np.dot(b_np), c_tvm.numpy(), rtol=1e-4)
