"""Groups of similar classes, whose rows are evaluated together by one plan per group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pegbox.features.classes import Leaf, Rows
from pegbox.features.describe import WIDTH
from pegbox.features.graph import Evaluation, Floats, NumberGraph
from pegbox.space.digits import Digits

GROUP_CLASSES, GROUP_QUESTIONS = 32, 5
"""The largest number of classes in a group, and the number of last questions in which their paths may differ.

In a large group, rows compute more unneeded numbers; small groups take more calls.
"""

ROWS = 512
"""The number of rows evaluated together, few enough for their numbers to stay in cache."""

FEW = ROWS
"""The largest number of rows that get a plan for their classes alone.

Making it takes less time than extending a kept one, and a search asks for rows of new classes nearly each time.
"""


class ClassPlan:
    """A plan for all numbers of a few classes."""

    def __init__(self, graph: NumberGraph, classes: Sequence[Leaf]) -> None:
        nothing = (graph.constant(0),) * WIDTH  # for classes that the template refuses
        nodes = np.array([leaf.nodes or nothing for leaf in classes], dtype=np.intp)
        self._plan = Evaluation(graph, nodes.ravel())
        self._places = self._plan.place[nodes]

    def __call__(self, digits: Digits, members: Rows) -> Floats:
        """Compute the numbers of rows that belong to `members`, of shape (WIDTH, rows); digits are (knobs, rows)."""
        values = self._plan(digits)
        found: Floats = values[self._places[members].T, np.arange(values.shape[1])]
        return found


class ClassGroup:
    """A few similar classes, which share most nodes, with one kept plan."""

    def __init__(self, first: Leaf) -> None:
        self.members = [first]
        self._plan: ClassPlan | None = None

    def takes(self, leaf: Leaf) -> bool:
        path, shared = self.members[0].path, max(len(leaf.path) - GROUP_QUESTIONS, 0)
        return len(self.members) < GROUP_CLASSES and path[:shared] == leaf.path[:shared]

    def add(self, leaf: Leaf) -> int:
        """Add a class; return its place in the group."""
        self.members.append(leaf)
        self._plan = None
        return len(self.members) - 1

    def numbers(self, graph: NumberGraph, digits: Digits, members: Rows) -> Floats:
        """Compute the numbers of rows as `ClassPlan` does."""
        self._plan = self._plan or ClassPlan(graph, self.members)
        found = np.empty((WIDTH, digits.shape[1]))
        for start in range(0, digits.shape[1], ROWS):
            rows = slice(start, start + ROWS)
            found[:, rows] = self._plan(np.ascontiguousarray(digits[:, rows]), members[rows])
        return found


class ClassGroups:
    """The groups of all classes."""

    def __init__(self, graph: NumberGraph) -> None:
        self._graph = graph
        self._groups: list[ClassGroup] = []
        self._home = np.empty((0, 2), dtype=np.intp)  # by class: the number of its group, and its place there

    def numbers(self, leaves: Sequence[Leaf], digits: Digits, classes: Rows) -> Floats:
        """Compute numbers of shape (WIDTH, rows) from digits of shape (knobs, rows)."""
        if digits.shape[1] <= FEW:
            present, members = np.unique(classes, return_inverse=True)
            return ClassPlan(self._graph, [leaves[number] for number in present.tolist()])(digits, members)
        return self._of_many(leaves, digits, classes)

    def _of_many(self, leaves: Sequence[Leaf], digits: Digits, classes: Rows) -> Floats:
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
        self._groups.append(ClassGroup(leaf))
        return len(self._groups) - 1, 0
