"""Machine code of random programs: compiled with more or less effort, and run.

`guarded_calls.install()` puts guard bands around the arrays of every call, here and in all tests.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np
import plain_code
from numpy.typing import NDArray
from stage import SECOND

from fuzz import targets
from pegbox.codegen import CompiledProgram, Program, Target, emit, load
from pegbox.expr.dtypes import is_float, numpy_dtype
from pegbox.loops.nodes import Function

Array = NDArray[Any]

MOST_SECONDS = 20.0
"""The limit in seconds for the compilation of a random program. A tenth of a second is usual."""


class Effort(Enum):
    """The effort of LLVM: next to none; its usual selection of instructions; all that it does for users."""

    PLAIN = 3
    SELECTED = 12
    OPTIMIZED = 30  # milliseconds that a program takes on average


class Broken(AssertionError):
    """Machine code has no state of its own, and LLVM makes it in seconds: that is not so."""


def draw_effort(rng: random.Random, *, thorough: bool = False) -> Effort:
    """`thorough` spends three times as much; so does the run of the tests that is for optimized code."""
    return rng.choices(list(Effort), (3, 1, 1) if thorough or SECOND else (20, 2, 1))[0]


def run_kernel(lowered: Function, target: Target, effort: Effort, arrays: Sequence[Array]) -> list[Array]:
    """The arguments after a call, in the order of the parameters; `arrays` stay as they are.

    It is called twice, since the second call finds old values in the workspace and on the stacks of threads.

    Raises:
        Broken: a second call differs; WrittenOutside: it wrote outside of its arguments, or into inputs.
    """
    program = emit(lowered, target)
    kernel = load(compiled(program, effort), program=program)
    rounds = []
    for _ in range(2):
        copies = [array.copy() for array in arrays]
        kernel(*copies)
        rounds.append(copies)
    first, last = rounds
    if any(a.tobytes() != b.tobytes() for a, b in zip(first, last, strict=True)):
        raise Broken(f"the second call gives other values than the first ({target}, {effort.name})")
    return last


def compile_elsewhere(lowered: Function, effort: Effort) -> None:
    """LLVM makes an object for another architecture, which is not run.

    Its fastest selection of instructions, which kernels are never made with, lacks copies of float16 there (LLVM 22.1).
    """
    assert compiled(emit(lowered, targets.ELSEWHERE), max(effort, Effort.SELECTED, key=_milliseconds)).object_code


def _milliseconds(effort: Effort) -> int:
    return effort.value


def compiled(program: Program, effort: Effort) -> CompiledProgram:
    """Compile a program to object code.

    Raises:
        Broken: LLVM takes longer than any random program may take, twice: another job may slow it down once.
    """
    for _ in range(2):
        started = time.perf_counter()
        made = _translate(program, effort)
        if (seconds := time.perf_counter() - started) <= MOST_SECONDS:
            return made
    raise Broken(f"LLVM took {seconds:.0f} s ({program.target}, {effort.name}) for\n{program.ll}")


def _translate(program: Program, effort: Effort) -> CompiledProgram:
    match effort:
        case Effort.PLAIN:
            return plain_code.unoptimized(program)
        case Effort.SELECTED:
            return plain_code.unoptimized(program, level=3)
        case Effort.OPTIMIZED:
            return plain_code.optimized(program)


def junk(shape: tuple[int, ...], dtype: str) -> Array:
    """Memory whose contents show where they are not overwritten."""
    return np.full(shape, np.nan if is_float(dtype) else 77, numpy_dtype(dtype))
