"""Rolls of buffers: the elements that an iteration needs and that the previous iteration has already computed.

    for i_0 in range(2):                     for i_0 in range(2):
        for i in range(6):                       for i in range(6):
            B[i_0 * 4 + i] = ...       =>            if i_0 < 1 or i >= 2:
        ... B[i_0 * 4 : i_0 * 4 + 6]                     B[(i_0 * 4 + i) % 6] = ...
                                                 ... B[... % 6]

The buffer has room for one iteration, and lives as long as the loop. A later iteration needs the indices from `low` on;
those that the previous iteration has computed, too, are `reused`. Inner loops may keep indices of other dimensions. The
idea is Halide's sliding window (Ragan-Kelley et al., PLDI 2013), with folded storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pegbox.expr.affine import Linear, constant, linear
from pegbox.expr.bounds import Ranges
from pegbox.expr.evaluate import evaluate
from pegbox.expr.low_level import Address
from pegbox.expr.nodes import Buffer, Compare, Const, Expr, Var
from pegbox.expr.visit import free_vars, loads
from pegbox.loops.access.block_region import repeats
from pegbox.loops.access.written_box import Box, box_of
from pegbox.loops.nodes import Alloc, Block, BlockRealize, Evaluate, For, Function, If, Region, Stmt
from pegbox.loops.passes.notes import DOUBLE
from pegbox.loops.refusal import Refusal
from pegbox.loops.visit import common_path, expressions, loop_ranges, paths, walk

_LONGEST = 4096  # the most iterations of a loop whose steps are computed one by one


@dataclass(frozen=True, slots=True)
class ReusedRegion:
    """The `count` indices of a dimension from `low` on, which only the first iteration of a loop has to compute."""

    loop: For
    dim: int
    low: Linear
    count: int


@dataclass(frozen=True, slots=True)
class Roll:
    """A buffer with room for `extent` indices in the dimension of the first (the outermost loop's) `reused` region."""

    buffer: Buffer
    extent: int
    reused: tuple[ReusedRegion, ...]

    @property
    def loop(self) -> For:
        """The loop that carries the buffer from one iteration to the next."""
        return self.reused[0].loop

    @property
    def dim(self) -> int:
        """The dimension that is circular."""
        return self.reused[0].dim


class RollFailure(Refusal):
    """A reason that a buffer cannot be circular."""


class NothingReused(RollFailure):
    """A roll that would be legal but useless: no iteration needs values of another one."""


@dataclass(frozen=True, slots=True)
class _Site:
    """The blocks that use a buffer, with the paths to them, and the loops around all of them."""

    buffer: Buffer
    in_order: Sequence[tuple[Stmt, ...]]
    writers: Sequence[tuple[Stmt, ...]]
    readers: Sequence[tuple[Stmt, ...]]
    around: Sequence[For]
    ranges: Ranges


def roll_of(func: Function, buffer: Buffer) -> Roll | RollFailure:
    """Find the roll of an intermediate of a scheduled program, or the reason that it has none."""
    site = _site(func, buffer)
    wrong = _placed(func, site) or next((w for path in site.writers if (w := _computed_once(site, path))), None)
    if wrong is not None:
        return wrong
    boxes = [_box(site, path) for path in site.writers]
    first = boxes[0]
    if first is None or any(box is None or not _equal(box, first) for box in boxes):
        return RollFailure(
            f"the elements of {buffer.name} that {_names(site.writers)} writes in an iteration do not form a box, as "
            "far as can be shown",
            "call rolling_buffer before the loops of the block are split or fused",
            _blocks(site.writers),
        )
    return _rolled(site, first)


def _site(func: Function, buffer: Buffer) -> _Site:
    outer = [p for p in paths(func.body) if [isinstance(s, BlockRealize) for s in p] == [False] * (len(p) - 1) + [True]]
    users = [p for p in outer if any(r.buffer is buffer for r in (*_block(p).reads, *_block(p).writes))]
    writers = [p for p in users if any(w.buffer is buffer for w in _block(p).writes)]
    readers = [p for p in users if not any(p is w for w in writers)]
    around = [s for s in common_path(users) if isinstance(s, For)]
    return _Site(buffer, users, writers, readers, around, loop_ranges(func.body))


def _block(path: tuple[Stmt, ...]) -> Block:
    realize = path[-1]
    assert isinstance(realize, BlockRealize)
    return realize.block


def _blocks(ways: Sequence[tuple[Stmt, ...]]) -> tuple[str, ...]:
    return tuple(_block(path).name for path in ways)


def _names(ways: Sequence[tuple[Stmt, ...]]) -> str:
    return ", ".join(_blocks(ways))


def _placed(func: Function, site: _Site) -> RollFailure | None:
    """Check that loops surround all uses of the buffer, and that nothing else determines its storage."""
    name, users = site.buffer.name, site.in_order
    if site.buffer not in func.allocs:
        return RollFailure(
            f"{name} is a parameter of the function, of which all elements are kept",
            "roll an intermediate buffer: cache_write makes one",
            _blocks(site.writers),
        )
    if not site.readers:
        return RollFailure(f"no other block reads {name}", "roll the buffer of a producer", _blocks(site.writers))
    if not site.around:
        return RollFailure(
            f"no loop is around both {_names(site.writers)} and {_names(site.readers)}",
            "compute_at a loop of its consumer first",
            _blocks(users),
        )
    if any(key == DOUBLE for path in users for key, _ in _block(path).annotations):
        return RollFailure(
            f"{name} is a double buffer, of which each half holds other iterations",
            f"have one of the two: unannotate {DOUBLE}",
            _blocks(site.writers),
        )
    first = next((n for n, path in enumerate(site.in_order) if any(path is r for r in site.readers)), len(users))
    if first < len(site.writers):
        return RollFailure(
            f"{_block(site.in_order[first]).name} reads {name} before {_block(site.writers[-1]).name} has written it",
            "let all that reads a buffer come after all that writes it",
            _blocks(users),
        )
    if any(isinstance(s, If) for path in users for s in path):
        return RollFailure(
            f"a test is around the uses of {name}", "put it into the predicates of blocks", _blocks(users)
        )
    bound = next((x for x in site.around if x.kind.is_bound), None)
    if bound is not None:
        return RollFailure(
            f"{bound.var.name} around it is {bound.kind.in_words}, whose iterations share memory or have their own",
            "roll in programs without bound loops",
            (bound.var, *_blocks(site.writers)),
        )
    return next((w for path in users if (w := _by_elements(site.buffer, path))), None)


def _by_elements(buffer: Buffer, path: tuple[Stmt, ...]) -> RollFailure | None:
    """Check if a block accesses only single elements of the buffer, so that each can be stored anywhere."""
    block = _block(path)
    writes = any(w.buffer is buffer for w in block.writes)
    for stmt in walk(path[-1]):
        found = [x for expr in expressions(stmt) for x in loads(expr) if x.buffer is buffer]
        boxes = any(isinstance(x, Address) or any(n > 1 for n in x.box) for x in found)
        if boxes or (writes and stmt is not path[-1] and isinstance(stmt, Evaluate | For | Alloc | BlockRealize)):
            return RollFailure(
                f"block {block.name} uses {buffer.name} by more than single elements, which a circular buffer may tear",
                "do without rolling_buffer where machine code, or a block of blocks, uses the buffer",
                (block.name,),
            )
    return None


def _computed_once(site: _Site, path: tuple[Stmt, ...]) -> RollFailure | None:
    """Check if the block computes one element at a time, completely, and always to the same value."""
    block, around = _block(path), {x.var for x in site.around if x.extent > 1}
    realize = path[-1]
    assert isinstance(realize, BlockRealize)
    region = _region(path, site.buffer)
    indices = {lo for lo, _ in region.box if isinstance(lo, Var)}
    spatial = {it.var for it in block.iters if not it.is_reduce}
    wrong = ""
    if len({w.buffer for w in block.writes}) > 1:
        wrong = "it writes several buffers at once"
    elif any(r.buffer is site.buffer and not repeats(region, r) for r in block.reads):
        wrong = f"it reads other elements of {site.buffer.name}"
    elif len(indices) + sum(isinstance(lo, Const) for lo, _ in region.box) < len(region.box) or any(
        it.var in spatial - indices and it.extent > 1 for it in block.iters
    ):
        wrong = f"its spatial variables are not the indices at which it writes {site.buffer.name}"
    elif any(n > 1 for _, n in region.box):
        wrong = f"it writes more than one element of {site.buffer.name}"
    elif any(it.is_reduce and free_vars(v) & around for it, v in zip(block.iters, realize.values, strict=True)):
        wrong = f"reduce loops are around it and what reads {site.buffer.name}"
    if not wrong:
        return None
    return RollFailure(
        f"block {block.name} may make another value of an element in each iteration: {wrong}",
        "roll the buffer of a block that computes each element from its own variables",
        (block.name,),
    )


def _region(path: tuple[Stmt, ...], buffer: Buffer) -> Region:
    return next(w for w in _block(path).writes if w.buffer is buffer)


def _box(site: _Site, path: tuple[Stmt, ...]) -> Box | None:
    """Compute the box that the block writes in one iteration of the loops around all uses."""
    running = {s.var for s in path if isinstance(s, For)} - {x.var for x in site.around}
    realize = path[-1]
    assert isinstance(realize, BlockRealize)
    return box_of(realize, _region(path, site.buffer), running, site.ranges)


def _equal(a: Box, b: Box) -> bool:
    pairs = zip(a.intervals, b.intervals, strict=True)
    return all(x.width == y.width and x.lo.minus(y.lo) == constant(0) for x, y in pairs)


def _rolled(site: _Site, box: Box) -> Roll | RollFailure:
    reused = tuple(k for depth, x in enumerate(site.around) if (k := _reused(x, site.around[depth + 1 :], box)))
    if not reused:
        return NothingReused(
            f"no loop around {_names(site.writers)} and {_names(site.readers)} moves on by less than what an iteration "
            f"needs of {site.buffer.name}: nothing that one has made is needed again",
            "compute_at a loop that moves along one dimension of the buffer, in steps that overlap",
            _blocks(site.in_order),
        )
    depth = next(n for n, x in enumerate(site.around) if x is reused[0].loop)
    unordered = next((x for x in site.around[depth:] if not x.kind.in_order), None)
    if unordered is not None:
        return RollFailure(
            f"{unordered.var.name} is {unordered.kind}: an iteration needs what the one before it has made",
            f"leave {reused[0].loop.var.name} and the loops between it and the uses of {site.buffer.name} serial, or "
            "unroll them",
            (unordered.var, *_blocks(site.writers)),
        )
    return Roll(site.buffer, box.intervals[reused[0].dim].width + 1, reused)


def _reused(loop: For, inside: Sequence[For], box: Box) -> ReusedRegion | None:
    """Find the region that an earlier iteration computed, if only this loop moves along one dimension."""
    moved = [dim for dim, i in enumerate(box.intervals) if any(loop.var in free_vars(t) for t in i.lo.terms)]
    if len(moved) != 1 or loop.extent < 2:
        return None
    dim = moved[0]
    needed = box.intervals[dim]
    if any(x.var in free_vars(t) for x in inside if x.extent > 1 for t in needed.lo.terms):
        return None
    steps = _steps(needed.lo, loop)
    if steps is None or steps[0] < 0 or steps[1] > needed.width or not all(_held(c, loop.var) for c in box.conditions):
        return None
    return ReusedRegion(loop, dim, needed.lo, needed.width + 1 - steps[1])


def _steps(low: Linear, loop: For) -> tuple[int, int] | None:
    """Find the least and the greatest growth of an index from one iteration to the next; None if unknown."""
    moving: dict[Expr, int] = {t: c for t, c in low.terms.items() if loop.var in free_vars(t)}
    if set(moving) == {loop.var}:
        return moving[loop.var], moving[loop.var]
    if any(free_vars(t) != {loop.var} for t in moving) or loop.extent > _LONGEST:
        return None
    index = Linear(moving, 0).to_expr()
    values = [int(evaluate(index, {loop.var: n})) for n in range(loop.extent)]
    steps = [b - a for a, b in pairwise(values)]
    return min(steps), max(steps)


def _held(condition: Expr, var: Var) -> bool:
    """Check that a condition that holds also held in the previous iteration."""
    if var not in free_vars(condition):
        return True
    if not isinstance(condition, Compare) or condition.op not in ("lt", "le", "gt", "ge"):
        return False
    tested = linear(condition.a).add(linear(condition.b), -1)
    if any(var in free_vars(t) for t in tested.terms if t is not var):
        return False
    step = tested.coefficient(var)
    return step >= 0 if condition.op in ("lt", "le") else step <= 0
