"""Tests for another architecture than this machine's: PEGBOX_TARGET="llvm -mtriple=aarch64-unknown-linux-gnu".

Every kernel is emitted and assembled, and its object must ask for no function that a system may lack. With
PEGBOX_EMULATE=1 it also runs: the cross compiler NAME-linux-gnu-gcc links it to a program that reads its arrays from a
file and writes them back, which runs in qemu-NAME (`emulation.py`). Otherwise a test ends, as skipped,
where it would load a kernel.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from emulation import Emulation
from processors import PROVIDED

from pegbox.codegen import CompiledProgram
from pegbox.codegen.emitter.calls import LIBRARY_SYMBOLS
from pegbox.codegen.runtime import kernel
from pegbox.codegen.runtime.elf import undefined
from pegbox.codegen.runtime.loader import LoadedCode
from pegbox.loops.foreign import CLibrary


def install() -> None:
    """Kernels for other architectures come here; those for this machine, which some tests name, into the process."""

    def load(compiled: CompiledProgram) -> EmulatedCode | LoadedCode:
        return EmulatedCode(compiled) if compiled.target.triple else LoadedCode(compiled)

    kernel.LoadedCode = load  # type: ignore[misc, assignment]


class EmulatedCode:
    """The counterpart of `LoadedCode`: the addresses of two functions, which start a program in the emulator."""

    python = None

    def __init__(self, compiled: CompiledProgram) -> None:
        assert not set(undefined(compiled.object_code)) - PROVIDED - LIBRARY_SYMBOLS - set(compiled.externs)
        if not os.environ.get("PEGBOX_EMULATE"):
            pytest.skip("emitted and assembled; PEGBOX_EMULATE=1 runs it in an emulator")
        if any(isinstance(code, CLibrary) for code in compiled.foreign):
            pytest.skip("a C library of this machine's architecture")
        self._specs = compiled.args
        self._folder = tempfile.TemporaryDirectory()
        self._emulation, self._lock = Emulation(compiled, Path(self._folder.name)), threading.Lock()
        pointers = [ctypes.c_void_p] * (len(compiled.args) + 1)
        self._functions = (
            ctypes.CFUNCTYPE(None, *pointers)(lambda *addresses: self._run(addresses, -1)),
            ctypes.CFUNCTYPE(ctypes.c_int64, *pointers, ctypes.c_int64)(lambda *a: self._run(a[:-1], a[-1])),
        )
        self.entry, self.timed = (ctypes.cast(function, ctypes.c_void_p).value for function in self._functions)

    def _run(self, addresses: tuple[Any, ...], calls: int) -> int | None:
        arrays = list(zip(self._specs, addresses, strict=False))  # without the workspace
        data = [ctypes.string_at(address, spec.nbytes) for spec, address in arrays]
        with self._lock:  # calls share their files
            after, elapsed = self._emulation.call(data, [address % 64 for _, address in arrays], calls)
        for (spec, address), got in zip(arrays, after, strict=True):
            if spec.is_output:
                ctypes.memmove(address, got, spec.nbytes)
        return elapsed if calls >= 0 else None
