"""Graphs of operators: values, nodes whose meaning is a te computation, constants, and passes over them."""

from pegbox.graph.graph import Graph, Node, Value
from pegbox.graph.kind import has_reduction, is_injective, is_pointwise, is_view
from pegbox.graph.operations import (
    attention_node,
    conv_node,
    make_node,
    matmul_node,
    pointwise_node,
    reshape_node,
    transpose_node,
)
from pegbox.graph.reference import evaluate, run_node

__all__ = [
    "Graph", "Node", "Value", "attention_node", "conv_node", "evaluate", "has_reduction", "is_injective",
    "is_pointwise", "is_view", "make_node", "matmul_node", "pointwise_node", "reshape_node", "run_node",
    "transpose_node",
]  # fmt: skip
