"""Loading of object code into this process: one JIT for all kernels, one library per kernel, freed with the kernel."""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Collection
from functools import cache
from typing import Any

from pegbox.codegen.program import CompiledProgram
from pegbox.codegen.runtime import foreign, llvm, openmp, symbols
from pegbox.codegen.runtime.machine import target_machine
from pegbox.codegen.targets.target import Target
from pegbox.errors import CompileError, TargetError

_numbers = itertools.count()
_lock = threading.Lock()


class LoadedCode:
    """Addresses of a kernel's two functions; the code stays while this object lives."""

    def __init__(self, compiled: CompiledProgram) -> None:
        names = (compiled.name, f"{compiled.name}__timed")
        target = compiled.target
        if target.triple and target.triple.split("-")[0] != llvm.binding().get_process_triple().split("-")[0]:
            raise TargetError(f"{compiled.name} was compiled for {target.triple} and cannot run on this machine")
        builder = llvm.binding().JITLibraryBuilder().add_object_img(compiled.object_code)
        for name in names:
            builder.export_symbol(name)
        imports = {"clock_gettime": _clock_gettime()}
        if compiled.num_threads > 1:
            imports |= openmp.addresses()
        imports |= foreign.addresses(compiled.name, compiled.externs, compiled.foreign, target)
        for name, address in imports.items():
            builder.import_symbol(name, address)
        _check_symbols(compiled, imports)
        builder.add_current_process()
        with _lock:
            try:
                self._library = builder.link(_jit(os.getpid()), f"pegbox.{next(_numbers)}")
            except RuntimeError as error:
                raise CompileError(f"{compiled.name}: the object code cannot be loaded: {error}") from error
        self.entry, self.timed = (self._library[name] for name in names)


def _check_symbols(compiled: CompiledProgram, imports: Collection[str]) -> None:
    """The JIT would print the names of missing functions and say only that something is missing."""
    process = ctypes.CDLL(None)
    missing = [
        name for name in symbols.undefined(compiled.object_code) if name not in imports and not hasattr(process, name)
    ]
    if missing:
        raise CompileError(
            f"{compiled.name}: the object code cannot be loaded: it calls {', '.join(missing)}, which LLVM takes for a "
            f"part of the runtime library of {compiled.target} and this process does not have"
        )


@cache
def _jit(pid: int) -> Any:
    """The process's JIT. It only links objects, so any processor of this machine's kind will do."""
    return llvm.binding().create_lljit_compiler(target_machine(Target.host(num_cores=1)), use_jit_link=True)


@cache
def _clock_gettime() -> int:
    address = ctypes.cast(ctypes.CDLL(None).clock_gettime, ctypes.c_void_p).value
    if not address:
        raise TargetError("the C library of this machine has no clock_gettime, which timing needs")
    return address
