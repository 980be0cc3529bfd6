"""`emit`, the entry point of the emitter, which turns a lowered function into a `Program` of LLVM assembly text."""

from __future__ import annotations

from collections.abc import Sequence

from pegbox.checks import check_instance
from pegbox.codegen.compiled import ArgSpec
from pegbox.codegen.emitter import accumulators, nontemporal, placement, register_barriers, unroll, vectorized_loops
from pegbox.codegen.emitter.frame import Frame
from pegbox.codegen.emitter.function_text import identifier
from pegbox.codegen.emitter.masked_updates import rewrite_updates
from pegbox.codegen.emitter.module import ModuleText, TooLong
from pegbox.codegen.emitter.parallel import ParallelLoops, bind_pointer
from pegbox.codegen.emitter.placement import WORKSPACE, Placement
from pegbox.codegen.emitter.scalar_loops import MOST_BRANCHES, ScalarLoops
from pegbox.codegen.emitter.statements import FunctionPlan, Writer
from pegbox.codegen.emitter.timing_loop import timing_loop
from pegbox.codegen.program import Program
from pegbox.codegen.targets.target import Target
from pegbox.errors import CompileError, TargetError
from pegbox.loops.foreign import code_of
from pegbox.loops.nodes import For, ForKind, Function, Stmt
from pegbox.loops.visit import executed_stores, walk


def emit(func: Function, target: Target) -> Program:
    """Emit the program of a lowered function (no blocks; every buffer is a parameter or in an Alloc).

    Raises:
        CompileError: the function is not lowered, or unrolling makes too much code.
    """
    check_instance("func", func, Function, "what pegbox.lower gives", error=CompileError)
    check_instance("target", target, Target, "a pegbox.Target", error=TargetError)
    name = identifier(func.name)
    if func.allocs:
        names = ", ".join(buffer.name for buffer in func.allocs)
        raise CompileError(f"{func.name}: buffers {names} are not in any Alloc; lower the function first")
    if missing := [buffer.name for buffer in func.outputs if buffer not in func.params]:
        raise CompileError(f"{func.name}: outputs {', '.join(missing)} are not among its parameters")
    return _in_blocks(name, func, vectorized_loops.privatize(func.body), target, vectorized_loops.BLOCKS)


def _in_blocks(name: str, func: Function, body: Stmt, target: Target, blocks: Sequence[int]) -> Program:
    """Emit the program with wide loops cut into blocks, of the first size whose code is not too long for LLVM.

    Smaller blocks help only if a wide loop alone made the code too long; inside unrolled loops, the schedule did.
    """
    block, *fewer = blocks
    bits = target.vector_bits
    try:
        return _emitted(name, func, vectorized_loops.strip_mine(body, bits, block), target)
    except TooLong as error:
        if not fewer or len(error.loops) > 1 or vectorized_loops.strip_mine(body, bits, fewer[-1]) is body:
            raise
    return _in_blocks(name, func, body, target, fewer)


def _emitted(name: str, func: Function, blocked: Stmt, target: Target) -> Program:
    """Emit the program, whose vectorized loops have been cut into blocks."""
    stores = executed_stores(func.body)
    func = func.with_body(accumulators.expand(blocked))
    extents = [stmt.extent for stmt in walk(func.body) if isinstance(stmt, For) and stmt.kind is ForKind.PARALLEL]
    threads = min(target.num_cores, max([1, *extents]))
    places = placement.plan(func.body, target, threads=threads)
    func = func.with_body(rewrite_updates(func.body, target, places.stack))
    module = ModuleText(name, target, set(func.params) - set(func.outputs))
    unrolling = unroll.plan(func.body)
    scalar_loops = ScalarLoops(func, target.vector_bits, unrolling.explicit)
    barriers = register_barriers.plan(func.body, places, target)
    plan = FunctionPlan(func, places, unrolling, scalar_loops.not_vectorized, barriers)
    plan.parallel = ParallelLoops(module, plan, threads)
    _functions(func, module, plan)
    externs = tuple(module.externs)
    return Program(
        name,
        tuple(ArgSpec(b.name, b.shape, b.dtype, b in func.outputs) for b in func.params),
        module.text(),
        places.shared_bytes + threads * places.thread_bytes,
        threads,
        target,
        externs,
        code_of(func) if externs else (),
        scalar_loops=scalar_loops.for_llvm and module.branches <= MOST_BRANCHES,
        written_out=tuple(module.written_out),
        stores=stores,
    )


def _functions(func: Function, module: ModuleText, plan: FunctionPlan) -> None:
    """Write the kernel and the loop that times it.

    With a workspace, a separate function does the work, which takes every buffer as a noalias parameter.
    """
    name, places = module.name, plan.placement
    separate = bool(places.shared or places.per_thread)
    frame = Frame(module, in_parallel=False)
    params = [bind_pointer(frame, buffer) for buffer in func.params]
    params += [bind_pointer(frame, buffer, aligned=True) for buffer in places.shared]
    params.append(f"ptr {WORKSPACE}")
    Writer(frame, plan).write(func.body)
    nontemporal.finish(frame)
    head = f"define internal void @{name}.body" if separate else f"define void @{name}"
    module.functions.append(frame.text.function(f"{head}({', '.join(params)}) noinline #0"))
    arguments = [f"ptr %a{number}" for number in range(len(func.params))]
    if separate:
        module.functions.append(_wrapper(name, arguments, places))
    module.functions.append(timing_loop(module, ", ".join([*arguments, "ptr %workspace"])))


def _wrapper(name: str, params: list[str], places: Placement) -> str:
    """Write `@name(args, workspace)`, which passes each buffer in the workspace to the body as a separate pointer."""
    lines, pointers = [], []
    for number, offset in enumerate(places.shared.values()):
        lines.append(f"  %b{number} = getelementptr inbounds i8, ptr %workspace, i64 {offset}")
        pointers.append(f"ptr %b{number}")
    arguments = ", ".join([*params, *pointers, "ptr %workspace"])
    return "\n".join(
        [
            f"define void @{name}({', '.join([*params, 'ptr %workspace'])}) noinline #0 {{",
            *lines,
            f"  call void @{name}.body({arguments})",
            "  ret void",
            "}",
        ]
    )
