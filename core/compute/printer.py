"""Printer of computations as te code."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pegbox.compute.axis import IterVar
from pegbox.compute.reducer import MAX, MIN, PROD, SUM, Reducer
from pegbox.compute.tensor import ComputeOp, Operation, PlaceholderOp
from pegbox.expr import dtypes
from pegbox.expr.build import TRUE
from pegbox.expr.nodes import Buffer, Const, Expr, Load, Logic, Not, Var
from pegbox.expr.printer import Printer, Style, unused_name

_REDUCERS = {id(SUM): "te.sum", id(PROD): "te.prod", id(MAX): "te.max", id(MIN): "te.min"}


def _number(expr: Const) -> str:
    if expr.dtype == dtypes.INDEX or (expr.dtype == "float32" and math.isfinite(expr.value)):
        return repr(expr.value)
    value = expr.value if not dtypes.is_float(expr.dtype) or math.isfinite(expr.value) else float(expr.value)
    text = repr(value) if isinstance(value, int) or math.isfinite(value) else f'float("{value}")'
    return f'te.const({text}, "{expr.dtype}")'


_STYLE = Style(literal=_number, quote=lambda text: f'"{text}"', prefix="te.", select="if_then_else", cast="cast")


class _Printer(Printer):
    """Expressions that Python evaluates: what it cannot overload is a function."""

    def expr(self, expr: Expr, outer: int = 0) -> str:
        if isinstance(expr, Logic):
            parts = ", ".join(map(self.expr, _operands(expr, expr.op)))
            return f"te.{'all' if expr.op == 'and' else 'any'}({parts})"
        if isinstance(expr, Not):
            return f"te.logical_not({self.expr(expr.a)})"
        return super().expr(expr, outer)

    def box(self, buffer: Buffer, indices: Iterable[Expr], extents: Iterable[int]) -> str:
        return super().box(buffer, indices, extents) if buffer.shape else self._scalar(buffer)

    def _scalar(self, buffer: Buffer) -> str:
        name = self.name(buffer)
        return name if (name == buffer.name and "]" in name) or name in "ab" else f"{name}()"


def _operands(expr: Expr, op: str) -> list[Expr]:
    """What a chain of one logical operator joins."""
    if not isinstance(expr, Logic) or expr.op != op:
        return [expr]
    return [*_operands(expr.a, op), *_operands(expr.b, op)]


def te_lines(ops: Sequence[Operation], names: Mapping[Buffer, str]) -> Iterator[str]:
    """The statements that make operations, producers first, in the names that tensors are given."""
    taken = set(names.values())
    reducers: dict[int, str] = {}
    for op in ops:
        if isinstance(op, ComputeOp):
            yield from _compute(op, names, taken, reducers)
        elif isinstance(op, PlaceholderOp):
            tensor = op.outputs[0]
            dtype = "" if tensor.dtype == "float32" else f', dtype="{tensor.dtype}"'
            yield f'{names[tensor.buffer]} = te.placeholder({tensor.shape!r}, name="{op.name}"{dtype})'


def _compute(op: ComputeOp, names: Mapping[Buffer, str], taken: set[str], reducers: dict[int, str]) -> Iterator[str]:
    axes = _names([*op.axis, *op.reduce_axis], taken)
    for axis in op.reduce_axis:
        taken.add(axes[axis])
        yield f'{axes[axis]} = te.reduce_axis(({axis.dom.min}, {axis.dom.min + axis.extent}), name="{axis.name}")'
    printer = _Printer(_STYLE, lambda what: axes[what] if isinstance(what, Var) else names[what])
    if op.reduce is not None and id(op.reduce.reducer) not in {**_REDUCERS, **reducers}:
        reducers[id(op.reduce.reducer)] = name = unused_name(op.reduce.reducer.name, taken)
        taken.add(name)
        yield f"{name} = {_comm_reducer(op.reduce.reducer, [s.dtype for s in op.reduce.sources])}"
    body = _body(op, printer, {**_REDUCERS, **reducers}, axes)
    outputs = ", ".join(names[t.buffer] for t in op.outputs)
    parameters = ", ".join(axes[axis] for axis in op.axis)
    options = "".join(f", {key}={value!r}" for key, value in (("tag", op.tag), ("attrs", op.attrs)) if value)
    arguments = f" {parameters}" if parameters else ""
    yield f'{outputs} = te.compute({op.outputs[0].shape!r}, lambda{arguments}: {body}, name="{op.name}"{options})'


def _body(op: ComputeOp, printer: Printer, reducers: Mapping[int, str], axes: Mapping[IterVar, str]) -> str:
    reduce = op.reduce
    if reduce is None:
        return _tuple([printer.expr(e) for e in op.body])
    over = [axes[axis] for axis in reduce.axes]
    axis = over[0] if len(over) == 1 else f"[{', '.join(over)}]"
    where = "" if reduce.condition is TRUE or reduce.condition == TRUE else f", where={printer.expr(reduce.condition)}"
    return f"{reducers[id(reduce.reducer)]}({_tuple([printer.expr(e) for e in reduce.sources])}, axis={axis}{where})"


def _comm_reducer(reducer: Reducer, types: Sequence[str]) -> str:
    def values(name: str) -> tuple[Expr, ...]:
        labels = [name] if len(types) == 1 else [f"{name}[{n}]" for n in range(len(types))]
        return tuple(Load(Buffer(label, (), t), ()) for label, t in zip(labels, types, strict=True))

    printer = _Printer(_STYLE, lambda what: what.name)
    combine = _tuple([printer.expr(e) for e in reducer.combine(values("a"), values("b"))])
    identity = _tuple([printer.expr(e) for e in reducer.identity(tuple(types))])
    parameters = ", ".join(f"t{n}" for n in range(len(types)))
    return f'te.comm_reducer(lambda a, b: {combine}, lambda {parameters}: {identity}, name="{reducer.name}")'


def _tuple(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


def _names(axes: Sequence[IterVar], taken: set[str]) -> dict[Any, str]:
    """Identifiers for axes, none of them that of a tensor."""
    found: dict[Any, str] = {}
    for axis in axes:
        found[axis] = unused_name(identifier(axis.name), taken | set(found.values()))
    return found


def identifier(name: str) -> str:
    """A name as Python can write it."""
    text = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    return text if text[:1].isalpha() or text[:1] == "_" else f"_{text}"
