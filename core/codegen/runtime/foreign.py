"""C functions that kernels call: compiled with the system's compiler, cached in a folder, found by name."""

from __future__ import annotations

import ctypes
import hashlib
import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from pegbox.codegen.runtime import python_functions
from pegbox.codegen.targets.compiler import c_compiler
from pegbox.codegen.targets.target import Target
from pegbox.errors import CompileError
from pegbox.loops.foreign import CSource, ForeignCode


def prepare(code: Iterable[ForeignCode], target: Target) -> list[Path]:
    """Shared libraries with the functions, compiled where there is only source.

    Raises:
        CompileError: there is no compiler, or it rejects the source (its message is shown).
    """
    return [shared_library(each, target) if isinstance(each, CSource) else Path(each.path) for each in code]


def addresses(name: str, wanted: Sequence[str], code: Sequence[ForeignCode], target: Target) -> dict[str, int]:
    """Where the C functions are, in this process.

    Raises:
        CompileError: a library cannot be loaded, or a function is nowhere.
    """
    if not wanted:
        return {}
    libraries = [_loaded(str(path)) for path in prepare(code, target)]
    found: dict[str, int] = {}
    for symbol in wanted:
        if (python := python_functions.address(symbol)) is not None:
            found[symbol] = python
            continue
        for library in (*libraries, *_system()):
            function = getattr(library, symbol, None)
            if function is not None:
                found[symbol] = ctypes.cast(function, ctypes.c_void_p).value or 0
                break
    if missing := [symbol for symbol in wanted if symbol not in found]:
        places = f"in none of the {len(code)} piece(s) of C code given" if code else "and no C code is given"
        raise CompileError(
            f"{name} calls the C function(s) {', '.join(missing)}, {places}; give tir.c_source(text) or "
            'tir.c_library(path) that define them (functions of C++ need extern "C")'
        )
    return found


@cache
def _system() -> tuple[ctypes.CDLL, ...]:
    """What this process has anyway: the C library, mostly the mathematical functions too."""
    return (ctypes.CDLL(None),)


@cache
def _loaded(path: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        raise CompileError(f"the library {path} cannot be loaded: {error}") from error


def shared_library(source: CSource, target: Target) -> Path:
    """The source as a shared library. Compiled once: the folder is asked first."""
    command = [*c_compiler(), *compile_options(source, target)]  # it is loaded here, whatever the target is
    key = hashlib.sha256("\0".join([*command, source.text]).encode()).hexdigest()[:32]
    path = _folder() / f"{key}.so"
    if not path.exists():
        # Another process or thread may do the same: each writes a file of its own, and the last one stays.
        part = path.with_suffix(f".{secrets.token_hex(8)}")
        run_compiler([*command, "-shared", "-o", str(part)], source)
        part.replace(path)
    return path


def language_of(source: CSource) -> str:
    """What compilers call the source's language (`-x`): c++ where functions are `extern "C"` without asking, else c."""
    return "c++" if 'extern "C"' in source.text and "__cplusplus" not in source.text else "c"


def compile_options(source: CSource, target: Target) -> list[str]:
    """The compiler's options for position-independent code."""
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


@cache
def _folder() -> Path:
    """A folder that belongs to this user alone: what lies in it is loaded into processes."""
    path = Path(tempfile.gettempdir()) / f"pegbox-c-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    info = path.lstat()
    if info.st_uid != os.getuid() or info.st_mode & 0o077 or path.is_symlink():
        return Path(tempfile.mkdtemp(prefix="pegbox-c-"))
    return path
