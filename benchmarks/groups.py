"""Groups of operators that models have around their products, as fused nodes, beside ONNX Runtime on one thread.

    pip install onnx onnxruntime
    taskset -c 0 python3 benchmarks/groups.py                     # untuned
    taskset -c 0 python3 benchmarks/groups.py softmax --trials 64

A row is a group; columns are microseconds of a call, medians of rounds in which both take turns, and the speed of
pegbox relative to ONNX Runtime. Groups over images are computed with the channels as the last axis, as inside a
model, without the transposes at its borders. ONNX Runtime takes and gives its own layout, in arrays that are bound.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, shape_inference

import pegbox as pb
from pegbox.graph import Graph
from pegbox.graph.passes import PASSES
from pegbox.graph.passes.layouts import layouts
from pegbox.model.model import Model
from pegbox.plugins.onnx.reader import read_model

RNG = np.random.default_rng(0)
Nodes = list[tuple[str, Sequence[str], dict[str, Any]]]


def array(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype("float32")


def depthwise(channels: int, side: int, stride: int) -> tuple[Nodes, dict[str, tuple[int, ...]], dict[str, Any]]:
    nodes: Nodes = [
        ("Conv", ["x", "w", "b"], {"pads": [1] * 4, "strides": [stride] * 2, "group": channels}),
        ("Clip", ["0", "low", "high"], {}),
    ]
    limits = {"low": np.float32(0), "high": np.float32(6)}
    weights = {"w": array(channels, 1, 3, 3), "b": array(channels)}
    return nodes, {"x": (1, channels, side, side)}, weights | limits


def one(kind: str, *shapes: Sequence[int], **attributes: Any) -> tuple[Nodes, dict[str, Any], dict[str, Any]]:
    names = "xyz"[: len(shapes)]
    return [(kind, list(names), attributes)], dict(zip(names, shapes, strict=True)), {}


GROUPS: dict[str, Callable[[], Any]] = {
    **{f"depthwise {c}x{s} /{d}": lambda c=c, s=s, d=d: depthwise(c, s, d)
       for c, s, d in [(32, 112, 1), (96, 112, 2), (144, 56, 1), (576, 14, 1), (960, 7, 1)]},
    "max pool 3x3": lambda: one("MaxPool", (1, 64, 112, 112), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
    "max pool 2x2": lambda: one("MaxPool", (1, 32, 128, 128), kernel_shape=[2, 2], strides=[2, 2]),
    **{f"average {c}x{s}": lambda c=c, s=s: one("GlobalAveragePool", (1, c, s, s))
       for c, s in [(512, 7), (1280, 7), (32, 112), (144, 56)]},
    "scale 96x56": lambda: one("Mul", (1, 96, 56, 56), (1, 96, 1, 1)),
    "concat 2x64x64": lambda: one("Concat", (1, 64, 64, 64), (1, 64, 64, 64), axis=1),
    "softmax": lambda: one("Softmax", (12, 128, 128), axis=-1),
    "layer norm": lambda: one("LayerNormalization", (128, 768), (768,), (768,), axis=-1),
    "gelu": lambda: one("Gelu", (128, 3072)),
    "heads": lambda: one("Transpose", (128, 12, 64), perm=[1, 0, 2]),
    "heads, transposed": lambda: one("Transpose", (128, 12, 64), perm=[1, 2, 0]),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", default=list(GROUPS), metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--trials", type=int, help="tune each group with that many trials")
    parser.add_argument("--rounds", type=int, default=25)
    options = parser.parse_args()
    print("| µs a call | pegbox | ONNX Runtime | relative speed |\n| --- | ---: | ---: | ---: |", flush=True)
    for name in options.groups:
        ours, theirs = timed_row(onnx_model(*GROUPS[name]()), options)
        print(f"| {name} | {ours:.1f} | {theirs:.1f} | {theirs / ours:.2f} |", flush=True)


def onnx_model(nodes: Nodes, inputs: dict[str, Any], constants: dict[str, Any]) -> onnx.ModelProto:
    made = [
        helper.make_node(kind, given, [str(number)], **attributes)
        for number, (kind, given, attributes) in enumerate(nodes)
    ]
    graph = helper.make_graph(
        made,
        "group",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(str(len(nodes) - 1), TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(each), name) for name, each in constants.items()],
    )
    versions = [helper.make_opsetid("", 20)]
    return shape_inference.infer_shapes(helper.make_model(graph, opset_imports=versions, ir_version=9))


def timed_row(proto: onnx.ModelProto, options: argparse.Namespace) -> tuple[float, float]:
    """Return the microseconds of a call of pegbox and of ONNX Runtime."""
    model = Model(in_own_layout(read_model(proto)))
    if options.trials:
        module = pb.tune_model(model, trials=options.trials, num_threads=1).module
    else:
        module = pb.compile_model(model, num_threads=1, store=None)
    arrays = [array(*spec.shape) for spec in module.inputs]
    rival = onnx_runtime(proto)
    ours, theirs = [], []
    for _ in range(options.rounds):
        ours.append(module.time_ns(arrays) / 1e3)
        begin = time.perf_counter()
        rival()
        theirs.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(ours), statistics.median(theirs)


def in_own_layout(graph: Graph) -> Graph:
    """Return the graph over images with channels last, between its borders; other graphs as they are."""
    for each in PASSES:
        graph = each(graph)
    if not any(len(value.shape) == 4 for value in graph.inputs):
        return graph
    graph = layouts(graph, everywhere=True)
    nodes = [node for node in graph.nodes if node.kind not in ("Transpose", "Reshape")]
    outputs = {value for node in nodes for value in node.outputs}
    inputs = dict.fromkeys(value for node in nodes for value in node.inputs)
    given = [value for value in inputs if value not in outputs and value not in graph.constants]
    return Graph(graph.name, tuple(given), nodes[-1].outputs, tuple(nodes), graph.constants)


def onnx_runtime(proto: onnx.ModelProto) -> Callable[[], Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    bound = session.io_binding()
    for each in session.get_inputs():
        bound.bind_cpu_input(each.name, array(*each.shape))
    bound.bind_output(session.get_outputs()[0].name)
    return lambda: session.run_with_iobinding(bound)


if __name__ == "__main__":
    main()
