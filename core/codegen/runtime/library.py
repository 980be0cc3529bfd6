"""Shared libraries written by pegbox: kernels by name, whose signatures are text in their object code."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pegbox.checks import check_path
from pegbox.codegen.compiled import CompiledProgram, compiled_of, description_of
from pegbox.codegen.program import Program
from pegbox.codegen.runtime import elf
from pegbox.codegen.runtime.elf_objects import constants_ranges
from pegbox.codegen.runtime.interpreter import PythonEntry
from pegbox.codegen.runtime.kernel import Kernel, KernelFamily
from pegbox.codegen.runtime.runtime_module import RuntimeModule
from pegbox.codegen.runtime.symbols import address_of
from pegbox.errors import ArgumentError, PegboxError

_MARK = "pegbox kernel: "
_TEXT = re.compile(rb"pegbox kernel: (\{[^\0]*\})\0")


def with_signature(program: Program) -> Program:
    """Add a program's signature as a constant, `@NAME__signature`."""
    content = {**description_of(program), "family": program.family}
    text = f"{_MARK}{json.dumps(content)}".encode()
    escaped = "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in text)
    constant = f'@{program.name}__signature = constant [{len(text) + 1} x i8] c"{escaped}\\00"\n'
    return replace(program, ll=f"{program.ll}\n{constant}")


def signatures(code: elf.Buffer) -> Iterator[tuple[CompiledProgram, str]]:
    """Read a linked library's kernels, without their object code, and the family of each, in the order of their places.

    Raises:
        ArgumentError: the description of a kernel is damaged.
    """
    for found in _descriptions(code):
        try:
            content = json.loads(found[1])
            yield compiled_of(content, b""), str(content["family"])
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            ArithmeticError,
            RecursionError,
            PegboxError,
        ) as error:
            shown = found[1].decode(errors="replace")[:80]
            raise ArgumentError(f"the description of a kernel is damaged ({error}): {shown}...") from error


def _descriptions(code: elf.Buffer) -> Iterator[re.Match[bytes]]:
    """Yield the signatures' texts; constants, which may be most of a library, are not read."""
    start = 0
    for begin, end in [*constants_ranges(code), (len(code), len(code))]:
        yield from _TEXT.finditer(code, start, begin)
        start = end


class LibraryCode:
    """The addresses of a kernel's two functions in a library, which has no function for Python."""

    python: PythonEntry | None = None

    def __init__(self, library: ctypes.CDLL, name: str) -> None:
        self._library = library
        self.entry, self.timed = (address_of(library, symbol) for symbol in (name, f"{name}__timed"))


class LoadedFamily(KernelFamily):
    """The kernels of a family that a library contains; no others are added."""

    def __init__(self, name: str, kernels: Sequence[Kernel]) -> None:
        super().__init__(name)
        self.kernels = {tuple(spec.shape for spec in kernel.args): kernel for kernel in kernels}

    def of(self, arrays: Sequence[Any]) -> Kernel:
        shapes = tuple(getattr(array, "shape", None) for array in arrays)
        if shapes not in self.kernels:
            known = " or ".join(", ".join(map(str, shape)) for shape in self.kernels)
            raise ArgumentError(
                f"{self.name}(): the library has no kernel for arrays of the shapes {', '.join(map(str, shapes))}; it "
                f"has them for {known}: call the kernel with these shapes before writing it"
            )
        return self.kernels[shapes]

    @property
    def programs(self) -> list[Program]:
        return [program for kernel in self.kernels.values() for program in kernel.programs]

    def source(self, form: str = "ll") -> str:
        return next(iter(self.kernels.values())).source(form)

    def __repr__(self) -> str:
        return f"LoadedFamily({self.name}, {len(self.kernels)} kernels)"


def _read(file: Path) -> list[tuple[CompiledProgram, str]]:
    if not file.stat().st_size:  # an empty file cannot be mapped
        return []
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as code:
        return list(signatures(code))


def load_library(path: str | os.PathLike[str]) -> RuntimeModule:
    """Load the kernels of a shared library written by pegbox. They have no source.

    Raises:
        ArgumentError: there is no such file, it cannot be loaded as a library, or it has no pegbox kernel.
    """
    file = Path(os.path.abspath(check_path("path", path)))  # a name without a folder would be searched for elsewhere
    called, again = f"load_library({os.fspath(path)!r})", "write it with pegbox again"
    if not file.is_file():
        raise ArgumentError(f"{called}: there is no such file; write it first")
    try:
        found = _read(file)
    except ArgumentError as error:
        raise ArgumentError(f"{called}: {error}; {again}") from error
    if not found:
        raise ArgumentError(f"{called}: the file has no pegbox kernel; {again}")
    try:
        library = ctypes.CDLL(str(file))
    except OSError as error:
        raise ArgumentError(f"{called}: the library cannot be loaded: {error}") from error
    kernels: dict[str, Kernel | KernelFamily] = {}
    families: dict[str, list[Kernel]] = {}
    for signature, family in found:
        try:
            kernel = Kernel(signature, None, LibraryCode(library, signature.name))
        except AttributeError as error:
            lacking = f"it lists a kernel {signature.name} but does not contain it"
            raise ArgumentError(f"{called}: {lacking}: {error}; {again}") from error
        if family:
            families.setdefault(family, []).append(kernel)
        else:
            kernels[signature.name] = kernel
    return RuntimeModule(kernels | {name: LoadedFamily(name, members) for name, members in families.items()})
