"""Attention: tune, then time our kernel beside torch and ONNX Runtime in one process.

    python3 benchmarks/attention.py                                # the rows below
    python3 benchmarks/attention.py --args "1 12 512 512 64" --args "1 8 1 2048 128 2"
    python3 benchmarks/attention.py --args "1 4 777 777 80 4 1" --trials 96
    python3 benchmarks/attention.py --trials 0                     # untuned, as in a model

A row is batch, heads, queries, keys, width of a head, key heads (0: as many as heads) and 1 for a causal mask. The
rivals are torch's `scaled_dot_product_attention` and, without a mask and groups, ONNX Runtime's `MultiHeadAttention`,
each with one thread, and left out where it is not installed. Results are compared before anything is timed. Then all
take turns, pinned to one core; the output shows medians, the ratio to the best rival, its limit, which multiply-adds
alone would have at their peak, and the share of that peak, in which exponentials do not count.

If the vectors of --target are narrower than the machine's, environment variables limit torch and its libraries to those
vectors (`matmul_rivals.limits`). ONNX Runtime cannot be limited and is left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from matmul import is_limited, print_row, settle_environment, timed
from peak import share_of_peak

import pegbox as pb
from pegbox.search.models.prediction import predicted_configs

ROWS = (
    "1 12 512 512 64", "1 12 512 512 64 0 1", "1 1 128 128 64", "1 2 2048 2048 64 0 1", "1 8 1000 1000 80 2",
    "1 4 4096 4096 128 0 1", "1 32 1 1024 64 8", "1 8 1 4096 128",
)  # fmt: skip


def main() -> int:
    options = parse()
    settle_environment(options)
    for number, row in enumerate(options.args or ROWS):
        print_row(measured(row, options), header=number == 0)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--args", action="append", help='a row, as "1 12 512 512 64 0 1"')
    parser.add_argument("--target", default="llvm", help='"llvm -mcpu=x86-64-v3"')
    parser.add_argument("--trials", type=int, default=64, help="0: the predicted configuration")
    parser.add_argument("--tuner", default="bayes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--core", type=int, default=0)
    parser.set_defaults(dtype="float32")
    return parser.parse_args()


def measured(row: str, options: argparse.Namespace) -> dict[str, str]:
    """Tune one row, compare all results, and time them in turns."""
    batch, heads, n_q, n_k, d, kv_heads, causal = (*map(int, row.split()), 0, 0)[:7]
    args = (batch, heads, n_q, n_k, d, kv_heads or None, bool(causal))
    task = pb.create_task("attention", args=args, target=f"{options.target} -num-cores 1")
    config = chosen(task, options)
    ours = pb.build(task, config=config)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(a.shape).astype(a.dtype) for a in task.arguments()]
    ours(*arrays)
    calls = dict(rivals(*arrays[:3], causal=bool(causal), limited=is_limited(options)))
    for name, call in calls.items():
        np.testing.assert_allclose(arrays[-1], np.asarray(call()), rtol=1e-4, atol=1e-5, err_msg=name)
    ns = timed(ours, arrays, calls, options)
    best = min((ns[name] for name in calls), default=float("nan"))
    return {
        "shape": row,
        "ours µs": f"{ns['ours'] / 1e3:.1f}",
        "as a call": f"{ns['call'] / 1e3:.1f}",
        **{f"{name} µs": f"{ns[name] / 1e3:.1f}" if name in ns else "-" for name in ("torch", "ORT")},
        "ratio": f"{best / ns['ours']:.2f}",
        "limit": f"{best * ns['peak'] / task.flop:.2f}",
        "GFLOP/s": f"{task.flop / ns['ours']:.1f}",
        "of peak": share_of_peak(task.flop / ns["ours"], ns["peak"]),
        "config": str(config),
    }


def chosen(task: pb.Task, options: argparse.Namespace) -> pb.Config:
    """Choose the best configuration of a search, or without trials the predicted one."""
    if not options.trials:
        return next(predicted_configs(task))
    result = pb.tune(task, tuner=options.tuner, trials=options.trials, seed=options.seed, progress=False, store=None)
    return result.best.config


def rivals(q: Any, k: Any, v: Any, *, causal: bool, limited: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the name and call of each rival that computes this; of limited ones, those that `limits` restricts."""
    last_sees_all = not causal or q.shape[2] == k.shape[2]
    try:
        import torch
    except ImportError:
        pass
    else:
        if last_sees_all:
            torch.set_num_threads(1)
            torch.set_grad_enabled(False)
            t, grouped = [torch.from_numpy(x) for x in (q, k, v)], q.shape[1] != k.shape[1]
            attend = torch.nn.functional.scaled_dot_product_attention
            yield "torch", lambda: attend(*t, is_causal=causal, enable_gqa=grouped).numpy()
    if limited:
        return
    try:
        import onnxruntime
        from onnx import TensorProto, helper
    except ImportError:
        return
    grouped = q.shape[1] != k.shape[1]
    if causal or grouped:
        return  # its operators for these take past keys and lengths, too
    # MultiHeadAttention takes rows of all heads.
    flat = [np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(x.shape[0], x.shape[2], -1) for x in (q, k, v)]
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name, x in zip("qkv", flat, strict=True)
    ]
    node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["o"], domain="com.microsoft", num_heads=q.shape[1])
    graph = helper.make_graph([node], "g", infos, [helper.make_tensor_value_info("o", TensorProto.FLOAT, None)])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    one = onnxruntime.SessionOptions()
    one.intra_op_num_threads = one.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), one, providers=["CPUExecutionProvider"])
    feed = dict(zip("qkv", flat, strict=True))
    batch, heads, n_q, _ = q.shape

    def call() -> Any:
        return session.run(None, feed)[0].reshape(batch, n_q, heads, -1).transpose(0, 2, 1, 3)

    yield "ORT", call


if __name__ == "__main__":
    raise SystemExit(main())
