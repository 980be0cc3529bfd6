"""Single operators of ONNX, untuned, beside ONNX Runtime on one core: poolings, TopK, dilated convolutions.

    pip install onnx onnxruntime
    python3 benchmarks/onnx_operators.py          # two minutes; --target 'llvm -mcpu=x86-64-v3 -num-cores 1'
    python3 benchmarks/onnx_operators.py Conv     # only some operators

Both are called from Python, in turns; a line has the medians, and the ratio of ONNX Runtime's to ours.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import pegbox as pb

ROUNDS = 60

POOLS = [
    ("AveragePool", (32, 7, 360), {"kernel_shape": [25]}),
    ("AveragePool", (8, 21, 384), {"kernel_shape": [49]}),
    ("AveragePool", (1, 64, 220), {"kernel_shape": [3], "pads": [1, 1]}),
    ("AveragePool", (1, 64, 220), {"kernel_shape": [5]}),
    ("AveragePool", (1, 32, 40, 40), {"kernel_shape": [5, 5]}),
    ("AveragePool", (1, 64, 30, 30), {"kernel_shape": [7, 7], "pads": [3] * 4, "count_include_pad": 1}),
    ("MaxPool", (8, 21, 384), {"kernel_shape": [25], "pads": [12, 12]}),
    ("MaxPool", (1, 128, 20, 20), {"kernel_shape": [5, 5], "pads": [2] * 4}),
    ("MaxPool", (1, 16, 60, 60), {"kernel_shape": [9, 9]}),
    ("MaxPool", (1, 64, 112, 112), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}),
    ("MaxPool", (1, 192, 56, 56), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ("MaxPool", (1, 288, 35, 35), {"kernel_shape": [3, 3], "strides": [2, 2]}),
    ("MaxPool", (1, 832, 14, 14), {"kernel_shape": [3, 3], "pads": [1] * 4}),
    ("MaxPool", (1, 512, 14, 14), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("MaxPool", (1, 16, 16, 28, 28), {"kernel_shape": [3] * 3, "strides": [2] * 3, "pads": [1] * 6}),
    ("AveragePool", (1, 128, 28, 28), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}),
    ("AveragePool", (1, 256, 56, 56), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("AveragePool", (1, 2048, 8, 8), {"kernel_shape": [3, 3], "pads": [1] * 4}),
]
TOP = [((1, 1000), 16), ((64, 128), 32), ((20, 1000), 60), ((1, 1000), 300), ((8, 4096), 500), ((1, 8400), 300)]

DILATED = [(256, 28, 256, 6), (256, 28, 256, 12), (256, 28, 256, 18), (960, 28, 256, 24), (96, 40, 64, 4)]
"""Channels, extent, output channels and dilation of 3 × 3 convolutions, as in DeepLab's atrous spatial pyramid."""


def pool(kind: str, shape: tuple[int, ...], options: dict[str, Any]) -> onnx.ModelProto:
    return model(helper.make_node(kind, ["x"], ["y"], **options), shape, {"y": TensorProto.FLOAT})


def dilated(channels: int, extent: int, outputs: int, dilation: int) -> onnx.ModelProto:
    w = np.random.default_rng(1).standard_normal((outputs, channels, 3, 3)) / np.sqrt(9 * channels)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[dilation] * 4, dilations=[dilation] * 2)
    weights = onnx.numpy_helper.from_array(w.astype(np.float32), "w")
    return model(node, (1, channels, extent, extent), {"y": TensorProto.FLOAT}, weights)


def top(shape: tuple[int, ...], count: int) -> onnx.ModelProto:
    k = helper.make_tensor("k", TensorProto.INT64, [1], [count])
    return model(
        helper.make_node("TopK", ["x", "k"], ["v", "i"]), shape, {"v": TensorProto.FLOAT, "i": TensorProto.INT64}, k
    )


def model(node: onnx.NodeProto, shape: tuple[int, ...], outputs: dict[str, int], *weights: Any) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    made = [helper.make_tensor_value_info(name, dtype, None) for name, dtype in outputs.items()]
    graph = helper.make_graph([node], "one", [x], made, list(weights))
    opset = [helper.make_opsetid("", 17)]
    return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opset, ir_version=8))


def compare(label: str, proto: onnx.ModelProto, target: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "one.onnx"
        onnx.save(proto, file)
        ours = pb.compile_model(file, target=target, store=None)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(proto.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).standard_normal(ours.inputs[0].shape).astype(np.float32)
    for one, other in zip(ours(x), session.run(None, {"x": x}), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    calls = lambda: ours(x), lambda: session.run(None, {"x": x})
    times: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for call, samples in zip(calls, times, strict=True):
            began = time.process_time_ns()
            call()
            samples.append((time.process_time_ns() - began) / 1e3)
    mine, its = map(statistics.median, times)
    print(f"{label:84} {mine:8.1f} us, ONNX Runtime {its:8.1f} us: {its / mine:.2f}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", help="operators; all by default")
    parser.add_argument("--target", default="llvm -num-cores 1")
    args = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    models = [(f"{kind} {shape} {options}", pool(kind, shape, options)) for kind, shape, options in POOLS]
    models += [(f"TopK {shape} k={count}", top(shape, count)) for shape, count in TOP]
    models += [(f"Conv {sizes[:3]} dilation={sizes[3]}", dilated(*sizes)) for sizes in DILATED]
    known = {label.split()[0] for label, _ in models}
    if unknown := sorted({*args.kinds} - known):
        parser.error(f"{', '.join(unknown)}: not among the operators here; give some of {', '.join(sorted(known))}")
    for label, proto in models:
        if label.split()[0] in (args.kinds or known):
            compare(label, proto, args.target)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
