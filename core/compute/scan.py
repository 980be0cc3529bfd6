"""`te.scan`: recurrences, such as running sums and recurrent cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pegbox.checks import check_list, check_text
from pegbox.compute.axis import IterVar, Range
from pegbox.compute.graph import post_order
from pegbox.compute.ops import attributes, compute, placeholder
from pegbox.compute.reducer import Reduce
from pegbox.compute.scan_op import ScanOp
from pegbox.compute.tag import tag_of
from pegbox.compute.tensor import ComputeOp, PlaceholderOp, Tensor, body_loads
from pegbox.errors import ComputeError
from pegbox.expr.affine import linear
from pegbox.expr.build import as_expr, compare, conjuncts, const, index, logical_and, select
from pegbox.expr.equal import same
from pegbox.expr.nodes import Buffer, Expr, Load, Select
from pegbox.expr.visit import Targets, in_front, redirect_loads, substitute
from pegbox.shown import value_text


def scan(
    init: Tensor | Sequence[Tensor],
    update: Tensor | Sequence[Tensor],
    state_placeholder: Tensor | Sequence[Tensor],
    inputs: Sequence[Tensor] | None = None,
    name: str = "scan",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    *,
    axis: int = 0,
) -> Any:
    """Make a recurrence: a tensor of rows, each computed from the rows before it.

    >>> X = te.placeholder((8, 4), name="X")
    >>> state = te.placeholder((8, 4), name="state")
    >>> first = te.compute((1, 4), lambda t, i: X[0, i], name="first")
    >>> update = te.compute((8, 4), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    >>> sums = te.scan(first, update, state)

    The stage of the scan is that of its updates: `s[sums]` and `s[update]` are the same. Computations between a state
    and an update have their own stages; they run once for each row, and may be computed inside the loops of the scan or
    inlined.

    Args:
        init: the first rows, as many as the updates read back, in the state's shape except for that dimension.
        update: the computation of a row from the rows before it, in the state's shape.
        state_placeholder: the rows for the update to read, `state[t - 1, ...]`.
        inputs: the tensors that the updates read, accepted as in TVM but not needed.
        axis: the dimension that counts the rows. In TVM it is the first.

    Returns:
        The tensor of all rows; for lists of several states, which have one shape, a list with one for each.

    Raises:
        ComputeError: shapes or types disagree, or an update reads rows that do not exist yet.
    """
    what = f"scan {check_text('scan: name', name, error=ComputeError)!r}"
    if inputs is not None:
        check_list(f"{what}: inputs", inputs, "the tensors that the updates read", error=ComputeError, of=Tensor)
    inits, updates, states = (
        _tensors(f"{what}: {role}", given)
        for role, given in (("init", init), ("update", update), ("state_placeholder", state_placeholder))
    )
    time = _check_shapes(what, inits, updates, states, axis)
    rows = inits[0].shape[time]
    cells = _Cells(what, states, inits, updates, time, rows)
    fresh = tuple(IterVar(f"i{n}", Range(0, extent), "spatial") for n, extent in enumerate(states[0].shape))
    axes = cells.folded[0].axis if cells.folded else fresh
    given = attributes(name, attrs)
    op = ScanOp(name, axes, time=time, rows=rows, updates=updates, attrs=given, tag=tag_of(what, tag))
    targets = {s.buffer: (t.buffer, in_front()) for s, t in zip(states, op.outputs, strict=True)}
    first = compare("lt", axes[time], index(rows))
    body = [
        Select(first, Load(i.buffer, axes), redirect_loads(cells.element(u, axes), targets))
        for i, u in zip(inits, updates, strict=True)
    ]
    guarded = [cells.guarded(cell, targets) for cell in cells.ops]
    op.define(tuple(body), guarded, [cells.axes[cell] for cell in cells.ops])
    return op.outputs[0] if len(op.outputs) == 1 else list(op.outputs)


def cumsum(data: Tensor, axis: int = -1, name: str = "cumsum") -> Tensor:
    """Return the running sums along an axis: element t is the sum of the elements up to t, in their own type.

    Raises:
        ComputeError: `data` is not a tensor, or has no such axis.
    """
    return _running("cumsum", data, axis, name, lambda before, new: before + new)


def cumprod(data: Tensor, axis: int = -1, name: str = "cumprod") -> Tensor:
    """Return the running products along an axis: element t is the product of the elements up to t, in their own type.

    Raises:
        ComputeError: as in `cumsum`.
    """
    return _running("cumprod", data, axis, name, lambda before, new: before * new)


def _running(what: str, data: Tensor, axis: int, name: str, combine: Callable[[Expr, Expr], Expr]) -> Tensor:
    if not isinstance(data, Tensor):
        raise ComputeError(f"{what}: {value_text(data)} is not a tensor; give one")
    if not isinstance(axis, int) or isinstance(axis, bool) or not -data.ndim <= axis < data.ndim:
        raise ComputeError(f"{what}: axis={value_text(axis)} is not a dimension of {data.name} {list(data.shape)}")
    check_text(f"{what}: name", name, error=ComputeError)
    dim = axis % data.ndim
    if data.shape[dim] == 1:
        alone: Tensor = compute(data.shape, lambda *i: data[i], name)
        return alone
    state = placeholder(data.shape, data.dtype, f"{name}_state")
    first = compute((*data.shape[:dim], 1, *data.shape[dim + 1 :]), lambda *i: data[i], f"{name}_init")

    def step(*i: IterVar) -> Expr:
        before = (*i[:dim], i[dim] - 1, *i[dim + 1 :])
        return combine(state[before], data[i])

    update = compute(data.shape, step, f"{name}_update")
    made: Tensor = scan(first, update, state, name=name, axis=dim)
    return made


def _tensors(what: str, given: Tensor | Sequence[Tensor]) -> list[Tensor]:
    listed = [given] if isinstance(given, Tensor) else given
    return check_list(what, listed, "a tensor, or a list with one for each state", error=ComputeError, of=Tensor)


def _check_shapes(
    what: str, inits: Sequence[Tensor], updates: Sequence[Tensor], states: Sequence[Tensor], axis: int
) -> int:
    """Return the dimension of the rows.

    Raises:
        ComputeError: the numbers, shapes or types of the tensors do not fit each other.
    """
    if not (len(inits) == len(updates) == len(states) > 0):
        raise ComputeError(
            f"{what}: {len(inits)} init, {len(updates)} update and {len(states)} state_placeholder; give one of each "
            "for each state"
        )
    for s in states:
        if not isinstance(s.op, PlaceholderOp):
            raise ComputeError(f"{what}: state_placeholder {s.name} is computed; give te.placeholder(shape)")
        if not _is_shape(s, states[0].shape):
            raise ComputeError(
                f"{what}: the states {states[0].name} {list(states[0].shape)} and {s.name} {list(s.shape)} have "
                "different shapes; give states of one shape, or a scan for each"
            )
    if len({s.buffer for s in states}) != len(states):
        raise ComputeError(f"{what}: a state_placeholder is given twice; make one for each state")
    shape = states[0].shape
    if not isinstance(axis, int) or isinstance(axis, bool) or not -len(shape) <= axis < len(shape):
        raise ComputeError(f"{what}: axis={value_text(axis)} is not a dimension of the states {list(shape)}")
    time = axis % len(shape)
    rows = inits[0].shape[time] if inits[0].ndim == len(shape) else 0
    for i, u, s in zip(inits, updates, states, strict=True):
        wanted = (*shape[:time], rows, *shape[time + 1 :])
        if not _is_shape(i, wanted) or not isinstance(rows, int):
            few = [
                *map(str, shape[:time]),
                str(rows) if rows and i is not inits[0] else "1",
                *map(str, shape[time + 1 :]),
            ]
            raise ComputeError(
                f"{what}: init {i.name} has the shape {list(i.shape)}; the state {s.name} has {list(shape)}, so its "
                f"first rows have [{', '.join(few)}]"
            )
        if not _is_shape(u, shape):
            raise ComputeError(
                f"{what}: update {u.name} has the shape {list(u.shape)}; give that of its state {s.name}, {list(shape)}"
            )
        for role, tensor in (("init", i), ("update", u)):
            if tensor.dtype != s.dtype:
                raise ComputeError(f"{what}: {role} {tensor.name} is {tensor.dtype}, its state {s.name} is {s.dtype}")
    if isinstance(shape[time], int) and rows >= shape[time]:
        raise ComputeError(
            f"{what}: init {inits[0].name} gives {rows} row(s) of {shape[time]}, which leaves none to update"
        )
    return time


def _is_shape(tensor: Tensor, shape: Sequence[int]) -> bool:
    """Decide if a tensor has a shape, whose extents may be expressions."""
    return tensor.ndim == len(shape) and all(
        same(as_expr(a), as_expr(b)) for a, b in zip(tensor.shape, shape, strict=True)
    )


class _Cells:
    """The operations through which updates depend on states.

    Attributes:
        ops: those that run before the updates in each row.
        folded: the updates that the scan computes itself.
    """

    def __init__(
        self,
        what: str,
        states: Sequence[Tensor],
        inits: Sequence[Tensor],
        updates: Sequence[Tensor],
        time: int,
        rows: int,
    ) -> None:
        self.what, self.time, self.rows = what, time, rows
        self.states = {s.buffer for s in states}
        depending = self._depending(updates)
        for i in inits:
            if any(t.buffer in self.states for op in post_order([i.op]) for t in op.outputs):
                raise ComputeError(f"{what}: init {i.name} reads a state, which has no rows before the first ones")
        used = {load.buffer for op in depending for load in body_loads(op.body)}
        finals = {u.op for u in updates}
        self.folded = [
            op
            for op in depending
            if op in finals and op.reduce is None and not any(t.buffer in used for t in op.outputs)
        ]
        self.ops = [op for op in depending if op not in self.folded]
        self.axes: dict[ComputeOp, IterVar] = {}
        for op in depending:
            self.axes[op] = self._time_axis(op)
            if op in finals and self.axes[op] is not op.axis[time]:
                raise ComputeError(
                    f"{what}: update {op.name} counts the rows along {self.axes[op].name}; they are counted along "
                    f"dimension {time} of the states"
                )

    def _depending(self, updates: Sequence[Tensor]) -> list[ComputeOp]:
        """Return the operations that read states, or others that do, in order."""
        reached: set[Buffer] = set(self.states)
        found: list[ComputeOp] = []
        for op in post_order([u.op for u in updates]):
            if not any(t.buffer in reached for t in op.sources):
                continue
            if type(op) is not ComputeOp:
                raise ComputeError(f"{self.what}: {op.name} reads a state, which only te.compute may")
            found.append(op)
            reached.update(t.buffer for t in op.outputs)
        return found

    def _time_axis(self, op: ComputeOp) -> IterVar:
        """Return the axis that counts the rows, at which the operation reads states and cells.

        Raises:
            ComputeError: it reads a row that does not exist yet, or an undetermined row.
        """
        own = {t.buffer: cell for cell in self.axes for t in cell.outputs}
        found: list[IterVar] = []
        for load in body_loads(op.body):
            if load.buffer in self.states:
                found.append(self._row(op, load, self.time, 1, self.rows))
            elif load.buffer in own:
                cell = own[load.buffer]
                found.append(self._row(op, load, cell.axis.index(self.axes[cell]), 0, 0))
        if any(axis is not found[0] for axis in found):
            names = ", ".join(dict.fromkeys(axis.name for axis in found))
            raise ComputeError(f"{self.what}: {op.name} counts the rows along several axes, {names}")
        return found[0]

    def _row(self, op: ComputeOp, load: Load, dim: int, least: int, most: int) -> IterVar:
        """Return the axis of `op` that selects the row that a load reads: `most` to `least` rows before its own."""
        form = linear(load.indices[dim])
        axis = next((iv for iv in op.axis if dict(form.terms) == {iv: 1}), None)
        if axis is None:
            raise ComputeError(
                f"{self.what}: {op.name} reads {load}; index {dim} selects the row, so give an axis of {op.name}"
                + (" minus a number" if least else "")
            )
        if -form.const < least:
            raise ComputeError(
                f"{self.what}: {op.name} reads {load}, a row that is not there yet; read "
                + ("rows before its own" if least else "its own row")
            )
        if -form.const > most:
            raise ComputeError(
                f"{self.what}: {op.name} reads {load}, {-form.const} row(s) before its own; "
                + (f"init gives {most}, so read at most as many before" if most else "read its own row")
            )
        return axis

    def element(self, update: Tensor, axes: Sequence[IterVar]) -> Expr:
        """Return the element of an update at the point of the scan."""
        op = update.op
        if not isinstance(op, ComputeOp) or op not in self.folded:
            return Load(update.buffer, tuple(axes))
        return substitute(op.body[update.value_index], dict(zip(op.axis, axes, strict=True)))

    def guarded(self, op: ComputeOp, targets: Targets) -> ComputeOp:
        """Return a cell that reads the scan's outputs, guarded against the first rows, which have no predecessors."""
        later = compare("ge", self.axes[op], index(self.rows))
        first = op.body[0]
        if isinstance(first, Reduce):
            sources = tuple(redirect_loads(source, targets) for source in first.sources)
            condition = first.condition
            if not any(same(part, later) for part in conjuncts(condition)):
                condition = logical_and(later, condition)
            condition = redirect_loads(condition, targets)
            body: list[Expr] = [Reduce(first.reducer, sources, first.axes, condition, n) for n in range(len(op.body))]
        else:
            body = [redirect_loads(expr, targets) for expr in op.body]
            body = [
                e if isinstance(e, Select) and same(e.cond, later) else select(later, e, const(0, e.dtype))
                for e in body
            ]
        return op.rebuilt(tuple(body))
