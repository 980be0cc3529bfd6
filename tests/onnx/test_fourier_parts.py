"""ONNX's `DFT` and `STFT` as products with a matrix, and those that stay one node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pegbox.errors import GraphError

onnx = pytest.importorskip("onnx")
operators = pytest.importorskip("onnx_operators")
reader = pytest.importorskip("pegbox.plugins.onnx.reader")
passes = pytest.importorskip("pegbox.graph.passes")
floats = operators.floats


def kinds(kind: str, inputs: dict[str, Any], **options: Any) -> list[str]:
    """List the kinds of a model's nodes."""
    model = operators.one_operator(kind, inputs, **options)
    graph = passes.optimize(reader.read_model(model))
    return [part.kind for node in graph.nodes for part in node.parts or (node,)]


@pytest.mark.parametrize(
    ("shape", "given", "attributes"),
    [
        ((2, 30, 1), {"axis": 1}, {}),
        ((2, 30, 2), {"length": 32, "axis": 1}, {}),
        ((2, 30, 2), {"length": 17, "axis": -2}, {}),
        ((3, 7, 5, 2), {"axis": 0}, {}),
        ((3, 8, 5, 1), {"axis": 1}, {"onesided": 1}),
        ((2, 9, 2), {"axis": 1}, {"inverse": 1, "onesided": 1}),
        ((2, 9, 2), {"length": 15, "axis": 1}, {"inverse": 1, "onesided": 1}),
        ((2, 9, 2), {"length": 6, "axis": 1}, {"inverse": 1, "onesided": 1}),
        ((2, 9, 2), {"axis": 1}, {"inverse": 1}),
        ((3, 8, 5, 1), {"length": 7, "axis": 1}, {"inverse": 1}),
        ((8, 100_000, 1), {"length": 16, "axis": 1}, {}),
    ],
)
def test_a_transform_is_a_product(shape: tuple[int, ...], given: dict[str, int], attributes: dict[str, int]) -> None:
    inputs = {"x": floats(*shape), **{name: np.int64(value) for name, value in given.items()}}
    options = {"order": "x length axis" if "length" in given else "x _ axis", "opset": 20, "weights": list(given)}
    assert "MatMul" in kinds("DFT", inputs, **options, **attributes)
    operators.check("DFT", inputs, **options, **attributes)


@pytest.mark.parametrize("attributes", [{"inverse": 1, "onesided": 1}, {"inverse": 1}, {}])
@pytest.mark.parametrize("length", [6, 7, 8, 9, 20, 21])
def test_a_transform_of_short_floats_is_a_node(length: int, attributes: dict[str, int]) -> None:
    """Frequencies and samples that are not given are 0."""
    inputs = {"x": floats(2, 4, 2).astype("float16"), "length": np.int64(length), "axis": np.int64(1)}
    options = {"opset": 20, "weights": ["length", "axis"], "types": {"out": onnx.TensorProto.FLOAT16}, **attributes}
    assert kinds("DFT", inputs, **options) == ["DFT"]
    operators.check("DFT", inputs, tolerance=2e-3, **options)


@pytest.mark.parametrize(("parts", "onesided"), [(1, 1), (1, 0), (2, 0)])
def test_frames_of_a_signal_are_rows_of_a_product(parts: int, onesided: int) -> None:
    inputs = {"x": floats(2, 100, parts), "step": np.int64(7), "window": np.hanning(16).astype("float32")}
    known = ["step", "window"]
    assert "MatMul" in kinds("STFT", inputs, opset=17, weights=known, onesided=onesided)
    operators.check("STFT", inputs, opset=17, weights=known, onesided=onesided)


def test_a_window_that_is_not_constant_stays_a_node() -> None:
    inputs = {"x": floats(1, 64, 1), "step": np.int64(8), "window": floats(16)}
    assert kinds("STFT", inputs, opset=17, weights=["step"]) == ["STFT"]
    operators.check("STFT", inputs, opset=17, weights=["step"])


@pytest.mark.parametrize(("rows", "extent", "kind"), [(1, 1000, "DFT"), (8, 1000, "MatMul"), (8, 4000, "DFT")])
def test_a_matrix_larger_than_it_is_worth_is_not_made(rows: int, extent: int, kind: str) -> None:
    """One row would read each number of the matrix once."""
    inputs = {"x": floats(rows, extent, 2), "axis": np.int64(1)}
    assert kind in kinds("DFT", inputs, order="x _ axis", opset=20, weights=["axis"])


@pytest.mark.parametrize(
    ("kind", "order", "numbers", "message"),
    [
        ("STFT", "x step _ length", {"step": 0, "length": 16}, "frame_step=0"),
        ("DFT", "x length axis", {"length": -3, "axis": 1}, "dft_length=-3"),
    ],
)
def test_sizes_below_one_are_refused(kind: str, order: str, numbers: dict[str, int], message: str) -> None:
    inputs = {"x": floats(2, 64, 1), **{name: np.int64(value) for name, value in numbers.items()}}
    with pytest.raises(GraphError, match=message):
        kinds(kind, inputs, order=order, opset=20, weights=list(numbers))
