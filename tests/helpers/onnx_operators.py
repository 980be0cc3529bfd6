"""Models of one operator, whose values are compared with those of ONNX's own evaluator or of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_builders import model, node
from onnx_suite import evaluated

from pegbox.plugins.onnx.backend import PreparedModel

Array = Any


def one_operator(
    kind: str,
    inputs: Mapping[str, Array],
    outputs: str = "out",
    *,
    order: str = "",
    weights: Sequence[str] = (),
    opset: int = 21,
    types: Mapping[str, int] | None = None,
    **attributes: Any,
) -> onnx.ModelProto:
    """Make a model of one operator.

    Args:
        inputs: the arrays of its inputs by name.
        order: the names in the operator's order; "_" is an input that is left out.
        weights: the inputs that are constants of the model.
        types: the elements of outputs that are not float32.
    """
    built = node(kind, order or " ".join(inputs), outputs, **attributes)
    given = {name: array.shape for name, array in inputs.items() if name not in weights}
    elements = {name: onnx.helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in inputs.items()}
    constants = {name: inputs[name] for name in weights}
    return model([built], given, outputs.split(), constants, opset=opset, dtypes={**elements, **(types or {})})


def check(
    kind: str, inputs: Mapping[str, Array], outputs: str = "out", *, runtime: bool = False, tolerance: float = 1e-5,
    **options: Any,
) -> list[Array]:  # fmt: skip
    """Compare the values of an operator with those of ONNX's evaluator, or of ONNX Runtime; return them."""
    built = one_operator(kind, inputs, outputs, **options)
    given = {name: array for name, array in inputs.items() if name not in options.get("weights", ())}
    made = list(PreparedModel(built, evaluated).run(given))
    wanted = _by_runtime(built, given) if runtime else ReferenceEvaluator(built).run(None, given)
    for value, expected in zip(made, wanted, strict=True):
        assert (str(value.dtype), value.shape) == (str(expected.dtype), expected.shape)
        np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance)
    return made


def _by_runtime(built: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(built.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(inputs)))


def floats(*shape: int, seed: int = 0) -> Array:
    """Draw float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def integers(low: int, high: int, *shape: int, dtype: str = "int64", seed: int = 0) -> Array:
    """Draw integers from `low` to below `high`."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)
