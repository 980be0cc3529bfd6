"""Everything that is emitted assembles for other architectures, and calls nothing there that a system may lack.

`.ci/emulate` runs the tests' kernels on them, too.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest
from lowered_programs import PARALLEL, SERIAL, VECTORIZED, alloc, elementwise, every_access, function, get, loop, put
from processors import for_target, missing_functions
from stage import SECOND

import pegbox as pb
from pegbox.codegen import emit
from pegbox.errors import InvalidConfig, ScheduleError
from pegbox.expr import dtypes
from pegbox.expr.build import cast, compare, maximum, minimum, select
from pegbox.expr.intrinsics import call
from pegbox.expr.nodes import Binary, Buffer, Expr
from pegbox.loops.nodes import ForKind, Function, seq

WITH_VECTORS = ("aarch64", "riscv64-vector")  # scalar RISC-V is among the tests of narrow floats
ARCHITECTURES = pytest.mark.parametrize("processor", WITH_VECTORS)


def every_operation(dtype: str) -> Function:
    """Arithmetic, comparisons, functions, and casts from and to every type, scalar and vectorized."""
    size = 128 // dtypes.BITS[dtype] + 5  # a whole vector, and a rest
    a = Buffer("a", (2, size), dtype)
    others = [Buffer(name, (size,), name) for name in dtypes.BITS]
    values: list[Callable[[Expr, Expr], Expr]] = []
    if dtype != "bool":
        values += [lambda x, y, op=op: Binary(op, x, y) for op in ("add", "sub", "mul", "min", "max")]  # type: ignore[misc]
        values += [lambda x, y: call("abs", select(x < y, maximum(x, y), minimum(x, y)))]
    if dtypes.is_float(dtype):
        names = ("exp", "log", "tanh", "sigmoid", "erf", "sqrt", "rsqrt", "floor", "ceil", "round")
        values += [lambda x, y, name=name: call(name, x) for name in names]  # type: ignore[misc]
        values += [lambda x, y: call("pow", x, y), lambda x, y: x / y]
    elif dtypes.is_int(dtype):
        values += [lambda x, y, op=op: Binary(op, x, y) for op in ("floordiv", "floormod")]  # type: ignore[misc]
    steps: list[tuple[Callable[[Expr, Expr], Expr], ForKind]] = [(value, VECTORIZED) for value in values]
    steps += [(value, SERIAL) for value in values[:8]]
    c = Buffer("c", (len(steps) + len(others), size), dtype)  # a row each, or LLVM would leave out what is overwritten
    bodies = [
        loop("i", size, lambda i, n=n, v=value: put(c, n, i, v(get(a, 0, i), get(a, 1, i))), kind)  # type: ignore[misc]
        for n, (value, kind) in enumerate(steps)
    ]
    for n, other in enumerate(others, len(steps)):
        bodies.append(loop("i", size, lambda i, o=other, n=n: put(c, n, i, cast(dtype, get(o, i))), VECTORIZED))  # type: ignore[misc]
        bodies.append(loop("i", size, lambda i, o=other: put(o, i, cast(o.dtype, get(a, 0, i))), VECTORIZED))  # type: ignore[misc]
    return function([a, c, *others], [c, *others], seq(*bodies))


# On x86 it is floats of 16 bits that processors differ in.
_OLDER = ("x86-64", "ivybridge", "haswell", "sapphirerapids")
_TYPES = [(processor, dtype) for processor in WITH_VECTORS for dtype in dtypes.BITS]
_TYPES += [(processor, dtype) for processor in _OLDER for dtype in ("float16",)]


@pytest.mark.parametrize(("processor", "dtype"), _TYPES)
def test_every_operation_of_every_type(dtype: str, processor: str) -> None:
    assert not missing_functions(emit(every_operation(dtype), for_target(processor)))


@ARCHITECTURES
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_kind_of_access(dtype: str, processor: str) -> None:
    """Accesses to narrower floats are in the tests of narrower floats."""
    for func in every_access(dtype):
        assert not missing_functions(emit(func, for_target(processor)))


@ARCHITECTURES
def test_a_comparison_in_a_parallel_loop_with_a_workspace(processor: str) -> None:
    a, t, c = Buffer("a", (8, 9000)), Buffer("t", (9000,)), Buffer("c", (8, 9000), "bool")

    def row(i: Expr) -> object:
        return alloc(
            t,
            loop("x", 9000, lambda x: put(t, x, get(a, i, x) * 2.0), VECTORIZED),
            loop("y", 9000, lambda y: put(c, i, y, compare("lt", get(t, 8999 - y), get(t, y))), VECTORIZED),
        )

    program = emit(function([a, c], [c], loop("i", 8, row, PARALLEL)), for_target(processor, cores=2))  # type: ignore[arg-type]
    assert program.num_threads == 2
    assert not missing_functions(program)


TEMPLATES = [
    *(("matmul", (9, 13, 7, dtype)) for dtype in ("float32", "float16", "bfloat16", "float64", "int32", "int8")),
    ("batch_matmul", (2, 5, 9, 8)),
    *(("conv2d", (1, 3, 7, 8, 5, 3, 3, 1, 1, 1, "NCHW", "", dtype)) for dtype in ("float32", "bfloat16", "int16")),
    ("conv2d", (1, 4, 6, 6, 8, 3, 3, 2, 1, 1, "NHWC", "", "float16")),
]


ON_EACH = [(processor, template, args) for template, args in TEMPLATES for processor in WITH_VECTORS]
ON_ONE = [(WITH_VECTORS[n % 2], template, args) for n, (template, args) in enumerate(TEMPLATES)]


@pytest.mark.parametrize(("processor", "template", "args"), ON_EACH if SECOND else ON_ONE, ids=str)
def test_built_in_templates(template: str, args: tuple[object, ...], processor: str) -> None:
    task = pb.create_task(template, args=args, target=for_target(processor, cores=2))
    programs = []
    for row in task.space.sample(8, np.random.default_rng(1)):
        with suppress(InvalidConfig, ScheduleError):
            programs.append(task.lower(task.space.config([int(digit) for digit in row])))
    # The others have the same operations more often, which LLVM takes seconds for.
    assert not missing_functions(min(programs, key=lambda program: len(program.ll)))


def test_a_plain_program_has_no_text_of_another_architecture() -> None:
    text = emit(elementwise("float32", lambda x, y: x * y + x), for_target("aarch64")).ll
    assert "x86" not in text
    assert "<4 x float>" in text
