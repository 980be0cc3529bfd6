"""The system's C compiler, which also serves as the linker."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from pegbox.codegen.targets import host
from pegbox.errors import CompileError

if TYPE_CHECKING:
    from pegbox.codegen.targets.target import Target


def c_compiler(target: Target | None = None) -> list[str]:
    """The command of the C compiler ($CC, cc, gcc, clang), or of one for the target's architecture.

    Raises:
        CompileError: there is none.
    """
    found = find("cc", "gcc", "clang", target=target)
    if found is None:
        raise CompileError(
            f"no C compiler for the C source that the program calls: {_wanted('cc', 'gcc', 'clang', target=target)}, "
            "or compile it elsewhere and give tir.c_library(path)"
        )
    return found


def linker(target: Target | None = None) -> list[str]:
    """The command that links ($CC, cc, gcc, clang, ld), or one for the target's architecture.

    Raises:
        CompileError: there is none.
    """
    found = find("cc", "gcc", "clang", "ld", target=target)
    if found is None:
        raise CompileError(
            f"no linker for a shared library: {_wanted('cc', 'gcc', 'clang', 'ld', target=target)}, or write an object "
            "file (.o) and link it elsewhere"
        )
    return found


def find(*names: str, target: Target | None = None) -> list[str] | None:
    """$CC if it is there, else the first of the programs that is.

    For a target of another architecture than this machine's, $CC counts where it says that it compiles for that
    (-dumpmachine) or says nothing; without it, the command is that of `cross_gcc`.
    """
    named = os.environ.get("CC", "").split()
    there = bool(named) and shutil.which(named[0]) is not None
    if target is None or target.architecture == host.architecture():
        return named if there else next(([path] for name in names if (path := shutil.which(name))), None)
    if there and _architecture_of(named) in ("", target.architecture):
        return named
    path = cross_gcc(target)
    return None if path is None else [path]


def cross_gcc(target: Target) -> str | None:
    """Find GCC for the target: <triple>-gcc or NAME-linux-gnu-gcc with the architecture's name;

    None if there is none.
    """
    names = [f"{prefix}-gcc" for prefix in (target.triple, f"{target.architecture}-linux-gnu") if prefix]
    return next((path for name in names if (path := shutil.which(name))), None)


def cross_package(target: Target) -> str:
    """The package of Debian and Ubuntu that `cross_gcc` comes from."""
    return f"gcc-{target.architecture.replace('_', '-')}-linux-gnu"


def _architecture_of(command: list[str]) -> str:
    """Ask a compiler for its target architecture; empty where it does not say."""
    done = subprocess.run([*command, "-dumpmachine"], capture_output=True, text=True, check=False)
    return "" if done.returncode else host.canonical_architecture(done.stdout.strip().split("-")[0])


def _wanted(*names: str, target: Target | None) -> str:
    """Say what was looked for, and how to get it."""
    if target is None or target.architecture == host.architecture():
        return f"none of $CC, {', '.join(names)} is there; install one (Debian and Ubuntu: apt install gcc)"
    return (
        f"{target.architecture}-linux-gnu-gcc is not there, which the target {str(target)!r} needs; install it (Debian "
        f"and Ubuntu: apt install {cross_package(target)}), name a compiler for it with the variable CC=..."
    )
