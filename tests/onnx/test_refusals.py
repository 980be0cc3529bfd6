"""Models that cannot be read: the error names the node, the operator, and the remedy."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pegbox.errors import GraphError

onnx = pytest.importorskip("onnx")
builders = pytest.importorskip("onnx_builders")
reader = pytest.importorskip("pegbox.plugins.onnx.reader")
refusal = pytest.importorskip("pegbox.plugins.onnx.refusal")

model, node = builders.model, builders.node
INT64 = onnx.TensorProto.INT64


def damaged(change: Any) -> onnx.ModelProto:
    built = model([node("Abs", "x", "a"), node("Neg", "a", "y")], {"x": [3]}, ["y"])
    change(built.graph)
    return built


def loop() -> onnx.ModelProto:
    given = [onnx.helper.make_tensor_value_info(name, kind, shape)
             for name, kind, shape in (("i", INT64, []), ("c", 9, []), ("s", 1, [3]))]  # fmt: skip
    made = [onnx.helper.make_tensor_value_info("c2", 9, []), onnx.helper.make_tensor_value_info("s2", 1, [3])]
    body = onnx.helper.make_graph([node("Identity", "c", "c2"), node("Neg", "s", "s2")], "body", given, made)
    return model([node("Loop", "n _ x", "y", body=body)], {"x": [3], "n": []}, ["y"], dtypes={"n": INT64})


def branches() -> onnx.ModelProto:
    out = [onnx.helper.make_tensor_value_info("out", 1, [3])]
    graphs = [onnx.helper.make_graph([node(kind, "x", "out")], kind, [], out) for kind in ("Abs", "Neg")]
    return model([node("If", "c", "y", then_branch=graphs[0], else_branch=graphs[1])], {"x": [3], "c": []}, ["y"],
                 dtypes={"c": 9})  # fmt: skip


def foreign() -> onnx.ModelProto:
    built = model([node("Relu", "x", "y")], {"x": [3]}, ["y"])
    built.graph.node[0].op_type, built.graph.node[0].domain = "FusedMatMul", "com.microsoft"
    built.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    return built


def undeclared() -> onnx.ModelProto:
    built = foreign()
    del built.opset_import[-1]
    return built


def of_function() -> onnx.ModelProto:
    inner = onnx.helper.make_node("Absolute", ["p"], ["q"], name="inner")
    built = model([node("Abs", "x", "y")], {"x": [3]}, ["y"])
    versions = [onnx.helper.make_opsetid("", 17)]
    built.functions.append(onnx.helper.make_function("own", "F", ["p"], ["q"], [inner], versions))
    built.graph.node[0].op_type, built.graph.node[0].domain = "F", "own"
    built.opset_import.append(onnx.helper.make_opsetid("own", 1))
    return built


def versions(ir: int, opset: int) -> onnx.ModelProto:
    built = model([node("Abs", "x", "y")], {"x": [3]}, ["y"])
    built.ir_version, built.opset_import[0].version = ir, opset
    return built


def alone(
    kind: str, x: list[int], names: str = "x w", outputs: str = "y", attributes: Any = None, **weights: list[int]
):
    arrays = {name: np.ones(shape, "int8" if name == "z" else "float32") for name, shape in weights.items()}
    return model([node(kind, names, outputs, **(attributes or {}))], {"x": x}, ["y"], arrays)


def of_strings() -> onnx.ModelProto:
    return model([node("Identity", "x", "y")], {"x": [3]}, ["y"], dtypes={"x": 8, "y": 8})


def of_sequences() -> onnx.ModelProto:
    built = model([node("Identity", "x", "y")], {"x": [3]}, ["y"])
    element = onnx.helper.make_tensor_type_proto(1, [3])
    built.graph.input[0].type.CopyFrom(onnx.helper.make_sequence_type_proto(element))
    return built


MODELS = {
    "a cycle": (damaged(lambda g: g.node[0].input.__setitem__(0, "y")),
                "Neg 'Neg_of_y', Abs 'Abs_of_a': .*in a cycle.*damaged"),
    "a missing input": (damaged(lambda g: g.node[0].input.__setitem__(0, "w")), "Abs 'Abs_of_a': nothing makes 'w'"),
    "a missing output": (damaged(lambda g: g.output[0].__setattr__("name", "z")), "outputs: nothing makes 'z'"),
    "a value made twice": (damaged(lambda g: g.node[1].output.append("a")), "makes 'a', as does Abs 'Abs_of_a'"),
    "an input made again": (damaged(lambda g: g.node[1].output.append("x")), "makes 'x', as does an input"),
    "an attribute of another operator": (damaged(lambda g: g.node[0].attribute.append(
        onnx.helper.make_attribute("axis", 1))), "breaks a rule of ONNX: Unrecognized attribute: axis"),
    "an unknown operator": (damaged(lambda g: g.node[0].__setattr__("op_type", "Absolut")),
                            "Absolut 'Abs_of_a': ONNX has no operator Absolut; did you mean Abs.*onnx-operators.md"),
    "an unknown operator without a name": (damaged(lambda g: (g.node[0].ClearField("name"),
                                                              g.node[0].__setattr__("op_type", "Absolute"))),
                                           "Absolute 'a': ONNX has no operator Absolute"),
    "an unknown operator in a function": (of_function(), "Absolute 'inner': ONNX has no operator Absolute"),
    "an operator of a later version": (model([node("Gelu", "x", "y")], {"x": [3]}, ["y"]),
                                       "Gelu 'Gelu_of_y': the operator Gelu came with version 20.*opset_version=20"),
    "a domain without a version": (undeclared(), "FusedMatMul 'Relu_of_y': the operator com.microsoft.FusedMatMul is "
                                                 "not supported.*export the model without it"),
    "a version of the operators that is to come": (versions(8, 999), "of version 999.*pip install -U onnx"),
    "a version of the format that is to come": (versions(999, 17), "version 999 of the format.*pip install -U onnx"),
    "weights of other channels": (alone("Conv", [1, 3, 5, 5], w=[4, 2, 3, 3]),
                                  r"Conv 'Conv_of_y': its W has the shape \[4, 2, 3, 3\].*\[4, 3, 3, 3\]; correct"),
    "channels that no group divides": (alone("Conv", [1, 4, 5, 5], w=[3, 2, 3, 3], attributes={"group": 2}),
                                       "Conv 'Conv_of_y': its W has the shape"),
    "a bias of other channels": (alone("Conv", [1, 2, 5, 5], "x w b", w=[4, 2, 3, 3], b=[3]),
                                 r"Conv 'Conv_of_y': its B has the shape \[3\].*\[4\]"),
    "transposed weights of other channels": (alone("ConvTranspose", [1, 3, 5, 5], w=[4, 2, 3, 3]),
                                             "ConvTranspose 'ConvTranspose_of_y': its X has the shape"),
    "scales of another axis": (alone("DequantizeLinear", [2, 3], "z w", z=[2, 3], w=[4]),
                              "its scale or zero point has"),
    "recurrent weights of another input": (alone("LSTM", [5, 1, 3], "x w r", "_ y", w=[1, 8, 7], r=[1, 8, 2],
                                                 attributes={"hidden_size": 2}), "LSTM .*its W has the shape"),
    "numbers of three parts": (model([node("DFT", "x", "y")], {"x": [2, 8, 3]}, ["y"], opset=20),
                               "DFT 'DFT_of_y': a last axis of 3 elements"),
    "an element count that changes": (model([node("Reshape", "x s", "y")], {"x": [6]}, ["y"], {"s": np.int64([5])}),
                                      r"Reshape 'Reshape_of_y': \[6\] cannot take .*; change the node"),
    "an operator of another domain": (foreign(), "FusedMatMul 'Relu_of_y': the operator com.microsoft.FusedMatMul is "
                                                 "not supported.*onnx-operators.md.*export the model without it"),
    "an operator that is not there yet": (model([node("Unique", "x", "y")], {"x": [3]}, ["y"]),
                                          "Unique 'Unique_of_y': the operator Unique is not supported"),
    "a loop": (loop(), "Loop 'Loop_of_y': .*when the model runs; export the model with the loop unrolled"),
    "branches": (branches(), "If 'If_of_y': its condition is computed when the model runs; export the model with"),
    "strings": (of_strings(), "input 'x': elements of STRING are not supported"),
    "sequences": (of_sequences(), "input 'x': inputs of the kind sequence are not supported"),
    "types that differ": (model([node("Add", "x n", "y")], {"x": [3], "n": [3]}, ["y"], dtypes={"n": INT64}),
                          "breaks a rule of ONNX: .*Add"),
    "shapes that do not fit": (model([node("MatMul", "x w", "y")], {"x": [2, 3]}, ["y"], {"w": np.ones((4, 2), "f")}),
                               "breaks a rule of ONNX: .*MatMul"),
    "an input that no memory holds": (model([node("Mul", "x x", "y")], {"x": [1 << 40]}, ["y"]),
                                      r"input 'x': its shape \[1099511627776\] has 1,099,511,627,776 elements"),
    "a negative extent": (model([node("Abs", "x", "y")], {"x": [-3]}, ["y"]), r"leaves open the shapes of x\[-3\]"),
    "training": (model([node("Dropout", "x r t", "y")], {"x": [3]}, ["y"],
                       {"r": np.float32(0.5), "t": np.asarray(True)}),
                 "Dropout 'Dropout_of_y': .*training"),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_refused_model_says_what_and_why(name: str) -> None:
    built, message = MODELS[name]
    with pytest.raises(GraphError, match=f"(?s){message}"):
        reader.read_model(built)


def test_all_refusals_of_a_model_are_in_one_error() -> None:
    kinds = ["NonZero", "Unique", "Det"]
    nodes = [node(kind, "q" if kind == "Det" else "x", f"{kind}{k}") for kind in kinds for k in range(3)]
    outputs = [each.output[0] for each in nodes]
    dtypes = {name: INT64 for name in outputs if name.startswith("NonZero")}
    with pytest.raises(refusal.RefusedModel) as error:
        reader.read_model(model(nodes, {"x": [3], "q": [2, 2]}, outputs, dtypes=dtypes))
    assert len(error.value.refusals) == 9
    lines = str(error.value).splitlines()
    assert lines[0] == "'m' cannot be read, for 3 reasons:"
    assert lines[1].startswith("    NonZero 'NonZero_of_NonZero0' and 2 more: the operator NonZero is not supported")


def test_an_error_shows_ten_reasons_and_counts_the_others() -> None:
    refusals = [refusal.Refusal(f"Odd 'n{k}'", f"reason {k}") for k in range(25)]
    lines = str(refusal.refused("'m'", refusals)).splitlines()
    assert len(lines) == 12
    assert lines[-1] == "    and 15 other reasons"


def test_nodes_behind_a_refused_one_are_read_if_their_shapes_are_known() -> None:
    nodes = [node("Det", "x", "d"), node("Abs", "d", "a"), node("NonZero", "a", "y")]
    with pytest.raises(refusal.RefusedModel) as error:
        reader.read_model(model(nodes, {"x": [5, 2, 2]}, ["y"], dtypes={"y": INT64}))
    assert [each.what.split()[0] for each in error.value.refusals] == ["Det", "NonZero"]


@pytest.mark.parametrize("content", [b"", b"\x08", b"not a model " * 40, bytes(range(256)), b"\x00" * 100])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(GraphError, match=r"m\.onnx' is (damaged, or )?not an ONNX model"):
        reader.read_model(path)


def test_a_file_that_was_cut_short_or_changed_is_read_or_refused(tmp_path: Path) -> None:
    data = builders.resnet_block().SerializeToString()
    rng, path = random.Random(0), tmp_path / "m.onnx"
    for place in range(60):
        changed = bytearray(data)
        if place % 2:
            del changed[rng.randrange(len(data)) :]
        else:
            for _ in range(3):
                changed[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(changed)
        with warnings.catch_warnings(), contextlib.suppress(GraphError):
            warnings.simplefilter("ignore", RuntimeWarning)
            reader.read_model(path, shapes={"batch": 1})


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.onnx", tmp_path):
        with pytest.raises(GraphError, match="cannot read the model"):
            reader.read_model(path)


def test_nan_in_weights_is_a_warning_that_names_them() -> None:
    weights = {"bad": np.float32([1, np.nan]), "huge": np.float32([1, np.inf]), "good": np.float32([1, 2]),
               "mask": np.float32([0, -np.inf])}  # fmt: skip
    nodes = [node("Sum", "x bad huge good mask", "y")]
    with pytest.warns(RuntimeWarning, match="NaN or infinite, and so may be results: bad, huge;") as warned:
        graph = reader.read_model(model(nodes, {"x": [2]}, ["y"], weights))
    assert len(graph.nodes) == 1
    assert warned[0].filename == __file__


def test_without_the_package_onnx_the_error_says_how_to_install_it() -> None:
    program = """
import sys
sys.modules["onnx"] = None
from pegbox.errors import GraphError
from pegbox.hooks import registry
try:
    registry.get("model_reader", ".onnx")("m.onnx")
except GraphError as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'pegbox[onnx]'" in ran.stdout
