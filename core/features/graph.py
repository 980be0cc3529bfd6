"""A graph of shared integer expressions over the knobs, evaluated for many configurations at once.

A node that depends on one knob only is a table: its value for each digit of the knob. The digit of a long range is a
node without a table. All others combine two earlier nodes by one operation. Each node has bounds, so that most
questions about a program's numbers (is this extent positive?) are answered once for all configurations.

All nodes of one step (see `pegbox.features.steps`) are evaluated by one NumPy call for all rows, so that thousands of
expressions cost a few dozen calls. Numbers are float64: exact up to 2^53, and several times as fast to divide as int64.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pegbox.features.steps import Steps
from pegbox.features.symbol import Quantity, Symbol
from pegbox.space.digits import Digits

Floats: TypeAlias = npt.NDArray[np.float64]
Places: TypeAlias = npt.NDArray[np.intp]


def _floordiv(a: Any, b: Any) -> Any:
    # In the configurations of its class, an expression never divides by 0; in others, any number will do.
    return np.floor(a / np.where(b == 0, np.inf, b))


def _ceildiv(a: Any, b: Any) -> Any:
    return np.ceil(a / np.where(b == 0, np.inf, b))


def _mod(a: Any, b: Any) -> Any:
    return np.where(b == 0, 0.0, a - b * _floordiv(a, b))


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": _floordiv, "ceildiv": _ceildiv, "mod": _mod,
    "min": np.minimum, "max": np.maximum, "lt": np.less, "le": np.less_equal, "eq": np.equal,
}  # fmt: skip
_CODES = {op: code for code, op in enumerate(("table", "digit", *OPERATIONS))}

LISTED = 1 << 16
"""The largest number of a knob's values in a table; a range may have more."""


class Node(NamedTuple):
    """An expression: a `table` by digit of `knob` (a constant: one value, knob -1), the `digit` of a long `knob`, or
    `op` of nodes `a` and `b`."""

    op: str
    a: int
    b: int
    knob: int
    table: Floats | None
    low: float
    high: float


class NumberGraph:
    """A list of nodes that share subexpressions."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = tuple(lengths)
        self.nodes: list[Node] = []
        self._columns = array("q")
        self._known: dict[tuple[Any, ...], int] = {}
        self._applied: dict[tuple[str, int, int], int] = {}
        self._constants: dict[float, int] = {}
        self._digits: dict[int, int] = {}
        self._symbols: dict[int, Symbol] = {}
        self._steps = Steps()
        self._made_columns: Places = np.empty((5, 0), dtype=np.intp)

    def __len__(self) -> int:
        return len(self.nodes)

    def table(self, knob: int, values: Floats) -> int:
        """Return the node with the value `values[digit]` for each digit of a knob; a constant if all are equal."""
        listed = values.tolist()
        low, high = min(listed), max(listed)
        if low == high:
            knob, values = -1, values[:1]
        return self._node((knob, values.tobytes()), lambda: Node("table", -1, -1, knob, values, low, high))

    def digit(self, knob: int) -> int:
        """Return the node of a knob's digit, without a table for a long range."""
        found = self._digits.get(knob)
        if found is None:
            found = self._digits[knob] = self._digit(knob)
        return found

    def _digit(self, knob: int) -> int:
        if self.lengths[knob] > LISTED:
            last = float(self.lengths[knob] - 1)
            return self._node(("digit", knob), lambda: Node("digit", -1, -1, knob, None, 0.0, last))
        return self.table(knob, np.arange(self.lengths[knob], dtype=np.float64))

    def constant(self, value: float) -> int:
        found = self._constants.get(value)
        if found is None:
            found = self._constants[value] = self.table(-1, np.array([value], dtype=np.float64))
        return found

    def symbol(self, node: int) -> Quantity:
        """Return the node as a number for arithmetic; a constant is an int."""
        found = self._symbols.get(node)
        if found is not None:
            return found
        if self.is_constant(node):
            return int(self.nodes[node].low)
        return self._symbols.setdefault(node, Symbol(self, node))

    def node_of(self, quantity: Quantity) -> int:
        """Return the node of a quantity."""
        return quantity.node if isinstance(quantity, Symbol) else self.constant(quantity)

    def is_constant(self, node: int) -> bool:
        """Decide if the node is the same in all configurations."""
        return self.nodes[node].low == self.nodes[node].high

    def apply(self, op: str, a: int, b: int) -> int:
        """Return the node `a op b`, simplified if one knob or the bounds decide."""
        key = (op, a, b)
        found = self._applied.get(key)
        if found is None:
            found = self._applied[key] = self._apply(op, a, b)
        return found

    def _apply(self, op: str, a: int, b: int) -> int:
        x, y = self.nodes[a], self.nodes[b]
        if x.table is not None and y.table is not None and (x.knob == y.knob or x.knob < 0 or y.knob < 0):
            values = np.asarray(OPERATIONS[op](x.table, y.table), dtype=np.float64)
            return self.table(max(x.knob, y.knob), values)
        simple = self._simple(op, a, b, x, y)
        if simple is not None:
            return simple
        low, high = _range(op, x, y)
        return self._node((op, a, b), lambda: Node(op, a, b, -1, None, low, high))

    def _simple(self, op: str, a: int, b: int, x: Node, y: Node) -> int | None:
        match op:
            case "add":
                return b if _is(x, 0) else a if _is(y, 0) else self._without(op, x, y)
            case "sub":
                return a if _is(y, 0) else self.constant(0) if a == b else self._without(op, x, y)
            case "mul":
                if _is(x, 0) or _is(y, 0):
                    return self.constant(0)
                return b if _is(x, 1) else a if _is(y, 1) else None
            case "floordiv":
                return a if _is(y, 1) else self.constant(0) if x.low >= 0 and x.high < y.low else None
            case "ceildiv":
                return a if _is(y, 1) else self.constant(1) if x.low > 0 and x.high <= y.low else None
            case "mod":
                return self.constant(0) if a == b else a if x.low >= 0 and x.high < y.low else None
            case "min":
                return a if a == b or x.high <= y.low else b if y.high <= x.low else None
            case "max":
                return a if a == b or x.low >= y.high else b if y.low >= x.high else None
            case "lt":
                return self._decided(x.high < y.low, a == b or x.low >= y.high)
            case "le":
                return self._decided(a == b or x.high <= y.low, x.low > y.high)
            case _:
                return self._decided(a == b, x.high < y.low or y.high < x.low)

    def _decided(self, yes: bool, no: bool) -> int | None:
        return self.constant(1) if yes else self.constant(0) if no else None

    def _without(self, op: str, x: Node, y: Node) -> int | None:
        """Simplify (a - c) + c and (a + c) - c to a."""
        other = "sub" if op == "add" else "add"
        if x.op == other and self.nodes[x.b] is y:
            return x.a
        return None

    def _node(self, key: tuple[Any, ...], make: Callable[[], Node]) -> int:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.nodes)
            node = make()
            self.nodes.append(node)
            self._columns.extend((_CODES[node.op], node.knob, node.a, node.b))
        return found

    def columns(self) -> Places:
        """Return step, code of the operation, knob and both operands of each node, of shape (5, nodes)."""
        if self._made_columns.shape[1] < len(self):
            self._steps.extend(self._columns[::4], self._columns[2::4], self._columns[3::4])
            columns = np.array(self._columns, dtype=np.intp).reshape(-1, 4).T
            self._made_columns = np.vstack([np.array(self._steps.of_nodes, dtype=np.intp), columns])
        return self._made_columns


def _is(node: Node, value: int) -> bool:
    return node.low == node.high == value


def _is_bounded(node: Node) -> bool:
    return math.isfinite(node.low) and math.isfinite(node.high)


def _range(op: str, x: Node, y: Node) -> tuple[float, float]:
    """Bound the result, inclusively."""
    match op:
        case "add":
            return x.low + y.low, x.high + y.high
        case "sub":
            return x.low - y.high, x.high - y.low
        case "min":
            return min(x.low, y.low), min(x.high, y.high)
        case "max":
            return max(x.low, y.low), max(x.high, y.high)
        case "mul" if _is_bounded(x) and _is_bounded(y):
            corners = x.low * y.low, x.low * y.high, x.high * y.low, x.high * y.high
            return min(corners), max(corners)
        case "floordiv" | "ceildiv" if y.low > 0 and _is_bounded(x) and _is_bounded(y):
            corners = x.low / y.low, x.low / y.high, x.high / y.low, x.high / y.high
            rounded = math.floor if op == "floordiv" else math.ceil
            return float(rounded(min(corners))), float(rounded(max(corners)))
        case "mod" if y.low > 0:
            return 0.0, min(x.high, y.high - 1) if x.low >= 0 else y.high - 1
        case "mul" | "floordiv" | "ceildiv" | "mod":
            return -np.inf, np.inf
        case _:
            return 0.0, 1.0


class Evaluation:
    """A plan for some nodes of a graph; `place[node]` is the row of a node in the result, or -1."""

    def __init__(self, graph: NumberGraph, wanted: Sequence[int] | Places) -> None:
        columns = graph.columns()
        step_of, code, knob, *operands = columns
        needed = _needed(columns[3:], wanted)
        order = needed[np.lexsort((knob[needed], code[needed], step_of[needed]))]
        self.place = np.full(len(code), -1, dtype=np.intp)
        self.place[order] = np.arange(len(order))
        kinds = columns[:3, order]
        starts = np.flatnonzero(np.r_[True, (kinds[:, 1:] != kinds[:, :-1]).any(axis=0)][: len(order)]).tolist()
        self._steps: list[tuple[slice, Callable[[Floats, Digits], Floats]]] = []
        for start, stop in pairwise([*starts, len(order)]):
            run = order[start:stop]
            first = graph.nodes[run[0]]
            if first.table is not None:
                tables = np.stack([t for n in run.tolist() if (t := graph.nodes[n].table) is not None])
                step = partial(_look_up, tables, first.knob)
            elif first.op == "digit":
                step = partial(_digit, first.knob)
            else:
                step = partial(_call, OPERATIONS[first.op], *(self.place[each[run]] for each in operands))
            self._steps.append((slice(start, stop), step))
        self._size = len(order)

    def __call__(self, digits: Digits) -> Floats:
        """Compute values of shape (nodes, rows) from digits of shape (knobs, rows)."""
        values = np.empty((self._size, digits.shape[1]))
        for places, step in self._steps:
            values[places] = step(values, digits)
        return values


def _look_up(tables: Floats, knob: int, values: Floats, digits: Digits) -> Floats:
    """Look up the values of tables of one knob; knob -1: constants."""
    return tables if knob < 0 else tables[:, digits[knob]]


def _digit(knob: int, values: Floats, digits: Digits) -> Floats:
    return np.asarray(digits[knob], dtype=np.float64)


def _call(op: Callable[[Any, Any], Any], a: Places, b: Places, values: Floats, digits: Digits) -> Floats:
    result: Floats = op(values[a], values[b])
    return result


def _needed(operands: Places, wanted: Sequence[int] | Places) -> Places:
    """Find the nodes and all of their operands, in ascending order; operands of shape (2, nodes)."""
    needed = np.zeros(operands.shape[1], dtype=bool)
    last = np.empty(operands.shape[1], dtype=np.intp)
    found = np.asarray(wanted, dtype=np.intp)
    while len(found):
        # Each node once: the last written of its places.
        last[found] = places = np.arange(len(found))
        found = found[last[found] == places]
        needed[found] = True
        below = operands[:, found].ravel()
        below = below[below >= 0]
        found = below[~needed[below]]
    return np.flatnonzero(needed)
