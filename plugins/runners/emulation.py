"""`Emulation`: a candidate linked to a program of its own, which QEMU's user mode runs.

The program reads the arrays from a file, calls the kernel, and writes the arrays back with what the kernel returned.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

from pegbox.codegen import CompiledProgram, Target
from pegbox.codegen.runtime.foreign import language_of
from pegbox.codegen.targets.compiler import cross_gcc, cross_package
from pegbox.errors import MeasureError
from pegbox.loops.foreign import CSource
from pegbox.measure.result import FailureKind

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
  int64_t head[3];         /* bytes of the workspace, calls to time (-1: one call), bytes before each array */
  int64_t spec[COUNT][2];  /* bytes of an array and around it, and their place beyond a multiple of 64 */
  char *p[COUNT + 1];
  FILE *f = fopen(argv[1], "rb");
  if (!f || fread(head, 8, 3, f) != 3 || fread(spec, 16, COUNT, f) != COUNT) return 2;
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
_START_SECONDS = 5.0
"""What the emulator may take beside the calls."""

_OWN_BYTES = 3 << 30
"""Memory that the emulator takes for itself at most: it keeps the code that it has translated."""


_MOST_TEXT = 500
"""What is told of the last words of an emulator."""

_MOST_FILE = 1 << 30
"""What a program may write into one file."""


class EmulationFailed(Exception):
    """A candidate that gave no answer: the kind of its failure, and what to say."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(kind, message)
        self.kind, self.message = kind, message


class Emulation:
    """A candidate as a program for an emulator; its files are in `folder`.

    Args:
        compiled: the candidate.
        folder: an empty folder for its files.
        cpu: the processor to emulate, as QEMU names it; by default one with what the target has.
        environment: of the emulator.
        max_memory: in bytes; the program gets no more.

    Raises:
        MeasureError: the emulator or the cross compiler is missing.
        EmulationFailed: the candidate cannot be linked.
    """

    def __init__(
        self,
        compiled: CompiledProgram,
        folder: Path,
        *,
        cpu: str = "",
        environment: dict[str, str] | None = None,
        max_memory: int | None = None,
    ) -> None:
        self.limit: float | None = None
        self._compiled, self._folder = compiled, folder
        self._environment, self._max_memory = environment, max_memory
        self._numbers = itertools.count()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._given_up = False
        emulator = emulator_of(compiled.target)
        self._command = _command(emulator, compiled.target, cpu, str(_linked(self)))

    @property
    def compiled(self) -> CompiledProgram:
        return self._compiled

    @property
    def folder(self) -> Path:
        return self._folder

    def call(
        self, arrays: Sequence[bytes], places: Sequence[int], number: int, *, before: int = 0
    ) -> tuple[list[bytes], int]:
        """The arrays after `number` timed calls (one that is not timed where it is -1), and the nanoseconds.

        `places` are the bytes by which the arrays lie beyond a multiple of 64. The kernel gets each `before` bytes
        behind its start: what is before and behind may be guard bands.

        Raises:
            EmulationFailed: the program crashed, or took longer than `limit` seconds.
        """
        turn = next(self._numbers)
        given, got = self._folder / f"given{turn}", self._folder / f"got{turn}"
        head = [self._compiled.workspace_bytes, number, before]
        for array, place in zip(arrays, places, strict=True):
            head += [len(array), place]
        given.write_bytes(b"".join([*(n.to_bytes(8, "little", signed=True) for n in head), *arrays]))
        try:
            self._run([*self._command, str(given), str(got)])
            return self._split(got.read_bytes(), [len(array) for array in arrays])
        except OSError as error:
            raise EmulationFailed(FailureKind.CRASH, f"the emulated program left no answer: {error}") from error
        finally:
            given.unlink(missing_ok=True)
            got.unlink(missing_ok=True)

    def give_up(self) -> None:
        """End what runs, from any thread; no call succeeds any more."""
        self._given_up = True
        for process in list(self._running):
            _kill(process)

    @staticmethod
    def _split(answer: bytes, sizes: Sequence[int]) -> tuple[list[bytes], int]:
        if len(answer) != sum(sizes) + 8:
            raise EmulationFailed(FailureKind.CRASH, "the emulated program left half an answer")
        ends = [0, *itertools.accumulate(sizes)]
        arrays = [answer[start:end] for start, end in itertools.pairwise(ends)]
        return arrays, int.from_bytes(answer[ends[-1] :], "little", signed=True)

    def _run(self, command: Sequence[str]) -> None:
        with tempfile.TemporaryFile(dir=self._folder) as said:
            status = self._status(command, said)
            if self._given_up:
                raise EmulationFailed(FailureKind.CRASH, "the run was given up")
            if status:
                how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"exited with status {status}"
                text = os.pread(said.fileno(), _MOST_TEXT, 0).decode(errors="replace").strip()
                why = f" ({text})" if text else ""
                raise EmulationFailed(FailureKind.CRASH, f"the emulated program {how}{why}")

    def _status(self, command: Sequence[str], said: IO[bytes]) -> int:
        limit = None if self.limit is None else self.limit + _START_SECONDS
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            env=self._environment,
            start_new_session=True,
        )
        self._running.add(process)
        try:
            _restrain(process.pid, self._max_memory)
            if self._given_up:
                _kill(process)
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            raise EmulationFailed(FailureKind.TIMEOUT, f"stopped: its calls may take {self.limit:.3g} s") from None
        finally:
            _kill(process)
            self._running.discard(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """With its group, which it may have left processes in."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _restrain(pid: int, memory: int | None) -> None:
    with contextlib.suppress(OSError, ValueError):
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (_MOST_FILE, _MOST_FILE))
        if memory is not None:
            resource.prlimit(pid, resource.RLIMIT_DATA, (memory + _OWN_BYTES, memory + _OWN_BYTES))


def emulated_cpu(target: Target) -> str:
    """QEMU's processor for a target; empty for its own choice, which has all that it can emulate.

    Vectors of RISC-V are off in that, and as long as the target says.
    """
    if target.architecture != "riscv64" or "+v" not in target.attributes:
        return ""
    return f"rv64,v=true,vlen={max(128, target.vector_bits)}"


def emulator_of(target: Target) -> str:
    """The emulator for a target's architecture.

    Raises:
        MeasureError: it is not installed.
    """
    name = f"qemu-{target.architecture}"
    return shutil.which(name) or _missing(target, name)


def check_emulator(target: Target, cpu: str = "") -> None:
    """Run a program that does nothing as candidates for the target are run.

    Raises:
        MeasureError: the emulator or the cross compiler is missing, or there is no such processor.
    """
    emulator, compiler = emulator_of(target), cross_compiler(target)
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "nothing")
        linked = [compiler, "-static", "-o", program, "-x", "c", "-"]
        _must_run(linked, f"the runner 'qemu' needs a C compiler that links for {str(target)!r}")
        fault = f"the runner 'qemu', cpu={cpu!r}: no program for {str(target)!r} runs"
        remedy = f"; '{os.path.basename(emulator)} -cpu help' lists the processors"
        _must_run(_command(emulator, target, cpu, program), fault, remedy)


def _must_run(command: Sequence[str], fault: str, remedy: str = "") -> None:
    done = subprocess.run(command, input="int main(void) { return 0; }", capture_output=True, text=True, check=False)
    if done.returncode:
        raise MeasureError(f"{fault}: {done.stderr.strip()[:_MOST_TEXT]}{remedy}")


def _command(emulator: str, target: Target, cpu: str, program: str) -> list[str]:
    """Runs a program on a processor as QEMU names it, by default one with what the target has."""
    chosen = cpu or emulated_cpu(target)
    return [emulator, *(["-cpu", chosen] if chosen else []), program]


@cache
def emulator_version() -> str:
    """Such as "QEMU 7.2.22"; "QEMU" where it is not there, or does not tell."""
    program = shutil.which("qemu-aarch64") or shutil.which("qemu-riscv64")
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout if program else ""
    words = said.split()
    return f"QEMU {words[2]}" if words[1:2] == ["version"] else "QEMU"


def cross_compiler(target: Target) -> str:
    """The C compiler for a target's architecture.

    Raises:
        MeasureError: it is not installed.
    """
    return cross_gcc(target) or _missing(target, f"{target.architecture}-linux-gnu-gcc")


def _linker(target: Target, languages: Collection[str]) -> str:
    """What compiles sources of these languages, and links them with what these need."""
    if "c++" not in languages:
        return cross_compiler(target)
    name = f"{target.architecture}-linux-gnu-g++"
    return shutil.which(name) or _missing(target, name)


def _missing(target: Target, name: str) -> NoReturn:
    package = cross_package(target)
    if name.endswith("g++"):
        package = package.replace("gcc", "g++")
    raise MeasureError(
        f"the runner 'qemu' needs {name} for the target {str(target)!r}, and it is not there; install it "
        f"(Debian and Ubuntu: apt install qemu-user {package})"
    )


def _linked(emulation: Emulation) -> Path:
    """The program: the candidate, the driver, and the C code that the candidate calls."""
    compiled, folder = emulation.compiled, emulation.folder
    compiler = cross_compiler(compiled.target)
    languages = []
    (folder / "kernel.o").write_bytes(compiled.object_code)
    (folder / "driver.o").write_bytes(_driver(compiler, len(compiled.args)))
    _rename(folder / "kernel.o", compiler, {compiled.name: "entry", f"{compiled.name}__timed": "timed"})
    parts = ["driver.o", "kernel.o"]
    for number, code in enumerate(compiled.foreign):
        if not isinstance(code, CSource):
            raise EmulationFailed(
                FailureKind.RUN_ERROR, f"it calls {code.path}, a library for this machine; give the source (c_source)"
            )
        languages.append(language_of(code))
        (folder / f"foreign{number}").write_text(code.text)
        parts += ["-x", languages[-1], f"foreign{number}"]
    linker = _linker(compiled.target, languages)
    command: list[Any] = [linker, "-O1", "-static", "-o", "kernel", *parts, "-lgomp", "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EmulationFailed(FailureKind.RUN_ERROR, f"{linker} cannot link it: {done.stderr.strip()[:1000]}")
    return folder / "kernel"


def _rename(path: Path, compiler: str, names: Mapping[str, str]) -> None:
    """Give symbols of an object file other names: the candidate may be called main, as the driver's function is."""
    options = [f"--redefine-sym={old}={new}" for old, new in names.items()]
    done = subprocess.run([_objcopy(compiler), *options, str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise EmulationFailed(FailureKind.RUN_ERROR, f"its object code cannot be read: {done.stderr.strip()[:1000]}")


@cache
def _objcopy(compiler: str) -> str:
    """The program that belongs to the compiler."""
    command = [compiler, "-print-prog-name=objcopy"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@cache
def _driver(compiler: str, count: int) -> bytes:
    """The object code of the driver for so many arrays."""
    parameters = ", ".join(["void *"] * (count + 1))
    arguments = ", ".join([*(f"p[{number}] + head[2]" for number in range(count)), f"p[{count}]"])
    text = _DRIVER.replace("COUNT", str(count)).replace("PARAMETERS", parameters).replace("ARGUMENTS", arguments)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "driver.o"
        subprocess.run([compiler, "-O1", "-c", "-o", str(out), "-x", "c", "-"], input=text.encode(), check=True)
        return out.read_bytes()
