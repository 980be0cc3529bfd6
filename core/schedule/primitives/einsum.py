"""Primitive pad_einsum: a sum of products over whole tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pegbox.errors import ScheduleError
from pegbox.expr.build import all_of, compare, const, index, select
from pegbox.expr.dtypes import integer
from pegbox.expr.equal import same
from pegbox.expr.nodes import Binary, Buffer, Cast, Const, Expr, Load, Var
from pegbox.expr.printer import unused_name
from pegbox.loops.nodes import BlockRealize, For, Stmt, Store, seq
from pegbox.loops.visit import replace_buffer
from pegbox.schedule.analysis import combiner
from pegbox.schedule.rewrites.cache_copy import copy_block, fresh_iters, store_block
from pegbox.schedule.rewrites.layout import is_plain_nest
from pegbox.schedule.rewrites.placement import nest
from pegbox.schedule.state.buffers import fresh_buffer_name, has_gaps
from pegbox.schedule.state.handles import BlockRef
from pegbox.schedule.state.recording import primitive
from pegbox.schedule.state.schedule_state import ScheduleState
from pegbox.schedule.tree import Tree, with_allocs

_CONDITION = "pad_einsum works for sums of products of elements such as A[vi, vk] * B[vk, vj]"


@primitive
def pad_einsum(sch: ScheduleState, block: BlockRef | str, padding: Sequence[int]) -> None:
    """Extend the domain of a sum of products to whole tiles: extents become multiples of `padding`.

    Inputs are copied into larger buffers with zeros at their ends (blocks `A_pad`); the result is computed in a larger
    buffer, whose valid part a block `C_pad` copies to the output.

    Before `pad_einsum("C", [4, 4, 4])`::

        for i in range(6):
            for j in range(8):
                for k in range(5):
                    block C: C[vi, vj] += A[vi, vk] * B[vk, vj]

    After::

        A_pad[8, 8], B_pad[8, 8], C_pad[8, 8]
        for i in range(8):
            for j in range(8):
                for k in range(8):
                    block C: C_pad[vi, vj] += A_pad[vi, vk] * B_pad[vk, vj]

    Args:
        padding: a number for each variable of the block, of which its extent becomes a multiple.

    Raises:
        ScheduleError: `padding` is not a positive number for each variable; the block does not have plain loops of its
            own, or is not a sum of products of elements `X[vi, vk]` that starts at zero; or a padded variable does not
            index the output (a spatial one) or each factor (a reduce one).
    """
    sch.update(_padded(sch.tree, sch.find_block(block), padding))


@dataclass(frozen=True)
class _Einsum:
    """A statement `output[...] += product of factors`, over variables that get new extents."""

    realize: BlockRealize
    output: Store
    factors: Sequence[Load]
    extents: dict[Var, int]

    @property
    def name(self) -> str:
        return self.realize.block.name

    def shape(self, indices: Sequence[Expr], old: Sequence[int]) -> tuple[int, ...]:
        """Return the shape that a buffer with these indices has over the larger domain."""
        return tuple(self.extents.get(i, n) if isinstance(i, Var) else n for i, n in zip(indices, old, strict=True))


def _padded(tree: Tree, realize: BlockRealize, padding: Sequence[int]) -> Tree:
    einsum = _einsum(tree, realize, padding)
    if all(einsum.extents[it.var] == it.extent for it in realize.block.iters):
        return tree
    copies: dict[Buffer, Buffer] = {}
    before: list[Stmt] = []
    after: list[Stmt] = []
    for load in einsum.factors:
        shape = einsum.shape(load.indices, load.buffer.shape)
        if shape != load.buffer.shape and load.buffer not in copies:
            copies[load.buffer] = _buffer(tree, load.buffer, shape, copies)
            before.append(_padded_copy(load.buffer, copies[load.buffer]))
    target = einsum.output.buffer
    shape = einsum.shape(einsum.output.indices, target.shape)
    if shape != target.shape:
        copies[target] = _buffer(tree, target, shape, copies)
        after.append(nest(copy_block(copies[target].name, target.shape, copies[target], target)))
    top = tree.top_of(realize)
    nests = (*before, replace_buffer(_larger(top, einsum), copies), *after)
    return Tree(with_allocs(tree.replace(top, seq(*nests)), add=tuple(copies.values())))


def _larger(stmt: Stmt, einsum: _Einsum) -> Stmt:
    """Return the nest over the new extents."""
    if isinstance(stmt, For):
        pairs = zip(einsum.realize.values, einsum.realize.block.iters, strict=True)
        extent = next(einsum.extents[it.var] for value, it in pairs if value is stmt.var)
        return For(stmt.var, extent, _larger(stmt.body, einsum), stmt.kind, stmt.annotations)
    assert isinstance(stmt, BlockRealize)
    iters = tuple(replace(it, extent=einsum.extents[it.var]) for it in stmt.block.iters)
    return BlockRealize(stmt.values, replace(stmt.block, iters=iters), stmt.predicate)


def _buffer(tree: Tree, old: Buffer, shape: tuple[int, ...], taken: dict[Buffer, Buffer]) -> Buffer:
    name = unused_name(fresh_buffer_name(tree, f"{old.name}_pad"), {b.name for b in taken.values()})
    return Buffer(name, shape, old.dtype, old.scope)


def _padded_copy(source: Buffer, target: Buffer) -> Stmt:
    iters = fresh_iters(target.shape)
    where = tuple(it.var for it in iters)
    pairs = zip(where, source.shape, target.shape, strict=True)
    inside = all_of([compare("lt", v, index(n)) for v, n, larger in pairs if larger > n])
    value = select(inside, Load(source, where), const(0, target.dtype))
    return nest(store_block(target.name, iters, target, where, value))


def _einsum(tree: Tree, realize: BlockRealize, padding: Sequence[int]) -> _Einsum:
    """Return the parts of the block, checked."""
    block = realize.block
    sizes = [integer(p) for p in padding]
    if len(sizes) != len(block.iters) or any(p is None or p < 1 for p in sizes):
        names = ", ".join(it.var.name for it in block.iters)
        raise ScheduleError(
            f"padding = {list(padding)} is not a number, 1 or more, for each of {names}",
            f"give {len(block.iters)} numbers; 1 leaves a variable as it is",
            block.name,
        )
    problem = _shape_problem(tree, realize)
    store = block.body
    if problem or not isinstance(store, Store):
        raise _no_einsum(block.name, problem or "it has several statements")
    factors = list(_factors(_added(store), tree, block.name))
    extents = {it.var: -(-it.extent // (p or 1)) * (p or 1) for it, p in zip(block.iters, sizes, strict=True)}
    einsum = _Einsum(realize, store, factors, extents)
    _check_accesses(tree, einsum)
    _check_output(einsum)
    _check_zero(einsum)
    return einsum


def _no_einsum(name: str, problem: str) -> ScheduleError:
    return ScheduleError(problem, _CONDITION, name)


def _shape_problem(tree: Tree, realize: BlockRealize) -> str:
    block = realize.block
    if not block.is_reduction or block.init is None:
        return f"{block.name} is not a reduction that is still whole"
    if not is_plain_nest(tree, realize):
        return f"{block.name} is not in plain serial loops of its own, one for each variable"
    init = block.init
    if combiner(block) != "sum" or len(block.writes) != 1:
        return f"{block.name} is not a sum with one output"
    if not (isinstance(init, Store) and isinstance(init.value, Const) and init.value.value == 0):
        return f"{block.name} does not start at zero"
    return ""


def _added(store: Store) -> Expr:
    """Return the term that an update adds to its element."""
    value = store.value
    if isinstance(value, Binary) and value.op == "add":
        for own, added in ((value.a, value.b), (value.b, value.a)):
            if isinstance(own, Load) and own.buffer is store.buffer and all(map(same, own.indices, store.indices)):
                return added
    return value


def _factors(expr: Expr, tree: Tree, name: str) -> Iterator[Load]:
    """Yield the factors of a product, which must be elements."""
    if isinstance(expr, Binary) and expr.op == "mul":
        yield from _factors(expr.a, tree, name)
        yield from _factors(expr.b, tree, name)
    elif isinstance(expr, Cast):
        yield from _factors(expr.a, tree, name)
    elif type(expr) is Load:
        yield expr
    elif not isinstance(expr, Const):
        raise _no_einsum(name, f"it adds {expr}, which is not a product of elements")


def _check_accesses(tree: Tree, einsum: _Einsum) -> None:
    domains = {it.var: it.extent for it in einsum.realize.block.iters}
    for buffer, indices in (
        (einsum.output.buffer, einsum.output.indices),
        *((f.buffer, f.indices) for f in einsum.factors),
    ):
        for i, n in zip(indices, buffer.shape, strict=True):
            if isinstance(i, Const):
                continue
            if not isinstance(i, Var) or domains.get(i) != n:
                problem = f"it uses {buffer.name} at {i}, which does not run over the whole of a dimension"
                raise _no_einsum(einsum.name, problem)
        variables = [i for i in indices if isinstance(i, Var)]
        if len(set(variables)) < len(variables):
            raise _no_einsum(einsum.name, f"it uses {buffer.name} along a diagonal")
    for load in einsum.factors:
        others = [f for f in einsum.factors if f.buffer is load.buffer]
        if any(not all(map(same, f.indices, load.indices)) for f in others):
            raise _no_einsum(einsum.name, f"it uses {load.buffer.name} at several places")
        if has_gaps(tree, load.buffer):
            raise _no_einsum(einsum.name, f"the padding of {load.buffer.name} is never written")


def _check_output(einsum: _Einsum) -> None:
    """Check that more iterations of a spatial variable compute more elements: otherwise they would be added again."""
    for it in einsum.realize.block.iters:
        padded = einsum.extents[it.var] != it.extent
        if padded and not it.is_reduce and not any(i is it.var for i in einsum.output.indices):
            problem = f"{einsum.output.buffer.name} does not depend on {it.var.name}, so that this cannot be padded"
            raise _no_einsum(einsum.name, problem)


def _check_zero(einsum: _Einsum) -> None:
    """Check that the padding adds zero: each factor must be zero there, or an infinity would spoil the sum."""
    for it in einsum.realize.block.iters:
        if not it.is_reduce or einsum.extents[it.var] == it.extent:
            continue
        without = [f.buffer.name for f in einsum.factors if not any(i is it.var for i in f.indices)]
        if without or not einsum.factors:
            what = ", ".join(without) or "what it adds"
            problem = f"{what} does not depend on {it.var.name}, the padding of which must add zero"
            raise _no_einsum(einsum.name, problem)
