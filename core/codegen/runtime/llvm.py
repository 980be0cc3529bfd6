"""LLVM, on plain text: assembly in, object code or text out.

"all" is LLVM's -O3 without the vectorizer of straight code; "simplification" is its first half, before loops are
vectorized.

LLVM ends its process where one of its assertions fails. Those of its loop vectorizer do on some programs that are
right ("VPlan cost model and legacy cost model disagreed"), so what is vectorized by it is compiled in another process
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
"""The seconds of a core that LLVM may spend on a program with its loop vectorizer, and those for each instruction. It
takes a hundredth of that as a rule; there are programs that the vectorizer never finishes."""


class TargetMachine(NamedTuple):
    """The processor that LLVM generates code for; an empty triple is that of this process."""

    triple: str
    cpu: str
    features: str


@cache
def binding() -> Any:
    """Load llvmlite.binding, with all of its targets switched on."""
    from llvmlite import binding  # a fifth of a second; only processes that compile or load pay for it

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return binding


@cache
def target_machine(machine: TargetMachine) -> Any:
    """Make LLVM's back end for position-independent code, which can be loaded as well as linked into a library.

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

    It has an LLVM context of its own, since the global one keeps every constant and type for ever. Everything is closed
    here and in this order: a garbage collection may free the context before the module, which crashes.

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
    """Run these passes, and write the program in that form. Ends this process if LLVM fails an assertion.

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
    """Translate as `translate` does, in a process that may end: SIGXCPU ends it where "all" takes several seconds.

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
    """The end of LLVM's process by itself; the text is the last part of its output."""


class OutOfTime(Exception):
    """The end of LLVM's process after its time, in seconds."""

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
    """Run -O3, or its simplification of each function after calls of math functions are inlined.

    A list of passes of our own is no substitute: kernels without loop unswitching, jump threading, or the promotion of
    sums in memory, were up to twice as slow as with -O3.
    """
    with ExitStack() as stack:
        options = stack.enter_context(binding().create_pipeline_tuning_options(3))
        options.loop_vectorization = True  # of loops that the schedule left scalar
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

    `close` does not (llvmlite 0.50: of its two base classes the one that frees nothing comes first).
    """
    from llvmlite.binding.newpassmanagers import NewPassManager

    NewPassManager._dispose(manager)
    manager.detach()
