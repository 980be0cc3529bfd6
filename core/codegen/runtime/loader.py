"""The loader: object code in the memory of this process, with the functions that it calls."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from pegbox.codegen.compiled import CompiledProgram
from pegbox.codegen.runtime import elf
from pegbox.codegen.runtime.image import Image
from pegbox.codegen.runtime.interpreter import PythonEntry, is_known
from pegbox.codegen.runtime.python_abi import symbol_of
from pegbox.codegen.runtime.symbols import address_of, has_function, process
from pegbox.codegen.targets import host
from pegbox.errors import CompileError, TargetError


class LoadedCode:
    """The addresses of a kernel's functions; the code stays loaded as long as this object lives.

    Code for any processor of the architecture is loaded; `CheckedCall` refuses to run instructions that this processor
    lacks.

    Args:
        imports: the addresses of symbols that are neither C functions nor in the libraries of this process.
        owner: the object that keeps these addresses valid.
    """

    def __init__(
        self, compiled: CompiledProgram, *, imports: Mapping[str, int] | None = None, owner: object = None
    ) -> None:
        if compiled.target.architecture != host.architecture():
            raise TargetError(
                f"{compiled.name} was compiled for {compiled.target.triple} and cannot run on this machine"
            )
        self._owner = owner
        imports = dict(imports or {})
        if compiled.num_threads > 1:
            from pegbox.codegen.runtime import openmp  # not needed for one thread

            imports |= openmp.addresses()
        if compiled.externs:
            from pegbox.codegen.runtime import foreign  # loads the loop IR

            imports |= foreign.addresses(compiled.name, compiled.externs, compiled.foreign, compiled.target)
        imports |= _process_symbols(compiled, imports)
        try:
            self._image = Image(compiled.object_code, imports)
            self.entry, self.timed = map(self._image.address, (compiled.name, f"{compiled.name}__timed"))
            self.python = _python_entry(compiled, self._image)
        except (ValueError, struct.error, OverflowError, OSError) as error:
            raise CompileError(f"{compiled.name}: the object code cannot be loaded: {error}") from error


def _python_entry(compiled: CompiledProgram, image: Image) -> PythonEntry | None:
    """Find the function for Python, if there is one and it was made for this Python."""
    symbol = symbol_of(compiled.name)
    if not image.has(symbol) or not is_known():
        return None
    return PythonEntry(compiled.name, compiled.args, *map(image.address, (symbol, f"{symbol}_table")))


def _process_symbols(compiled: CompiledProgram, imports: Mapping[str, int]) -> dict[str, int]:
    """Find the other functions that the code calls, in the libraries of this process.

    Raises:
        CompileError: the libraries lack some of them.
    """
    wanted = [name for name in elf.undefined(compiled.object_code) if name not in imports]
    if missing := [name for name in wanted if not has_function(process(), name)]:
        raise CompileError(
            f"{compiled.name}: the object code cannot be loaded: it calls {', '.join(missing)}, which LLVM expects in "
            f"the runtime library of {compiled.target} and this process lacks"
        )
    return {name: address_of(process(), name) for name in wanted}
