"""Analysis of a compute graph for the rules: operations' reads of their inputs, and the readers of each.

The questions come from Ansor (Zheng et al., OSDI 2020, section 4.1), with the answers of its system.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache

from pegbox.compute import ComputeOp, IterVar, Operation, ScanOp, body_loads, body_parts, elements, operations
from pegbox.expr import Binary, Buffer, Call, Const, Expr, Load, Select, Var, children, free_vars, linear

SLOW_OF_ANSOR = frozenset({"exp"})
"""The intrinsics that Ansor's system does not recompute."""


def axis_positions(axes: Sequence[IterVar], load: Load) -> list[int] | None:
    """Return the positions of the axes that index a load, in the order of its indices.

    None if an index is neither a number nor an axis plus a number.
    """
    positions = []
    for index in load.indices:
        if not isinstance(index, Const):
            terms = [*linear(index).terms.items()]
            found = [n for n, axis in enumerate(axes) if len(terms) == 1 and terms[0][0] is axis and terms[0][1] == 1]
            if not found:
                return None
            positions.append(found[0])
    return positions


class Graph:
    """The operations of a schedule, producers first, with the analysis of them."""

    def __init__(self, ops: Sequence[ComputeOp], outputs: Sequence[Operation]) -> None:
        self.ops = list(ops)
        self._outputs = {id(op.outputs[0].buffer) for op in outputs}
        self._maker = {id(t.buffer): op for op in self.ops for t in op.outputs}

    @cached_property
    def readers(self) -> dict[int, list[ComputeOp]]:
        """The operations that read an operation's outputs, in order. A scan's own cells do not count."""
        found: dict[int, list[ComputeOp]] = {id(op): [] for op in self.ops}
        for op in self.ops:
            for maker in dict.fromkeys(self._maker.get(id(load.buffer)) for load in loads_of(op)):
                if maker is not None and not (isinstance(maker, ScanOp) and maker.has_member(op)):
                    found[id(maker)].append(op)
        return found

    def is_output(self, op: ComputeOp) -> bool:
        return any(id(t.buffer) in self._outputs for t in op.outputs)

    def consumers(self, op: ComputeOp, inlined: set[int]) -> list[ComputeOp]:
        """Return the operations that need an operation's values, also through inlined ones."""
        found: dict[int, ComputeOp] = {}
        for reader in self.readers[id(op)]:
            through = self.consumers(reader, inlined) if id(reader) in inlined else [reader]
            found.update((id(each), each) for each in through)
        return list(found.values())

    def is_read_once(self, op: ComputeOp, inlined: set[int]) -> bool:
        """Check if one consumer, through inlined readers, reads an operation no more often than it has elements."""
        readers = self.readers[id(op)]
        if len(readers) != 1:
            return False
        (reader,) = readers
        made = {id(t.buffer) for t in op.outputs}
        places = {str(load) for load in loads_of(reader) if id(load.buffer) in made}
        points = math.prod(axis.extent for axis in (*reader.axis, *reader.reduce_axis))
        once = points * len(places) <= math.prod(axis.extent for axis in op.axis)
        return once and (id(reader) not in inlined or self.is_read_once(reader, inlined))

    def is_elementwise_match(self, op: ComputeOp, target: ComputeOp, *, by_access: bool = False) -> bool:
        """Check if each element of `target` needs, through all readers, only the same element of `op`.

        Args:
            by_access: allow several readers; Ansor follows only single ones.
        """
        pending, seen = [op], {id(op)}
        for each in pending:
            readers = [] if each is target else self.readers[id(each)]
            if each is not target and (not readers or (len(readers) > 1 and not by_access)):
                return False
            if not all(_reads_own_element(reader, each) for reader in readers):
                return False
            pending += [reader for reader in readers if id(reader) not in seen]
            seen.update(map(id, readers))
        return True


def _reads_own_element(reader: ComputeOp, op: ComputeOp) -> bool:
    """Check if an operation has the shape of another one, of which it reads only the same element."""
    if {t.shape for t in (*op.outputs, *reader.outputs)} != {op.outputs[0].shape}:
        return False
    made = {id(t.buffer) for t in op.outputs}
    own = [*range(len(reader.axis))]
    return all(axis_positions(reader.axis, load) == own for load in loads_of(reader) if id(load.buffer) in made)


@lru_cache(maxsize=1024)  # sketches share most operations
def loads_of(op: ComputeOp) -> tuple[Load, ...]:
    """Return every load of an operation's body."""
    return tuple(body_loads(op.body))


def panel_axis(load: Load) -> Expr | None:
    """Return the packed axis j of a load such as B[j // 16, k, j % 16], 16 elements at a time."""
    match load.indices[-1] if load.indices else None:
        case Binary("floormod", axis, Const(width)):
            for index in load.indices[:-1]:
                match index:
                    case Binary("floordiv", other, Const(size)) if other is axis and size == width:
                        return axis
    return None


@lru_cache(maxsize=1024)
def instructions(op: ComputeOp) -> int:
    """Estimate the instructions of one step of an operation: its arithmetic, its stores, its loads with addresses."""
    return sum(map(operations, elements(op))) + 2 * len(loads_of(op)) + len(op.outputs)


def needs_multi_level_tiling(op: ComputeOp, *, by_access: bool = False) -> bool:
    """Check for reuse of data: inputs that several points of the output share.

    Args:
        by_access: check each access by itself, since a product of a matrix with itself has reuse, like any product.
            Ansor checks all reads of a tensor together, and finds none there.
    """
    shared = sum(map(bool, unused_axes(op, by_access=by_access)))
    return shared >= 2 or (shared >= 1 and bool(op.reduce_axis))


def unused_axes(op: ComputeOp, *, by_access: bool) -> list[frozenset[Var]]:
    """Collect, for each input or each access, the long axes that no index contains."""
    used: dict[Buffer, set[frozenset[Var]]] = {}
    for load in loads_of(op):
        found = frozenset(v for index in load.indices for v in free_vars(index))
        known = used.setdefault(load.buffer, set())
        if not by_access and known:
            found |= known.pop()
        known.add(found & frozenset(op.axis))
    long = frozenset(axis for axis in op.axis if axis.extent > 1)
    return [axes for several in used.values() for axes in {long - each for each in several}]


def sums_along_lanes(op: ComputeOp) -> bool:
    """Check if lanes of vectors can each combine some terms of an operation's reduction."""
    return op.reduce is not None and op.reduce.reducer.name in ("sum", "prod", "max", "min")


def slides_along_lanes(op: ComputeOp) -> bool:
    """Check if neighbours along an operation's last axis reduce windows one element apart: an index adds both axes."""
    if not op.axis or op.reduce is None:
        return False
    forms = [linear(index) for load in loads_of(op) for index in load.indices]
    steps = [form for form in forms if form.coefficient(op.axis[-1]) == 1]
    return any(form.coefficient(axis) > 0 and axis.extent > 1 for form in steps for axis in op.reduce_axis)


def is_strictly_inlineable(op: ComputeOp, slow: frozenset[str] = SLOW_OF_ANSOR) -> bool:
    """Check if recomputing an element is as cheap as reading it: a plain elementwise step without transposition.

    Args:
        slow: intrinsics that are not cheap.
    """
    if any(_has_branch_or_call(part, slow) for part in body_parts(op.body)):
        return False
    found = [axis_positions(op.axis, load) for load in loads_of(op)]
    return all(each is not None and each == sorted(set(each)) for each in found)


def _has_branch_or_call(expr: Expr, names: frozenset[str]) -> bool:
    if isinstance(expr, Select) or (isinstance(expr, Call) and expr.name in names):
        return True
    return any(_has_branch_or_call(child, names) for child in children(expr))


def buffers_of(op: Operation) -> set[Buffer]:
    return {t.buffer for t in op.outputs}
