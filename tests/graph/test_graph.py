"""Graphs: nodes of equal meanings share what is found out about them."""

from __future__ import annotations

import copy
import gc
import pickle

import pytest
from graphs import added

from pegbox.errors import ArgumentError
from pegbox.graph import Graph, Node, Value, conv_node, is_pointwise, transpose_node
from pegbox.graph import graph as graph_module
from pegbox.graph.fused_node import fused_node
from pegbox.model import Model


def conv(name: str, side: int = 5, stride: int = 1) -> Node:
    x, w = Value(f"{name}.x", (1, 2, side, side), "float32"), Value(f"{name}.w", (4, 2, 3, 3), "float32")
    return conv_node(name, x, w, strides=(stride, stride), pads=(1, 1, 1, 1), dilations=(1, 1))


def test_equal_nodes_share_a_computation() -> None:
    first, second = conv("a"), conv("b")
    assert first.computation is second.computation
    assert first.computation is not conv("c", side=6).computation
    assert first.computation is not conv("d", stride=2).computation


def test_fused_nodes_share_a_computation_if_their_parts_are_equal_and_connected_alike() -> None:
    def fused(name: str, *, turned: bool = False) -> Node:
        first, other = conv(name), Value(f"{name}.o", (1, 4, 5, 5), "float32")
        pair = (other, first.outputs[0]) if turned else (first.outputs[0], other)
        return fused_node([first, added(f"{name}.s", *pair)])

    assert fused("a").computation is fused("b").computation
    assert fused("a").computation is not fused("b", turned=True).computation


def test_answers_about_a_computation_are_found_once() -> None:
    x = Value("x", (2, 3), "float32")
    first, second = transpose_node("a", x, (1, 0)), transpose_node("b", x, (1, 0))
    assert not is_pointwise(first)
    assert second.computation.answers["is_pointwise"] is False


def test_computations_of_forgotten_nodes_are_forgotten() -> None:
    gc.collect()
    before = len(graph_module._COMPUTATIONS)
    node = conv("a", side=23)
    assert node.computation
    assert len(graph_module._COMPUTATIONS) > before
    del node
    gc.collect()
    assert len(graph_module._COMPUTATIONS) <= before


def test_a_model_is_copied_but_not_pickled() -> None:
    node = conv("c")
    model = Model(Graph("net", node.inputs, node.outputs, (node,), {}))
    assert copy.deepcopy(model).graph is copy.copy(model).graph is model.graph
    with pytest.raises(ArgumentError, match=r"model net cannot be pickled: .*, or pickle pegbox.compile_model"):
        pickle.dumps(model)
