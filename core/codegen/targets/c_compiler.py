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
    """Return the command of the C compiler ($CC, cc, gcc, clang), or of one for the target's architecture.

    Raises:
        CompileError: there is no compiler.
    """
    return _found(
        ("cc", "gcc", "clang"),
        target,
        "no C compiler for the C source that the program calls: {}, or compile it elsewhere and give "
        "tir.c_library(path)",
    )


def linker(target: Target | None = None) -> list[str]:
    """Return the command that links ($CC, cc, gcc, clang, ld), or one for the target's architecture.

    Raises:
        CompileError: there is no linker.
    """
    return _found(
        ("cc", "gcc", "clang", "ld"),
        target,
        "no linker for a shared library: {}, or write an object file (.o) and link it elsewhere",
    )


def find(*names: str, target: Target | None = None) -> list[str] | None:
    """Find $CC, else the first of the programs that exists.

    If the target's architecture is not this machine's, $CC counts if it reports that architecture (-dumpmachine) or
    reports nothing; otherwise the command is that of `cross_gcc`.
    """
    named = os.environ.get("CC", "").split()
    there = bool(named) and shutil.which(named[0]) is not None
    if target is None or target.architecture == host.architecture():
        return named if there else next(([path] for name in names if (path := shutil.which(name))), None)
    if there:
        done = subprocess.run([*named, "-dumpmachine"], capture_output=True, text=True, check=False)
        said = "" if done.returncode else done.stdout.strip()
        if not said or host.canonical_architecture(said.split("-")[0]) == target.architecture:
            return named
    path = cross_gcc(target)
    return None if path is None else [path]


def cross_gcc(target: Target) -> str | None:
    """Find a GCC for the target: <triple>-gcc, or NAME-linux-gnu-gcc with the architecture's name."""
    names = [f"{prefix}-gcc" for prefix in (target.triple, f"{target.architecture}-linux-gnu") if prefix]
    return next((path for name in names if (path := shutil.which(name))), None)


def cross_package(target: Target) -> str:
    """Name the package of Debian and Ubuntu that contains `cross_gcc`."""
    return f"gcc-{target.architecture.replace('_', '-')}-linux-gnu"


def _found(names: tuple[str, ...], target: Target | None, message: str) -> list[str]:
    """Find a program, or raise an error; the missing program and its remedy are inserted into the message."""
    if found := find(*names, target=target):
        return found
    if target is None or target.architecture == host.architecture():
        wanted = f"none of $CC, {', '.join(names)} is there; install one (Debian and Ubuntu: apt install gcc)"
    else:
        wanted = (
            f"{target.architecture}-linux-gnu-gcc is not there, which the target {str(target)!r} needs; install it "
            f"(Debian and Ubuntu: apt install {cross_package(target)}), name a compiler for it with the variable CC=..."
        )
    raise CompileError(message.format(wanted))
