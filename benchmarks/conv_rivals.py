"""Convolutions of other libraries on the same arrays as ours, each optional, in two groups.

"plain": the weights are as the user has them, so a library packs them at each call. "packed": the library has packed
them before. A rival is a function without arguments that returns the result in the layout of the input.

The variables of `matmul_rivals.limits` restrict torch (oneDNN) to a narrower instruction set than the machine's; ONNX
Runtime takes the widest one in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Call = Callable[[], np.ndarray]


def rivals(group: str, data: np.ndarray, weight: np.ndarray, layout: str, options: dict[str, int]) -> dict[str, Call]:
    """Name and call of each installed rival of the group; weights are OIHW or OHWI."""
    return dict([*_torch(group, data, weight, layout, options), *_onnxruntime(group, data, weight, layout, options)])


def _torch(group: str, data: Any, weight: Any, layout: str, options: dict[str, int]) -> Iterator[tuple[str, Call]]:
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    x, w = torch.from_numpy(data), torch.from_numpy(weight)
    if layout == "NHWC":  # `channels_last` tensors are logically NCHW and OIHW
        x, w = x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2)
        assert x.is_contiguous(memory_format=torch.channels_last)

    def array(result: Any) -> np.ndarray:
        return np.asarray((result if layout == "NCHW" else result.permute(0, 2, 3, 1)).contiguous().numpy())

    if group == "plain":
        yield "torch", lambda: array(torch.nn.functional.conv2d(x, w, **options))
        return
    stride, padding, dilation = ([options.get(name, usual)] * 2 for name, usual in
                                 (("stride", 1), ("padding", 0), ("dilation", 1)))  # fmt: skip
    packed = torch._C._nn.mkldnn_reorder_conv2d_weight(w.to_mkldnn(), padding, stride, dilation, 1, list(x.shape))
    call = torch.ops.mkldnn._convolution_pointwise
    yield "oneDNN", lambda: array(call(x, packed, None, padding, stride, dilation, 1, "none", [], ""))


def _onnxruntime(
    group: str, data: Any, weight: Any, layout: str, options: dict[str, int]
) -> Iterator[tuple[str, Call]]:
    if layout != "NCHW":  # the only one that its convolutions take
        return
    try:
        import onnxruntime
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        return
    attributes = {
        "strides": [options.get("stride", 1)] * 2,
        "pads": [options.get("padding", 0)] * 4,
        "dilations": [options.get("dilation", 1)] * 2,
    }
    inputs = {"x": data} if group == "packed" else {"x": data, "w": weight}
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], **attributes)],
        "conv",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, a.shape) for name, a in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [] if group == "plain" else [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    yield "ORT", lambda: np.asarray(session.run(None, inputs)[0])
