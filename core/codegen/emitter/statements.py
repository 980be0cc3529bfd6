"""Emission of statements: loops, conditions, stores, allocations."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pegbox.codegen.emitter import arithmetic, memory, nontemporal, partial_vector, reductions, register_barriers
from pegbox.codegen.emitter.call_groups import call_groups
from pegbox.codegen.emitter.expressions import address, evaluate, in_bounds, is_guarded, narrowed
from pegbox.codegen.emitter.frame import Frame, Pointer, Value
from pegbox.codegen.emitter.function_text import Level, identifier
from pegbox.codegen.emitter.lanes import SCALAR, Chunk, pattern, split_lanes
from pegbox.codegen.emitter.lltypes import memory as memory_type
from pegbox.codegen.emitter.lltypes import register
from pegbox.codegen.emitter.placement import WORKSPACE, Placement, chunk_lanes
from pegbox.codegen.emitter.unroll import Unrolling
from pegbox.errors import CompileError
from pegbox.expr import dtypes
from pegbox.expr.build import all_of, conjuncts
from pegbox.expr.nodes import Compare, Const, Expr, Load, Var
from pegbox.loops.nodes import Alloc, Evaluate, For, ForKind, Function, If, Seq, Stmt, Store
from pegbox.loops.reductions.update import reads


@dataclass
class FunctionPlan:
    """The decisions about a function before its text is written."""

    function: Function
    placement: Placement
    unrolling: Unrolling
    scalar: Set[Var] = frozenset()  # loops that LLVM must not vectorize
    barriers: Set[Var] = frozenset()  # loops before which no vector register may hold a value
    parallel: Callable[[Frame, For], bool] = field(default=lambda frame, loop: False)


class Writer:
    """The writer of the statements of one frame.

    `chunks` are the vectors of the enclosing vectorized loop (one scalar chunk outside any): every leaf statement is
    written once per chunk, so that a wide vectorized loop around a serial one keeps all its accumulators at once.
    """

    def __init__(self, frame: Frame, plan: FunctionPlan) -> None:
        self.frame = frame
        self.plan = plan
        self.chunks: list[Chunk] = [SCALAR]
        self._vectors: dict[Var, tuple[list[Chunk], Stmt]] = {}  # an enclosing unrolled loop needs them many times

    def write(self, stmt: Stmt) -> None:
        handler = _HANDLERS.get(type(stmt))
        if handler is None:
            raise CompileError(
                f"the code generator takes lowered programs only and does not know {type(stmt).__name__} statements"
            )
        handler(self, stmt)

    def _seq(self, stmt: Seq) -> None:
        for each in stmt.stmts:
            self.write(each)

    def _alloc(self, stmt: Alloc) -> None:
        buffer, frame = stmt.buffer, self.frame
        if buffer not in frame.buffers and buffer in self.plan.placement.stack:
            register = frame.text.fresh(identifier(buffer.name))
            size = max(buffer.size, 1)
            frame.text.allocas.append(f"  {register} = alloca [{size} x {memory_type(buffer.dtype, 0)}], align 64")
            frame.buffers[buffer] = Pointer(register, private=True)
            frame.registers.home[register] = frame.text.entry
        elif buffer not in frame.buffers:
            # A per-thread buffer that is also used outside parallel loops: the first thread's copy serves there.
            offset = self.plan.placement.shared_bytes + self.plan.placement.per_thread[buffer]
            register = frame.at(frame.text.entry, f"getelementptr i8, ptr {WORKSPACE}, i64 {offset}")
            frame.buffers[buffer] = Pointer(register, private=False)
        self.write(stmt.body)

    # Loops.

    def _for(self, stmt: For) -> None:
        if stmt.extent <= 0:
            return
        scalar = self.chunks[0].lanes is None
        if stmt.var in self.plan.barriers:
            register_barriers.write(self.frame)
        if stmt.extent == 1:
            self._unrolled(stmt)
        elif stmt.kind is ForKind.VECTORIZED:
            self._vectorized(stmt) if scalar else self._unrolled(stmt)
        elif stmt.kind is ForKind.UNROLLED or stmt.var in self.plan.unrolling.explicit:
            self._unrolled(stmt)
        elif not (stmt.kind is ForKind.PARALLEL and scalar and self.plan.parallel(self.frame, stmt)):
            row = nontemporal.row(self.frame, stmt, self.plan.function) if scalar else None
            self.serial(stmt, "0", str(stmt.extent)) if row is None else self._nontemporal(row)

    def _unrolled(self, stmt: For) -> None:
        env = self.frame.env
        if stmt.extent > 1:
            self._enter_written_out(stmt)
        for value in range(stmt.extent):
            env[stmt.var] = value
            self.write(stmt.body)
        env.pop(stmt.var, None)
        if stmt.extent > 1:
            self.frame.unrolling.pop()

    def _enter_written_out(self, stmt: For) -> None:
        named = f"{stmt.var.name} ({stmt.extent})"
        self.frame.unrolling.append(named)
        self.frame.module.written_out[named] = None

    def serial(self, stmt: For, start: str, stop: str) -> None:
        """Write a loop from `start` to `stop` (i64 literals or registers with start < stop)."""
        frame = self.frame
        frame.text.loops += 1
        var = frame.text.fresh(identifier(stmt.var.name))
        header, after = frame.text.label("for"), frame.text.label("end")
        before = frame.text.block
        frame.text.effect(f"br label %{header}")
        frame.text.start_block(header)
        slot = len(frame.text.lines)
        level = Level(frame.text.level.depth + 1)
        frame.text.lines += ["", level.hoisted]
        frame.bind(stmt.var, var, level, (0, stmt.extent - 1))
        outer, frame.text.level = frame.text.level, level
        frame.nested(lambda: self.write(stmt.body))
        frame.text.level = outer
        del frame.env[stmt.var]
        frame.text.lines[slot] = f"  {var} = phi i64 [ {start}, %{before} ], [ {var}.next, %{frame.text.block} ]"
        frame.text.effect(f"{var}.next = add nuw nsw i64 {var}, 1")
        frame.text.effect(f"{var}.done = icmp eq i64 {var}.next, {stop}")
        frame.text.effect(f"br i1 {var}.done, label %{after}, label %{header}{self._loop_metadata(stmt)}")
        frame.text.start_block(after)

    def _loop_metadata(self, stmt: For) -> str:
        unrolling, wishes = self.plan.unrolling, []
        if stmt.var in unrolling.hinted:
            wishes.append('!"llvm.loop.unroll.full"')
        elif stmt.var in unrolling.shaped:
            wishes.append('!"llvm.loop.unroll.disable"')
        if stmt.var in self.plan.scalar:
            wishes.append('!"llvm.loop.vectorize.enable", i1 false')
        return ", !llvm.loop " + self.frame.module.loop_metadata(*wishes) if wishes else ""

    def _nontemporal(self, row: nontemporal.Row) -> None:
        """Write a loop over a row whose whole cache lines bypass the caches."""
        frame, var, extent = self.frame, row.loop.var, row.loop.extent
        is_misaligned = Value(frame.op(f"icmp ne i64 {row.register}, 0"), "bool", 0)
        stop = frame.op(f"select i1 {is_misaligned.text}, i64 {extent - 1}, i64 {extent}")
        frame.bind(row.shift, row.register, row.level, (0, row.line))
        self._branch([is_misaligned], lambda: self._iteration(var, 0, row.head))
        frame.nontemporal = row.store.buffer
        self.serial(row.main, "0", stop)
        self._branch([is_misaligned], lambda: self._iteration(var, extent - 1, row.last))
        frame.nontemporal = None
        self._branch([is_misaligned], lambda: self._iteration(var, extent - 1, row.tail))
        del frame.env[row.shift]

    def _iteration(self, var: Var, value: int, body: Stmt) -> None:
        self.frame.env[var] = value
        self.write(body)
        del self.frame.env[var]

    # Vectorized loops.

    def _vectorized(self, stmt: For) -> None:
        """Write directly nested vectorized loops as one; other loops inside are unrolled."""
        if stmt.var not in self._vectors:
            self._vectors[stmt.var] = _vectors(stmt, self.plan.placement)
        self.chunks, body = self._vectors[stmt.var]
        self._enter_written_out(stmt)
        self.write(body)
        self.frame.unrolling.pop()
        self.chunks = [SCALAR]

    # Conditions.

    def _if(self, stmt: If) -> None:
        uniform: list[Value] = []
        live, then, holding = self.chunks, stmt.then, stmt.condition
        conditions = conjuncts(stmt.condition)
        for place, condition in enumerate(conditions):
            if uniform and any(is_guarded(self.frame, condition, chunk) for chunk in live):
                # It may read elements that exist only if the conditions before it hold.
                then, holding = If(all_of(conditions[place:]), then, stmt.guard), all_of(conditions[:place])
                break
            values = [evaluate(self.frame, condition, chunk) for chunk in live]
            if all(value == values[0] and not value.lanes for value in values):
                # All chunks have the same value, since the same instruction has the same register.
                if values[0].text == "false":
                    return
                if values[0].text != "true":
                    uniform.append(values[0])
                continue
            live = [
                chunk if value.text == "true" else narrowed(self.frame, chunk, value, guard=stmt.guard)
                for chunk, value in zip(live, values, strict=True)
                if value.text != "false"
            ]
        if not live:
            return
        outer, self.chunks = self.chunks, live
        if uniform:
            limits = self.frame.limits
            self.frame.limits = {**limits, **self._limits(holding)}
            self._branch(uniform, lambda: self.write(then))
            self.frame.limits = limits
        else:
            self.write(then)
        self.chunks = outer

    def _limits(self, condition: Expr) -> dict[str, tuple[int, int]]:
        """Find the interval, where a condition holds, of each index register that it compares with a number."""
        found: dict[str, tuple[int, int]] = {}
        for part in conjuncts(condition):
            bound = self.frame.env.get(part.a) if isinstance(part, Compare) and isinstance(part.a, Var) else None
            if isinstance(part, Compare) and isinstance(bound, str) and isinstance(part.b, Const):
                known = found.get(bound) or self.frame.limits.get(bound)
                low, high = known or self.frame.registers.ranges[bound]
                match part.op:
                    case "lt":
                        high = min(high, part.b.integer - 1)
                    case "ge":
                        low = max(low, part.b.integer)
                found[bound] = low, high
        return found

    def _branch(self, conditions: list[Value], body: Callable[[], None]) -> None:
        """Run `body` where all the scalar conditions hold."""
        frame = self.frame
        total = conditions[0]
        for condition in conditions[1:]:
            total = arithmetic.logic(frame, "and", total, condition)
        yes, after = frame.text.label("if"), frame.text.label("end")
        frame.text.effect(f"br i1 {total.text}, label %{yes}, label %{after}")
        frame.text.start_block(yes)
        frame.nested(body)
        frame.text.effect(f"br label %{after}")
        frame.text.start_block(after)

    # Stores.

    def _store(self, stmt: Store) -> None:
        if dtypes.lanes(stmt.value.dtype):
            value = evaluate(self.frame, stmt.value, self.chunks[0])
            memory.store_vector(self.frame, stmt.buffer, address(self.frame, stmt, self.chunks[0]), value)
        elif self.chunks[0].lanes is None:
            where = address(self.frame, stmt, SCALAR)
            memory.store(self.frame, stmt.buffer, where, evaluate(self.frame, stmt.value, SCALAR), SCALAR)
        elif not reductions.write(self.frame, stmt, self.chunks):
            left = partial_vector.write(self.frame, stmt, self.chunks)
            for group in call_groups(self.frame, stmt.value, left):
                for chunk in group:
                    self._store_lanes(stmt, chunk)
        self.frame.module.check_length(self.frame.text, self.frame.unrolling)

    def _evaluate(self, stmt: Evaluate) -> None:
        evaluate(self.frame, stmt.expr, self.chunks[0])
        self.frame.module.check_length(self.frame.text, self.frame.unrolling)

    def _store_lanes(self, stmt: Store, chunk: Chunk) -> None:
        """Write one vector of a store.

        Lanes that coincide at one element are stored one after the other, as in a loop.
        """
        frame = self.frame
        where = address(frame, stmt, chunk)
        spread = pattern(where.offsets) if where.offsets is not None else None
        if where.vector is None and (spread is None or not spread.distinct):
            value = evaluate(frame, stmt.value, chunk) if not reads(stmt.value, stmt.buffer) else None
            if value is None or value.lanes or spread is not None:
                self._one_by_one(stmt, chunk)
            elif chunk.mask is None:
                memory.store(frame, stmt.buffer, where, value, SCALAR)
            else:
                any_live = Value(memory.any_lane(frame, chunk.mask, chunk.width), "bool", 0)
                self._branch([any_live], partial(memory.store, frame, stmt.buffer, where, value, SCALAR))
            return
        if where.vector is not None and reads(stmt.value, stmt.buffer):
            self._one_by_one(stmt, chunk)
            return
        if chunk.mask is not None and not in_bounds(frame, Load(stmt.buffer, stmt.indices), chunk):
            # Beyond the end of a row, lanes are elements of the next row.
            chunk = chunk._replace(kept=chunk.mask)
        memory.store(frame, stmt.buffer, where, evaluate(frame, stmt.value, chunk), chunk)

    def _one_by_one(self, stmt: Store, chunk: Chunk) -> None:
        frame, lanes = self.frame, chunk.lanes
        assert lanes is not None
        for lane in range(lanes.count):
            for var, values in lanes.values.items():
                frame.env[var] = values[lane]

            def scalar_store() -> None:
                where = address(frame, stmt, SCALAR)
                memory.store(frame, stmt.buffer, where, evaluate(frame, stmt.value, SCALAR), SCALAR)

            if chunk.mask is None:
                scalar_store()
            else:
                ty = register("bool", lanes.count)
                bit = frame.op(f"extractelement {ty} {chunk.mask}, i64 {lane}")
                self._branch([Value(bit, "bool", 0)], scalar_store)
        for var in lanes.values:
            del frame.env[var]


def _vectors(stmt: For, placement: Placement) -> tuple[list[Chunk], Stmt]:
    """Make the chunks of a vectorized loop; also return its body."""
    loops = [stmt]
    while isinstance(loops[-1].body, For) and loops[-1].body.kind is ForKind.VECTORIZED:
        loops.append(loops[-1].body)
    body = loops[-1].body
    pieces = split_lanes([loop.extent for loop in loops], [loop.var for loop in loops], chunk_lanes(placement, body))
    return [Chunk(lanes, None) for lanes in pieces], body


_HANDLERS: dict[type[Stmt], Callable[[Writer, Any], None]] = {
    For: Writer._for, Seq: Writer._seq, If: Writer._if, Store: Writer._store, Alloc: Writer._alloc,
    Evaluate: Writer._evaluate,
}  # fmt: skip
