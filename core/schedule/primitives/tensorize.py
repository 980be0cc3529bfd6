"""Primitive tensorize, which replaces the nest inside a block by the statements of an intrinsic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import TypeVar

import pegbox.schedule.intrinsics  # noqa: F401  (makes the shipped ones known)
from pegbox.errors import ScheduleError
from pegbox.expr import dtypes
from pegbox.expr.affine import linear
from pegbox.expr.bounds import Ranges, bounds
from pegbox.expr.build import ZERO, all_of, compare, logical_not
from pegbox.expr.low_level import Address, Stride, VectorLoad, is_contiguous
from pegbox.expr.nodes import Buffer, Expr, Load
from pegbox.expr.simplify import simplify
from pegbox.expr.visit import rewrite
from pegbox.expr.visit import walk as walk_expr
from pegbox.loops.copy import fresh_copy
from pegbox.loops.foreign import with_code
from pegbox.loops.nodes import BlockRealize, For, If, Stmt, Store, seq
from pegbox.loops.visit import expressions, iter_ranges, map_children, map_own_exprs, straight_nest, walk
from pegbox.schedule.analysis.checks import check_no_lanes
from pegbox.schedule.intrinsics.intrinsic import TensorIntrin, described
from pegbox.schedule.intrinsics.match import Mismatch, Operand, match, match_init
from pegbox.schedule.primitives.blockize import block_of_nest
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.state.recording import primitive
from pegbox.schedule.state.schedule_state import ScheduleState

_Item = TypeVar("_Item")


@primitive(moves=False)
def tensorize(
    sch: ScheduleState, block_or_loop: BlockRef | LoopRef | str, tensor_intrin: str, preserve_unit_iters: bool = True
) -> None:
    """Replace a loop (or the nest inside a block) by a tensor intrinsic that computes the same.

    Args:
        block_or_loop: a loop, which becomes a block first (see `blockize`), or such a block.
        tensor_intrin: the name of an intrinsic, registered with `tir.TensorIntrin.register` or shipped.
        preserve_unit_iters: accepted as in TVM; blocks always keep their variables of one iteration.

    The nest must match the intrinsic's description: the same extents, the same elements (relative to the tile's first
    one), and the same expressions, in which only the operands of + and * may be swapped.

    Before `tensorize(i_1, "fill_4x4")`::

        for i_0 in range(2):
            for j_0 in range(2):
                for i_1 in range(4):
                    for j_1 in range(4):
                        block C: vi = i_0 * 4 + i_1, vj = j_0 * 4 + j_1
                            C[vi, vj] = 0.0

    After::

        for i_0 in range(2):
            for j_0 in range(2):
                block C_o: vi_o = i_0, vj_o = j_0
                    for i in range(4):
                        C[vi_o * 4 + i, vj_o * 4:vj_o * 4 + 4] = broadcast(0.0, 4)

    Raises:
        ScheduleError: there is no intrinsic of that name, the nest does not match its description (both sides are
            shown), the tiles are not whole, or the operands do not have the memory layout that the intrinsic needs.
    """
    tree = sch.tree
    intrin = TensorIntrin.get(tensor_intrin)
    target = sch.find(block_or_loop)
    outer = target if isinstance(target, BlockRealize) else block_of_nest(tree, target)
    above = tree.ancestors(target)
    check_no_lanes(tree, above[-1] if above else None, "leave that loop serial, or unroll it: an intrinsic has vectors")
    try:
        done = with_intrinsic(outer, intrin, tree.ranges, frozenset(sch.origins[sch.func.name].params))
    except Mismatch as mismatch:
        remedy = "shape the nest as the description is (split, reorder, fuse), or give another intrinsic"
        mark = target.var if isinstance(target, For) else target.block.name
        raise ScheduleError(str(mismatch), remedy, mark) from None
    sch.update(with_code(tree.replace(target, done), intrin.code))


def with_intrinsic(
    outer: BlockRealize, intrin: TensorIntrin, ranges: Ranges, params: frozenset[Buffer]
) -> BlockRealize:
    """Return the block with the intrinsic's statements inside.

    Args:
        outer: a block with one nest around one block inside.
        ranges: the ranges of the variables around it.
        params: the buffers whose shapes lowering does not change.

    Raises:
        Mismatch: the nest does not match the intrinsic's description, or the statements do not fit its buffers.
    """
    block = outer.block
    known = {**ranges, **iter_ranges(block.iters)}
    loops, inner = _nest(block.body)
    operands = match(loops, inner, intrin, known)
    for operand, place in operands.items():
        _check_inside(operand, place, known)
    write = _IntrinsicWriter(operands, known, params, intrin)
    _, theirs = described(intrin)
    if theirs.block.init is None:
        if intrin.body is None:
            raise Mismatch("the intrinsic has a description without statements; give decl_tensor_intrin a body")
        return _with(outer, write(intrin.body, goes_on=theirs.block.is_reduction), block.init)
    if block.init is not None:
        match_init(block.init, intrin, operands, known)
    return _reduction(outer, intrin, write)


def _nest(body: Stmt) -> tuple[list[For], BlockRealize]:
    loops, node = straight_nest(body)
    if not isinstance(node, BlockRealize):
        raise Mismatch("the block does not hold one nest around one block; give a loop, or a block from blockize")
    return loops, node


def _with(outer: BlockRealize, body: Stmt, init: Stmt | None) -> BlockRealize:
    return BlockRealize(outer.values, replace(outer.block, body=body, init=init), outer.predicate)


def _reduction(outer: BlockRealize, intrin: TensorIntrin, write: _IntrinsicWriter) -> BlockRealize:
    """Choose the parts of an intrinsic whose description initializes its sum."""
    block = outer.block
    steps = [it for it in block.iters if it.is_reduce and it.extent > 1]
    if block.init is not None and not steps and intrin.body is not None:
        return _with(outer, write(intrin.body), None)
    if intrin.update is None:
        why = (
            f"{block.name} was started before (decompose_reduction)"
            if block.init is None
            else f"the reduction goes on outside the nest, in {', '.join(it.var.name for it in steps)}"
        )
        raise Mismatch(f"{why}, but the intrinsic can only start and reduce at once; give it a reset and an update")
    if block.init is None:
        return _with(outer, write(intrin.update, goes_on=True), None)
    if intrin.reset is not None:
        return _with(outer, write(intrin.update, goes_on=True), write(intrin.reset))
    assert intrin.body is not None
    first = all_of([compare("eq", it.var, ZERO) for it in steps])
    both = seq(If(first, write(intrin.body)), If(logical_not(first), write(intrin.update, goes_on=True)))
    return _with(outer, both, None)


def _check_inside(operand: Buffer, place: Operand, ranges: Ranges) -> None:
    """Check that all elements of an operand are inside its buffer, as the intrinsic may access each of them."""
    for dim, (offset, extent) in enumerate(zip(place.offsets, place.buffer.shape, strict=True)):
        count = operand.shape[place.dims.index(dim)] if dim in place.dims else 1
        between = bounds(offset.to_expr(), ranges)
        if between is None or between[0] < 0 or between[1] + count > extent:
            raise Mismatch(
                f"the tile of {place.buffer!r} for {operand.name}, {count} from {offset.to_expr()} on in dimension "
                f"{dim}, may leave the buffer"
            )


@dataclass
class _IntrinsicWriter:
    """A writer of an intrinsic's statements for the operands of a nest, with fresh loops and buffers."""

    operands: Mapping[Buffer, Operand]
    ranges: Ranges
    params: frozenset[Buffer]
    intrin: TensorIntrin

    def __call__(self, stmt: Stmt, *, goes_on: bool = False) -> Stmt:
        """Return the statements. With `goes_on` they add to existing values, and so read everything that they write."""
        self.goes_on = goes_on
        fresh = fresh_copy(stmt, str)
        exprs = (node for s in walk(fresh) for e in expressions(s) for node in walk_expr(e))
        self.strides = {(node.buffer, node.dim) for node in exprs if isinstance(node, Stride)}
        return self._stmt(fresh)

    def _stmt(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, BlockRealize):
            raise Mismatch("a BlockRealize is not a statement for a tensor intrinsic")
        new = map_own_exprs(map_children(stmt, self._stmt), self._expr)
        if not isinstance(new, Store) or (place := self.operands.get(new.buffer)) is None:
            return new
        if dtypes.lanes(new.value.dtype) and place.dims[-1] != len(place.buffer.shape) - 1:
            raise self._not_neighbours(new.buffer)
        return Store(place.buffer, self._indices(new.buffer, new.indices), new.value)

    def _expr(self, expr: Expr) -> Expr:
        def leaf(e: Expr) -> Expr | None:
            if not isinstance(e, Load | Stride) or (place := self.operands.get(e.buffer)) is None:
                return None
            if isinstance(e, Stride):
                return Stride(place.buffer, place.dims[e.dim])
            return self._load(e, tuple(rewrite(i, leaf) for i in e.indices))

        return rewrite(expr, leaf)

    def _load(self, load: Load, indices: tuple[Expr, ...]) -> Load:
        buffer, place = load.buffer, self.operands[load.buffer]
        where = self._indices(buffer, indices)
        if isinstance(load, Address):
            box = self._spread(buffer, load.extents, 1)
            access = "rw" if self.goes_on and load.access == "w" else load.access
            assumed = load.strides if any(s is not None for s in load.strides) else self._assumed(buffer)
            address = Address(place.buffer, where, box, access, self._spread(buffer, assumed, None))
            self._check_strides(address)
            return address
        if isinstance(load, VectorLoad):
            box = self._spread(buffer, load.extents, 1)
            if place.buffer in self.params and not is_contiguous(place.buffer.shape, box):
                raise self._not_neighbours(buffer)
            return VectorLoad(place.buffer, where, load.lanes, box)
        return load.at(place.buffer, where)

    def _assumed(self, buffer: Buffer) -> tuple[int | None, ...]:
        """Return the strides that a function assumes: rows are contiguous, unless their distance is an argument."""
        dims = range(len(buffer.shape))
        return tuple(None if (buffer, d) in self.strides else prod(buffer.shape[d + 1 :]) for d in dims)

    def _check_strides(self, address: Address) -> None:
        shape = address.buffer.shape
        if address.buffer not in self.params:
            return  # lowering may change its shape; the code generator checks again
        for dim, wanted in enumerate(address.strides):
            have = prod(shape[dim + 1 :])
            if wanted is not None and wanted != have and address.extents[dim] > 1:
                raise Mismatch(
                    f"the intrinsic takes it for granted that neighbours along dimension {dim} of {address.buffer!r} "
                    f"are {wanted} elements apart, they are {have}; pass it the stride, or pack the tile (cache_read)"
                )

    def _spread(self, buffer: Buffer, values: tuple[_Item, ...], other: _Item) -> tuple[_Item, ...]:
        """Map the value for each dimension of the operand to the corresponding dimension of the real buffer."""
        place = self.operands[buffer]
        found = [other] * len(place.buffer.shape)
        for dim, value in zip(place.dims, values, strict=True):
            found[dim] = value
        return tuple(found)

    def _indices(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        place = self.operands[buffer]
        sums = list(place.offsets)
        for dim, index in zip(place.dims, indices, strict=True):
            sums[dim] = sums[dim].add(linear(simplify(index, {})))
        return tuple(form.to_expr() for form in sums)

    def _not_neighbours(self, buffer: Buffer) -> Mismatch:
        place = self.operands[buffer]
        return Mismatch(
            f"the intrinsic takes neighbours of {buffer.name}, which are not neighbours in {place.buffer!r}; pack them "
            "first (cache_read and transform_layout), or tensorize another axis"
        )
