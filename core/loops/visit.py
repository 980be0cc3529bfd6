"""Walking and rewriting statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from operator import is_
from typing import TypeVar

from pegbox.expr.bounds import Interval
from pegbox.expr.nodes import Buffer, Expr, Var
from pegbox.expr.visit import Targets, free_vars, in_front, redirect_loads, substitute
from pegbox.loops.nodes import (
    Alloc,
    BlockIter,
    BlockRealize,
    Evaluate,
    For,
    If,
    IterKind,
    Region,
    Seq,
    Stmt,
    Store,
    seq,
)

_Node = TypeVar("_Node", bound=Stmt)


def children(stmt: Stmt) -> tuple[Stmt, ...]:
    """Return the direct sub-statements (a block's init comes before its body)."""
    match stmt:
        case For() | Alloc():
            return (stmt.body,)
        case Seq(stmts):
            return stmts
        case If():
            return (stmt.then,)
        case Store() | Evaluate():
            return ()
        case BlockRealize():
            init = stmt.block.init
            return (stmt.block.body,) if init is None else (init, stmt.block.body)
        case _:
            raise TypeError(f"unknown statement {type(stmt).__name__}")


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """List the whole expressions that a statement itself evaluates, without those of its parts and of regions."""
    match stmt:
        case Store(_, indices, value):
            return (*indices, value)
        case Evaluate(expr):
            return (expr,)
        case If(condition, _):
            return (condition,)
        case BlockRealize(values, _, predicate):
            return (*values, predicate)
        case _:
            return ()


def walk(stmt: Stmt) -> Iterator[Stmt]:
    """Yield the statement and everything below, parents first, in program order."""
    stack = [stmt]
    while stack:
        node = stack.pop()
        yield node
        if below := children(node):
            stack.extend(below[::-1])


def executed_stores(stmt: Stmt) -> int:
    """Count the stores (and calls) that a statement executes, as if every condition held."""
    below = children(stmt)
    once = sum(map(executed_stores, below)) if below or isinstance(stmt, Seq) else 1
    return once * stmt.extent if isinstance(stmt, For) else once


def loop_ranges(stmt: Stmt) -> dict[Var, Interval]:
    """Return the values that the loops below (and the statement itself, if it is one) take."""
    return {s.var: (0, s.extent - 1) for s in walk(stmt) if isinstance(s, For)}


def iter_ranges(iters: Iterable[BlockIter]) -> dict[Var, Interval]:
    """Return the values that block variables take."""
    return {it.var: (0, it.extent - 1) for it in iters}


def bound_vars(realize: BlockRealize, kind: IterKind) -> set[Var]:
    """Return the variables of loops that a block's iterations of a kind are bound to."""
    pairs = zip(realize.block.iters, realize.values, strict=True)
    return {var for it, value in pairs if it.kind is kind for var in free_vars(value)}


def only_reduces(var: Var, realize: BlockRealize) -> bool:
    """Check if the iterations of a loop reduce into the same elements of a block."""
    return var in bound_vars(realize, IterKind.REDUCE) - bound_vars(realize, IterKind.SPATIAL)


def map_children(stmt: Stmt, change: Callable[[Stmt], Stmt]) -> Stmt:
    """Change the direct sub-statements of a statement (shared when nothing changes)."""
    made = map_present(stmt, change)
    return stmt if made is None else made


def map_present(stmt: Stmt, change: Callable[[Stmt], Stmt | None]) -> Stmt | None:
    """Change the direct sub-statements of a statement, some of which may vanish; None if nothing is left."""
    match stmt:
        case Store() | Evaluate():
            return stmt
        case For() | Alloc():
            body = change(stmt.body)
            if body is None or body is stmt.body:
                return None if body is None else stmt
            return stmt.with_body(body) if isinstance(stmt, For) else Alloc(stmt.buffer, body)
        case Seq(stmts):
            changed = [change(s) for s in stmts]
            if all(map(is_, changed, stmts)):
                return stmt if stmts else None
            parts = [new for new in changed if new is not None]
            return seq(*parts) if parts else None
        case If(condition, then, guard):
            inner = change(then)
            return stmt if inner is then else None if inner is None else If(condition, inner, guard)
        case BlockRealize(values, block, predicate):
            init = None if block.init is None else change(block.init)
            body = change(block.body)
            if body is block.body and init is block.init:
                return stmt
            return None if body is None else BlockRealize(values, replace(block, body=body, init=init), predicate)
        case _:
            raise TypeError(f"unknown statement {type(stmt).__name__}")


def map_exprs(stmt: Stmt, change: Callable[[Expr], Expr]) -> Stmt:
    """Apply `change` to every whole expression of a statement tree (regions included)."""
    return map_own_exprs(map_children(stmt, lambda s: map_exprs(s, change)), change)


def map_own_exprs(stmt: Stmt, change: Callable[[Expr], Expr]) -> Stmt:
    """Apply `change` to the whole expressions of a statement itself."""
    match stmt:
        case If():
            return If(change(stmt.condition), stmt.then, stmt.guard)
        case Store(buffer, indices, value):
            return Store(buffer, tuple(map(change, indices)), change(value))
        case Evaluate(expr):
            return Evaluate(change(expr))
        case BlockRealize(values, block, predicate):
            changed = replace(
                block,
                reads=tuple(_map_region(r, change) for r in block.reads),
                writes=tuple(_map_region(r, change) for r in block.writes),
            )
            return BlockRealize(tuple(map(change, values)), changed, change(predicate))
        case _:
            return stmt


def _map_region(region: Region, change: Callable[[Expr], Expr]) -> Region:
    return Region(region.buffer, tuple((change(lo), extent) for lo, extent in region.box))


def substitute_vars(stmt: Stmt, mapping: Mapping[Var, Expr]) -> Stmt:
    """Replace variables in every expression."""
    return map_exprs(stmt, lambda e: substitute(e, mapping)) if mapping else stmt


def replace_buffer(stmt: Stmt, mapping: Mapping[Buffer, Buffer]) -> Stmt:
    """Read and write other buffers at the same indices (regions and allocations included)."""
    return redirect(stmt, {old: (new, in_front()) for old, new in mapping.items()})


def redirect(stmt: Stmt, targets: Targets) -> Stmt:
    """Read and write other buffers (regions and allocations included)."""

    def swap(region: Region) -> Region:
        if region.buffer not in targets:
            return region
        buffer, place = targets[region.buffer]
        return Region(buffer, place(region.box))

    def go(s: Stmt) -> Stmt:
        inner = map_own_exprs(map_children(s, go), lambda e: redirect_loads(e, targets))
        match inner:
            case Store(old, indices, value) if old in targets:
                buffer, place = targets[old]
                return Store(buffer, tuple([lo for lo, _ in place(tuple([(i, 1) for i in indices]))]), value)
            case BlockRealize(values, block, predicate):
                reads, writes = tuple(map(swap, block.reads)), tuple(map(swap, block.writes))
                return BlockRealize(values, replace(block, reads=reads, writes=writes), predicate)
            case Alloc(old, body) if old in targets:
                return Alloc(targets[old][0], body)
            case _:
                return inner

    return go(stmt)


def realizes(stmt: Stmt) -> Iterator[BlockRealize]:
    """Yield every block below, in program order."""
    for node in walk(stmt):
        if isinstance(node, BlockRealize):
            yield node


def loops_below(stmt: Stmt) -> Iterator[For]:
    """Yield the loops below (or at) a statement, in program order, without those inside blocks."""
    return (node for node in walk_nest(stmt) if isinstance(node, For))


def blocks_below(stmt: Stmt) -> Iterator[BlockRealize]:
    """Yield the blocks below (or at) a statement, in program order, without those inside blocks."""
    return (node for node in walk_nest(stmt) if isinstance(node, BlockRealize))


def walk_nest(stmt: Stmt) -> Iterator[Stmt]:
    """Yield the statement and everything below, parents first, down to the blocks."""
    stack = [stmt]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, BlockRealize):
            stack.extend(reversed(children(node)))


def straight_nest(stmt: Stmt) -> tuple[list[For], Stmt]:
    """List the loops directly inside each other from `stmt` on, outermost first, with the body of the last one."""
    loops: list[For] = []
    while isinstance(stmt, For):
        loops.append(stmt)
        stmt = stmt.body
    return loops, stmt


def map_blocks(stmt: Stmt, change: Callable[[BlockRealize], BlockRealize]) -> Stmt:
    """Change the blocks below a statement (not those inside blocks); unchanged parts are shared."""
    if isinstance(stmt, BlockRealize):
        return change(stmt)
    return map_children(stmt, lambda s: map_blocks(s, change))


def common_path(paths: Sequence[Sequence[_Node]]) -> list[_Node]:
    """Find the common beginning of all paths from one root: the statements around all places to which they lead."""
    common = list(paths[0]) if paths else []
    for path in paths[1:]:
        depth = next((n for n, (a, b) in enumerate(zip(common, path, strict=False)) if a is not b), len(path))
        del common[depth:]
    return common


def paths(stmt: Stmt, above: tuple[Stmt, ...] = ()) -> Iterator[tuple[Stmt, ...]]:
    """Yield the paths down to all stores, calls and blocks, also inside blocks; each ends with its target."""
    here = (*above, stmt)
    if isinstance(stmt, Store | Evaluate | BlockRealize):
        yield here
    for child in children(stmt):
        yield from paths(child, here)


def path_to(body: Stmt, target: Stmt) -> list[Stmt]:
    """Return the statements from `body` down to `target`, both included."""

    def find(stmt: Stmt) -> list[Stmt] | None:
        if stmt is target:
            return [stmt]
        for child in () if isinstance(stmt, BlockRealize) else children(stmt):
            if (found := find(child)) is not None:
                return [stmt, *found]
        return None

    return find(body) or []


def exchange(path: Sequence[Stmt], new: Stmt) -> Stmt:
    """Rebuild the first statement of a path down, with a new one in place of the last."""

    def instead(old: Stmt, new: Stmt, child: Stmt) -> Stmt:
        return new if child is old else child

    for outer, old in reversed(list(pairwise(path))):
        new = map_children(outer, partial(instead, old, new))
    return new
