"""Built modules: kernels by name, called, timed, shown, saved and loaded by TVM's names."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pegbox.errors import ArgumentError
from pegbox.output import write_file, written_beside
from pegbox.plugins.tvm.absence import names, refuse

if TYPE_CHECKING:
    from typing import TypeAlias

    from pegbox.codegen import Kernel, RuntimeModule, TimeEvaluator
    from pegbox.codegen.runtime.kernel import KernelFamily

    AnyKernel: TypeAlias = Kernel | KernelFamily

_PACKED = "lib.so"  # in an archive
_MOST_BYTES = 1 << 30
__getattr__ = names(__name__)

_FORMS = {"": "ll", "ll": "ll", "s": "asm", "asm": "asm"}


class Module:
    """The kernels that `tvm.build` makes; `mod(a, b, c)` runs the only one, or "main", and `mod["name"]` is each."""

    def __init__(self, built: RuntimeModule | AnyKernel) -> None:
        from pegbox.codegen import RuntimeModule

        self.built = built if isinstance(built, RuntimeModule) else RuntimeModule({built.name: built})

    def __call__(self, *arrays: Any) -> None:
        """Run the entry function.

        Raises:
            ArgumentError: the arrays are not what it was built for, or there is no entry.
        """
        self.built(*arrays)

    def get_function(self, name: str) -> AnyKernel:
        """Return the function of that name. Raises `ArgumentError` if there is none."""
        return self.built[name]

    __getitem__ = get_function

    @property
    def entry_name(self) -> str:
        return self.built.entry_name

    @property
    def entry_func(self) -> AnyKernel:
        return self.built[self.entry_name]

    def time_evaluator(
        self,
        func_name: str,
        dev: object = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        **absent: Any,
    ) -> TimeEvaluator:
        """See `Kernel.time_evaluator`.

        Raises:
            ArgumentError: no such function, a number out of its domain, or an option of TVM's that is not here.
        """
        refuse("Module.time_evaluator", absent)
        return self[func_name].time_evaluator(number=number, repeat=repeat, min_repeat_ms=min_repeat_ms)

    def get_source(self, fmt: str = "") -> str:
        """Return the program as text: "ll" (LLVM's, as emitted) or "asm"; functions one after the other.

        Raises:
            ArgumentError: another form, or the module was loaded from a file.
        """
        if fmt not in _FORMS:
            raise ArgumentError(f"get_source({fmt!r}): the forms are 'll' and 'asm'")
        return "\n".join(kernel.source(_FORMS[fmt]) for kernel in self.built.kernels.values())

    def save(self, file_name: str | os.PathLike[str], fmt: str = "") -> None:
        """Write an object file (.o), or text (.ll, .s).

        Raises:
            ArgumentError: another suffix, or the module was loaded from a file.
            CompileError: several functions, and no linker that makes one object file of them.
        """
        from pegbox.codegen import write_object

        path = Path(file_name)
        form = fmt or path.suffix[1:]
        if form == "o":
            write_object(self.built.programs, path)
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
        from pegbox.codegen import write_shared_library

        refuse("Module.export_library", absent)
        path = Path(file_name)
        if path.suffix not in (".so", ".tar"):
            raise ArgumentError(f"export_library({os.fspath(path)!r}): the name must end in .so or .tar")
        if path.suffix == ".so":
            write_shared_library(self.built.programs, path, link=fcompile)
            return
        with TemporaryDirectory() as folder, written_beside(path) as part, tarfile.open(part, "w") as archive:
            write_shared_library(self.built.programs, Path(folder, _PACKED), link=fcompile)
            archive.add(Path(folder, _PACKED), _PACKED)

    def __repr__(self) -> str:
        return f"Module({', '.join(self.built)})"


def load_module(path: str | os.PathLike[str]) -> Module:
    """Load the kernels of a shared library that pegbox wrote (.so, or .tar with one), or of an object file (.o).

    An object file is linked first, and an archive unpacked; the library stays beside them.

    Raises:
        ArgumentError: there is no such file, or it has no kernels of pegbox.
        CompileError: there is no linker, or it failed.
    """
    from pegbox.codegen import load_library
    from pegbox.plugins.tvm.contrib.cc import create_shared

    file = Path(path)
    if file.suffix == ".o" and file.is_file():
        create_shared(f"{file}.so", [os.fspath(file)])
        file = Path(f"{file}.so")
    if file.suffix == ".tar" and file.is_file():
        file = _unpacked(file)
    return Module(load_library(file))


def _unpacked(file: Path) -> Path:
    """Raises ArgumentError: the archive holds no library of pegbox."""
    try:
        with tarfile.open(file, "r:") as archive, archive.extractfile(_PACKED) as packed:  # type: ignore[union-attr]
            content = packed.read(_MOST_BYTES)  # a sparse file may be as long as it likes
    except Exception as error:  # tarfile raises many kinds for damaged files
        raise ArgumentError(f"load_module({os.fspath(file)!r}): no archive of pegbox's: {error}") from error
    library = Path(f"{file}.so")
    write_file(library, content)
    return library
