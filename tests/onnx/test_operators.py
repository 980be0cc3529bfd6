"""Operators of ONNX with attributes and shapes that ONNX's own tests leave out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pegbox as pb
from pegbox.model import Model

onnx = pytest.importorskip("onnx")
operators = pytest.importorskip("onnx_operators")
backend = pytest.importorskip("pegbox.plugins.onnx.backend")
reader = pytest.importorskip("pegbox.plugins.onnx.reader")
sorting = pytest.importorskip("pegbox.plugins.onnx.operators.sorting")
refusal = pytest.importorskip("pegbox.plugins.onnx.refusal")
check, floats, integers = operators.check, operators.floats, operators.integers

INT64, UINT8 = 7, 2
few = st.integers(1, 4)


@given(st.data())
def test_slices_with_any_steps(data: st.DataObject) -> None:
    extent = data.draw(st.integers(1, 6))
    start, end = data.draw(st.integers(-8, 8)), data.draw(st.integers(-8, 8))
    step = data.draw(st.sampled_from([-3, -2, -1, 1, 2, 3]))
    if len(range(extent)[start : None if step < 0 and end < -extent else end : step]):
        parts = {name: np.array([n]) for name, n in (("start", start), ("end", end), ("axis", 1), ("step", step))}
        check("Slice", {"x": floats(2, extent), **parts}, weights=[*parts])


@given(few, few, st.sampled_from([-1, 0, 1]), st.booleans())
def test_gather_at_known_and_unknown_indices(rows: int, count: int, axis: int, known: bool) -> None:
    x = floats(rows + 1, 3)
    indices = integers(-x.shape[axis], x.shape[axis], count, 2)
    check("Gather", {"x": x, "i": indices}, weights=["i"] * known, axis=axis)


def test_known_indices_in_steps_are_no_input_of_the_kernel() -> None:
    model = operators.one_operator("Gather", {"x": floats(5, 4), "i": np.array([3, 1])}, weights=["i"], axis=0)
    (node,) = reader.read_model(model).nodes
    assert [value.name for value in node.inputs] == ["x"]


def test_known_bounds_of_clip_are_literals() -> None:
    low, high = np.float32(0), np.float32(6)
    inputs = {"x": 9 * floats(40), "low": np.asarray(low), "high": np.asarray(high)}
    model = operators.one_operator("Clip", inputs, weights=["low", "high"])
    (node,) = reader.read_model(model).nodes
    assert [value.name for value in node.inputs] == ["x"]
    check("Clip", inputs, weights=["low", "high"])
    check("Clip", inputs)
    check("Clip", {"x": inputs["x"], "high": inputs["high"]}, order="x _ high")


@pytest.mark.parametrize("exponent", [-1.0, -0.5, 0.5, 1.0, 1.7, 2.0, 3.0])
def test_powers_with_known_exponents(exponent: float) -> None:
    check("Pow", {"x": np.abs(floats(7)) + 0.5, "y": np.asarray(np.float32(exponent))}, weights=["y"])


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pads(mode: str) -> None:
    pads = np.array([1, 2, 2, 3])
    check("Pad", {"x": floats(4, 5), "pads": pads}, weights=["pads"], mode=mode)


def test_negative_pads_cut() -> None:
    pytest.importorskip("onnxruntime")
    pads = np.array([-1, 2, 1, -2])
    x = floats(4, 5)
    (made,) = check("Pad", {"x": x, "pads": pads}, weights=["pads"], runtime=True)
    np.testing.assert_array_equal(made, np.pad(x[1:, :-2], ((0, 1), (2, 0))))


@given(few, st.booleans(), st.sampled_from([0, 1, -1]))
def test_the_largest_and_the_smallest_elements(count: int, largest: bool, axis: int) -> None:
    x = integers(0, 4, 5, 6, dtype="float32")  # with equal ones
    types = {"i": INT64}
    check("TopK", {"x": x, "k": np.array([count])}, "v i", weights=["k"], types=types, largest=int(largest), axis=axis)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
def test_top_k_finds_few_of_many_elements(dtype: str, axis: int, largest: bool) -> None:
    shape = [3, 2, 3]
    shape[axis] = 3 * sorting.FEW + 1
    x = integers(0, 4, *shape, dtype=dtype)  # with equal ones
    if dtype == "float32":
        x[x == 0], x[x == 3] = -np.inf, np.inf
    else:
        x[x == 0], x[x == 3] = np.iinfo(dtype).min if dtype[0] == "i" else -np.inf, 7
    types = {"i": INT64, "v": onnx.helper.np_dtype_to_tensor_dtype(x.dtype)}
    check("TopK", {"x": x, "k": np.array([3])}, "v i", weights=["k"], types=types, largest=int(largest), axis=axis)


@pytest.mark.parametrize("axis", [0, 1])
def test_compiled_code_finds_few_of_many_elements(axis: int) -> None:
    x = np.round(floats(40, 40), 1)  # with equal ones
    model = operators.one_operator(
        "TopK", {"x": x, "k": np.array([4])}, "v i", weights=["k"], types={"i": INT64}, axis=axis
    )
    values, places = pb.compile_model(Model(reader.read_model(model)), target="llvm -num-cores 1", store=None)(x)
    wanted = np.take(np.argsort(-x, axis=axis, kind="stable"), range(4), axis=axis)
    np.testing.assert_array_equal(places, wanted)
    np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, axis=axis))


@pytest.mark.parametrize("axis", [0, 1])
def test_compiled_code_finds_many_elements_of_long_rows(axis: int) -> None:
    x = np.round(floats(130, 130), 1)  # with equal ones
    x[x > 1.5], x[x < -1.5], x[x == 0.3], x[x == 0] = np.nan, -np.inf, 0.0, -0.0
    for count in (40, 97, 110):
        model = operators.one_operator(
            "TopK", {"x": x, "k": np.array([count])}, "v i", weights=["k"], types={"i": INT64}, axis=axis
        )
        values, places = pb.compile_model(Model(reader.read_model(model)), target="llvm -num-cores 1", store=None)(x)
        wanted = np.take(
            np.argsort(np.where(np.isnan(x), -np.inf, -x), axis=axis, kind="stable"), range(count), axis=axis
        )
        np.testing.assert_array_equal(places, wanted)
        np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, axis=axis))


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int32", "int64", "uint32", "uint64"])
@pytest.mark.parametrize(("extent", "count"), [(16, 3), (16, 16), (130, 30)])
def test_top_k_orders_as_onnx_runtime_does(extent: int, count: int, dtype: str, largest: bool) -> None:
    """NaN is the largest, both zeros are equal, and of equal elements the first comes first."""
    pytest.importorskip("onnxruntime")
    if dtype[0] == "f":
        some = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, np.finfo(dtype).tiny, np.finfo(dtype).max])
    else:
        info = np.iinfo(dtype)
        some = np.array([info.min, info.max, info.max // 2, info.max // 2 + 1, 3], dtype)
    x = np.random.default_rng(extent).choice(some, (3, extent)).astype(dtype)
    types = {"i": INT64, "v": onnx.helper.np_dtype_to_tensor_dtype(x.dtype)}
    inputs = {"x": x, "k": np.array([count])}
    runtime = dtype in ("float32", "float64", "int32", "int64")  # what it has
    check("TopK", inputs, "v i", weights=["k"], types=types, largest=int(largest), runtime=runtime)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scattered_elements(reduction: str) -> None:
    indices = np.stack([np.random.default_rng(n).permutation(5)[:3] for n in range(2)], axis=1)
    inputs = {"x": floats(5, 3), "i": indices - 5 * (indices % 2), "u": floats(3, 2, seed=1)}
    check("ScatterElements", inputs, reduction=reduction, axis=0)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scattered_rows(reduction: str) -> None:
    inputs = {"x": floats(4, 3, 2), "i": np.array([[2, 1], [0, -1], [3, 0]]), "u": floats(3, 2, seed=1)}
    check("ScatterND", inputs, reduction=reduction)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("...ij,...jk", [(2, 3, 4), (1, 4, 5)]),
        ("ii->i", [(4, 4)]),
        ("i,j,k->kji", [(2,), (3,), (4,)]),
        ("ab->", [(3, 4)]),
    ],
)
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    inputs = {f"x{n}": floats(*shape, seed=n) for n, shape in enumerate(shapes)}
    check("Einsum", inputs, equation=equation, tolerance=1e-4)


@given(st.data())
def test_resized_images(data: st.DataObject) -> None:
    mode = data.draw(st.sampled_from(["nearest", "linear", "cubic"]))
    transformation = data.draw(st.sampled_from(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]))
    sizes = np.array([1, 2, data.draw(st.integers(2, 9)), data.draw(st.integers(2, 9))])
    inputs = {"x": floats(1, 2, 4, 5), "sizes": sizes}
    check(
        "Resize", inputs, order="x _ _ sizes", weights=["sizes"], mode=mode, tolerance=1e-4,
        coordinate_transformation_mode=transformation, nearest_mode="floor",
    )  # fmt: skip


def test_resizing_by_two_reads_pixels_at_half_the_index() -> None:
    inputs = {"x": floats(1, 1, 3, 3), "s": np.array([1, 1, 2, 2], "float32")}
    options: dict[str, Any] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    (made,) = check("Resize", inputs, order="x _ s", weights=["s"], mode="nearest", **options)
    np.testing.assert_array_equal(made, inputs["x"].repeat(2, 2).repeat(2, 3))


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_sampled_grids(mode: str, padding: str) -> None:
    inputs = {"x": floats(1, 2, 4, 5), "grid": 1.5 * floats(1, 3, 3, 2, seed=2)}
    is_wrong = (mode, padding) == ("cubic", "border")  # in onnx's evaluator, but not in ONNX Runtime and torch
    check("GridSample", inputs, mode=mode, padding_mode=padding, tolerance=1e-4, runtime=is_wrong)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 0, 0, 1]])
def test_transposed_convolutions(stride: int, group: int, pads: list[int]) -> None:
    inputs = {"x": floats(1, 4, 3, 4), "w": floats(4, 3, 2, 3, seed=1), "b": floats(3 * group, seed=2)}
    check("ConvTranspose", inputs, strides=[stride] * 2, group=group, pads=pads, tolerance=1e-4, runtime=True)


def test_transposed_convolutions_with_windows_side_by_side() -> None:
    inputs = {"x": floats(1, 4, 3, 4), "w": floats(4, 3, 2, 2, seed=1)}
    check("ConvTranspose", inputs, strides=[2, 2], tolerance=1e-4, runtime=True)


@pytest.mark.parametrize("whole", [0, 1])
@pytest.mark.parametrize("ceil", [0, 1])
def test_averages_of_windows(whole: int, ceil: int) -> None:
    pytest.importorskip("onnxruntime")
    inputs = {"x": floats(1, 2, 6, 7)}
    options: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 0, 1, 1]}
    check("AveragePool", inputs, count_include_pad=whole, ceil_mode=ceil, runtime=True, **options)


@pytest.mark.parametrize("whole", [0, 1])
@pytest.mark.parametrize("opset", [11, 19, 22])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_shape": [3, 1], "strides": [3, 3]},  # no window reads the last column
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 1, 1]},
        {"kernel_shape": [3, 2], "strides": [3, 3], "pads": [1, 1, 1, 1]},
        {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 1, 1, 0]},
    ],
)
def test_averages_count_borders_but_not_what_windows_read_behind_them(
    whole: int, opset: int, options: dict[str, Any]
) -> None:
    pytest.importorskip("onnxruntime")
    inputs = {"x": floats(1, 2, 4, 5)}
    check("AveragePool", inputs, count_include_pad=whole, ceil_mode=1, opset=opset, runtime=True, **options)


def test_the_average_of_a_window_outside_the_image_is_zero() -> None:
    pytest.importorskip("onnxruntime")
    check(
        "AveragePool", {"x": floats(1, 1, 2, 5)}, kernel_shape=[2, 2], dilations=[3, 1], pads=[1, 0, 1, 0], runtime=True
    )


@pytest.mark.parametrize("kind", ["AveragePool", "MaxPool", "LpPool"])
@pytest.mark.parametrize("options", [{"pads": [2, 1, 0, 3]}, {"strides": [2, 1]}, {"kernel_shape": [4, 5, 3]}])
def test_large_windows_are_combined_from_lines(kind: str, options: dict[str, Any]) -> None:
    pytest.importorskip("onnxruntime")
    given: dict[str, Any] = {"kernel_shape": [5, 4], **options}
    inputs = {"x": floats(1, 2, *([7, 8, 9][-len(given["kernel_shape"]) :]))}
    check(kind, inputs, runtime=True, opset=17, **given)


def test_places_of_the_largest_elements() -> None:
    inputs = {"x": floats(2, 3, 5, 6)}
    options: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    pytest.importorskip("onnxruntime")
    check("MaxPool", inputs, "y i", types={"i": INT64}, runtime=True, opset=17, **options)


@pytest.mark.parametrize("extents", [(6,), (5, 6), (3, 4, 5)])
@pytest.mark.parametrize("storage_order", [0, 1])
def test_the_first_of_equal_largest_elements_is_found_by_rows(extents: tuple[int, ...], storage_order: int) -> None:
    pytest.importorskip("onnxruntime")
    inputs = {"x": integers(0, 3, 2, 2, *extents).astype("float32")}
    options: dict[str, Any] = {"kernel_shape": [2] * len(extents), "storage_order": storage_order}
    check("MaxPool", inputs, "y i", types={"i": INT64}, runtime=True, opset=17, **options)


def test_nan_is_the_largest_element_and_has_a_place() -> None:
    x = np.array([1, np.nan, 3, np.nan, np.nan, 7, 2, 9], "float32").reshape(1, 1, 8)
    model = operators.one_operator("MaxPool", {"x": x}, "y i", types={"i": INT64}, opset=17, kernel_shape=[2])
    values, places = backend.PreparedModel(model, pytest.importorskip("onnx_suite").evaluated).run({"x": x})
    np.testing.assert_array_equal(values.ravel(), [np.nan, np.nan, np.nan, np.nan, np.nan, 7, 9])
    np.testing.assert_array_equal(places.ravel(), [1, 1, 3, 3, 4, 5, 7])


@pytest.mark.parametrize(("kernel", "stride", "dilation"), [(2, 1, 2), (3, 1, 2), (3, 2, 3)])
def test_borders_of_equal_size_count_dilated_windows(kernel: int, stride: int, dilation: int) -> None:
    options = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "dilations": [dilation] * 2}
    check("MaxPool", {"x": floats(1, 2, 7, 7)}, auto_pad="SAME_UPPER", **options)


@pytest.mark.parametrize("kind", ["CumSum", "CumProd"])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
def test_running_sums_and_products(kind: str, reverse: int, exclusive: int) -> None:
    opset = 26 if kind == "CumProd" else 21
    if opset > onnx.defs.onnx_opset_version():
        pytest.skip("this version of onnx lacks the operator")
    inputs = {"x": floats(3, 5), "axis": np.asarray(1)}
    check(kind, inputs, weights=["axis"], reverse=reverse, exclusive=exclusive, opset=opset)


@pytest.mark.parametrize("kind", ["LayerNormalization", "RMSNormalization"])
def test_normalized_rows(kind: str) -> None:
    inputs = {"x": floats(2, 3, 8), "scale": floats(8, seed=1)}
    check(kind, inputs, opset=23, tolerance=1e-4)


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("kind", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("constant", [False, True])
def test_recurrent_layers(kind: str, gates: int, direction: str, ragged: bool, constant: bool) -> None:
    pytest.importorskip("onnxruntime")
    hidden = 18 if constant else 2  # weights of the former are laid out in panels of 16 columns
    steps, batch, size, count = 5, 3, 4, 1 + (direction == "bidirectional")
    inputs = {
        "x": floats(steps, batch, size),
        "w": floats(count, gates * hidden, size, seed=1),
        "r": floats(count, gates * hidden, hidden, seed=2),
        "b": floats(count, 2 * gates * hidden, seed=3),
        "n": np.array([5, 2, 3], "int32") if ragged else np.array([5, 5, 5], "int32"),
        "h": floats(count, batch, hidden, seed=4),
    }
    outputs = "y y_h y_c" if kind == "LSTM" else "y y_h"
    if kind == "LSTM":
        inputs |= {"c": floats(count, batch, hidden, seed=5), "p": floats(count, 3 * hidden, seed=6)}
    options = {"linear_before_reset": int(ragged)} if kind == "GRU" else {}
    order = " ".join(inputs) if ragged else " ".join(inputs).replace("n", "_")
    given = inputs if ragged else {name: array for name, array in inputs.items() if name != "n"}
    check(kind, given, outputs, order=order, runtime=True, tolerance=1e-4, direction=direction, hidden_size=hidden,
          opset=17, weights=["w", "r", "b"] if constant else [], **options)  # fmt: skip


@pytest.mark.parametrize(("kind", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_constant_weights_have_the_values_of_computed_ones_where_the_batch_comes_first(kind: str, gates: int) -> None:
    inputs = {
        "x": floats(3, 5, 4),
        "w": floats(2, gates * 6, 4, seed=1),
        "r": floats(2, gates * 6, 6, seed=2),
        "b": floats(2, 2 * gates * 6, seed=3),
    }
    options: dict[str, Any] = {"direction": "bidirectional", "hidden_size": 6, "layout": 1}
    whole, parts = (
        backend.PreparedModel(operators.one_operator(kind, inputs, weights=weights, **options), backend.compiled)
        for weights in ([], ["w", "r", "b"])
    )
    for made, wanted in zip(parts.run({"x": inputs["x"]}), whole.run(inputs), strict=True):
        np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-6)


def test_long_sequences_are_one_scan() -> None:
    inputs = {"x": floats(300, 1, 4), "w": floats(1, 32, 4, seed=1), "r": floats(1, 32, 8, seed=2)}
    model = operators.one_operator("LSTM", inputs, hidden_size=8)
    made = backend.PreparedModel(model, backend.compiled).run(inputs)
    wanted = onnx.reference.ReferenceEvaluator(model).run(None, inputs)
    np.testing.assert_allclose(made[0], wanted[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_quantized_products_are_exact(dtype: str) -> None:
    a, b = integers(0, 100, 3, 20, dtype=dtype), integers(0, 100, 20, 4, dtype=dtype, seed=1)
    zeros = {"za": np.asarray(7, dtype), "zb": integers(0, 9, 4, dtype=dtype)}
    (made,) = check("MatMulInteger", {"a": a, "b": b, **zeros}, types={"out": 6})
    wanted = (a.astype(int) - int(zeros["za"])) @ (b.astype(int) - zeros["zb"].astype(int))
    np.testing.assert_array_equal(made, wanted)


@given(st.sampled_from([0, 1, -1]), st.booleans())
def test_quantizing_rounds_and_saturates(axis: int, along: bool) -> None:
    x = 200 * floats(3, 4)
    count = (x.shape[axis],) if along else ()
    scale, zero = np.abs(floats(*count)) + np.float32(0.3), integers(0, 200, *count, dtype="uint8")
    inputs = {"x": x, "scale": np.asarray(scale), "zero": np.asarray(zero)}
    check("QuantizeLinear", inputs, types={"out": UINT8}, axis=axis)
    inputs["x"] = integers(0, 255, 3, 4, dtype="uint8")
    check("DequantizeLinear", inputs, axis=axis)


def test_attention_of_grouped_queries_with_a_cache() -> None:
    inputs = {
        "q": floats(2, 4, 3, 8), "k": floats(2, 2, 5, 8, seed=1), "v": floats(2, 2, 5, 6, seed=2),
        "past_k": floats(2, 2, 2, 8, seed=3), "past_v": floats(2, 2, 2, 6, seed=4),
    }  # fmt: skip
    order = "q k v _ past_k past_v"
    check("Attention", inputs, "y k2 v2", order=order, is_causal=1, opset=23, tolerance=1e-4)


@pytest.mark.parametrize("kind", ["LogSoftmax", "LayerNormalization", "MatMul", "Gelu"])
def test_floats_of_16_bits_are_rounded_once(kind: str) -> None:
    x = floats(4, 40).astype("float16")
    more = {"MatMul": {"w": floats(40, 3).astype("float16")}, "LayerNormalization": {"s": np.ones(40, "float16")}}
    model = operators.one_operator(kind, {"x": x, **more.get(kind, {})}, types={"out": 10})
    wide = {name: array.astype("float32") for name, array in {"x": x, **more.get(kind, {})}.items()}
    (wanted,) = onnx.reference.ReferenceEvaluator(operators.one_operator(kind, wide)).run(None, wide)
    (made,) = backend.PreparedModel(model, pytest.importorskip("onnx_suite").evaluated).run(
        {"x": x, **more.get(kind, {})}
    )
    np.testing.assert_array_almost_equal_nulp(made, wanted.astype("float16"), nulp=1)


@pytest.mark.parametrize("axis", [0, 2])
def test_parts_without_elements_are_arrays(axis: int) -> None:
    inputs = {"x": floats(2, 1, 3), "sizes": np.array([0, 2] if axis == 0 else [3, 0])}
    a, b = check("Split", inputs, "a b", weights=["sizes"], axis=axis)
    assert 0 in (a.size, b.size)


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        ("Einsum", {"equation": "i,ij->i"}, "extents 3 and 4"),
        ("BatchNormalization", {"training_mode": 1}, "training mode"),
    ],
)
def test_what_cannot_be_computed_is_refused(kind: str, options: dict[str, Any], reason: str) -> None:
    inputs = (
        {"x": floats(3), "y": floats(4, 2)}
        if kind == "Einsum"
        else {"x": floats(1, 2, 3), **{name: floats(2) for name in ("scale", "bias", "mean", "variance")}}
    )
    outputs = "z" if kind == "Einsum" else "z m v"
    model = operators.one_operator(kind, inputs, outputs, **options)
    with pytest.raises(refusal.RefusedModel, match=reason):
        reader.read_model(model)
