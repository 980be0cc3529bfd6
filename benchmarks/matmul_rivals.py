"""Matrix products of other libraries on the same arrays as ours, each optional, in two groups.

"plain": B is as the user has it, so a library packs it at each call. "packed": the library has packed it before. A
rival is a function without arguments that returns the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Call = Callable[[], np.ndarray]


def limits(vector_bits: int) -> dict[str, str]:
    """Environment variables that limit libraries to such vectors; set them before the libraries are loaded."""
    names = ("Haswell", "AVX2", "AVX2", "avx2") if vector_bits == 256 else ("Nehalem", "SSE41", "SSE4_2", "default")
    variables = "OPENBLAS_CORETYPE", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "ATEN_CPU_CAPABILITY"
    return dict(zip(variables, names, strict=True))


def rivals(group: str, a: np.ndarray, b: np.ndarray, *, limited: bool) -> dict[str, Call]:
    """Name and call of each installed rival of the group.

    limited: only those that the variables of `limits` restrict. ONNX Runtime takes the widest vectors that there are.
    """
    found = dict(_numpy(a, b) if group == "plain" else _onednn(a, b))
    return found if limited else {**found, **dict(_onnxruntime(group, a, b))}


def _numpy(a: np.ndarray, b: np.ndarray) -> Iterator[tuple[str, Call]]:
    out = np.empty((a.shape[0], b.shape[1]), a.dtype)
    yield "NumPy", lambda: np.matmul(a, b, out=out)


def _onednn(a: np.ndarray, b: np.ndarray) -> Iterator[tuple[str, Call]]:
    """oneDNN through torch, for "packed" only: torch computes plain products with another library."""
    try:
        import torch
    except ImportError:
        return
    if a.dtype != np.float32 or not torch.backends.mkldnn.is_available():
        return
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    x, weights = torch.from_numpy(a), torch.from_numpy(np.ascontiguousarray(b.T))
    packed = torch.ops.mkldnn._reorder_linear_weight(weights, a.shape[0])
    call = torch.ops.mkldnn._linear_pointwise
    yield "oneDNN", lambda: np.asarray(call(x, packed, None, "none", [], "").numpy())


def _onnxruntime(group: str, a: np.ndarray, b: np.ndarray) -> Iterator[tuple[str, Call]]:
    try:
        import onnxruntime
        from onnx import helper, numpy_helper
    except ImportError:
        return

    def described(name: str, array: np.ndarray) -> Any:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    inputs = {"a": a, "b": b} if group == "plain" else {"a": a}
    result = described("c", np.empty((a.shape[0], b.shape[1]), a.dtype))
    constants = [] if group == "plain" else [numpy_helper.from_array(b, "b")]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["a", "b"], ["c"])],
        "matmul",
        [described(name, array) for name, array in inputs.items()],
        [result],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    yield "ORT", lambda: np.asarray(session.run(None, inputs)[0])
