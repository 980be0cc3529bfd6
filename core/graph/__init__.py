"""Graphs of operators: values, nodes whose meaning is a te computation, constants, and passes over them."""

from pegbox.graph.graph import Graph, Node, Value
from pegbox.graph.reference import evaluate, run_node

__all__ = ["Graph", "Node", "Value", "evaluate", "run_node"]
