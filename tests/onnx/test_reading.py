"""Graphs of ONNX models: shapes, names, constants, and models that are large or old."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pegbox.errors import ArgumentError, GraphError
from pegbox.graph import Graph, evaluate

onnx = pytest.importorskip("onnx")
builders = pytest.importorskip("onnx_builders")
reader = pytest.importorskip("pegbox.plugins.onnx.reader")
refusal = pytest.importorskip("pegbox.plugins.onnx.refusal")

model, node = builders.model, builders.node


def values_of(graph: Graph, **arrays: Any) -> list[Any]:
    return evaluate(graph, {value: np.asarray(arrays[value.name]) for value in graph.inputs})


def test_a_graph_has_the_names_of_the_file() -> None:
    graph = reader.read_model(builders.depthwise_block())
    assert [str(value) for value in graph.inputs] == ["x: float32[1, 4, 6, 6]"]
    assert [each.kind for each in graph.nodes] == ["Conv", "Clip", "Conv", "Clip", "Conv", "Add"]
    assert str(graph.nodes[3]) == "r2: float32[1, 12, 6, 6] = Clip(c2, min=None, max=6.0)"
    assert {value.name for value in graph.constants} == {"w1", "w2", "w3", "b1"}


@pytest.mark.parametrize(("name", "wanted"), [("main_graph", "encoder"), ("own", "own")])
def test_a_graph_that_an_exporter_named_has_the_name_of_its_file(tmp_path: Path, name: str, wanted: str) -> None:
    built = builders.depthwise_block()
    built.graph.name = name
    onnx.save(built, tmp_path / "encoder.onnx")
    assert reader.read_model(tmp_path / "encoder.onnx").name == wanted
    assert reader.read_model(built).name == {"main_graph": "model"}.get(name, name)


def test_open_dimensions_are_fixed_by_the_shape_of_an_input_or_by_their_names() -> None:
    built = builders.transformer_block()
    by_name = reader.read_model(built, shapes={"batch": 2, "tokens": 3})
    by_input = reader.read_model(built, shapes={"x": (2, 3, 16)})
    by_option = reader.read_model(built, shapes={"batch": (2,), "tokens": (3,)})  # --shape batch=2 --shape tokens=3
    assert str(by_name.outputs[0]) == str(by_input.outputs[0]) == str(by_option.outputs[0]) == "y: float32[2, 3, 16]"


def test_the_shape_of_one_input_fixes_dimensions_of_the_same_name_elsewhere() -> None:
    built = model([node("Add", "x y", "z")], {"x": ["n", 2], "y": ["n", 2]}, ["z"])
    assert reader.read_model(built, shapes={"x": (5, 2)}).inputs[1].shape == (5, 2)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (None, r"leaves open the shapes of x\[batch, tokens, 16\]; give them: shapes=\{'x': \(\.\.\.\)\}, or "
               r"shapes=\{'batch': \.\.\., 'tokens': \.\.\.\}; on the command line --shape x=N,N,\.\.\., "
               r"or --shape batch=N$"),
        ({"batch": 1}, r"leaves open the shapes of x\[batch, tokens, 16\]"),
        ({"x": (1, 2)}, "the input has 3 dimensions"),
        ({"x": (1, 2, 8)}, r"the file fixes its shape to \[batch, tokens, 16\]"),
        ({"x": (1, 2, 16), "batch": 3}, "the dimension 'batch' is 3 elsewhere"),
        ({"x": 4}, "is not a shape"),
        ({"batch": (1, 2)}, "is not an integer"),
        ({"batch": -1}, "out of range"),
        ({"btach": 1}, "neither an input nor a dimension 'btach'; did you mean 'batch'"),
        (7, "is not a mapping"),
    ],
)  # fmt: skip
def test_shapes_that_do_not_fit_are_refused(shapes: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        reader.read_model(builders.transformer_block(), shapes=shapes)


def test_values_that_decide_shapes_come_from_constants_or_are_given() -> None:
    built = model(
        [node("Cast", "n", "m", to=7), node("Reshape", "x m", "y")],
        {"x": [6], "n": [2]}, ["y"], dtypes={"n": onnx.TensorProto.INT32},
    )  # fmt: skip
    with pytest.raises(refusal.DataDependent, match="'m', which depends on the inputs n, decide a shape") as error:
        reader.read_model(built)
    assert error.value.inputs == ("n",)
    graph = reader.read_model(built, values={"n": np.array([2, 3], "int32")})
    assert [value.name for value in graph.inputs] == ["x"]
    assert graph.outputs[0].shape == (2, 3)
    with pytest.raises(ArgumentError, match="the input is int32"):
        reader.read_model(built, values={"n": np.array([2, 3])})


def test_an_if_whose_condition_is_constant_is_replaced_by_its_branch() -> None:
    def branch(kind: str, name: str) -> onnx.GraphProto:
        out = onnx.helper.make_tensor_value_info("out", 1, None)
        return onnx.helper.make_graph([node(kind, "x", "out")], name, [], [out])

    nodes = [
        node("Shape", "x", "s"),
        node("Size", "s", "rank"),
        node("Equal", "rank two", "c"),
        node("If", "c", "y", then_branch=branch("Neg", "then"), else_branch=branch("Abs", "else")),
    ]
    for shape, sign in (([2, 3], -1), ([6], 1)):
        graph = reader.read_model(model(nodes, {"x": shape}, ["y"], {"two": np.asarray(2)}))
        (made,) = values_of(graph, x=np.ones(shape, "float32"))
        assert (made == sign).all()
        assert {each.kind for each in graph.nodes} == {"Neg" if sign < 0 else "Abs", "Identity"}


def test_functions_of_a_model_are_written_as_their_nodes() -> None:
    built = model([node("Relu", "x", "y")], {"x": [3]}, ["y"])
    body = [node("Mul", "a a", "aa"), node("Neg", "aa", "b")]
    function = onnx.helper.make_function("own", "Twice", ["a"], ["b"], body, [onnx.helper.make_opsetid("", 17)])
    built.functions.append(function)
    built.opset_import.append(onnx.helper.make_opsetid("own", 1))
    built.graph.node[0].op_type, built.graph.node[0].domain = "Twice", "own"
    (made,) = values_of(reader.read_model(built), x=np.float32([1, 2, 3]))
    np.testing.assert_array_equal(made, [-1, -4, -9])


def test_nodes_that_the_outputs_do_not_need_are_left_out() -> None:
    built = model([node("Abs", "x", "y"), node("NonZero", "x", "unread")], {"x": [3]}, ["y"])
    assert [each.kind for each in reader.read_model(built).nodes] == ["Abs"]


def test_nodes_in_another_order_than_they_run_in_are_sorted() -> None:
    built = model([node("Abs", "x", "a"), node("Neg", "a", "y")], {"x": [3]}, ["y"])
    nodes = list(built.graph.node)[::-1]
    del built.graph.node[:]
    built.graph.node.extend(nodes)
    assert [each.kind for each in reader.read_model(built).nodes] == ["Abs", "Neg"]


def test_inputs_and_constants_may_be_outputs() -> None:
    built = model([node("Identity", "w", "v")], {"x": [3]}, ["x", "w", "v"], {"w": np.float32([1, 2])})
    x, w, v = values_of(reader.read_model(built), x=np.float32([5, 6, 7]))
    assert (x.tolist(), w.tolist(), v.tolist()) == ([5, 6, 7], [1, 2], [1, 2])


@pytest.mark.parametrize("dtype", [onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16])
def test_weights_of_16_bits_are_read(dtype: int, tmp_path: Path) -> None:
    built = model([node("Add", "x w", "y")], {"x": [2]}, ["y"], dtypes={"x": dtype, "y": dtype})
    built.graph.initializer.append(onnx.helper.make_tensor("w", dtype, [2], [0.5, -3.0]))
    onnx.save(built, tmp_path / "m.onnx")
    graph = reader.read_model(tmp_path / "m.onnx")
    (made,) = values_of(graph, x=np.ones(2, next(iter(graph.constants.values())).dtype))
    assert made.astype("float32").tolist() == [1.5, -2.0]


def test_operators_of_old_versions_are_read_if_they_have_not_changed() -> None:
    assert reader.read_model(model([node("Not", "x", "y")], {"x": [3]}, ["y"], opset=1, dtypes={"x": 9, "y": 9})).nodes
    with pytest.raises(GraphError, match=r"Add 'Add_of_y': the operator of version 6 .*convert_version"):
        reader.read_model(model([node("Add", "x x", "y")], {"x": [3]}, ["y"], opset=6))


def test_ten_thousand_nodes_are_read_in_linear_time_without_recursion() -> None:
    def seconds(count: int) -> float:
        kinds = ("Relu", "Neg", "Sigmoid", "Abs")
        nodes = [node(kinds[k % 4], f"v{k}", f"v{k + 1}") for k in range(count)]
        built = model(nodes, {"v0": [1, 8]}, [f"v{count}"])
        begin = time.perf_counter()
        assert len(reader.read_model(built).nodes) == count
        return time.perf_counter() - begin

    seconds(100)
    assert seconds(10_000) < 60  # 2 s, if nothing else runs


def test_long_chains_of_constants_are_folded_where_they_decide_a_shape() -> None:
    nodes = [node("Add", f"n{k} zero", f"n{k + 1}") for k in range(2_000)]
    built = model([*nodes, node("Reshape", "x n2000", "y")], {"x": [6]}, ["y"],
                  {"n0": np.asarray([2, 3]), "zero": np.asarray([0])})  # fmt: skip
    graph = reader.read_model(built)
    assert [each.kind for each in graph.nodes] == ["Reshape"]
    assert graph.nodes[0].attributes == {"shape": [2, 3], "allowzero": 0} or graph.nodes[0].attributes["shape"] == [
        2,
        3,
    ]


def test_names_of_a_file_are_not_executed(tmp_path: Path) -> None:
    flag = tmp_path / "executed"
    name = f'x = __import__(\'pathlib\').Path({str(flag)!r}).touch()\n; """ % {{0}} \\'
    nodes = [onnx.helper.make_node("Abs", [name], [name + "y"], name=name)]
    graph = reader.read_model(model(nodes, {name: [3]}, [name + "y"]))
    backend = pytest.importorskip("pegbox.plugins.onnx.backend")
    x = np.float32([-1, 2, -3])
    assert evaluate(graph, {graph.inputs[0]: x})[0].tolist() == [1, 2, 3]
    assert backend.compiled(graph)(x)[0].tolist() == [1, 2, 3]
    assert str(graph)
    assert not flag.exists()


def max_of(x: Any, kernel: int, stride: int, before: int) -> Any:
    """The largest element of each window of rows and columns that begins in front of the end."""
    found = np.full((1, 1, *(-(-(e + before) // stride) for e in x.shape[2:])), -np.inf, "float32")
    for i, j in np.ndindex(found.shape[2:]):
        rows, columns = (slice(max(k * stride - before, 0), k * stride - before + kernel) for k in (i, j))
        found[0, 0, i, j] = x[0, 0, rows, columns].max()
    return found


@pytest.mark.parametrize("extents", [(7, 7), (7, 8)])
@pytest.mark.parametrize("opset", [17, 22])
def test_a_window_that_would_begin_behind_the_input_is_left_out(extents: tuple[int, int], opset: int) -> None:
    pool = node("MaxPool", "x", "p", kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1)
    nodes = [pool, node("Flatten", "p", "f"), node("MatMul", "f w", "y")]
    x = np.random.default_rng(0).standard_normal((1, 1, *extents)).astype("float32")
    wanted = max_of(x, 2, 2, 1).reshape(1, -1)
    w = np.eye(wanted.size, dtype="float32")
    built = model(nodes, {"x": [1, 1, *extents]}, ["y"], {"w": w}, opset=opset)
    np.testing.assert_array_equal(values_of(reader.read_model(built), x=x)[0], wanted)


def test_texts_of_a_list_are_read() -> None:
    arrays = {"w": np.ones((1, 4, 1), "float32"), "r": np.ones((1, 4, 1), "float32")}
    lstm = node("LSTM", "x w r", "y", hidden_size=1, activations=["Sigmoid", "Tanh", "Relu"])
    graph = reader.read_model(model([lstm], {"x": [1, 1, 1]}, ["y"], arrays))
    (y,) = values_of(graph, x=np.full((1, 1, 1), 2, "float32"))
    gate = 1 / (1 + np.exp(-2))
    np.testing.assert_allclose(y.item(), gate * gate * np.tanh(2), rtol=1e-5)


def _kinds_of_a_layer(**weights: np.ndarray[Any, Any]) -> list[str]:
    nodes = [node("GRU", "x w r b", "y", hidden_size=3)]
    shapes = {"x": [4, 1, 2], "w": [1, 9, 2], "r": [1, 9, 3], "b": [1, 18]}
    inputs = {name: shape for name, shape in shapes.items() if name not in weights}
    return [each.kind for each in reader.read_model(model(nodes, inputs, ["y"], weights)).nodes]


def test_inputs_of_a_recurrent_layer_are_one_product_where_weights_are_constant() -> None:
    w, r, b = (np.ones(shape, "float32") for shape in ((1, 9, 2), (1, 9, 3), (1, 18)))
    assert _kinds_of_a_layer(w=w, r=r, b=b) == ["MatMul", "Add", "GRU"]
    for weights in ({"w": w, "r": r}, {"w": w, "b": b}, {"r": r, "b": b}):
        assert _kinds_of_a_layer(**weights) == ["GRU"]


def test_a_file_does_not_say_that_the_inputs_are_multiplied_already() -> None:
    layer = node("LSTM", "x w r", "y", hidden_size=1, prepared=1)
    arrays = {"w": np.ones((1, 4, 1), "float32"), "r": np.ones((1, 4, 1), "float32")}
    with pytest.raises(GraphError, match="prepared"):
        reader.read_model(model([layer], {"x": [1, 1, 1]}, ["y"], arrays))


@pytest.mark.parametrize(("start", "end", "step"), [(-9, -99, -1), (-9, 2, 1), (9, -9, -2), (2, -99, -1)])
def test_slices_that_begin_or_end_beyond_an_axis(start: int, end: int, step: int) -> None:
    """A start in front of the first element is the first element, with a negative step too."""
    places = {"b": np.array([start]), "e": np.array([end]), "a": np.array([0]), "s": np.array([step])}
    graph = reader.read_model(model([node("Slice", "x b e a s", "y")], {"x": [4]}, ["y"], places))
    (y,) = values_of(graph, x=np.arange(4, dtype="float32"))
    wanted = {-9: [0] if step < 0 else [0, 1], 9: [3, 1], 2: [2, 1, 0]}[start]
    assert y.tolist() == wanted


def test_what_output_shape_cuts_off_a_transposed_convolution_is_more_in_front() -> None:
    transposed = node("ConvTranspose", "x w", "y", output_shape=[4], strides=[2])
    graph = reader.read_model(model([transposed], {"x": [1, 1, 2]}, ["y"], {"w": np.ones((1, 1, 3), "float32")}))
    (y,) = values_of(graph, x=np.array([[[1, 2]]], "float32"))
    assert y.tolist() == [[[1, 3, 2, 2]]]


@pytest.mark.parametrize(
    ("kind", "indices"),
    [("Gather", [0, -1, 9, -9]), ("GatherElements", [[0, -1, 9, -9]]), ("GatherND", [[0], [-1], [9], [-9]])],
)
def test_no_index_is_read_outside_of_the_array(kind: str, indices: Any) -> None:
    """Indices that ONNX does not allow give the nearest element."""
    given = np.array(indices, "int64")
    attributes = {} if kind == "GatherND" else {"axis": given.ndim - 1}
    x = np.array([1, 2, 3, 4], "float32").reshape((1,) * (given.ndim - 1) + (4,) if attributes else (4,))
    built = model([node(kind, "x i", "y", **attributes)], {"x": x.shape, "i": given.shape}, ["y"], dtypes={"i": 7})
    (y,) = values_of(reader.read_model(built), x=x, i=given)
    assert y.ravel().tolist() == [1, 4, 4, 1]


def test_lengths_beyond_the_steps_of_a_sequence_are_all_steps() -> None:
    arrays = {"w": np.ones((1, 1, 1), "float32"), "r": np.ones((1, 1, 1), "float32")}
    rnn = node("RNN", "x w r _ n", "y", hidden_size=1, direction="reverse")
    graph = reader.read_model(model([rnn], {"x": [2, 1, 1], "n": [1]}, ["y"], arrays, dtypes={"n": 6}))
    x = np.array([[[1]], [[2]]], "float32")
    found = [values_of(graph, x=x, n=np.array([length], "int32"))[0].tolist() for length in (2, 99)]
    assert found[0] == found[1]


def test_one_output_of_pytorch_half_pixel_is_the_first_element() -> None:
    resize = node("Resize", "x _ _ s", "y", mode="cubic", coordinate_transformation_mode="pytorch_half_pixel")
    built = model([resize], {"x": [1, 1, 4]}, ["y"], {"s": np.array([1, 1, 1])})
    (y,) = values_of(reader.read_model(built), x=np.array([[[1, 5, 2, 8]]], "float32"))
    assert y.tolist() == [[[1]]]


def test_aligned_corners_with_a_scale_between_whole_extents_are_refused() -> None:
    resize = node("Resize", "x _ s", "y", mode="linear", coordinate_transformation_mode="align_corners")
    for scale, is_refused in ((1.5, False), (1.25, False), (1.3, True)):
        built = model([resize], {"x": [1, 1, 4]}, ["y"], {"s": np.array([1, 1, scale], "float32")})
        if is_refused:
            with pytest.raises(GraphError, match="align_corners with a scale that gives no whole extent"):
                reader.read_model(built)
        else:
            assert reader.read_model(built).outputs[0].shape == (1, 1, 4 * scale)


def test_equal_nodes_have_one_meaning() -> None:
    nodes = [node("Pad", "x p", "a"), node("Pad", "a p", "b"), node("Pad", "x q", "c"), node("Pad", "x p", "d")]
    weights = {"p": np.array([0, 1]), "q": np.array([1, 0])}
    graph = reader.read_model(model(nodes, {"x": [3]}, ["b", "c", "d"], weights))
    by_name = {each.outputs[0].name: each for each in graph.nodes}
    assert by_name["a"].compute is by_name["d"].compute
    assert by_name["a"].compute is not by_name["c"].compute
    assert by_name["a"].compute is not by_name["b"].compute


@pytest.mark.parametrize(("kind", "function"), [("Sum", np.add.reduce), ("Mean", np.mean), ("Max", np.max)])
def test_operators_of_many_inputs_are_no_deep_expressions(kind: str, function: Any) -> None:
    arrays = {f"x{number}": np.float32([number, -number]) for number in range(2000)}
    graph = reader.read_model(model([node(kind, " ".join(arrays), "y")], dict.fromkeys(arrays, (2,)), ["y"]))
    (found,) = values_of(graph, **arrays)
    np.testing.assert_allclose(found, function(list(arrays.values()), axis=0), rtol=1e-6)
