"""Blocks of networks, from ONNX to values: as the ONNX project's evaluator, and as ONNX Runtime, computes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
builders = pytest.importorskip("onnx_builders")
backend = pytest.importorskip("pegbox.plugins.onnx.backend")
reader = pytest.importorskip("pegbox.plugins.onnx.reader")
suite = pytest.importorskip("onnx_suite")

BLOCKS = {
    "resnet": (builders.resnet_block, {"x": (2, 4, 9, 9)}),
    "depthwise": (builders.depthwise_block, {"x": (1, 4, 6, 6)}),
    "transformer": (builders.transformer_block, {"x": (2, 5, 16)}),
    "lstm": (builders.lstm_head, {"x": (7, 2, 5)}),
    "quantized": (builders.quantized_conv, {"x": (1, 4, 5, 5)}),
}


def arrays_of(shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape).astype("float32") for name, shape in shapes.items()}


@pytest.mark.parametrize("name", BLOCKS)
def test_compiled_blocks_have_the_values_of_the_reference(name: str) -> None:
    build, shapes = BLOCKS[name]
    model, arrays = build(), arrays_of(shapes)
    wanted = onnx.reference.ReferenceEvaluator(model).run(None, arrays)
    for make in (suite.evaluated, backend.compiled):
        made = backend.PreparedModel(model, make).run(arrays)
        for value, expected in zip(made, wanted, strict=True):
            np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_have_the_values_of_onnx_runtime(name: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    build, shapes = BLOCKS[name]
    model, arrays = build(), arrays_of(shapes)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    made = backend.PreparedModel(model, suite.evaluated).run(arrays)
    for value, expected in zip(made, session.run(None, arrays), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)


def test_shapes_that_are_computed_from_the_inputs_leave_no_nodes() -> None:
    graph = reader.read_model(builders.transformer_block(), shapes={"batch": 1, "tokens": 4})
    assert not {"Shape", "Gather", "Concat"} & {node.kind for node in graph.nodes}
    assert graph.inputs[0].shape == (1, 4, 16)
