"""Integers that remember how they were made of a configuration.

A `TracedInt` is an int in every respect: it is the value of one configuration. Beside that it carries the expression
over the configuration's numbers that gave it. Arithmetic on it gives traced integers; a comparison gives a plain bool
and notes that the trace holds only where the comparison comes out the same way (a guard), as tracing compilers do it.
What leaves integer arithmetic (true division, rounding, bits) pins the value.

C code that takes an int as it is (`range`, indexing, hashing) goes unnoticed; who uses a trace must check it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from pegbox.expr.open_int import OpenInt
from pegbox.features.graph import Graph
from pegbox.features.symbol import Quantity, Symbol

PLAIN: dict[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv,
    "mod": operator.mod, "min": min, "max": max,
    "lt": lambda a, b: int(a < b), "le": lambda a, b: int(a <= b), "eq": lambda a, b: int(a == b),
}  # fmt: skip


class Recorder:
    """The expressions and guards of one run."""

    def __init__(self, graph: Graph, values: Mapping[int, int] | None = None) -> None:
        self.graph = graph
        # Of the nodes, in the configuration of the run.
        self._values: Mapping[int, int] = {} if values is None else values
        self.guards: dict[int, int] = {}  # node: the value it had, in the order of asking
        self.open = True
        self.made: dict[tuple[str, int, int, int], int] = {}

    def number(self, node: int, value: int) -> int:
        """An integer with the value `value` here that is `node` in general."""
        return value if self.graph.is_constant(node) else TracedInt(value, node, self)

    def guard(self, node: int, value: int) -> None:
        """The run goes on as it does only where the node has this value."""
        if self.open and not self.graph.is_constant(node):
            self.guards.setdefault(node, value)

    def holds(self, truth: Quantity) -> bool:
        """Is what is 1 or 0 true in this run? It goes on so only where it is the same."""
        if not isinstance(truth, Symbol):
            return bool(truth)
        self.guard(truth.node, self._values[truth.node])
        return bool(self._values[truth.node])

    def pin(self, number: TracedInt) -> None:
        self.guard(number.node, int(number))


class TracedInt(OpenInt):
    """See the module."""

    node: int
    recorder: Recorder

    def __new__(cls, value: int, node: int, recorder: Recorder) -> TracedInt:
        made = super().__new__(cls, value)
        made.node, made.recorder = node, recorder
        return made

    def least(self, other: int) -> int:
        return combined("min", self, other)

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (int(self),)

    def __deepcopy__(self, memo: object) -> TracedInt:
        return self

    def __copy__(self) -> TracedInt:
        return self

    __hash__ = int.__hash__  # __eq__ below would take it away

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __neg__(self) -> int:
        return combined("sub", 0, self)

    def __pos__(self) -> TracedInt:
        return self

    def __abs__(self) -> int:
        return combined("max", self, -self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self


def combined(op: str, a: int, b: int) -> int:
    """`a op b` of plain or traced integers, without a guard: `op` is a key of PLAIN."""
    recorder, x, y, plain = None, -1, -1, 0
    if type(a) is TracedInt and a.recorder.open:
        recorder, x = a.recorder, a.node
    else:
        plain = int(a)
    if type(b) is TracedInt and b.recorder.open and (recorder is None or recorder is b.recorder):
        recorder, y = b.recorder, b.node
    else:
        plain = int(b)
    if recorder is None:
        return PLAIN[op](int(a), int(b))
    key = (op, x, y, plain)
    found = recorder.made.get(key)
    if found is None:
        # Not seen in this run; -1 stands for the operand that is a plain number.
        a_node = recorder.graph.constant(plain) if x < 0 else x
        b_node = recorder.graph.constant(plain) if y < 0 else y
        node = recorder.graph.apply(op, a_node, b_node)
        found = recorder.made[key] = recorder.number(node, PLAIN[op](int(a), int(b)))
    return found


def quantity(number: int) -> Quantity:
    """A number of a template as it is in all configurations."""
    if type(number) is TracedInt and number.recorder.open:
        return number.recorder.graph.symbol(number.node)
    return number


def _arithmetic(op: str, name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    plain, reverse = getattr(int, f"__{name}__"), getattr(int, f"__r{name}__")

    def forward(self: TracedInt, other: Any) -> Any:
        return combined(op, self, other) if isinstance(other, int) else plain(self, other)

    def backward(self: TracedInt, other: Any) -> Any:
        return combined(op, other, self) if isinstance(other, int) else reverse(self, other)

    return forward, backward


def _comparison(name: str, op: str, swapped: bool, wanted: int) -> Callable[..., Any]:
    plain = getattr(int, f"__{name}__")

    def compare(self: TracedInt, other: Any) -> Any:
        if not isinstance(other, int):
            return plain(self, other)
        answer = combined(op, other, self) if swapped else combined(op, self, other)
        if isinstance(answer, TracedInt):
            answer.recorder.pin(answer)
        return int.__eq__(answer, wanted)

    return compare


def _pinning(name: str) -> Callable[..., Any]:
    plain = getattr(int, name)

    def pinned(self: TracedInt, *args: Any, **options: Any) -> Any:
        for number in (self, *args):
            if isinstance(number, TracedInt):
                number.recorder.pin(number)
        return plain(int(self), *(int(x) if isinstance(x, TracedInt) else x for x in args), **options)

    return pinned


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    _forward, _backward = _arithmetic(_name, _name)
    setattr(TracedInt, f"__{_name}__", _forward)
    setattr(TracedInt, f"__r{_name}__", _backward)
for _name, _op, _swapped, _wanted in (
    ("lt", "lt", False, 1), ("gt", "lt", True, 1), ("le", "le", False, 1), ("ge", "le", True, 1),
    ("eq", "eq", False, 1), ("ne", "eq", False, 0),
):  # fmt: skip
    setattr(TracedInt, f"__{_name}__", _comparison(_name, _op, _swapped, _wanted))
for _name in (
    "__truediv__", "__rtruediv__", "__pow__", "__rpow__", "__lshift__", "__rlshift__", "__rshift__", "__rrshift__",
    "__and__", "__rand__", "__or__", "__ror__", "__xor__", "__rxor__", "__invert__", "__float__", "__round__",
    "__trunc__", "__floor__", "__ceil__", "bit_length", "to_bytes",
):  # fmt: skip
    setattr(TracedInt, _name, _pinning(_name))
