"""A convolution with knobs of every kind, a fallback for shapes that were not tuned, and several files of records."""

import numpy as np

from pegbox.plugins import tvm
from pegbox.plugins.tvm import autotvm, te
from pegbox.plugins.tvm.autotvm.task.space import OtherOptionEntity, SplitEntity


@autotvm.template("scripts/conv2d")
def conv2d(CI, H, W, CO, K):
    data = te.placeholder((CI, H, W), name="data")
    kernel = te.placeholder((CO, CI, K, K), name="kernel")
    ci = te.reduce_axis((0, CI), name="ci")
    kh = te.reduce_axis((0, K), name="kh")
    kw = te.reduce_axis((0, K), name="kw")
    conv = te.compute(
        (CO, H - K + 1, W - K + 1),
        lambda co, h, w: te.sum(data[ci, h + kh, w + kw] * kernel[co, ci, kh, kw], axis=[ci, kh, kw]),
        name="conv",
    )
    s = te.create_schedule(conv.op)
    co, h, w = s[conv].op.axis
    ci, kh, kw = s[conv].op.reduce_axis

    cfg = autotvm.get_config()
    cfg.define_split("tile_co", cfg.axis(co), num_outputs=2, policy="factors")
    cfg.define_split("tile_w", cfg.axis(w), num_outputs=2, policy="power2", filter=lambda e: e.size[-1] <= 8)
    cfg.define_reorder("order", [ci, kh, kw], policy="candidate", candidate=[[ci, kh, kw], [kh, kw, ci]])
    cfg.define_annotate("ann_kernel", [kh, kw], policy="try_unroll")
    cfg.define_knob("vectorize", [False, True])
    cfg.multi_filter(filter=lambda e: e["tile_co"].size[-1] * e["tile_w"].size[-1] <= 32)
    if cfg.is_fallback:
        cfg.fallback_split("tile_co", [-1, 4])
        cfg["tile_w"] = SplitEntity([-1, 4])
        cfg["vectorize"] = OtherOptionEntity(True)
    cfg.add_flop(2 * CI * K * K * CO * (H - K + 1) * (W - K + 1))

    co_outer, co_inner = cfg["tile_co"].apply(s, conv, co)
    w_outer, w_inner = cfg["tile_w"].apply(s, conv, w)
    s[conv].reorder(co_outer, h, w_outer, ci, kh, kw, co_inner, w_inner)
    cfg["order"].apply(s, conv, [ci, kh, kw])
    cfg["ann_kernel"].apply(s, conv, [kh, kw], axis_lens=[K, K], max_unroll=4, cfg=cfg)
    if cfg["vectorize"].val:
        s[conv].vectorize(w_inner)
    return s, [data, kernel, conv]


def check(args):
    CI, H, W, CO, K = args
    with tvm.target.Target("llvm"):
        s, tensors = conv2d(*args)
        func = tvm.build(s, tensors)
    data = np.random.rand(CI, H, W).astype("float32")
    kernel = np.random.rand(CO, CI, K, K).astype("float32")
    out = tvm.nd.empty((CO, H - K + 1, W - K + 1))
    func(tvm.nd.array(data), tvm.nd.array(kernel), out)
    windows = np.lib.stride_tricks.sliding_window_view(data, (K, K), axis=(1, 2))
    tvm.testing.assert_allclose(out.numpy(), np.einsum("chwij,ocij->ohw", windows, kernel), rtol=1e-4)


tasks = [
    autotvm.task.create("scripts/conv2d", args=args, target="llvm") for args in [(4, 10, 10, 8, 3), (8, 6, 10, 8, 3)]
]
logs = []
for number, task in enumerate(tasks):
    assert task.flop == 2 * task.args[0] * 9 * 8 * (task.args[1] - 2) * 8
    assert len(task.config_space) < task.config_space.range_length
    tuner = autotvm.tuner.GATuner(task, pop_size=4)
    logs.append(f"conv2d_{number}.log")
    tuner.tune(
        n_trial=2,
        early_stopping=10,
        measure_option=autotvm.measure_option(
            builder=autotvm.LocalBuilder(timeout=10), runner=autotvm.LocalRunner(repeat=1, min_repeat_ms=1, timeout=4)
        ),
        callbacks=[
            autotvm.callback.progress_bar(2, prefix=f"[{number + 1}/2]"),
            autotvm.callback.log_to_file(logs[-1]),
        ],
    )
    assert tuner.best_config is not None
    assert tuner.best_flops > 0

with autotvm.apply_history_best(logs):
    for task in tasks:
        check(task.args)
check((3, 7, 9, 6, 2))
