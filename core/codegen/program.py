"""`Program` and `CompiledProgram`: the plain values between the stages of code generation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pegbox.checks import check_instance
from pegbox.codegen.targets.target import Target
from pegbox.errors import CompileError
from pegbox.expr import dtypes

if TYPE_CHECKING:
    from pegbox.loops.foreign import ForeignCode

ALIGNMENT = 64
"""The alignment of workspaces in bytes: a vector of any width that begins there lies within one line of the cache."""
COMPILE_SECONDS = 60.0
"""The time that LLVM may take for a program, unless the caller allows another."""
MOST_STRAIGHT = 2000
"""The most instructions in a piece of straight code that are worth a trial."""


@dataclass(frozen=True)
class ArgSpec:
    """An array argument of a kernel: C-contiguous, of exactly this shape and dtype; outputs must be writable."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    is_output: bool

    @property
    def nbytes(self) -> int:
        size = dtypes.nbytes(self.dtype)
        for extent in self.shape:
            size *= extent
        return size

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class Program:
    """The LLVM assembly text of one kernel, with the data to compile, load and call it.

    `ll` defines `void @name(ptr arg..., ptr workspace)` and `i64 @name__timed(ptr arg..., ptr workspace, i64 n)`,
    which calls the first n times and returns nanoseconds. `workspace` points to `workspace_bytes` bytes aligned
    to 64 (null where 0). `num_threads` is the size of the teams that run parallel loops; above 1 the code needs an
    OpenMP runtime. `externs` are the C functions that it calls, `foreign` the C code that defines them (the process has
    the others). `scalar_loops` is true if LLVM may have loops to vectorize or unroll; other programs are compiled in
    less time (`compile_program`). `family` is the name that several programs, for arrays of several shapes, share.
    `written_out` names the loops that are unrolled or vectorized, for errors. `stores` is the number of stores that a
    call executes, at most (0 if it is not known).
    """

    name: str
    args: tuple[ArgSpec, ...]
    ll: str
    workspace_bytes: int
    num_threads: int
    target: Target
    externs: tuple[str, ...] = ()
    foreign: tuple[ForeignCode, ...] = ()
    scalar_loops: bool = True
    family: str = ""
    written_out: tuple[str, ...] = ()
    stores: int = 0

    def compiled(self, object_code: bytes, seconds: float) -> CompiledProgram:
        """Replace the text by object code, for which LLVM took `seconds`."""
        rest = self.workspace_bytes, self.num_threads, self.target, seconds, self.externs, self.foreign
        return CompiledProgram(self.name, self.args, object_code, *rest)

    @property
    def instructions(self) -> int:
        """The number of instructions, more or less: the lines of the text."""
        return self.ll.count("\n")

    @property
    def longest_block(self) -> int:
        """The instructions of the longest piece of straight code: LLVM's time grows faster than its square."""
        longest = start = 0
        lines = self.ll.splitlines()
        for place, line in enumerate(lines):
            if line.endswith((":", "{", "}")):  # a label, or where a function begins or ends
                longest, start = max(longest, place - start - 1), place
        return longest


@dataclass(frozen=True)
class CompiledProgram:
    """A program as position-independent object code (ELF on Linux); it may be loaded in another process.

    `seconds` is the time that LLVM took: parsing, optimizing and generating code.
    """

    name: str
    args: tuple[ArgSpec, ...]
    object_code: bytes
    workspace_bytes: int
    num_threads: int
    target: Target
    seconds: float
    externs: tuple[str, ...] = ()
    foreign: tuple[ForeignCode, ...] = ()


def description_of(program: Program | CompiledProgram) -> dict[str, Any]:
    """Describe a program for JSON: all that calling its code needs, except functions of C and Python."""
    return {
        "name": program.name,
        "args": [asdict(spec) for spec in program.args],
        "workspace_bytes": program.workspace_bytes,
        "num_threads": program.num_threads,
        "target": str(program.target),
    }


def compiled_of(description: Mapping[str, Any], object_code: bytes) -> CompiledProgram:
    """Make a program of its description and its code.

    Raises:
        ValueError, LookupError, TypeError, PegboxError: the description is damaged.
    """
    args = []
    for spec in description["args"]:
        shape = tuple(map(int, spec["shape"]))
        if any(extent < 1 for extent in shape):
            raise ValueError(f"shape {list(shape)}")
        args.append(ArgSpec(str(spec["name"]), shape, dtypes.check(spec["dtype"]), bool(spec["is_output"])))
    rest = int(description["workspace_bytes"]), int(description["num_threads"]), Target(description["target"]), 0.0
    return CompiledProgram(str(description["name"]), tuple(args), object_code, *rest)


def check_program(program: object) -> Program:
    """Return the argument if it is a program, else raise `CompileError`."""
    return check_instance("program", program, Program, "what task.lower(config) gives", error=CompileError)
