"""Loading of object code into this process: ELF files by our own linker, others by LLVM's; freed with the kernel."""

from __future__ import annotations

import ctypes
import itertools
import os
import struct
import threading
from collections.abc import Mapping
from functools import cache
from typing import Any

from pegbox.codegen.program import CompiledProgram
from pegbox.codegen.runtime import elf, foreign, llvm, openmp
from pegbox.codegen.runtime.image import Image
from pegbox.codegen.runtime.machine import target_machine
from pegbox.codegen.targets import host
from pegbox.codegen.targets.target import Target
from pegbox.errors import CompileError, TargetError

_numbers = itertools.count()
_lock = threading.Lock()


class LoadedCode:
    """Addresses of a kernel's two functions; the code stays while this object lives.

    Object code is the same for all processors of an architecture: whether this one has the instructions is seen when
    they run.
    """

    def __init__(self, compiled: CompiledProgram) -> None:
        if compiled.target.architecture != host.architecture():
            raise TargetError(
                f"{compiled.name} was compiled for {compiled.target.triple} and cannot run on this machine"
            )
        imports = {"clock_gettime": _clock_gettime()}
        if compiled.num_threads > 1:
            imports |= openmp.addresses()
        imports |= foreign.addresses(compiled.name, compiled.externs, compiled.foreign, compiled.target)
        imports = _process_symbols(compiled, imports) | imports
        link = _image if compiled.object_code.startswith(elf.MAGIC) else _jit_library
        try:
            self._code, (self.entry, self.timed) = link(compiled, imports)
        except (ValueError, struct.error, OverflowError, OSError, RuntimeError) as error:
            raise CompileError(f"{compiled.name}: the object code cannot be loaded: {error}") from error


def _names(compiled: CompiledProgram) -> tuple[str, str]:
    return compiled.name, f"{compiled.name}__timed"


def _image(compiled: CompiledProgram, imports: Mapping[str, int]) -> tuple[object, list[int]]:
    image = Image(compiled.object_code, imports)
    return image, [image.address(name) for name in _names(compiled)]


def _jit_library(compiled: CompiledProgram, imports: Mapping[str, int]) -> tuple[object, list[int]]:
    """One JIT for all kernels, one library per kernel."""
    builder = llvm.binding().JITLibraryBuilder().add_object_img(compiled.object_code)
    for name in _names(compiled):
        builder.export_symbol(name)
    for name, address in imports.items():
        builder.import_symbol(name, address)
    builder.add_current_process()
    with _lock:
        library = builder.link(_jit(os.getpid()), f"pegbox.{next(_numbers)}")
    return library, [library[name] for name in _names(compiled)]


def _process_symbols(compiled: CompiledProgram, imports: Mapping[str, int]) -> dict[str, int]:
    """Find the other functions that the code calls, in the libraries of this process.

    Raises:
        CompileError: they lack some.
    """
    process = ctypes.CDLL(None)
    wanted = [name for name in elf.undefined(compiled.object_code) if name not in imports]
    if missing := [name for name in wanted if not hasattr(process, name)]:
        raise CompileError(
            f"{compiled.name}: the object code cannot be loaded: it calls {', '.join(missing)}, which LLVM takes for a "
            f"part of the runtime library of {compiled.target} and this process does not have"
        )
    return {name: ctypes.cast(getattr(process, name), ctypes.c_void_p).value or 0 for name in wanted}


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
