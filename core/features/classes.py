"""Classes of configurations whose programs differ only in numbers: a tree of the questions of traced runs.

Each leaf is one class. A run is deterministic, so configurations with the same answers so far ask the same question
next.
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

REMEMBERED = 1 << 16
"""The largest number of cached answers of rows with their classes."""


@dataclass(eq=False)
class Leaf:
    """A class: its number, the nodes of its description (None: the template refuses), the questions and answers."""

    number: int
    nodes: tuple[int, ...] | None
    path: tuple[tuple[int, int], ...]
    row: Digits
    """The configuration with which it was found."""


@dataclass(eq=False)
class NodeQuestion:
    """A branch of the tree: the value of a node selects the subtree."""

    node: int
    answers: dict[int, Leaf | NodeQuestion] = field(default_factory=dict)


class Conflict(Exception):
    """A run asked another question than an earlier one, of class `other`, after the same answers.

    The template remembers its runs.
    """

    def __init__(self, other: Leaf | NodeQuestion) -> None:
        super().__init__(other)
        while isinstance(other, NodeQuestion):
            other = next(iter(other.answers.values()))
        self.other = other


class Classes:
    """The classes that were found so far."""

    def __init__(self, graph: NumberGraph) -> None:
        self.graph = graph
        self.leaves: list[Leaf] = []
        self._root: Leaf | NodeQuestion | None = None
        self._questions: dict[int, None] = {}
        self._plan: Evaluation | None = None
        self._asked = np.empty(0, dtype=np.intp)
        self._numbers: dict[bytes, int] = {}  # class numbers by a row's answers to all questions

    def add(self, guards: Mapping[int, int], nodes: tuple[int, ...] | None, row: Digits) -> Leaf:
        """Add a class from the questions of a run, with their answers, and the nodes that describe it.

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
                raise Conflict(tree)
            return leaf
        (node, answer), *rest = path
        if tree is None:
            tree = NodeQuestion(node)
        if isinstance(tree, Leaf) or tree.node != node:
            raise Conflict(tree)
        tree.answers[answer] = self._grown(tree.answers.get(answer), rest, leaf)
        return tree

    def of_row(self, row: Digits) -> Leaf | None:
        """Find the class of one row by the questions on the way to it; None if it is not known yet."""
        tree, values = self._root, RowValues(self.graph, row)
        while isinstance(tree, NodeQuestion):
            tree = tree.answers.get(values[tree.node])
        return tree

    def of(self, digits: Digits) -> Rows:
        """Find the numbers of the classes of rows, digits of shape (knobs, rows); -1 if a class is not known yet."""
        if self._plan is None or len(self._numbers) > REMEMBERED:
            questions = list(self._questions)
            self._plan = Evaluation(self.graph, questions)
            self._asked = self._plan.place[questions]
            self._numbers = {}
        answers = self._plan(digits)
        keys = [row.tobytes() for row in np.ascontiguousarray(answers[self._asked].T)]
        found = np.array([self._numbers.get(key, -1) for key in keys], dtype=np.intp)
        if self._root is not None and len(left := np.flatnonzero(found < 0)):
            for rows, number in self._walk(self._root, left, answers, self._plan.place):
                found[rows] = number
                self._numbers |= {keys[row]: number for row in rows.tolist()}
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
