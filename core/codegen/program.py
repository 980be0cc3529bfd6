"""`Program`: a kernel as LLVM assembly text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pegbox.checks import check_instance
from pegbox.codegen.compiled import ArgSpec, CompiledProgram
from pegbox.codegen.targets.target import Target
from pegbox.errors import CompileError

if TYPE_CHECKING:
    from pegbox.loops.foreign import ForeignCode

MOST_STRAIGHT = 2000
"""The most instructions in straight-line code that are worth a trial."""


@dataclass(frozen=True)
class Program:
    """The LLVM assembly text of one kernel, with the data to compile, load and call it.

    `ll` defines `void @name(ptr arg..., ptr workspace)` and `i64 @name__timed(ptr arg..., ptr workspace, i64 n)`, which
    calls the first n times and returns nanoseconds. `workspace` points to `workspace_bytes` bytes aligned to 64 (null
    if 0). `num_threads` is the size of the teams that run parallel loops; above 1 the code needs an OpenMP runtime.
    `externs` are the C functions that it calls, `foreign` the C code that defines some of them (the process has the
    others). `scalar_loops` is true if LLVM may have loops to vectorize or unroll; other programs are compiled in less
    time (`compile_program`). `family` is a name that several programs, for arrays of different shapes, share.
    `written_out` names the loops that are unrolled or vectorized, for errors. `stores` is the most stores that a call
    executes (0 if unknown).
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
        """Replace the text with object code, for which LLVM took `seconds`."""
        rest = self.workspace_bytes, self.num_threads, self.target, seconds, self.externs, self.foreign
        return CompiledProgram(self.name, self.args, object_code, *rest)

    @property
    def instructions(self) -> int:
        """The approximate number of instructions: the lines of the text."""
        return self.ll.count("\n")

    @property
    def longest_block(self) -> int:
        """The instructions in the longest piece of straight-line code: LLVM's time grows faster than its square."""
        longest = start = 0
        lines = self.ll.splitlines()
        for place, line in enumerate(lines):
            if line.endswith((":", "{", "}")):  # a label, or the beginning or end of a function
                longest, start = max(longest, place - start - 1), place
        return longest


def check_program(program: object) -> Program:
    """Return the argument if it is a program, else raise `CompileError`."""
    return check_instance("program", program, Program, "what task.lower(config) gives", error=CompileError)
