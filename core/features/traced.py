"""Traced integers: they record the expression over the knobs that produced them.

A `TracedInt` is used as an int: the value of one configuration. It also has the expression over the configuration's
numbers that produced it. Arithmetic on it returns traced integers; a comparison returns a plain bool and notes that the
trace holds only for the same result (a guard), as in tracing compilers. Any other use pins the value: text, hashes,
true division, bits, `range(n)`, `table[n]`.

It is not a subclass of int, though `isinstance(n, int)` is true: C code would read the value of an int without a call.
Runs without a trace reveal other ways to learn values, such as `type(n)` (`pegbox.features.program`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from numbers import Number
from typing import Any, cast

import numpy as np

from pegbox.features.graph import NumberGraph
from pegbox.features.row_values import OPERATIONS
from pegbox.features.symbol import Arithmetic, Quantity, Symbol

PLAIN: dict[str, Callable[[Any, Any], Any]] = {**OPERATIONS, "floordiv": operator.floordiv, "mod": operator.mod}
"""The operations for templates, which compute with ints: division by zero is an error."""


class TraceRecorder:
    """The expressions and guards of one run."""

    def __init__(self, graph: NumberGraph, values: Mapping[int, int] | None = None) -> None:
        self.graph = graph
        # The values of the nodes in the run's configuration.
        self._values: Mapping[int, int] = {} if values is None else values
        self.guards: dict[int, int] = {}  # node: its value, in the order of the questions
        self.open = True
        self.made: dict[tuple[str, int, int, int], int] = {}

    def number(self, node: int, value: int) -> int:
        """Make an integer with the value `value` in this run and `node` in general."""
        return value if self.graph.is_constant(node) else cast(int, TracedInt(value, node, self))

    def guard(self, node: int, value: int) -> None:
        """Note that the run takes this path only if the node has this value."""
        if self.open and not self.graph.is_constant(node):
            self.guards.setdefault(node, value)

    def holds(self, truth: Quantity) -> bool:
        """Return a truth, 1 or 0, of this run, and note that its path depends on it."""
        if not isinstance(truth, Symbol):
            return bool(truth)
        self.guard(truth.node, self._values[truth.node])
        return bool(self._values[truth.node])


def _asking(op: str, plain: Callable[[Any, Any], Any], *, swapped: bool = False) -> Callable[[Any, Any], Any]:
    """Make a comparison that is a guard: `op` for integers, `plain` for other numbers."""

    def method(self: TracedInt, other: Any) -> Any:
        if not isinstance(other, int):
            return plain(self.pinned(), other) if isinstance(other, Number) else NotImplemented
        answer: Any = combined(op, other, self) if swapped else combined(op, self, other)
        return (answer.pinned() if type(answer) is TracedInt else answer) == 1

    return method


class TracedInt(Arithmetic):
    """An integer with the expression that produced it: see the module."""

    __slots__ = ("_node", "_recorder", "_value")

    def __init__(self, value: int, node: int, recorder: TraceRecorder) -> None:
        self._value, self._node, self._recorder = value, node, recorder

    @property  # type: ignore[misc]
    def __class__(self) -> type[int]:  # type: ignore[override]
        return int

    def pinned(self) -> int:
        """Return the value for use outside arithmetic; the trace then holds only for the same value."""
        self._recorder.guard(self._node, self._value)
        return self._value

    __index__ = __int__ = __trunc__ = __floor__ = __ceil__ = pinned

    def least(self, other: int) -> int:
        """Compute `min(self, other)` without a guard."""
        return combined("min", self, other)

    def apply(self, op: str, other: Any) -> Any:
        if isinstance(other, int):
            return combined(op, self, other)
        return PLAIN[op](self.pinned(), other) if isinstance(other, Number) else NotImplemented

    def after(self, op: str, other: Any) -> Any:
        if isinstance(other, int):
            return combined(op, other, self)
        return PLAIN[op](other, self.pinned()) if isinstance(other, Number) else NotImplemented

    def __abs__(self) -> int:
        return combined("max", self, -self)

    def __pos__(self) -> TracedInt:
        return self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __bool__(self) -> bool:
        return bool(self != 0)

    __lt__ = _asking("lt", operator.lt)
    __gt__ = _asking("lt", operator.gt, swapped=True)
    __le__ = _asking("le", operator.le)
    __ge__ = _asking("le", operator.ge, swapped=True)
    __eq__ = _asking("eq", operator.eq)

    def __ne__(self, other: Any) -> Any:
        answer = self.__eq__(other)
        return answer if answer is NotImplemented else not answer

    def __copy__(self) -> TracedInt:
        return self

    def __deepcopy__(self, memo: object) -> TracedInt:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return int, (self.pinned(),)

    def __array__(self, *args: Any, **options: Any) -> Any:
        return np.asarray(self.pinned(), *args)  # the array is new, so any `copy` is fine

    def __getattr__(self, name: str) -> Any:
        getattr(int, name)  # raises, without pinning, for attributes that no int has
        return getattr(self.pinned(), name)


def _pinning(function: Callable[..., Any], *, swapped: bool = False) -> Callable[..., Any]:
    """Make a method that passes the value to `function`."""

    def method(self: TracedInt, *others: Any) -> Any:
        return function(*others, self.pinned()) if swapped else function(self.pinned(), *others)

    return method


_function: Callable[..., Any]
for _function in (hash, repr, format, float, round, operator.invert):
    setattr(TracedInt, f"__{_function.__name__}__", _pinning(_function))
for _function in (
    operator.truediv, pow, operator.lshift, operator.rshift, operator.and_, operator.or_, operator.xor,
):  # fmt: skip
    _name = _function.__name__.strip("_")
    setattr(TracedInt, f"__{_name}__", _pinning(_function))
    setattr(TracedInt, f"__r{_name}__", _pinning(_function, swapped=True))


def combined(op: str, a: Any, b: Any) -> int:
    """Compute `a op b` of plain or traced integers, without a guard: `op` is a key of PLAIN.

    A zero divisor is a guard, so that configurations that would fail there are not members of the class.
    """
    if op in ("floordiv", "mod") and type(b) is TracedInt and b == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    recorder, x, y, plain = None, -1, -1, 0
    if type(a) is TracedInt and a._recorder.open:
        recorder, x, a = a._recorder, a._node, a._value
    else:
        plain = a = int(a)
    if type(b) is TracedInt and b._recorder.open and (recorder is None or recorder is b._recorder):
        recorder, y, b = b._recorder, b._node, b._value
    else:
        plain = b = int(b)
    if recorder is None:
        return int(PLAIN[op](a, b))
    key = (op, x, y, plain)
    found = recorder.made.get(key)
    if found is None:
        # Computed in this run for the first time; -1 marks a plain number as operand.
        a_node = recorder.graph.constant(plain) if x < 0 else x
        b_node = recorder.graph.constant(plain) if y < 0 else y
        node = recorder.graph.apply(op, a_node, b_node)
        found = recorder.made[key] = recorder.number(node, PLAIN[op](a, b))
    return found


def quantity(number: Any) -> Quantity:
    """Convert a number of a template to the quantity for all configurations."""
    if type(number) is TracedInt and number._recorder.open:
        return number._recorder.graph.symbol(number._node)
    return int(number)
