"""Built modules: kernels by name, called, timed, shown, saved and loaded by TVM's names."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pegbox.codegen import RuntimeModule, TimeEvaluator, load_library, write_object, write_shared_library
from pegbox.errors import ArgumentError
from pegbox.plugins.tvm.absence import refuse
from pegbox.plugins.tvm.contrib.cc import create_shared
from pegbox.report import write_file

_PACKED = "lib.so"  # in an archive
_MOST_BYTES = 1 << 30

_FORMS = {"": "ll", "ll": "ll", "s": "asm", "asm": "asm"}


class Module(RuntimeModule):
    """The kernels that `tvm.build` makes; `mod(a, b, c)` runs the only one, or "main", and `mod["name"]` is each."""

    def __init__(self, built: Any) -> None:
        super().__init__(built.kernels if isinstance(built, RuntimeModule) else {built.name: built})

    def get_function(self, name: str) -> Any:
        """Return the function of that name. Raises `ArgumentError` if there is none."""
        return self[name]

    @property
    def entry_func(self) -> Any:
        return self[self.entry_name]

    def time_evaluator(  # type: ignore[override]
        self,
        func_name: str,
        dev: object = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        **absent: Any,
    ) -> TimeEvaluator:
        """See `Kernel.time_evaluator`.

        Raises `ArgumentError` for an unknown function, a number out of its domain, and TVM's other options.
        """
        refuse("Module.time_evaluator", absent)
        return super().time_evaluator(func_name, number=number, repeat=repeat, min_repeat_ms=min_repeat_ms)

    def get_source(self, fmt: str = "") -> str:
        """Return the program as text: "ll" (LLVM's, as emitted) or "asm"; functions one after the other.

        Raises `ArgumentError` for another form, and if the module was loaded from a file.
        """
        if fmt not in _FORMS:
            raise ArgumentError(f"get_source({fmt!r}): the forms are 'll' and 'asm'")
        return "\n".join(kernel.source(_FORMS[fmt]) for kernel in self.kernels.values())

    def save(self, file_name: str | os.PathLike[str], fmt: str = "") -> None:
        """Write an object file (.o), or text (.ll, .s).

        Raises:
            ArgumentError: another suffix, or the module was loaded from a file.
            CompileError: several functions, and no linker that makes one object file of them.
        """
        path = Path(file_name)
        form = fmt or path.suffix[1:]
        if form == "o":
            write_object(self.programs, path)
        elif form and form in _FORMS:
            write_file(path, self.get_source(form))
        else:
            raise ArgumentError(f"save({os.fspath(path)!r}): the name must end in .o, .ll or .s")

    def export_library(
        self, file_name: str | os.PathLike[str], *, fcompile: Callable[..., object] | None = None, **absent: Any
    ) -> None:
        """Write a shared library (.so), or an archive that holds it (.tar); `load_module` loads both.

        `fcompile(file_name, [object files])` links it, where given.

        Raises:
            ArgumentError: another suffix, an option of TVM's that is not here, or the module was loaded from a file.
            CompileError: there is no linker, or it failed.
        """
        refuse("Module.export_library", absent)
        path = Path(file_name)
        if path.suffix not in (".so", ".tar"):
            raise ArgumentError(f"export_library({os.fspath(path)!r}): the name must end in .so or .tar")
        if path.suffix == ".so":
            write_shared_library(self.programs, path, link=fcompile)
            return
        packed = io.BytesIO()
        with TemporaryDirectory() as folder, tarfile.open(fileobj=packed, mode="w") as archive:
            write_shared_library(self.programs, Path(folder, _PACKED), link=fcompile)
            archive.add(Path(folder, _PACKED), _PACKED)
        write_file(path, packed.getvalue())

    def __repr__(self) -> str:
        return f"Module({', '.join(self)})"


def load_module(path: str | os.PathLike[str]) -> Module:
    """Load the kernels of a shared library that pegbox wrote (.so, or .tar with one), or of an object file (.o).

    An object file is linked first, and an archive unpacked; the library stays next to them.

    Raises:
        ArgumentError: there is no such file, or it has no kernels of pegbox.
        CompileError: there is no linker, or it failed.
    """
    file = Path(path)
    if file.suffix == ".o" and file.is_file():
        create_shared(f"{file}.so", [os.fspath(file)])
        file = Path(f"{file}.so")
    if file.suffix == ".tar" and file.is_file():
        file = _unpacked(file)
    return Module(load_library(file))


def _unpacked(file: Path) -> Path:
    """Unpack the library. Raises `ArgumentError` if the archive holds none of pegbox."""
    try:
        with tarfile.open(file, "r:") as archive, archive.extractfile(_PACKED) as packed:  # type: ignore[union-attr]
            content = packed.read(_MOST_BYTES)  # a sparse file may be as long as it likes
    except Exception as error:  # tarfile raises many kinds for damaged files
        raise ArgumentError(f"load_module({os.fspath(file)!r}): no archive of pegbox's: {error}") from error
    library = Path(f"{file}.so")
    write_file(library, content)
    return library
