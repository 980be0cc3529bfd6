"""The system's C compiler, which also serves as the linker."""

from __future__ import annotations

import os
import shutil

from pegbox.errors import CompileError


def c_compiler() -> list[str]:
    """The command of the C compiler ($CC, cc, gcc, clang).

    Raises:
        CompileError: there is none.
    """
    found = find("cc", "gcc", "clang")
    if found is None:
        raise CompileError(
            "no C compiler for the C source that the program calls: none of $CC, cc, gcc, clang is there; install one "
            "(Debian and Ubuntu: apt install gcc), or compile it elsewhere and give tir.c_library(path)"
        )
    return found


def find(*names: str) -> list[str] | None:
    """$CC if it is there, else the first of the programs that is."""
    named = os.environ.get("CC", "").split()
    if named and shutil.which(named[0]):
        return named
    return next(([path] for name in names if (path := shutil.which(name))), None)
