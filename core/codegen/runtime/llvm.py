"""LLVM, on plain text: assembly in, object code or text out, here or in a process of its own.

"all" is LLVM's -O3 without the vectorizer of straight code; "simplification" is its first half, before loops are
vectorized.

LLVM ends its process where one of its assertions fails. Those of its loop vectorizer do on some programs that are
right ("VPlan cost model and legacy cost model disagreed"), so what is vectorized by it is compiled in another process,
which imports this file. Of pegbox that process needs nothing beside it but `masked_stores.py`, and so starts in half of
the time.
"""

from __future__ import annotations

import atexit
import math
import os
import pickle
import resource
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from typing import IO, Any, Literal, NamedTuple, TypeAlias, cast

from pegbox.codegen.runtime.masked_stores import without_single_lanes

Form: TypeAlias = Literal["object", "assembly", "ir"]
Passes: TypeAlias = Literal["all", "simplification"]

# The program of the other process. Its packages of pegbox have this folder, and nothing else that pegbox imports.
_PROGRAM = """
import sys
from types import ModuleType

folder = sys.argv.pop(1)
for name in "pegbox", "pegbox.codegen", "pegbox.codegen.runtime":
    sys.modules[name] = ModuleType(name)
sys.modules["pegbox.codegen.runtime"].__path__ = [folder]
from pegbox.codegen.runtime import llvm

llvm._main()
"""

_IDLE = 60.0  # seconds without work after which the other process ends
_LOOK = 0.5  # seconds between two looks for the end of the process that asks

# Seconds of a core that LLVM may spend on a program with its loop vectorizer, and for each instruction. It takes a
# hundredth of that as a rule; there are programs that the vectorizer never finishes.
_VECTORIZING = 5.0
_VECTORIZING_EACH = 1e-3


class Machine(NamedTuple):
    """What LLVM generates code for; an empty triple is that of this process."""

    triple: str
    cpu: str
    features: str


@cache
def binding() -> Any:
    """llvmlite.binding with every target that it was built with switched on."""
    from llvmlite import binding  # a fifth of a second; only processes that compile or load pay for it

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return binding


@cache
def target_machine(machine: Machine) -> Any:
    """Position-independent code, so that the object can be loaded by a JIT as well as linked into a library.

    Raises:
        RuntimeError: LLVM has no back end for the triple.
    """
    target = binding().Target.from_triple(machine.triple or binding().get_process_triple())
    return target.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=3, reloc="pic", codemodel="default"
    )


@contextmanager
def parsed(text: str, machine: Machine) -> Iterator[Any]:
    """The text as an LLVM module.

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


def translate(text: str, machine: Machine, form: Form, passes: Passes) -> bytes:
    """The program after these passes, in that form. Ends this process where LLVM fails an assertion.

    Raises:
        RuntimeError: LLVM rejects the text.
    """
    with parsed(text, machine) as module:
        _optimize(module, machine, passes)
        if (repaired := without_single_lanes(module)) is None:
            return _written(module, machine, form)
    with parsed(repaired, machine) as module:
        return _written(module, machine, form)


def _written(module: Any, machine: Machine, form: Form) -> bytes:
    if form == "object":
        return bytes(target_machine(machine).emit_object(module))
    return str(target_machine(machine).emit_assembly(module) if form == "assembly" else module).encode()


def translate_or_end(text: str, machine: Machine, form: Form, passes: Passes) -> bytes:
    """Translate as `translate` does, in a process that may end: SIGXCPU ends it where "all" takes several seconds.

    Raises:
        RuntimeError: LLVM rejects the text.
    """
    if passes != "all":
        return translate(text, machine, form, passes)
    with _limited_time(_VECTORIZING + _VECTORIZING_EACH * text.count("\n")):
        return translate(text, machine, form, passes)


@contextmanager
def _limited_time(seconds: float) -> Iterator[None]:
    """End this process, by the system's SIGXCPU, once it has used so many seconds of a core."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    most = math.ceil(time.process_time() + seconds)
    limits = [most, *(limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY)]
    resource.setrlimit(resource.RLIMIT_CPU, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


class ProcessDied(RuntimeError):
    """LLVM has ended its process; the text is the end of what it said."""


class OutOfTime(Exception):
    """LLVM was stopped after these seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"longer than {seconds:g} s")


def translate_apart(text: str, machine: Machine, form: Form, passes: Passes, *, timeout: float) -> bytes:
    """Translate as `translate_or_end` does, in a process of its own. The first call starts it, in a tenth of a second.

    It answers later calls too, and ends soon after this process or after a minute without work.

    Raises:
        RuntimeError: LLVM rejects the text; `ProcessDied`: it has ended the process.
        OutOfTime: it takes longer than `timeout` seconds; the process is ended.
    """
    with _lock:
        translated, rejection = _process().ask((text, tuple(machine), form, passes), timeout)
    if rejection is not None:
        raise RuntimeError(rejection)
    return bytes(translated)


class _Process:
    """A process that runs `_main`. What LLVM says in it is shown here."""

    def __init__(self) -> None:
        # Without `site`, which takes a third of the start: the path has all that it would add.
        folder = os.path.dirname(os.path.abspath(__file__))
        command = [sys.executable, "-I", "-S", "-c", _PROGRAM, folder, str(os.getpid()), *sys.path]
        self.owner = os.getpid()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._shown = 0
        self._popen = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said)
        self._stdin, self._stdout = cast("IO[bytes]", self._popen.stdin), cast("IO[bytes]", self._popen.stdout)

    def is_alive(self) -> bool:
        return self._popen.poll() is None

    def ask(self, request: tuple[Any, ...], timeout: float) -> tuple[bytes, str | None]:
        """The translated text, or why LLVM rejects it.

        Raises:
            ProcessDied: it has ended the process.
            OutOfTime: it takes longer than `timeout` seconds; the process is ended.
        """
        try:
            pickle.dump(request, self._stdin)
            self._stdin.flush()
            if not select.select([self._stdout], [], [], timeout)[0]:
                raise OutOfTime(timeout)
            reply: tuple[bytes, str | None] = pickle.load(self._stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            status, said = self._popen.wait(), self._heard().strip()[-2000:]
            self.close()
            raise ProcessDied(
                "it takes too long" if status == -signal.SIGXCPU else said or f"status {status}"
            ) from None
        except BaseException:  # Ctrl-C, or out of time: the reply that is still to come belongs to nobody
            self.close()
            raise
        sys.stderr.write(self._heard())
        return reply

    def _heard(self) -> str:
        """Read LLVM's messages since the last time."""
        said = os.pread(self._said.fileno(), 1 << 20, self._shown)  # the offset of the file is the other process's
        self._shown += len(said)
        return said.decode(errors="replace")

    def close(self) -> None:
        """End the process."""
        self._popen.kill()
        self._popen.wait()
        for pipe in (self._stdin, self._stdout, self._said):
            with suppress(OSError):
                pipe.close()


_lock = threading.Lock()
_running: list[_Process] = []  # one at most


def _process() -> _Process:
    """The process of this one, which a fork shares with nobody."""
    if _running and _running[0].owner != os.getpid():
        _running.clear()
    if _running and not _running[0].is_alive():
        _running.pop().close()
    if not _running:
        _running.append(_Process())
    return _running[0]


@atexit.register
def _end() -> None:
    if _running and _running[0].owner == os.getpid():
        _running.pop().close()


def _optimize(module: Any, machine: Machine, passes: Passes) -> None:
    with ExitStack() as stack:
        options = stack.enter_context(binding().create_pipeline_tuning_options(3))
        options.loop_vectorization = True  # of loops that the schedule left scalar
        options.slp_vectorization = False
        builder = stack.enter_context(binding().create_pass_builder(target_machine(machine), options))
        if passes == "simplification":
            _simplify(module, builder)
        else:
            manager = builder.getModulePassManager()
            manager.run(module, builder)
            _dispose(manager)


def _simplify(module: Any, builder: Any) -> None:
    """Simplify each function as LLVM's -O3 does before it vectorizes, after calls of math functions are inlined.

    Not a list of passes of our own: kernels without loop unswitching, jump threading, or the promotion of what a loop
    adds to in memory, were up to twice as slow as with -O3.
    """
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


def _main() -> None:
    """Answer the requests of `translate_apart`; `sys.argv` has the process that asks, and the path."""
    threading.Thread(target=_end_with, args=(int(sys.argv[1]),), daemon=True).start()
    sys.path[:] = sys.argv[2:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    while select.select([sys.stdin], [], [], _IDLE)[0]:
        try:
            text, machine, form, passes = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        reply: tuple[bytes | None, str | None]
        try:
            reply = translate_or_end(text, Machine(*machine), form, passes), None
        except RuntimeError as error:
            reply = None, str(error)
        pickle.dump(reply, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _end_with(parent: int) -> None:
    """End this process soon after its parent, whatever LLVM does on another thread.

    Not at the end of the pipe, which a fork of the parent may keep open, and not by Linux's PR_SET_PDEATHSIG, which
    signals the end of the thread that started this process.
    """
    while os.getppid() == parent:
        time.sleep(_LOOK)
    os._exit(1)
