"""Groups of similar classes, which are evaluated together because they share most nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pegbox.features.classes import Leaf, Rows
from pegbox.features.describe import WIDTH
from pegbox.features.graph import Evaluation, Floats, NumberGraph
from pegbox.space.digits import Digits


class GroupSize(NamedTuple):
    """The limits of a group: at most `classes` of them, which differ in at most the last `questions` of their paths.

    In a large group rows compute more numbers that they do not need; small ones take more calls.
    """

    classes: int
    questions: int


SMALL, LARGE = GroupSize(32, 5), GroupSize(256, 10)
"""The sizes for many rows, and for few, whose time is that of the calls."""

ROWS = 512
"""The rows that are evaluated together: few enough for their numbers to stay in cache."""

FEW = ROWS
"""The most rows for large groups: they are one evaluation."""


class ClassGroup:
    """A few classes, with one plan for all of their numbers."""

    def __init__(self, first: Leaf, size: GroupSize) -> None:
        self.members = [first]
        self._size = size
        self._plan: Evaluation | None = None
        self._places = np.empty((0, WIDTH), dtype=np.intp)

    def takes(self, leaf: Leaf) -> bool:
        path, shared = self.members[0].path, max(len(leaf.path) - self._size.questions, 0)
        return len(self.members) < self._size.classes and path[:shared] == leaf.path[:shared]

    def add(self, leaf: Leaf) -> int:
        """Add a class; return its place in the group."""
        self.members.append(leaf)
        self._plan = None
        return len(self.members) - 1

    def numbers(self, graph: NumberGraph, digits: Digits, members: Rows) -> Floats:
        """Compute the numbers of rows that belong to `members`, of shape (WIDTH, rows); digits are (knobs, rows)."""
        if self._plan is None:
            nothing = (graph.constant(0),) * WIDTH  # if the template refuses
            nodes = np.array([leaf.nodes or nothing for leaf in self.members], dtype=np.intp)
            self._plan = Evaluation(graph, nodes.ravel())
            self._places = self._plan.place[nodes]
        found = np.empty((WIDTH, digits.shape[1]))
        for start in range(0, digits.shape[1], ROWS):
            rows = slice(start, start + ROWS)
            values = self._plan(np.ascontiguousarray(digits[:, rows]))
            found[:, rows] = values[self._places[members[rows]].T, np.arange(values.shape[1])]
        return found


class ClassGroups:
    """The groups of all classes."""

    def __init__(self, graph: NumberGraph, size: GroupSize) -> None:
        self._graph = graph
        self._size = size
        self._groups: list[ClassGroup] = []
        self._home = np.empty((0, 2), dtype=np.intp)  # by class: the number of its group, its place in it

    def numbers(self, leaves: Sequence[Leaf], digits: Digits, classes: Rows) -> Floats:
        """Compute numbers of shape (WIDTH, rows) from digits of shape (knobs, rows)."""
        if new := [self._placed(leaf) for leaf in leaves[len(self._home) :]]:
            self._home = np.concatenate([self._home, np.array(new, dtype=np.intp)])
        found = np.empty((WIDTH, digits.shape[1]))
        homes = self._home[classes]
        order = np.argsort(homes[:, 0], kind="stable")
        present, starts = np.unique(homes[order, 0], return_index=True)
        for number, rows in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
            found[:, rows] = self._groups[number].numbers(self._graph, digits[:, rows], homes[rows, 1])
        return found

    def _placed(self, leaf: Leaf) -> tuple[int, int]:
        for number, group in enumerate(self._groups):
            if group.takes(leaf):
                return number, group.add(leaf)
        self._groups.append(ClassGroup(leaf, self._size))
        return len(self._groups) - 1, 0
