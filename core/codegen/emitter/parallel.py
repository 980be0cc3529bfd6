"""Parallel loops on a CPU: outlined into a function that an OpenMP runtime runs on every thread of a team.

Two functions per loop: the runtime calls `@kernel.parallel.1`, which reads its arguments from a record and computes its
share of the iterations (contiguous; sizes differ by at most one). It calls `@kernel.part.1`, which contains the code
and takes the buffers as noalias parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

from pegbox.codegen.emitter import nontemporal
from pegbox.codegen.emitter.frame import Frame, Pointer
from pegbox.codegen.emitter.function_text import identifier
from pegbox.codegen.emitter.module import ModuleText
from pegbox.codegen.emitter.placement import WORKSPACE, accessed_buffers
from pegbox.codegen.emitter.statements import FunctionPlan, Writer
from pegbox.expr.nodes import Buffer, Var
from pegbox.loops.nodes import Alloc, For
from pegbox.loops.visit import walk


@dataclass
class Captures:
    """The values that a loop takes from outside: buffers and variables, with registers; offsets of `own` buffers."""

    buffers: list[tuple[Buffer, str]]
    variables: list[tuple[Var, str]]
    own: list[tuple[Buffer, int]]


class ParallelLoops:
    """The parallel loops of one program, all for teams of one size: for another size, a runtime creates new threads."""

    def __init__(self, module: ModuleText, plan: FunctionPlan, threads: int) -> None:
        self.module = module
        self.plan = plan
        self.threads = threads
        self._count = 0

    def __call__(self, frame: Frame, loop: For) -> bool:
        """Write the loop as a parallel region; False if it has to be serial (with one thread, or inside a region)."""
        if frame.in_parallel or self.threads == 1:
            return False
        self._count += 1
        captured = self._capture(frame, loop)
        self.module.functions.append(self._part(frame, loop, captured))
        self.module.functions.append(self._run(loop, captured))
        self._launch(frame, captured)
        return True

    def _capture(self, frame: Frame, loop: For) -> Captures:
        used = accessed_buffers(loop.body)
        inside = {stmt.buffer for stmt in walk(loop.body) if isinstance(stmt, Alloc)}
        per_thread = self.plan.placement.per_thread
        buffers = [(buffer, at.register) for buffer, at in frame.buffers.items() if buffer in used - inside]
        for buffer, register in buffers:
            frame.buffers[buffer] = Pointer(register, private=False)  # other threads see it from here on
        return Captures(
            buffers,
            [(var, bound) for var, bound in frame.env.items() if isinstance(bound, str)],
            [(buffer, offset) for buffer, offset in per_thread.items() if buffer in inside],
        )

    def _part(self, outer: Frame, loop: For, captured: Captures) -> str:
        """Write the function that runs a range of iterations."""
        frame = Frame(self.module, in_parallel=True)
        frame.unrolling = list(outer.unrolling)
        frame.env = {var: bound for var, bound in outer.env.items() if isinstance(bound, int)}
        params = [bind_pointer(frame, buffer) for buffer, _ in (*captured.buffers, *captured.own)]
        for var, bound in captured.variables:
            name = frame.text.fresh(identifier(var.name))
            frame.bind(var, name, frame.text.entry, outer.registers.ranges[bound])
            params.append(f"i64 {name}")
        Writer(frame, self.plan).serial(loop, "%begin", "%end")
        nontemporal.finish(frame)
        listed = ", ".join([*params, "i64 %begin", "i64 %end"])
        return frame.text.function(f"define internal void @{self.module.name}.part.{self._count}({listed}) noinline #0")

    def _run(self, loop: For, captured: Captures) -> str:
        """Write the function that every thread calls with the record of arguments."""
        lines = []
        arguments = []
        slots = ["ptr"] * len(captured.buffers) + ["i64"] * len(captured.variables)
        for number, ty in enumerate(slots):
            lines.append(f"  %s{number} = getelementptr inbounds i64, ptr %data, i64 {number}")
            lines.append(f"  %a{number} = load {ty}, ptr %s{number}, align 8")
            arguments.append(f"{ty} %a{number}")
        own = []
        if captured.own:  # this thread's copies of the large buffers inside the loop
            placement = self.plan.placement
            own = [
                f"  %ws = getelementptr inbounds i64, ptr %data, i64 {len(slots)}",
                "  %base = load ptr, ptr %ws, align 8",
                f"  %mine = mul i64 %id, {placement.thread_bytes}",
            ]
            for number, (_, offset) in enumerate(captured.own):
                own.append(f"  %o{number} = add i64 %mine, {placement.shared_bytes + offset}")
                own.append(f"  %w{number} = getelementptr i8, ptr %base, i64 %o{number}")
        arguments[len(captured.buffers) : len(captured.buffers)] = [f"ptr %w{n}" for n in range(len(captured.own))]
        for name in ("omp_get_thread_num", "omp_get_num_threads"):
            self.module.declare(f"declare i32 @{name}()")
        call = ", ".join([*arguments, "i64 %begin", "i64 %end"])
        return "\n".join(
            [
                f"define internal void @{self.module.name}.parallel.{self._count}(ptr %data) #0 {{",
                *lines,
                "  %id32 = call i32 @omp_get_thread_num()",
                "  %team32 = call i32 @omp_get_num_threads()",
                "  %id = zext i32 %id32 to i64",
                "  %team = zext i32 %team32 to i64",
                f"  %each = udiv i64 {loop.extent}, %team",
                f"  %more = urem i64 {loop.extent}, %team",
                "  %first = mul i64 %id, %each",
                "  %has.more = icmp ult i64 %id, %more",
                "  %before = select i1 %has.more, i64 %id, i64 %more",
                "  %extra = zext i1 %has.more to i64",
                "  %begin = add i64 %first, %before",
                "  %size = add i64 %each, %extra",
                "  %end = add i64 %begin, %size",
                *own,
                "  %any = icmp ne i64 %size, 0",
                "  br i1 %any, label %work, label %done",
                "work:",
                f"  call void @{self.module.name}.part.{self._count}({call})",
                "  br label %done",
                "done:",
                "  ret void",
                "}",
            ]
        )

    def _launch(self, frame: Frame, captured: Captures) -> None:
        """Fill the record and run the team."""
        values = [("ptr", name) for _, name in captured.buffers] + [("i64", name) for _, name in captured.variables]
        if captured.own:
            values.append(("ptr", WORKSPACE))
        record = frame.text.fresh("record")
        frame.text.allocas.append(f"  {record} = alloca [{max(len(values), 1)} x i64], align 8")
        for number, (ty, name) in enumerate(values):
            slot = frame.op(f"getelementptr inbounds i64, ptr {record}, i64 {number}")
            frame.text.effect(f"store {ty} {name}, ptr {slot}, align 8")
        self.module.declare("declare void @GOMP_parallel(ptr, ptr, i32, i32)")
        function = f"@{self.module.name}.parallel.{self._count}"
        nontemporal.finish(frame)
        frame.text.effect(f"call void @GOMP_parallel(ptr {function}, ptr {record}, i32 {self.threads}, i32 0)")
        frame.scope.memory.clear()


def bind_pointer(frame: Frame, buffer: Buffer, *, aligned: bool = False) -> str:
    """Make the buffer a parameter of the frame's function; return the parameter's text."""
    name = frame.text.fresh(identifier(buffer.name))
    frame.buffers[buffer] = Pointer(name, private=False)
    frame.registers.home[name] = frame.text.entry
    align = "align 64 " if aligned else ""
    return f"ptr noalias nonnull {align}dereferenceable({max(buffer.nbytes, 1)}) {name}"
