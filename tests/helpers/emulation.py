"""A candidate linked to a program of its own, which QEMU's user mode runs.

The program reads the arrays from a file, calls the kernel, and writes the arrays back with what the kernel returned.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from pegbox.codegen import CompiledProgram, Target
from pegbox.codegen.runtime.foreign import language_of
from pegbox.codegen.targets.c_compiler import cross_gcc, cross_package
from pegbox.loops.foreign import CSource

# Arrays lie as far beyond a multiple of 64 as the caller's did.
_DRIVER = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
void entry(PARAMETERS);
int64_t timed(PARAMETERS, int64_t);
static void *at(int64_t bytes, int64_t beyond) {
  char *p = aligned_alloc(64, (bytes + beyond + 127) / 64 * 64);
  return p ? p + beyond : p;
}
int main(int argc, char **argv) {
  int64_t head[2];         /* bytes of the workspace, calls to time (-1: one call) */
  int64_t spec[COUNT][2];  /* bytes of an array, and its place beyond a multiple of 64 */
  char *p[COUNT + 1];
  FILE *f = fopen(argv[1], "rb");
  if (!f || fread(head, 8, 2, f) != 2 || fread(spec, 16, COUNT, f) != COUNT) return 2;
  for (int i = 0; i < COUNT; i++) {
    p[i] = at(spec[i][0], spec[i][1]);
    if (!p[i]) return 6;
    if (fread(p[i], 1, spec[i][0], f) != (size_t)spec[i][0]) return 3;
  }
  fclose(f);
  p[COUNT] = at(head[0], 0);
  if (!p[COUNT]) return 6;
  int64_t result = 0;
  if (head[1] < 0) entry(ARGUMENTS);
  else result = timed(ARGUMENTS, head[1]);
  f = fopen(argv[2], "wb");
  if (!f) return 4;
  for (int i = 0; i < COUNT; i++) fwrite(p[i], 1, spec[i][0], f);
  fwrite(&result, 8, 1, f);
  return fclose(f) ? 5 : 0;
}
"""
_SECONDS = 300.0


class Emulation:
    """A candidate as a program for an emulator; its files are in `folder`, which is empty."""

    def __init__(self, compiled: CompiledProgram, folder: Path) -> None:
        self._compiled, self._folder = compiled, folder
        emulator = _installed(f"qemu-{compiled.target.architecture}", compiled.target)
        self._command = [emulator, *_processor(compiled.target), str(_linked(compiled, folder))]

    def call(self, arrays: Sequence[bytes], places: Sequence[int], number: int) -> tuple[list[bytes], int]:
        """Return the arrays after `number` timed calls (one that is not timed if it is -1), and the nanoseconds.

        `places` are the bytes by which the arrays lie beyond a multiple of 64.
        """
        given, got = self._folder / "given", self._folder / "got"
        head = [self._compiled.workspace_bytes, number]
        for array, place in zip(arrays, places, strict=True):
            head += [len(array), place]
        given.write_bytes(b"".join([*(n.to_bytes(8, "little", signed=True) for n in head), *arrays]))
        subprocess.run([*self._command, str(given), str(got)], check=True, timeout=_SECONDS)
        answer = got.read_bytes()
        ends = [0, *itertools.accumulate(len(array) for array in arrays)]
        after = [answer[start:end] for start, end in itertools.pairwise(ends)]
        return after, int.from_bytes(answer[ends[-1] :], "little", signed=True)


def _processor(target: Target) -> list[str]:
    """Name QEMU's processor: its own choice has all that it can emulate, except for the vectors of RISC-V."""
    if target.architecture != "riscv64" or "+v" not in target.attributes:
        return []
    return ["-cpu", f"rv64,v=true,vlen={max(128, target.vector_bits)}"]


def _compiler(target: Target) -> str:
    return cross_gcc(target) or _installed(f"{target.architecture}-linux-gnu-gcc", target)


def _installed(name: str, target: Target) -> str:
    found = shutil.which(name)
    assert found, f"{name} is not installed (Debian and Ubuntu: apt install qemu-user {cross_package(target)})"
    return found


def _linked(compiled: CompiledProgram, folder: Path) -> Path:
    """Link the program: the candidate, the driver, and the C code that the candidate calls."""
    linker = compiler = _compiler(compiled.target)
    (folder / "kernel.o").write_bytes(compiled.object_code)
    (folder / "driver.o").write_bytes(_driver(compiler, len(compiled.args)))
    _rename(folder / "kernel.o", compiler, {compiled.name: "entry", f"{compiled.name}__timed": "timed"})
    parts = ["driver.o", "kernel.o"]
    for number, code in enumerate(compiled.foreign):
        assert isinstance(code, CSource)
        language = language_of(code)
        if language == "c++":
            linker = _installed(f"{compiled.target.architecture}-linux-gnu-g++", compiled.target)
        (folder / f"foreign{number}").write_text(code.text)
        parts += ["-x", language, f"foreign{number}"]
    command = [linker, "-O1", "-static", "-o", "kernel", *parts, "-lgomp", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "kernel"


def _rename(path: Path, compiler: str, names: Mapping[str, str]) -> None:
    """Give symbols of an object file other names: the candidate may be called main, as the driver's function is."""
    options = [f"--redefine-sym={old}={new}" for old, new in names.items()]
    subprocess.run([_objcopy(compiler), *options, str(path)], check=True)


@cache
def _objcopy(compiler: str) -> str:
    """Find the program that belongs to the compiler."""
    command = [compiler, "-print-prog-name=objcopy"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@cache
def _driver(compiler: str, count: int) -> bytes:
    """Compile the driver for so many arrays."""
    parameters = ", ".join(["void *"] * (count + 1))
    arguments = ", ".join(f"p[{number}]" for number in range(count + 1))
    text = _DRIVER.replace("COUNT", str(count)).replace("PARAMETERS", parameters).replace("ARGUMENTS", arguments)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "driver.o"
        subprocess.run([compiler, "-O1", "-c", "-o", str(out), "-x", "c", "-"], input=text.encode(), check=True)
        return out.read_bytes()
