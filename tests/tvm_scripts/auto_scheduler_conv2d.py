"""A convolution with bias and relu out of topi, tuned without a template, and a program of two of them."""

import numpy as np

from pegbox.plugins import tvm
from pegbox.plugins.tvm import auto_scheduler, te, topi


@auto_scheduler.register_workload
def conv2d_bias_relu(N, H, W, CO, CI, KH, KW, stride, padding):
    data = te.placeholder((N, CI, H, W), name="data")
    kernel = te.placeholder((CO, CI, KH, KW), name="kernel")
    bias = te.placeholder((1, CO, 1, 1), name="bias")
    conv = topi.nn.conv2d_nchw(data, kernel, stride, padding, dilation=1, out_dtype="float32")
    return [data, kernel, bias, topi.nn.relu(conv + bias)]


target = tvm.target.Target("llvm")
sizes = 1, 4, 4, 8, 2, 3, 3
task = auto_scheduler.SearchTask(func=conv2d_bias_relu, args=(*sizes, (1, 1), (1, 1)), target=target)
print(task.compute_dag)

log_file = "conv2d.json"
options = auto_scheduler.TuningOptions(
    num_measure_trials=2,
    runner=auto_scheduler.LocalRunner(repeat=1, min_repeat_ms=1),
    measure_callbacks=[auto_scheduler.RecordToFile(log_file)],
    verbose=0,
)
params = {"evolutionary_search_population": 4, "evolutionary_search_num_iters": 1}
task.tune(options, auto_scheduler.SketchPolicy(task, auto_scheduler.XGBModel(), params=params, seed=3))
sch, args = task.apply_best(log_file)
print(tvm.lower(sch, args, simple_mode=True))
func = tvm.build(sch, args, target)

N, H, W, CO, CI, KH, KW = sizes
data_np = np.random.uniform(-1, 1, (N, CI, H, W)).astype("float32")
kernel_np = np.random.uniform(-1, 1, (CO, CI, KH, KW)).astype("float32")
bias_np = np.random.uniform(-1, 1, (1, CO, 1, 1)).astype("float32")
padded = np.pad(data_np, ((0, 0), (0, 0), (1, 1), (1, 1)))
windows = np.lib.stride_tricks.sliding_window_view(padded, (KH, KW), axis=(2, 3))
wanted = np.maximum(np.einsum("ncyxhw,ochw->noyx", windows, kernel_np) + bias_np, 0.0)

dev = tvm.cpu()
arrays = [tvm.nd.array(each, device=dev) for each in (data_np, kernel_np, bias_np)]
out = tvm.nd.empty(wanted.shape, device=dev)
func(*arrays, out)
tvm.testing.assert_allclose(wanted, out.numpy(), rtol=1e-3, atol=1e-4)
print(task.print_best(log_file, print_mode="schedule"))

half = auto_scheduler.SearchTask(
    func="conv2d_bias_relu", args=(1, 2, 2, 8, 2, 3, 3, (1, 1), (1, 1)), target=target, hardware_params=None
)
scheduler = auto_scheduler.TaskScheduler([task, half], task_weights=[2, 1], callbacks=[])
scheduler.tune(
    auto_scheduler.TuningOptions(
        num_measure_trials=2,
        num_measures_per_round=1,
        runner=auto_scheduler.LocalRunner(repeat=1, min_repeat_ms=1),
        measure_callbacks=[auto_scheduler.RecordToFile("both.json")],
        verbose=0,
    ),
    search_policy="sketch.random",
)
assert [auto_scheduler.load_best_record("both.json", t.workload_key)[0] is not None for t in (task, half)] == [True] * 2
