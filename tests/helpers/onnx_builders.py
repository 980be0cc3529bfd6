"""Small ONNX models: single nodes, and blocks of networks with random weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Array = NDArray[Any]
Nodes = Sequence[onnx.NodeProto]
OPSET = 17


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """A node whose inputs and outputs are names with spaces between; "_" is an input that is left out."""
    names = ["" if name == "_" else name for name in inputs.split()]
    return helper.make_node(kind, names, outputs.split(), name=f"{kind}_of_{outputs.split()[0]}", **attributes)


def model(
    nodes: Nodes,
    inputs: Mapping[str, Sequence[int | str] | None],
    outputs: Sequence[str],
    weights: Mapping[str, Array] | None = None,
    *,
    opset: int = OPSET,
    dtypes: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """A model with inputs and outputs of float32, or of `dtypes`."""
    of = {**dict.fromkeys((*inputs, *outputs), onnx.TensorProto.FLOAT), **(dtypes or {})}
    given = [helper.make_tensor_value_info(name, of[name], shape) for name, shape in inputs.items()]
    made = []
    for name in outputs:
        value = helper.make_tensor_value_info(name, of[name], None)
        value.type.tensor_type.shape.SetInParent()
        value.type.tensor_type.ClearField("shape")
        made.append(value)
    arrays = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(list(nodes), "m", given, made, arrays)
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(built)


def _random(seed: int, shape: Sequence[int], scale: float = 0.1) -> Array:
    return (np.random.default_rng(seed).standard_normal(tuple(shape)) * scale).astype("float32")


def _norm(name: str, channels: int, weights: dict[str, Array]) -> str:
    weights |= {f"{name}.{part}": _random(len(weights), (channels,), 1) for part in ("scale", "bias", "mean")}
    weights[f"{name}.var"] = np.abs(_random(len(weights), (channels,), 1)) + 0.5
    return " ".join(f"{name}.{part}" for part in ("scale", "bias", "mean", "var"))


def resnet_block() -> onnx.ModelProto:
    """Two convolutions with batch normalization beside a projection, and a head."""
    w = {"w1": _random(1, (8, 4, 3, 3)), "w2": _random(2, (8, 8, 3, 3)), "w3": _random(3, (8, 4, 1, 1)),
         "fc": _random(4, (10, 8)), "fc.b": _random(5, (10,))}  # fmt: skip
    nodes = [
        node("Conv", "x w1", "c1", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("BatchNormalization", f"c1 {_norm('n1', 8, w)}", "b1"),
        node("Relu", "b1", "r1"),
        node("Conv", "r1 w2", "c2", pads=[1, 1, 1, 1]),
        node("BatchNormalization", f"c2 {_norm('n2', 8, w)}", "b2"),
        node("Conv", "x w3", "c3", strides=[2, 2]),
        node("Add", "b2 c3", "a"),
        node("Relu", "a", "r2"),
        node("GlobalAveragePool", "r2", "p"),
        node("Flatten", "p", "f"),
        node("Gemm", "f fc fc.b", "y", transB=1),
    ]
    return model(nodes, {"x": ["batch", 4, 9, 9]}, ["y"], w)


def depthwise_block() -> onnx.ModelProto:
    """An inverted residual of MobileNetV2, with clipped activations."""
    w = {"w1": _random(1, (12, 4, 1, 1)), "w2": _random(2, (12, 1, 3, 3)), "w3": _random(3, (4, 12, 1, 1)),
         "b1": _random(4, (12,)), "low": np.float32(0), "high": np.float32(6)}  # fmt: skip
    nodes = [
        node("Conv", "x w1 b1", "c1"),
        node("Clip", "c1 low high", "r1"),
        node("Conv", "r1 w2", "c2", pads=[1, 1, 1, 1], group=12),
        node("Clip", "c2 _ high", "r2"),
        node("Conv", "r2 w3", "c3"),
        node("Add", "x c3", "y"),
    ]
    return model(nodes, {"x": [1, 4, 6, 6]}, ["y"], {name: np.asarray(array) for name, array in w.items()})


def transformer_block() -> onnx.ModelProto:
    """Attention of two heads and a feed-forward layer; the shapes of its heads are computed from the input's."""
    w = {"qkv": _random(1, (16, 48)), "qkv.b": _random(2, (48,)), "out": _random(3, (16, 16)),
         "up": _random(4, (16, 32)), "down": _random(5, (32, 16)), "g": np.ones(16, "float32"),
         "o": np.zeros(16, "float32"), "scale": np.asarray(8**-0.5, "float32"),
         "zero": np.asarray(0), "one": np.asarray(1), "first": np.asarray([0]), "heads": np.asarray([2]),
         "size": np.asarray([8]), "all": np.asarray([-1]), "s1": np.asarray(0.5**0.5, "float32"),
         "half": np.asarray(0.5, "float32"), "unit": np.asarray(1, "float32")}  # fmt: skip
    heads = [each for part in "qkv" for each in (
        node("Reshape", f"{part} split", f"{part}4"),
        node("Transpose", f"{part}4", f"{part}h", perm=[0, 2, 3, 1] if part == "k" else [0, 2, 1, 3]),
    )]  # fmt: skip
    nodes = [
        node("LayerNormalization", "x g o", "n"),
        node("Shape", "n", "shape"),
        node("Gather", "shape zero", "batch"),
        node("Gather", "shape one", "tokens"),
        node("Unsqueeze", "batch first", "batch1"),
        node("Unsqueeze", "tokens first", "tokens1"),
        node("Concat", "batch1 tokens1 heads size", "split", axis=0),
        node("Concat", "batch1 tokens1 all", "join", axis=0),
        node("MatMul", "n qkv", "p"),
        node("Add", "p qkv.b", "pb"),
        node("Split", "pb", "q k v", axis=-1),
        *heads,
        node("MatMul", "qh kh", "scores"),
        node("Mul", "scores scale", "scaled"),
        node("Softmax", "scaled", "probs", axis=-1),
        node("MatMul", "probs vh", "mixed"),
        node("Transpose", "mixed", "back", perm=[0, 2, 1, 3]),
        node("Reshape", "back join", "flat"),
        node("MatMul", "flat out", "attended"),
        node("Add", "x attended", "a"),
        node("LayerNormalization", "a g o", "m"),
        node("MatMul", "m up", "u"),
        node("Mul", "u s1", "u1"),
        node("Erf", "u1", "e"),
        node("Add", "e unit", "e1"),
        node("Mul", "u e1", "gu"),
        node("Mul", "gu half", "gelu"),
        node("MatMul", "gelu down", "d"),
        node("Add", "a d", "y"),
    ]
    return model(nodes, {"x": ["batch", "tokens", 16]}, ["y"], w)


def lstm_head() -> onnx.ModelProto:
    """An LSTM over a sequence, whose last state is classified."""
    w = {"w": _random(1, (1, 24, 5)), "r": _random(2, (1, 24, 6)), "b": _random(3, (1, 48)), "fc": _random(4, (6, 3)),
         "first": np.asarray([0])}  # fmt: skip
    nodes = [
        node("LSTM", "x w r b", "all last", hidden_size=6),
        node("Squeeze", "last first", "h"),
        node("MatMul", "h fc", "y"),
    ]
    return model(nodes, {"x": [7, 2, 5]}, ["y"], w)


def quantized_conv() -> onnx.ModelProto:
    """A convolution of int8 between QuantizeLinear and DequantizeLinear."""
    w = {"w": np.random.default_rng(1).integers(-127, 127, (6, 4, 3, 3)).astype("int8"),
         "xs": np.asarray(0.05, "float32"), "xz": np.asarray(3, "uint8"),
         "ws": np.abs(_random(2, (6,))) + np.float32(0.01), "wz": np.zeros(6, "int8"),
         "ys": np.asarray(0.3, "float32"), "yz": np.asarray(120, "uint8")}  # fmt: skip
    nodes = [
        node("QuantizeLinear", "x xs xz", "xq"),
        node("DequantizeLinear", "xq xs xz", "xd"),
        node("DequantizeLinear", "w ws wz", "wd", axis=0),
        node("Conv", "xd wd", "c", pads=[1, 1, 1, 1]),
        node("QuantizeLinear", "c ys yz", "yq"),
        node("DequantizeLinear", "yq ys yz", "y"),
    ]
    return model(nodes, {"x": [1, 4, 5, 5]}, ["y"], w, opset=19)
