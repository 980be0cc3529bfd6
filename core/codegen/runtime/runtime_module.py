"""Runtime modules: the kernels of a built module, by name."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pegbox.codegen.emitter.emit import emit
from pegbox.codegen.emitter.text import identifier
from pegbox.codegen.runtime import export
from pegbox.codegen.runtime.kernel import Kernel, build
from pegbox.codegen.runtime.signature import signatures
from pegbox.codegen.runtime.time_evaluator import TimeEvaluator
from pegbox.codegen.targets.target import Target
from pegbox.errors import ArgumentError, CompileError
from pegbox.loops.module import IRModule


class RuntimeModule:
    """`mod["mm_relu"]` is a kernel. A module of a single function can be called itself."""

    def __init__(self, kernels: Mapping[str, Kernel]) -> None:
        self.kernels = dict(kernels)

    def __getitem__(self, name: str) -> Kernel:
        """The kernel of that name.

        Raises:
            ArgumentError: there is none.
        """
        if name not in self.kernels:
            raise ArgumentError(f"the module has no function {name!r}; it has {', '.join(self.kernels)}")
        return self.kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.kernels)

    def __len__(self) -> int:
        return len(self.kernels)

    @property
    def entry_name(self) -> str:
        """The name of the only function, or "main".

        Raises:
            ArgumentError: there are several, none of them "main".
        """
        if len(self.kernels) == 1:
            return next(iter(self.kernels))
        if "main" in self.kernels:
            return "main"
        raise ArgumentError(f"the module has the functions {', '.join(self.kernels)}; name one: mod[name](...)")

    def __call__(self, *arrays: Any) -> None:
        """Run the only function, or "main".

        Raises:
            ArgumentError: there are several, or the arrays are not what it was built for.
        """
        self[self.entry_name](*arrays)

    def time_evaluator(self, name: str | None = None, dev: object = None, **options: Any) -> TimeEvaluator:
        """See `Kernel.time_evaluator`; `name` is that of a function, by default the only one."""
        return self[name or self.entry_name].time_evaluator(dev=dev, **options)

    def write_object(self, path: str | os.PathLike[str]) -> None:
        """Write the only kernel's object code.

        Raises:
            ArgumentError: there are several kernels, or they were loaded from object code alone.
        """
        if len(self.kernels) != 1:
            raise ArgumentError(
                f"the module has the functions {', '.join(self.kernels)}; an object file holds one: write a shared "
                "library (.so)"
            )
        export.write_object(self[self.entry_name].program, path)

    def write_shared_library(self, path: str | os.PathLike[str], *, link: export.Link | None = None) -> None:
        """Write the kernels as a library that C programs, and `load_library`, can use.

        Args:
            link: makes the library from object files; by default the system's linker does.

        Raises:
            ArgumentError: the kernels were loaded from object code alone.
            CompileError: there is no linker, or it failed.
        """
        export.write_shared_library([kernel.program for kernel in self.kernels.values()], path, link=link)

    def __repr__(self) -> str:
        return f"RuntimeModule({', '.join(map(repr, self.kernels.values()))})"


def build_module(mod: IRModule, target: Target) -> RuntimeModule:
    """Compile every function of a lowered module.

    Raises:
        CompileError: a function cannot be compiled, or two would have one name in C.
    """
    names: dict[str, str] = {}
    for name in mod:
        other = names.setdefault(identifier(name), name)
        if other != name:
            raise CompileError(f"{other} and {name} would both be called {identifier(name)} in C; rename one")
    return RuntimeModule({name: build(emit(func, target)) for name, func in mod.functions.items()})


class _LibraryCode:
    def __init__(self, library: ctypes.CDLL, name: str) -> None:
        self._library = library
        self.entry, self.timed = (_address(library, symbol) for symbol in (name, f"{name}__timed"))


def load_library(path: str | os.PathLike[str]) -> RuntimeModule:
    """The kernels of a shared library that pegbox wrote. They have no source.

    Raises:
        ArgumentError: there is no such file, it is no library that can be loaded, or none of pegbox's.
    """
    file = Path(os.path.abspath(os.fspath(path)))  # a name without a folder would be looked for elsewhere
    if not file.is_file():
        raise ArgumentError(f"load_library({os.fspath(path)!r}): there is no such file; write it first")
    found = {signature.name: signature for signature in signatures(file.read_bytes())}
    if not found:
        raise ArgumentError(f"load_library({os.fspath(path)!r}): no kernel of pegbox in it; write it with pegbox again")
    try:
        library = ctypes.CDLL(str(file))
    except OSError as error:
        raise ArgumentError(f"load_library({os.fspath(path)!r}): the library cannot be loaded: {error}") from error
    return RuntimeModule({name: Kernel(said, None, _LibraryCode(library, name)) for name, said in found.items()})


def _address(library: ctypes.CDLL, symbol: str) -> int:
    return ctypes.cast(library[symbol], ctypes.c_void_p).value or 0
