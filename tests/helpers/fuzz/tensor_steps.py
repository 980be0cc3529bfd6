"""Random tensorize: intrinsics in our IR, made for the tile at hand, of copies and of products of matrices."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from pegbox import te
from pegbox.errors import ScheduleError
from pegbox.expr.nodes import Binary, Cast, Load
from pegbox.loops.nodes import BlockRealize, Seq, Store
from pegbox.loops.passes.flatten import flatten_blocks
from pegbox.schedule import LoopRef, Schedule
from pegbox.schedule.intrinsics.intrinsic import TensorIntrin
from pegbox.schedule.te.schedule import TESchedule

Choose = Callable[[int], int]


def tensorize(sch: Schedule, choose: Choose) -> None:
    """A tile of a copy or of a sum of products, where there is one."""
    found = {name: kind for name, realize in sch.tree.blocks.items() if (kind := _kind(realize))}
    name = list(found)[choose(len(found))]
    loops = sch.get_loops(name)[-len(sch.tree.blocks[name].block.iters) :]
    if len(loops) < len(sch.tree.blocks[name].block.iters):
        raise ScheduleError("loops were fused")
    inside, sizes = _tiled(sch, loops, choose)
    dtype = sch.tree.blocks[name].block.writes[0].buffer.dtype
    intrin = _copy(dtype, sizes) if found[name] == "copy" else _product(sch, name, sizes)
    sch.tensorize(inside[0], intrin)


def _kind(realize: BlockRealize) -> str:
    block = realize.block
    body, plain = block.body, [it.var for it in block.iters]
    if not isinstance(body, Store) or not plain:
        return ""
    if isinstance(body.value, Load) and list(body.value.indices) == plain == list(body.indices):
        return "copy"
    product = block.init is not None and len(block.reads) == 2 and len(plain) == 3
    if product and isinstance(body.value, Binary) and body.value.op == "add" and block.is_reduction:
        return "product"
    return ""


def _tiled(sch: Schedule, loops: Sequence[LoopRef], choose: Choose) -> tuple[list[LoopRef], list[int]]:
    outside, inside, sizes = [], [], []
    for loop in loops:
        extent = sch.extent(loop)
        factors = [f for f in (1, 2, 3, 4, 5, 7, extent) if extent % f == 0]
        sizes.append(factors[choose(len(factors))])
        outer, inner = sch.split(loop, factor=sizes[-1])
        outside.append(outer)
        inside.append(inner)
    sch.reorder(*outside, *inside)
    return inside, sizes


def tensorize_te(s: TESchedule, rng: random.Random) -> None:
    """The same in TE: a tile of a stage that copies."""
    static = [x for x in s.stages if all(isinstance(axis.extent, int) for axis in x.op.axis)]
    copies = [x for x in static if x.op.body and isinstance(x.op.body[0], Load) and x.leaf_iter_vars == list(x.op.axis)]
    stage = rng.choice([x for x in copies if list(x.op.body[0].indices) == list(x.op.axis)])  # type: ignore[attr-defined]
    parts, sizes = [], []
    for axis in stage.op.axis:
        sizes.append(rng.choice([f for f in (1, 2, 3, 4, 5, 7, axis.extent) if axis.extent % f == 0]))
        parts.append(stage.split(axis, factor=sizes[-1]))
    stage.reorder(*(outer for outer, _ in parts), *(inner for _, inner in parts))
    stage.tensorize(parts[0][1], _copy(stage.op.outputs[0].dtype, sizes))


def _copy(dtype: str, sizes: Sequence[int]) -> str:
    a = te.placeholder(tuple(sizes), dtype, "a")
    b = te.compute(tuple(sizes), lambda *i: a[i], "b")
    name = f"fuzz_copy_{dtype}_{'x'.join(map(str, sizes))}"
    if not TensorIntrin.is_registered(name):
        description = te.create_prim_func([a, b])
        impl = Schedule(description)
        impl.reorder(*reversed(impl.get_loops("b")))
        impl.unroll(impl.get_loops("b")[-1])
        TensorIntrin.register(name, description, impl.func)
    return name


def _product(sch: Schedule, block: str, sizes: Sequence[int]) -> str:
    body: Any = sch.tree.blocks[block].block.body
    term = body.value.b
    left, right = (_element(term.a), _element(term.b)) if isinstance(term, Binary) else (None, None)
    m, n, k = sizes
    out = body.buffer.dtype
    types = (left.buffer.dtype, right.buffer.dtype) if left is not None and right is not None else (out, out)
    a, b = te.placeholder((m, k), types[0], "a"), te.placeholder((k, n), types[1], "b")
    r = te.reduce_axis((0, k), "r")
    c = te.compute((m, n), lambda i, j: te.sum(te.cast(out, a[i, r]) * te.cast(out, b[r, j]), axis=r), "c")
    name = f"fuzz_product_{'_'.join((*types, out))}_{m}x{n}x{k}"
    if not TensorIntrin.is_registered(name):
        description = te.create_prim_func([a, b, c])
        impl = Schedule(description)
        impl.decompose_reduction("c", impl.get_loops("c")[0])
        body = flatten_blocks(impl.func).body
        assert isinstance(body, Seq)
        reset, update = body.stmts
        TensorIntrin(name, description, body, reset, update).registered()
    return name


def _element(expr: Any) -> Any:
    inner = expr.a if isinstance(expr, Cast) else expr
    return inner if isinstance(inner, Load) else None


def _element(expr: Any) -> Any:
    inner = expr.a if isinstance(expr, Cast) else expr
    return inner if isinstance(inner, Load) else None
