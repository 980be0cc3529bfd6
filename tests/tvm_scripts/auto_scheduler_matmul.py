"""A product with a bias, tuned without a template; the search then goes on from its own records."""

import numpy as np

from pegbox.plugins import tvm
from pegbox.plugins.tvm import auto_scheduler, te


@auto_scheduler.register_workload
def matmul_bias(N, L, M, dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    C = te.placeholder((N, M), name="C", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    product = te.compute(
        (N, M),
        lambda i, j: te.sum(A[i, k] * B[k, j], axis=k),
        name="product",
        attrs={"layout_free_placeholders": [B]},
    )
    out = te.compute((N, M), lambda i, j: product[i, j] + C[i, j], name="out")
    return [A, B, C, out]


target = tvm.target.Target("llvm")
N = L = M = 16
task = tvm.auto_scheduler.SearchTask(func=matmul_bias, args=(N, L, M, "float32"), target=target)
print(task.compute_dag)
assert task.compute_dag.flop_ct == 2 * N * L * M + N * M

log_file = "matmul.json"
task.tune(
    auto_scheduler.TuningOptions(
        num_measure_trials=2,
        runner=auto_scheduler.LocalRunner(repeat=1, min_repeat_ms=1),
        measure_callbacks=[auto_scheduler.RecordToFile(log_file)],
        verbose=2,
    )
)
sch, args = task.apply_best(log_file)
print(tvm.lower(sch, args, simple_mode=True))

func = tvm.build(sch, args, target)
a_np, b_np, c_np = (np.random.uniform(size=(N, M)).astype(np.float32) for _ in range(3))
dev = tvm.cpu()
a, b, c = (tvm.nd.array(each, device=dev) for each in (a_np, b_np, c_np))
out = tvm.nd.empty((N, M), device=dev)
func(a, b, c, out)
np.testing.assert_allclose(a_np.dot(b_np) + c_np, out.numpy(), rtol=1e-3)

evaluator = func.time_evaluator(func.entry_name, dev, min_repeat_ms=1)
print(f"{np.median(evaluator(a, b, c, out).results) * 1000:.3f} ms")
print(task.print_best(log_file))


def resume(task, log_file):
    model = auto_scheduler.XGBModel()
    model.update_from_file(log_file)
    policy = auto_scheduler.SketchPolicy(
        task, model, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log_file)]
    )
    options = auto_scheduler.TuningOptions(
        num_measure_trials=2,
        runner=auto_scheduler.LocalRunner(repeat=1, min_repeat_ms=1),
        measure_callbacks=[auto_scheduler.RecordToFile(log_file)],
    )
    task.tune(options, search_policy=policy)


resume(task, log_file)
states = [inp.state for inp, _ in auto_scheduler.load_records(log_file)]
assert len(states) == 4
