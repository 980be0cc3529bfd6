"""Export of kernels for C and other languages: object files, shared libraries, C headers."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from pegbox.codegen.emitter.intrinsics import LIBRARY_SYMBOLS
from pegbox.codegen.emitter.text import identifier
from pegbox.codegen.program import ArgSpec, Program
from pegbox.codegen.runtime.foreign import compile_options, run_compiler
from pegbox.codegen.runtime.machine import compile_program
from pegbox.codegen.runtime.signature import with_signature
from pegbox.codegen.runtime.symbols import undefined
from pegbox.codegen.targets.compiler import find
from pegbox.errors import CompileError
from pegbox.loops.foreign import CSource
from pegbox.loops.python_function import PREFIX

_C_TYPES = {
    "float64": "double", "float32": "float", "float16": "uint16_t", "bfloat16": "uint16_t",
    "int64": "int64_t", "int32": "int32_t",
    "int16": "int16_t", "int8": "int8_t", "uint8": "uint8_t", "bool": "uint8_t",
}  # fmt: skip

# What an argument cannot be called: the header's own parameters, and the words of C and C++.
_RESERVED = """
    workspace calls
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const const_cast
    consteval constexpr constinit continue co_await co_return co_yield decltype default delete do double dynamic_cast
    else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept not
    not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires restrict return short
    signed sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef
    typeid typename typeof union unsigned using virtual void volatile wchar_t while xor xor_eq
"""


Link: TypeAlias = Callable[[str, list[str]], object]
"""Makes a shared library of that name from object files and options of the linker."""


def write_object(programs: Program | Sequence[Program], path: str | os.PathLike[str]) -> None:
    """Write position-independent object code.

    Linking it needs -lgomp when a program has parallel loops, and -lm when one calls functions such as `te.sin`.

    Raises:
        CompileError: there are several programs, and no linker that makes one file of them.
    """
    several = _several(programs)
    if len(several) == 1:
        _write_part(several[0], path)
        return
    with tempfile.TemporaryDirectory() as folder:
        parts = [os.path.join(folder, f"kernel_{number}.o") for number in range(len(several))]
        for program, part in zip(several, parts, strict=True):
            _write_part(program, part)
        _run_linker([*_linker(), "-r", "-o", os.fspath(path), *parts])


def _several(programs: Program | Sequence[Program]) -> Sequence[Program]:
    return [programs] if isinstance(programs, Program) else programs


def _write_part(program: Program, path: str | os.PathLike[str]) -> None:
    if any(symbol.startswith(PREFIX) for symbol in program.externs):
        raise CompileError(
            f"{program.name} calls a Python function of this process, which a file cannot hold; call a C function "
            "(tir.c_source) instead"
        )
    Path(path).write_bytes(compile_program(with_signature(program)).object_code)


def write_shared_library(
    programs: Program | Sequence[Program], path: str | os.PathLike[str], *, link: Link | None = None
) -> None:
    """Compile kernels and link them to one library, by default as `link_shared_library` does.

    Raises:
        CompileError: there is no linker, or it failed (its message is shown).
    """
    several = _several(programs)
    with tempfile.TemporaryDirectory() as folder:
        parts: list[str] = []
        for number, program in enumerate(several):
            own = Path(folder) / f"kernel_{number}"
            _write_part(program, f"{own}.o")
            parts += [f"{own}.o", *_foreign_parts(program, f"{own}_foreign")]
        if any(program.num_threads > 1 for program in several):
            parts.append("-lgomp")
        if any(LIBRARY_SYMBOLS.intersection(undefined(part.read_bytes())) for part in Path(folder).glob("*.o")):
            parts.append("-lm")
        (link or link_shared_library)(os.fspath(path), list(dict.fromkeys(parts)))


def link_shared_library(
    path: str | os.PathLike[str], parts: Sequence[str], *, linker: Sequence[str] | None = None
) -> None:
    """Link object files with the system's C compiler driver or linker ($CC, cc, gcc, clang, ld).

    Args:
        parts: object files, libraries and the linker's options.
        linker: another command that links.

    Raises:
        CompileError: there is no linker, or it failed (its message is shown).
    """
    _run_linker([*(linker or _linker()), "-shared", "-o", os.fspath(path), *parts])


def _run_linker(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        hint = "; parallel kernels need libgomp to link with (it comes with gcc)" if "gomp" in done.stderr else ""
        raise CompileError(f"{' '.join(command)} failed: {done.stderr.strip()[:2000]}{hint}")


def _foreign_parts(program: Program, stem: str) -> list[str]:
    """What the linker needs for the C functions that the kernel calls: objects, and libraries with their places."""
    parts: list[str] = []
    for number, code in enumerate(program.foreign):
        if isinstance(code, CSource):
            part = f"{stem}_{number}.o"
            run_compiler([*compile_options(code, program.target), "-c", "-o", part], code)
            parts.append(part)
        else:
            parts += [code.path, f"-Wl,-rpath,{os.path.dirname(code.path)}"]
    return parts


def _linker() -> list[str]:
    found = find("cc", "gcc", "clang", "ld")
    if found is not None:
        return found
    raise CompileError(
        "no linker for a shared library: none of $CC, cc, gcc, clang, ld is there; install one "
        "(Debian and Ubuntu: apt install gcc), or write an object file (.o) and link it elsewhere"
    )


def c_header(program: Program) -> str:
    """A C header that declares the kernel, for C and C++."""
    guard = f"PEGBOX_{program.name.upper()}_H"
    names = _names(program.args)
    arguments = [_parameter(name, spec) for name, spec in zip(names, program.args, strict=True)]
    comments = [f" *   {name}: {_described(spec)}" for name, spec in zip(names, program.args, strict=True)]
    workspace = (
        f"at least {program.workspace_bytes} bytes, aligned to 64, one per concurrent call"
        if program.workspace_bytes
        else "not used, may be NULL"
    )
    listed = ", ".join([*arguments, "void *workspace"])
    return "\n".join(
        [
            f"/* {program.name}, generated by pegbox for {program.target}.",
            " * Arrays are row-major and contiguous; outputs must not overlap with other arguments.",
            *comments,
            f" *   workspace: {workspace}",
            *([" * Needs an OpenMP runtime: link with -lgomp."] if program.num_threads > 1 else []),
            *_calls(program),
            " */",
            f"#ifndef {guard}",
            f"#define {guard}",
            "#include <stdint.h>",
            f"#define {program.name.upper()}_WORKSPACE_BYTES {program.workspace_bytes}",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            f"void {program.name}({listed});",
            "/* Runs the kernel that many times and returns nanoseconds. */",
            f"int64_t {program.name}__timed({listed}, int64_t calls);",
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "#endif",
            "",
        ]
    )


def _calls(program: Program) -> list[str]:
    names = ", ".join(program.externs)
    return [f" * The object file calls C functions: link with {names}."] if names else []


def _names(args: Sequence[ArgSpec]) -> list[str]:
    """A C identifier for each argument; those that share a name, or may not have theirs, get their number behind it."""
    plain, reserved = [identifier(spec.name) for spec in args], _RESERVED.split()
    return [
        f"{name}_{number}" if name in reserved or name[0].isdigit() or plain.count(name) > 1 else name
        for number, name in enumerate(plain)
    ]


def _parameter(name: str, spec: ArgSpec) -> str:
    const = "" if spec.is_output else "const "
    return f"{const}{_C_TYPES[spec.dtype]} *{name}"


def _described(spec: ArgSpec) -> str:
    kind = "output" if spec.is_output else "input"
    extra = {"float16": " (IEEE half precision bits)", "bfloat16": " (upper half of a float)"}.get(spec.dtype, "")
    return f"{kind}, {spec.dtype}{extra} {'x'.join(map(str, spec.shape)) or 'scalar'}"
