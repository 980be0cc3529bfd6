"""Logs: the best records picked, read, imitated for another shape, and learned from by a tuner with a model."""

import numpy as np

from pegbox.plugins import tvm
from pegbox.plugins.tvm import autotvm, te


@autotvm.template("scripts/rowsum")
def rowsum(n, m):
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    cfg = autotvm.get_config()
    (i,) = s[B].op.axis
    (k,) = s[B].op.reduce_axis
    cfg.define_split("tile_i", i, num_outputs=2)
    cfg.define_split("tile_k", k, num_outputs=2)
    cfg.define_reorder("order", [i, k], policy="all")
    if cfg.is_fallback:
        cfg.fallback_with_reference_log(autotvm.record.load_from_file("rowsum.log"))
    _, ii = cfg["tile_i"].apply(s, B, i)
    _, ki = cfg["tile_k"].apply(s, B, k)
    cfg["order"].apply(s, B, [ii, ki])
    return s, [A, B]


class Slowest(autotvm.tuner.Tuner):
    """A tuner of the script's own: from the last configuration to the first."""

    def __init__(self, task):
        super().__init__(task)
        self.next = len(task.config_space) - 1

    def has_next(self):
        return self.next >= 0

    def next_batch(self, batch_size):
        batch = []
        while len(batch) < batch_size and self.has_next():
            batch.append(self.task.config_space.get(self.next))
            self.next -= 1
        return batch

    def update(self, inputs, results):
        for inp, res in zip(inputs, results, strict=True):
            print(inp.config.index, res.error_no, np.mean(res.costs))


options = autotvm.measure_option(
    builder=autotvm.LocalBuilder(), runner=autotvm.LocalRunner(repeat=1, min_repeat_ms=1, timeout=4)
)
small = autotvm.task.create("scripts/rowsum", args=(8, 16), target="llvm")
Slowest(small).tune(n_trial=5, measure_option=options, callbacks=[autotvm.callback.log_to_file("rowsum.log")])

records = list(autotvm.record.load_from_file("rowsum.log"))
assert len(records) == 5
assert all(res.error_no == autotvm.MeasureErrorNo.NO_ERROR for _, res in records)
autotvm.record.pick_best("rowsum.log", "best.log")
((best, _),) = autotvm.record.load_from_file("best.log")

large = autotvm.task.create(rowsum, args=(16, 32), target="llvm")
tuner = autotvm.tuner.XGBTuner(large, plan_size=4, feature_type="itervar", loss_type="rank")
tuner.load_history(records, min_seed_records=5)
tuner.tune(n_trial=2, measure_option=options, callbacks=[autotvm.callback.log_to_file("rowsum.log")])

a = np.random.rand(16, 32).astype("float32")
for log in ["rowsum.log", None]:
    with autotvm.apply_history_best(log), tvm.target.Target("llvm"):
        s, args = rowsum(16, 32)
        func = tvm.build(s, args, name="rowsum")
    b = tvm.nd.empty((16,))
    func(tvm.nd.array(a), b)
    tvm.testing.assert_allclose(b.numpy(), a.sum(axis=1), rtol=1e-4)
