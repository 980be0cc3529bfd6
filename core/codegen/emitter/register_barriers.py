"""Register barriers: places in a loop at which no vector register holds a value.

LLVM hoists constants out of all loops, and relies on its register allocator to compute them again where registers are
scarce. In a loop over two nests, one with constants in its innermost loops and one with a register tile, the allocator
may keep the constants in registers and spill all sums of the tile. An empty assembly statement before the tile's nest
clobbers all vector registers, so the constants are computed again after the nest.
"""

from __future__ import annotations

from collections.abc import Iterator

from pegbox.codegen.emitter.frame import Frame
from pegbox.codegen.emitter.placement import Placement
from pegbox.codegen.targets.target import Target
from pegbox.expr.nodes import Buffer, Var
from pegbox.expr.visit import loads
from pegbox.loops.nodes import Alloc, For, ForKind, Seq, Stmt, Store
from pegbox.loops.visit import children, expressions, walk

_REGISTERS = {"x86_64": "xmm", "aarch64": "v"}
"""The first letters of vector registers, by architecture."""


def plan(body: Stmt, placement: Placement, target: Target) -> frozenset[Var]:
    """Find the loops that need a barrier before them: nests with a large register tile that read results of earlier
    nests in the same loop.

    Accumulators that are carried from one nest to the next do not count: such nests do not allocate a tile.
    """
    if target.architecture not in _REGISTERS:
        return frozenset()
    half = target.vector_registers * target.vector_bits // 8 // 2
    tiles = {buffer for buffer in placement.stack if buffer.nbytes >= half}
    return frozenset(_loops(body, tiles, is_repeated=False)) if tiles else frozenset()


def _loops(stmt: Stmt, tiles: set[Buffer], *, is_repeated: bool) -> Iterator[Var]:
    if isinstance(stmt, Seq) and is_repeated:
        before: list[Stmt] = []
        for part in stmt.stmts:
            if isinstance(part, For):
                if before and _has_tile(part, tiles) and _reads_results(part, before):
                    yield part.var
                before.append(part)
    if isinstance(stmt, For):
        if stmt.kind not in (ForKind.SERIAL, ForKind.PARALLEL):
            return  # an unrolled loop keeps its vectors in registers
        is_repeated = is_repeated or stmt.extent > 1
    for child in children(stmt):
        yield from _loops(child, tiles, is_repeated=is_repeated)


def _has_tile(loop: For, tiles: set[Buffer]) -> bool:
    return any(isinstance(stmt, Alloc) and stmt.buffer in tiles for stmt in walk(loop))


def _reads_results(loop: For, before: list[Stmt]) -> bool:
    written = {stmt.buffer for nest in before for stmt in walk(nest) if isinstance(stmt, Store)}
    return any(load.buffer in written for stmt in walk(loop) for expr in expressions(stmt) for load in loads(expr))


def write(frame: Frame) -> None:
    """Write the statement that clobbers all vector registers."""
    target = frame.module.target
    prefix = _REGISTERS[target.architecture]
    names = ",".join(f"~{{{prefix}{number}}}" for number in range(target.vector_registers))
    frame.text.effect(f'call void asm sideeffect "", "{names}"() nounwind')
