"""Conversion of a compute graph to the loop IR: one simple nest for each operation."""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.checks import check_list
from pegbox.compute.graph import post_order
from pegbox.compute.reducer import Reduce
from pegbox.compute.sizes import check_static
from pegbox.compute.tensor import ComputeOp, ExternOp, PlaceholderOp, Tensor
from pegbox.errors import LoweringError
from pegbox.expr.build import TRUE, add, index
from pegbox.expr.nodes import Buffer, Const, Expr, Load, Var
from pegbox.expr.printer import unused_name
from pegbox.expr.visit import substitute
from pegbox.loops.access.region import reads_and_writes, whole
from pegbox.loops.foreign import with_code
from pegbox.loops.nodes import (
    Block,
    BlockIter,
    BlockRealize,
    For,
    Function,
    If,
    IterKind,
    Region,
    Stmt,
    Store,
    seq,
)
from pegbox.loops.reductions.combiner import reducer_notes, store_all


def function_from_tensors(args: Sequence[Tensor], name: str = "main") -> Function:
    """The unscheduled program that computes every non-placeholder of `args` from the placeholders.

    Args:
        args: the function's parameters in call order; inputs and outputs.

    Raises:
        LoweringError: an input that the computation needs is missing from `args`, nothing is computed, or a tensor
            stands there twice.
    """
    wanted = "the function's tensors in call order, such as [A, B, C]"
    args = check_list(f"{name}: args", args, wanted, error=LoweringError, of=Tensor)
    if len({id(t) for t in args}) != len(args):
        raise LoweringError(f"{name}: a tensor stands twice among the arguments {[t.name for t in args]}")
    outputs = [t for t in args if isinstance(t.op, ComputeOp)]
    if not outputs:
        raise LoweringError(f"{name}: nothing to compute, all of {[t.name for t in args]} are placeholders")
    order = post_order([t.op for t in outputs])
    given = {t.buffer for t in args}
    for op in order:
        if isinstance(op, PlaceholderOp) and op.outputs[0].buffer not in given:
            raise LoweringError(
                f"{name}: {outputs[0].name} needs the input {op.name}, which is not among the arguments"
            )
    computed = [op for op in order if isinstance(op, ComputeOp)]
    return function_from_ops(computed, [t.buffer for t in args], [t.buffer for t in outputs], name)


def function_from_ops(
    ops: Sequence[ComputeOp], params: Sequence[Buffer], outputs: Sequence[Buffer], name: str = "main"
) -> Function:
    """The unscheduled program that runs `ops` in the given order; blocks are named by `block_names`.

    Raises:
        ComputeError: an operation has size variables.
    """
    check_static(ops)
    allocs = tuple(t.buffer for op in ops for t in op.outputs if t.buffer not in params)
    names = block_names(ops)
    body = seq(*(_nest(op, names[op]) for op in ops))
    code = [each for op in ops if isinstance(op, ExternOp) for each in op.code]
    return with_code(Function(name, tuple(params), tuple(outputs), body, allocs), code)


def block_names(ops: Sequence[ComputeOp]) -> dict[ComputeOp, str]:
    """A block name for each operation: its own name, numbered where several share it."""
    names: dict[ComputeOp, str] = {}
    taken: set[str] = set()
    for op in ops:
        names[op] = unused_name(op.name, taken)
        taken.add(names[op])
    return names


def _nest(op: ComputeOp, name: str) -> Stmt:
    axes = (*op.axis, *op.reduce_axis)
    loops = [Var(iv.name) for iv in axes]
    body: Stmt = BlockRealize(tuple(loops), block_of(op, name), TRUE)
    for var, iv in reversed(list(zip(loops, axes, strict=True))):
        body = For(var, iv.extent, body)
    return body


def block_of(op: ComputeOp, name: str) -> Block:
    """The block that computes one point of the operation; of a statement, all of them."""
    if isinstance(op, ExternOp):
        reads, writes = (tuple(whole(t.buffer) for t in tensors) for tensors in (op.inputs, op.outputs))
        return Block(name, (), reads, writes, op.statement)
    axes = (*op.axis, *op.reduce_axis)
    iters = tuple(BlockIter(Var(f"v{iv.name}"), iv.extent, IterKind(iv.kind)) for iv in axes)
    # Block variables count from zero; a reduce axis may not.
    values: dict[Var, Expr] = {iv: add(it.var, index(iv.dom.min)) for iv, it in zip(axes, iters, strict=True)}
    point = tuple(it.var for it in iters[: len(op.axis)])
    reduce = op.reduce
    if reduce is None:
        body = seq(*(Store(t.buffer, point, substitute(e, values)) for t, e in zip(op.outputs, op.body, strict=True)))
        reads, writes = reads_and_writes(body)
        return Block(name, iters, reads, writes, body)
    sources = tuple(substitute(s, values) for s in reduce.sources)
    update = _update(op, reduce, sources, point)
    condition = substitute(reduce.condition, values)
    if not (isinstance(condition, Const) and condition.value):
        update = If(condition, update)
    identity = reduce.reducer.identity(tuple(s.dtype for s in sources))
    init = seq(*(Store(t.buffer, point, e) for t, e in zip(op.outputs, identity, strict=True)))
    reads, writes = reads_and_writes(update)
    notes = reducer_notes(reduce.reducer, tuple(s.dtype for s in sources))
    return Block(name, iters, reads, _outputs_only(op, writes), update, init, notes)


def _update(op: ComputeOp, reduce: Reduce, sources: tuple[Expr, ...], point: tuple[Expr, ...]) -> Stmt:
    """Combine the accumulated values with the new ones."""
    buffers = [t.buffer for t in op.outputs]
    combined = reduce.reducer.combine(tuple(Load(b, point) for b in buffers), sources)
    return store_all(buffers, [point] * len(buffers), combined)


def _outputs_only(op: ComputeOp, writes: tuple[Region, ...]) -> tuple[Region, ...]:
    own = {t.buffer for t in op.outputs}
    return tuple(region for region in writes if region.buffer in own)
