"""LLVM as a function of text: assembly in, object code or text out.

"all" is LLVM's -O3 without the vectorizer of straight-line code; "simplification" is its first half, before loops are
vectorized.

LLVM ends its process if one of its assertions fails. The loop vectorizer's assertions fail on some correct programs
("VPlan cost model and legacy cost model disagreed"), so programs that need it are compiled in another process
(`isolation.py`).
"""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

from pegbox.codegen.runtime.masked_stores import without_single_lanes

Form: TypeAlias = Literal["object", "assembly", "ir"]
Passes: TypeAlias = Literal["all", "simplification"]

_VECTORIZING, _VECTORIZING_EACH = 5.0, 1e-3
"""The seconds of a core that LLVM may spend on a program with its loop vectorizer, and those for each instruction.

LLVM usually takes a hundredth of that, but its vectorizer never finishes some programs.
"""


class TargetMachine(NamedTuple):
    """The processor that LLVM generates code for; an empty triple means this process's."""

    triple: str
    cpu: str
    features: str


@cache
def binding() -> Any:
    """Load llvmlite.binding, with all of its targets enabled."""
    from llvmlite import binding  # a fifth of a second; only processes that compile or load pay for it

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return binding


@cache
def target_machine(machine: TargetMachine) -> Any:
    """Make LLVM's back end for position-independent code, which can be loaded and also linked into a library.

    Raises:
        RuntimeError: LLVM has no back end for the triple.
    """
    target = binding().Target.from_triple(machine.triple or binding().get_process_triple())
    return target.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=3, reloc="pic", codemodel="default"
    )


@contextmanager
def parsed(text: str, machine: TargetMachine) -> Iterator[Any]:
    """Parse the text into an LLVM module.

    The module has its own LLVM context, since the global one keeps every constant and type forever. Everything is
    closed here, in this order, because a garbage collection might free the context before the module, which crashes.

    Raises:
        RuntimeError: LLVM rejects the text.
    """
    with ExitStack() as stack:
        context = stack.enter_context(binding().create_context())
        module = stack.enter_context(binding().parse_assembly(text, context=context))
        module.triple = str(target_machine(machine).triple)
        module.data_layout = str(target_machine(machine).target_data)
        module.verify()
        yield module


def translate(text: str, machine: TargetMachine, form: Form, passes: Passes) -> bytes:
    """Run these passes, and write the program in this form. The process ends if LLVM fails an assertion.

    Raises:
        RuntimeError: LLVM rejects the text.
    """
    with parsed(text, machine) as module:
        _optimize(module, machine, passes)
        if (repaired := without_single_lanes(module)) is None:
            return _written(module, machine, form)
    with parsed(repaired, machine) as module:
        return _written(module, machine, form)


def _written(module: Any, machine: TargetMachine, form: Form) -> bytes:
    if form == "object":
        return bytes(target_machine(machine).emit_object(module))
    return str(target_machine(machine).emit_assembly(module) if form == "assembly" else module).encode()


def translate_or_end(text: str, machine: TargetMachine, form: Form, passes: Passes) -> bytes:
    """Translate as `translate` does, in a process that may end: SIGXCPU ends it if "all" takes too long.

    Raises:
        RuntimeError: LLVM rejects the text.
    """
    if passes != "all":
        return translate(text, machine, form, passes)
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    most = math.ceil(time.process_time() + _VECTORIZING + _VECTORIZING_EACH * text.count("\n"))
    limits = [most, *(limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_CPU, (min(limits), hard))
    try:
        return translate(text, machine, form, passes)
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


class ProcessDied(RuntimeError):
    """LLVM's process has ended by itself; the text is the last part of its output."""


class OutOfTime(Exception):
    """LLVM's process was ended because it exceeded its time, in seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"longer than {seconds:g} s")


def answer(text: str, machine: tuple[str, str, str], form: Form, passes: Passes) -> bytes | str:
    """Do the job of `isolation.translate_apart`: return the translated program, or the reason why LLVM rejects it."""
    try:
        return translate_or_end(text, TargetMachine(*machine), form, passes)
    except RuntimeError as error:
        return str(error)


def _optimize(module: Any, machine: TargetMachine, passes: Passes) -> None:
    """Run -O3, or, after inlining calls of math functions, its simplification of each function.

    A shorter list of passes cannot replace it: without loop unswitching, jump threading, or the promotion of sums in
    memory, kernels were up to twice as slow as with -O3.
    """
    with ExitStack() as stack:
        options = stack.enter_context(binding().create_pipeline_tuning_options(3))
        options.loop_vectorization = True  # for loops that the schedule left scalar
        options.slp_vectorization = False
        builder = stack.enter_context(binding().create_pass_builder(target_machine(machine), options))
        if passes == "all":
            manager = builder.getModulePassManager()
            manager.run(module, builder)
        else:
            inliner = binding().create_new_module_pass_manager()
            inliner.add_always_inliner_pass()
            inliner.run(module, builder)
            _dispose(inliner)
            manager = builder.getFunctionPassManager()
            for function in module.functions:
                if not function.is_declaration:
                    manager.run(function, builder)
        _dispose(manager)


def _dispose(manager: Any) -> None:
    """Free a pass manager and its analyses, a seventh of a megabyte each.

    `close` does not free them (llvmlite 0.50: its first base class overrides the one that would).
    """
    from llvmlite.binding.newpassmanagers import NewPassManager

    NewPassManager._dispose(manager)
    manager.detach()
