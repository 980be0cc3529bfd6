"""Size variables: extents of a computation that are known only at a call, and copies of the computation with numbers.

A computation with size variables is a pattern. Its extents are expressions of the variables, and raise if they are used
as numbers. `Sizes` makes the same computation with numbers in their place, to compile or compute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from pegbox.compute.axis import IterVar, Range, SizeVar
from pegbox.compute.reducer import Reduce
from pegbox.compute.scan_op import ScanOp
from pegbox.compute.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, body_parts, owner
from pegbox.errors import ArgumentError, ComputeError
from pegbox.expr.bounds import Ranges
from pegbox.expr.build import index
from pegbox.expr.dtypes import integer
from pegbox.expr.nodes import Buffer, Compare, Const, Expr, Load, Var
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import free_vars, rewrite, substitute, walk

GivenSizes: TypeAlias = "Mapping[str, int] | Mapping[SizeVar, int] | Mapping[str | SizeVar, int]"
"""Sizes by variables, or by their names."""

_STAND_INS = (1023, 511, 255, 127, 63)


def size_variables(ops: Iterable[Operation]) -> list[SizeVar]:
    """Return the size variables of some operations, in order of first use."""
    found: dict[SizeVar, None] = {}
    for op in ops:
        extents: list[object] = [extent for tensor in op.outputs for extent in tensor.shape]
        extents += [iv.extent for iv in op.reduce_axis]
        if isinstance(op, ComputeOp):
            extents += body_parts(op.body)
        for extent in extents:
            if isinstance(extent, Expr):
                known = [var for var in free_vars(extent) if isinstance(var, SizeVar) and var not in found]
                found.update(dict.fromkeys(sorted(known, key=lambda var: var.name)))
    return list(found)


def check_static(ops: Iterable[Operation]) -> None:
    """Raise ComputeError if an operation has size variables, and numbers are needed now."""
    for op in ops:
        if _is_sized(op):
            found = size_variables([op])
            names = ", ".join(var.name for var in found)
            raise ComputeError(
                f"{op.name}: its size {names} is a variable; here sizes are needed: give numbers as extents, or lower "
                f"and build a TE schedule, lower(s, args, sizes={{{found[0].name!r}: 128}})"
            )


def _is_sized(op: Operation) -> bool:
    """Decide if an operation has size variables, with a cache, because every program asks."""
    if any(isinstance(extent, Expr) for tensor in op.outputs for extent in tensor.shape):
        return True
    if not isinstance(op, ComputeOp):
        return False
    parts = body_parts(op.body)
    return any(isinstance(iv.extent, Expr) for iv in op.reduce_axis) or any(
        type(node) is SizeVar for part in parts for node in walk(part)
    )


def stand_ins(variables: Sequence[SizeVar]) -> dict[SizeVar, int]:
    """Choose numbers for a program that is only read: odd ones, so that it has the tests that sizes may need."""
    return {var: _STAND_INS[min(n, len(_STAND_INS) - 1)] for n, var in enumerate(variables)}


def check_sizes(variables: Sequence[SizeVar], sizes: GivenSizes) -> dict[SizeVar, int]:
    """Return the number of each variable, given by variables or their names.

    Raises:
        ArgumentError: one is missing, there is no such variable, or a size is not a positive integer.
    """
    known = ", ".join(var.name for var in variables) or "none"
    if missing := [var for var in variables if not (var in sizes or var.name in sizes)]:
        given = ", ".join(f"{var.name!r}: 128" for var in missing)
        raise ArgumentError(f"sizes: the size variables are {known}; add {{{given}}} to {dict(sizes)!r}")
    found: dict[SizeVar, int] = {}
    by_key: Mapping[Any, int] = sizes
    for key, value in by_key.items():
        named = [var for var in variables if var is key or (isinstance(key, str) and var.name == key)]
        if len(named) != 1:
            label = key if isinstance(key, str) else getattr(key, "name", repr(key))
            what = "no size variable is" if not named else "several size variables are"
            raise ArgumentError(f"sizes: {what} called {label!r}; there are {known}")
        number = integer(value)
        if number is None or number < 1:
            raise ArgumentError(f"sizes: {named[0].name} is {value!r}; sizes are integers from 1 up")
        found[named[0]] = number
    return found


def sizes_of_arrays(
    tensors: Sequence[Tensor], shapes: Sequence[tuple[int, ...]], variables: Sequence[SizeVar]
) -> dict[SizeVar, int]:
    """Find the sizes from the shapes of arrays; a variable's size comes from a dimension whose whole extent it is.

    Raises:
        ArgumentError: a number of dimensions is wrong, or two dimensions contradict each other.
    """
    found: dict[SizeVar, tuple[int, str]] = {}
    for tensor, shape in zip(tensors, shapes, strict=True):
        if len(shape) != tensor.ndim:
            raise ArgumentError(f"{tensor.name} is an array of shape {list(shape)}; expected {shown_shape(tensor)}")
        for dim, (extent, size) in enumerate(zip(tensor.shape, shape, strict=True)):
            if isinstance(extent, SizeVar) and extent in variables:
                first, where = found.setdefault(extent, (size, f"dimension {dim} of {tensor.name}"))
                if first != size:
                    raise ArgumentError(
                        f"{extent.name} is {first} in {where} and {size} in dimension {dim} of {tensor.name}; "
                        "dimensions of one variable have one size"
                    )
    return {var: found[var][0] for var in variables}


def check_bound(tensors: Sequence[Tensor], variables: Sequence[SizeVar]) -> None:
    """Raise ArgumentError if a variable is not a dimension of any tensor, so that calls cannot determine its size."""
    alone = {extent for tensor in tensors for extent in tensor.shape if isinstance(extent, SizeVar)}
    for var in variables:
        if var not in alone:
            raise ArgumentError(
                f"the size {var.name} is not the whole extent of any dimension of the arguments "
                f"({', '.join(map(shown_tensor, tensors))}), so calls cannot determine it; give it: "
                f"sizes={{{var.name!r}: 128}}"
            )


def shown_tensor(tensor: Tensor) -> str:
    return f"{tensor.name}: {shown_shape(tensor)}"


def shown_shape(tensor: Tensor) -> str:
    return f"{tensor.dtype}{list(tensor.shape)}"


class Sizes:
    """One set of sizes, with the copies made for it: each axis, tensor and operation has one copy."""

    def __init__(self, sizes: Mapping[SizeVar, int]) -> None:
        self._sizes: dict[Var, Expr] = {var: index(size) for var, size in sizes.items()}
        self._axes: dict[IterVar, IterVar] = {}
        self._values: dict[Var, Expr] = dict(self._sizes)
        self._tensors: dict[Buffer, Tensor] = {}

    def number(self, extent: int) -> int:
        """Return the number of an extent, which may be an expression.

        Raises:
            ArgumentError: it is below 1 for these sizes.
        """
        if not isinstance(extent, Expr):
            return extent
        value = substitute(extent, self._sizes)
        assert isinstance(value, Const), value  # of sizes and numbers alone
        if value.integer < 1:
            sizes = ", ".join(f"{var.name} = {size}" for var, size in self._sizes.items())
            raise ArgumentError(f"the extent {extent} is {value.integer} where {sizes}; extents are from 1 up")
        return value.integer

    def axis(self, iv: IterVar) -> IterVar:
        """Return the copy of an axis or loop."""
        if iv not in self._axes:
            self._axes[iv] = IterVar(iv.name, Range(iv.dom.min, self.number(iv.extent)), iv.kind)
            self._values[iv] = self._axes[iv]
        return self._axes[iv]

    def tensor(self, tensor: Tensor) -> Tensor:
        """Return the copy of a tensor: of a placeholder, or of an output of a copied operation.

        Raises:
            ComputeError: the operation that computes it was not copied.
        """
        if tensor.buffer not in self._tensors and isinstance(tensor.op, ScanOp):
            # Its cells, which come first, read its outputs.
            self._made(tensor.op, tensor.op.over(tuple(map(self.axis, tensor.op.axis))))
        if tensor.buffer not in self._tensors:
            if not isinstance(tensor.op, PlaceholderOp):
                raise ComputeError(f"{tensor.name} is computed, but not by the operations that are given sizes")
            shape = tuple(map(self.number, tensor.shape))
            self._tensors[tensor.buffer] = PlaceholderOp(tensor.op.name, shape, tensor.dtype).outputs[0]
        return self._tensors[tensor.buffer]

    def argument(self, tensor: Tensor) -> Tensor:
        """Return the copy of an argument, a placeholder unless a copied operation computes it."""
        known = tensor.buffer in self._tensors
        return self.tensor(tensor if known else PlaceholderOp(tensor.name, tensor.shape, tensor.dtype).outputs[0])

    def operation(self, op: ComputeOp) -> ComputeOp:
        """Return the copy of an operation, whose inputs were copied before.

        Raises:
            ComputeError: the operation is opaque.
        """
        if isinstance(op, ScanOp):
            return self._scan(op)
        if type(op) is not ComputeOp:
            raise ComputeError(f"{op.name} is a {type(op).__name__}, which has fixed sizes: give numbers as extents")
        made = ComputeOp(op.name, tuple(map(self.axis, op.axis)), self._body(op), op.attrs, op.tag, op.definition)
        made = made.in_scope(op.outputs[0].buffer.scope)
        self._made(op, made)
        return made

    def _body(self, op: ComputeOp) -> tuple[Expr, ...]:
        axes = list(map(self.axis, op.loop_axes))
        ranges: Ranges = {iv: (iv.dom.min, iv.dom.min + iv.extent - 1) for iv in axes}
        reduce = op.reduce
        if reduce is None:
            return tuple(self._expr(expr, ranges) for expr in op.body)
        # The outputs of one reduction still share its operands.
        sources = tuple(self._expr(source, ranges) for source in reduce.sources)
        condition, over = self._expr(reduce.condition, ranges), tuple(map(self.axis, reduce.axes))
        return tuple(Reduce(reduce.reducer, sources, over, condition, n) for n in range(len(op.body)))

    def _made(self, op: ComputeOp, made: ComputeOp) -> None:
        for old, new in zip(op.outputs, made.outputs, strict=True):
            self._tensors[old.buffer] = new

    def _scan(self, op: ScanOp) -> ScanOp:
        made = self.tensor(op.outputs[0]).op
        assert isinstance(made, ScanOp)
        cells = [self.tensor(cell.outputs[0]).op for cell in op.cells]
        made.define(self._body(op), [c for c in cells if isinstance(c, ComputeOp)], list(map(self.axis, op.cell_axes)))
        return made

    def _expr(self, expr: Expr, ranges: Ranges) -> Expr:
        def leaf(node: Expr) -> Expr | None:
            if isinstance(node, Var):
                return self._values.get(node)
            if isinstance(node, Load):
                return node.at(self.tensor(owner(node.buffer)).buffer, tuple(rewrite(i, leaf) for i in node.indices))
            if isinstance(node, Compare) and not self._sizes.keys().isdisjoint(free_vars(node)):
                # The pattern needs this test, but these sizes do not.
                made = type(node)(node.op, rewrite(node.a, leaf), rewrite(node.b, leaf))
                decided = simplify(made, ranges)
                return decided if isinstance(decided, Const) else made
            return None

        return rewrite(expr, leaf)
