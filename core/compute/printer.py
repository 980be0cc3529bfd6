"""Printer of computations as te code."""

from __future__ import annotations

import keyword
import math
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from pegbox.compute.reducer import MAX, MIN, PROD, SUM, Reduce, Reducer
from pegbox.compute.scan_op import ScanOp
from pegbox.compute.sizes import size_variables
from pegbox.compute.tensor import ComputeOp, ExternOp, Operation, PlaceholderOp, Tensor
from pegbox.expr import dtypes
from pegbox.expr.build import TRUE
from pegbox.expr.nodes import Buffer, Compare, Const, Expr, Load, Logic, Not, Var
from pegbox.expr.printer import Pair, Printer, Style, quoted, unused_name

RESERVED = ("te", "float")
"""The names that te code uses itself."""

_REDUCERS = {SUM: "te.sum", PROD: "te.prod", MAX: "te.max", MIN: "te.min"}


def _typed(expr: Const) -> str:
    text = repr(expr.value) if math.isfinite(expr.value) else f'float("{float(expr.value)}")'
    return f'te.const({text}, "{expr.dtype}")'


def _number(expr: Const) -> str:
    """Write a constant as an argument; Python's floats become float32."""
    return repr(float(expr.value)) if expr.dtype == "float32" and math.isfinite(expr.value) else _typed(expr)


_STYLE = Style(
    literal=_number,
    quote=quoted,
    prefix="te.",
    words={"min": "minimum", "max": "maximum"},  # te.min and te.max would be reductions
    select="if_then_else",
    cast="cast",
    call_llvm="call_llvm_intrin",
)


class _Printer(Printer):
    """A printer of expressions as Python code, in which operators that cannot be overloaded are functions.

    Python must not fold numbers itself.
    """

    def expr(self, expr: Expr, outer: int = 0) -> str:
        if isinstance(expr, Logic):
            parts = ", ".join(map(self.expr, _operands(expr, expr.op)))
            return f"te.{'all' if expr.op == 'and' else 'any'}({parts})"
        if isinstance(expr, Not):
            return f"te.logical_not({self.expr(expr.a)})"
        return super().expr(expr, outer)

    def operand(self, of: Pair, part: Expr, outer: int = 0) -> str:
        """Return the text of a part of an expression.

        A Python number takes its type from the other operand. Python would compute two numbers in double precision, and
        would swap a comparison with one on the left.
        """
        if not isinstance(part, Const):
            return self.expr(part, outer)
        turns = isinstance(of, Compare) and part is of.a
        if turns or (isinstance(of.a, Const) and isinstance(of.b, Const)):
            return _typed(part)
        return self.index(part) if part.dtype == dtypes.INDEX else self.expr(part)

    def index(self, expr: Expr) -> str:
        return repr(expr.value) if isinstance(expr, Const) else self.expr(expr)

    def box(self, buffer: Buffer, indices: Iterable[Expr], extents: Iterable[int]) -> str:
        return super().box(buffer, indices, extents) if buffer.shape else f"{self.name(buffer)}()"


class _ReducerPrinter(_Printer):
    """A printer for the functions of a reducer, whose values are parameters and not tensors."""

    def box(self, buffer: Buffer, indices: Iterable[Expr], extents: Iterable[int]) -> str:
        return buffer.name


def _operands(expr: Expr, op: str) -> list[Expr]:
    """Return the operands of a chain of one left-associative logical operator."""
    return [*_operands(expr.a, op), expr.b] if isinstance(expr, Logic) and expr.op == op else [expr]


def tensor_names(ops: Iterable[Operation], reserved: Iterable[str] = ()) -> dict[Buffer, str]:
    """Return an identifier for each tensor of a graph; all are distinct, and none is used by te code itself.

    Args:
        reserved: further names that no tensor may have.
    """
    return _identifiers([tensor.buffer for op in ops for tensor in op.outputs], {*RESERVED, *reserved})


def te_lines(ops: Sequence[Operation], names: Mapping[Buffer, str]) -> Iterator[str]:
    """Yield the statements that make operations, producers first, with the tensors' names (`tensor_names`)."""
    written = _Written(names)
    for size, name in _identifiers(size_variables(ops), written.taken).items():
        written.axes[size] = name
        written.taken.add(name)
        yield f"{name} = te.var({quoted(size.name)})"
    scans = [op for op in ops if isinstance(op, ScanOp)]
    for op in ops:
        scan = next((scan for scan in scans if op in scan.members), None)
        if scan is not None:
            yield from _member(op, scan, written)
        elif isinstance(op, ExternOp):
            yield _extern(op, names)
        elif isinstance(op, ComputeOp):
            yield from _compute(op, written)
        elif isinstance(op, PlaceholderOp):
            yield _placeholder(names[op.outputs[0].buffer], op.name, op.outputs[0], written)


class _Written:
    """The names assigned by the statements so far, for tensors, reduce axes, and reducers with their types.

    Attributes:
        states: the placeholders for reading the rows of scans, by the buffers of the scans.
    """

    def __init__(self, tensors: Mapping[Buffer, str]) -> None:
        self.tensors: Mapping[Buffer, str] = tensors
        self.taken = {*tensors.values(), *RESERVED}
        self.axes: dict[Any, str] = {}
        self.states: dict[Buffer, str] = {}
        self.reducers: dict[tuple[Reducer, tuple[str, ...]], str] = {}

    def new(self, name: str) -> str:
        """Return an unused name, for one more tensor."""
        found = unused_name(name, self.taken)
        self.taken.add(found)
        return found


def _compute(op: ComputeOp, written: _Written) -> Iterator[str]:
    # Write the reduce axes, and the reducer, unless an earlier computation has.
    for axis, name in _identifiers([a for a in op.reduce_axis if a not in written.axes], written.taken).items():
        written.axes[axis] = name
        written.taken.add(name)
        end = _extent(axis.dom.min + axis.extent, written)
        yield f"{name} = te.reduce_axis(({axis.dom.min}, {end}), name={quoted(axis.name)})"
    if op.reduce is not None and op.reduce.reducer not in _REDUCERS:
        key = _reducer_key(op.reduce)
        if key not in written.reducers:
            written.reducers[key] = name = written.new(identifier(op.reduce.reducer.name))
            yield f"{name} = {_comm_reducer(*key)}"
    spatial = _identifiers(op.axis, written.taken)
    body = _body(op, {**written.axes, **spatial}, written)
    outputs = ", ".join(written.tensors[t.buffer] for t in op.outputs)
    given = (("tag", op.tag), ("attrs", op.attrs))
    options = "".join(f", {key}={_value(value, written.tensors)}" for key, value in given if value)
    arguments = f" {', '.join(spatial.values())}" if spatial else ""
    shape, name = _shape(op.outputs[0].shape, written), quoted(op.name)
    yield f"{outputs} = te.compute({shape}, lambda{arguments}: {body}, name={name}{options})"


def _member(op: Operation, scan: ScanOp, written: _Written) -> Iterator[str]:
    """Yield a cell, or the scan itself, which reads earlier rows through placeholders."""
    buffers = [tensor.buffer for tensor in scan.outputs]
    for buffer in buffers if buffers[0] not in written.states else ():
        written.states[buffer] = name = written.new(f"{written.tensors[buffer]}_state")
        yield _placeholder(name, name, scan.outputs[buffers.index(buffer)], written)
    plain, written.tensors = written.tensors, {**written.tensors, **written.states}
    if op is not scan:
        assert isinstance(op, ComputeOp)
        yield from _compute(op, written)
        written.tensors = plain
        return
    updates = []
    for number, step in enumerate(scan.steps):
        if isinstance(step, Load) and any(t.buffer is step.buffer for cell in scan.cells for t in cell.outputs):
            updates.append(plain[step.buffer])
            continue
        updates.append(written.new(f"{plain[buffers[number]]}_update"))
        update = ComputeOp(updates[-1], scan.axis, (step,))
        written.tensors = {**written.tensors, update.outputs[0].buffer: updates[-1]}
        yield from _compute(update, written)
    written.tensors = plain
    starts = [plain[expr.buffer] for expr in scan.starts if isinstance(expr, Load)]
    lists = [
        names[0] if len(names) == 1 else f"[{', '.join(names)}]"
        for names in (starts, updates, [written.states[buffer] for buffer in buffers])
    ]
    options = "".join(
        f", {key}={_value(value, plain)}"
        for key, value in (("tag", scan.tag), ("attrs", scan.attrs), ("axis", scan.time))
        if value
    )
    outputs = ", ".join(plain[buffer] for buffer in buffers)
    yield f"{outputs} = te.scan({', '.join(lists)}, name={quoted(scan.name)}{options})"


def _placeholder(variable: str, name: str, tensor: Tensor, written: _Written) -> str:
    dtype = "" if tensor.dtype == "float32" else f', dtype="{tensor.dtype}"'
    return f"{variable} = te.placeholder({_shape(tensor.shape, written)}, name={quoted(name)}{dtype})"


def _extern(op: ExternOp, names: Mapping[Buffer, str]) -> str:
    """Print an extern operation without its statement, which only programs show."""
    outputs, inputs = (", ".join(names[t.buffer] for t in tensors) for tensors in (op.outputs, op.inputs))
    shapes, kinds = [t.shape for t in op.outputs], [t.dtype for t in op.outputs]
    return f"{outputs} = te.extern({shapes!r}, [{inputs}], ..., name={quoted(op.name)}, dtype={kinds!r})"


def _value(value: Any, names: Mapping[Buffer, str]) -> str:
    """Write a tag or attributes, with tensors by name."""
    match value:
        case Tensor():
            return names.get(value.buffer, repr(value))
        case list() | tuple():
            inner = ", ".join(_value(each, names) for each in value)
            return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
        case Const():
            return _number(value)
        case float() if not math.isfinite(value):
            return f'float("{value}")'
        case dict():
            return f"{{{', '.join(f'{key!r}: {_value(each, names)}' for key, each in value.items())}}}"
        case _:
            return repr(value)


def _shape(shape: Sequence[int], written: _Written) -> str:
    inner = ", ".join(_extent(extent, written) for extent in shape)
    return f"({inner},)" if len(shape) == 1 else f"({inner})"


def _extent(extent: int | Expr, written: _Written) -> str:
    """Return a number, or an expression of size variables in its place."""
    return _Printer(_STYLE, written.axes.__getitem__).expr(extent) if isinstance(extent, Expr) else repr(extent)


def _reducer_key(reduce: Reduce) -> tuple[Reducer, tuple[str, ...]]:
    return reduce.reducer, tuple(source.dtype for source in reduce.sources)


def _body(op: ComputeOp, axes: Mapping[Any, str], written: _Written) -> str:
    printer = _Printer(_STYLE, lambda what: axes[what] if isinstance(what, Var) else written.tensors[what])
    reduce = op.reduce
    if reduce is None:
        return _tuple([printer.expr(e) for e in op.body])
    reducer = _REDUCERS.get(reduce.reducer) or written.reducers[_reducer_key(reduce)]
    over = [axes[axis] for axis in reduce.axes]
    axis = over[0] if len(over) == 1 else f"[{', '.join(over)}]"
    where = "" if reduce.condition is TRUE or reduce.condition == TRUE else f", where={printer.expr(reduce.condition)}"
    return f"{reducer}({_tuple([printer.expr(e) for e in reduce.sources])}, axis={axis}{where})"


def _comm_reducer(reducer: Reducer, types: Sequence[str]) -> str:
    def values(name: str) -> tuple[Expr, ...]:
        labels = [name] if len(types) == 1 else [f"{name}[{n}]" for n in range(len(types))]
        return tuple(Load(Buffer(label, (), t), ()) for label, t in zip(labels, types, strict=True))

    printer = _ReducerPrinter(_STYLE, attrgetter("name"))
    combine = _tuple([printer.expr(e) for e in reducer.combine(values("a"), values("b"))])
    identity = _tuple([printer.expr(e) for e in reducer.identity(tuple(types))])
    parameters = ", ".join(f"t{n}" for n in range(len(types)))
    ordered = ", ordered=True" if reducer.ordered else ""
    name = quoted(reducer.name)
    return f"te.comm_reducer(lambda a, b: {combine}, lambda {parameters}: {identity}, name={name}{ordered})"


def _tuple(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


def _identifiers(named: Iterable[Buffer | Var], taken: Iterable[str]) -> dict[Any, str]:
    """Return an unused identifier for each of some tensors, axes or sizes."""
    found: dict[Any, str] = {}
    unavailable = set(taken)
    for each in named:
        found[each] = unused_name(identifier(each.name), unavailable)
        unavailable.add(found[each])
    return found


def identifier(name: str) -> str:
    """Turn a name into a Python identifier."""
    plain = unicodedata.normalize("NFKC", name)  # Python normalizes identifiers like this
    text = "".join(c if f"_{c}".isidentifier() else "_" for c in plain) or "_"
    if not text.isidentifier():
        text = f"_{text}"
    return f"{text}_" if keyword.iskeyword(text) or text == "__debug__" else text
