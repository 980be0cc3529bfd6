"""Tests for another architecture than this machine's: PEGBOX_TARGET="llvm -mtriple=aarch64-unknown-linux-gnu".

Every kernel is emitted and assembled, and its object must ask for no function that a system may lack. With
PEGBOX_EMULATE=1 it also runs: the cross compiler NAME-linux-gnu-gcc links it to a program that reads its arrays from a
file and writes them back, which runs in qemu-NAME. Otherwise a test ends, as skipped, where it would load a kernel.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from processors import PROVIDED

from pegbox.codegen import CompiledProgram, Target
from pegbox.codegen.runtime import kernel
from pegbox.codegen.runtime.elf import undefined
from pegbox.codegen.runtime.loader import LoadedCode
from pegbox.loops.foreign import CSource

# Arrays lie as far beyond a multiple of 64 as the caller's did.
_DRIVER = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
extern void entry(void), timed(void);
typedef int64_t (*call_t)(void *, void *, void *, void *, void *, void *, void *, void *, void *, void *, int64_t);
static void *at(int64_t bytes, int64_t beyond) {
  char *p = aligned_alloc(64, (bytes + beyond + 127) / 64 * 64);
  return p + beyond;
}
int main(int argc, char **argv) {
  int64_t head[3];      /* number of arrays, bytes of the workspace, calls to time (-1: one call) */
  int64_t spec[16][2];  /* bytes of an array, and its place beyond a multiple of 64 */
  void *p[16] = {0};
  FILE *f = fopen(argv[1], "r+b");
  if (!f || fread(head, 8, 3, f) != 3 || fread(spec, 16, head[0], f) != (size_t)head[0]) return 2;
  long start = ftell(f);
  for (int i = 0; i < head[0]; i++) {
    p[i] = at(spec[i][0], spec[i][1]);
    if (fread(p[i], 1, spec[i][0], f) != (size_t)spec[i][0]) return 3;
  }
  p[head[0]] = at(head[1], 0);
  call_t call = (call_t)(head[2] < 0 ? entry : timed);
  int n = head[0] + 1;
  p[n] = (void *)head[2];
  int64_t result = call(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], (int64_t)p[10]);
  fseek(f, start, SEEK_SET);
  for (int i = 0; i < head[0]; i++) fwrite(p[i], 1, spec[i][0], f);
  fwrite(&result, 8, 1, f);
  return fclose(f) ? 4 : 0;
}
"""
_MOST_ARRAYS = 8


def install() -> None:
    """Kernels for other architectures come here; those for this machine, which some tests name, into the process."""

    def load(compiled: CompiledProgram) -> EmulatedCode | LoadedCode:
        return EmulatedCode(compiled) if compiled.target.triple else LoadedCode(compiled)

    kernel.LoadedCode = load  # type: ignore[misc, assignment]


class EmulatedCode:
    """As `LoadedCode`: the addresses of two functions, which start a program in the emulator."""

    def __init__(self, compiled: CompiledProgram) -> None:
        assert not set(undefined(compiled.object_code)) - PROVIDED - set(compiled.externs)
        if not os.environ.get("PEGBOX_EMULATE"):
            pytest.skip("emitted and assembled; PEGBOX_EMULATE=1 runs it in an emulator")
        if len(compiled.args) > _MOST_ARRAYS:
            pytest.skip("too many arrays for the emulator's driver")
        self._compiled = compiled
        self._numbers = itertools.count()
        self._folder = tempfile.TemporaryDirectory()
        self._program = _linked(compiled, Path(self._folder.name))
        pointers = [ctypes.c_void_p] * (len(compiled.args) + 1)
        self._functions = (
            ctypes.CFUNCTYPE(None, *pointers)(lambda *addresses: self._run(addresses, -1)),
            ctypes.CFUNCTYPE(ctypes.c_int64, *pointers, ctypes.c_int64)(lambda *a: self._run(a[:-1], a[-1])),
        )
        self.entry, self.timed = (ctypes.cast(function, ctypes.c_void_p).value for function in self._functions)

    def _run(self, addresses: tuple[Any, ...], calls: int) -> int | None:
        specs = self._compiled.args
        path = Path(self._folder.name) / f"arrays{next(self._numbers)}"  # calls may come from several threads
        head = [len(specs), self._compiled.workspace_bytes, calls]
        for spec, address in zip(specs, addresses, strict=False):
            head += [spec.nbytes, address % 64]
        data = [ctypes.string_at(a, spec.nbytes) for spec, a in zip(specs, addresses, strict=False)]
        path.write_bytes(b"".join([*(n.to_bytes(8, "little", signed=True) for n in head), *data]))
        emulator = f"qemu-{_architecture(self._compiled.target)}"
        subprocess.run([emulator, str(self._program), str(path)], check=True, timeout=300)
        got = path.read_bytes()[8 * len(head) :]
        path.unlink()
        for spec, address in zip(specs, addresses, strict=False):
            if spec.is_output:
                ctypes.memmove(address, got[: spec.nbytes], spec.nbytes)
            got = got[spec.nbytes :]
        return int.from_bytes(got, "little") if calls >= 0 else None


def _architecture(target: Target) -> str:
    return target.triple.split("-")[0]


def _linked(compiled: CompiledProgram, folder: Path) -> Path:
    compiler = _cross_compiler(_architecture(compiled.target))
    (folder / "kernel.o").write_bytes(compiled.object_code)
    renamed = [f"--redefine-sym={compiled.name}=entry", f"--redefine-sym={compiled.name}__timed=timed"]
    subprocess.run([compiler.removesuffix("gcc") + "objcopy", *renamed, str(folder / "kernel.o")], check=True)
    parts = [str(_driver(compiler)), str(folder / "kernel.o")]
    for number, code in enumerate(compiled.foreign):
        if not isinstance(code, CSource):
            pytest.skip("a C library of this machine's architecture")
        source = folder / f"foreign{number}.c"
        source.write_text(code.text)
        parts.append(str(source))
    program = folder / "kernel"
    subprocess.run([compiler, "-static", "-o", str(program), *parts, "-lgomp", "-lm"], check=True)
    return program


@cache
def _driver(compiler: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="pegbox-emulator-"))
    (folder / "driver.c").write_text(_DRIVER)
    subprocess.run([compiler, "-O1", "-c", str(folder / "driver.c"), "-o", str(folder / "driver.o")], check=True)
    return folder / "driver.o"


@cache
def _cross_compiler(architecture: str) -> str:
    found = shutil.which(f"{architecture}-linux-gnu-gcc")
    emulator = shutil.which(f"qemu-{architecture}")
    if found is None or emulator is None:
        pytest.fail(
            f"PEGBOX_EMULATE=1 needs qemu-{architecture} and {architecture}-linux-gnu-gcc "
            f"(Debian: apt install qemu-user gcc-{architecture.replace('_', '-')}-linux-gnu)"
        )
    return found
