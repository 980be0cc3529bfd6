"""Shared libraries that pegbox wrote, loaded again: kernels by name."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from pegbox.checks import check_path
from pegbox.codegen.program import Program
from pegbox.codegen.runtime.kernel import Kernel
from pegbox.codegen.runtime.kernel_family import KernelFamily
from pegbox.codegen.runtime.runtime_module import RuntimeModule
from pegbox.codegen.runtime.signature import signatures
from pegbox.errors import ArgumentError


class LibraryCode:
    """Addresses of a kernel's two functions in a library."""

    def __init__(self, library: ctypes.CDLL, name: str) -> None:
        self._library = library
        self.entry, self.timed = (_address(library, symbol) for symbol in (name, f"{name}__timed"))


class LoadedFamily(KernelFamily):
    """The kernels of a family that were in a library: none is added."""

    def __init__(self, name: str, kernels: Sequence[Kernel]) -> None:
        super().__init__(name)
        self.kernels = {tuple(spec.shape for spec in kernel.args): kernel for kernel in kernels}

    def of(self, arrays: Sequence[Any]) -> Kernel:
        shapes = tuple(getattr(array, "shape", None) for array in arrays)
        if shapes not in self.kernels:
            known = " or ".join(", ".join(map(str, shape)) for shape in self.kernels)
            raise ArgumentError(
                f"{self.name}(): the library has no kernel for arrays of the shapes {', '.join(map(str, shapes))}; it "
                f"has them for {known}: call the kernel with these shapes before it is written"
            )
        return self.kernels[shapes]

    @property
    def programs(self) -> list[Program]:
        return [program for kernel in self.kernels.values() for program in kernel.programs]

    def source(self, form: str = "ll") -> str:
        return next(iter(self.kernels.values())).source(form)

    def __repr__(self) -> str:
        return f"LoadedFamily({self.name}, {len(self.kernels)} kernels)"


def load_library(path: str | os.PathLike[str]) -> RuntimeModule:
    """The kernels of a shared library that pegbox wrote. They have no source.

    Raises:
        ArgumentError: there is no such file, it is no library that can be loaded, or none of pegbox's.
    """
    file = Path(os.path.abspath(check_path("path", path)))  # a name without a folder would be looked for elsewhere
    if not file.is_file():
        _refuse(path, "there is no such file; write it first")
    try:
        found = list(signatures(file.read_bytes()))
    except ArgumentError as error:
        _refuse(path, f"{error}; write it with pegbox again")
    if not found:
        _refuse(path, "no kernel of pegbox in it; write it with pegbox again")
    try:
        library = ctypes.CDLL(str(file))
    except OSError as error:
        _refuse(path, f"the library cannot be loaded: {error}")
    alone: dict[str, Kernel | KernelFamily] = {}
    families: dict[str, list[Kernel]] = {}
    for said, family in found:
        try:
            kernel = Kernel(said, None, LibraryCode(library, said.name))
        except AttributeError as error:
            _refuse(
                path, f"it says that it has a kernel {said.name}, and has none: {error}; write it with pegbox again"
            )
        if family:
            families.setdefault(family, []).append(kernel)
        else:
            alone[said.name] = kernel
    return RuntimeModule(alone | {name: LoadedFamily(name, kernels) for name, kernels in families.items()})


def _refuse(path: str | os.PathLike[str], why: str) -> NoReturn:
    raise ArgumentError(f"load_library({os.fspath(path)!r}): {why}")


def _address(library: ctypes.CDLL, symbol: str) -> int:
    return ctypes.cast(library[symbol], ctypes.c_void_p).value or 0
