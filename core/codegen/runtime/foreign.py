"""C functions that kernels call, compiled with the system's compiler, cached in a folder, and found by name."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from pegbox.codegen.runtime import python_functions
from pegbox.codegen.runtime.symbols import address_of, has_function, process
from pegbox.codegen.targets.c_compiler import c_compiler
from pegbox.codegen.targets.target import Target
from pegbox.errors import CompileError
from pegbox.loops.foreign import CSource, ForeignCode
from pegbox.output import written_beside
from pegbox.private_folder import private_folder


def prepare(code: Iterable[ForeignCode], target: Target) -> list[Path]:
    """Find shared libraries with the functions, and compile functions that are given as source.

    Raises:
        CompileError: there is no compiler, or it rejects the source (its message is shown).
    """
    return [shared_library(each, target) if isinstance(each, CSource) else Path(each.path) for each in code]


def addresses(name: str, wanted: Sequence[str], code: Sequence[ForeignCode], target: Target) -> dict[str, int]:
    """Find the addresses of the C functions in this process.

    Raises:
        CompileError: a library cannot be loaded, or a function is not found.
    """
    if not wanted:
        return {}
    libraries = [*(_loaded(str(path)) for path in prepare(code, target)), process()]
    found: dict[str, int] = {}
    for symbol in wanted:
        if (python := python_functions.address(symbol)) is not None:
            found[symbol] = python
        elif library := next((each for each in libraries if has_function(each, symbol)), None):
            found[symbol] = address_of(library, symbol)
    if missing := [symbol for symbol in wanted if symbol not in found]:
        places = f"in none of the {len(code)} piece(s) of C code given" if code else "and no C code is given"
        raise CompileError(
            f"{name} calls the C function(s) {', '.join(missing)}, {places}; give tir.c_source(text) or "
            'tir.c_library(path) that define them (functions of C++ need extern "C")'
        )
    return found


@cache
def _loaded(path: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise CompileError(f"the library {path} cannot be loaded: {error}") from error


def shared_library(source: CSource, target: Target) -> Path:
    """Compile the source into a shared library, once; libraries are kept in a folder."""
    command = [*c_compiler(), *compile_options(source, target)]  # this process loads it, whatever the target is
    key = hashlib.sha256("\0".join([*command, source.text]).encode()).hexdigest()[:32]
    try:
        path = private_folder("c") / f"{key}.so"  # only this user may write there, because processes load its files
    except OSError as error:
        raise CompileError(
            f"there is no folder for compiled C code: {error}; free space for temporary files, or set TMPDIR=DIR"
        ) from error
    if not path.exists():
        # Another process or thread may do the same: each writes its own file, and the last one replaces the others.
        with written_beside(path, error=CompileError) as part:
            run_compiler([*command, "-shared", "-o", str(part)], source)
    return path


def language_of(source: CSource) -> str:
    """Name the source's language for a compiler's `-x`: c++ if functions are declared `extern "C"`, else c."""
    return "c++" if 'extern "C"' in source.text and "__cplusplus" not in source.text else "c"


def compile_options(source: CSource, target: Target) -> list[str]:
    """List the compiler's options for position-independent code for the target."""
    native = ["-march=native"] if target.is_host_cpu else []
    return ["-x", language_of(source), "-O3", "-fPIC", *native]


def run_compiler(command: Sequence[str], source: CSource) -> None:
    """Compile the source, given on standard input.

    Raises:
        CompileError: the compiler rejects it.
    """
    done = subprocess.run([*command, "-"], input=source.text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError(f"{' '.join(command)} rejects the C source: {done.stderr.strip()[:2000]}")
