"""Values of graph nodes for one configuration, computed on demand."""

from __future__ import annotations

import operator
from collections.abc import Callable

from pegbox.features.graph import NumberGraph
from pegbox.space.digits import Digits

OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "min": min, "max": max,
    "floordiv": lambda a, b: a // b if b else 0, "mod": lambda a, b: a % b if b else 0,
    "ceildiv": lambda a, b: -(-a // b) if b else 0,
    "lt": lambda a, b: int(a < b), "le": lambda a, b: int(a <= b), "eq": lambda a, b: int(a == b),
}  # fmt: skip
"""The operations of `pegbox.features.graph`, with the same results of divisions by zero."""


class RowValues(dict[int, int]):
    """The values by node, each computed once. For many configurations see `pegbox.features.graph.Evaluation`."""

    def __init__(self, graph: NumberGraph, row: Digits) -> None:
        super().__init__()
        self._nodes, self._row = graph.nodes, row.tolist()

    def __missing__(self, node: int) -> int:
        waiting = [node]  # no recursion: sums may be long
        while waiting:
            made = self._nodes[waiting[-1]]
            if made.table is not None:
                self[waiting.pop()] = int(made.table[self._row[made.knob] if made.knob >= 0 else 0])
                continue
            if made.op == "digit":
                self[waiting.pop()] = self._row[made.knob]
                continue
            missing = [operand for operand in (made.a, made.b) if operand not in self]
            if missing:
                waiting += missing
            else:
                self[waiting.pop()] = OPERATIONS[made.op](self[made.a], self[made.b])
        return self[node]
