"""`Model`: a graph as it was read, and as it is compiled."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from pegbox.codegen.targets.target import Target, target_of
from pegbox.graph import Graph
from pegbox.graph.passes import optimize
from pegbox.hooks import registry
from pegbox.model.module import Module
from pegbox.model.selection import select
from pegbox.operators.kernel_library import StoreLike
from pegbox.store import user_store


class Model:
    """A model.

    Attributes:
        graph: the graph as it was read.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    @cached_property
    def optimized(self) -> Graph:
        """The graph whose nodes are compiled."""
        return optimize(self.graph)

    def __str__(self) -> str:
        return str(self.optimized)


def load_model(path: str | os.PathLike[str], *, shapes: Mapping[str, Sequence[int]] | None = None) -> Model:
    """Read a model from a file.

    Args:
        shapes: the shapes of inputs whose dimensions the file leaves open.
    """
    reader = registry.get("model_reader", Path(path).suffix)
    return Model(reader(path, shapes=shapes))


def compile_model(model: Model, *, target: str | Target | None = None, store: StoreLike = "user") -> Module:
    """Compile a model with what the store knows of its tasks, and otherwise with predicted configurations."""
    graph = model.optimized
    return Module(graph, select(graph, target_of(target), store=user_store() if store == "user" else store))
