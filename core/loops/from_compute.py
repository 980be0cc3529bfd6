"""Conversion of a compute graph to the loop IR: one simple nest for each operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pegbox.checks import check_list, check_text
from pegbox.compute.axis import IterVar
from pegbox.compute.graph import post_order
from pegbox.compute.scan_op import ScanOp
from pegbox.compute.sizes import check_static
from pegbox.compute.tensor import ComputeOp, ExternOp, PlaceholderOp, Tensor
from pegbox.errors import LoweringError
from pegbox.expr.build import TRUE, add, compare, index
from pegbox.expr.nodes import Buffer, Const, Expr, Load, Var
from pegbox.expr.printer import unused_name
from pegbox.expr.visit import substitute
from pegbox.loops.access.block_region import derived_regions
from pegbox.loops.access.region import reads_and_writes, whole_region
from pegbox.loops.foreign import with_code
from pegbox.loops.nodes import Block, BlockIter, BlockRealize, For, Function, If, IterKind, Stmt, Store, seq
from pegbox.loops.reductions.combiner import reducer_notes, store_all


def function_from_tensors(args: Sequence[Tensor], name: str = "main") -> Function:
    """Return the unscheduled program that computes every non-placeholder of `args` from the placeholders.

    Args:
        args: the function's parameters in call order; inputs and outputs.

    Raises:
        LoweringError: an input that the computation needs is missing from `args`, nothing is computed, or a tensor
            occurs there twice.
    """
    wanted = "the function's tensors in call order, such as [A, B, C]"
    check_text("name", name, error=LoweringError)
    args = check_list(f"{name}: args", args, wanted, error=LoweringError, of=Tensor)
    if len({id(t) for t in args}) != len(args):
        raise LoweringError(f"{name}: a tensor occurs twice among the arguments {[t.name for t in args]}")
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
    return function_from_ops(computed, [t.buffer for t in args], [t.buffer for t in outputs], name, place_cells=True)


def function_from_ops(
    ops: Sequence[ComputeOp],
    params: Sequence[Buffer],
    outputs: Sequence[Buffer],
    name: str = "main",
    *,
    place_cells: bool = False,
) -> Function:
    """Return the unscheduled program that runs `ops` in the given order; blocks are named by `block_names`.

    Args:
        place_cells: put the cells of scans inside the loops over the rows. Without it, each operation has a nest of
            its own, and the program is right only after the cells have been moved there.

    Raises:
        ComputeError: an operation has size variables.
    """
    check_static(ops)
    allocs = tuple(t.buffer for op in ops for t in op.outputs if t.buffer not in params)
    names = block_names(ops)
    cells = {cell for op in ops if isinstance(op, ScanOp) for cell in op.cells} if place_cells else set()
    body = seq(*(_nest(op, names, place_cells) for op in ops if op not in cells))
    code = [each for op in ops if isinstance(op, ExternOp) for each in op.code]
    return with_code(Function(name, tuple(params), tuple(outputs), body, allocs), code)


def block_names(ops: Sequence[ComputeOp]) -> dict[ComputeOp, str]:
    """Return a block name for each operation: its own name, numbered where several share it."""
    names: dict[ComputeOp, str] = {}
    taken: set[str] = set()
    for op in ops:
        names[op] = unused_name(op.name, taken)
        taken.add(names[op])
    return names


def _nest(op: ComputeOp, names: Mapping[ComputeOp, str], place_cells: bool) -> Stmt:
    loops = {iv: Var(iv.name) for iv in op.loop_axes}
    if not (place_cells and isinstance(op, ScanOp) and op.cells):
        return _loops(op, names[op], loops, op.loop_axes)
    inside = []
    for each, axis in [*zip(op.cells, op.cell_axes, strict=True), (op, op.scan_axis)]:
        own = {iv: loops[op.scan_axis] if iv is axis else Var(iv.name) for iv in each.loop_axes}
        inside.append(_loops(each, names[each], own, [iv for iv in each.loop_axes if iv is not axis]))
    return For(loops[op.scan_axis], op.scan_axis.extent, seq(*inside))


def _loops(op: ComputeOp, name: str, loops: Mapping[IterVar, Var], axes: Sequence[IterVar]) -> Stmt:
    """Put loops over some axes around the block of an operation; loops over the others are around these."""
    body: Stmt = BlockRealize(tuple(loops[iv] for iv in op.loop_axes), block_of(op, name), TRUE)
    for iv in reversed(axes):
        body = For(loops[iv], iv.extent, body)
    return body


def block_of(op: ComputeOp, name: str) -> Block:
    """Return the block that computes one point of the operation; of a statement, all of them."""
    if isinstance(op, ExternOp):
        reads, writes = (tuple(whole_region(t.buffer) for t in tensors) for tensors in (op.inputs, op.outputs))
        return Block(name, (), reads, writes, op.statement)
    axes = op.loop_axes
    iters = tuple(BlockIter(Var(f"v{iv.name}"), iv.extent, IterKind(iv.kind)) for iv in axes)
    # Block variables count from zero; a reduce axis may not.
    values: dict[Var, Expr] = {iv: add(it.var, index(iv.dom.min)) for iv, it in zip(axes, iters, strict=True)}
    by_axis = {iv: it.var for iv, it in zip(axes, iters, strict=True)}
    point = tuple(by_axis[iv] for iv in op.axis)
    reduce = op.reduce
    if isinstance(op, ScanOp):
        # Two tests, so that lowering can cut the loop over the rows between them.
        row, rows = by_axis[op.scan_axis], index(op.rows)
        cases = ((compare("lt", row, rows), op.starts), (compare("ge", row, rows), op.steps))
        body: Stmt = seq(
            *(
                If(
                    condition,
                    seq(
                        *(
                            Store(t.buffer, point, substitute(e, values))
                            for t, e in zip(op.outputs, elements, strict=True)
                        )
                    ),
                )
                for condition, elements in cases
            )
        )
        return Block(name, iters, *derived_regions(iters, body, None), body)
    if reduce is None:
        body = seq(*(Store(t.buffer, point, substitute(e, values)) for t, e in zip(op.outputs, op.body, strict=True)))
        reads, writes = reads_and_writes(body)
        return Block(name, iters, reads, writes, body)
    sources = tuple(substitute(s, values) for s in reduce.sources)
    buffers = [t.buffer for t in op.outputs]
    combined = reduce.reducer.combine(tuple(Load(b, point) for b in buffers), sources)
    update = store_all(buffers, [point] * len(buffers), combined)
    condition = substitute(reduce.condition, values)
    if not (isinstance(condition, Const) and condition.value):
        update = If(condition, update)
    identity = reduce.reducer.identity(tuple(s.dtype for s in sources))
    init = seq(*(Store(t.buffer, point, e) for t, e in zip(op.outputs, identity, strict=True)))
    reads, writes = reads_and_writes(update)
    notes = reducer_notes(reduce.reducer, tuple(s.dtype for s in sources))
    writes = tuple(region for region in writes if region.buffer in buffers)
    return Block(name, iters, reads, writes, update, init, notes)
