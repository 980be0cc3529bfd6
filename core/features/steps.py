"""The steps of an evaluation: each is one operation, for all nodes of a graph that are due."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence

GROWTH = 1.25
"""The growth of both sequence and graph after which the sequence is made again, which keeps the total time small."""


class Steps:
    """The sequence of operations by which all nodes of a growing graph can be evaluated.

    Each step takes the operation of the ready node that is furthest from the results (T. C. Hu, "Parallel Sequencing
    and Assembly Line Problems", 1961), for all ready nodes of this operation. A later node takes the first step of its
    operation after its operands: programs of a template are similar, so a sequence made for a few classes fits most
    others.
    """

    def __init__(self) -> None:
        self.of_nodes = array("q")
        """The step of each node; -1 if it has no operands."""
        self._length = 0
        self._of_operation: defaultdict[int, list[int]] = defaultdict(list)
        self._made_for = 0, 0  # numbers of steps and nodes

    def extend(self, codes: Sequence[int], a: Sequence[int], b: Sequence[int]) -> None:
        """Find the steps of all nodes, from their operations and operands (-1: none); the known ones come first."""
        for node in range(len(self.of_nodes), len(codes)):
            self.of_nodes.append(self._first(codes[node], a[node], b[node]) if a[node] >= 0 else -1)
        length, nodes = self._made_for
        if self._length > GROWTH * length and len(codes) > GROWTH * nodes:
            self._make(codes, a, b)

    def _first(self, code: int, a: int, b: int) -> int:
        steps = self._of_operation[code]
        place = bisect_right(steps, max(self.of_nodes[a], self.of_nodes[b]))
        if place == len(steps):
            steps.append(self._length)
            self._length += 1
        return steps[place]

    def _make(self, codes: Sequence[int], a: Sequence[int], b: Sequence[int]) -> None:
        """Make the sequence again."""
        heights, users, waits = _relations(a, b)
        ready: defaultdict[int, list[int]] = defaultdict(list)
        highest: defaultdict[int, int] = defaultdict(int)
        freed = [node for node, count in enumerate(waits) if count == 0 and a[node] >= 0]
        self._length = 0
        self._of_operation.clear()
        while freed or ready:
            for node in freed:
                code = codes[node]
                ready[code].append(node)
                highest[code] = max(highest[code], heights[node])
            code = max(ready, key=highest.__getitem__)
            del highest[code]
            self._of_operation[code].append(self._length)
            freed = []
            for node in ready.pop(code):
                self.of_nodes[node] = self._length
                for user in users[node]:
                    waits[user] -= 1
                    if not waits[user]:
                        freed.append(user)
            self._length += 1
        self._made_for = self._length, len(codes)


def _relations(a: Sequence[int], b: Sequence[int]) -> tuple[list[int], list[list[int]], list[int]]:
    """Find the longest way from each node to a result, the nodes that use it, and its number of operations to wait for.

    An operand that is used twice counts twice.
    """
    heights, waits = [0] * len(a), [0] * len(a)
    users: list[list[int]] = [[] for _ in a]
    for node in range(len(a) - 1, -1, -1):
        for operand in (a[node], b[node]):
            if operand >= 0:
                heights[operand] = max(heights[operand], heights[node] + 1)
                if a[operand] >= 0:
                    users[operand].append(node)
                    waits[node] += 1
    return heights, users, waits
