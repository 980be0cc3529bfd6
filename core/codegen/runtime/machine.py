"""LLVM at work: assembly text in, optimized object code (or assembly, or optimized IR) out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

from pegbox.codegen.program import CompiledProgram, Program
from pegbox.codegen.runtime.foreign import prepare
from pegbox.codegen.targets.target import Target
from pegbox.errors import CompileError, TargetError


@cache
def _llvm() -> Any:
    """llvmlite.binding with every target that it was built with switched on."""
    from llvmlite import binding  # a fifth of a second; only processes that compile or load pay for it

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return binding


@cache
def target_machine(target: Target) -> Any:
    """Position-independent code, so that the object can be loaded by a JIT as well as linked into a library."""
    llvm = _llvm()
    triple = target.triple or llvm.get_process_triple()
    try:
        machine = llvm.Target.from_triple(triple)
    except RuntimeError as error:
        raise TargetError(f"target {str(target)!r}: LLVM has no back end for {triple!r} ({error})") from error
    return machine.create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, reloc="pic", codemodel="default"
    )


def warm_up() -> None:
    """Load LLVM now (a fifth of a second), so that the first kernel does not wait for it."""
    _llvm()


def compile_program(program: Program, *, quick: bool = False) -> CompiledProgram:
    """Object code of a program.

    `quick` leaves out the last part of LLVM's optimizer, which takes half of its time: the vectorization of scalar
    loops, the unrolling of loops with unknown trip counts, what is forwarded from one iteration to the next. It is for
    candidates of a search, which run once; see `docs/codegen.md`.

    Raises:
        CompileError: LLVM rejects the text (a defect of the emitter, or a text that was edited).
        TargetError: LLVM has no back end for the target.
    """
    prepare(program.foreign, program.target)
    started = time.perf_counter()
    with _optimized(program, quick=quick) as module:
        code = target_machine(program.target).emit_object(module)
    seconds = time.perf_counter() - started
    return CompiledProgram(
        program.name,
        program.args,
        code,
        program.workspace_bytes,
        program.num_threads,
        program.target,
        seconds,
        program.externs,
        program.foreign,
    )


def assembly(program: Program) -> str:
    """The machine code as assembly text."""
    with _optimized(program) as module:
        return str(target_machine(program.target).emit_assembly(module))


def optimized_ir(program: Program) -> str:
    """LLVM assembly after the optimizer, before instruction selection."""
    with _optimized(program) as module:
        return str(module)


@contextmanager
def parsed(program: Program) -> Iterator[Any]:
    """The program as an LLVM module, as it was emitted.

    It has an LLVM context of its own, since the global one keeps every constant and type for ever. Everything is closed
    here and in this order: a garbage collection may free the context before the module, which crashes.

    Raises:
        CompileError: LLVM rejects the text.
    """
    llvm = _llvm()
    machine = target_machine(program.target)
    with ExitStack() as stack:
        context = stack.enter_context(llvm.create_context())
        try:
            module = stack.enter_context(llvm.parse_assembly(program.ll, context=context))
            module.triple = str(machine.triple)
            module.data_layout = str(machine.target_data)
            module.verify()
        except RuntimeError as error:
            raise CompileError(f"{program.name}: LLVM rejects the program: {str(error).strip()[:2000]}") from error
        yield module


@contextmanager
def _optimized(program: Program, *, quick: bool = False) -> Iterator[Any]:
    """The program as an optimized LLVM module."""
    llvm = _llvm()
    with ExitStack() as stack:
        module = stack.enter_context(parsed(program))
        options = stack.enter_context(llvm.create_pipeline_tuning_options(3))
        options.loop_vectorization = True  # for loops that the schedule left scalar
        options.slp_vectorization = False
        builder = stack.enter_context(llvm.create_pass_builder(target_machine(program.target), options))
        if quick:
            _simplify(module, builder)
        else:
            passes = builder.getModulePassManager()
            passes.run(module, builder)
            _dispose(passes)
        yield module


def _simplify(module: Any, builder: Any) -> None:
    """What LLVM's -O3 does to each function before it vectorizes.

    Not a list of passes of our own: kernels without loop unswitching, jump threading, or the promotion of what a loop
    adds to in memory, were up to twice as slow as with -O3, so that a search would have ranked them wrongly.
    """
    passes = builder.getFunctionPassManager()
    for function in module.functions:
        if not function.is_declaration:
            passes.run(function, builder)
    _dispose(passes)


def _dispose(passes: Any) -> None:
    """Free a pass manager and its analyses, a seventh of a megabyte each.

    `close` does not (llvmlite 0.50: of its two base classes the one that frees nothing comes first).
    """
    from llvmlite.binding.newpassmanagers import NewPassManager

    NewPassManager._dispose(passes)
    passes.detach()
