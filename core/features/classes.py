"""Classes of configurations whose programs differ in numbers only: a tree of the questions of traced runs.

Each leaf is one class: the nodes of its description, or None where the template refuses. A run is deterministic, so
that configurations which gave the same answers so far ask the same question next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pegbox.features.graph import Evaluation, Floats, NumberGraph
from pegbox.features.row_values import RowValues
from pegbox.space.digits import Digits

Rows: TypeAlias = npt.NDArray[np.intp]


@dataclass(eq=False)
class Leaf:
    """A class: its number, the nodes of its description (None: the template refuses), the questions and answers."""

    number: int
    nodes: tuple[int, ...] | None
    path: tuple[tuple[int, int], ...]
    row: Digits
    """The configuration that it was found with."""


@dataclass(eq=False)
class NodeQuestion:
    """The value of a node decides how to go on."""

    node: int
    answers: dict[int, Leaf | NodeQuestion] = field(default_factory=dict)


class Conflict(Exception):
    """A run asked something else than an earlier one that had the same answers: the template remembers its runs.

    Attributes:
        other: the class of an earlier one.
    """

    def __init__(self, other: Leaf) -> None:
        super().__init__(other)
        self.other = other


class Classes:
    """All classes that were found so far."""

    def __init__(self, graph: NumberGraph) -> None:
        self.graph = graph
        self.leaves: list[Leaf] = []
        self._root: Leaf | NodeQuestion | None = None
        self._questions: dict[int, None] = {}
        self._plan: Evaluation | None = None

    def add(self, guards: Mapping[int, int], nodes: tuple[int, ...] | None, row: Digits) -> Leaf:
        """A new class from the questions of a run, with their answers, and the nodes that describe it.

        Raises:
            Conflict: the questions do not fit those of other runs.
        """
        leaf = Leaf(len(self.leaves), nodes, tuple(guards.items()), row)
        self._root = self._grown(self._root, leaf.path, leaf)
        self.leaves.append(leaf)
        if not guards.keys() <= self._questions.keys():
            self._questions |= dict.fromkeys(guards)
            self._plan = None
        return leaf

    def _grown(
        self, tree: Leaf | NodeQuestion | None, path: Sequence[tuple[int, int]], leaf: Leaf
    ) -> Leaf | NodeQuestion:
        if not path:
            if tree is not None:
                raise Conflict(_any_leaf(tree))
            return leaf
        (node, answer), *rest = path
        if tree is None:
            tree = NodeQuestion(node)
        if isinstance(tree, Leaf) or tree.node != node:
            raise Conflict(_any_leaf(tree))
        tree.answers[answer] = self._grown(tree.answers.get(answer), rest, leaf)
        return tree

    def has(self, row: Digits) -> bool:
        """Is the class of one row known? Only what is asked on the way to it is evaluated."""
        tree, values = self._root, RowValues(self.graph, row)
        while isinstance(tree, NodeQuestion):
            tree = tree.answers.get(values[tree.node])
        return tree is not None

    def of(self, digits: Digits) -> Rows:
        """Numbers of the classes of rows, digits of shape (knobs, rows); -1 where the class is not known yet."""
        found = np.full(digits.shape[1], -1, dtype=np.intp)
        if self._plan is None:
            self._plan = Evaluation(self.graph, self._questions)
        answers = self._plan(digits)
        if self._root is not None:
            for rows, number in self._walk(self._root, np.arange(digits.shape[1]), answers, self._plan.place):
                found[rows] = number
        return found

    def _walk(self, tree: Leaf | NodeQuestion, rows: Rows, answers: Floats, place: Rows) -> Iterator[tuple[Rows, int]]:
        if isinstance(tree, Leaf):
            yield rows, tree.number
            return
        values = answers[place[tree.node]][rows]
        for answer, below in tree.answers.items():
            part = rows[values == answer]
            if len(part):
                yield from self._walk(below, part, answers, place)


def _any_leaf(tree: Leaf | NodeQuestion) -> Leaf:
    while isinstance(tree, NodeQuestion):
        tree = next(iter(tree.answers.values()))
    return tree
