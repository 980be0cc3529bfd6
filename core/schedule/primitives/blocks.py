"""Primitives blockize and tensorize."""

from __future__ import annotations

import pegbox.schedule.intrinsics  # noqa: F401  (makes the shipped ones known)
from pegbox.expr.printer import unused_name
from pegbox.loops.foreign import with_code
from pegbox.loops.nodes import BlockRealize, For, ForKind
from pegbox.schedule.errors import refuse
from pegbox.schedule.intrinsics.intrinsic import TensorIntrin
from pegbox.schedule.intrinsics.match import Mismatch
from pegbox.schedule.rewrites.blockize import block_of_nest, nest_below
from pegbox.schedule.rewrites.tensorize import with_intrinsic
from pegbox.schedule.state.handles import BlockRef, LoopRef
from pegbox.schedule.state.recording import primitive
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.schedule.tree import Tree


@primitive(moves=False)
def blockize(sch: ScheduleState, target: LoopRef, preserve_unit_iters: bool = True) -> BlockRef:
    """Make one block of a loop and all that is inside of it. Gives the new block, `NAME_o`.

    The loops outside now move whole tiles. The block that was there stands inside of the new one, with its name;
    primitives on it and on its loops go on working there. A reduction starts in a nest of its own, `NAME_init`.

    Before `blockize(i_1)`::

        for i_0 in range(4):
            for j_0 in range(2):
                for i_1 in range(8):
                    for j_1 in range(16):
                        block C:
                            vi = spatial(32, i_0 * 8 + i_1)
                            vj = spatial(32, j_0 * 16 + j_1)
                            C[vi, vj] = A[vi, vj] * 2.0

    After::

        for i_0 in range(4):
            for j_0 in range(2):
                block C_o:
                    vi_o = spatial(4, i_0)
                    vj_o = spatial(2, j_0)
                    reads A[vi_o * 8:vi_o * 8 + 8, vj_o * 16:vj_o * 16 + 16]
                    writes C[vi_o * 8:vi_o * 8 + 8, vj_o * 16:vj_o * 16 + 16]
                    for i_1 in range(8):
                        for j_1 in range(16):
                            block C:
                                vi = spatial(32, vi_o * 8 + i_1)
                                vj = spatial(32, vj_o * 16 + j_1)
                                C[vi, vj] = A[vi, vj] * 2.0

    Args:
        preserve_unit_iters: as TVM takes it; blocks keep their variables of one iteration in any case.

    Raises:
        ScheduleError: several blocks are below the loop, the loops inside do not make whole tiles of the block's
            variables, a predicate depends on them, or one of them binds spatial and reduce variables at once.
    """
    loop = sch.find_loop(target)
    _, realize = nest_below(sch.tree, loop)
    name = unused_name(f"{realize.block.name}_o", sch.tree.names)
    sch.update(sch.tree.replace(loop, block_of_nest(sch.tree, loop, name)))
    return BlockRef(name)


@primitive(moves=False)
def tensorize(
    sch: ScheduleState, block_or_loop: BlockRef | LoopRef | str, tensor_intrin: str, preserve_unit_iters: bool = True
) -> None:
    """Let a tensor intrinsic compute what a loop (or a block of blocks) computes.

    Args:
        block_or_loop: a loop, of which a block is made first (`blockize`), or such a block.
        tensor_intrin: the name of an intrinsic: one that `tir.TensorIntrin.register` made known, or a shipped one.
        preserve_unit_iters: as TVM takes it; blocks keep their variables of one iteration in any case.

    The nest has to compute what the intrinsic's description does: the same extents, the same elements (from where
    the tile begins), the same expressions, in which only the operands of + and * may change places.

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
        ScheduleError: no intrinsic of that name, the nest is not what it describes (both sides are shown), the
            tiles are not whole, or the operands lie otherwise in memory than the intrinsic needs.
    """
    tree = sch.tree
    intrin = TensorIntrin.get(tensor_intrin)
    target = sch.find(block_or_loop)
    outer = target if isinstance(target, BlockRealize) else _block_of(tree, target)
    _check_scalar(tree, target)
    try:
        done = with_intrinsic(outer, intrin, tree.ranges, frozenset(sch.origins[sch.func.name].params))
    except Mismatch as mismatch:
        remedy = "shape the nest as the description is (split, reorder, fuse), or give another intrinsic"
        mark = target.var if isinstance(target, For) else target.block.name
        raise refuse(tree, str(mismatch), remedy, mark) from None
    sch.update(with_code(tree.replace(target, done), intrin.code))


def _block_of(tree: Tree, loop: For) -> BlockRealize:
    _, realize = nest_below(tree, loop)
    return block_of_nest(tree, loop, unused_name(f"{realize.block.name}_o", tree.names))


def _check_scalar(tree: Tree, target: For | BlockRealize) -> None:
    for above in tree.ancestors(target):
        if above.kind is ForKind.VECTORIZED:
            raise refuse(
                tree,
                f"{above.var.name} around it is vectorized, and the intrinsic has vectors of its own",
                "leave that loop serial, or unroll it",
                above.var,
            )
