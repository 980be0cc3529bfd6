"""Placement of buffers (registers, stack, workspace) and widths of vectors, decided once per function.

Small buffers are allocas, which LLVM promotes to registers if every index is constant; larger ones get a separate place
in the workspace. A large buffer inside a parallel loop has one copy per thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pegbox.codegen.compiled import ALIGNMENT
from pegbox.codegen.targets.target import Target
from pegbox.expr import dtypes
from pegbox.expr.low_level import Stride
from pegbox.expr.nodes import Buffer, Load
from pegbox.expr.visit import free_vars
from pegbox.expr.visit import walk as walk_expr
from pegbox.loops.nodes import Alloc, For, ForKind, Stmt, Store
from pegbox.loops.reductions.update import update
from pegbox.loops.visit import children, expressions, walk

STACK_BYTES = 16 * 1024
"""The bytes of the largest buffer on the stack."""
STACK_TOTAL = 128 * 1024
"""The most bytes of all buffers on the stack together."""
WORKSPACE = "%workspace"
"""The parameter that holds the pointer to the workspace."""


@dataclass
class Placement:
    """The places of buffers: `shared` and `per_thread` are byte offsets into the workspace, in this order.

    Attributes:
        narrow: the lanes of sums that are updated by half vectors. LLVM keeps them in registers of that length only if
            they are set and read in as many lanes; otherwise it widens each half to a whole vector again.
    """

    vector_bits: int
    narrow: dict[Buffer, int] = field(default_factory=dict)
    stack: set[Buffer] = field(default_factory=set)
    shared: dict[Buffer, int] = field(default_factory=dict)
    per_thread: dict[Buffer, int] = field(default_factory=dict)
    stack_bytes: int = 0
    shared_bytes: int = 0
    thread_bytes: int = 0


def vector_lanes(vector_bits: int, body: Stmt) -> int:
    """Count the lanes of a vector for a vectorized loop's body: the narrowest element type fills a register.

    Bytes don't count if there are wider types: 64 lanes of floats would take four registers.
    """
    bits = {dtypes.BITS[buffer.dtype] for buffer in accessed_buffers(body)}
    wide = [b for b in bits if b >= 16]
    return max(vector_bits // (min(wide) if wide else 8), 1)


def chunk_lanes(placement: Placement, body: Stmt) -> int:
    """Count the lanes of a vector for a vectorized loop's body; half as many if it sets or reads half vectors."""
    lanes = vector_lanes(placement.vector_bits, body)
    if not placement.narrow or (isinstance(body, Store) and update(body) is not None):
        return lanes
    return min([lanes, *(placement.narrow.get(buffer, lanes) for buffer in accessed_buffers(body))])


def plan(body: Stmt, target: Target, *, threads: int) -> Placement:
    result = Placement(target.vector_bits)
    _visit(body, False, result, threads)
    return result


def _visit(stmt: Stmt, in_parallel: bool, result: Placement, threads: int) -> None:
    if isinstance(stmt, Alloc):
        _place(stmt.buffer, in_parallel, result)
    if isinstance(stmt, For) and stmt.kind is ForKind.PARALLEL and threads > 1:
        in_parallel = True
    if isinstance(stmt, For) and stmt.kind is ForKind.VECTORIZED:
        _note_half_update(stmt, result)
    for child in children(stmt):
        _visit(child, in_parallel, result, threads)


def _note_half_update(loop: For, result: Placement) -> None:
    """Note a sum on the stack to which a loop adds half vectors."""
    body = loop.body
    if not isinstance(body, Store) or body.buffer not in result.stack or update(body) is None:
        return
    is_half = 2 * loop.extent == vector_lanes(result.vector_bits, body)
    if is_half and any(loop.var in free_vars(index) for index in body.indices):
        result.narrow[body.buffer] = loop.extent


def _place(buffer: Buffer, in_parallel: bool, result: Placement) -> None:
    size = -(-max(buffer.nbytes, 1) // ALIGNMENT) * ALIGNMENT
    if buffer in result.stack or buffer in result.per_thread or (buffer in result.shared and not in_parallel):
        return  # copies of a loop body may share their allocations
    result.shared.pop(buffer, None)
    if buffer.nbytes <= STACK_BYTES and result.stack_bytes + size <= STACK_TOTAL:
        result.stack_bytes += size
        result.stack.add(buffer)
    elif in_parallel:
        result.per_thread[buffer] = result.thread_bytes
        result.thread_bytes += size
    else:
        result.shared[buffer] = result.shared_bytes
        result.shared_bytes += size


def accessed_buffers(stmt: Stmt) -> set[Buffer]:
    """Find every buffer that the statement reads or writes."""
    found: set[Buffer] = set()
    for node in walk(stmt):
        if isinstance(node, Store):
            found.add(node.buffer)
        for expr in expressions(node):
            found.update([part.buffer for part in walk_expr(expr) if isinstance(part, Load | Stride)])
    return found
