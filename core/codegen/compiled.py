"""`CompiledProgram`: machine code with the data to load and call it, which is all that a stored kernel needs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pegbox.codegen.targets.target import Target
from pegbox.expr import dtypes

if TYPE_CHECKING:
    from pegbox.codegen.program import Program
    from pegbox.loops.foreign import ForeignCode

ALIGNMENT = 64
"""The alignment of workspaces in bytes: a vector of any width that begins there lies within one cache line."""
COMPILE_SECONDS = 60.0
"""The seconds that LLVM may take for a program, unless the caller sets another limit."""


class ArgSpec(NamedTuple):
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


class CompiledProgram(NamedTuple):
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
    foreign: tuple["ForeignCode", ...] = ()


def description_of(program: "Program | CompiledProgram") -> dict[str, Any]:
    """Describe a program in JSON's types: everything needed to call its code, except functions of C and Python."""
    return {
        "name": program.name,
        "args": [spec._asdict() for spec in program.args],
        "workspace_bytes": program.workspace_bytes,
        "num_threads": program.num_threads,
        "target": str(program.target),
    }


def compiled_of(description: Mapping[str, Any], object_code: bytes) -> CompiledProgram:
    """Make a program from its description and its code.

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
