"""`emit`: a lowered function to a `Program` of LLVM assembly text. The only entry point of the emitter."""

from __future__ import annotations

from pegbox.codegen.emitter import accumulators, entry, placement, privatization, strip_mining, unroll
from pegbox.codegen.emitter.frame import Frame
from pegbox.codegen.emitter.module import ModuleText
from pegbox.codegen.emitter.parallel import ParallelLoops, bind_pointer
from pegbox.codegen.emitter.placement import WORKSPACE
from pegbox.codegen.emitter.scalar_loops import MOST_BRANCHES, has_scalar_loops
from pegbox.codegen.emitter.scattered_stores import loops_with_scattered_stores
from pegbox.codegen.emitter.statements import FunctionPlan, Writer
from pegbox.codegen.emitter.text import identifier
from pegbox.codegen.emitter.uniform_chains import loops_with_uniform_chains
from pegbox.codegen.program import ArgSpec, Program
from pegbox.codegen.targets.target import Target
from pegbox.errors import CompileError
from pegbox.loops.foreign import code_of
from pegbox.loops.nodes import For, ForKind, Function, Stmt
from pegbox.loops.visit import walk


def emit(func: Function, target: Target) -> Program:
    """The program of a lowered function (no blocks; every buffer is a parameter or stands in an Alloc).

    Raises:
        CompileError: the function is not lowered, or unrolling makes more code than is reasonable.
    """
    name = identifier(func.name)
    _check(func)
    blocked = strip_mining.strip_mine(privatization.privatize(func.body), target.vector_bits)
    func = func.with_body(accumulators.expand(blocked))
    threads = min(target.num_cores, _longest_parallel(func.body))
    places = placement.plan(func.body, target, threads=threads)
    module = ModuleText(name, target)
    scalar = loops_with_uniform_chains(func.body) | loops_with_scattered_stores(func, target.vector_bits)
    plan = FunctionPlan(func, places, unroll.plan(func.body), scalar)
    plan.parallel = ParallelLoops(module, plan, threads)
    separate = bool(places.shared or places.per_thread)
    body = _body(func, module, plan, f"@{name}.body" if separate else f"@{name}", separate)
    module.functions.append(body)
    if separate:
        module.functions.append(entry.wrapper(func, name, places))
    module.functions.append(entry.timing_loop(module, func, name))
    args = tuple(ArgSpec(b.name, b.shape, b.dtype, b in func.outputs) for b in func.params)
    workspace = places.shared_bytes + threads * places.thread_bytes
    externs = tuple(module.externs)
    foreign = code_of(func) if externs else ()
    return Program(
        name,
        args,
        module.text(),
        workspace,
        threads,
        target,
        externs,
        foreign,
        scalar_loops=module.branches <= MOST_BRANCHES and has_scalar_loops(func, plan.unrolling.explicit),
        written_out=tuple(module.written_out),
    )


def _body(func: Function, module: ModuleText, plan: FunctionPlan, symbol: str, separate: bool) -> str:
    """The function that does the work. With a workspace every buffer in it is a noalias parameter of its own."""
    frame = Frame(module, in_parallel=False)
    params = [bind_pointer(frame, buffer) for buffer in func.params]
    params += [bind_pointer(frame, buffer, aligned=True) for buffer in plan.placement.shared]
    params.append(f"ptr {WORKSPACE}")
    Writer(frame, plan).write(func.body)
    linkage = "internal " if separate else ""
    return frame.text.function(f"define {linkage}void {symbol}({', '.join(params)}) noinline #0")


def _longest_parallel(body: Stmt) -> int:
    return max((1, *(s.extent for s in walk(body) if isinstance(s, For) and s.kind is ForKind.PARALLEL)))


def _check(func: Function) -> None:
    if func.allocs:
        names = ", ".join(buffer.name for buffer in func.allocs)
        raise CompileError(f"{func.name}: buffers {names} stand outside any Alloc; lower the function first")
    missing = [buffer.name for buffer in func.outputs if buffer not in func.params]
    if missing:
        raise CompileError(f"{func.name}: outputs {', '.join(missing)} are not among its parameters")
