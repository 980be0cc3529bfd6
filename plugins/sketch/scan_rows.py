"""Rules for scans: rows follow each other in one serial loop, inside independent tiles."""

from __future__ import annotations

from collections.abc import Mapping

from pegbox.compute import ComputeOp, IterVar, ScanOp
from pegbox.expr import Call, Expr, Load, free_vars, walk
from pegbox.plugins.sketch.analysis import loads_of, sums_along_lanes
from pegbox.plugins.sketch.rules import Derived, Match, Rule
from pegbox.plugins.sketch.state import State
from pegbox.plugins.sketch.steps import Name
from pegbox.plugins.sketch.tiles import Tiles

_TILE = 16  # tile of axes that neither run along vectors nor count the rows
_CHAINS = 8  # rows computed together, as a step of one waits for the step before it
_STEPS = 32  # steps of each of them at a time: some cache lines
_COLUMNS = 64  # columns of a register tile
_SUMS = 8  # sums that share their reads of earlier rows


class ScanTiling:
    """A rule that puts the loop over the rows inside tiles of all axes along which no row reads other elements.

    In a row, the last dimension runs along vectors. If that is the dimension of the rows, some elements of several
    chains are computed at a time, unrolled.
    """

    def match(self, state: State, stage: int) -> Match:
        return Match.ONLY if isinstance(state.op(state.stages[stage]), ScanOp) else Match.NO

    def apply(self, state: State, stage: int) -> list[Derived]:
        new = state.copy()
        name = new.stages[stage]
        op = new.op(name)
        assert isinstance(op, ScanOp)  # match has asked
        free = independent_axes(op, [new.op(each) for each in new.stages])
        if new.target.num_cores == 1 and _shares_weights(new, op):
            free = set()
        if op.time == len(op.axis) - 1 and len(free) == len(op.axis) - 1 and free:
            self._chains(new, name, op)
        else:
            self._rows(new, name, op, free)
        return [(new, stage - 1)]

    def _rows(self, new: State, name: str, op: ScanOp, free: set[IterVar]) -> None:
        time, *loops = new.loops(name)
        outer, inner = [], []
        for axis, loop in zip(op.spatial_axis_, loops, strict=True):
            if axis in free:
                most = None if axis is op.axis[-1] else _TILE
                parts = new.tile(name, loop, 2, innermost=most, tails=True)[1]
                outer.append(parts[0])
            inner.append(parts[1] if axis in free else loop)
        new.reorder(name, [*outer, time, *inner])

    def _chains(self, new: State, name: str, op: ScanOp) -> None:
        time, *outer, last = new.loops(name)
        rows = new.tile(name, last, 2, innermost=_CHAINS, tails=True)[1]
        steps = new.tile(name, time, 2, innermost=_STEPS, tails=True)[1]
        new.reorder(name, [*outer, rows[0], steps[0], rows[1], steps[1]])
        for loop in (rows[1], steps[1]):
            new.call(name, "unroll", Name(loop))


class CellTiling:
    """A rule that keeps the stages between rows inside the loop over them: sums in small tiles, other steps inlined."""

    def match(self, state: State, stage: int) -> Match:
        return Match.NO if scan_of(state, state.stages[stage]) is None else Match.ONLY

    def apply(self, state: State, stage: int) -> list[Derived]:
        name = state.stages[stage]
        op = state.op(name)
        if op.reduce is not None:
            return [(self._tiled(state, name), stage - 1)]
        inlined = state.copy()
        if len(op.outputs) > 1:
            return [(inlined, stage - 1)]
        inlined.compute_inline(name)
        uses = [load for each in state.graph.ops for load in loads_of(each) if load.buffer is op.outputs[0].buffer]
        if len(uses) == 1 or not any(isinstance(node, Call) for node in walk(op.body[0])):
            return [(inlined, stage - 1)]
        kept = state.copy()
        kept.applied.append(f"keep({name})")
        return [(kept, stage - 1), (inlined, stage - 1)]

    def _tiled(self, state: State, name: str) -> State:
        new = state.copy()
        op = new.op(name)
        *outer, last = [loop for loop in new.loops(name) if not new.is_reduce(loop)]
        *sums, term = [loop for loop in new.loops(name) if new.is_reduce(loop)]
        if not _reads_along(op):
            self._tile_registers(new, name)
            return new
        across = new.tile(name, last, 2, innermost=_SUMS, tails=True)[1]
        parts = new.tile(name, term, 2, tails=True)[1]
        new.reorder(name, [*outer, across[0], *sums, parts[0], across[1], parts[1]])
        new.call(name, "unroll", Name(across[1]))
        new.call(name, "vectorize", Name(parts[1]))
        return new

    def _tile_registers(self, state: State, name: str) -> None:
        """Keep sums of several columns, and others that share their operands, in registers over all terms.

        The loop over columns is the outer one, so that all tiles of the same columns read their operands from a near
        cache.
        """
        row, *loops = state.loops(name)
        terms = [loop for loop in loops if state.is_reduce(loop)]
        made = [state.tile(name, loop, 2, innermost=_COLUMNS, tails=True) for loop in loops if loop not in terms]
        outer, inner = [parts[0] for _, parts in reversed(made)], [parts[1] for _, parts in made]
        state.tiles[name] = Tiles(name, "SRS", [outer, terms, inner], tuple(knob for knob, _ in made))
        state.reorder(name, [row, *outer, *terms, *inner])


def scan_rules() -> list[Rule]:
    """Return the rules for scans, which precede those for computations without an order."""
    return [ScanTiling(), CellTiling()]


def scan_of(state: State, name: str) -> ScanOp | None:
    """Return the scan to which a cell belongs."""
    op = state.op(name)
    scans = (each for each in state.graph.ops if isinstance(each, ScanOp) and each is not op)
    return next((scan for scan in scans if scan.has_member(op)), None)


def shared_loops(state: State, name: str) -> list[str]:
    """Return the loops of a cell's sum that threads may share in each row, if they share none around the rows."""
    scan = scan_of(state, name)
    op = state.op(name)
    if scan is None or op.reduce is None:
        return []
    if any(axis.extent > 1 for axis in independent_axes(scan, [state.op(each) for each in state.stages])):
        return []
    row, *loops = state.loops(name)
    return loops if state.axis(row) is scan.row_axis(op) else []


def _reads_along(op: ComputeOp) -> bool:
    """Check if most operands that depend on both column and term are contiguous along the terms."""
    column, term = op.axis[-1], op.reduce_axis[-1]
    found = [[free_vars(index) for index in load.indices] for load in loads_of(op)]
    last = [indices[-1] for indices in found if {column, term} <= set().union(*indices)]
    along = sum(column not in each and term in each for each in last)
    return 2 * along > len(last) and sums_along_lanes(op)


def _shares_weights(state: State, op: ScanOp) -> bool:
    """Check if sums between rows read operands that several elements share, once for each tile."""
    cells = [name for name in state.stages if state.op(name) is not op and op.has_member(state.op(name))]
    return any(state.op(name).reduce is not None and state.needs_tiling(name) for name in cells)


def independent_axes(op: ScanOp, ops: list[ComputeOp]) -> set[IterVar]:
    """Return the axes of a scan along which no element needs others of earlier rows."""
    states = {t.buffer for t in op.outputs}
    own: dict[ComputeOp, list[IterVar | None]] = {op: list(op.axis)}
    makers = {t.buffer: cell for cell in ops if cell is not op and op.has_member(cell) for t in cell.outputs}
    free = set(op.spatial_axis_)
    pending: list[ComputeOp] = [op]
    for reader in pending:
        meaning: dict[Expr, IterVar | None] = dict(zip(reader.axis, own[reader], strict=True))
        for load in loads_of(reader):
            if load.buffer in makers:
                cell = makers[load.buffer]
                read: list[IterVar | None] = [meaning.get(i) for i in load.indices]
                known = own.setdefault(cell, read)
                if known != read:
                    own[cell] = [a if a is b else None for a, b in zip(known, read, strict=True)]
                if known != own[cell] or cell not in pending:
                    pending.append(cell)
            elif load.buffer in states:
                free -= _crossed(op, load, meaning)
    return free


def _crossed(op: ScanOp, load: Load, meaning: Mapping[Expr, IterVar | None]) -> set[IterVar]:
    """Return the axes along which a load reads elements other than its own."""
    return {
        axis
        for dim, (axis, index) in enumerate(zip(op.axis, load.indices, strict=True))
        if dim != op.time and meaning.get(index) is not axis
    }
